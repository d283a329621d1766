import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RateReport } from '../../operators/kernel/index.js';
import { mostLeft, RateLesson } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

const report = (fields: Partial<RateReport>): RateReport => ({
  unit: 'requests',
  limit: undefined,
  remaining: undefined,
  resetMs: undefined,
  windowMs: undefined,
  ...fields,
});

function rateOf(...reports: Partial<RateReport>[]): number {
  const lesson = new RateLesson();
  lesson.report(0, reports.map(report));
  return lesson.perMinute('requests');
}

const DAY_MS = 86_400_000;

describe('the rate that a report names', () => {
  it.each<[string, Partial<RateReport>, number]>([
    ['a limit alone is one of a minute', { limit: 60 }, 60],
    ['a bucket that fills in a minute has the rate of its limit', { limit: 60, remaining: 30, resetMs: 30_000 }, 60],
    ['so has one that is full', { limit: 60, remaining: 60, resetMs: 0 }, 60],
    ['so has one whose reset was rounded up to whole seconds', { limit: 20_000, remaining: 19_999, resetMs: 3000 }, 20_000],
    ['so has one whose reset was rounded down to nothing', { limit: 20_000, remaining: 19_999, resetMs: 0 }, 20_000],
    ['so has one whose reset was cut to milliseconds', { limit: 150_000, remaining: 149_984, resetMs: 6 }, 150_000],
    ['so has a fixed window that has just begun', { limit: 60, remaining: 59, resetMs: 60_000 }, 60],
    ['so has one at its end', { limit: 60, remaining: 1, resetMs: 1000 }, 60],
    ['so has one of whose reset nothing is known', { limit: 60, remaining: 0 }, 60],
    ['so has one of which more is left than there was', { limit: 60, remaining: 80, resetMs: 500 }, 60],
    ['an empty bucket of a minute still has its rate', { limit: 60, remaining: 0, resetMs: 60_000 }, 60],
    ['a quota of a day may be spent while there is much of it', { limit: 14_400, remaining: 14_370, resetMs: 180_000 }, 14_380],
    ['and comes down to what comes back when there is not', { limit: 14_400, remaining: 0, resetMs: DAY_MS }, 10],
    ['a window of ten seconds that is named as such', { limit: 100, windowMs: 10_000 }, 600],
    ['a minute that is named', { limit: 100, remaining: 0, resetMs: 3000, windowMs: 60_000 }, 100],
    ['a day that is named, with much left', { limit: 14_400, remaining: 14_400, windowMs: DAY_MS }, 14_400],
    ['a day that is named, with little left', { limit: 14_400, remaining: 5, windowMs: DAY_MS }, 15],
    ['a day that is named, with an unknown rest', { limit: 14_400, windowMs: DAY_MS }, 10],
  ])('%s', (_what, fields, perMinute) => {
    expect(rateOf(fields)).toBeCloseTo(perMinute, 9);
  });

  it('is the lowest when there are several, and none without a limit', () => {
    expect(rateOf({ limit: 60 }, { limit: 14_400, windowMs: DAY_MS })).toBe(10);
    expect(rateOf({ remaining: 5, resetMs: 1000 })).toBe(Infinity);
    expect(rateOf({ unit: 'tokens', limit: 60 })).toBe(Infinity);
  });

  it('is more than 0 and finite, whatever is reported', () => {
    const positive = fc.double({ min: 1e-3, max: 1e12, noNaN: true });
    const maybe = (value: fc.Arbitrary<number>) => fc.option(value, { nil: undefined });
    const amount = fc.oneof(fc.constant(0), positive);
    const any = fc.record({
      limit: positive,
      remaining: maybe(amount),
      resetMs: maybe(fc.double({ min: 0, max: 2 ** 31, noNaN: true })),
      windowMs: maybe(fc.double({ min: 1e-3, max: 2 ** 31, noNaN: true })),
    });
    fc.assert(
      fc.property(any, (fields) => {
        const rate = rateOf(fields);
        expect(rate > 0 && rate < Infinity).toBe(true);
        // With no window named, never more than the limit in a minute.
        expect(fields.windowMs !== undefined || rate <= fields.limit).toBe(true);
      }),
    );
  });
});

describe('reports', () => {
  it('follow the newest request, up and down, and nothing that was sent before it', () => {
    const lesson = new RateLesson();
    expect(lesson.report(10, [report({ limit: 60 })])).toBe(true);
    expect(lesson.report(9, [report({ limit: 500 })])).toBe(false);
    expect(lesson.perMinute('requests')).toBe(60);
    expect(lesson.report(10, [report({ limit: 50 })])).toBe(true);
    expect(lesson.report(20, [report({ limit: 500 })])).toBe(true);
    expect(lesson.perMinute('requests')).toBe(500);
  });

  it('keep what an earlier one said of what they do not mention', () => {
    const lesson = new RateLesson();
    lesson.report(0, [report({ limit: 60 })]);
    lesson.report(1, [report({ unit: 'tokens', limit: 1000 })]);
    expect([lesson.perMinute('requests'), lesson.perMinute('tokens')]).toEqual([60, 1000]);
  });
});

describe('what may be left', () => {
  it('is what remains, less what was granted since, and what has come in', () => {
    const reports = [report({ remaining: 40 })];
    expect(mostLeft(reports, 'requests', 0, 0)).toBe(40);
    expect(mostLeft(reports, 'requests', 15, 0)).toBe(25);
    expect(mostLeft(reports, 'requests', 15, 3)).toBe(28);
    expect(mostLeft(reports, 'tokens', 15, 3)).toBe(Infinity);
    expect(mostLeft([report({ limit: 5 })], 'requests', 15, 3)).toBe(Infinity);
    expect(mostLeft([report({ remaining: 40 }), report({ remaining: 8 })], 'requests', 0, 0)).toBe(8);
  });

  it('is never a debt', () => {
    expect(mostLeft([report({ remaining: 0 })], 'requests', 1000, 0)).toBe(0);
  });

  /** A provider's bucket of a minute, seen through answers that are late and out of order. */
  it('is never more than the provider has, however late the answers are', () => {
    const calls = fc.array(
      fc.record({ gapMs: fc.nat({ max: 500 }), cost: fc.integer({ min: 1, max: 10 }), latencyMs: fc.nat({ max: 5000 }) }),
      {
        minLength: 1,
        maxLength: 40,
        size: 'max',
      },
    );
    fc.assert(
      fc.property(calls, fc.integer({ min: 60, max: 600 }), (sent, limit) => {
        const perMs = limit / 60_000;
        let level = limit;
        let now = 0;
        const log = sent.map(({ gapMs, cost, latencyMs }) => {
          now += gapMs;
          level = Math.min(limit, level + gapMs * perMs) - cost;
          return { at: now, cost, remaining: Math.max(0, level), level, answeredAt: now + latencyMs };
        });
        for (const { at, remaining, answeredAt } of log) {
          const later = log.filter((other) => other.at > at && other.at <= answeredAt);
          const spent = later.reduce((sum, other) => sum + other.cost, 0);
          const most = mostLeft([report({ remaining })], 'requests', spent, 0);
          const last = later.at(-1) ?? log.find((other) => other.at === at);
          const has = Math.max(0, (last?.level ?? 0) + (answeredAt - (last?.at ?? 0)) * perMs);
          // Requests of the same moment are in the number of one of them only.
          if (log.filter((other) => other.at === at).length === 1) expect(most).toBeLessThanOrEqual(Math.max(has, 0) + 1e-9);
        }
      }),
    );
  });
});

describe('refusals without a reason', () => {
  it('pause and halve once for everything that was sent before', () => {
    const lesson = new RateLesson();
    expect(lesson.refused(0, 100, 1)).toBe(200);
    for (let i = 0; i < 9; i++) expect(lesson.refused(i, 100 + i, 1)).toBeUndefined();
    expect(lesson.share).toBe(0.5);
  });

  it('make longer pauses while they come soon after one, and short ones again later', () => {
    const lesson = new RateLesson();
    const pauses: (number | undefined)[] = [];
    let now = 0;
    for (let i = 0; i < 10; i++) {
      const pauseMs = lesson.refused(now, now + 50, 1);
      pauses.push(pauseMs);
      now += 50 + (pauseMs ?? 0);
    }
    expect(pauses).toEqual([200, 400, 800, 1600, 3200, 6400, 12_800, 20_000, 20_000, 20_000]);
    expect(lesson.share).toBe(1 / 16);
    expect(lesson.refused(now + 20_001, now + 20_001, 1)).toBe(200);
  });

  it('spread the pause over its upper half', () => {
    expect(new RateLesson().refused(0, 0, 0)).toBe(100);
    expect(new RateLesson().refused(0, 0, 0.5)).toBe(150);
  });

  it('are made good by a minute of successes at most, in equal steps', () => {
    const lesson = new RateLesson();
    const until = 1000 + (lesson.refused(0, 1000, 1) ?? 0);
    lesson.succeeded(500, until + 10_000);
    expect(lesson.share).toBe(0.5);
    for (let s = 1; s <= 15; s++) lesson.succeeded(until, until + 1000 * s);
    expect(lesson.share).toBeCloseTo(0.75, 9);
    for (let s = 16; s <= 31; s++) lesson.succeeded(until, until + 1000 * s);
    expect(lesson.share).toBe(1);
  });

  it.each([
    [0, 0, 1600],
    [0, 9, 1600],
    [1, 5, 1600],
    [1, 4, 400],
    [2, 2, 400],
    [3, 2, 200],
  ])('after three soon after another: when %i have succeeded and %i have not, the next pause is one of %i ms', (good, bad, pauseMs) => {
    const lesson = new RateLesson();
    let now = 0;
    for (let n = 0; n < 3; n++) now += lesson.refused(now, now, 1) ?? 0;
    for (let n = 0; n < good; n++) lesson.succeeded(now - 1, now);
    for (let n = 0; n < bad; n++) expect(lesson.refused(now - 1, now, 1)).toBeUndefined();
    expect(lesson.refused(now, now, 1)).toBe(pauseMs);
  });

  it('agree with a model that keeps every answer', () => {
    const step = fc.record({
      do: fc.constantFrom('refused' as const, 'refused' as const, 'succeeded' as const, 'succeeded' as const, 'resumed' as const),
      times: fc.integer({ min: 1, max: 6 }),
      /** First waits for the end of the pause. */
      isPatient: fc.boolean(),
      waitMs: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(0, 0, 1, 50, 100, 200, 400) },
        { weight: 1, arbitrary: fc.nat({ max: 30_000 }) },
      ),
      latencyMs: fc.constantFrom(0, 0, 0, 50, 200, 5000),
      random01: fc.constantFrom(0, 0.5, 1),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const lesson = new RateLesson();
        let now = 0;
        let share = 1;
        let nth = 0;
        let pauseMs = 0;
        let endsAt = -Infinity;
        let countedUntil = -Infinity;
        /** Answers since the epoch began. */
        let answers: boolean[] = [];
        /** How long the next pause is to be, as the first, the second and so on. */
        const next = (sentAt: number): number => {
          const good = answers.filter(Boolean).length;
          const bad = answers.length - good;
          if (sentAt > endsAt + pauseMs) return 1;
          if (good === 0 || 4 * good < bad) return nth + 1;
          return good > bad ? 1 : Math.max(1, nth - 1);
        };
        const seen: unknown[] = [];
        const expected: unknown[] = [];
        for (const { do: act, times, isPatient, waitMs, latencyMs, random01 } of steps) {
          now = (isPatient ? Math.max(now, endsAt) : now) + waitMs;
          const sentAt = now - latencyMs;
          for (let n = 0; n < times; n++) {
            if (act === 'resumed') {
              lesson.resumed(now);
              endsAt = Math.min(endsAt, now);
            } else if (act === 'succeeded') {
              lesson.succeeded(sentAt, now);
              answers.push(true);
              if (sentAt >= endsAt) {
                share = Math.min(1, share + Math.max(0, now - countedUntil) / 60_000);
                countedUntil = now;
              }
            } else {
              seen.push(lesson.refused(sentAt, now, random01));
              if (sentAt < endsAt) {
                answers.push(false);
                expected.push(undefined);
              } else {
                nth = next(sentAt);
                pauseMs = (Math.min(20_000, 200 * 2 ** (nth - 1)) * (1 + random01)) / 2;
                endsAt = countedUntil = now + pauseMs;
                share = Math.max(1 / 16, share / 2);
                answers = [];
                expected.push(pauseMs);
              }
            }
            seen.push(lesson.share);
            expected.push(share);
          }
        }
        expect(seen).toEqual(expected);
        // A minute of successes later everything is as it was.
        for (let s = 0; s <= 80; s++) lesson.succeeded(now + 1000 * s, now + 1000 * s);
        expect(lesson.share).toBe(1);
      }),
      { numRuns: draws(80, 200) },
    );
  });
});
