import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lanes, perMinute, slidingWindow } from '../../operators/index.js';
import type { Charge, GateRules } from '../../operators/kernel/index.js';
import { clamped, Gate, leastOf, leftOf, ONE_LINE, payable, Rates, unitsOf } from '../../operators/kernel/index.js';
import type { PermitState } from '../../operators/kernel/limiter/gate.js';

const ONE: Charge = { slots: 1, requests: 1, tokens: 0 };
const tokens = (count: number): Charge => ({ ...ONE, tokens: count });
const slots = (count: number): Charge => ({ ...ONE, slots: count });

class Ask {
  state: PermitState = 'new';
  previous: Ask | undefined = undefined;
  next: Ask | undefined = undefined;
  readonly weight = 1;
  declare deadlineMs?: number;
  declare wouldWait?: true;
  declare passes?: true;
  declare index?: number;
  declare id?: string;
  declare isBidder?: true;
  readonly key: unknown;
  constructor(
    public charge = ONE,
    public lane = 0,
    { key, ...more }: { readonly id?: string; readonly key?: unknown; readonly isBidder?: true } = {},
  ) {
    this.key = key;
    Object.assign(this, more);
  }
}

const DEFAULTS: GateRules = { concurrency: 1, queue: ONE_LINE, maxQueued: Infinity, overflow: 'error', enforce: true, abortGraceMs: 1000 };

function gateOf(rules: Partial<GateRules> = {}, rates: readonly object[] = [], above?: Gate<Ask>): Gate<Ask> {
  const gate = new Gate<Ask>({ ...DEFAULTS, ...rules }, above);
  gate.time = 0;
  if (rates.length > 0) gate.rates = new Rates({ headroom: 1, refunds: true, queue: gate.rules.queue });
  for (const rate of rates) gate.rates?.set(rate as never, 0);
  return gate;
}

/** Grants the job whose turn it is, if it may go, and answers it. */
function grant(gate: Gate<Ask>): Ask | undefined {
  const { first } = gate;
  if (!first) return undefined;
  const job = gate.candidate(first);
  if (!gate.lets(job, first)) return undefined;
  gate.leave(job, true);
  gate.take(job, job.lane, job.key);
  return job;
}

/** Fills the only slot. */
function busy(rules: Partial<GateRules> = {}, rates: readonly object[] = []): Gate<Ask> {
  const gate = gateOf(rules, rates);
  gate.take(new Ask(), 0, undefined);
  return gate;
}

const enter = (gate: Gate<Ask>, job: Ask, waitMs = Infinity): Ask => {
  gate.enter(job, waitMs);
  return job;
};

describe('slots', () => {
  it('are never exceeded but by one job that wants more than there are, and jobs go in their order', () => {
    const steps = fc.array(
      fc.record({ do: fc.constantFrom('ask', 'ask', 'free', 'leave'), slots: fc.nat({ max: 4 }), which: fc.nat({ max: 5 }) }),
      {
        maxLength: 40,
      },
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), steps, (concurrency, script) => {
        const gate = gateOf({ concurrency });
        const waiting: Ask[] = [];
        const running: Ask[] = [];
        for (const step of script) {
          if (step.do === 'ask') {
            const job = new Ask(slots(step.slots));
            if (gate.admits(job.charge, 0)) {
              expect(waiting).toEqual([]);
              gate.take(job, 0, undefined);
              running.push(job);
            } else waiting.push(enter(gate, job));
          }
          if (step.do === 'leave' && waiting.length > 0) gate.leave(waiting.splice(step.which % waiting.length, 1)[0]!);
          if (step.do === 'free' && running.length > 0) gate.free(running.splice(step.which % running.length, 1)[0]!);
          for (let job = grant(gate); job; job = grant(gate)) {
            expect(job).toBe(waiting.shift());
            running.push(job);
          }
          const used = running.reduce((sum, { charge }) => sum + charge.slots, 0);
          expect([gate.executing, gate.leases, gate.waiting, gate.queue.size]).toEqual([
            used,
            running.length,
            waiting.length,
            waiting.length,
          ]);
          expect(used <= concurrency || running.filter(({ charge }) => charge.slots > 0).length === 1).toBe(true);
          expect(gate.all()).toEqual(waiting);
          expect(gate.first).toBe(waiting[0]);
        }
      }),
    );
  });

  it('are in the way by name, and are not where limits are not enforced', () => {
    expect(busy().blockedBy(ONE, 0)).toBe('concurrency');
    expect(busy().blockedBy(slots(0), 0)).toBeUndefined();
    expect(busy({ enforce: false }).blockedBy(ONE, 0)).toBeUndefined();
  });

  it('name the state of a permit', () => {
    const gate = gateOf();
    const job = enter(gate, new Ask());
    expect(job.state).toBe('waiting');
    gate.leave(job);
    expect(job.state).toBe('left');
    gate.take(job, 0, undefined);
    expect(job.state).toBe('granted');
    gate.abandon(job);
    expect(job.state).toBe('abandoned');
    gate.free(job);
    expect(job.state).toBe('over');
  });
});

describe('who waits', () => {
  it('is found by id as long as it waits', () => {
    const gate = busy();
    const job = enter(gate, new Ask(ONE, 0, { id: 'a' }));
    enter(gate, new Ask());
    expect([...gate.byId]).toEqual([['a', job]]);
    gate.leave(job);
    expect(gate.byId.size).toBe(0);
  });

  it('is bounded by the limiter and by the lane, bidders set aside', () => {
    const gate = busy({
      maxQueued: 3,
      overflow: 'dropOldest',
      queue: lanes([{ name: 'a' }, { name: 'b', maxQueued: 1, overflow: 'latest' }]),
    });
    expect([gate.isBounded, gate.mayNotWait(0), gate.refusal(1)]).toEqual([true, false, undefined]);
    enter(gate, new Ask(ONE, 1, { isBidder: true }));
    expect(gate.refusal(1)).toBeUndefined();
    const low = enter(gate, new Ask(ONE, 1));
    const refused = gate.refusal(1)!;
    expect([refused.policy, refused.limit]).toEqual(['latest', 1]);
    expect(gate.evictable(1, refused)).toEqual([low]);
    const jobs = [enter(gate, new Ask()), enter(gate, new Ask()), enter(gate, new Ask())];
    const full = gate.refusal(0)!;
    expect([full.policy, full.limit, full.excess]).toEqual(['dropOldest', 3, 2]);
    expect(gate.evictable(0, full)).toEqual(jobs.slice(0, 2));
  });

  it('is bounded by nothing where no option says so, and by 0 where one does', () => {
    expect([busy().isBounded, busy().refusal(0)]).toEqual([false, undefined]);
    expect(busy({ maxQueued: 0 }).mayNotWait(0)).toBe(true);
    expect(busy({ queue: lanes([{ name: 'a', maxQueued: 2 }, { name: 'b' }]) }).isBounded).toBe(true);
  });

  it('is many: said once, and again only after the queue was empty', () => {
    const gate = busy();
    const said = Array.from({ length: 10_001 }, () => gate.enter(new Ask(), Infinity));
    expect(said.indexOf(true)).toBe(9_999);
    expect(said.lastIndexOf(true)).toBe(9_999);
    expect(gate.enter(new Ask(ONE, 0, { isBidder: true }), Infinity)).toBe(false);
  });

  it('has a number of arrival only where keys share lanes', () => {
    const plain = enter(busy(), new Ask());
    const gate = busy({ queue: lanes([{ name: 'a' }], { key: ({ key }: { readonly key?: unknown }) => key }) });
    const [one, other] = [enter(gate, new Ask(ONE, 0, { key: 1 })), enter(gate, new Ask(ONE, 0, { key: 2 }))];
    expect([plain.index, one.index, other.index]).toEqual([undefined, 0, 1]);
    expect([gate.firstIn(0, 2), gate.firstIn(0, 3), gate.firstIn(0, 1)]).toEqual([other, one, one]);
  });

  it('has a name by its lane', () => {
    const gate = busy({ queue: lanes([{ name: 'a' }, { name: 'b' }]) });
    expect([gate.nameOf(0), gate.nameOf(1)]).toEqual(['a', 'b']);
  });
});

describe('deadlines', () => {
  it('are over in their order, for jobs that still wait', () => {
    const gate = busy();
    const [late, gone, later] = [enter(gate, new Ask(), 5), enter(gate, new Ask(), 6), enter(gate, new Ask(), 7)];
    expect([late.deadlineMs, gate.endsAt, gate.hasEnds]).toEqual([5, 5, true]);
    gate.time = 4;
    expect(gate.late()).toBeUndefined();
    gate.time = 6.5;
    gate.leave(gone);
    expect(gate.late()).toEqual({ job: late, sinceMs: 1.5 });
    expect([gate.late(), gate.endsAt]).toEqual([undefined, 7]);
    gate.time = 7;
    expect(gate.late()).toEqual({ job: later, sinceMs: 0 });
    expect([gate.endsAt, gate.hasEnds]).toEqual([Infinity, false]);
  });

  it('of 0 are over at once, and are no deadline of the job', () => {
    const gate = busy();
    const job = enter(gate, new Ask(), 0);
    expect([job.deadlineMs, gate.late()?.job]).toEqual([undefined, job]);
  });

  it('are not kept without one', () => {
    const gate = busy();
    enter(gate, new Ask());
    expect([gate.hasEnds, gate.endsAt, gate.late()]).toEqual([false, Infinity, undefined]);
  });
});

describe('the grace of abandoned work', () => {
  it('keeps the slot until it is over or the work ends', () => {
    const gate = gateOf({ concurrency: 3 });
    const [one, two, three] = [new Ask(), new Ask(), new Ask()];
    for (const job of [one, two, three]) gate.take(job, 0, undefined);
    expect([gate.abandon(one), gate.abandon(one)]).toEqual([true, false]);
    gate.time = 400;
    gate.abandon(two);
    expect([gate.executing, gate.hasEnds, gate.endsAt]).toEqual([3, true, 1000]);
    gate.time = 999;
    expect(gate.lapsed()).toEqual([]);
    gate.time = 1000;
    expect([gate.lapsed(), gate.lapsed(Infinity)]).toEqual([[one], [one, two]]);
    expect([gate.free(one), gate.free(three), gate.endsAt, gate.executing]).toEqual([true, false, 1400, 1]);
    expect([gate.free(two), gate.hasEnds, gate.endsAt]).toEqual([true, false, Infinity]);
  });

  it('ends beside deadlines, whichever is first', () => {
    const gate = busy();
    enter(gate, new Ask(), 500);
    const job = new Ask();
    gate.take(job, 0, undefined);
    gate.abandon(job);
    expect(gate.endsAt).toBe(500);
  });
});

describe('pauses', () => {
  it('hold everything back until they end', () => {
    const gate = gateOf();
    expect([gate.isTimed, gate.pausedForMs, gate.penalize(100)]).toEqual([false, 0, true]);
    expect([gate.isTimed, gate.blockedBy(ONE, 0), gate.payableAt(ONE, 0), gate.load]).toEqual([true, 'pause', 100, 1]);
    expect([gate.penalize(50), gate.penalize(100), gate.pausedForMs]).toEqual([false, false, 100]);
    gate.time = 40;
    expect([gate.penalize(61), gate.penaltyMs]).toEqual([true, 61]);
    gate.time = 101;
    expect([gate.penaltyMs, gate.blockedBy(ONE, 0), gate.penalize(0)]).toEqual([0, undefined, false]);
  });

  it('of `penalize` end with 0, others do not', () => {
    const gate = gateOf();
    gate.penalize(100);
    expect([gate.penalize(0), gate.penaltyMs, gate.isTimed]).toEqual([true, 0, false]);
    gate.isPaused = true;
    expect([gate.penalize(0), gate.pausedForMs, gate.blockedBy(ONE, 0), gate.payableAt(ONE, 0), gate.isTimed]).toEqual([
      false,
      Infinity,
      'pause',
      Infinity,
      true,
    ]);
  });

  it('tell what learns of their early end', () => {
    const gate = gateOf({}, [perMinute('requests', 60)]);
    const ended: number[] = [];
    gate.rates!.learner = { paid: () => undefined, corrected: () => undefined, read: () => undefined, resumed: (now) => ended.push(now) };
    gate.penalize(100);
    gate.time = 30;
    gate.penalize(0);
    expect(ended).toEqual([30]);
  });

  it('hold nothing back where limits are not enforced, but for `pause`', () => {
    const gate = gateOf({ enforce: false });
    gate.penalize(100);
    expect([gate.blockedBy(ONE, 0), gate.payableAt(ONE, 0)]).toEqual([undefined, 0]);
    gate.isPaused = true;
    expect(gate.blockedBy(ONE, 0)).toBe('pause');
  });
});

describe('rates', () => {
  it('are in the way by name, until they can pay', () => {
    const gate = gateOf({ concurrency: Infinity }, [perMinute('tokens', 60, { burst: 10 })]);
    gate.take(new Ask(tokens(10)), 0, undefined);
    expect([gate.isTimed, gate.blockedBy(tokens(5), 0), gate.payableAt(tokens(5), 0)]).toEqual([true, 'tokensPerMinute', 5000]);
    expect([gate.load, gate.forgetsInMs]).toEqual([1, 10_000]);
    const next = enter(gate, new Ask(tokens(5)));
    expect([gate.goesAt(next), gate.goesAt(next, { has: () => true })]).toEqual([5000, 5000]);
    gate.time = 5000;
    expect([gate.goesAt(next), gate.goesAt(next, { has: () => true }), gate.goesAt(next, { has: () => false })]).toEqual([
      5000,
      Infinity,
      5000,
    ]);
    expect(grant(gate)).toBe(next);
  });

  it('end later than a pause, or earlier', () => {
    const gate = gateOf({ concurrency: Infinity }, [perMinute('requests', 60, { burst: 1 })]);
    gate.take(new Ask(), 0, undefined);
    gate.penalize(300);
    expect([gate.payableAt(ONE, 0), gate.forgetsInMs]).toEqual([1000, 1000]);
    gate.penalize(3000);
    expect([gate.payableAt(ONE, 0), gate.forgetsInMs]).toEqual([3000, 3000]);
  });

  it('that were not kept to are told, with what is out because of that', () => {
    const gate = gateOf({ concurrency: 2, enforce: false }, [perMinute('requests', 60, { burst: 1 })]);
    const [one, two, three] = [new Ask(), new Ask(), new Ask()];
    expect(gate.take(one, 0, undefined)).toBeUndefined();
    expect(gate.take(two, 0, undefined)).toEqual({ limitedBy: 'requestsPerMinute', waitMs: 1000, queued: 1 });
    expect(gate.take(three, 0, undefined)).toEqual({ limitedBy: 'concurrency', waitMs: 2000, queued: 2 });
    expect([one.wouldWait, two.wouldWait]).toEqual([undefined, true]);
    for (const job of [one, two, three]) gate.free(job);
    gate.time = 60_000;
    gate.penalize(500);
    expect(gate.take(new Ask(), 0, undefined)).toEqual({ limitedBy: 'pause', waitMs: 500, queued: 1 });
  });

  it('that can never pay are told as well', () => {
    const gate = gateOf({ enforce: false }, [slidingWindow({ unit: 'tokens', amount: 5, windowMs: 60_000 })]);
    expect(gate.take(new Ask(tokens(6)), 0, undefined)).toEqual({ limitedBy: 'tokensPerMinute', waitMs: Infinity, queued: 1 });
    expect(
      gateOf({}, [slidingWindow({ unit: 'tokens', amount: 5, windowMs: 60_000 })]).take(new Ask(tokens(6)), 0, undefined),
    ).toBeUndefined();
  });

  it('name what they bound, once', () => {
    const gate = gateOf({ concurrency: Infinity }, [perMinute('tokens', 60)]);
    const job = new Ask(tokens(100));
    gate.take(job, 0, undefined);
    expect(job.charge.tokens).toBe(60);
    const told = gate.rates!.takeNotes();
    expect(told[0]).toEqual({ type: 'costClamped', unit: 'tokens', cost: 100, charged: 60 });
    expect(gate.rates!.takeNotes()).toEqual([]);
    gate.rates!.settle(job, { tokens: 1e9 }, 0);
    expect(gate.rates!.takeNotes()).toEqual([{ type: 'usageClamped', unit: 'tokens', reported: 1e9, charged: 60 }]);
  });
});

describe('lanes', () => {
  const queue = lanes([{ name: 'urgent', reserve: 0.5 }, { name: 'middle' }, { name: 'low' }]) as never;
  const rate = slidingWindow({ unit: 'requests', amount: 4, windowMs: 60_000 });

  it('let a newcomer in that goes first, and no other', () => {
    const gate = gateOf({ concurrency: 2, queue: lanes([{ name: 'a' }, { name: 'b' }]) });
    gate.take(new Ask(slots(2)), 0, undefined);
    const low = enter(gate, new Ask(ONE, 1));
    gate.free(low);
    gate.executing = 0;
    expect([gate.admits(ONE, 0), gate.admits(ONE, 1)]).toEqual([true, false]);
    const open = gateOf({ enforce: false, queue: lanes([{ name: 'a' }, { name: 'b' }]) });
    enter(open, new Ask(ONE, 0));
    expect(open.admits(ONE, 1)).toBe(true);
  });

  it('pass a lower one that waits for a rate, from their reserve', () => {
    const gate = gateOf({ concurrency: Infinity, queue }, [rate]);
    for (let i = 0; i < 2; i++) gate.take(new Ask(ONE, 2), 2, undefined);
    const leader = enter(gate, new Ask(ONE, 2));
    expect([gate.first, gate.lets(leader, leader), gate.candidate(leader)]).toEqual([leader, false, leader]);
    expect([gate.passes(0), gate.passes(1), gate.passes(2)]).toEqual([true, true, false]);
    const urgent = enter(gate, new Ask(ONE, 0));
    expect(gate.candidate(leader)).toBe(urgent);
    expect(gate.lets(urgent, leader)).toBe(true);
    expect(gate.goesAt(leader)).toBe(0);
    gate.isPaused = true;
    expect([gate.candidate(leader), gate.passes(0)]).toEqual([leader, false]);
  });

  it('pass nothing that waits for a slot, and nothing without a reserve', () => {
    const full = gateOf({ queue }, [rate]);
    full.take(new Ask(ONE, 2), 2, undefined);
    const leader = enter(full, new Ask(ONE, 2));
    enter(full, new Ask(ONE, 0));
    expect([full.candidate(leader), full.passes(0)]).toEqual([leader, false]);
    const plain = gateOf({ concurrency: Infinity, queue: lanes([{ name: 'a' }, { name: 'b' }]) }, [rate]);
    for (let i = 0; i < 4; i++) plain.take(new Ask(ONE, 1), 1, undefined);
    const low = enter(plain, new Ask(ONE, 1));
    expect([plain.candidate(low), plain.passes(0), plain.passes(1)]).toEqual([low, false, false]);
    expect(gateOf().passes(0)).toBe(false);
  });

  it('let a newcomer pass, but not past a job that may pass as well', () => {
    const gate = gateOf({ concurrency: Infinity, queue }, [rate]);
    for (let i = 0; i < 2; i++) gate.take(new Ask(ONE, 2), 2, undefined);
    enter(gate, new Ask(ONE, 2));
    expect([gate.admits(ONE, 0), gate.admits(ONE, 2)]).toEqual([true, false]);
    const permit = new Ask(ONE, 0);
    gate.overtake(permit, 0);
    gate.take(permit, 0, undefined);
    expect(permit.charge).toEqual(ONE);
    enter(gate, new Ask(ONE, 0));
    expect(gate.admits(ONE, 0)).toBe(false);
  });

  it('are not overtaken where nothing waits', () => {
    const permit = new Ask();
    gateOf({ queue }).overtake(permit, 0);
    expect(permit.passes).toBeUndefined();
  });
});

describe('a gate under another one', () => {
  const above = gateOf({ concurrency: 3 }, [perMinute('requests', 60, { burst: 4 }), perMinute('tokens', 600, { burst: 100 })]);
  const below = gateOf({ concurrency: 5, enforce: false }, [perMinute('tokens', 60, { burst: 10 })], above);

  it('has the least of both', () => {
    expect([leastOf(below, (each) => each.slots), leastOf(above, (each) => each.slots)]).toEqual([3, 3]);
    expect([leftOf(below, 'tokens'), leftOf(below, 'requests'), leftOf(below, 'images')]).toEqual([10, 4, Infinity]);
    expect(leftOf(below, 'tokens', 0, true)).toBe(100);
    expect([unitsOf(below), unitsOf(undefined)]).toEqual([['tokens', 'requests', 'tokens'], []]);
  });

  it('takes no more slots than there are', () => {
    expect([clamped(below, slots(4)).slots, clamped(below, slots(3)).slots, clamped(below, slots(0)).slots]).toEqual([3, 3, 0]);
  });

  it('knows how many jobs wait for a slot only', () => {
    const jobs = [tokens(4), tokens(6), tokens(1)].map((charge) => new Ask(charge));
    expect(payable(below, jobs)).toBe(2);
    expect(payable(above, jobs)).toBe(3);
    expect(
      payable(
        gateOf({}, [], above),
        Array.from({ length: 5 }, () => new Ask()),
      ),
    ).toBe(4);
    expect(payable(gateOf(), jobs)).toBe(3);
    expect(payable(below, [new Ask(tokens(50), 0, { isBidder: true }), new Ask(tokens(9)), new Ask(tokens(1))])).toBe(2);
  });
});
