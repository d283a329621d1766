import fc from 'fast-check';
import { defer, finalize, from, map, mergeMap, of, Subject, takeUntil, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Limiter } from '../../operators/index.js';
import { batchMap, childOf, createLimiter, FlowConfigError, lanes, perMinute } from '../../operators/index.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import type { Metrics, MetricsSnapshot } from '../../src/metrics/create-metrics.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import { logFields } from '../../src/metrics/log-fields.js';
import { unstamped } from '../support/events.js';

const record: CallRecord = {
  traceId: '3f5d6c1c',
  spanId: '00f067aa0ba902b7',
  name: 'approved_drug_count',
  lane: 'user',
  model: 'gpt-4',
  attempt: 1,
  latencyMs: 2341.4,
  queuedMs: 12.6,
  status: 'success',
  errorCode: null,
  promptTokens: 850,
  completionTokens: 120,
  ...{ key: null, cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null, costUsd: null, isEstimated: false },
};

const call = { operator: 'batchMap', lane: 'default', batchId: 'b0', size: 5, attempt: 1 } as const;
const started: FlowEvent = { type: 'attemptStarted', ...call, weight: 5, splitDepth: 0, executing: 3 };

/** Whatever `metrics$` says, and when. */
function listen({ metrics$ }: Metrics, now: () => number) {
  const seen: (readonly [number, MetricsSnapshot])[] = [];
  return { seen, subscription: metrics$.subscribe((snapshot) => seen.push([now(), snapshot])) };
}

describe('the four numbers', () => {
  it('are four different ones when slots and requests are short at once', () => {
    virtualTime(({ now }) => {
      const metrics = createMetrics();
      const limiter = createLimiter({ concurrency: 2, rates: [perMinute('requests', 60, { burst: 5 })], headroom: 1 });
      metrics.observe('provider', limiter);
      const waiting = Array.from({ length: 10 }, () => limiter.acquire().subscribe());
      // Five requests are saved up: two are on their way, three more could be paid, five more could not.
      expect(metrics.snapshot()).toMatchObject({ queued: 8, heldBySlot: 3, heldByRate: 5, executing: 2 });
      expect(metrics.snapshot().observed['provider']).toMatchObject({
        concurrency: 2,
        requestsLeft: 3,
        tokensLeft: Infinity,
        requestLevel: 0.6,
        tokenLevel: 1,
      });
      expect(now()).toBe(0);
      for (const one of waiting) one.unsubscribe();
    });
  });

  it('go by tokens as well, in the order of the lanes', () => {
    virtualTime(() => {
      const limiter = createLimiter({
        concurrency: 1,
        rates: [perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
        queue: lanes([{ name: 'now' }, { name: 'later' }]),
      });
      limiter.tryAcquire({ cost: { tokens: 40 } });
      const waiting = [
        limiter.acquire({ lane: 'later', cost: { tokens: 1 } }).subscribe(),
        limiter.acquire({ lane: 'now', cost: { tokens: 50 } }).subscribe(),
        limiter.acquire({ lane: 'later', cost: { tokens: 10 } }).subscribe(),
      ];
      // 60 are left: the urgent 50, then 1; the 10 behind them are too many.
      expect(limiter.snapshot()).toMatchObject({ queued: 3, heldBySlot: 2, heldByRate: 1, executing: 1 });
      const metrics = createMetrics();
      metrics.observe('provider', limiter);
      expect(metrics.snapshot().observed['provider']).toMatchObject({ tokensLeft: 60, tokenLevel: 0.6 });
      for (const one of waiting) one.unsubscribe();
    });
  });

  it('say that a pause is what holds everything, whether slots are free or not', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const lease = limiter.tryAcquire();
      limiter.penalize(1000);
      const waiting = [limiter.acquire().subscribe(), limiter.acquire().subscribe()];
      expect(limiter.snapshot()).toMatchObject({ queued: 2, heldByRate: 2, heldBySlot: 0, executing: 1, pausedForMs: 1000 });
      const second = limiter.tryAcquire();
      expect(second).toBeUndefined();
      advance(1000);
      // One has got the free slot.
      expect(limiter.snapshot()).toMatchObject({ queued: 1, heldByRate: 0, heldBySlot: 1, executing: 2, pausedForMs: 0 });
      limiter.penalize(500);
      expect(limiter.snapshot()).toMatchObject({ queued: 1, heldByRate: 1, heldBySlot: 0, executing: 2 });
      lease?.release();
      for (const one of waiting) one.unsubscribe();
      advance(500);
    });
  });

  it('say the same of a limiter below another', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'now' }, { name: 'later' }]) });
      const child = childOf(limiter, { concurrency: 5 });
      limiter.tryAcquire({ lane: 'now' });
      const waiting = ['now', 'later', 'later'].map((lane) => limiter.acquire({ lane }).subscribe());
      expect(limiter.snapshot()).toMatchObject({ queued: 3, heldByRate: 0, heldBySlot: 3, executing: 1 });
      waiting.push(child.acquire({ lane: 'later' }).subscribe());
      // The slot is missing above.
      expect(child.snapshot()).toMatchObject({ queued: 1, heldByRate: 0, heldBySlot: 1, executing: 0 });
      for (const one of waiting) one.unsubscribe();
      advance(100);
    });
  });

  it('are the sums of everything observed, by name until that is over', () => {
    const metrics = createMetrics();
    const stop = metrics.observe('one', { snapshot: () => ({ queued: 5, heldByRate: 1, heldBySlot: 2, executing: 3 }) });
    metrics.observe('two', { snapshot: () => ({ queued: 10, executing: 4 }) });
    expect(metrics.snapshot()).toMatchObject({ queued: 15, heldByRate: 1, heldBySlot: 2, executing: 7 });
    expect(() => metrics.observe('one', { snapshot: () => ({}) })).toThrow(FlowConfigError);
    stop();
    stop();
    expect(metrics.snapshot()).toMatchObject({ queued: 10, heldByRate: 0, heldBySlot: 0, executing: 4 });
    expect(Object.keys(metrics.snapshot().observed)).toEqual(['two']);
  });
});

describe('what events add up to', () => {
  it('is told for all operators and for each', () => {
    const metrics = createMetrics({ maxBatchSize: 10 });
    const events: FlowEvent[] = [
      { type: 'accepted', operator: 'batchMap', lane: 'default', queued: 1 },
      { type: 'batchFormed', operator: 'batchMap', lane: 'default', reason: 'size', size: 5, weight: 5, waitMs: 20 },
      started,
      { type: 'attemptEnded', ...call, outcome: 'throttled', latencyMs: 100 },
      { type: 'retryScheduled', operator: 'batchMap', lane: 'default', class: 'throttled', size: 5, attempt: 2, delayMs: 9 },
      { ...started, attempt: 2, executing: 1 },
      { type: 'attemptEnded', ...call, attempt: 2, outcome: 'ok', latencyMs: 300 },
      { type: 'settled', operator: 'batchMap', lane: 'default', outcome: 'fulfilled', attempts: 2, totalMs: 450 },
      { type: 'dropped', operator: 'backpressure', lane: 'default', policy: 'dropOldest' },
      { type: 'expired', operator: 'batchMap', lane: 'default', deadlineMs: 5 },
      { type: 'hedged', operator: 'hedge', lane: 'default', attempt: 1, afterMs: 5 },
    ];
    for (const event of events) metrics.sink(event);
    const { flow, operators } = metrics.snapshot();
    expect(flow).toMatchObject({
      accepted: 1,
      dropped: 1,
      expired: 1,
      hedged: 1,
      calls: 2,
      throttled: 1,
      retries: 1,
      fulfilled: 1,
      rejected: 0,
    });
    expect(flow).toMatchObject({ batches: 1, meanSize: 5, meanFill: 0.5, peakExecuting: 1 });
    expect(flow.ended).toMatchObject({ attempts: 2, retries: 1, retryRate: 0.5, failures: 1, failureRate: 0.5, cancelled: 0 });
    expect(flow.ended.byCode).toEqual({ throttled: { count: 1, rate: 0.5 } });
    expect(flow.ended.latencyMs).toMatchObject({ count: 2, mean: 200, max: 300 });
    expect(flow.waitMs.mean).toBe(20);
    expect(flow.totalMs.mean).toBe(450);
    expect(Object.keys(operators)).toEqual(['batchMap', 'backpressure', 'hedge']);
    expect(operators['backpressure']).toMatchObject({ accepted: 0, dropped: 1 });
  });

  it.each([
    ['each with slots of its own', () => ({ concurrency: 1 })],
    ['on one limiter', (limiter: Limiter) => ({ limiter })],
  ])('has the peak of several operators together, %s, and of those that were left', (_name, slots) => {
    virtualTime(({ flush }) => {
      const metrics = createMetrics();
      const limiter = createLimiter({ concurrency: 3 });
      let running = 0;
      let peak = 0;
      const work = (items: readonly number[]) =>
        defer(() => {
          peak = Math.max(peak, ++running);
          return timer(100).pipe(map(() => items));
        }).pipe(finalize(() => running--));
      for (let index = 0; index < 3; index++) {
        from([1, 2])
          .pipe(batchMap(work, { maxSize: 1, onEvent: unstamped(metrics.sink), ...slots(limiter) }), takeUntil(timer(50 + 100 * index)))
          .subscribe();
      }
      timer(1000)
        .pipe(mergeMap(() => of(1).pipe(batchMap(work, { maxSize: 1, onEvent: unstamped(metrics.sink), ...slots(limiter) }))))
        .subscribe();
      flush();
      expect([peak, metrics.snapshot().flow.peakExecuting, metrics.snapshot().operators['batchMap']?.peakExecuting]).toEqual([3, 3, 3]);
    });
  });

  it('counts what was cancelled as no failure', () => {
    const metrics = createMetrics();
    for (const outcome of ['cancelled', 'ok', 'failed'] as const) metrics.sink({ type: 'attemptEnded', ...call, outcome, latencyMs: 10 });
    expect(metrics.snapshot().flow.ended).toMatchObject({ attempts: 3, cancelled: 1, failures: 1, failureRate: 0.5 });
    expect(metrics.snapshot().flow.ended.latencyMs.count).toBe(2);
  });
});

describe('what records add up to', () => {
  it('is told for all, by lane and by model, failures by code', () => {
    const metrics = createMetrics();
    metrics.record(record);
    metrics.record({
      ...record,
      lane: 'background',
      attempt: 2,
      status: 'error',
      errorCode: 'HTTP_429',
      promptTokens: null,
      completionTokens: null,
    });
    metrics.record({ ...record, lane: 'background', attempt: 3, status: 'timeout', errorCode: 'FLOW_ATTEMPT_TIMEOUT' });
    metrics.record({ ...record, model: 'small', status: 'cancelled', errorCode: 'CANCELLED' });
    const { calls, lanes, models } = metrics.snapshot();
    expect(calls).toMatchObject({ attempts: 4, retries: 2, retryRate: 0.5, failures: 2, failureRate: 2 / 3, cancelled: 1 });
    expect(calls.byCode).toEqual({ HTTP_429: { count: 1, rate: 1 / 3 }, FLOW_ATTEMPT_TIMEOUT: { count: 1, rate: 1 / 3 } });
    expect(calls).toMatchObject({ promptTokens: 3 * 850, completionTokens: 3 * 120 });
    expect(calls.queuedMs).toMatchObject({ count: 4, max: 12.6 });
    expect([lanes['user']?.failures, lanes['background']?.failures]).toEqual([0, 2]);
    expect([models['gpt-4']?.attempts, models['small']?.attempts]).toEqual([3, 1]);
  });

  it('is bounded: what comes after so many labels is counted as `other`', () => {
    const metrics = createMetrics({ maxLabels: 3 });
    for (let i = 0; i < 1000; i++) metrics.record({ ...record, model: `model ${i}`, status: 'error', errorCode: `CODE_${i}` });
    const { calls, models, lanes } = metrics.snapshot();
    expect(Object.keys(models)).toEqual(['model 0', 'model 1', 'model 2', 'other']);
    expect(models['other']?.attempts).toBe(997);
    expect(Object.keys(calls.byCode)).toEqual(['CODE_0', 'CODE_1', 'CODE_2', 'other']);
    expect(Object.keys(lanes)).toEqual(['user']);
  });

  it('tells the first so many labels apart, wherever `other` and what is too long for a label come between them', () => {
    const label = fc.oneof(
      fc.constantFrom('other', 'x'.repeat(201), 'y'.repeat(300)),
      fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'),
    );
    // In virtual time: records on both sides of a part of the window would have first labels each.
    virtualTime(() => {
      fc.assert(
        fc.property(fc.array(label, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 6 }), (models, maxLabels) => {
          const metrics = createMetrics({ maxLabels, windowMs: 1000 });
          for (const model of models) metrics.record({ ...record, model });
          const first = [...new Set(models.filter((model) => model.length === 1))].slice(0, maxLabels);
          const expected: Record<string, number> = {};
          for (const model of models) {
            const counted = first.includes(model) ? model : 'other';
            expected[counted] = (expected[counted] ?? 0) + 1;
          }
          const { window, ...totals } = metrics.snapshot();
          for (const counted of [totals.models, window?.models ?? {}])
            expect(Object.fromEntries(Object.entries(counted).map(([model, { attempts }]) => [model, attempts]))).toEqual(expected);
        }),
      );
    });
  });

  it('is written under the names of log pipelines', () => {
    expect(logFields(record)).toEqual({
      event: 'call',
      trace_id: '3f5d6c1c',
      span_id: '00f067aa0ba902b7',
      property: 'approved_drug_count',
      lane: 'user',
      key: null,
      llm_model: 'gpt-4',
      attempt: 1,
      latency_ms: 2341,
      queued_ms: 13,
      status: 'success',
      error_code: null,
      prompt_tokens: 850,
      cache_read_tokens: null,
      cache_write_tokens: null,
      completion_tokens: 120,
      reasoning_tokens: null,
      cost_usd: null,
      is_estimated: false,
    });
  });
});

describe('metrics$', () => {
  it('tells at once, then after changes, and no more often than it may', () => {
    virtualTime(({ advance, flush, now, pending }) => {
      const metrics = createMetrics({ intervalMs: 100 });
      const { seen, subscription } = listen(metrics, now);
      expect([seen.length, pending()]).toEqual([1, 0]);
      advance(1000);
      metrics.sink(started);
      metrics.sink(started);
      advance(10);
      metrics.sink(started);
      flush();
      expect(seen.map(([at, { flow }]) => `${at}: ${flow.calls}`)).toEqual(['0: 0', '1000: 2', '1100: 3']);
      // Nothing has happened since, so there is no timer.
      expect(pending()).toBe(0);
      subscription.unsubscribe();
    });
  });

  it('has no timer without a subscriber, and leaves none', () => {
    virtualTime(({ pending }) => {
      const metrics = createMetrics();
      metrics.sink(started);
      expect(pending()).toBe(0);
      const { subscription } = listen(metrics, () => 0);
      metrics.sink(started);
      expect(pending()).toBe(1);
      subscription.unsubscribe();
      expect(pending()).toBe(0);
    });
  });

  it('shares one look between all who listen', () => {
    virtualTime(({ flush, now, pending }) => {
      const metrics = createMetrics({ intervalMs: 50 });
      const [one, two] = [listen(metrics, now), listen(metrics, now)];
      metrics.sink(started);
      expect(pending()).toBe(1);
      flush();
      expect([one.seen.length, two.seen.length]).toEqual([2, 2]);
      one.subscription.unsubscribe();
      metrics.sink(started);
      flush();
      expect([one.seen.length, two.seen.length]).toEqual([2, 3]);
      two.subscription.unsubscribe();
    });
  });

  it('looks at what is observed as long as something is under way there, tells only of changes, and stops when all is done', () => {
    virtualTime(({ advance, now, pending }) => {
      const metrics = createMetrics({ intervalMs: 100 });
      const limiter = createLimiter({ concurrency: 1 });
      metrics.observe('provider', limiter);
      const { seen, subscription } = listen(metrics, now);
      const first = limiter.tryAcquire();
      first?.release();
      const second = limiter.tryAcquire();
      advance(150);
      const waiting = limiter.acquire().subscribe((lease) => {
        lease.release();
      });
      advance(1000);
      second?.release();
      advance(1000);
      const line = (snapshot: MetricsSnapshot): string => `${snapshot.queued} wait, ${snapshot.executing} run`;
      expect(seen.map(([at, snapshot]) => `${at}: ${line(snapshot)}`)).toEqual([
        '0: 0 wait, 0 run',
        '100: 0 wait, 1 run',
        '200: 1 wait, 1 run',
        '1200: 0 wait, 0 run',
      ]);
      expect(pending()).toBe(0);
      waiting.unsubscribe();
      subscription.unsubscribe();
    });
  });

  it('subscribes to what it observes only while it has a subscriber', () => {
    virtualTime(({ flush, now }) => {
      const events = new Subject<FlowEvent>();
      const metrics = createMetrics({ intervalMs: 100 });
      const stop = metrics.observe('pipeline', { snapshot: () => ({}), events });
      expect(events.observed).toBe(false);
      const { seen, subscription } = listen(metrics, now);
      metrics.observe('late', { snapshot: () => ({}), events });
      flush();
      events.next(started);
      flush();
      expect(seen.length).toBe(3);
      stop();
      subscription.unsubscribe();
      expect(events.observed).toBe(false);
      flush();
    });
  });
});

describe('options', () => {
  it.each([
    ['intervalMs', 0],
    ['intervalMs', NaN],
    ['maxLabels', 0],
    ['maxBatchSize', -1],
    ['scheduler', {}],
    ['interval', 5],
  ])('refuse `%s`: %s', (option, value) => {
    expect(() => createMetrics({ [option]: value })).toThrow(FlowConfigError);
  });

  it('reject an invalid name and a subject without a snapshot', () => {
    const metrics = createMetrics();
    expect(() => metrics.observe('', { snapshot: () => ({}) })).toThrow(FlowConfigError);
    expect(() => metrics.observe('x', {} as never)).toThrow(FlowConfigError);
    expect(() => metrics.observe('x', null as never)).toThrow(FlowConfigError);
  });
});
