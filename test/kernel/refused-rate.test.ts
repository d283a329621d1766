import { describe, expect, it } from 'vitest';
import { RateLesson } from '../../operators/kernel/index.js';

const MINUTE_MS = 60_000;

/** So many requests that were let through, one every so many ms. */
function passed(lesson: RateLesson, from: number, count: number, everyMs: number): void {
  for (let i = 0; i < count; i++) lesson.succeeded(from + i * everyMs, from + i * everyMs);
}

const rateOf = (lesson: RateLesson): number => lesson.perMinute('requests');

describe('the rate of a provider that reports no limit', () => {
  it('is what it let through before it refused, over the time until it lets through again', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 16, 100);
    expect(rateOf(lesson)).toBe(Infinity);
    lesson.refusedFor(2000, 2000, 58_000);
    expect(rateOf(lesson)).toBeCloseTo(16, 9);
    expect(lesson.perMinute('tokens')).toBe(Infinity);
  });

  it('follows shorter windows, and is of the last minute alone', () => {
    const short = new RateLesson();
    passed(short, 0, 20, 10);
    short.refusedFor(500, 500, 2500);
    expect(rateOf(short)).toBeCloseTo(400, 9);
    const long = new RateLesson();
    passed(long, 0, 1000, 1000);
    long.refusedFor(1_000_000, 1_000_000, 1000);
    expect(rateOf(long)).toBeCloseTo(60, 9);
  });

  it('counts answers that come after the refusal and were sent before it, and not those of refused ones', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 4, 100);
    for (let i = 0; i < 8; i++) lesson.refusedFor(1000 + i, 1000 + i, 59_000);
    lesson.succeeded(900, 5000);
    lesson.succeeded(70_000, 71_000);
    expect(rateOf(lesson)).toBeCloseTo(5, 9);
  });

  it('is learned anew from each refusal after a wait, from the end of that wait on', () => {
    const lesson = new RateLesson();
    // In the middle of a fixed minute: so much is only allowed once.
    passed(lesson, 40_000, 16, 100);
    lesson.refusedFor(42_000, 42_000, 18_000);
    expect(rateOf(lesson)).toBeCloseTo(48, 9);
    passed(lesson, MINUTE_MS, 16, 1250);
    lesson.refusedFor(MINUTE_MS + 20_000, MINUTE_MS + 20_000, 40_000);
    expect(rateOf(lesson)).toBeCloseTo(16, 9);
  });

  it('is kept where a wait was too short, and forgotten after five minutes without a refusal', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 16, 100);
    lesson.refusedFor(2000, 2000, 58_000);
    lesson.refusedFor(MINUTE_MS, MINUTE_MS, 500);
    passed(lesson, 61_000, 4, MINUTE_MS);
    expect(rateOf(lesson)).toBeCloseTo(16, 9);
    passed(lesson, 361_000, 1, 0);
    expect(rateOf(lesson)).toBe(Infinity);
  });

  it('says nothing where nothing was let through, where the wait is that of a day, or where limits are reported', () => {
    const refused = new RateLesson();
    refused.refusedFor(0, 0, 5000);
    expect(rateOf(refused)).toBe(Infinity);
    const day = new RateLesson();
    passed(day, 0, 16, 100);
    day.refusedFor(2000, 2000, 3_600_000);
    expect(rateOf(day)).toBe(Infinity);
    const told = new RateLesson();
    passed(told, 0, 16, 100);
    told.refusedFor(2000, 2000, 58_000);
    told.report(2000, [{ unit: 'tokens', limit: 8000, remaining: 0, resetMs: undefined, windowMs: undefined }]);
    expect(rateOf(told)).toBe(Infinity);
  });

  it('begins again when a wait is ended by hand', () => {
    const lesson = new RateLesson();
    passed(lesson, 0, 16, 100);
    lesson.refusedFor(2000, 2000, 58_000);
    lesson.resumed(3000);
    passed(lesson, 3000, 8, 100);
    lesson.refusedFor(4000, 4000, 59_000);
    expect(rateOf(lesson)).toBeCloseTo(8, 9);
  });
});
