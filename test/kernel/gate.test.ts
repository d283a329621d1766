import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lanes, perMinute, slidingWindow, strictWithFloor } from '../../operators/index.js';
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

/** Grants the next job, if it may go, and returns it. */
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
  it('that are shared come back to the store as well, when a permit gives them back', () => {
    const gate = gateOf({ concurrency: 9 }, [perMinute('tokens', 600)]);
    const [before, one, other] = [new Ask(), new Ask(slots(2)), new Ask(slots(3))];
    for (const permit of [before, one, other]) gate.take(permit, 0, undefined);
    // Rates of this limiter alone: no store hears of it.
    expect(gate.free(before)).toBe(false);
    const freed: unknown[] = [];
    const none = (): boolean => false;
    if (gate.rates) gate.rates.credit = { want: none, wanted: none, freed: (permit) => freed.push(permit), hold: none, end: none };
    gate.abandon(other);
    expect(freed).toEqual([]);
    gate.free(one);
    expect(freed).toEqual([one]);
    gate.free(other);
    expect([freed, gate.executing]).toEqual([[one, other], 0]);
  });

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
          // The very same ones, in this order.
          expect(gate.all().map((job, i) => job === waiting[i])).toEqual(waiting.map(() => true));
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

describe('the slots of a limiter', () => {
  it('are all for one job that wants more than there are, when no other runs', () => {
    const gate = gateOf({ concurrency: 3 });
    expect([gate.hasSlots(slots(3)), gate.hasSlots(slots(4)), gate.blockedBy(slots(9), 0)]).toEqual([true, true, undefined]);
    gate.take(new Ask(slots(1)), 0, undefined);
    expect([gate.hasSlots(slots(2)), gate.hasSlots(slots(3))]).toEqual([true, false]);
  });

  it('are not missing to a job that needs none, although more are in use than there are', () => {
    const gate = busy();
    gate.take(new Ask(slots(2)), 0, undefined);
    expect([gate.hasSlots(slots(0)), gate.hasSlots(slots(1)), gate.hasSlots(slots(1), false)]).toEqual([true, false, true]);
  });

  it('are the load of a limiter without rates, at most 1', () => {
    const gate = gateOf({ concurrency: 4 });
    expect(gate.load).toBe(0);
    const permit = new Ask(slots(1));
    gate.take(permit, 0, undefined);
    expect(gate.load).toBe(0.25);
    gate.take(new Ask(slots(2)), 0, undefined);
    expect(gate.load).toBe(0.75);
    gate.slots = 2;
    expect(gate.load).toBe(1);
    gate.slots = Infinity;
    expect(gate.load).toBe(0);
    gate.slots = 8;
    gate.free(permit);
    expect(gate.load).toBe(0.25);
  });

  it('are the load where more of them are in use than of the rates, and the rates are where it is less', () => {
    const gate = gateOf({ concurrency: 4 }, [perMinute('tokens', 60, { burst: 10 })]);
    gate.take(new Ask(tokens(5)), 0, undefined);
    expect(gate.load).toBe(0.5);
    gate.take(new Ask(slots(2)), 0, undefined);
    expect(gate.load).toBe(0.75);
  });
});

describe('a job that leaves', () => {
  it('leaves the others in their order, from wherever it is', () => {
    for (const which of [0, 1, 2]) {
      const gate = busy();
      const jobs = [enter(gate, new Ask()), enter(gate, new Ask()), enter(gate, new Ask())];
      gate.leave(jobs[which]!);
      const left = jobs.filter((_, i) => i !== which);
      expect(gate.all().map((job) => jobs.indexOf(job))).toEqual(left.map((job) => jobs.indexOf(job)));
      expect([gate.waiting, gate.queue.size]).toEqual([2, 2]);
    }
  });

  it('gives its place in the lane to the next one', () => {
    const gate = busy({ queue: lanes([{ name: 'a', maxQueued: 2 }, { name: 'b' }]) });
    const job = enter(gate, new Ask());
    enter(gate, new Ask());
    expect(gate.refusal(0)?.excess).toBe(1);
    gate.leave(job);
    expect(gate.refusal(0)).toBeUndefined();
    enter(gate, new Ask());
    expect(gate.refusal(0)?.excess).toBe(1);
  });

  it('gives no place to others where it is a bidder, which had none', () => {
    const gate = busy({ maxQueued: 1 });
    const bidder = enter(gate, new Ask(ONE, 0, { isBidder: true }));
    expect([gate.waiting, gate.queue.size]).toEqual([0, 1]);
    enter(gate, new Ask());
    gate.leave(bidder);
    expect([bidder.state, gate.waiting, gate.queue.size, gate.refusal(0)?.excess]).toEqual(['left', 1, 1, 1]);
  });

  it('costs its lane a turn if it had one, and nothing if it went away', () => {
    // The lower lane is owed every second turn.
    const queue = lanes([{ name: 'a' }, { name: 'b' }], { fairness: strictWithFloor(0.5) });
    for (const [hadTurn, leads] of [
      [true, 1],
      [false, 0],
    ] as const) {
      const gate = busy({ queue });
      enter(gate, new Ask(ONE, 1));
      const jobs = [enter(gate, new Ask()), enter(gate, new Ask()), enter(gate, new Ask())];
      for (const job of jobs.slice(0, 2)) {
        expect(gate.first).toBe(job);
        if (hadTurn) gate.leave(job, true);
        else gate.leave(job);
      }
      expect(gate.first?.lane).toBe(leads);
      expect(gate.waiting).toBe(2);
    }
  });

  it('with its turn is the head of its key, which need not be the head of its lane', () => {
    const gate = busy({ queue: lanes([{ name: 'a' }], { key: ({ key }: { readonly key?: unknown }) => key }) });
    const [one, two, three] = [1, 1, 2].map((key) => enter(gate, new Ask(ONE, 0, { key })));
    gate.leave(three!, true);
    expect([gate.firstIn(0, 1), gate.firstIn(0, 2), gate.queue.size]).toEqual([one, one, 2]);
    gate.leave(one!, true);
    expect(gate.first).toBe(two);
  });
});

describe('a waiting job', () => {
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

  it('is found in its lane whatever its key, where the queue keeps no keys', () => {
    const gate = busy({ queue: { ...ONE_LINE, keyOf: ({ key }: { readonly key?: unknown }) => key } });
    const one = enter(gate, new Ask(ONE, 0, { key: 1 }));
    enter(gate, new Ask(ONE, 0, { key: 2 }));
    expect([gate.firstIn(0, 1), gate.firstIn(0, 2)]).toEqual([one, one]);
  });

  it('is the first of its lane without keys, and nothing of an empty lane', () => {
    const gate = busy({ queue: lanes([{ name: 'a' }, { name: 'b' }]) });
    expect([gate.first, gate.firstIn(0, undefined), gate.firstIn(1, 'x'), gate.all()]).toEqual([undefined, undefined, undefined, []]);
    const low = enter(gate, new Ask(ONE, 1));
    expect([gate.firstIn(0, 'x'), gate.firstIn(1, 'x'), gate.first]).toEqual([undefined, low, low]);
  });

  it('is told all together, the most urgent lane first', () => {
    const gate = busy({ queue: lanes([{ name: 'a' }, { name: 'b' }]) });
    const jobs = [1, 0, 1, 0].map((lane) => enter(gate, new Ask(ONE, lane)));
    expect(gate.all().map((job) => jobs.indexOf(job))).toEqual([1, 3, 0, 2]);
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

describe('the time', () => {
  it('is before all others until a limiter is told one', () => {
    const gate = new Gate<Ask>(DEFAULTS);
    expect([gate.time, gate.penaltyMs, gate.pausedForMs, gate.load, gate.isTimed]).toEqual([-Infinity, 0, 0, 0, false]);
    expect([gate.blockedBy(ONE, 0), gate.lapsed()]).toEqual([undefined, []]);
  });

  it('is no matter without rates and pauses: there is nothing to forget', () => {
    const gate = gateOf();
    gate.time = 700;
    expect([gate.forgetsInMs, gate.isTimed, gate.payableAt(ONE, 0)]).toEqual([0, false, 700]);
    gate.rates = new Rates({ headroom: 1, refunds: true, queue: gate.rules.queue });
    expect([gate.forgetsInMs, gate.isTimed]).toEqual([0, false]);
    gate.penalize(50);
    gate.time = 720;
    expect(gate.forgetsInMs).toBe(30);
  });

  it('until all is forgotten is counted from now', () => {
    const gate = gateOf({ concurrency: Infinity }, [perMinute('tokens', 60, { burst: 10 })]);
    gate.take(new Ask(tokens(10)), 0, undefined);
    gate.time = 4000;
    expect(gate.forgetsInMs).toBe(6000);
    gate.time = 10_000;
    expect(gate.forgetsInMs).toBe(0);
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

  it('end early where nothing learns of it', () => {
    for (const gate of [gateOf(), gateOf({}, [perMinute('requests', 60)])]) {
      gate.penalize(100);
      expect([gate.penalize(0), gate.pausedForMs, gate.load]).toEqual([true, 0, 0]);
    }
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
    const gate = gateOf({ queue: halves });
    for (let i = 0; i < 4; i++) gate.overtake(permit, 0);
    expect(permit.passes).toBeUndefined();
    // So no turn is owed to the lower lane.
    enter(gate, new Ask(ONE, 1));
    expect(gate.admits(ONE, 0)).toBe(true);
  });

  // The lower lane is owed every second turn.
  const halves = lanes([{ name: 'a' }, { name: 'b' }], { fairness: strictWithFloor(0.5) }) as never;
  const kept = lanes([{ name: 'a', reserve: 0.5 }, { name: 'b' }, { name: 'c' }], { fairness: strictWithFloor(0.3) }) as never;

  it('get their turns although more urgent jobs come that need not wait', () => {
    const gate = gateOf({ concurrency: Infinity, queue: halves });
    enter(gate, new Ask(ONE, 1));
    const turns = [1, 2, 3].map(() => {
      const goes = gate.admits(ONE, 0);
      const permit = new Ask();
      gate.overtake(permit, 0);
      return [goes, permit.passes];
    });
    expect(turns).toEqual([
      [true, undefined],
      [true, undefined],
      [false, true],
    ]);
  });

  /** A limiter that keeps half of 4 requests a minute for its first lane; the others have spent theirs, and something waits in this lane. */
  function spent(waitsIn: number, of: Partial<GateRules> = {}): { gate: Gate<Ask>; leader: Ask } {
    const gate = gateOf({ concurrency: Infinity, queue: kept, ...of }, [rate]);
    for (let i = 0; i < 2; i++) gate.take(new Ask(ONE, waitsIn), waitsIn, undefined);
    return { gate, leader: enter(gate, new Ask(ONE, waitsIn)) };
  }
  /** Books turns of the first lane, until a lower one is owed its own. */
  const oweTurns = (gate: Gate<Ask>): void => {
    for (let i = 0; i < 4; i++) gate.queue.turn(0);
  };
  /** Spends the reserve for jobs that go past others. */
  const spendPasses = (gate: Gate<Ask>, cost: number): void => {
    gate.rates?.all[0]?.passes?.pay(cost, gate.time, 0);
  };

  it('below a reserve do not take their turn while they wait for a rate: newcomers pass them, from the reserve', () => {
    const { gate } = spent(1);
    expect([gate.queue.goesFirst(0), gate.admits(ONE, 0)]).toEqual([true, true]);
    oweTurns(gate);
    expect([gate.queue.goesFirst(0), gate.passes(0), gate.admits(ONE, 0), gate.admits(ONE, 1), gate.admits(ONE, 2)]).toEqual([
      false,
      true,
      true,
      false,
      false,
    ]);
    const permit = new Ask();
    gate.overtake(permit, 0);
    expect(permit.passes).toBe(true);
  });

  it('below a reserve are not passed when the reserve for that is spent, until some of it has come back', () => {
    const { gate } = spent(1);
    oweTurns(gate);
    spendPasses(gate, 1);
    expect(gate.admits(ONE, 0)).toBe(true);
    spendPasses(gate, 1);
    expect([gate.blockedBy(ONE, 0), gate.passes(0), gate.admits(ONE, 0)]).toEqual([undefined, true, false]);
    // The half of 4 a minute comes back in a minute.
    gate.time = 29_990;
    expect(gate.admits(ONE, 0)).toBe(false);
    gate.time = 30_000;
    expect(gate.admits(ONE, 0)).toBe(true);
  });

  it('below a reserve are not passed by a newcomer when a job of its lane waits that passes them', () => {
    const { gate, leader } = spent(1);
    oweTurns(gate);
    const urgent = enter(gate, new Ask());
    expect([gate.first, gate.candidate(leader), gate.passes(0), gate.admits(ONE, 0)]).toEqual([leader, urgent, true, false]);
  });

  it('in between pass the lowest one, after those above them', () => {
    const { gate, leader } = spent(2);
    oweTurns(gate);
    const middle = enter(gate, new Ask(ONE, 1));
    expect([gate.first === leader, gate.candidate(leader) === middle]).toEqual([true, true]);
    // A newcomer of the first lane goes before the job that would pass.
    expect([gate.passes(0), gate.passes(1), gate.passes(2), gate.admits(ONE, 0), gate.admits(slots(0), 1)]).toEqual([
      true,
      true,
      false,
      true,
      false,
    ]);
    const urgent = enter(gate, new Ask());
    expect(gate.candidate(leader)).toBe(urgent);
  });

  it('go in their turn although more urgent jobs wait, when nothing holds them back', () => {
    const gate = gateOf({ concurrency: Infinity, queue: kept }, [rate]);
    const leader = enter(gate, new Ask(ONE, 1));
    enter(gate, new Ask());
    oweTurns(gate);
    expect([gate.first, gate.candidate(leader), gate.passes(0), gate.lets(leader, leader), gate.admits(ONE, 0)]).toEqual([
      leader,
      leader,
      false,
      true,
      false,
    ]);
    expect(grant(gate)).toBe(leader);
  });

  it('let a job overtake only as far as their reserve pays; the next job needs none of it', () => {
    const { gate, leader } = spent(1);
    const urgent = enter(gate, new Ask());
    oweTurns(gate);
    expect([gate.lets(urgent, leader), gate.lets(leader, leader)]).toEqual([true, false]);
    spendPasses(gate, 6);
    expect([gate.blockedBy(ONE, 0), gate.lets(urgent, leader), gate.lets(urgent, urgent)]).toEqual([undefined, false, true]);
    // When the others have something to spend again, the reserve for passing is still in debt.
    gate.time = 60_000;
    expect(gate.lets(leader, leader)).toBe(true);
  });

  it('go when the rate pays for the next job, or the reserve for the one that overtakes it', () => {
    const { gate, leader } = spent(1);
    enter(gate, new Ask());
    oweTurns(gate);
    expect(gate.goesAt(leader)).toBe(0);
    spendPasses(gate, 2);
    expect(gate.goesAt(leader)).toBeCloseTo(30_000, 0);
    gate.time = 40_000;
    spendPasses(gate, 2);
    // The rate pays earlier, for the leader.
    expect(gate.goesAt(leader)).toBe(60_000);
    // What has a place above goes when the limiter there says so.
    const above = gateOf({ concurrency: Infinity, queue: kept }, [rate]);
    for (let i = 0; i < 2; i++) above.take(new Ask(ONE, 1), 1, undefined);
    const low = enter(above, new Ask(ONE, 1));
    enter(above, new Ask());
    expect([above.goesAt(low), above.goesAt(low, { has: (lane) => lane === 0 }), above.goesAt(low, { has: () => false })]).toEqual([
      0, 60_000, 0,
    ]);
  });

  it('pass nothing that waits in the first lane, and nothing while limits are not enforced', () => {
    const { gate, leader } = spent(0);
    for (let i = 0; i < 2; i++) gate.take(new Ask(), 0, undefined);
    expect([gate.blockedBy(ONE, 0), gate.candidate(leader), gate.passes(0), gate.admits(ONE, 0)]).toEqual([
      'requestsPerMinute',
      leader,
      false,
      false,
    ]);
    const open = spent(1, { enforce: false });
    expect([open.gate.passes(0), open.gate.candidate(open.leader), open.gate.admits(ONE, 2)]).toEqual([false, open.leader, true]);
  });

  it('pass nothing without rates', () => {
    const gate = gateOf({ concurrency: Infinity, queue: kept });
    const leader = enter(gate, new Ask(ONE, 1));
    enter(gate, new Ask());
    expect([gate.goesAt(leader), gate.candidate(leader), gate.passes(0)]).toEqual([0, leader, false]);
  });
});

describe('a gate under another one', () => {
  const gates = () => {
    const above = gateOf({ concurrency: 3 }, [perMinute('requests', 60, { burst: 4 }), perMinute('tokens', 600, { burst: 100 })]);
    return { above, below: gateOf({ concurrency: 5, enforce: false }, [perMinute('tokens', 60, { burst: 10 })], above) };
  };

  it('has the least of both', () => {
    const { above, below } = gates();
    expect([leastOf(below, (each) => each.slots), leastOf(above, (each) => each.slots)]).toEqual([3, 3]);
    expect([leftOf(below, 'tokens'), leftOf(below, 'requests'), leftOf(below, 'images')]).toEqual([10, 4, Infinity]);
    expect(leftOf(below, 'tokens', 0, true)).toBe(100);
    expect([unitsOf(below), unitsOf(undefined)]).toEqual([['tokens', 'requests', 'tokens'], []]);
  });

  it('takes no more slots than there are', () => {
    const { below } = gates();
    expect([clamped(below, slots(4)).slots, clamped(below, slots(3)).slots, clamped(below, slots(0)).slots]).toEqual([3, 3, 0]);
  });

  it('knows how many jobs wait for a slot only', () => {
    const { above, below } = gates();
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
