import { describe, expect, it } from 'vitest';
import type {
  BatchRules,
  ClassifyContext,
  FailedJob,
  Failure,
  Origin,
  Repair,
  RepairRule,
  Search,
  Verdict,
} from '../../operators/kernel/index.js';
import {
  Batch,
  BatchMachine,
  boundsOf,
  createRepairer,
  enter,
  FIFO,
  ItemFailure,
  Job,
  reasonOf,
  rejectAll,
  stamp,
} from '../../operators/kernel/index.js';
import { answerOf, hostOf } from './batch-host.js';

type Call = Batch<string, string>;

const PASSING: Verdict = { class: 'transient' };

/** A machine with one call of so many items on its way. */
function calling(inputs: readonly string[], given: Partial<BatchRules<string>>) {
  const rules: BatchRules<string> = {
    ...{ maxSize: 9, maxWeight: 9, bounds: boundsOf({}), queue: FIFO, order: undefined, repair: [], timeoutMs: Infinity },
    random: () => 0.25,
    ...given,
  };
  const machine = new BatchMachine<string, string>(rules, hostOf());
  const jobs = inputs.map((input) => {
    const job = new Job<string, string>(input);
    stamp(machine, job, 0);
    job.extras.name = `id of ${input}`;
    job.extras.key = `key of ${input}`;
    enter(machine, job);
    return job;
  });
  const call = take(machine);
  return { machine, jobs, call };
}

function take(machine: BatchMachine<string, string>): Call {
  const call = machine.granted()!;
  call.sent();
  return call;
}

function answer(machine: BatchMachine<string, string>, call: Call, outcomes: readonly (string | ItemFailure)[]): void {
  machine.ended(call, answerOf(outcomes), undefined);
}

function fail(machine: BatchMachine<string, string>, call: Call, error: unknown): void {
  machine.ended(call, undefined, { error });
}

function results(machine: BatchMachine<string, string>): unknown[] {
  const all: unknown[] = [];
  for (let job = machine.results.shift(); job; job = machine.results.shift())
    all.push([job.input, job.failed ? 'failed' : 'done', job.outcome]);
  return all;
}

/** Gives everything up, and notes what it was told. */
class Listening implements RepairRule {
  readonly createRepairer = createRepairer;
  readonly told: Failure<FailedJob>[] = [];
  readonly good: unknown[] = [];

  constructor(
    private readonly answer?: <J extends FailedJob>(failure: Failure<J>) => Repair<J> | undefined,
    readonly classify = (_error: unknown, _context: ClassifyContext): Verdict => PASSING,
  ) {}

  failed<J extends FailedJob>(failure: Failure<J>): Repair<J> | undefined {
    this.told.push(failure);
    return this.answer?.(failure);
  }

  succeeded<J>(origin: Origin<J>): void {
    this.good.push(origin.id);
  }
}

describe('what a classifier is told', () => {
  const asked = (given: Partial<BatchRules<string>>): unknown[] => {
    const seen: unknown[] = [];
    const rule = new Listening(undefined, (error, context) => (seen.push(['rule', error, context]), PASSING));
    const classify = given.classify && ((error: unknown, context: ClassifyContext) => (seen.push(['own', error, context]), PASSING));
    const silent = new Listening();
    Object.assign(silent, { classify: undefined });
    const { machine, call } = calling(['a', 'b'], { repair: [silent, rule], ...given, ...(classify && { classify }) });
    fail(machine, call, 'bad');
    return seen;
  };

  it('is the size of the call and its attempt, and the time of day where there is one', () => {
    const context = { size: 2, attempt: 1, aborted: false };
    expect(asked({})).toStrictEqual([['rule', 'bad', context]]);
    expect(asked({ scheduler: { now: () => 77 } })).toStrictEqual([['rule', 'bad', { ...context, epochMs: 77 }]]);
  });

  it("is told to the operator's own, where it has one, and not to that of a rule", () => {
    expect(asked({ classify: () => PASSING })).toEqual([['own', 'bad', { size: 2, attempt: 1, aborted: false }]]);
  });

  it('makes an error fatal without a classifier, and when its classifier fails: the items get that fault', () => {
    const rule = new Listening();
    Object.assign(rule, { classify: undefined });
    const { machine } = calling(['a'], { repair: [rule] });
    expect(machine.repairer?.judge('bad', 1, 1)).toEqual({ verdict: { class: 'fatal' }, reason: 'bad' });
    const fault = new Error('no');
    const failing = new Listening(undefined, () => {
      throw fault;
    });
    const other = calling(['a'], { repair: [failing] });
    expect(other.machine.repairer?.judge('bad', 1, 1)).toEqual({ verdict: { class: 'fatal' }, reason: fault });
    expect(calling(['a'], {}).machine.repairer?.judge('bad', 1, 1)).toBeUndefined();
  });
});

describe('what a rule is told', () => {
  it('of a failed call is all there is to know of it', () => {
    const rule = new Listening();
    const { machine, jobs, call } = calling(['a', 'b', 'c'], { repair: [rule] });
    machine.now = 5;
    machine.remove(jobs[1]!);
    fail(machine, call, 'bad');
    const [failure] = rule.told;
    expect(failure).toMatchObject({
      ...{ operator: 'test', now: 5, error: 'bad', verdict: PASSING, isPartial: false, attempt: 1, depth: 0, search: undefined },
      ...{ executing: 0, retrying: 0, waiting: 0 },
    });
    expect([failure?.call, failure?.jobs, failure?.origin]).toEqual([jobs, [jobs[0], jobs[2]], call]);
    expect([failure?.call.map(({ id }) => id), failure?.draw()]).toEqual([['id of a', 'id of b', 'id of c'], 0.25]);
    expect(failure?.jobs.map((job) => [job.id, (job as Job<string, string>).key])).toEqual([
      ['id of a', 'key of a'],
      ['id of c', 'key of c'],
    ]);
    expect([new Job('x').key, new Job('x').id]).toEqual([undefined, '-1']);
  });

  it('of items that failed alone is which, and the verdict that makes them wait longest', () => {
    const waits: Readonly<Record<string, number | undefined>> = { none: undefined, short: 3, long: 9, other: 9 };
    const rule = new Listening(undefined, (error) => ({
      class: 'timeout',
      ...(waits[String(error)] && { retryAfterMs: waits[String(error)]! }),
    }));
    const { machine, jobs, call } = calling(['a', 'b', 'c', 'd', 'e'], { repair: [rule] });
    const outcomes = ['none', 'short', 'long', 'other'].map((reason) => new ItemFailure(reason));
    answer(machine, call, [...outcomes, 'fine']);
    expect(rule.told).toHaveLength(1);
    expect(rule.told[0]).toMatchObject({ isPartial: true, error: 'long', verdict: { retryAfterMs: 9 }, jobs: jobs.slice(0, 4) });
    expect(rule.good).toEqual([call.id]);
    const failed = ['none', 'short', 'long', 'other'].map((reason, i) => ['abcd'[i], 'failed', reason]);
    expect(results(machine)).toEqual([['e', 'done', 'fine'], ...failed]);
  });

  it('is told to the rules until one answers, and to none when no item is left', () => {
    const first = new Listening();
    const second = new Listening(({ jobs }) => ({ rejected: jobs.map((job) => ({ job, reason: 'second' })) }));
    const third = new Listening();
    const { machine, call } = calling(['a'], { repair: [first, second, third] });
    fail(machine, call, 'bad');
    expect([first.told.length, second.told.length, third.told.length, results(machine)]).toEqual([1, 1, 0, [['a', 'failed', 'second']]]);
    const left = calling(['a'], { repair: [first, second] });
    Object.assign(left.machine.host, {
      ended: () => {
        left.machine.remove(left.jobs[0]!);
      },
    });
    fail(left.machine, left.call, 'bad');
    expect([first.told.length, results(left.machine)]).toEqual([1, []]);
  });
});

describe('what a callback may do while it is asked', () => {
  it('is to let an item go: it is neither rejected nor sent again', () => {
    const rule: RepairRule = new Listening(undefined, (error) => {
      machine.remove(jobs[error as number]!);
      return error === 0 ? { class: 'fatal' } : PASSING;
    });
    const { machine, jobs, call } = calling(['a', 'b', 'c'], { repair: [rule] });
    answer(machine, call, [new ItemFailure(0), new ItemFailure(1), 'fine']);
    expect(results(machine)).toEqual([['c', 'done', 'fine']]);
    expect((rule as Listening).told).toEqual([]);
  });

  it('is to reject everything: those of the call that is being seen to as well, once', () => {
    const rule: RepairRule = new Listening(undefined, () => {
      rejectAll(machine, 'closed');
      return PASSING;
    });
    const { machine, call } = calling(['a', 'b'], { repair: [rule] });
    answer(machine, call, ['fine', new ItemFailure('bad')]);
    expect(results(machine)).toEqual([
      ['a', 'done', 'fine'],
      ['b', 'failed', 'closed'],
    ]);
  });

  it('is to remove every item that its plan sends again', () => {
    const rule: RepairRule = new Listening(({ jobs: failed }) => {
      for (const job of jobs) machine.remove(job);
      return { parts: [failed], attempt: 2, delayMs: 3, rejected: failed.map((job) => ({ job, reason: 'named' })) };
    });
    const { machine, jobs, call } = calling(['a', 'b'], { repair: [rule] });
    fail(machine, call, 'bad');
    expect([results(machine), machine.queued, machine.wakesAt, machine.lead]).toEqual([[], 0, Infinity, -1]);
  });
});

describe('what was sent again', () => {
  it('counts as calls of its origin when it is a first attempt, and keeps to what the rule says of it', () => {
    const rule = new Listening(({ jobs, depth }) =>
      depth === 0
        ? { parts: [jobs.slice(0, 1), jobs.slice(1)], depth: 1 }
        : { parts: [jobs], attempt: 2, delayMs: 5, note: { type: 'split', size: 1, parts: 1, depth } },
    );
    const { machine, call } = calling(['a', 'b', 'c'], { repair: [rule] });
    fail(machine, call, 'bad');
    expect([call.calls, machine.queued, reasonOf(machine, 0)]).toEqual([3, 3, 'split']);
    const one = take(machine);
    expect([one.id, one.parentId, one.depth, one.attempt, one.jobs.length, one.origin]).toEqual(['b0.1', 'b0', 1, 1, 1, call]);
    fail(machine, one, 'bad');
    expect([call.calls, machine.wakesAt, machine.queued]).toEqual([3, 5, 3]);
    const two = take(machine);
    expect([two.id, two.jobs.length, machine.lead]).toEqual(['b0.2', 2, -1]);
    machine.next(5);
    machine.refused();
    expect([reasonOf(machine, 0), machine.wakesAt]).toEqual(['retry', Infinity]);
    const again = take(machine);
    expect([again.id, again.attempt, again.depth, again.origin, again.weight]).toEqual(['b0.1.1', 2, 1, call, 1]);
  });
});

describe('a search', () => {
  it.each([
    ['that its part has succeeded, when no item in it has failed', ['fine', 'fine'], ['succeeded', 2]],
    ['that its part was inconclusive, when one of its items has failed alone', ['fine', new ItemFailure('bad')], ['inconclusive']],
  ])('is told %s', (_title, outcomes, expected) => {
    const told: unknown[] = [];
    const search: Search<never> = {
      next: (good: readonly unknown[] | undefined) => (told.push(...(good ? ['succeeded', good.length] : ['inconclusive'])), {}),
    };
    const rule = new Listening(({ jobs, isPartial }) => (isPartial ? undefined : { parts: [jobs], search }));
    const { machine, call } = calling(['a', 'b'], { repair: [rule] });
    fail(machine, call, 'bad');
    const part = take(machine);
    expect(told).toEqual([]);
    answer(machine, part, outcomes);
    expect(told).toEqual(expected);
    expect(results(machine)).toHaveLength(2);
  });
});

describe('a search', () => {
  const searching = () => {
    const told: string[] = [];
    const search: Search<FailedJob> = {
      next: (good) => (told.push(good ? 'succeeded' : 'inconclusive'), {}),
    };
    return { told, search };
  };

  it('is told nothing once everything is rejected', () => {
    const { told, search } = searching();
    const rule = new Listening(({ jobs }) => ({ parts: [jobs], search: search as Search<never> }));
    const { machine, call } = calling(['a'], { repair: [rule] });
    fail(machine, call, 'bad');
    take(machine);
    rejectAll(machine, 'closed');
    expect([told, results(machine)]).toEqual([[], [['a', 'failed', 'closed']]]);
  });

  it('continues when every item of its part left while the rule decided', () => {
    const { told, search } = searching();
    const rule: RepairRule = new Listening(({ jobs: [first, ...held] }) => {
      machine.remove(jobs[0]!);
      return { parts: [[first!]], held, search: search as Search<never> };
    });
    const { machine, jobs, call } = calling(['a', 'b'], { repair: [rule] });
    fail(machine, call, 'bad');
    expect([told, machine.queued]).toEqual([['inconclusive'], 1]);
  });
});

describe('a pause', () => {
  it('is counted once, also when every item leaves after it', () => {
    const rule = new Listening(({ attempt, jobs }) => (attempt === 1 ? { parts: [jobs], attempt: 2, delayMs: 5 } : undefined));
    const { machine, jobs, call } = calling(['a', 'b'], { maxSize: 1, repair: [rule] });
    const other = take(machine);
    fail(machine, call, 'bad');
    machine.next(5);
    machine.refused();
    machine.remove(jobs[0]!);
    fail(machine, other, 'bad');
    expect(rule.told.map(({ waiting }) => waiting)).toEqual([0, 0]);
  });
});

describe('a batch that waits', () => {
  it('is rejected without the items that have left it', () => {
    for (const delayMs of [0, 5]) {
      const rule = new Listening(({ jobs }) => ({ parts: [jobs], attempt: 2, delayMs }));
      const { machine, jobs, call } = calling(['a', 'b', 'c'], { repair: [rule] });
      fail(machine, call, 'bad');
      machine.remove(jobs[1]!);
      expect(machine.queued).toBe(2);
      rejectAll(machine, 'closed');
      expect([machine.queued, machine.fresh, machine.lead, machine.wakesAt]).toEqual([0, 0, -1, Infinity]);
      expect(results(machine)).toEqual([
        ['a', 'failed', 'closed'],
        ['c', 'failed', 'closed'],
      ]);
    }
  });
});

describe('a batch', () => {
  it('is nowhere to begin with', () => {
    const batch = new Batch<string, string>([], 0, 0, 'b');
    expect([batch.isReady, batch.readyAt, batch.isUnderWay, batch.live, batch.calls, batch.children]).toEqual([false, 0, false, 0, 1, 0]);
  });
});
