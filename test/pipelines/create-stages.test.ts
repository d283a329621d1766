import type { Observable } from 'rxjs';
import { concat, concatMap, EMPTY, ignoreElements, map, NEVER, of, Subject, takeUntil, tap, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import { createLimiter, isFlowError, lanes, toAsyncIterable, tokenBucket } from '../../operators/index.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import type { AnyStage, DocumentResult, JournalEntry, StageResult } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { memoryJournal } from '../support/memory-journal.js';
import { refusing } from '../support/refusing.js';
import { deferred, turns } from '../traps/tools.js';

/** A value after some virtual time. */
function after<R>(ms: number, value: R): Observable<R> {
  return timer(ms).pipe(map(() => value));
}

/** A result in a few letters. */
function said(result: StageResult<unknown, unknown>): string {
  const name = result.type === 'item' ? `${result.documentId}:${result.item}` : result.documentId;
  if (result.type === 'item') return `${name} ${result.status === 'fulfilled' ? String(result.value) : reasonOf(result.reason)}`;
  return `${name} ${result.status === 'fulfilled' ? 'is over' : `failed: ${reasonOf(result.reason)}`}`;
}

function reasonOf(reason: unknown): string {
  return isFlowError(reason) ? reason.code : (reason as Error).message;
}

/** Two items of each document. */
const halves: AnyStage<string> = { name: 'cut', local: true, expands: true, work: (text: string) => [`${text}1`, `${text}2`] };

describe('results', () => {
  it('come as items finish, and tell whose they are and what came before', () => {
    virtualTime(({ flush }) => {
      const results: StageResult<string, unknown>[] = [];
      createStages(
        [
          { name: 'cut', expands: true, work: (text: string) => text.split('') },
          { name: 'slow', work: (letter) => after(letter === 'a' ? 20 : 10, letter.toUpperCase()) },
        ],
        { id: (text: string) => text },
      )
        .run(['ab'])
        .subscribe((result) => results.push(result));
      flush();
      expect(results.map(said)).toEqual(['ab:1 B', 'ab:0 A', 'ab is over']);
      const document = results.at(-1) as DocumentResult<string, unknown>;
      expect(document.items.map(said)).toEqual(['ab:0 A', 'ab:1 B']);
      expect(document).toMatchObject({ document: 'ab', documentIndex: 0 });
      expect(document.items[0]?.values).toEqual({ cut: 'a', slow: 'A' });
    });
  });

  it('are those of a document without items, too', () => {
    const seen: string[] = [];
    createStages([{ name: 'cut', expands: true, work: (_text: string) => [] as string[] }])
      .run(['a'])
      .subscribe((result) => seen.push(said(result)));
    expect(seen).toEqual(['0 is over']);
  });

  it('tell work about its item', () => {
    const seen: unknown[] = [];
    createStages(
      [
        { name: 'cut', expands: true, work: (text: string) => [text] },
        { name: 'cut again', expands: true, work: (part) => [part, `${part}'`] },
        {
          name: 'look',
          work: (_part, { document, documentId, item, stage, earlier, attempt, signal }) => {
            seen.push([document, documentId, item, stage, earlier, attempt, signal.aborted]);
          },
        },
      ],
      { id: (text: string) => `id of ${text}` },
    )
      .run(['a'])
      .subscribe();
    expect(seen).toEqual([
      ['a', 'id of a', '0.0', 'look', { cut: 'a', 'cut again': 'a' }, 1, false],
      ['a', 'id of a', '0.1', 'look', { cut: 'a', 'cut again': "a'" }, 1, false],
    ]);
  });
});

describe('failures', () => {
  const fault = new Error('no such thing');

  it('are the end of their document: siblings are aborted at once, and nothing of it begins any more', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      const aborted: string[] = [];
      const begun: string[] = [];
      createStages(
        [
          { name: 'cut', local: true, expands: true, work: (text: string) => [1, 2, 3, 4].map((n) => `${text}${String(n)}`) },
          {
            name: 'ask',
            concurrency: 2,
            work: (item, { signal }) => {
              begun.push(item);
              signal.addEventListener('abort', () => aborted.push(`${item} at ${String(now())}`));
              return item === 'a2' ? timer(10).pipe(concatMap(() => throwError(() => fault))) : after(30, item);
            },
          },
        ],
        { batches: { concurrency: 1 } },
      )
        .run(['a', 'b'])
        .subscribe((result) => seen.push(said(result)));
      flush();
      expect(aborted).toEqual(['a1 at 10']);
      expect(begun).toEqual(['a1', 'a2', 'b1', 'b2', 'b3', 'b4']);
      expect(seen).toEqual([
        ...['0:1 no such thing', '0:0 FLOW_CLOSED', '0:2 FLOW_CLOSED', '0:3 FLOW_CLOSED', '0 failed: no such thing'],
        ...['1:0 b1', '1:1 b2', '1:2 b3', '1:3 b4', '1 is over'],
      ]);
    });
  });

  it('say what was the end of the others', () => {
    const items: StageResult<string, unknown>[] = [];
    createStages([halves, { name: 'ask', work: (item) => (item === 'a1' ? throwError(() => fault) : NEVER) }] as readonly AnyStage[])
      .run(['a'])
      .subscribe((result) => items.push(result));
    const [first, second] = items as { reason: Error }[];
    expect(first?.reason).toBe(fault);
    expect(second?.reason.cause).toBe(fault);
  });

  it('are results of their own where that is allowed, and those of a document when all of its items have failed', () => {
    const seen: string[] = [];
    const ask = (item: string): Observable<string> => (item === 'a2' ? throwError(() => fault) : of(item));
    const both = (item: string): Observable<string> => (item.startsWith('b') ? throwError(() => fault) : ask(item));
    createStages([halves, { name: 'ask', allowPartialFailure: true, work: both }] as readonly AnyStage[])
      .run(['a', 'b'])
      .subscribe((result) => seen.push(said(result)));
    expect(seen).toEqual(['0:0 a1', '0:1 no such thing', '0 is over', '1:0 no such thing', '1:1 no such thing', '1 failed: no such thing']);
  });

  it.each(
    [1, 20].flatMap((atATime) =>
      [{ status: 500 }, { status: 429 }, { status: 503, headers: { 'retry-after': '1' } }].flatMap((error) =>
        [false, true].map((allowPartialFailure) => ({ atATime, error, allowPartialFailure })),
      ),
    ),
  )('do not happen where each request fails once and for a while: %o', ({ atATime, error, allowPartialFailure }) => {
    virtualTime(({ flush }) => {
      const attempts = new Map<string, number>();
      const ask = (item: string): Observable<string> => {
        const attempt = (attempts.get(item) ?? 0) + 1;
        attempts.set(item, attempt);
        return attempt === 1
          ? concat(
              after(10, item).pipe(ignoreElements()),
              throwError(() => error),
            )
          : after(10, item);
      };
      const seen: string[] = [];
      createStages([halves, { name: 'ask', allowPartialFailure, work: ask }] as readonly AnyStage[], {
        limiter: createLimiter({ concurrency: atATime }),
        batches: { concurrency: atATime },
      })
        .run(Array.from({ length: 20 }, (_, i) => `d${String(i)}-`))
        .subscribe((result) => seen.push(result.status));
      flush();
      expect(seen.filter((status) => status === 'fulfilled')).toHaveLength(20 * 3);
      expect(new Set(attempts.values())).toEqual(new Set([2]));
    });
  });

  it.each([
    [
      'an `id` that throws',
      {
        id: () => {
          throw fault;
        },
      },
    ],
    ['an empty `id`', { id: () => '' }],
    ['a `priority` of NaN', { batches: { scheduling: 'priority' as const, priority: () => Number.NaN } }],
    ['a cost in a unit that nothing counts', { stages: [{ name: 'ask', cost: () => ({ tokns: 1 }), work: (): number => 1 }] }],
    ['a negative cost', { stages: [{ name: 'ask', cost: () => ({ tokens: -1 }), work: (): number => 1 }] }],
    ['a result that is no list', { stages: [{ name: 'ask', expands: true, work: (): number => 1 }] }],
    [
      'work that throws',
      {
        stages: [
          {
            name: 'ask',
            work: () => {
              throw fault;
            },
          },
        ],
      },
    ],
  ])('of %s are those of the document', (_what, options) => {
    const seen: StageResult<string, unknown>[] = [];
    const { stages = [{ name: 'ask', work: () => 1 }], ...rest } = options as { readonly stages?: readonly AnyStage<string>[] };
    virtualTime(({ flush }) => {
      createStages(stages, rest)
        .run(['a', 'b'])
        .subscribe((result) => seen.push(result));
      flush();
    });
    expect(seen.filter(({ type, status }) => type === 'document' && status === 'rejected')).toHaveLength(2);
  });

  it('of the input come when what was read is over', () => {
    virtualTime(({ flush }) => {
      const seen: string[] = [];
      function* broken() {
        yield 'a';
        throw fault;
      }
      createStages([{ name: 'ask', work: (text: string) => after(10, text) }])
        .run(broken())
        .subscribe({ next: (result) => seen.push(said(result)), error: (error: unknown) => seen.push((error as Error).message) });
      flush();
      expect(seen).toEqual(['0: a', '0 is over', 'no such thing']);
    });
  });
});

describe('slots and permits', () => {
  it('are taken together: no stage keeps a slot for a request that waits for the rate, and the latest stage goes first', () => {
    virtualTime(({ flush, advance }) => {
      const begun: string[] = [];
      const limiter = createLimiter({ concurrency: 10 });
      const ask = (name: string, ms: number): AnyStage<string> => ({
        name,
        concurrency: 2,
        work: (item: string) => {
          begun.push(`${name} ${item}`);
          return after(ms, item);
        },
      });
      const stages = createStages([ask('first', 10), ask('last', 10)] as readonly AnyStage<string>[], {
        limiter,
        batches: { concurrency: 4 },
      });
      stages.run(['a', 'b', 'c', 'd']).subscribe();
      advance(5);
      limiter.pause();
      advance(20);
      // Two items have left the first stage, and two have not begun it: no item has a slot.
      const { stages: held, requests } = stages.snapshot();
      expect(held['first']).toMatchObject({ queued: 2, executing: 0, heldByRate: 2, heldBySlot: 0, admitted: 2, done: 2 });
      expect(held['last']).toMatchObject({ queued: 2, executing: 0, heldByRate: 2, admitted: 2 });
      expect(requests).toMatchObject({ queued: 4, heldByRate: 4, executing: 0, concurrency: 10 });
      limiter.resume();
      expect(begun.slice(2)).toEqual(['last a', 'last b', 'first c', 'first d']);
      flush();
    });
  });

  it('are counted for each stage, whatever its name', () => {
    const names = ['constructor', 'toString', '__proto__', 'hasOwnProperty'];
    const stages = createStages(names.map((name) => ({ name, work: (text: string) => text })) as readonly AnyStage<string>[]);
    expect(Object.entries(stages.snapshot().stages).map(([name, { queued, done }]) => [name, queued, done])).toEqual(
      names.map((name) => [name, 0, 0]),
    );
  });

  it('go to the latest stage when requests are scarce', () => {
    virtualTime(({ flush }) => {
      const begun: string[] = [];
      const ask = (name: string): AnyStage<string> => ({
        name,
        work: (item: string) => {
          begun.push(`${name} ${item}`);
          return after(10, item);
        },
      });
      createStages([ask('first'), ask('last')] as readonly AnyStage<string>[], { limiter: createLimiter({ concurrency: 1 }) })
        .run(['a', 'b', 'c'])
        .subscribe();
      flush();
      expect(begun).toEqual(['first a', 'last a', 'first b', 'last b', 'first c', 'last c']);
    });
  });

  it.each([
    ['fair', ['a1', 'a2', 'b1', 'b2', 'c1', 'c2']],
    ['roundRobin', ['a1', 'b1', 'a2', 'c1', 'b2', 'c2']],
    ['priority', ['c1', 'c2', 'b1', 'b2', 'a1', 'a2']],
  ] as const)('go to documents by `scheduling`: %s', (scheduling, expected) => {
    virtualTime(({ flush }) => {
      const begun: string[] = [];
      const ask = (item: string): Observable<string> => {
        begun.push(item);
        return after(10, item);
      };
      createStages([halves, { name: 'ask', work: ask }] as readonly AnyStage<string>[], {
        limiter: createLimiter({ concurrency: 1 }),
        batches: { concurrency: 2, scheduling, ...(scheduling === 'priority' && { priority: (text: string) => text.charCodeAt(0) }) },
      })
        .run(['a', 'b', 'c'])
        .subscribe();
      flush();
      expect(begun).toEqual(expected);
    });
  });

  it('come back during a pause between two attempts', () => {
    virtualTime(({ flush, now }) => {
      const begun: string[] = [];
      let isFirst = true;
      createStages(
        [
          {
            name: 'ask',
            concurrency: 1,
            retry: { delayMs: 100, jitter: 'none' },
            work: (text: string, { attempt }) => {
              begun.push(`${text}${String(attempt)} at ${String(now())}`);
              if (!isFirst) return after(10, text);
              isFirst = false;
              return throwError(() => ({ status: 503 }));
            },
          },
        ],
        { limiter: createLimiter({ concurrency: 1 }), random: () => 1 },
      )
        .run(['a', 'b'])
        .subscribe();
      flush();
      expect(begun).toEqual(['a1 at 0', 'b1 at 0', 'a2 at 100']);
    });
  });

  it('are those of a lane of the limiter, beside others', () => {
    virtualTime(({ flush, advance }) => {
      const begun: string[] = [];
      const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'person' }, { name: 'bulk' }]) });
      const other = (): Observable<unknown> => {
        begun.push('another job');
        return after(10, 0);
      };
      createStages([{ name: 'ask', work: (text: string) => after(10, begun.push(text)) }], { limiter, lane: 'bulk' })
        .run(['a', 'b', 'c'])
        .subscribe();
      advance(5);
      limiter.run(other, { lane: 'person' }).subscribe();
      flush();
      expect(begun).toEqual(['a', 'another job', 'b', 'c']);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });

  it('cost what a stage or a step says, and come back with what was used', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({
        rates: [tokenBucket({ unit: 'tokens', amount: 1000, windowMs: 1_000_000, burst: 1000 })],
        headroom: 1,
      });
      const seen: unknown[] = [];
      const left = () => Math.round(limiter.snapshot().tokens);
      createStages(
        [
          {
            name: 'ask',
            cost: (text: string) => ({ tokens: 100 * text.length }),
            work: (text: string, { settle }) => {
              seen.push(left());
              settle({ inputTokens: 50, outputTokens: 0 });
              return text;
            },
          },
          { name: 'more', steps: (_text, { request }) => request(() => seen.push(left()), { tokens: 200 }) },
        ],
        { limiter, batches: { concurrency: 1 } },
      )
        .run(['abc'])
        .subscribe();
      flush();
      expect(seen).toEqual([700, 750]);
    });
  });

  it('that can never be granted are refused', () => {
    const limiter = createLimiter({
      rates: [refusing(tokenBucket({ unit: 'tokens', amount: 10, windowMs: 1000, burst: 10 }))],
      headroom: 1,
    });
    const seen: string[] = [];
    createStages([{ name: 'ask', cost: { tokens: 11 }, work: (text: string) => text }], { limiter })
      .run(['a'])
      .subscribe((result) => seen.push(said(result)));
    expect(seen).toEqual(['0: FLOW_ITEM_TOO_HEAVY', '0 failed: FLOW_ITEM_TOO_HEAVY']);
  });

  it('are refused by a limiter that was closed', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const seen: string[] = [];
      createStages([{ name: 'ask', concurrency: 1, work: (text: string) => after(10, text) }], { limiter })
        .run(['a', 'b', 'c'])
        .subscribe((result) => seen.push(said(result)));
      limiter.close();
      flush();
      expect(seen.filter((line) => line.includes('failed'))).toEqual(['1 failed: FLOW_CLOSED', '2 failed: FLOW_CLOSED']);
    });
  });
});

describe('the input', () => {
  it('is read only while a document can be begun, and closed when it is left', () => {
    virtualTime(({ advance }) => {
      let read = 0;
      let isClosed = false;
      function* endless() {
        try {
          for (;;) yield read++;
        } finally {
          isClosed = true;
        }
      }
      const running = createStages([{ name: 'ask', work: (n: number) => after(10, n) }], { batches: { concurrency: 3 } })
        .run(endless())
        .subscribe();
      advance(95);
      expect(read).toBe(30);
      running.unsubscribe();
      expect(isClosed).toBe(true);
    });
  });

  it('may be an async iterable or a stream, and is not read ahead of a reader', async () => {
    let read = 0;
    async function* letters() {
      for (const letter of 'abcdefgh') {
        read++;
        yield await Promise.resolve(letter);
      }
    }
    const stages = createStages([{ name: 'ask', work: (text: string) => Promise.resolve(text) }], { batches: { concurrency: 2 } });
    const seen: string[] = [];
    for await (const result of toAsyncIterable(stages.run(letters()))) {
      await turns(50);
      seen.push(said(result));
      expect(read).toBeLessThanOrEqual(seen.length / 2 + 3);
    }
    expect(seen.filter((line) => line.endsWith('over'))).toHaveLength(8);
  });

  it('of several runs is read in turn, within one limit', () => {
    virtualTime(({ flush }) => {
      const begun: string[] = [];
      const stages = createStages([{ name: 'ask', work: (text: string) => after(10, begun.push(text)) }], { batches: { concurrency: 1 } });
      stages.run(['a1', 'a2', 'a3']).subscribe();
      stages.run(['b1', 'b2', 'b3']).subscribe();
      flush();
      expect(begun).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
    });
  });

  it('may have five thousand documents whose work is over at once, and a document as many items', { timeout: 120_000 }, () => {
    let documents = 0;
    let items = 0;
    const count = 5_000;
    function* numbers() {
      for (let n = 0; n < count; n++) yield n;
    }
    createStages([{ name: 'ask', concurrency: 2, work: (n: number) => n }])
      .run(numbers())
      .subscribe(({ type }) => (documents += type === 'document' ? 1 : 0));
    createStages([
      { name: 'cut', expands: true, work: (_n: number) => Array.from({ length: count }, (_, i) => i) },
      { name: 'ask', concurrency: 2, work: (n) => n },
    ])
      .run([0])
      .subscribe(({ type }) => (items += type === 'item' ? 1 : 0));
    expect([documents, items]).toEqual([count, count]);
  });
});

describe('steps', () => {
  it('hold nothing between two requests, and go before what has not been begun', () => {
    virtualTime(({ flush, advance }) => {
      const begun: string[] = [];
      const stages = createStages(
        [
          {
            name: 'extract',
            steps: (text: string, { request }) => {
              const step = (n: number): Observable<number> => request(() => after(10, begun.push(`${text}${String(n)}`)));
              return concat(step(1), timer(15).pipe(concatMap(() => EMPTY)), step(2), step(3));
            },
          },
        ],
        { limiter: createLimiter({ concurrency: 1 }) },
      );
      stages.run(['a', 'b']).subscribe();
      advance(12);
      expect(stages.snapshot().stages['extract']).toMatchObject({ admitted: 2, executing: 1, queued: 0 });
      flush();
      expect(begun).toEqual(['a1', 'b1', 'a2', 'a3', 'b2', 'b3']);
    });
  });

  it('end with their item, whatever they have left behind', async () => {
    const signals: AbortSignal[] = [];
    const limiter = createLimiter({ concurrency: 2, abortGraceMs: 0 });
    const stages = createStages(
      [
        {
          name: 'race',
          steps: async (text: string, { requestAsync }) => {
            void requestAsync(({ signal }) => {
              signals.push(signal);
              return new Promise(() => undefined);
            });
            await requestAsync(() => Promise.resolve());
            return text;
          },
        },
      ],
      { limiter },
    );
    await stages.run(['a']).forEach(() => undefined);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(limiter.executing).toBe(0);
  });

  it('that were given up get no further request', async () => {
    const made: number[] = [];
    const answer = deferred<undefined>();
    const said = deferred<unknown>();
    const running = createStages([
      {
        name: 'extract',
        steps: async (_text: string, { requestAsync, signal }) => {
          await answer.promise;
          expect(signal.aborted).toBe(true);
          await requestAsync(() => made.push(1)).catch(said.resolve);
        },
      },
    ])
      .run(['a'])
      .subscribe();
    running.unsubscribe();
    answer.resolve(undefined);
    expect(await said.promise).toMatchObject({ name: 'AbortError' });
    expect(made).toEqual([]);
  });
});

describe('time', () => {
  it('of an attempt counts from its permit, that of an item from its entry', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      createStages(
        [
          {
            name: 'ask',
            timeoutMs: 30,
            deadlineMs: 70,
            retry: false,
            allowPartialFailure: true,
            work: (text: string) => (text === 'b' ? NEVER : after(25, text)),
          },
        ],
        { limiter: createLimiter({ concurrency: 1 }) },
      )
        .run(['a', 'b', 'c'])
        .subscribe((result) => {
          if (result.type === 'item') seen.push(`${said(result)} at ${String(now())}`);
        });
      flush();
      expect(seen).toEqual(['0: a at 25', '1: FLOW_ATTEMPT_TIMEOUT at 55', '2: FLOW_DEADLINE at 70']);
    });
  });
});

describe('a journal', () => {
  const stagesWith = (journal: ReturnType<typeof memoryJournal>, begun: string[]) =>
    createStages(
      [
        { name: 'cut', local: true, expands: true, work: (text: string) => after(1, text.split('')) },
        { name: 'ask', work: (letter) => after(10, letter.toUpperCase() + String(begun.push(letter)).slice(0, 0)) },
        { name: 'grade', concurrency: 1, work: (letter) => after(10, `${letter}!` + String(begun.push(`${letter}!`)).slice(0, 0)) },
      ],
      { journal, id: (text: string) => text },
    );

  it('that has part of a document has the rest asked for, and nothing twice', () => {
    virtualTime(({ flush, advance }) => {
      const journal = memoryJournal();
      const before: string[] = [];
      const running = stagesWith(journal, before).run(['abc']).subscribe();
      advance(25);
      running.unsubscribe();
      expect(before).toEqual(['a', 'b', 'c', 'A!', 'B!']);
      const rest: string[] = [];
      const seen: string[] = [];
      stagesWith(journal, rest)
        .run(['abc'])
        .subscribe((result) => seen.push(said(result)));
      flush();
      // The one that was under way is asked for again.
      expect(rest).toEqual(['B!', 'C!']);
      expect(seen).toEqual(['abc:0 A!', 'abc:1 B!', 'abc:2 C!', 'abc is over']);
    });
  });

  it('lets an item go on only when its value is safe', async () => {
    const safe = deferred<undefined>();
    const entries: JournalEntry[] = [];
    const seen: string[] = [];
    createStages([{ name: 'ask', work: (text: string) => text }], {
      journal: {
        recall: () => Promise.resolve([]),
        append: (entry) => {
          entries.push(entry);
          return safe.promise;
        },
      },
    })
      .run(['a'])
      .subscribe((result) => seen.push(said(result)));
    await turns(10);
    expect(entries).toEqual([{ documentId: '0', stage: 'ask', item: '', value: 'a' }]);
    expect(seen).toEqual([]);
    safe.resolve(undefined);
    await turns(10);
    expect(seen).toEqual(['0: a', '0 is over']);
  });

  it.each([
    [[null], '`null`'],
    [[{ stage: 'ask', item: '', value: 1 }, undefined], '`undefined`'],
    [['ask'], '`ask` (string)'],
    [[['ask', '']], 'one whose `stage` is `undefined`'],
    [[{}], 'one whose `stage` is `undefined`'],
    [[{ stage: {}, item: '' }], 'one whose `stage` is an object of type Object'],
    [[{ stage: 'ask' }], 'one whose `item` is `undefined`'],
    [[{ stage: 'ask', item: 0 }], 'one whose `item` is `0` (number)'],
  ])('that recalls an invalid entry says so: %j', async (entries, got) => {
    const ended = deferred<unknown>();
    createStages([{ name: 'ask', work: (text: string) => text }], { journal: { recall: () => entries as never, append: () => undefined } })
      .run(['a'])
      .subscribe({ error: ended.resolve });
    expect(await ended.promise).toMatchObject({
      code: 'FLOW_CALLBACK',
      message: `createStages: \`journal.recall\` must return entries with the texts \`stage\` and \`item\`, returned ${got}`,
    });
  });

  it.each([
    ['cannot be read', { recall: () => Promise.reject(new Error('disk')), append: () => undefined }, 'disk'],
    ['answers nonsense', { recall: () => 'known' as never, append: () => undefined }, 'FLOW_CALLBACK'],
    ['cannot be written', { recall: () => [], append: () => Promise.reject(new Error('disk')) }, 'disk'],
    [
      'throws',
      {
        recall: () => [],
        append: () => {
          throw new Error('disk');
        },
      },
      'disk',
    ],
  ])('that %s ends the run, and aborts what is under way', async (_what, journal, reason) => {
    const signals: AbortSignal[] = [];
    const ended = deferred<unknown>();
    createStages(
      [
        {
          name: 'ask',
          work: (text: string, { signal }) => {
            if (text === 'b') return text;
            signals.push(signal);
            return NEVER;
          },
        },
      ],
      { journal },
    )
      .run(['a', 'b'])
      .subscribe({ error: ended.resolve });
    expect(reasonOf(await ended.promise)).toBe(reason);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });
});

describe('the end', () => {
  it('by `drain` reads no more, finishes what is in progress, and says so', async () => {
    const answers = new Subject<void>();
    const seen: string[] = [];
    const events: FlowEvent[] = [];
    const stages = createStages([{ name: 'ask', work: (text: string) => answers.pipe(map(() => text)) }], {
      name: 'papers',
      batches: { concurrency: 2 },
    });
    stages.events.subscribe((event) => events.push(event));
    stages.run(['a', 'b', 'c']).subscribe({ next: (result) => seen.push(said(result)), complete: () => seen.push('complete') });
    const drained = stages.drain();
    answers.next();
    answers.complete();
    expect(await drained).toEqual({ done: 2, aborted: 0, dropped: 0 });
    expect(seen).toEqual(['0: a', '0 is over', '1: b', '1 is over', 'complete']);
    expect(events.at(-1)).toMatchObject({ type: 'drained', operator: 'createStages', instance: 'papers' });
    stages.run(['d']).subscribe({ error: (error: unknown) => seen.push(reasonOf(error)) });
    expect(seen.at(-1)).toBe('FLOW_CLOSED');
  });

  it('by `close` rejects what is not over, aborted or never begun', async () => {
    const seen: string[] = [];
    let signal: AbortSignal | undefined;
    const stages = createStages(
      [
        {
          name: 'ask',
          work: (_text: string, context) => {
            ({ signal } = context);
            return NEVER;
          },
        },
      ],
      { batches: { concurrency: 1, scheduling: 'priority', priority: () => 0 } },
    );
    stages.run(['a', 'b']).subscribe({ next: (result) => seen.push(said(result)), complete: () => seen.push('complete') });
    await new Promise((resolve) => setTimeout(resolve, 5));
    stages.close();
    expect(signal?.aborted).toBe(true);
    expect(seen).toEqual(['1 failed: FLOW_CLOSED', '0: FLOW_CLOSED', '0 failed: FLOW_CLOSED', 'complete']);
    expect(await stages.drain()).toEqual({ done: 0, aborted: 1, dropped: 1 });
  });
});

describe('what is told', () => {
  it('lets the inspector follow every request: stages are lanes, nothing is lost, and nothing names a document', () => {
    virtualTime(({ flush }) => {
      const model = new FlowModel();
      const events: FlowEvent[] = [];
      createStages([halves, { name: 'ask', work: (item) => after(10, item) }] as readonly AnyStage<string>[], {
        name: 'papers',
        id: (text: string) => text,
        onEvent: (event) => {
          events.push(event);
          model.add(event);
        },
      })
        .run(['secret', 'hidden'])
        .subscribe();
      flush();
      expect(model.counters).toMatchObject({ accepted: 6, settled: 6, calls: 6, lost: 0 });
      expect(model.lanes.map(({ name }) => name).toSorted()).toEqual(['ask', 'cut']);
      expect(events.every(({ operator, instance }) => operator === 'createStages' && instance === 'papers')).toBe(true);
      const isOfRequest = ({ type }: FlowEvent): boolean => !/^(document|item)/.test(type);
      expect(new Set(events.filter(isOfRequest).map(({ batchId }) => batchId))).toEqual(
        new Set(['0::cut', '1::cut', '0:0:ask', '0:1:ask', '1:0:ask', '1:1:ask']),
      );
      expect(new Set(events.filter((event) => !isOfRequest(event)).map(({ batchId }) => batchId))).toEqual(
        new Set(['0', '1', '0:0', '0:1', '1:0', '1:1']),
      );
      expect(JSON.stringify(events)).not.toMatch(/secret|hidden/);
    });
  });

  it('says when a document begins and ends, and what came of its items', () => {
    virtualTime(({ flush }) => {
      const told: unknown[] = [];
      const fault = Object.assign(new Error('no'), { status: 400 });
      const stages = createStages(
        [
          halves,
          { name: 'ask', allowPartialFailure: true, work: (item) => (item === 'b1' ? throwError(() => fault) : after(10, item)) },
        ] as readonly AnyStage[],
        {
          batches: { concurrency: 2 },
          onEvent: ({ operator: _, instance: __, ...event }) => {
            if (/^(document|item)/.test(event.type)) told.push(event);
          },
        },
      );
      stages.run(['a', 'b', 'c']).subscribe();
      flush();
      expect(told).toEqual([
        { type: 'documentStarted', batchId: '0', executing: 1, queued: 2, at: 0 },
        { type: 'documentStarted', batchId: '1', executing: 2, queued: 1, at: 0 },
        { type: 'itemEnded', batchId: '1:0', lane: 'ask', outcome: 'rejected', at: 0 },
        { type: 'itemEnded', batchId: '0:0', lane: 'ask', outcome: 'fulfilled', at: 10 },
        { type: 'itemEnded', batchId: '0:1', lane: 'ask', outcome: 'fulfilled', at: 10 },
        { type: 'documentEnded', batchId: '0', outcome: 'fulfilled', totalMs: 10, items: 2, failed: 0, at: 10 },
        { type: 'documentStarted', batchId: '2', executing: 2, queued: 0, at: 10 },
        { type: 'itemEnded', batchId: '1:1', lane: 'ask', outcome: 'fulfilled', at: 10 },
        { type: 'documentEnded', batchId: '1', outcome: 'fulfilled', totalMs: 10, items: 2, failed: 1, at: 10 },
        { type: 'itemEnded', batchId: '2:0', lane: 'ask', outcome: 'fulfilled', at: 20 },
        { type: 'itemEnded', batchId: '2:1', lane: 'ask', outcome: 'fulfilled', at: 20 },
        { type: 'documentEnded', batchId: '2', outcome: 'fulfilled', totalMs: 10, items: 2, failed: 0, at: 20 },
      ]);
    });
  });

  it('says that a document ends when its consumer leaves, and one that failed as a whole', () => {
    virtualTime(({ flush, advance }) => {
      const told: unknown[] = [];
      const stages = createStages(
        [{ name: 'ask', work: (text: string) => (text === 'bad' ? throwError(() => new TypeError('no')) : after(100, text)) }],
        {
          onEvent: (event) =>
            event.type === 'documentEnded' && told.push([event.batchId, event.outcome, event.totalMs, event.items, event.failed]),
        },
      );
      const results = stages.run(['good', 'bad']).subscribe();
      advance(30);
      results.unsubscribe();
      flush();
      expect(told).toEqual([
        ['1', 'rejected', 0, 1, 1],
        ['0', 'cancelled', 30, 0, 0],
      ]);
      expect(stages.snapshot().documents).toMatchObject({ executing: 0, done: 0, failed: 1 });
    });
  });

  it.each(['documentStarted', 'itemEnded', 'documentEnded'] as const)('bears a consumer that leaves when it hears of `%s`', (type) => {
    virtualTime(({ flush }) => {
      const told: string[] = [];
      const asked: string[] = [];
      const results = new Subject<void>();
      const stages = createStages([{ name: 'ask', work: (text: string) => (asked.push(text), after(10, text)) }], {
        batches: { concurrency: 1 },
        onEvent: (event) => {
          if (/^document/.test(event.type)) told.push(event.type);
          if (event.type === type) results.next();
        },
      });
      stages.run(['a', 'b']).pipe(takeUntil(results)).subscribe();
      flush();
      expect(told).toEqual(['documentStarted', 'documentEnded']);
      expect(asked).toEqual(type === 'documentStarted' ? [] : ['a']);
      expect(stages.snapshot()).toMatchObject({ documents: { executing: 0, queued: 0 }, requests: { executing: 0, queued: 0 } });
    });
  });
});

describe('what there is to see', () => {
  it('are documents that wait, in progress, and how long they and their items take on average', () => {
    virtualTime(({ flush, advance }) => {
      const stages = createStages(
        [
          { name: 'cut', local: true, expands: true, work: (text: string) => [1, 2, 3, 4, 5, 6].map((n) => `${text}${String(n)}`) },
          { name: 'extract', concurrency: 4, scope: 'perBatch', work: (chunk: string) => after(10, chunk) },
        ],
        { limiter: createLimiter({ concurrency: 4 }), batches: { concurrency: 2 } },
      );
      stages.run(['a', 'b', 'c']).subscribe();
      advance(1);
      // Two documents of six chunks each are in process, four requests really run, and the third document waits.
      const { documents, stages: levels, requests } = stages.snapshot();
      expect(documents).toMatchObject({ executing: 2, queued: 1, meanMs: 0 });
      expect(levels['extract']).toMatchObject({ admitted: 12, executing: 4, queued: 8, meanMs: 0 });
      expect(requests.executing).toBe(4);
      flush();
      const { documents: over, stages: done } = stages.snapshot();
      expect(over).toMatchObject({ executing: 0, queued: 0, done: 3 });
      // In fours: a is through at 20, b at 30, and c takes two times from then on, or when a slot is free.
      expect(over.meanMs).toBeCloseTo((20 + 30 + 30) / 3);
      expect(done['extract']?.done).toBe(18);
      expect(done['extract']?.meanMs).toBeGreaterThan(10);
      expect(done['cut']).toMatchObject({ meanMs: 0, done: 3 });
    });
  });

  it('are documents read ahead, and no more of an input that does not say how many it has', () => {
    virtualTime(({ flush, advance }) => {
      const stages = createStages([{ name: 'ask', work: (n: number) => after(10, n) }], {
        batches: { concurrency: 1, scheduling: 'priority', priority: (n) => n, maxQueued: 3 },
      });
      const numbers = function* (): Generator<number> {
        for (let n = 0; n < 10; n++) yield n;
      };
      stages.run(numbers()).subscribe();
      advance(1);
      expect(stages.snapshot().documents).toMatchObject({ executing: 1, queued: 3 });
      flush();
      expect(stages.snapshot().documents).toMatchObject({ executing: 0, queued: 0, done: 10, meanMs: 10 });
    });
  });

  it('are no times of what a journal knew', () => {
    virtualTime(({ flush }) => {
      const journal = {
        recall: (id: string) => (id === '0' ? [{ documentId: id, stage: 'ask', item: '', value: 'known' }] : []),
        append: () => undefined,
      };
      const stages = createStages([{ name: 'ask', work: (text: string) => after(10, text) }], { journal });
      stages.run(['a', 'b']).subscribe();
      flush();
      expect(stages.snapshot().stages['ask']).toMatchObject({ done: 2, meanMs: 10 });
    });
  });
});

describe('limits that change', () => {
  it.each(['shared', 'perBatch'] as const)('change how many requests of a stage are under way: %s', (scope) => {
    virtualTime(({ flush, advance }) => {
      const limit = new Subject<number>();
      const changes = concat(of(1), limit);
      let running = 0;
      const stages = createStages(
        [
          { name: 'cut', local: true, expands: true, work: () => Array.from({ length: 20 }, (_, i) => i) },
          {
            name: 'ask',
            concurrency: changes,
            scope,
            work: (item) => {
              running++;
              return after(10, item).pipe(tap(() => running--));
            },
          },
        ],
        { batches: { concurrency: 1 } },
      );
      stages.run(['a', 'b']).subscribe();
      advance(1);
      expect([running, stages.snapshot().stages['ask']?.concurrency]).toEqual([1, 1]);
      limit.next(3);
      expect([running, stages.snapshot().stages['ask']?.concurrency]).toEqual([3, 3]);
      limit.next(2);
      advance(20);
      expect(running).toBe(2);
      limit.next(Infinity);
      expect(running).toBeGreaterThan(10);
      limit.next(5);
      advance(20);
      // The next document begins with the limit of now.
      expect(running).toBe(5);
      expect(stages.snapshot().stages['ask']).toMatchObject({ executing: 5, queued: 10, heldBySlot: 10 });
      flush();
      expect(stages.snapshot().documents.done).toBe(2);
    });
  });

  it('have none before their first value', () => {
    const stages = createStages([{ name: 'ask', concurrency: NEVER, work: () => NEVER }], { batches: { concurrency: NEVER } });
    stages.run(Array.from({ length: 9 }, (_, i) => i)).subscribe();
    expect(stages.snapshot()).toMatchObject({
      documents: { concurrency: 4, executing: 4, queued: 5 },
      stages: { ask: { concurrency: Infinity, executing: 4 } },
    });
  });

  it('change how many documents are in progress: more are begun at once, fewer when some have ended', () => {
    virtualTime(({ flush, advance }) => {
      const limit = new Subject<number>();
      const stages = createStages([{ name: 'ask', work: (n: number) => after(10, n) }], { batches: { concurrency: limit } });
      stages.run(Array.from({ length: 40 }, (_, i) => i)).subscribe();
      limit.next(1);
      expect(stages.snapshot().documents).toMatchObject({ concurrency: 1, executing: 4 });
      advance(10);
      expect(stages.snapshot().documents).toMatchObject({ executing: 1, queued: 35 });
      limit.next(6);
      expect(stages.snapshot().documents).toMatchObject({ executing: 6, queued: 30 });
      flush();
      expect(stages.snapshot().documents).toMatchObject({ done: 40, executing: 0 });
    });
  });

  it('that fail or are invalid end everything with that error, and are unsubscribed at the end', () => {
    for (const fault of [0, 1.5, new Error('gone')]) {
      const limit = new Subject<number>();
      const seen: unknown[] = [];
      const stages = createStages([{ name: 'ask', concurrency: limit, work: () => NEVER }]);
      stages.run(['a']).subscribe((result) => seen.push(result.status === 'rejected' && result.reason));
      if (typeof fault === 'number') limit.next(fault);
      else limit.error(fault);
      expect(seen).toHaveLength(2);
      const { cause } = seen[1] as Error;
      expect(String(cause ?? seen[1])).toMatch(typeof fault === 'number' ? /stages\[0\]\.concurrency/ : /gone/);
      expect(limit.observed).toBe(false);
    }
    const limit = new Subject<number>();
    const stages = createStages([{ name: 'ask', work: () => 1 }], { batches: { concurrency: limit } });
    expect(limit.observed).toBe(true);
    stages.close();
    expect(limit.observed).toBe(false);
  });
});
