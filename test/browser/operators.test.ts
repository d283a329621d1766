import { firstValueFrom, from, lastValueFrom, map, of, Subject, timer, toArray } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { describe, expect, it } from 'vitest';
import { checkLaws } from '../../marbles/laws.js';
import { runSpec } from '../../marbles/run.js';
import { batch, batchMap, fromStream, switchLatest, unwrap } from '../../operators/index.js';

describe('the operators in the browser', () => {
  it('batch by size, and by time on the real clock', async () => {
    expect(await lastValueFrom(of(1, 2, 3).pipe(batch({ maxSize: 2 }), toArray()))).toEqual([[1, 2], [3]]);
    const source = new Subject<string>();
    const first = firstValueFrom(source.pipe(batch({ maxWaitMs: 5 })));
    source.next('a');
    source.next('b');
    expect(await first).toEqual(['a', 'b']);
  });

  it('batchMap hands every item its own result', async () => {
    const double = (items: readonly number[]) => timer(1).pipe(map(() => items.map((n) => n * 2)));
    const results = await lastValueFrom(from([1, 2, 3, 4, 5]).pipe(batchMap(double, { maxSize: 2, concurrency: 2 }), unwrap('all')));
    expect(results).toEqual([2, 4, 6, 8, 10]);
  });

  it('switchLatest aborts the request of the older call before the newer one starts', async () => {
    const order: string[] = [];
    const failures: Promise<unknown>[] = [];
    const ask = (name: string, signal: AbortSignal): Promise<string> => {
      order.push(`ask ${name}`);
      signal.addEventListener('abort', () => order.push(`abort ${name}`));
      // The server of the page has this file.
      const answer = fetch(import.meta.url, { signal }).then((response) => `${name}: ${String(response.ok)}`);
      failures.push(answer.catch((error: unknown) => (error as Error).name));
      return answer;
    };
    const seen = await lastValueFrom(
      of('old', 'new').pipe(
        switchLatest((name, { signal }) => ask(name, signal)),
        toArray(),
      ),
    );
    expect(seen).toEqual(['new: true']);
    expect(order).toEqual(['ask old', 'abort old', 'ask new']);
    expect(await Promise.all(failures)).toEqual(['AbortError', 'new: true']);
  });

  it('fromStream cancels the stream of a response', async () => {
    let cancelled: unknown;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(new TextEncoder().encode('to'));
      },
      cancel: (reason) => {
        cancelled = reason;
      },
    });
    const text = () => new Response(body).body!.pipeThrough(new TextDecoderStream());
    expect(await firstValueFrom(fromStream(text))).toBe('to');
    await new Promise(requestAnimationFrame);
    expect(cancelled).toHaveProperty('name', 'AbortError');
  });
});

describe('virtual time in the browser', () => {
  it('runs a minute at once', () => {
    const scheduler = new TestScheduler((actual, expected) => {
      expect(actual).toEqual(expected);
    });
    scheduler.run(({ cold, expectObservable }) => {
      const source = cold('a 59s b 61s |');
      expectObservable(source.pipe(batch({ maxWaitMs: 60_000 }))).toBe('60s x 60001ms |', { x: ['a', 'b'] });
    });
  });

  it('runs a spec of the kit, and the laws', () => {
    const recording = runSpec(
      {
        inputs: { source: '-a-b-c---|' },
        subscriptions: { source: '^--------!' },
        expected: '       ---x-----(y|)',
        values: { x: ['a', 'b'], y: ['c'] },
        build: ({ input }) => input('source').pipe(batch({ maxSize: 2, maxWaitMs: 20 })),
      },
      (actual, expected) => {
        expect(actual).toEqual(expected);
      },
    );
    expect(recording.result.marks).toHaveLength(3);
    const pairs = { operator: 'pairs', create: () => batch<number>({ maxSize: 2 }), itemsOf: (items: number[]) => items, holdsAtMost: 2 };
    expect(checkLaws(pairs)).toHaveLength(7);
  });
});
