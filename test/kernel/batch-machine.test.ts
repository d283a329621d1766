import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BatchNote, BatchRules, FailedJob, Failure, Order, QueueRule, Repair, RepairRule } from '../../operators/kernel/index.js';
import {
  ASK,
  Batch,
  BatchMachine,
  bid,
  boundsOf,
  clear,
  createRepairer,
  dueAtOf,
  enter,
  FIFO,
  FRAME,
  HAND_OUT,
  ItemFailure,
  isBlocked,
  Job,
  LanesQueue,
  leave,
  NOTHING,
  nextBidAt,
  oldestMs,
  promote,
  REST,
  ReorderBuffer,
  ROUND,
  readCapacity,
  reasonOf,
  refuseWaiting,
  rejectAll,
  STAY,
  shrinkAt,
  stamp,
  strictWithFloor,
  WITHDRAW,
} from '../../operators/kernel/index.js';
import { answerOf, FREE, hostOf } from './batch-host.js';
import { enterOrder } from './enter-order.js';
import { countAlive } from './garbage.js';

type Item = Job<number, string>;

/** Sends a failed batch again, in two halves at the second attempt, after a pause; gives up at the third. */
const again: RepairRule = {
  createRepairer,
  failed<J extends FailedJob>({ jobs, attempt, depth }: Failure<J>): Repair<J> | undefined {
    if (attempt + depth >= 3) return undefined;
    if (attempt === 1) return { parts: [jobs], attempt: 2, delayMs: 5 };
    const half = jobs.length >> 1;
    return { parts: [jobs.slice(0, half), jobs.slice(half)], depth: depth + 1 };
  },
};

/** A machine and its driver: every step is one call, and every decision can be read. */
class Driver {
  readonly stopped: unknown[] = [];
  readonly notes: BatchNote[] = [];
  readonly accepted: Item[] = [];
  readonly out: Item[] = [];
  readonly flying: Batch<number, string>[] = [];
  /** How long the window is, and how often it was asked for. */
  windowMs = 20;
  asked = 0;
  readonly machine: BatchMachine<number, string>;

  constructor(
    readonly rules: BatchRules<number>,
    isPulled = false,
    isHeard = false,
  ) {
    const host = hostOf<number, string>({
      tell: !isHeard
        ? undefined
        : (note) => {
            if (note.type !== 'settled' && note.type !== 'accepted') this.notes.push(note);
          },
      windowMs: () => this.windowMs + 0 * this.asked++,
      stop: (batch) => this.stopped.push(batch),
    });
    this.machine = new BatchMachine({ ...rules, isPulled }, host);
  }

  add(input: number, deadlineMs = Infinity, weight = 1 + (input % 3)): Item {
    const { machine } = this;
    const job = new Job<number, string>(input);
    stamp(machine, job, machine.now);
    job.weight = weight;
    enterOrder(machine, job, undefined);
    if (deadlineMs !== Infinity) job.extras.deadlineAt = machine.now + deadlineMs;
    enter(machine, job);
    this.accepted.push(job);
    return job;
  }

  send(): Batch<number, string> | undefined {
    const { machine } = this;
    const batch = machine.granted(machine.aim);
    if (batch === undefined) return undefined;
    batch.sent();
    this.flying.push(batch);
    return batch;
  }

  /** Ends the call that has been under way longest, if it still is. */
  end(how: 'well' | 'badly' | 'partly'): void {
    const batch = this.flying.splice(0, 1)[0];
    if (batch === undefined) return;
    const outcomes = batch.jobs.map((job, i) => (how === 'partly' && i % 2 === 0 ? new ItemFailure('alone') : String(job.input)));
    if (how === 'badly') this.machine.ended(batch, undefined, { error: 'bad' });
    else this.machine.ended(batch, answerOf(outcomes), undefined);
  }

  /** Time passes, and nothing is sent: answers what is next then. */
  pass(ms: number): number {
    const { machine } = this;
    const step = machine.next(machine.now + ms);
    machine.refused();
    return step;
  }

  handOut(): void {
    for (let job = this.machine.results.shift(); job; job = this.machine.results.shift()) this.out.push(job);
  }

  finish(): void {
    for (let round = 0; round < 10_000 && this.machine.queued + this.machine.calls.length > 0; round++) {
      this.pass(1);
      while (this.send());
      this.end('well');
      this.handOut();
    }
    this.handOut();
  }
}

const rules = (given: Partial<BatchRules<number>> = {}): BatchRules<number> => ({
  ...{ maxSize: 3, maxWeight: 6, bounds: boundsOf({}), queue: FIFO, order: undefined, repair: [], timeoutMs: 50 },
  classify: () => ({ class: 'transient' }),
  random: () => 0.5,
  ...given,
});
const inputOrder = { gates: true, lines: <E>(out: (entry: E) => void) => new ReorderBuffer(out) } as Order<unknown>;

/** Batches whose calls have failed at these times, each of which pauses for 5 ms. */
function pausedAt(...times: readonly number[]) {
  const driver = new Driver(rules({ maxWeight: Infinity, timeoutMs: Infinity, repair: [again] }));
  const { machine } = driver;
  const jobs = times.map((at) => {
    machine.tick(at);
    const members = [0, 0, 0].map((input) => driver.add(input));
    driver.send();
    driver.end('badly');
    return members;
  });
  return { machine, jobs };
}

describe('a batch machine', () => {
  it('says when the next batch is due, and why', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    machine.tick(100);
    driver.add(0);
    expect([machine.isFramed, dueAtOf(machine), driver.asked]).toEqual([true, Infinity, 0]);
    machine.frameOver();
    expect([machine.isFull, dueAtOf(machine), oldestMs(machine), driver.asked]).toEqual([false, 120, 0, 1]);
    expect(reasonOf(machine, 0)).toBe('time');
    machine.flush();
    expect([dueAtOf(machine), driver.asked, reasonOf(machine, 0)]).toEqual([-Infinity, 1, 'flush']);
    driver.add(0);
    driver.add(0);
    expect([machine.isFull, reasonOf(machine, 0)]).toEqual([true, 'size']);
    machine.finish();
    driver.send();
    driver.add(0);
    expect(reasonOf(machine, 0)).toBe('complete');
  });

  it('answers an arrival with what it asks for: a frame, a round, or nothing behind others', () => {
    const arrivals = (given: Partial<BatchRules<number>>): unknown[] => {
      const { machine } = new Driver(rules({ maxWeight: Infinity, ...given }));
      return [0, 1, 2, 3].map((input) => machine.push(input, 0));
    };
    expect(arrivals({})).toEqual([FRAME, NOTHING, ROUND, ROUND]);
    expect(arrivals({ bounds: boundsOf({ maxQueued: 2, overflow: 'dropNewest' }) })).toEqual([FRAME, NOTHING, ROUND, ROUND]);
    const { machine } = new Driver(rules({ maxSize: 1 }));
    machine.push(0, 0);
    machine.next(0);
    expect([machine.waitsIn, machine.push(1, 0)]).toEqual([0, NOTHING]);
    machine.finish();
    expect(machine.push(2, 0)).toBe(ROUND);
  });

  it('says what is next: results, a permit, and rest until something is due', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    expect([machine.next(1), machine.wakesAt, machine.now]).toEqual([REST, Infinity, 1]);
    driver.add(0);
    machine.frameOver();
    expect([machine.next(1), machine.wakesAt, machine.waitsIn]).toEqual([REST, 21, -1]);
    expect([machine.next(21), machine.waitsIn, machine.next(21)]).toEqual([ASK, 0, ASK]);
    const call = machine.granted()!;
    expect([call.jobs.length, call.isUnderWay, machine.waitsIn, machine.granted()]).toEqual([1, true, -1, undefined]);
    expect([machine.next(30), machine.wakesAt]).toEqual([REST, 71]);
    machine.ended(call, ['fine'], undefined, 31);
    expect([machine.next(31), machine.results.length, machine.drained()]).toEqual([HAND_OUT, 1, false]);
    driver.handOut();
    machine.finish();
    expect([machine.next(31), machine.drained(), machine.drained()]).toEqual([REST, true, false]);
  });

  it('keeps a place in the queue for permits while its lane leads, and gives it up for a more urgent lane or nothing', () => {
    const lanes = [{ name: 'high' }, { name: 'low' }];
    const queue: QueueRule<unknown> = {
      ...{ lanes, isDeclared: true, at: () => 1 },
      create: (places) =>
        new LanesQueue(
          lanes.map(() => ({ share: 1, floor: 0 })),
          strictWithFloor(0),
          places,
          false,
        ),
    };
    const driver = new Driver(rules({ maxSize: 1, queue, limiter: {} }));
    const { machine } = driver;
    const low = driver.add(0);
    expect([machine.next(0), machine.waitsIn, machine.next(0), machine.wakesAt]).toEqual([ASK, 1, STAY, Infinity]);
    promote(machine, low, 0);
    expect([machine.next(0), machine.waitsIn, machine.next(0), machine.waitsIn]).toEqual([WITHDRAW, -1, ASK, 0]);
    leave(machine, low);
    expect([machine.next(0), machine.waitsIn, machine.bid(1), machine.next(0)]).toEqual([WITHDRAW, -1, undefined, REST]);
  });

  it('bounds a batch by what permits can grant, where items are weighed', () => {
    const permits = { ...FREE, tokenCapacity: 4, borrows: false };
    const capacity = (given: Partial<BatchRules<number>>, borrows = false): unknown[] => {
      const machine = new BatchMachine<number, string>(rules(given), hostOf({ permits: { ...permits, borrows } }));
      return [readCapacity(machine), machine.aim, machine.charges];
    };
    expect(capacity({})).toEqual([Infinity, 6, false]);
    expect(capacity({ weigh: () => 1 })).toEqual([4, 4, true]);
    expect(capacity({ weigh: () => 1 }, true)).toEqual([Infinity, 4, true]);
  });

  it('decides again after a window callback that has changed which item is next', () => {
    const driver = new Driver(rules({ window: () => 0 }));
    const { machine } = driver;
    const only = driver.add(0);
    machine.frameOver();
    Object.assign(machine.host, { windowMs: () => (leave(machine, only), 0) });
    expect([machine.next(0), machine.waitsIn, machine.next(0)]).toEqual([HAND_OUT, -1, REST]);
  });

  it('wakes for deadlines and for calls that take too long', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    driver.add(0, 30);
    expect(machine.wakesAt).toBe(30);
    const call = driver.send();
    expect(machine.wakesAt).toBe(30);
    expect(driver.pass(30)).toBe(HAND_OUT);
    expect(driver.stopped).toEqual([call]);
    driver.handOut();
    expect(driver.out.map(({ reason }) => reason)).toEqual(['late']);
    driver.add(0);
    const next = driver.send();
    expect([machine.next(30), machine.wakesAt]).toEqual([REST, 80]);
    machine.tick(40);
    driver.add(0);
    driver.send();
    expect(machine.next(80)).toBe(HAND_OUT);
    expect([driver.stopped, next?.isUnderWay, machine.wakesAt]).toEqual([[call, next], false, 90]);
    driver.handOut();
    expect(driver.out.map(({ reason }) => reason)).toEqual(['late', 'timeout']);
  });

  it('bids for what the next batch weighs, and for less only when a deadline would pass while it saves up', () => {
    const driver = new Driver(rules({ maxSize: 10 }));
    const { machine } = driver;
    for (const input of [2, 2]) driver.add(input, 40);
    machine.charges = true;
    expect([bid(machine, 0, Infinity), machine.budget]).toEqual([6, 6]);
    expect([bid(machine, 0, 3), machine.budget]).toEqual([6, 6]);
    expect(shrinkAt(machine)).toBe(20);
    machine.tick(20);
    expect([bid(machine, 0, 3), machine.budget]).toEqual([3, 3]);
    expect([bid(machine, 0, 2), machine.budget]).toEqual([3, 3]);
  });

  it('bids for an item above the aim alone, also while its deadline presses and weightless ones wait', () => {
    const driver = new Driver(rules({ maxSize: 10, maxWeight: 3 }));
    const { machine } = driver;
    driver.add(0, 40, 7);
    driver.add(0, 40, 0);
    machine.charges = true;
    machine.tick(20);
    expect([bid(machine, 0, 5), machine.budget]).toEqual([7, 5]);
    expect([bid(machine, 0, 2), machine.budget]).toEqual([7, 3]);
    expect(machine.granted()?.jobs).toHaveLength(1);
  });

  it('says when its bid gets smaller by itself: once, with tokens, and only when that is still to come', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    driver.add(0, 40);
    expect(nextBidAt(machine)).toBe(Infinity);
    machine.charges = true;
    const at = [0, 19, 20, 21].map((now) => {
      machine.tick(now);
      return nextBidAt(machine);
    });
    expect(at).toEqual([20, 20, Infinity, Infinity]);
  });

  it('takes items that are all alike as it takes any others, and in the same batches', () => {
    const step = fc.oneof(
      fc.record({ push: fc.integer({ min: 1, max: 7 }) }),
      fc.record({ pass: fc.integer({ min: 1, max: 20 }) }),
      fc.constantFrom('send' as const, 'well' as const, 'badly' as const, 'partly' as const, 'flush' as const, 'land' as const),
    );
    const given = fc.record({ maxSize: fc.constantFrom(1, 2, 3, 7, Infinity), isRepaired: fc.boolean() });
    fc.assert(
      fc.property(given, fc.array(step, { maxLength: 60, size: 'max' }), ({ maxSize, isRepaired }, script) => {
        const both = [0, 1].map(() => new Driver(rules({ maxSize, maxWeight: Infinity, repair: isRepaired ? [again] : [] })));
        for (const each of script) {
          const seen = both.map((driver, isPushed) => {
            const { machine } = driver;
            if (each === 'send') driver.send();
            else if (each === 'flush') machine.flush();
            else if (each === 'land') machine.frameOver();
            else if (typeof each === 'string') driver.end(each);
            else if ('pass' in each) driver.pass(each.pass);
            else
              for (let n = 0; n < each.push; n++) {
                if (isPushed) machine.push(machine.accepted, machine.now);
                else driver.add(machine.accepted, Infinity, 1);
              }
            driver.handOut();
            const { accepted, queued, fresh, freshWeight, isFull, isFramed, wakesAt, lead } = machine;
            return {
              ...{ accepted, queued, fresh, freshWeight, isFull, isFramed, wakesAt, lead },
              reason: lead === -1 ? undefined : reasonOf(machine, lead),
              dueAt: dueAtOf(machine),
              oldestMs: oldestMs(machine),
              jobs: driver.flying.map(({ jobs }) =>
                jobs.map(({ input, index, acceptedAt, attempts }) => [input, index, acceptedAt, attempts]),
              ),
              out: driver.out.map(({ index, failed, reason }) => [index, failed, reason]),
            };
          });
          expect(seen[1]).toEqual(seen[0]);
        }
        for (const driver of both) driver.finish();
        expect(both[1]?.out.map(({ index }) => index)).toEqual(both[0]?.out.map(({ index }) => index));
      }),
    );
  });

  it('forgets what waits of items that are all alike', async () => {
    const { machine } = new Driver(rules({ maxSize: 2 }));
    const refs = Array.from({ length: 10 }, () => {
      const input = {};
      machine.push(input as number, 0);
      return new WeakRef(input);
    });
    clear(machine, 0);
    expect([machine.lead, await countAlive(refs)]).toEqual([-1, 0]);
  });

  it('wakes for the pause that is over first, of several that wait, whichever of them leave', () => {
    const { machine, jobs } = pausedAt(0, 2, 3);
    expect(machine.wakesAt).toBe(5);
    machine.next(5);
    machine.refused();
    expect([machine.wakesAt, machine.lead]).toEqual([7, 0]);
    for (const job of jobs[1] ?? []) leave(machine, job);
    expect(machine.wakesAt).toBe(8);
    for (const job of jobs[2] ?? []) leave(machine, job);
    expect(machine.wakesAt).toBe(Infinity);

    const other = pausedAt(0, 2, 3);
    for (const job of other.jobs[2] ?? []) leave(other.machine, job);
    expect(other.machine.wakesAt).toBe(5);
    for (const job of other.jobs[0] ?? []) leave(other.machine, job);
    expect(other.machine.wakesAt).toBe(7);
  });

  it('gives the reason of a failed call only to the items that are still in it', () => {
    const driver = new Driver(rules({ maxWeight: Infinity }));
    const { machine } = driver;
    const left = driver.add(0);
    for (const input of [0, 0]) driver.add(input);
    driver.send();
    leave(machine, left);
    driver.end('badly');
    driver.handOut();
    expect(driver.out.map(({ index, reason }) => [index, reason])).toEqual([
      [1, 'bad'],
      [2, 'bad'],
    ]);
    expect(left.reason).toBeUndefined();
  });

  it('rejects everything, once, and what comes afterwards', () => {
    const driver = new Driver(rules({ repair: [again] }));
    for (const input of [1, 2, 3, 4]) driver.add(input);
    driver.send();
    rejectAll(driver.machine, 'no');
    driver.add(5);
    driver.handOut();
    expect(driver.out.map(({ reason }) => reason)).toEqual(['no', 'no', 'no', 'no', 'no']);
    expect(driver.stopped).toHaveLength(1);
    expect(driver.machine.lead).toBe(-1);
  });

  it('rejects what waits to be sent, but not what waits for another attempt', () => {
    const driver = new Driver(rules({ repair: [again] }));
    for (const input of [0, 0, 0, 0]) driver.add(input);
    driver.send();
    driver.end('badly');
    refuseWaiting(driver.machine, 'cleared');
    driver.handOut();
    expect(driver.out.map(({ index, reason }) => [index, reason])).toEqual([[3, 'cleared']]);
    driver.finish();
    expect(driver.out.map(({ failed }) => failed)).toEqual([true, false, false, false]);
  });

  it('sends only the item that all results wait for when too many are held back', () => {
    const driver = new Driver(rules({ maxSize: 1, bounds: boundsOf({ maxQueued: 2 }), order: inputOrder }), true);
    for (const input of [0, 0, 0, 0]) driver.add(input);
    const first = driver.send();
    driver.send();
    driver.send();
    driver.flying.splice(0, 1);
    driver.end('well');
    driver.end('well');
    expect([isBlocked(driver.machine), driver.machine.heldBack, driver.machine.lead]).toEqual([true, 2, -1]);
    driver.flying.push(first as Batch<number, string>);
    driver.end('well');
    expect([isBlocked(driver.machine), driver.machine.lead]).toEqual([false, 0]);
  });

  it('begins with nothing known', () => {
    const { machine } = new Driver(rules());
    const { charges, isFramed, isFull, lead, wakesAt, latencyMs } = machine;
    expect({ charges, isFramed, isFull, lead, wakesAt, latencyMs }).toEqual({
      ...{ charges: false, isFramed: false, isFull: false, lead: -1, wakesAt: Infinity, latencyMs: undefined },
    });
    expect(new Job(1)).toMatchObject({ index: -1, failed: false, attempts: 0, isDone: false, parts: undefined, key: undefined });
    expect(new Batch([new Job(1)], 0, 1, 'b0')).toMatchObject({ isUnderWay: false, isReady: false, live: 1, attempt: 1 });
    const keyed = new Job(1);
    keyed.extras.key = 'key';
    expect(keyed.key).toBe('key');
  });

  it('tells once that ten thousand wait in a queue without a bound, and again when it was empty in between', () => {
    const fill = (given: Partial<BatchRules<number>>, counts: readonly number[]): unknown[] => {
      const driver = new Driver(rules({ maxSize: Infinity, maxWeight: Infinity, ...given }), false, true);
      for (const count of counts) {
        for (let n = 0; n < count; n++) driver.add(0);
        if (driver.machine.queued > 5000) driver.send();
      }
      return driver.notes.map((note) => Object.values(note));
    };
    const told = ['queueLong', 'default', 10_000];
    expect(fill({}, [9_999])).toEqual([]);
    expect(fill({}, [10_001, 10_000, 9_999, 10_000])).toEqual([told, told, told]);
    expect(fill({ bounds: boundsOf({ maxQueued: 20_000 }) }, [10_001])).toEqual([]);
    const quiet = new Driver(rules({ maxSize: Infinity, maxWeight: Infinity }));
    for (let n = 0; n < 10_000; n++) quiet.add(0);
    expect(quiet.machine.queued).toBe(10_000);
  });

  it('holds back a thousand results while maxQueued is no bound', () => {
    const driver = new Driver(rules({ maxSize: 1, order: inputOrder }));
    for (let n = 0; n <= 1001; n++) driver.add(0);
    const first = driver.send();
    driver.flying.length = 0;
    for (let n = 0; n < 1000; n++) {
      expect(isBlocked(driver.machine)).toBe(false);
      driver.send();
      driver.end('well');
    }
    expect([isBlocked(driver.machine), driver.machine.lead, driver.machine.queued]).toEqual([true, -1, 1]);
    driver.flying.push(first!);
    driver.end('well');
    expect([isBlocked(driver.machine), driver.machine.lead]).toEqual([false, 0]);
  });

  it('waits for the item that all results wait for, when that is accepted and not submitted yet', () => {
    const driver = new Driver(rules({ maxSize: 1, bounds: boundsOf({ maxQueued: 1 }), order: inputOrder }), true);
    const { machine } = driver;
    const early = new Job<number, string>(0);
    stamp(machine, early, 0);
    enterOrder(machine, early, undefined);
    for (let n = 0; n < 2; n++) driver.add(0);
    driver.send();
    driver.end('well');
    expect([isBlocked(machine), machine.lead]).toEqual([true, -1]);
    enter(machine, early);
    expect(machine.lead).toBe(0);
  });

  it('evicts the oldest item for a new one, with and without a listener', () => {
    for (const isHeard of [false, true]) {
      const driver = new Driver(rules({ bounds: boundsOf({ maxQueued: 1, overflow: 'dropOldest' }) }), false, isHeard);
      for (let n = 0; n < 2; n++) driver.add(0);
      driver.handOut();
      expect(driver.out.map(({ index, reason }) => [index, reason])).toEqual([[0, 'over']]);
      expect(driver.notes).toEqual(isHeard ? [{ type: 'dropped', lane: 'default', policy: 'dropOldest', seq: 0 }] : []);
    }
  });

  it('weighs nothing when nothing waits, however weights add up', () => {
    const driver = new Driver(rules({ maxSize: 2 }));
    for (const weight of [0.1, 0.2, 0.3]) driver.add(0, Infinity, weight);
    driver.send();
    driver.send();
    expect([driver.machine.fresh, driver.machine.freshWeight]).toEqual([0, 0]);
  });

  it('repairs nothing without a rule', () => {
    const driver = new Driver(rules());
    driver.add(0);
    driver.send();
    driver.end('badly');
    driver.handOut();
    expect(driver.out.map(({ reason }) => reason)).toEqual(['bad']);
  });

  it('stops no call that is over when the last of its items leaves', () => {
    const driver = new Driver(rules({ maxSize: 1 }));
    const [one] = [driver.add(0), driver.add(0)];
    const [first, second] = [driver.send()!, driver.send()!];
    Object.assign(driver.machine.host, {
      ended: () => {
        leave(driver.machine, one);
      },
    });
    driver.end('well');
    expect([first.isUnderWay, driver.machine.calls, driver.stopped]).toEqual([false, [second], []]);
  });

  it('hurries nothing that does not wait', () => {
    const { machine } = new Driver(rules());
    const early = new Job<number, string>(0);
    stamp(machine, early, 0);
    early.lane = 1;
    promote(machine, early, 0);
    expect([early.lane, machine.queued, machine.fresh]).toEqual([1, 0, 0]);
  });

  it('emits no event about an item that leaves before it is submitted, and none at all without a listener', () => {
    for (const isHeard of [false, true]) {
      const driver = new Driver(rules(), false, isHeard);
      const { machine } = driver;
      const early = new Job<number, string>(0);
      stamp(machine, early, 0);
      leave(machine, early);
      expect([early.isDone, driver.notes]).toEqual([true, []]);
      leave(machine, driver.add(0));
      driver.add(0);
      clear(machine, 0);
      const told = [
        { type: 'cancelled', lane: 'default', count: 1, seq: 1 },
        { type: 'cancelled', lane: 'default', count: 1 },
      ];
      expect([driver.notes, machine.queued]).toEqual([isHeard ? told : [], 0]);
    }
  });

  it('holds on to few of the items with deadlines that it has settled, while thousands wait', async () => {
    const driver = new Driver(rules({ maxSize: Infinity, maxWeight: Infinity }));
    const { machine } = driver;
    for (let n = 0; n < 1500; n++) driver.add(0, 10);
    const gone = Array.from({ length: 5000 }, () => {
      const job = driver.add(0, 1000);
      leave(machine, job);
      driver.accepted.pop();
      return new WeakRef(job);
    });
    expect(await countAlive(gone)).toBeLessThan(3000);
    expect([machine.queued, machine.wakesAt]).toEqual([1500, 10]);
    driver.pass(10);
    expect([machine.queued, machine.wakesAt]).toEqual([0, Infinity]);
  });
});
