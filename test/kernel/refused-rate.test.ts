import { describe, expect, it } from 'vitest';
import { RateLesson } from '../../operators/kernel/index.js';

const MINUTE_MS = 60_000;

/** So many requests that were let through, one every so many ms. */
function passed(lesson: RateLesson, from: number, count: number, everyMs: number): void {
  for (let i = 0; i < count; i++) lesson.succeeded(from + i * everyMs, from + i * everyMs);
}

const rateOf = (lesson: RateLesson): number => lesson.perMinute('requests');

/** Sixteen in the first two seconds, then a refusal for the rest of the minute. */
function refusedOnce(): RateLesson {
  const lesson = new RateLesson();
  passed(lesson, 0, 16, 100);
  lesson.usedUp(2000, 2000, 58_000, MINUTE_MS);
  return lesson;
}

describe('the rate of a provider that reports no limit', () => {
  it('is what it let through in the window that is used up', () => {
    const lesson = refusedOnce();
    expect(rateOf(lesson)).toBeCloseTo(16, 9);
    expect(lesson.perMinute('tokens')).toBe(Infinity);
    const short = new RateLesson();
    passed(short, 0, 1000, 100);
    short.usedUp(100_000, 100_000, 500, 10_000);
    // Counted by the second.
    expect(Math.abs(rateOf(short) - 600)).toBeLessThanOrEqual(60);
  });

  it('is unknown before the first refusal, and when none was let through', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 16, 100);
    expect(rateOf(lesson)).toBe(Infinity);
    const refused = new RateLesson();
    refused.usedUp(0, 0, 5000, MINUTE_MS);
    expect(rateOf(refused)).toBe(Infinity);
  });

  it('counts what was let through before the last pause in the same window', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 16, 3600);
    lesson.usedUp(58_000, 58_000, 2000, MINUTE_MS);
    passed(lesson, 60_500, 1, 0);
    lesson.usedUp(61_000, 61_000, 2000, MINUTE_MS);
    expect(rateOf(lesson)).toBeGreaterThanOrEqual(15);
  });

  it('counts answers that come after the refusal and were sent before it, and no refusal of the same pause', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 4, 100);
    for (let i = 0; i < 8; i++) lesson.usedUp(1000 + i, 1000 + i, 59_000, MINUTE_MS);
    lesson.succeeded(900, 5000);
    lesson.succeeded(70_000, 71_000);
    expect(rateOf(lesson)).toBeCloseTo(5, 9);
  });

  it('is kept where a wait was too short, and forgotten five minutes after the last refusal', () => {
    const lesson = refusedOnce();
    lesson.usedUp(100_000, 100_000, 500, MINUTE_MS);
    passed(lesson, 120_000, 4, MINUTE_MS);
    expect(rateOf(lesson)).toBeCloseTo(16, 9);
    passed(lesson, 361_000, 1, 0);
    expect(rateOf(lesson)).toBe(Infinity);
  });

  it('is that of no day, of no window that the wait outlasts, and of no provider that reports limits', () => {
    for (const [waitMs, windowMs] of [
      [30_000, 86_400_000],
      [3_600_000, MINUTE_MS],
    ] as const) {
      const lesson = new RateLesson();
      passed(lesson, 0, 16, 100);
      lesson.usedUp(2000, 2000, waitMs, windowMs);
      expect(rateOf(lesson)).toBe(Infinity);
    }
    const told = refusedOnce();
    told.report(2000, [{ unit: 'tokens', limit: 8000, remaining: 0, resetMs: undefined, windowMs: undefined }]);
    expect(rateOf(told)).toBe(Infinity);
  });

  it('is learned again when a pause was ended by hand', () => {
    const lesson = refusedOnce();
    lesson.resumed(3000);
    passed(lesson, 3000, 8, 100);
    lesson.usedUp(4000, 4000, 56_000, MINUTE_MS);
    expect(rateOf(lesson)).toBeCloseTo(24, 9);
  });
});
