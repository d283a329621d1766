import { VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createAccount, createLimiter, isFlowError, perDay } from '../../operators/index.js';
import type { DayStart } from '../../operators/per-day.js';

/** Virtual time that counts from a time since 1970. */
class From extends VirtualTimeScheduler {
  constructor(private readonly epochMs: number) {
    super();
  }

  override now = (): number => this.epochMs + this.frame;
}

/** When the two jobs behind a spent day are granted. */
function nextDays(from: string | number, startsAt?: DayStart): string[] {
  const scheduler = new From(typeof from === 'number' ? from : Date.parse(from));
  const limiter = createLimiter({ rates: [perDay('requests', 1, startsAt)], headroom: 1, scheduler });
  const at: string[] = [];
  for (let i = 0; i < 3; i++) limiter.acquire().subscribe(() => at.push(new Date(scheduler.now()).toISOString().slice(0, 16)));
  scheduler.flush();
  return at.slice(1);
}

describe('perDay', () => {
  it.each<[string, string | number, DayStart | undefined, string[]]>([
    ['UTC', '2026-05-05T13:30:00Z', undefined, ['2026-05-06T00:00', '2026-05-07T00:00']],
    ['another hour of UTC', '2026-05-05T13:30:00Z', { hour: 14 }, ['2026-05-05T14:00', '2026-05-06T14:00']],
    ['the Pacific', '2026-05-05T13:30:00Z', { timeZone: 'America/Los_Angeles' }, ['2026-05-06T07:00', '2026-05-07T07:00']],
    ['a day of 23 hours', '2026-03-07T20:00:00Z', { timeZone: 'America/Los_Angeles' }, ['2026-03-08T08:00', '2026-03-09T07:00']],
    ['a day of 25 hours', '2026-10-31T20:00:00Z', { timeZone: 'America/Los_Angeles' }, ['2026-11-01T07:00', '2026-11-02T08:00']],
    [
      'an hour that is left out',
      '2026-03-07T20:00:00Z',
      { timeZone: 'America/Los_Angeles', hour: 2 },
      ['2026-03-08T10:00', '2026-03-09T09:00'],
    ],
    ['a midnight that is left out', '2026-03-28T12:00:00Z', { timeZone: 'Asia/Beirut' }, ['2026-03-28T22:00', '2026-03-29T21:00']],
    ['half an hour', '2026-05-05T13:30:00Z', { timeZone: 'Asia/Kolkata' }, ['2026-05-05T18:30', '2026-05-06T18:30']],
    ['virtual time from 0', 0, { timeZone: 'America/Los_Angeles', hour: 5 }, ['1970-01-02T00:00', '1970-01-03T00:00']],
  ])('begins a day by the clocks of %s', (_, from, startsAt, days) => {
    expect(nextDays(from, startsAt)).toEqual(days);
  });

  it('is spent at once, goes on from what was saved that day, and is whole on the next', () => {
    const scheduler = new From(Date.parse('2026-05-05T13:30:00Z'));
    const make = (saved?: ReturnType<Limiter['save']>): Limiter =>
      createAccount({ requestsPerDay: 3, tokensPerDay: 1000, headroom: 1, scheduler, lanes: ['all'], ...(saved && { restore: saved }) });
    const account = make();
    const ask = (limiter: Limiter): boolean => limiter.tryAcquire({ cost: { inputTokens: 5 } }) !== undefined;
    expect([ask(account), ask(account)]).toEqual([true, true]);
    const saved = account.save();
    scheduler.frame += 3_600_000;
    const later = make(saved);
    expect([later.snapshot().requests, later.snapshot().tokens]).toEqual([1, 990]);
    expect([ask(later), ask(later)]).toEqual([true, false]);
    scheduler.frame += 12 * 3_600_000;
    expect(make(saved).snapshot().requests).toBe(3);
    expect([ask(later), ask(later)]).toEqual([true, true]);
  });

  it('is not spent by what a minute has left', () => {
    const scheduler = new From(Date.parse('2026-05-05T13:30:00Z'));
    const account = createAccount({ requestsPerDay: 10_000, headroom: 1, scheduler });
    account.observe({ status: 200, headers: { 'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': '5' } });
    const left = (): number | undefined => account.snapshot().rates.find(({ windowMs }) => windowMs > 60_000)?.left;
    expect(left()).toBe(10_000);
    account.observe({ status: 200, headers: { 'x-ratelimit-limit-requests-day': '10000', 'x-ratelimit-remaining-requests-day': '500' } });
    expect(left()).toBe(500);
  });

  it('is named by the error of a job that may not wait so long', async () => {
    const scheduler = new From(Date.parse('2026-05-05T23:00:00Z'));
    const account = createAccount({ requestsPerDay: 1, headroom: 1, scheduler });
    account.tryAcquire();
    const error = account.acquireAsync({ deadlineMs: 0 }).catch((thrown: unknown) => thrown);
    scheduler.maxFrames = 1;
    scheduler.flush();
    const thrown = await error;
    expect(isFlowError(thrown, 'FLOW_RATE_LIMITED') && [thrown.limit, thrown.retryAfterMs]).toEqual(['requestsPerDay', 3_600_000]);
  });
});
