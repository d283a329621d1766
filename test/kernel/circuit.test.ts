import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CircuitOptions } from '../../operators/kernel/index.js';
import { Circuit } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

interface Settings extends Pick<CircuitOptions, 'openMs' | 'maxOpenMs'> {
  readonly failureRatio: number;
  readonly minCalls: number;
  readonly windowMs: number;
  readonly probes: number;
}
const DEFAULTS: Settings = { failureRatio: 0.5, minCalls: 10, windowMs: 30_000, openMs: 5_000, maxOpenMs: 60_000, probes: 1 };
const circuit = (options: Partial<Settings> = {}): Circuit => {
  const { failureRatio, minCalls, windowMs, probes, ...same } = { ...DEFAULTS, ...options };
  return new Circuit({ ...same, share: failureRatio, minCalls, windowMs, probes, probeShare: 1, inARow: Infinity });
};

/** Makes a call that takes no time. */
function call(on: Circuit, now: number, outcome: 'ok' | 'failed' | 'left'): boolean {
  const ticket = on.enter(now);
  if (ticket === undefined) return false;
  if (outcome === 'ok') on.succeeded(ticket, now);
  else if (outcome === 'failed') on.failed(ticket, now);
  else on.left(ticket);
  return true;
}

function fail(on: Circuit, times: number, now = 0): void {
  for (let n = 0; n < times; n++) call(on, now, 'failed');
}

function counts(of: Circuit, now: number) {
  const { calls, failures } = of.snapshot(now);
  return { calls, failures };
}

describe('a closed circuit', () => {
  it('opens with the call that makes the share of failures too large', () => {
    const it = circuit();
    for (let n = 0; n < 5; n++) call(it, n, 'ok');
    for (let n = 5; n < 9; n++) call(it, n, 'failed');
    expect(it.state).toBe('closed');
    call(it, 9, 'failed');
    expect([it.state, it.openForMs]).toEqual(['open', 5_000]);
  });

  it('does not open on fewer calls than it needs, however many fail', () => {
    const it = circuit();
    fail(it, 9);
    expect(it.state).toBe('closed');
    expect(counts(it, 0)).toEqual({ calls: 9, failures: 9 });
  });

  it('does not open on a success, even if the share has been too large for long', () => {
    const it = circuit();
    fail(it, 9);
    call(it, 1, 'ok');
    expect(it.state).toBe('closed');
    call(it, 2, 'failed');
    expect(it.state).toBe('open');
  });

  it('opens at exactly the share, for every share that can be written down', () => {
    for (let failures = 1; failures <= 100; failures++) {
      const it = circuit({ failureRatio: failures / 100, minCalls: 100 });
      for (let n = 0; n < 100 - failures; n++) call(it, 0, 'ok');
      fail(it, failures - 1);
      expect(it.state).toBe('closed');
      call(it, 0, 'failed');
      expect(it.state).toBe('open');
    }
  });

  it('does not count what was left', () => {
    const it = circuit({ minCalls: 2 });
    for (let n = 0; n < 100; n++) call(it, n, 'left');
    expect(counts(it, 100)).toEqual({ calls: 0, failures: 0 });
  });

  it('forgets what is older than the window, a tenth of it at a time', () => {
    const it = circuit({ windowMs: 1000 });
    for (let at = 0; at < 1000; at += 100) call(it, at, 'ok');
    expect(it.snapshot(999).calls).toBe(10);
    expect(it.snapshot(1000).calls).toBe(9);
    expect(it.snapshot(1899).calls).toBe(1);
    expect(it.snapshot(1900).calls).toBe(0);
  });

  it('does not open on failures that are spread over a longer time', () => {
    const it = circuit({ windowMs: 1000, minCalls: 3 });
    for (let at = 0; at < 100_000; at += 500) call(it, at, 'failed');
    expect(it.state).toBe('closed');
  });

  it('remembers everything with a window of Infinity, until it is reset', () => {
    const it = circuit({ windowMs: Infinity, minCalls: 3 });
    call(it, 0, 'failed');
    call(it, 1e9, 'failed');
    expect(counts(it, 1e12)).toEqual({ calls: 2, failures: 2 });
    it.reset();
    expect(counts(it, 1e12)).toEqual({ calls: 0, failures: 0 });
  });

  it('opens at the first failure with a share of 0 and one call', () => {
    const it = circuit({ failureRatio: 0, minCalls: 1 });
    call(it, 0, 'ok');
    expect(it.state).toBe('closed');
    call(it, 0, 'failed');
    expect(it.state).toBe('open');
  });
});

describe('an open circuit', () => {
  it('refuses every call until its time is over, and then lets one through', () => {
    const it = circuit();
    fail(it, 10);
    expect(it.snapshot(1_000).retryAfterMs).toBe(4_000);
    expect(it.enter(4_999)).toBeUndefined();
    expect([it.snapshot(4_999).state, it.snapshot(5_000).state]).toEqual(['open', 'halfOpen']);
    expect(it.snapshot(5_000).retryAfterMs).toBe(0);
    expect(it.enter(5_000)).toBeDefined();
    expect([it.state, it.snapshot(5_000).probing]).toEqual(['halfOpen', 1]);
    expect(it.enter(5_000)).toBeUndefined();
  });

  it('stays open twice as long after every probe that fails, up to the longest', () => {
    const it = circuit();
    fail(it, 10);
    const openings: number[] = [];
    let now = 0;
    for (let n = 0; n < 6; n++) {
      openings.push(it.openForMs);
      now += it.snapshot(now).retryAfterMs;
      expect(call(it, now, 'failed')).toBe(true);
    }
    expect(openings).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000]);
  });

  it('is as new after a probe that succeeds', () => {
    const it = circuit();
    fail(it, 10);
    call(it, 5_000, 'failed');
    call(it, 15_000, 'ok');
    expect(it.state).toBe('closed');
    expect(counts(it, 15_000)).toEqual({ calls: 0, failures: 0 });
    fail(it, 10, 15_000);
    expect(it.openForMs).toBe(5_000);
  });

  it('does not hear of calls that were under way when it opened', () => {
    const it = circuit();
    const early = Array.from({ length: 100 }, () => it.enter(0)!);
    fail(it, 10);
    for (const ticket of early.slice(0, 30)) it.failed(ticket, 100);
    expect(it.snapshot(100).retryAfterMs).toBe(4_900);
    const probe = it.enter(5_000)!;
    for (const ticket of early.slice(30, 60)) it.succeeded(ticket, 5_001);
    for (const ticket of early.slice(60, 70)) it.failed(ticket, 5_001);
    for (const ticket of early.slice(70, 80)) it.left(ticket);
    expect([it.state, it.snapshot(5_001).probing]).toEqual(['halfOpen', 1]);
    it.succeeded(probe, 5_002);
    for (const ticket of early.slice(80)) it.failed(ticket, 5_003);
    expect(it.state).toBe('closed');
    expect(counts(it, 5_003)).toEqual({ calls: 0, failures: 0 });
  });

  it('stays open for ever with an opening of Infinity', () => {
    const it = circuit({ openMs: Infinity, maxOpenMs: Infinity });
    fail(it, 10);
    expect(it.enter(1e15)).toBeUndefined();
    expect(it.snapshot(1e15).retryAfterMs).toBe(Infinity);
  });
});

describe('a half-open circuit', () => {
  const halfOpen = (options: Partial<Settings> = {}): Circuit => {
    const it = circuit(options);
    fail(it, 10);
    return it;
  };

  it('gives the place of a probe that was left to the next call', () => {
    const it = halfOpen();
    const probe = it.enter(5_000)!;
    expect(it.enter(5_001)).toBeUndefined();
    it.left(probe);
    expect(it.snapshot(5_001).retryAfterMs).toBe(0);
    expect(it.enter(5_001)).toBeDefined();
  });

  it('lets as many probes through as it may, and closes when so many have succeeded', () => {
    const it = halfOpen({ probes: 3 });
    const probes = [it.enter(5_000)!, it.enter(5_000)!, it.enter(5_000)!];
    expect(it.enter(5_000)).toBeUndefined();
    it.succeeded(probes[0]!, 5_001);
    it.succeeded(probes[1]!, 5_001);
    expect(it.state).toBe('halfOpen');
    const next = it.enter(5_001)!;
    it.succeeded(probes[2]!, 5_002);
    expect(it.state).toBe('closed');
    it.failed(next, 5_003);
    expect(counts(it, 5_003)).toEqual({ calls: 0, failures: 0 });
  });

  it('opens again with the first of several probes that fails, and does not hear of the others', () => {
    const it = halfOpen({ probes: 3 });
    const probes = [it.enter(5_000)!, it.enter(5_000)!, it.enter(5_000)!];
    for (const probe of probes) it.failed(probe, 5_001);
    expect([it.state, it.openForMs]).toEqual(['open', 10_000]);
    it.left(probes[2]!);
    expect(it.snapshot(5_001).probing).toBe(0);
  });

  it('waits for a silent probe no longer than it was open, and hears of it all the same', () => {
    const it = halfOpen();
    const silent = it.enter(5_000)!;
    expect(it.snapshot(7_000).retryAfterMs).toBe(3_000);
    expect(it.enter(9_999)).toBeUndefined();
    const second = it.enter(10_000)!;
    expect(second).toBeDefined();
    expect(it.snapshot(10_000).probing).toBe(1);
    // The first has no place to give back any more.
    it.left(silent);
    expect(it.snapshot(10_000).probing).toBe(1);
    const slow = second;
    expect(it.enter(14_999)).toBeUndefined();
    expect(it.enter(15_000)).toBeDefined();
    it.succeeded(slow, 15_001);
    expect(it.state).toBe('closed');
  });

  it('waits for each probe as long, whenever it was let through', () => {
    const it = halfOpen({ probes: 2 });
    it.enter(5_000);
    expect([it.snapshot(8_000).retryAfterMs, it.snapshot(8_000).probing]).toEqual([0, 1]);
    const second = it.enter(8_000)!;
    expect([it.snapshot(8_000).retryAfterMs, it.snapshot(9_999).retryAfterMs, it.enter(9_999)]).toEqual([2_000, 1, undefined]);
    // The first has been silent for as long as it was open, the second has not.
    expect([it.snapshot(10_000).retryAfterMs, it.snapshot(10_000).probing]).toEqual([0, 1]);
    expect(it.enter(10_000)).toBeDefined();
    expect([it.snapshot(10_000).probing, it.snapshot(10_000).retryAfterMs, it.enter(10_000)]).toEqual([2, 3_000, undefined]);
    it.left(second);
    expect([it.snapshot(10_000).probing, it.snapshot(10_000).retryAfterMs]).toEqual([1, 0]);
    expect([it.snapshot(14_999).probing, it.snapshot(15_000).probing, it.state]).toEqual([1, 0, 'halfOpen']);
  });

  it('waits for the next probe as long as for one that was left', () => {
    const it = halfOpen();
    it.left(it.enter(5_000)!);
    expect(it.enter(9_999)).toBeDefined();
    expect([it.enter(10_000), it.snapshot(10_000).retryAfterMs, it.snapshot(10_000).probing]).toEqual([undefined, 4_999, 1]);
    expect(it.enter(14_999)).toBeDefined();
  });

  it('makes no more probes at a time than it may, of those that have not been silent for as long as it was open', () => {
    const steps = fc.array(fc.record({ waitMs: fc.nat(3_000), leaves: fc.boolean() }), { minLength: 1, maxLength: 50, size: 'max' });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), steps, (probes, all) => {
        const it = halfOpen({ probes });
        let now = 5_000;
        let underWay: { readonly ticket: number; readonly since: number }[] = [];
        for (const { waitMs, leaves } of all) {
          now += waitMs;
          if (leaves) for (const { ticket } of underWay.splice(0, 1)) it.left(ticket);
          underWay = underWay.filter(({ since }) => now - since < 5_000);
          expect(it.snapshot(now).probing).toBe(underWay.length);
          const ticket = it.enter(now);
          expect(ticket !== undefined).toBe(underWay.length < probes);
          if (ticket !== undefined) underWay.push({ ticket, since: now });
        }
      }),
    );
  });
});

describe('a circuit moved by hand', () => {
  it('is open from trip to reset, however long that is', () => {
    const it = circuit();
    const before = it.enter(0)!;
    it.trip();
    expect([it.state, it.openForMs, it.snapshot(1e12).retryAfterMs]).toEqual(['open', Infinity, Infinity]);
    expect(it.enter(1e12)).toBeUndefined();
    it.reset();
    expect([it.state, it.openForMs, it.snapshot(1e12).retryAfterMs]).toEqual(['closed', 0, 0]);
    it.failed(before, 1e12);
    expect(counts(it, 1e12)).toEqual({ calls: 0, failures: 0 });
  });
});

describe('a clock that jumps back', () => {
  it('is taken to have stood still: neither the window nor the opening gets longer', () => {
    const it = circuit({ windowMs: 1000, minCalls: 3 });
    fail(it, 2, 1_790_000_000_000);
    expect(counts(it, 0)).toEqual({ calls: 2, failures: 2 });
    expect(it.snapshot(1000).calls).toBe(0);
    fail(it, 3, 1000);
    expect(it.state).toBe('open');
    expect(it.enter(500)).toBeUndefined();
    expect(it.snapshot(500).retryAfterMs).toBe(5_000);
    expect(it.enter(5_499)).toBeUndefined();
    expect(it.enter(5_500)).toBeDefined();
  });
});

describe('any circuit', () => {
  it('counts the results of the last window, and at most a tenth of it less', () => {
    const results = fc.array(fc.record({ waitMs: fc.nat(300), ok: fc.boolean() }), { minLength: 1, maxLength: 100, size: 'max' });
    fc.assert(
      fc.property(results, (list) => {
        const windowMs = 1000;
        const it = circuit({ windowMs, minCalls: Infinity });
        const seen: { readonly at: number; readonly ok: boolean }[] = [];
        let now = 0;
        let isRight = true;
        for (const { waitMs, ok } of list) {
          now += waitMs;
          call(it, now, ok ? 'ok' : 'failed');
          seen.push({ at: now, ok });
          const within = (ms: number) => seen.filter(({ at }) => at > now - ms);
          const { calls, failures } = it.snapshot(now);
          const [most, least] = [within(windowMs + 1), within(windowMs * 0.9)];
          const failed = (results: typeof seen): number => results.filter(({ ok }) => !ok).length;
          isRight &&= calls <= most.length && calls >= least.length && failures <= failed(most) && failures >= failed(least);
        }
        expect(isRight).toBe(true);
      }),
      { numRuns: draws(60, 150) },
    );
  });
});

/** Opens for failures in a row alone. */
const IN_A_ROW = { openMs: 100, maxOpenMs: 1000, share: Infinity, minCalls: 1, windowMs: 30_000, probes: 1, probeShare: 1 };

describe('a circuit that counts failures in a row', () => {
  const inARow = (): Circuit => new Circuit({ ...IN_A_ROW, inARow: 3 });

  it('opens with the last of them, however long that took', () => {
    const it = inARow();
    fail(it, 2);
    call(it, 1e9, 'failed');
    expect(it.state).toBe('open');
  });

  it('begins anew after a success, and after it was closed', () => {
    const it = inARow();
    fail(it, 2);
    call(it, 0, 'ok');
    fail(it, 2);
    expect([it.state, counts(it, 0)]).toEqual(['closed', { calls: 5, failures: 4 }]);
    fail(it, 1);
    call(it, 100, 'ok');
    fail(it, 2, 100);
    expect(it.state).toBe('closed');
  });
});

describe('a circuit that closes with a share of its probes', () => {
  const halfOpen = (probes: number, share: number): Circuit => {
    const it = new Circuit({ ...IN_A_ROW, inARow: 1, probes, probeShare: share });
    fail(it, 1);
    return it;
  };

  it('closes when enough have succeeded, whatever else has failed', () => {
    const it = halfOpen(5, 0.6);
    fail(it, 2, 100);
    for (let n = 0; n < 2; n++) call(it, 100, 'ok');
    expect(it.state).toBe('halfOpen');
    call(it, 100, 'ok');
    expect(it.state).toBe('closed');
  });

  it('opens again, for longer, as soon as that cannot be any more', () => {
    const it = halfOpen(5, 0.6);
    fail(it, 2, 100);
    expect(it.state).toBe('halfOpen');
    fail(it, 1, 100);
    expect([it.state, it.openForMs]).toEqual(['open', 200]);
  });

  it('asks for one success at least', () => {
    const it = halfOpen(2, 0);
    expect(it.state).toBe('open');
    call(it, 100, 'ok');
    expect(it.state).toBe('closed');
  });
});

describe('a saved circuit', () => {
  const again = (saved: Circuit, now: number, options: Partial<Settings> = {}): Circuit => {
    const it = circuit(options);
    it.restore(JSON.parse(JSON.stringify(saved.save(now))) as ReturnType<Circuit['save']>, now);
    return it;
  };

  it('goes on counting where it was', () => {
    const before = circuit();
    for (let n = 0; n < 5; n++) call(before, n * 1000, 'ok');
    for (let n = 5; n < 9; n++) call(before, n * 1000, 'failed');
    const after = again(before, 9000);
    expect(counts(after, 9000)).toEqual({ calls: 9, failures: 4 });
    call(after, 9000, 'failed');
    expect(after.state).toBe('open');
  });

  it('forgets what is too old at the same time as it would have', () => {
    const step = fc.record({ waitMs: fc.nat(700), ok: fc.boolean() });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 30, size: 'max' }),
        fc.array(fc.nat(700), { minLength: 1, maxLength: 10 }),
        (steps, looks) => {
          const before = circuit({ windowMs: 1000, minCalls: Infinity });
          let now = 0;
          for (const { waitMs, ok } of steps) {
            now += waitMs;
            call(before, now, ok ? 'ok' : 'failed');
          }
          const after = again(before, now, { windowMs: 1000, minCalls: Infinity });
          for (const waitMs of looks) {
            now += waitMs;
            expect(counts(after, now)).toEqual(counts(before, now));
          }
        },
      ),
    );
  });

  it('is open for as long as it would have been, and longer the next time', () => {
    const before = circuit({ minCalls: 1 });
    fail(before, 1);
    call(before, 5000, 'failed');
    const after = again(before, 7000, { minCalls: 1 });
    expect([after.state, after.snapshot(7000).retryAfterMs]).toEqual(['open', 8000]);
    call(after, 15_000, 'failed');
    expect(after.openForMs).toBe(20_000);
  });

  it('stays open that was opened by hand, and probes anew that was half open', () => {
    const tripped = circuit();
    tripped.trip();
    expect(again(tripped, 0).snapshot(1e9).retryAfterMs).toBe(Infinity);
    const probing = circuit({ minCalls: 1 });
    fail(probing, 1);
    probing.enter(5000);
    const after = again(probing, 5000, { minCalls: 1 });
    expect([after.snapshot(5000).state, after.snapshot(5000).probing]).toEqual(['halfOpen', 0]);
    call(after, 5000, 'ok');
    expect(after.state).toBe('closed');
  });
});
