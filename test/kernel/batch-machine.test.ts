import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BatchHost, BatchRules, FailedJob, Failure, Order, Repair, RepairRule } from '../../operators/kernel/index.js';
import { Batch, BatchMachine, bid, FIFO, ItemFailure, Job, leave, mend, ReorderBuffer, shrinkAt } from '../../operators/kernel/index.js';

type Item = Job<number, string>;

/** Sends a failed batch again, in two halves at the second attempt, after a pause; gives up at the third. */
const again: RepairRule = {
  mend,
  failed<J extends FailedJob>({ jobs, attempt, depth }: Failure<J>): Repair<J> | undefined {
    if (attempt + depth >= 3) return undefined;
    if (attempt === 1) return { parts: [jobs], attempt: 2, delayMs: 5 };
    const half = jobs.length >> 1;
    return { parts: [jobs.slice(0, half), jobs.slice(half)], depth: depth + 1 };
  },
};

/** A machine and whoever drives it: every step is one call, and all that it decides can be looked at. */
class Driver {
  readonly stopped: unknown[] = [];
  readonly accepted: Item[] = [];
  readonly left = new Set<Item>();
  readonly out: Item[] = [];
  readonly flying: Batch<number, string>[] = [];
  readonly machine: BatchMachine<number, string>;

  constructor(
    readonly rules: BatchRules<number>,
    isPulled = false,
  ) {
    const host: BatchHost<number, string> = {
      operator: 'test',
      tell: undefined,
      deadlineError: () => 'late',
      overflowError: () => 'over',
      pause: () => undefined,
      stop: (batch) => this.stopped.push(batch),
    };
    this.machine = new BatchMachine({ ...rules, isPulled }, host);
  }

  add(input: number, deadlineMs = Infinity): Item {
    const { machine } = this;
    const job = new Job<number, string>(input);
    machine.stamp(job);
    job.weight = 1 + (input % 3);
    if (this.rules.order) machine.place(job, undefined);
    if (deadlineMs !== Infinity) job.extras.deadlineAt = machine.now + deadlineMs;
    machine.enter(job);
    this.accepted.push(job);
    return job;
  }

  send(): Batch<number, string> | undefined {
    const { machine } = this;
    const { lead } = machine;
    if (lead === -1) return undefined;
    const batch = machine.take(lead, machine.aim);
    machine.sent(batch);
    this.flying.push(batch);
    return batch;
  }

  /** Ends the call that has been under way longest, if it still is. */
  end(how: 'well' | 'badly' | 'partly'): void {
    const batch = this.flying.splice(0, 1)[0];
    if (batch === undefined || batch.slot === -1) return;
    this.machine.over(batch);
    this.machine.ending.push(batch);
    if (how === 'badly') this.machine.failed(batch, 'bad', this.rules.repair.length > 0 ? { class: 'transient' } : undefined);
    else {
      const outcomes = batch.jobs.map((job, i) => (how === 'partly' && i % 2 === 0 ? new ItemFailure('alone') : String(job.input)));
      this.machine.succeeded(batch, outcomes);
    }
    this.machine.ending.pop();
  }

  pass(ms: number): void {
    this.machine.now += ms;
    this.machine.wake();
  }

  leave(at: number): void {
    const job = this.accepted[at % Math.max(1, this.accepted.length)];
    if (job === undefined || job.isDone) return;
    this.left.add(job);
    leave(this.machine, job);
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
  ...{ maxSize: 3, maxWeight: 6, maxQueued: Infinity, overflow: 'error', queue: FIFO, order: undefined, repair: [], timeoutMs: 50 },
  classify: () => ({ class: 'transient' }),
  random: () => 0.5,
  ...given,
});
const inputOrder = { gates: true, lines: <E>(out: (entry: E) => void) => new ReorderBuffer(out) } as Order<unknown>;

const step = fc.oneof(
  fc.record({ do: fc.constant('add' as const), n: fc.nat({ max: 20 }), late: fc.constantFrom(Infinity, Infinity, 3, 9) }),
  fc.record({ do: fc.constant('send' as const) }),
  fc.record({ do: fc.constant('flush' as const) }),
  fc.record({ do: fc.constant('end' as const), how: fc.constantFrom('well' as const, 'badly' as const, 'partly' as const) }),
  fc.record({ do: fc.constant('pass' as const), ms: fc.nat({ max: 10 }) }),
  fc.record({ do: fc.constant('leave' as const), n: fc.nat({ max: 50 }) }),
);

function run(driver: Driver, steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[]): void {
  for (const each of steps) {
    if (each.do === 'add') driver.add(each.n, each.late);
    else if (each.do === 'send') driver.send();
    else if (each.do === 'flush') driver.machine.flush();
    else if (each.do === 'end') driver.end(each.how);
    else if (each.do === 'pass') driver.pass(each.ms);
    else driver.leave(each.n);
    for (const { jobs, attempt, depth } of driver.flying) {
      expect(jobs.length).toBeLessThanOrEqual(driver.rules.maxSize);
      const weight = jobs.reduce((sum, job) => sum + job.weight, 0);
      if (attempt + depth === 1 && jobs.length > 1) expect(weight).toBeLessThanOrEqual(driver.rules.maxWeight);
    }
    driver.handOut();
  }
  driver.finish();
}

describe.each([
  ['as calls end', {}],
  ['with a repair', { repair: [again] }],
  ['in the order of input', { order: inputOrder, repair: [again] }],
  ['with a bound that drops the oldest', { maxQueued: 4, overflow: 'dropOldest' }],
  ['with a bound that keeps the newest', { maxQueued: 2, overflow: 'latest', repair: [again] }],
] as const)('a batch machine, %s', (_title, given) => {
  it('settles each item once that nobody has given up, and keeps nothing', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const driver = new Driver(rules(given));
        run(driver, steps);
        const wanted = driver.accepted.filter((job) => !driver.left.has(job));
        expect(new Set(driver.out).size).toBe(driver.out.length);
        expect(new Set(driver.out)).toEqual(new Set(wanted));
        const { queued, fresh, freshWeight, heldBack } = driver.machine;
        expect({ queued, fresh, freshWeight, heldBack, calls: driver.machine.calls }).toEqual({
          ...{ queued: 0, fresh: 0, freshWeight: 0, heldBack: 0, calls: [] },
        });
        for (const job of driver.out) if (!job.failed) expect(job.outcome).toBe(String(job.input));
        if ('order' in given)
          expect(driver.out.map(({ index }) => index)).toEqual(driver.out.map(({ index }) => index).toSorted((a, b) => a - b));
      }),
      { numRuns: 300 },
    );
  });
});

describe('a batch machine', () => {
  it('says when the next batch is due, and why', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    machine.now = 100;
    driver.add(0);
    let asked = 0;
    const dueAt = (): number => machine.dueAt(() => 20 + 0 * asked++);
    expect([machine.isFull, machine.isUrgent, dueAt(), machine.oldestAt, asked]).toEqual([false, false, 120, 100, 1]);
    expect(machine.reason(0)).toBe('time');
    machine.isFramed = true;
    expect([dueAt(), asked]).toEqual([Infinity, 1]);
    machine.isFramed = false;
    machine.flush();
    expect([dueAt(), asked, machine.reason(0)]).toEqual([-Infinity, 1, 'flush']);
    driver.add(0);
    driver.add(0);
    expect([machine.isFull, machine.reason(0)]).toEqual([true, 'size']);
    machine.isFinishing = true;
    driver.send();
    driver.add(0);
    expect(machine.reason(0)).toBe('complete');
  });

  it('wakes for deadlines and for calls that take too long', () => {
    const driver = new Driver(rules());
    const { machine } = driver;
    driver.add(0, 30);
    expect(machine.nextAt).toBe(30);
    const call = driver.send();
    expect(machine.nextAt).toBe(30);
    driver.pass(30);
    expect(driver.stopped).toEqual([call]);
    driver.handOut();
    expect(driver.out.map(({ reason }) => reason)).toEqual(['late']);
    driver.add(0);
    const next = driver.send();
    expect([machine.overdue(), machine.nextAt]).toEqual([undefined, 80]);
    machine.now = 80;
    expect(machine.overdue()).toBe(next);
  });

  it('bids for what the next batch weighs, and for less only when a deadline would pass while it saves up', () => {
    const driver = new Driver(rules({ maxSize: 10 }));
    const { machine } = driver;
    for (const input of [2, 2]) driver.add(input, 40);
    machine.charges = true;
    expect([bid(machine, Infinity), machine.budget]).toEqual([6, 6]);
    expect([bid(machine, 3), machine.budget]).toEqual([6, 6]);
    expect(shrinkAt(machine)).toBe(20);
    machine.now = 20;
    expect([bid(machine, 3), machine.budget]).toEqual([3, 3]);
    expect([bid(machine, 2), machine.budget]).toEqual([6, 6]);
  });

  it('rejects everything, once, and what comes afterwards', () => {
    const driver = new Driver(rules({ repair: [again] }));
    for (const input of [1, 2, 3, 4]) driver.add(input);
    driver.send();
    driver.machine.rejectAll('no');
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
    driver.machine.refuseWaiting('cleared');
    driver.handOut();
    expect(driver.out.map(({ index, reason }) => [index, reason])).toEqual([[3, 'cleared']]);
    driver.finish();
    expect(driver.out.map(({ failed }) => failed)).toEqual([true, false, false, false]);
  });

  it('sends only the item that all results wait for when too many are held back', () => {
    const driver = new Driver(rules({ maxSize: 1, maxQueued: 2, order: inputOrder }), true);
    for (const input of [0, 0, 0, 0]) driver.add(input);
    const first = driver.send();
    driver.send();
    driver.send();
    driver.flying.splice(0, 1);
    driver.end('well');
    driver.end('well');
    expect([driver.machine.isBlocked, driver.machine.heldBack, driver.machine.lead]).toEqual([true, 2, -1]);
    driver.flying.push(first as Batch<number, string>);
    driver.end('well');
    expect([driver.machine.isBlocked, driver.machine.lead]).toEqual([false, 0]);
  });
});
