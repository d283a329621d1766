import { lastValueFrom, of, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { AnyStage, JournalEntry, StageResult } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { memoryJournal } from '../support/memory-journal.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

const refuse = (): never => {
  throw new Error('unreadable');
};

function sparse(): unknown[] {
  const list: unknown[] = ['a'];
  list[2] = 'c';
  return list;
}

function revoked(): unknown[] {
  const { proxy, revoke } = Proxy.revocable([1], {});
  revoke();
  return proxy;
}

/** Lists that are not what they look like, and whether each can be read at all. */
const lists: Readonly<Record<string, { readonly make: () => unknown[]; readonly items: readonly unknown[] | undefined }>> = {
  'with a hole': { make: sparse, items: ['a', undefined, 'c'] },
  'of nothing but holes': {
    make: () => Array.from({ length: 2, 0: undefined }).concat(new Array(1)),
    items: [undefined, undefined, undefined],
  },
  'with a getter that throws': { make: () => Object.defineProperty([1, 2], 0, { get: refuse }), items: undefined },
  'of which only the length is known': { make: () => new Proxy([1], { get: refuse }), items: undefined },
  'that is gone': { make: revoked, items: undefined },
};

/** The ways in which a stage may answer it. */
const ways: Readonly<Record<string, (make: () => unknown[]) => Partial<AnyStage>>> = {
  work: (make) => ({ work: make }),
  'the promise of work': (make) => ({ work: () => Promise.resolve().then(make) }),
  'the stream of work': (make) => ({ work: () => of(make()) }),
  steps: (make) => ({ steps: make }),
  'the promise of steps': (make) => ({ steps: (_item, { requestAsync }) => requestAsync(make) }),
};

const rows = Object.entries(lists).flatMap(([what, list]) => Object.entries(ways).map(([how, way]) => ({ what, how, way, list })));

function valuesOf(results: readonly StageResult<unknown, unknown>[]): unknown {
  const last = results.at(-1);
  if (last?.type !== 'document') return 'no document';
  return last.items.map((item) => (item.status === 'fulfilled' ? item.value : 'rejected'));
}

describe('a list that a stage answers', () => {
  it.each(rows)('is read as far as it can be, and ends its document in any case: $what, $how', async ({ way, list }) => {
    const journal = memoryJournal();
    for (const given of [{}, { journal }, { journal }]) {
      const cut = { name: 'cut', expands: true, retry: false, ...way(list.make) } as AnyStage<string>;
      const stages = createStages([cut, { name: 'use', work: (part: unknown) => Promise.resolve(part) }], { ...given });
      const results = await lastValueFrom(stages.run(['a document']).pipe(toArray()));
      expect(valuesOf(results)).toEqual(list.items ?? ['rejected']);
      expect(results.at(-1)?.status).toBe(list.items ? 'fulfilled' : 'rejected');
      expect(await stages.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
    }
  });

  it.each(Object.entries(lists))('is no harm in a journal either: %s', async (_what, { make, items }) => {
    const recall = (documentId: string): JournalEntry[] => [{ documentId, stage: 'cut', item: '', value: make() }];
    const stages = createStages(
      [
        { name: 'cut', expands: true, work: (): string[] => [] },
        { name: 'use', work: (part: unknown) => Promise.resolve(part) },
      ],
      { journal: { recall, append: () => undefined } },
    );
    expect(valuesOf(await lastValueFrom(stages.run(['a document']).pipe(toArray())))).toEqual(items ?? ['rejected']);
  });

  it('is that of the moment when it was answered', async () => {
    const list = ['a', 'b'];
    const append = async (): Promise<void> => {
      await Promise.resolve();
      list.length = 1;
    };
    const stages = createStages([{ name: 'cut', expands: true, work: () => list }], { journal: { recall: () => [], append } });
    expect(valuesOf(await lastValueFrom(stages.run(['a document']).pipe(toArray())))).toEqual(['a', 'b']);
  });
});
