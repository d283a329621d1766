import type { Observable } from 'rxjs';
import { concat, NEVER, of, Subject, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Settled } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  bulkheadMap,
  ClosedError,
  createLimiter,
  DeadlineError,
  inputOrder,
  settleAll,
} from '../../operators/index.js';

/** What came when: the value, or the name of the error and how often the item was started. */
function seenBy<T, R>(stream: Observable<Settled<T, R>>, now: () => number): string[] {
  const seen: string[] = [];
  stream.subscribe({
    next: (settled) => {
      const { input, attempts } = settled;
      const what = settled.status === 'fulfilled' ? String(settled.value) : `${(settled.reason as Error).name}/${attempts}`;
      seen.push(`${now()} ${String(input)}: ${what}`);
    },
    error: (error: unknown) => seen.push(`${now()} error ${(error as Error).name}`),
    complete: () => seen.push(`${now()} complete`),
  });
  return seen;
}

describe('deadlineMs', () => {
  it('counts from the arrival of an item, whether it waits or is under way', () => {
    virtualTime(({ advance, now }) => {
      const aborted: string[] = [];
      const source = new Subject<string>();
      const work = (item: string, { signal }: { readonly signal: AbortSignal }): Observable<unknown> => {
        signal.addEventListener('abort', () => aborted.push(`${now()} ${item}`));
        return item === 'quick' ? of('done') : NEVER;
      };
      const seen = seenBy(source.pipe(bulkheadMap(work, { concurrency: 1, deadlineMs: 10 })), now);
      source.next('slow');
      advance(4);
      source.next('waits');
      advance(4);
      source.next('quick');
      source.complete();
      advance(20);
      // At 10 the place is free for the next one, which has until 14.
      expect(seen).toEqual(['10 slow: DeadlineError/1', '14 waits: DeadlineError/1', '14 quick: done', '14 complete']);
      expect(aborted).toEqual(['10 slow', '14 waits']);
    });
  });

  it.each([
    ['keys in turn', {}],
    ['in order', { order: inputOrder() }],
  ])('rejects all that came together in their order, before anything else starts: %s', (_, options) => {
    virtualTime(({ advance, now }) => {
      const started: string[] = [];
      const run = (item: string) => (started.push(item), NEVER);
      const seen = seenBy(concat(of('3', '2', '1'), NEVER).pipe(bulkheadMap(run, { concurrency: 1, deadlineMs: 5, ...options })), now);
      advance(5);
      expect(seen.map((line) => line.replace(/^5 (\d): DeadlineError.(\d)$/, '$1/$2')).sort()).toEqual(['1/0', '2/0', '3/1']);
      expect(started).toEqual(['3']);
    });
  });

  it("is the end of the output with errors 'propagate'", () => {
    virtualTime(({ advance }) => {
      const errors: unknown[] = [];
      of(1)
        .pipe(bulkheadMap(() => NEVER, { errors: 'propagate', deadlineMs: 5 }))
        .subscribe({ error: (error: unknown) => errors.push(error) });
      advance(5);
      expect(errors).toEqual([new DeadlineError('bulkheadMap', 5, 5)]);
    });
  });

  it('leaves nothing on the clock once everything is over', () => {
    virtualTime(({ scheduler, flush, now }) => {
      const seen = seenBy(of('a').pipe(bulkheadMap((item) => of(item), { deadlineMs: 50, scheduler })), now);
      flush();
      expect([seen, now()]).toEqual([['0 a: a', '0 complete'], 0]);
    });
  });
});

describe('calls that time out at the same moment', () => {
  it('are all aborted before the first rejection is emitted and before the next ones start', () => {
    virtualTime(({ advance }) => {
      const log: string[] = [];
      const work = (item: string, { signal }: { readonly signal: AbortSignal }) => {
        log.push(`start ${item}`);
        signal.addEventListener('abort', () => log.push(`abort ${item}`));
        return NEVER;
      };
      const subscription = concat(of('a', 'b', 'c', 'd'), NEVER)
        .pipe(bulkheadMap(work, { concurrency: 2, timeoutMs: 5 }))
        .subscribe(({ input }) => log.push(`told ${input}`));
      advance(5);
      expect(log).toEqual(['start a', 'start b', 'abort a', 'abort b', 'told a', 'told b', 'start c', 'start d']);
      subscription.unsubscribe();
    });
  });
});

describe('events', () => {
  it('say when, who, and which item', () => {
    virtualTime(({ advance }) => {
      const events: FlowEvent[] = [];
      const options = { concurrency: 1, name: 'tools', onEvent: (event: FlowEvent) => events.push(event) };
      concat(of('a', 'b'), NEVER)
        .pipe(bulkheadMap((item) => timer(item === 'a' ? 3 : 4), options))
        .subscribe();
      advance(10);
      const told = events.map(({ type, at, instance, seq }) => `${at} ${instance} ${type} ${seq}`);
      expect(told).toEqual([
        '0 tools accepted 0',
        '0 tools attemptStarted 0',
        '0 tools accepted 1',
        '3 tools attemptEnded 0',
        '3 tools settled 0',
        '3 tools attemptStarted 1',
        '7 tools attemptEnded 1',
        '7 tools settled 1',
      ]);
    });
  });

  it('of two subscriptions without a name can be told apart', () => {
    const instances = new Set<unknown>();
    const run = bulkheadMap((item: number) => of(item), { onEvent: ({ instance }) => instances.add(instance) });
    for (let i = 0; i < 2; i++) of(1).pipe(run).subscribe();
    expect(instances.size).toBe(2);
  });
});

describe('settleAll', () => {
  it('takes a limiter that others share', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = limiter.tryAcquire();
    const made: string[] = [];
    const first = new Subject<string>();
    settleAll(['a', 'b'], (call) => (made.push(call), first), { limiter }).subscribe();
    expect(made).toEqual([]);
    lease?.release();
    expect(made).toEqual(['a']);
    first.complete();
    expect([made, limiter.snapshot().executing]).toEqual([['a', 'b'], 0]);
  });

  it('gives one call so long, and all of them so long', () => {
    virtualTime(({ flush }) => {
      const reasons: unknown[] = [];
      const ms: Readonly<Record<string, number>> = { quick: 1, slow: 9, last: 2 };
      settleAll(Object.keys(ms), (call) => timer(ms[call] ?? 0), { concurrency: 1, timeoutMs: 4, deadlineMs: 6 }).subscribe((results) => {
        reasons.push(...results.map((result) => (result.status === 'rejected' ? result.reason : result.status)));
      });
      flush();
      expect(reasons).toEqual(['fulfilled', new AttemptTimeoutError('settleAll', 4), new DeadlineError('settleAll', 6, 6)]);
    });
  });
});

it('bulkheadMap with stopKey serves the other keys of a key that has failed', async () => {
  const work = (item: string): Promise<string> => (item === 'a1' ? Promise.reject(new Error('no')) : Promise.resolve(item));
  const stream = of('a1', 'a2', 'b1').pipe(bulkheadMap(work, { key: (item) => item.charAt(0), perKey: 1, stopKey: true }));
  const seen: [string, unknown][] = [];
  await stream.forEach((settled) => seen.push([settled.input, settled.status === 'rejected' ? settled.reason : settled.value]));
  expect(new Map(seen)).toEqual(
    new Map<string, unknown>([
      ['a1', new Error('no')],
      ['a2', new ClosedError('bulkheadMap', new Error('no'), 'not started, because an earlier item of its key failed')],
      ['b1', 'b1'],
    ]),
  );
});
