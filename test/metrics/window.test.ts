import fc from 'fast-check';
import { from, map, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { CallRecord, FlowEvent } from '../../src/index.js';
import { batchMap, createStages } from '../../src/index.js';
import type { Metrics } from '../../src/metrics/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import { sized } from '../support/deep.js';

const WINDOW_MS = 1000;
const PART_MS = WINDOW_MS / 10;

const call = { lane: 'default', batchId: 'b', size: 1, attempt: 1 } as const;
const record: CallRecord = {
  ...{ traceId: 't', spanId: 's', name: 'call', lane: 'user', model: 'm', attempt: 1, latencyMs: 5, queuedMs: 0 },
  ...{ status: 'success', errorCode: null, promptTokens: 100, completionTokens: 10 },
  ...{ key: null, cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null, costUsd: null, isEstimated: false },
};

type Step = { readonly waitMs: number } & ({ readonly event: FlowEvent } | { readonly record: CallRecord });

const operator = fc.constantFrom('batchMap', 'bulkheadMap');
const instance = fc.constantFrom('1', 'titles', 'texts');
const latencyMs = fc.integer({ min: 0, max: 5000 });
const event = fc.oneof(
  fc.record({ type: fc.constant('accepted' as const), operator, instance, lane: fc.constant('default'), queued: fc.nat(5) }),
  fc.record({
    ...{ type: fc.constant('attemptStarted' as const), operator, instance, weight: fc.constant(1), splitDepth: fc.constant(0) },
    ...{ lane: fc.constant('default'), batchId: fc.constant('b'), size: fc.nat(9), attempt: fc.constant(1), executing: fc.nat(9) },
  }),
  fc.record({
    ...{ type: fc.constant('attemptEnded' as const), operator, instance, latencyMs, attempt: fc.integer({ min: 1, max: 3 }) },
    ...{ lane: fc.constant('default'), batchId: fc.constant('b'), size: fc.nat(9) },
    outcome: fc.constantFrom('ok' as const, 'throttled' as const, 'cancelled' as const, 'timeout' as const),
  }),
  fc.record({
    ...{ type: fc.constant('settled' as const), operator, instance, lane: fc.constant('default'), attempts: fc.constant(1) },
    ...{ outcome: fc.constantFrom('fulfilled' as const, 'rejected' as const), totalMs: latencyMs },
  }),
);
const records = fc.record({
  lane: fc.constantFrom('user', 'normal'),
  latencyMs,
  errorCode: fc.constantFrom(null, 'HTTP_429', 'HTTP_500'),
  attempt: fc.integer({ min: 1, max: 3 }),
});
const steps = fc.array(
  fc.oneof(
    fc.record({ waitMs: fc.nat(300), event }),
    fc.record({
      waitMs: fc.nat(300),
      record: records.map((one): CallRecord => ({ ...record, ...one, status: one.errorCode === null ? 'success' : 'error' })),
    }),
  ),
  { maxLength: 60 },
);

function tell(metrics: Metrics, step: Step): void {
  if ('event' in step) metrics.sink(step.event);
  else metrics.record(step.record);
}

/** Without what is only in a window, and peaks, which depend on what was under way before it. */
function comparable(value: unknown): unknown {
  const text = JSON.stringify(value, (key, one: unknown) => (['perSecond', 'windowMs', 'peakExecuting'].includes(key) ? undefined : one));
  return JSON.parse(text);
}

describe('a window', () => {
  it('shows what metrics show that were told of nothing before it, and rates of that', () => {
    fc.assert(
      fc.property(steps, fc.nat(1500), (all: readonly Step[], restMs) => {
        virtualTime(({ advance, now }) => {
          const metrics = createMetrics({ windowMs: WINDOW_MS });
          const told: (readonly [at: number, step: Step])[] = [];
          for (const step of all) {
            advance(step.waitMs);
            told.push([now(), step]);
            tell(metrics, step);
          }
          advance(restMs);
          const from = (Math.floor(now() / PART_MS) - 9) * PART_MS;
          const fresh = createMetrics();
          const inside = told.filter(([at]) => at >= from);
          for (const [, step] of inside) tell(fresh, step);
          const { window } = metrics.snapshot();
          const { flow, operators, instances, calls, lanes, models } = fresh.snapshot();
          const wanted = comparable({ flow, operators, instances, calls, lanes, models }) as { operators: object; instances: object };
          const shown = comparable(window) as typeof wanted;
          // An operator with calls under way is shown though it has told of nothing.
          expect(shown).toMatchObject(wanted);
          const covered = window?.windowMs ?? NaN;
          expect(covered).toBe(now() - Math.max(0, from));
          expect(window?.flow.perSecond.accepted).toBeCloseTo((flow.accepted * 1000) / Math.max(covered, PART_MS), 6);
          expect(window?.calls.perSecond.promptTokens).toBeCloseTo((calls.promptTokens * 1000) / Math.max(covered, PART_MS), 6);
        });
      }),
      { numRuns: sized(60, 200) },
    );
  });

  it('has the peak of calls that began before it', () => {
    virtualTime(({ advance }) => {
      const metrics = createMetrics({ windowMs: WINDOW_MS });
      const started = { type: 'attemptStarted', operator: 'batchMap', ...call, weight: 1, splitDepth: 0, executing: 1 } as const;
      for (let i = 0; i < 3; i++) metrics.sink(started);
      metrics.sink({ type: 'attemptEnded', operator: 'batchMap', ...call, outcome: 'ok', latencyMs: 1 });
      advance(5000);
      metrics.sink(started);
      const { window, flow } = metrics.snapshot();
      expect([flow.peakExecuting, window?.flow.peakExecuting, window?.operators['batchMap']?.peakExecuting]).toEqual([3, 3, 3]);
      advance(5000);
      expect(metrics.snapshot().window?.operators['batchMap']?.peakExecuting).toBe(3);
    });
  });

  it('is not there unless it was asked for', () => {
    const metrics = createMetrics();
    metrics.record(record);
    expect(metrics.snapshot().window).toBeUndefined();
  });

  it('is told until it is empty, and then there is no timer', () => {
    virtualTime(({ flush, now, pending }) => {
      const metrics = createMetrics({ windowMs: WINDOW_MS, intervalMs: 400 });
      const seen: string[] = [];
      const subscription = metrics.metrics$.subscribe(({ window }) => seen.push(`${now()}: ${window?.calls.attempts}`));
      expect(pending()).toBe(0);
      metrics.record(record);
      flush();
      expect(seen).toEqual(['0: 0', '400: 1', '800: 1', '1200: 0']);
      expect(pending()).toBe(0);
      subscription.unsubscribe();
    });
  });

  it('keeps no more after a day than after a minute', () => {
    virtualTime(({ advance }) => {
      const metrics = createMetrics({ windowMs: WINDOW_MS, maxLabels: 5 });
      for (let i = 0; i < 20_000; i++) {
        advance(50);
        metrics.record({ ...record, model: `model ${i}` });
        if (i % 5000 !== 4999) continue;
        const { window } = metrics.snapshot();
        expect(Object.keys(window?.models ?? {}).length).toBeLessThanOrEqual(6);
        expect(window?.calls.attempts).toBeLessThanOrEqual(20);
      }
    });
  });
});

it('operators of one kind are told apart by their names, and those without one are not', async () => {
  const metrics = createMetrics();
  const run = (count: number, name?: string) =>
    from(Array.from({ length: count }, (_, i) => i))
      .pipe(batchMap((xs) => Promise.resolve(xs), { maxSize: 1, onEvent: metrics.sink, ...(name !== undefined && { name }) }))
      .forEach(() => undefined);
  await Promise.all([run(1, 'titles'), run(2, 'texts'), run(4), run(8)]);
  const { operators, instances } = metrics.snapshot();
  expect(operators['batchMap']?.calls).toBe(15);
  expect(Object.fromEntries(Object.entries(instances).map(([name, { calls }]) => [name, calls]))).toEqual({
    'batchMap/titles': 1,
    'batchMap/texts': 2,
  });
});

it('shows how many items and documents of stages are over in a minute, of the window alone', () => {
  virtualTime(({ scheduler, advance, flush }) => {
    const metrics = createMetrics({ windowMs: 60_000, scheduler });
    const stages = createStages(
      [
        { name: 'ask', local: true, expands: true, work: (n: number) => [n, n + 0.5] },
        {
          name: 'answer',
          concurrency: 1,
          allowPartialFailure: true,
          work: (n) =>
            timer(5000).pipe(
              map(() => {
                if (n === 3) throw Object.assign(new Error('no'), { status: 400 });
                return n;
              }),
            ),
        },
      ],
      { batches: { concurrency: 1 }, scheduler, onEvent: metrics.sink },
    );
    stages.run([0, 1, 2, 3, 4, 5]).subscribe();
    advance(60_000);
    const { flow, operators, window } = metrics.snapshot();
    expect([flow.items, flow.documents, operators['createStages']?.items]).toEqual([11, 6, 11]);
    // The window moves on in tenths: 54 to 60 s of it.
    expect(window?.flow.perMinute.items).toBeCloseTo(((window?.flow.items ?? 0) * 60_000) / (window?.windowMs ?? 0));
    expect(window?.flow.documents).toBeGreaterThanOrEqual(5);
    flush();
    advance(120_000);
    expect(metrics.snapshot().window?.flow.perMinute).toEqual({ items: 0, documents: 0 });
  });
});
