import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { SlidingWindow } from '../../operators/kernel/index.js';
import { canPay } from '../support/can-pay.js';
import { draws } from '../support/deep.js';

const MINUTE_MS = 60_000;

/** Virtual clocks start at 0, hosts count from 1970. */
const epoch = fc.constantFrom(0, 1_790_000_000_000);
/** Often nothing, often within the window, now and then past all of it. */
const wait = fc.oneof(fc.constant(0), fc.nat({ max: 5000 }), fc.nat({ max: MINUTE_MS }), fc.constant(MINUTE_MS), fc.nat({ max: 200_000 }));
const CAPACITY = 100;

type Step =
  | { readonly do: 'pay'; readonly cost: number; readonly waitMs: number }
  | { readonly do: 'correct'; readonly which: number; readonly delta: number; readonly waitMs: number }
  | { readonly do: 'resize'; readonly capacity: number; readonly waitMs: number };

const pay = fc.record({ do: fc.constant('pay' as const), cost: fc.nat({ max: CAPACITY }), waitMs: wait });
const correct = fc.record({
  do: fc.constant('correct' as const),
  which: fc.nat({ max: 9 }),
  delta: fc.integer({ min: -CAPACITY, max: 2 * CAPACITY }),
  waitMs: wait,
});
const resize = fc.record({ do: fc.constant('resize' as const), capacity: fc.integer({ min: 1, max: 2 * CAPACITY }), waitMs: wait });

/** Every payment, added up at each question. */
class NaiveLog {
  readonly all: { readonly at: number; cost: number }[] = [];
  capacity = CAPACITY;

  pay(cost: number, at: number): void {
    this.all.push({ at, cost });
  }

  used(now: number): number {
    return this.all.reduce((sum, { at, cost }) => (at + MINUTE_MS > now ? sum + cost : sum), 0);
  }

  canPay(cost: number, now: number): boolean {
    return this.used(now) + Math.min(cost, this.capacity) <= this.capacity;
  }

  /** Tried at every time something leaves. */
  payableAt(cost: number, now: number): number {
    if (this.canPay(cost, now)) return now;
    return Math.min(...this.all.map(({ at }) => at + MINUTE_MS).filter((at) => at > now && this.canPay(cost, at)));
  }
}

/** Does the same to both. What is taken back from a payment is at most what it still costs. */
function applied(step: Step, window: SlidingWindow, log: NaiveLog, now: number): void {
  if (step.do === 'pay') {
    if (!canPay(window, step.cost, now)) return;
    window.pay(step.cost, now);
    log.pay(step.cost, now);
  } else if (step.do === 'resize') {
    window.resize(step.capacity, step.capacity, now);
    log.capacity = step.capacity;
  } else if (log.all.length > 0) {
    const entry = log.all[step.which % log.all.length]!;
    const delta = Math.max(step.delta, -entry.cost);
    window.correct(delta, entry.at, now);
    if (entry.at + MINUTE_MS > now) entry.cost += delta;
  }
}

describe('SlidingWindow', () => {
  it('says what a log says that is added up anew each time, whatever is paid, corrected, refunded and resized', () => {
    fc.assert(
      fc.property(
        epoch,
        fc.array(fc.oneof(pay, pay, correct, resize), { maxLength: 40, size: 'max' }),
        fc.nat({ max: 150 }),
        (at, steps, ask) => {
          const window = new SlidingWindow(CAPACITY, CAPACITY, at);
          const log = new NaiveLog();
          let now: number = at;
          for (const step of steps) {
            now += step.waitMs;
            applied(step, window, log, now);
            expect(window.level(now)).toBe(log.capacity - log.used(now));
            for (const cost of [0, 1, ask]) {
              expect(canPay(window, cost, now)).toBe(log.canPay(cost, now));
              expect(window.payableAt(cost, now)).toBe(log.payableAt(cost, now));
            }
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it('never grants more than its capacity in any minute, fractions of tokens and of milliseconds included', () => {
    const ask = fc.record({
      cost: fc.double({ min: 0, max: CAPACITY, noNaN: true }),
      waitMs: fc.oneof(fc.double({ min: 0, max: 20_000, noNaN: true }), fc.constant(0)),
    });
    fc.assert(
      fc.property(epoch, fc.array(ask, { minLength: 1, maxLength: 80, size: 'max' }), (at, asks) => {
        const window = new SlidingWindow(CAPACITY, CAPACITY, at);
        const granted: { at: number; cost: number }[] = [];
        let now: number = at;
        for (const { cost, waitMs } of asks) {
          now += waitMs;
          // Some wait for their turn, to the moment they were told.
          const when = window.payableAt(cost, now);
          expect(canPay(window, cost, now)).toBe(when === now);
          if (when > now + 30_000) continue;
          now = when;
          expect(canPay(window, cost, now)).toBe(true);
          window.pay(cost, now);
          granted.push({ at: now, cost });
        }
        for (const { at: end } of granted) {
          const inWindow = granted.filter((each) => each.at <= end && each.at + MINUTE_MS > end);
          expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(CAPACITY + 1e-5);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('tells exactly when a cost can be paid: not a thousandth of a millisecond earlier', () => {
    fc.assert(
      fc.property(
        epoch,
        fc.array(pay, { minLength: 1, maxLength: 20, size: 'max' }),
        fc.integer({ min: 1, max: 150 }),
        (at, steps, cost) => {
          const window = new SlidingWindow(CAPACITY, CAPACITY, at);
          let now: number = at;
          for (const { cost: paid, waitMs } of steps) {
            now += waitMs % 5000;
            window.pay(paid, now);
          }
          const when = window.payableAt(cost, now);
          if (when === now) return;
          expect(canPay(window, cost, when - 0.001)).toBe(false);
          expect(canPay(window, cost, when)).toBe(true);
          expect(window.payableAt(cost, when)).toBe(when);
        },
      ),
      { numRuns: draws(100, 250) },
    );
  });

  it('gives everything back in the moment the minute is over, and not before', () => {
    const window = new SlidingWindow(10, 10, 0);
    window.pay(4, 0);
    window.pay(6, 20_000);
    expect([window.level(59_999), window.level(60_000), window.level(79_999), window.level(80_000)]).toEqual([0, 4, 4, 10]);
  });

  it('counts what was paid at one time as one', () => {
    const window = new SlidingWindow(10, 10, 0);
    for (let i = 0; i < 5; i++) window.pay(2, 7);
    expect([window.payableAt(1, 7), window.payableAt(10, 7)]).toEqual([60_007, 60_007]);
    window.correct(-8, 7, 8);
    expect(window.level(8)).toBe(8);
  });

  it('takes a correction as if it had been paid so from the start', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(50, 0);
    window.pay(30, 10_000);
    window.correct(-20, 10_000, 30_000);
    window.correct(70, 0, 30_000);
    expect(window.level(30_000)).toBe(-30);
    expect([window.payableAt(0, 30_000), window.payableAt(91, 30_000), canPay(window, 0, 59_999)]).toEqual([60_000, 70_000, false]);
    expect([window.level(60_000), window.level(70_000)]).toEqual([90, 100]);
  });

  it('corrects what was estimated at nothing', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(0, 5);
    window.correct(60, 5, 40_000);
    expect([window.level(60_004), window.level(60_005)]).toEqual([40, 100]);
  });

  it('changes nothing for a payment whose minute is over', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(50, 0);
    window.pay(10, 59_999);
    window.correct(-50, 0, 60_000);
    window.correct(500, 0, 60_000);
    expect(window.level(60_000)).toBe(90);
  });

  it('gives nothing back of what it knows nothing of, and counts what it costs more from now', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(10, 1000);
    window.correct(-10, 500, 2000);
    window.correct(-10, 1500, 2000);
    window.correct(0, 1500, 2000);
    expect(window.level(2000)).toBe(90);
    window.correct(20, 500, 2000);
    expect([window.level(61_999), window.level(62_000)]).toEqual([80, 100]);
  });

  it('gives back no more than was paid', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(10, 0);
    window.pay(10, 1);
    window.correct(-30, 0, 2);
    expect([window.level(2), window.level(60_000), window.level(60_001)]).toEqual([90, 90, 100]);
  });

  it('lets a cost above its capacity go when it is empty', () => {
    const window = new SlidingWindow(100, 100, 0);
    expect(canPay(window, 500, 0)).toBe(true);
    window.pay(500, 0);
    window.pay(1, 5000);
    expect([window.level(5000), window.payableAt(0, 5000), window.payableAt(500, 5000)]).toEqual([-401, 60_000, 65_000]);
  });

  it('lets a cost go that is a millionth above its level, and no more than that', () => {
    const window = new SlidingWindow(1, 1, 0);
    window.pay(1, 0);
    expect([canPay(window, 1e-6, 0), canPay(window, 1.01e-6, 0), window.payableAt(1e-6, 0)]).toEqual([true, false, 0]);
  });

  it('waits for the same entry as fractions that do not add up to the whole', () => {
    const window = new SlidingWindow(1, 1, 0);
    for (let i = 0; i < 10; i++) window.pay(0.1, i);
    expect([window.payableAt(0.3, 9), window.payableAt(1, 9)]).toEqual([60_002, 60_009]);
  });

  it('does not drift: fractions that come and go for years leave nothing behind', () => {
    const window = new SlidingWindow(1e7, 1e7, 0);
    let paid = 0;
    for (let i = 0; i < 300_000; i++) {
      const cost = 1e6 + ((i * 7919) % 1000) / 997;
      window.pay(cost, i * 20_000);
      if (i >= 299_998) paid += cost;
    }
    // The one before these two leaves just now.
    const left = 1e7 - window.level(299_999 * 20_000);
    expect(left).toBeCloseTo(paid + 1e6 + ((299_997 * 7919) % 1000) / 997, 8);
  });

  it('has a longer window for a capacity that takes longer to come in, and a shorter one for one that takes less', () => {
    const slow = new SlidingWindow(0.5, 1, 0);
    slow.pay(1, 0);
    expect([slow.payableAt(1, 0), canPay(slow, 1, 119_999), canPay(slow, 1, 120_000)]).toEqual([120_000, false, true]);
    const short = new SlidingWindow(600, 10, 0);
    short.pay(10, 0);
    expect(short.payableAt(1, 0)).toBe(1000);
  });

  it('never empties at a rate of 0, and has no end at a rate of Infinity', () => {
    const dry = new SlidingWindow(0, 10, 0);
    dry.pay(4, 5);
    expect([dry.payableAt(6, 5), dry.payableAt(7, 5), dry.level(1e9)]).toEqual([5, Infinity, 6]);
    const endless = new SlidingWindow(Infinity, Infinity, 0);
    endless.pay(4, 0);
    expect([canPay(endless, 1e9, 0), endless.payableAt(1e9, 0), endless.level(0)]).toEqual([true, 0, Infinity]);
    expect(endless.save(0)).toEqual([]);
  });

  it('waits for as many as it takes after the oldest was corrected', () => {
    const window = new SlidingWindow(100, 100, 0);
    for (const at of [0, 1000, 2000]) window.pay(at === 0 ? 40 : 30, at);
    expect(window.payableAt(60, 3000)).toBe(61_000);
    window.correct(-20, 0, 3000);
    expect(window.payableAt(60, 3000)).toBe(61_000);
  });

  it('looks at few entries for an answer, and seldom at all of them, however many there are', () => {
    const inside = SlidingWindow.prototype as unknown as Record<'entry' | 'addUp', () => unknown>;
    const looks = vi.spyOn(inside, 'entry');
    const sums = vi.spyOn(inside, 'addUp');
    onTestFinished(() => {
      looks.mockRestore();
      sums.mockRestore();
    });
    const window = new SlidingWindow(1000, 1000, 0);
    for (let n = 0; n < 1000; n++) window.pay(1, n * 60);
    looks.mockClear();
    for (let n = 1000; n < 4000; n++) {
      window.pay(1, n * 60);
      window.payableAt(500, n * 60);
    }
    expect(looks.mock.calls.length).toBeLessThan(20 * 3000);
    expect(sums.mock.calls.length).toBeLessThan(5);
  });

  it('adds up anew once more have left than are inside', () => {
    const sums = vi.spyOn(SlidingWindow.prototype as unknown as Record<'addUp', () => void>, 'addUp');
    onTestFinished(() => {
      sums.mockRestore();
    });
    const window = new SlidingWindow(100, 100, 0);
    for (const at of [0, 1000, 2000, 3000]) window.pay(10, at);
    expect([window.level(61_500), sums.mock.calls.length]).toEqual([80, 0]);
    expect([window.level(62_500), sums.mock.calls.length]).toEqual([90, 1]);
  });

  it('waits for its last entry where its sum and theirs round to different numbers', () => {
    const most = 2 ** 53;
    const window = new SlidingWindow(most, most, 0);
    window.pay(most, 0);
    // To itself the window adds 1.5 three times, which is 6 there; the entry has 4.5, which is 4.
    for (let i = 0; i < 3; i++) window.pay(1.5, 100);
    expect([window.level(100), window.payableAt(most, 100)]).toEqual([-6, 100 + MINUTE_MS]);
  });

  it('saves what is inside the window, and nothing that has left it', () => {
    const window = new SlidingWindow(100, 100, 0);
    for (const at of [0, 1000, 2000, 3000]) window.pay(10, at);
    expect(window.save(61_500)).toEqual([59_500, 10, 58_500, 10]);
    expect([window.level(61_500), window.payableAt(100, 61_500)]).toEqual([80, 63_000]);
  });

  it('keeps nothing of what costs nothing more, and of half an entry', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.correct(0, 0, 0);
    expect(window.save(0)).toEqual([]);
    window.load([5], 0, 0);
    expect(window.level(0)).toBe(100);
  });

  it('remembers what was paid when it is resized, and lets it leave by the new window', () => {
    const window = new SlidingWindow(100, 100, 0);
    window.pay(80, 0);
    window.pay(10, 500);
    window.resize(40, 40, 1000);
    expect([window.capacity, window.level(1000), window.payableAt(40, 1000)]).toEqual([40, -50, 60_500]);
    window.resize(200, 200, 2000);
    expect([window.level(2000), window.payableAt(190, 2000)]).toEqual([110, 60_000]);
    window.pay(4, 2900);
    window.resize(600, 10, 3000);
    expect([window.level(3000), window.payableAt(10, 3000)]).toEqual([6, 3900]);
  });

  it('goes on from what was saved so long ago, as if it had been there all the time', () => {
    const payments = fc.array(pay, { maxLength: 20, size: 'max' });
    fc.assert(
      fc.property(payments, fc.nat({ max: 90_000 }), fc.array(fc.nat({ max: 20_000 })), (paid, elapsedMs, looks) => {
        const [window, again] = [new SlidingWindow(CAPACITY, CAPACITY, 0), new SlidingWindow(CAPACITY, CAPACITY, 7)];
        let now = 0;
        for (const { cost, waitMs } of paid) window.pay(cost, (now += waitMs % 9000));
        again.pay(1, 7);
        again.load(window.save(now), elapsedMs, 1e6);
        let passedMs = elapsedMs;
        let laterMs = 0;
        for (const look of [0, ...looks]) {
          passedMs += look;
          laterMs += look;
          expect(again.level(1e6 + laterMs)).toBe(window.level(now + passedMs));
        }
      }),
    );
  });
});
