import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import type { SchedulerLike, Subscription } from 'rxjs';
import { asyncScheduler, EMPTY, map, mergeMap, NEVER, Observable, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import { hedging, isFlowError } from '../../operators/index.js';
import { answerCache, callAll, createAccount } from '../../src/index.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import type { AnswerStorage, ModelCacheOptions, ModelCallerOptions, ModelEntry } from '../../src/pipelines/create-model-caller.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

type Options = Omit<Partial<ModelCallerOptions<string, string, string, string>>, 'cache'> & {
  readonly cache?: Partial<ModelCacheOptions<string, string>>;
};

/** A caller whose answers take 10 ms, and a log of each call. Requests that differ after a `#` have one key. */
function scripted(now: () => number, options: Options = {}, call = (request: string): Observable<string> => after(10, `re: ${request}`)) {
  const log: string[] = [];
  const records: CallRecord[] = [];
  const { cache, ...others } = options;
  const models = accountedCaller<string, string, string, string>({
    call: {
      send: (request, { signal }) => {
        log.push(`${request} sent at ${String(now())}`);
        signal.addEventListener('abort', () => log.push(`${request} aborted at ${String(now())}`));
        return call(request);
      },
      stream: (request) => of(`${request} 1`, `${request} 2`),
    },
    retry: false,
    onRecord: (record) => records.push(record),
    onEvent: (event) => {
      if (event.type === 'cached') log.push(event.outcome);
      if (event.type === 'storeFailed') log.push(`${event.action} failed at ${String(now())}`);
    },
    ...others,
    cache: answerCache<string, string>({ key: (request) => request.split('#')[0], ...cache }),
  });
  const ask = (who: string, request: string, how: Parameters<typeof models.call>[1] = {}): Subscription =>
    models.call(request, how).subscribe({
      next: (answer) => log.push(`${who}: ${answer} at ${String(now())}`),
      error: (error: unknown) => log.push(`${who}: ${isFlowError(error) ? error.code : (error as Error).message} at ${String(now())}`),
    });
  return { models, log, records, ask };
}

const after = (ms: number, answer: string): Observable<string> => timer(ms).pipe(map(() => answer));
const failing = (ms: number): Observable<never> => timer(ms).pipe(mergeMap(() => throwError(() => new Error('broken'))));

describe('a cache of answers', () => {
  it('makes one call for all waiting callers, and none for later ones', () => {
    virtualTime(({ advance, flush, now }) => {
      const { ask, log, records } = scripted(now);
      ask('a', 'x#1');
      ask('b', 'x#2');
      ask('c', 'y');
      advance(10);
      ask('d', 'x#3');
      flush();
      expect(log).toEqual([
        ...['x#1 sent at 0', 'shared', 'y sent at 0', 'a: re: x#1 at 10', 'b: re: x#1 at 10', 'c: re: y at 10', 'hit', 'd: re: x#1 at 10'],
      ]);
      expect(records.length).toBe(2);
    });
  });

  it('does not keep an answer beyond its time, nor one that has no key', () => {
    virtualTime(({ advance, now }) => {
      const { ask, log } = scripted(now, {
        cache: { key: (request) => (request === 'secret' ? undefined : request), ttlMs: 100 },
      });
      for (const request of ['x', 'secret']) ask('a', request);
      advance(109);
      for (const request of ['x', 'secret']) ask('b', request);
      advance(1);
      ask('c', 'x');
      advance(10);
      expect(log.filter((line) => line.includes('sent'))).toEqual([
        'x sent at 0',
        'secret sent at 0',
        'secret sent at 109',
        'x sent at 110',
      ]);
      advance(1000);
    });
  });

  it('keeps no error', () => {
    virtualTime(({ flush, now }) => {
      let fails = true;
      const { ask, log } = scripted(now, {}, (request) => (fails ? failing(10) : after(10, `re: ${request}`)));
      ask('a', 'x');
      ask('b', 'x');
      flush();
      fails = false;
      ask('c', 'x');
      flush();
      expect(log).toEqual(['x sent at 0', 'shared', 'a: broken at 10', 'b: broken at 10', 'x sent at 10', 'c: re: x at 20']);
    });
  });

  it('aborts a call when its last caller has left, in any way, and not before', () => {
    virtualTime(({ advance, now }) => {
      const { ask, log, models, records } = scripted(now);
      const { signal, abort } = withAbort();
      const one = ask('a', 'x');
      ask('b', 'x', { signal });
      expect(getEventListeners(signal, 'abort').length).toBe(1);
      const all = callAll(models, { c: 'x' }, { deadlineMs: 5 }).subscribe({ error: (error: { code: string }) => log.push(error.code) });
      one.unsubscribe();
      abort();
      advance(4);
      expect(log).toEqual(['x sent at 0', 'shared', 'shared', 'b: This operation was aborted at 0']);
      expect(getEventListeners(signal, 'abort').length).toBe(0);
      advance(1);
      expect(log.slice(4)).toEqual(['x aborted at 5', 'FLOW_DEADLINE']);
      expect(records.map(({ status, errorCode }) => [status, errorCode])).toEqual([['timeout', 'FLOW_DEADLINE']]);
      expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
      all.unsubscribe();
    });
  });

  it('ends each caller at their own deadline: a later caller outlives the first, with a call of their own', () => {
    virtualTime(({ advance, flush, now }) => {
      const { ask, log } = scripted(now, { deadlineMs: 20 }, () => NEVER);
      ask('a', 'x');
      advance(15);
      ask('b', 'x');
      ask('c', 'x');
      flush();
      expect(log).toEqual([
        ...['x sent at 0', 'shared', 'shared', 'x aborted at 20', 'a: FLOW_DEADLINE at 20', 'x sent at 20', 'shared'],
        ...['b: FLOW_DEADLINE at 35', 'x aborted at 35', 'c: FLOW_DEADLINE at 35'],
      ]);
    });
  });

  it('moves a waiting call to the lane of a more urgent caller, and leaves a sent call alone', () => {
    virtualTime(({ advance, flush, now }) => {
      const { ask, log, records, models } = scripted(now, { concurrency: 1 });
      for (const request of ['1', '2', '3', 'x']) ask(request, request, { lane: 'background' });
      ask('urgent', 'x', { lane: 'user' });
      expect(models.snapshot()).toMatchObject({ queued: 3, executing: 1 });
      advance(15);
      ask('late', 'x', { lane: 'user' });
      flush();
      expect(log.filter((line) => line.includes('x'))).toEqual([
        'x sent at 10',
        'x: re: x at 20',
        'urgent: re: x at 20',
        'late: re: x at 20',
      ]);
      expect(records.map(({ lane }) => lane)).toEqual(['background', 'user', 'background', 'background']);
    });
  });

  it('forgets what it is told to forget: waiting callers get the answer, later ones make a new call', () => {
    virtualTime(({ advance, flush, now }) => {
      const { ask, log, models } = scripted(now);
      ask('a', 'x');
      advance(5);
      models.forget('x');
      ask('b', 'x');
      advance(5);
      ask('c', 'x');
      flush();
      models.forget('x');
      models.forget('unknown');
      ask('d', 'x');
      flush();
      expect(log).toEqual([
        ...['x sent at 0', 'x sent at 5', 'a: re: x at 10', 'shared', 'b: re: x at 15', 'c: re: x at 15', 'x sent at 15', 'd: re: x at 25'],
      ]);
    });
  });

  it('leaves streams alone', () => {
    const { models, log } = scripted(() => 0);
    const chunks: string[] = [];
    for (let n = 0; n < 2; n++) models.stream('x').subscribe((chunk) => chunks.push(chunk));
    expect(chunks).toEqual(['x 1', 'x 2', 'x 1', 'x 2']);
    expect(log).toEqual([]);
  });

  it('keeps a value of undefined, and completes without one like its call', () => {
    const seen: unknown[] = [];
    let calls = 0;
    const models = createModelCaller({
      call: (request: string) => {
        calls++;
        return request === 'none' ? EMPTY : undefined;
      },
      cache: answerCache({ key: (request) => request }),
    });
    for (const request of ['undefined', 'undefined', 'none', 'none'])
      models.call(request).subscribe({ next: (value) => seen.push(value), complete: () => seen.push('end') });
    expect(seen).toEqual([undefined, 'end', undefined, 'end', 'end', 'end']);
    expect(calls).toBe(3);
  });

  it('keeps a thousand answers, and not for ever more', () => {
    let calls = 0;
    const models = createModelCaller({ call: (n: number) => ++calls * n, cache: answerCache({ key: (n: number) => String(n) }) });
    for (let n = 0; n < 3000; n++) models.call(n).subscribe();
    for (let n = 2000; n < 3000; n++) models.call(n).subscribe();
    expect(calls).toBe(3000);
    for (let n = 0; n < 1000; n++) models.call(n).subscribe();
    expect(calls).toBe(4000);
  });

  const badKeys: Record<string, () => unknown> = { throws: assertNever, 'is a number': () => 5 };
  it.each(Object.entries(badKeys))('fails a request whose key %s, and no other', async (_what, bad) => {
    const key = (request: string): string => (request === 'bad' ? (bad() as string) : request);
    const models = createModelCaller({ call: (request: string) => request, cache: answerCache({ key }) });
    await expect(models.callAsync('bad')).rejects.toMatchObject({ code: 'FLOW_CALLBACK' });
    expect(await models.callAsync('good')).toBe('good');
    await models.drain();
  });
});

function assertNever(): never {
  throw new Error('no key');
}

function withAbort(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    abort: () => {
      controller.abort();
    },
  };
}

describe('hedge, repair and retries are behind the cache', () => {
  it('which shares what they answer', () => {
    virtualTime(({ flush, now }) => {
      let sent = 0;
      const { ask, log, records } = scripted(
        now,
        {
          lanes: [{ name: 'user' }],
          hedge: hedging({ delayMs: 5 }),
          retry: { delayMs: 10, jitter: 'none' },
          parse: (answer) => (answer === 'bad' ? assertNever() : answer),
          fixAnswer: { ask: (request) => `${request}!` },
        },
        () => {
          sent++;
          if (sent === 1) return after(8, 'bad');
          return sent === 2
            ? after(1, 'bad')
            : sent === 3
              ? throwError(() => Object.assign(new Error(), { status: 503 }))
              : after(1, 'good');
        },
      );
      ask('a', 'x');
      ask('b', 'x');
      flush();
      expect(log).toEqual([...['x sent at 0', 'shared', 'x sent at 5', 'x! sent at 8', 'x! sent at 18', 'a: good at 19', 'b: good at 19']]);
      expect(records.map(({ status, errorCode }) => errorCode ?? status)).toEqual(['PARSE_FAILED', 'PARSE_FAILED', 'HTTP_503', 'success']);
      expect(new Set(records.map(({ traceId }) => traceId)).size).toBe(1);
    });
  });
});

/** Stores that answer at once, later, wrongly, or never. Observables in place of promises: they keep to virtual time. */
function storeOf(
  get: Way,
  set: Way,
  entries = new Map<string, ModelEntry<string>>(),
  clock: SchedulerLike = asyncScheduler,
): AnswerStorage<string> {
  const way = (how: Way, work: () => unknown): unknown => {
    if (how === 'never') return NEVER;
    if (how === 'broken') return assertNever();
    return how === 'now' ? work() : timer(3, clock).pipe(map(how === 'soon' ? work : assertNever));
  };
  return {
    get: (key) => way(get, () => entries.get(key)) as never,
    set: (key, entry) => way(set, () => entries.set(key, entry)),
    delete: (key) => way(set, () => entries.delete(key)),
  };
}
const WAYS = ['now', 'soon', 'broken', 'broken soon', 'never'] as const;
type Way = (typeof WAYS)[number];

describe.each(WAYS)('a store that reads %s', (get) => {
  const works = get === 'now' || get === 'soon';
  const lookUpMs = { now: 0, soon: 3, broken: 0, 'broken soon': 3, never: 50 }[get];

  it.each(WAYS)('and writes %s: every caller has their answer, and the fault is reported', (set) => {
    virtualTime(({ advance, flush, now }) => {
      const entries = new Map<string, ModelEntry<string>>();
      const { ask, log, models } = scripted(now, { cache: { storage: storeOf(get, set, entries), timeoutMs: 50 } });
      ask('a', 'x');
      if (get === 'never') expect(models.snapshot()).toMatchObject({ queued: 1, executing: 0 });
      advance(1);
      ask('b', 'x');
      flush();
      const answeredAt = String(10 + lookUpMs);
      expect(log.filter((line) => /^[ab]:/.test(line))).toEqual([`a: re: x at ${answeredAt}`, `b: re: x at ${answeredAt}`]);
      expect(log.filter((line) => line.includes('sent')).length).toBe(1);
      expect(log.some((line) => line.startsWith('get failed'))).toBe(!works);
      expect(log.some((line) => line.startsWith('set failed'))).toBe(set !== 'now' && set !== 'soon');
      expect(entries.size).toBe(set === 'now' || set === 'soon' ? 1 : 0);
      const before = log.length;
      ask('c', 'x');
      flush();
      const wasKnown = works && entries.size > 0;
      expect(log.slice(before).includes('hit')).toBe(wasKnown);
      models.forget('x');
      flush();
      expect(log.some((line) => line.startsWith('delete failed'))).toBe(set !== 'now' && set !== 'soon');
      expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    });
  });
});

it('what a store gives back by way of JSON is an answer, and anything else is ignored', async () => {
  const texts = new Map<string, string>();
  const store: AnswerStorage<{ n: number }> = {
    get: (key) => Promise.resolve(JSON.parse(texts.get(key) ?? 'null') as ModelEntry<{ n: number }> | null),
    set: (key, entry) => Promise.resolve(texts.set(key, JSON.stringify(entry))),
    delete: (key) => Promise.resolve(texts.delete(key)),
  };
  let calls = 0;
  const make = () =>
    createModelCaller({ call: () => ({ n: ++calls }), cache: answerCache({ key: () => 'x', storage: store, ttlMs: 60_000 }) });
  expect(await make().callAsync('first')).toEqual({ n: 1 });
  expect(await make().callAsync('second')).toEqual({ n: 1 });
  for (const text of ['5', '"text"', '[]', '{}', '{"value":7}', '{"value":7,"expiresAt":"soon"}', '{"value":7,"expiresAt":1}']) {
    texts.set('x', text);
    const before = calls;
    expect(await make().callAsync('third')).toEqual({ n: before + 1 });
  }
});

it('while an answer is being stored, it is known; draining waits for that, and closing does not', () => {
  for (const end of ['drain', 'close'] as const) {
    virtualTime(({ advance, flush, now }) => {
      const { ask, log, models } = scripted(now, { cache: { storage: storeOf('now', 'never'), timeoutMs: 100 } });
      models.events.subscribe({ complete: () => log.push(`end at ${String(now())}`) });
      ask('a', 'x');
      advance(20);
      ask('b', 'x');
      void models[end]();
      ask('c', 'x');
      flush();
      const ended = end === 'close' ? ['end at 20'] : [];
      expect(log).toEqual([
        ...['x sent at 0', 'a: re: x at 10', 'hit', 'b: re: x at 20', ...ended, 'c: FLOW_CLOSED at 20'],
        ...(end === 'drain' ? ['set failed at 110', 'end at 110'] : []),
      ]);
    });
  }
});

it('what waits is told apart when the caller closes: sent or not', async () => {
  const { models, log, ask } = scripted(
    () => 0,
    { concurrency: 1 },
    () => NEVER,
  );
  ask('a', 'x');
  ask('b', 'x');
  ask('c', 'y');
  ask('d', 'y');
  const drained = models.drain();
  models.close();
  expect(await drained).toEqual({ done: 0, aborted: 2, dropped: 2 });
  expect(log.filter((line) => line.includes('CLOSED')).length).toBe(4);
});

// ---- any script -----------------------------------------------------------------------------------------------------

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      request: fc.constantFrom('a', 'a', 'b', 'slow', 'bad'),
      lane: fc.constantFrom('user', 'background', 'background'),
      waitMs: fc.constantFrom(Infinity, Infinity, 0, 7, 12, 40),
      by: fc.constantFrom('unsubscribe' as const, 'signal' as const),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat({ max: 30 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), request: fc.constantFrom('a', 'slow') }) },
);
const way = fc.constantFrom(...WAYS);
const caller = fc.record({
  get: way,
  set: way,
  concurrency: fc.constantFrom(1, 3),
  deadlineMs: fc.constantFrom(Infinity, 60, 25),
  ttlMs: fc.constantFrom(Infinity, 20),
  hedged: fc.boolean(),
  repairs: fc.boolean(),
  end: fc.constantFrom('none' as const, 'drain' as const, 'close' as const),
});

it('whatever is asked, left, forgotten and ended over whatever store, every caller is answered once, and nothing is left', () => {
  fc.assert(
    fc.property(caller, fc.array(step, { maxLength: 25 }), ({ get, set, concurrency, deadlineMs, ttlMs, hedged, repairs, end }, steps) => {
      const clock = new CountingScheduler();
      const advance = (ms: number): void => {
        clock.maxFrames = clock.frame + ms;
        clock.flush();
        clock.frame = clock.maxFrames;
      };
      let running = 0;
      const work = (request: string): Observable<string> => {
        if (request === 'bad') return timer(5, clock).pipe(mergeMap(() => throwError(() => new Error('broken'))));
        const ms = request.startsWith('slow') ? 30 : 10;
        return timer(ms, clock).pipe(map(() => (repairs && !request.endsWith('!') ? 'garbled' : request)));
      };
      const models = accountedCaller({
        call: (request: string) =>
          new Observable<string>((to) => {
            running++;
            to.add(() => running--);
            to.add(work(request).subscribe(to));
          }),
        limiter: createAccount({ concurrency, scheduler: clock, lanes: ['user', 'normal', 'background'] }),
        parse: (answer) => (answer === 'garbled' ? assertNever() : answer.replace('!', '')),
        ...(repairs && { fixAnswer: { ask: (request: string) => `${request}!` } }),
        ...(hedged && { hedge: hedging({ delayMs: 8, maxShare: Infinity }) }),
        retry: false,
        deadlineMs,
        cache: answerCache<string, string>({
          key: (request) => request,
          storage: storeOf(get, set, new Map(), clock),
          ttlMs,
          timeoutMs: 15,
        }),
        scheduler: clock,
      });
      const leaks = leakCheck({ scheduler: clock, holders: { models } });
      try {
        const faults: string[] = [];
        const asked: { heard: number; left: boolean; readonly subscription: Subscription }[] = [];
        for (const action of steps) {
          if (action.do === 'advance') advance(action.ms);
          else if (action.do === 'forget') models.forget(action.request);
          else {
            const { request, lane, waitMs, by } = action;
            const controller = new AbortController();
            const one = { heard: 0, left: false, subscription: undefined as unknown as Subscription };
            asked.push(one);
            const startedAt = clock.now();
            one.subscription = models.call(request, { lane, signal: controller.signal }).subscribe({
              next: (answer) => {
                one.heard++;
                if (answer !== request) faults.push(`${answer} for ${request}`);
              },
              error: () => {
                one.heard++;
                const tookMs = clock.now() - startedAt;
                if (tookMs > deadlineMs * (repairs ? 2 : 1)) faults.push(`an error after ${String(tookMs)} ms`);
              },
            });
            if (waitMs !== Infinity) {
              clock.schedule(() => {
                if (one.heard > 0) return;
                if (by === 'signal') controller.abort();
                else {
                  one.left = true;
                  one.subscription.unsubscribe();
                }
              }, waitMs);
            }
          }
          expect(models.snapshot().executing).toBe(running);
        }
        if (end !== 'none') void models[end]();
        advance(3000);
        for (const { heard, left } of asked) expect(heard).toBe(left ? 0 : 1);
        expect(faults).toEqual([]);
        expect(running).toBe(0);
        expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
        expect(leaks.left()).toEqual([]);
      } finally {
        leaks[Symbol.dispose]();
      }
    }),
    { numRuns: sized(30, 3000) },
  );
}, 120_000);
