import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Batch, BatchNote, LaneRule, Order, QueueRule, RepairRule } from '../../operators/kernel/index.js';
import {
  ASK,
  BatchMachine,
  bid,
  boundsOf,
  clear,
  createRepairer,
  dueAtOf,
  enter,
  FIFO,
  FRAME,
  ItemFailure,
  isBlocked,
  Job,
  LanesQueue,
  leave,
  NOTHING,
  oldestMs,
  promote,
  ReorderBuffer,
  ROUND,
  reasonOf,
  refuseWaiting,
  rejectAll,
  roomOf,
  shrinkAt,
  stamp,
  strictWithFloor,
} from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';
import type { Cure, Fault } from './batch-cures.js';
import { CURES, decide, verdictOf } from './batch-cures.js';
import { answerOf, hostOf } from './batch-host.js';
import type { ModelRules } from './batch-model.js';
import { Item, Model } from './batch-model.js';
import { enterOrder } from './enter-order.js';
import { same } from './same.js';

type Item$ = Job<number, string>;
type Call = Batch<number, string>;

const LANES: readonly LaneRule[] = [
  { name: 'high', maxWaitMs: 0 },
  { name: 'mid', maxQueued: 2, overflow: 'dropOldest' },
  { name: 'low', maxWaitMs: 9, maxQueued: 3 },
  { name: 'last' },
];
const lanesQueue: QueueRule<unknown> = {
  lanes: LANES,
  isDeclared: true,
  at: () => LANES.length - 1,
  create: (places) =>
    new LanesQueue(
      LANES.map(() => ({ share: 1, floor: 0 })),
      strictWithFloor(0),
      places,
      false,
    ),
};
const orderOf = (gates: boolean) => ({ gates, lines: <E>(out: (entry: E) => void) => new ReorderBuffer(out) }) as Order<unknown>;

const WINDOW_MS = 5;
const TIMEOUT: Fault = { class: 'timeout' };

const givenRules = fc.record({
  maxSize: fc.constantFrom(1, 2, 3, Infinity),
  maxWeight: fc.constantFrom(4, 6, Infinity),
  maxQueued: fc.constantFrom(1, 2, 5, Infinity),
  overflow: fc.constantFrom('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'),
  queue: fc.constantFrom(FIFO, lanesQueue),
  order: fc.constantFrom(undefined, orderOf(true), orderOf(false)),
  isRepaired: fc.boolean(),
  timeoutMs: fc.constantFrom(4, Infinity),
  isPulled: fc.boolean(),
  charges: fc.boolean(),
});

const pick = fc.nat({ max: 11 });
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({
    class: fc.constantFrom('throttled' as const, 'transient' as const, 'timeout' as const, 'itemFault' as const),
    retryAfterMs: fc.constantFrom(0, 3, 4),
  }),
  fc.constantFrom({ class: 'transient' as const }, { class: 'throttled' as const }),
  fc.constant({ class: 'fatal' as const, isUnclear: true }),
);
const command = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('enter' as const),
      lane: fc.nat({ max: 3 }),
      key: fc.nat({ max: 1 }),
      weights: fc.oneof(
        { weight: 4, arbitrary: fc.integer({ min: 1, max: 5 }).map((weight) => [weight]) },
        fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 3 }),
      ),
      deadlineMs: fc.constantFrom(Infinity, Infinity, 3, 8),
      fault: fc.constantFrom(undefined, undefined, undefined, undefined, undefined, 'too heavy'),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('take' as const), isSent: fc.boolean(), affordable: fc.constantFrom(1, 3, Infinity) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('answer' as const, 'fail' as const),
      pick,
      cure: fc.constantFrom(...CURES),
      faults: fc.array(fc.option(fault, { nil: undefined }), { minLength: 1, maxLength: 3 }),
      fault,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('leave' as const, 'promote' as const), pick: fc.nat(), lane: fc.nat({ max: 3 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat({ max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('flush' as const, 'land' as const, 'hand out' as const) }) },
  fc.record({ do: fc.constantFrom('finish' as const, 'refuse waiting' as const) }),
);
const lastCommand = fc.constantFrom('drain', 'reject all', 'clear');

type Given = typeof givenRules extends fc.Arbitrary<infer G> ? G : never;
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

/** Both side by side: each command goes to both, and all that can be seen of them is compared. */
class Pair {
  readonly model: Model;
  readonly machine: BatchMachine<number, string>;
  private readonly jobs = new Map<Item, Item$>();
  private readonly items: Item[] = [];
  private readonly isSent = new Set<Call>();
  private events: BatchNote[] = [];
  private stopped: string[] = [];
  private pauses: number[] = [];
  private told: unknown[] = [];
  private results: Item$[] = [];
  private cure: Cure = 'none';
  private overflowed: unknown = undefined;
  private timedOut: string[] = [];
  private asked = 0;

  constructor({ isRepaired, charges, ...given }: Given) {
    const rule: RepairRule = {
      createRepairer,
      failed: (failure) => {
        const { executing, retrying, waiting } = failure;
        this.told.push([executing, retrying, waiting, ...failure.call.map(({ id }) => id)]);
        return decide(this.cure, failure);
      },
    };
    const bounds = boundsOf({ maxQueued: given.maxQueued, overflow: given.overflow, lanes: given.queue.lanes });
    const rules: ModelRules = { ...given, bounds, repair: isRepaired ? [rule] : [], classify: verdictOf, random: () => 0.5 };
    const host = hostOf<number, string>({
      tell: (note) => this.events.push(note),
      windowMs: () => WINDOW_MS + 0 * this.asked++,
      deadlineError: (_job, now) => `late at ${now}`,
      overflowError: ({ limit, policy }) => `over ${limit} ${policy}`,
      timeoutError: () => TIMEOUT,
      overflowed: (error) => {
        this.overflowed = error;
      },
      pause: (pauseMs) => this.pauses.push(pauseMs),
      stop: ({ id }, fault) => {
        if (fault) this.timedOut.push(id);
        else this.stopped.push(id);
      },
    });
    this.machine = new BatchMachine<number, string>(rules, host);
    this.model = new Model(rules);
    this.machine.charges = this.model.charges = charges;
  }

  do(command: Command): void {
    const { model, machine } = this;
    switch (command.do) {
      case 'enter':
        this.enter(command);
        break;
      case 'take': {
        const { lead } = machine;
        if (lead === -1) break;
        same([bid(machine, lead, command.affordable), machine.budget], model.bid(command.affordable));
        const call = machine.granted() as Call;
        model.take(machine.budget);
        this.compareCalls();
        if (command.isSent) this.send(call);
        break;
      }
      case 'answer':
      case 'fail': {
        const call = machine.calls[command.pick % Math.max(1, machine.calls.length)];
        if (call) this.end(call, command.do === 'fail' ? command.fault : command.faults, command.cure);
        break;
      }
      case 'leave':
      case 'promote': {
        const item = this.items[command.pick % Math.max(1, this.items.length)];
        if (item === undefined || item.isDone) break;
        if (command.do === 'leave') leave(machine, this.jobOf(item));
        else promote(machine, this.jobOf(item), command.lane % machine.rules.queue.lanes.length);
        model[command.do](item, command.lane % machine.rules.queue.lanes.length);
        break;
      }
      case 'pass':
        this.pass(command.ms);
        break;
      case 'flush':
        machine.flush();
        model.flushedBelow = model.accepted;
        break;
      case 'land':
        machine.frameOver();
        model.isFramed = false;
        break;
      case 'finish':
        machine.finish();
        model.isFinishing = true;
        break;
      case 'refuse waiting':
        refuseWaiting(machine, 'refused');
        model.refuseWaiting('refused');
        break;
      case 'hand out':
        this.handOut();
        break;
    }
    this.compare();
  }

  end(call: Call, outcome: Fault | readonly (Fault | undefined)[], cure: Cure): void {
    const { model, machine } = this;
    if (!this.isSent.has(call)) this.send(call);
    const group = this.groupOf(call);
    const items = group.items;
    this.cure = model.cure = cure;
    model.calls = model.calls.filter((other) => other !== group);
    if ('class' in outcome) {
      machine.ended(call, undefined, { error: outcome });
      model.failed(group, outcome);
    } else {
      const faults = new Map(items.flatMap((item, i) => (outcome[i] ? [[item, outcome[i]] as const] : [])));
      const outcomes = items.map((item) => (faults.has(item) ? new ItemFailure(faults.get(item)) : `done ${item.index}`));
      machine.ended(call, answerOf(outcomes), undefined);
      model.answered(group, faults);
    }
  }

  finish(how: 'drain' | 'reject all' | 'clear'): void {
    const { model, machine } = this;
    if (how === 'clear') {
      clear(machine, machine.now);
      model.clear();
      this.results = [];
    } else if (how === 'reject all') {
      rejectAll(machine, 'rejected');
      model.rejectAll('rejected');
    }
    this.compare();
    this.enter({ lane: 0, key: 0, weights: [1], deadlineMs: Infinity, fault: undefined });
    this.compare();
    for (let round = 0; model.waiting.length + model.calls.length > 0; round++) {
      expect(round).toBeLessThan(500);
      this.do({ do: 'take', isSent: true, affordable: Infinity });
      for (const call of [...machine.calls]) if (call.isUnderWay) this.end(call, [undefined], 'none');
      this.do({ do: 'pass', ms: 1 });
      this.do({ do: 'hand out' });
    }
    same(
      this.items.every(({ isDone }) => isDone),
      true,
    );
    machine.dueAt = Infinity;
    same(machine.wakesAt, Infinity);
  }

  private enter({ lane: wanted, key, weights, deadlineMs, fault }: Omit<Extract<Command, { do: 'enter' }>, 'do'>): void {
    const { model, machine, jobs } = this;
    const lane = wanted % machine.rules.queue.lanes.length;
    const weight = weights.reduce((sum, each) => sum + each, 0);
    const make = (own: number): Item => {
      const item = new Item(model.accepted, model.now, lane, own, model.now + deadlineMs);
      const job = new Job<number, string>(item.index);
      jobs.set(item, job);
      return item;
    };
    const item = make(weight);
    const job = this.jobOf(item);
    stamp(machine, job, machine.now);
    same([job.index, job.lane, job.id], [item.index, machine.rules.queue.lanes.length - 1, String(item.index)]);
    Object.assign(job, { lane, weight });
    if (deadlineMs < Infinity) job.extras.deadlineAt = item.deadlineAt;
    if (fault !== undefined) job.extras.fault = { error: fault };
    enterOrder(machine, job, machine.rules.order?.gates ? undefined : key);
    if (weights.length > 1) {
      item.parts = weights.map((own) => Object.assign(make(own), { whole: item }));
      this.cut(job, item.parts);
    }
    model.accepted++;
    this.items.push(item);
    same(enter(machine, job), { round: ROUND, nothing: NOTHING, frame: FRAME }[model.enter(item, key, fault)]);
  }

  /** As a splitter of items does it. */
  private cut(whole: Item$, items: readonly Item[]): void {
    const parts = items.map((item) => {
      const part = this.jobOf(item);
      Object.assign(part, { index: whole.index, lane: whole.lane, weight: item.weight, acceptedAt: whole.acceptedAt, state: whole.state });
      if (whole.deadlineAt < Infinity) part.extras.deadlineAt = whole.deadlineAt;
      return part;
    });
    let last: unknown;
    let missing = parts.length;
    const rule: NonNullable<NonNullable<Item$['more']>['whole']> = {
      job: whole,
      parts,
      sent: (batch) => {
        if (last !== batch) whole.attempts++;
        last = batch;
      },
      settled: (machine, _part, failed, outcome, counts) => {
        if (whole.isDone) return;
        if (failed) {
          machine.settle(whole, true, outcome, counts);
          for (const part of parts) machine.remove(part);
        } else if (--missing === 0) machine.settle(whole, false, outcome);
      },
    };
    for (const job of [whole, ...parts]) job.extras.whole = rule;
  }

  private send(call: Call): void {
    call.sent();
    this.model.sent(this.groupOf(call));
    this.isSent.add(call);
    this.compareCalls();
  }

  private pass(ms: number): void {
    const { model, machine } = this;
    const now = machine.now + ms;
    // A call that takes too long was sent.
    for (const call of machine.calls) if (call.timeoutAt <= now && !this.isSent.has(call)) this.send(call);
    model.now = now;
    this.cure = model.cure = 'none';
    this.timedOut = [];
    const step = machine.next(now);
    model.wake();
    const late: string[] = [];
    for (let call = model.calls[0]; call && model.timeoutAt(call) <= now; call = model.calls[0]) {
      late.push(call.id);
      model.calls = model.calls.slice(1);
      model.failed(call, TIMEOUT);
    }
    same([this.timedOut, step === ASK], [late, machine.waitsIn !== -1]);
    // When there is anything to wait for, it is still to come.
    if (step !== ASK) expect(machine.wakesAt).toBeGreaterThan(now);
    machine.refused();
    this.compare();
  }

  private handOut(): void {
    const { model, machine } = this;
    for (let job = machine.results.shift(); job; job = machine.results.shift()) this.results.push(job);
    const shown = (all: readonly { index: number; failed: boolean; outcome: unknown; attempts: number }[]) =>
      all.map(({ index, failed, outcome, attempts }) => ({ index, failed, outcome, attempts }));
    const [got, wanted] = [shown(this.results), shown(model.results)];
    // Those of one step that keep no order come in any.
    const byIndex = machine.rules.order?.gates ? () => 0 : (a: { index: number }, b: { index: number }) => a.index - b.index;
    same(got.toSorted(byIndex), wanted.toSorted(byIndex));
    this.results = [];
    model.results = [];
  }

  private compare(): void {
    const { model, machine } = this;
    const sorted = (notes: readonly BatchNote[]): string[] => notes.map((note) => JSON.stringify(Object.entries(note).sort())).sort();
    same(sorted(this.events), sorted(model.events));
    same([this.stopped.toSorted(), this.pauses, this.told], [model.stopped.toSorted(), model.pauses, model.told]);
    Object.assign(this, { events: [], stopped: [], pauses: [], told: [] });
    Object.assign(model, { events: [], stopped: [], pauses: [], told: [] });
    const { queued, fresh, freshWeight, heldBack, lead, isFull, isFramed, accepted, latencyMs } = machine;
    const { maxQueued } = model.rules;
    const waiting = model.waiting.length;
    same(
      {
        ...{ queued, fresh, freshWeight, heldBack, lead, isFull, isFramed, accepted, latencyMs },
        ...{ isBlocked: isBlocked(machine), oldestMs: oldestMs(machine), room: roomOf(machine) },
      },
      {
        ...{ queued: waiting, fresh: model.fresh.length, freshWeight: model.freshWeight, heldBack: model.heldBack, lead: model.lead },
        ...{ isFull: model.isFull, isFramed: model.isFramed, isBlocked: model.isBlocked, oldestMs: model.now - model.oldestAt },
        room: maxQueued - waiting - machine.results.length - model.heldBack,
        accepted: model.accepted,
        latencyMs: model.latencyMs,
      },
    );
    this.asked = 0;
    same(dueAtOf(machine), model.dueAt(WINDOW_MS));
    expect(this.asked).toBeLessThanOrEqual(1);
    same(lead === -1 ? undefined : reasonOf(machine, lead), model.reason);
    same([shrinkAt(machine), this.overflowed, machine.refusal], [model.shrinkAt, model.overflowed, model.refusal]);
    machine.dueAt = Infinity;
    same(machine.wakesAt, model.nextAt);
    this.compareCalls();
  }

  private compareCalls(): void {
    const { model, machine } = this;
    const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);
    same(
      machine.calls.every(({ isUnderWay }) => isUnderWay),
      true,
    );
    const calls = machine.calls.toSorted(byId).map(({ id, lane, attempt, depth, parentId, origin, startedAt, jobs, weight }) => ({
      ...{
        id,
        lane,
        attempt,
        depth,
        parentId,
        startedAt,
        weight,
        originId: origin.id,
        jobs: jobs.map(({ index, state }) => [index, state]),
      },
    }));
    same(
      calls,
      model.calls.toSorted(byId).map((group) => {
        const { id, lane, attempt, depth, startedAt, items, origin = group } = group;
        const parentId = id.includes('.') ? id.slice(0, id.lastIndexOf('.')) : undefined;
        const weight = items.reduce((sum, item) => sum + item.weight, 0);
        const jobs = items.map(({ index, isDone }) => [index, isDone ? 4 : 3]);
        return { id, lane, attempt, depth, parentId, startedAt, weight, originId: origin.id, jobs };
      }),
    );
  }

  private jobOf(item: Item): Item$ {
    return this.jobs.get(item) as Item$;
  }

  private groupOf({ id }: Call): Model['calls'][number] {
    return this.model.calls.find((call) => call.id === id) as Model['calls'][number];
  }
}

describe('a batch machine', () => {
  it('does what searched lists do', () => {
    fc.assert(
      fc.property(givenRules, fc.array(command, { maxLength: 60, size: 'max' }), lastCommand, (given, commands, last) => {
        const pair = new Pair(given);
        for (const each of commands) pair.do(each);
        pair.finish(last);
      }),
      { numRuns: draws(40, 100) },
    );
  });

  it('does so with what is sent again, too', () => {
    fc.assert(
      fc.property(givenRules, fc.array(command, { maxLength: 40, size: 'max' }), lastCommand, (given, commands, last) => {
        const bounds = { maxSize: 6, maxWeight: Infinity, maxQueued: Infinity, timeoutMs: Infinity };
        const pair = new Pair({ ...given, ...bounds, isRepaired: true });
        for (let n = 0; n < 6; n++) pair.do({ do: 'enter', lane: 3, key: 0, weights: [1], deadlineMs: Infinity, fault: undefined });
        pair.do({ do: 'take', isSent: true, affordable: Infinity });
        pair.do({ do: 'fail', pick: 0, cure: 'search', faults: [], fault: { class: 'transient' } });
        for (const each of commands) pair.do(each);
        pair.finish(last);
      }),
      { numRuns: draws(40, 100) },
    );
  });
});
