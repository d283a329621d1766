/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-argument -- a bug takes the place of whatever is there */
import type { Planted } from '../world/bundle.js';
import type { Subject } from '../world/subjects.js';

interface Bug extends Planted {
  readonly name: string;
  /** Whose schedules find it, when it is not in what most bugs are in. */
  readonly only?: readonly Subject[];
  /** The schedule of all subjects that has found it, where few do. Once plans are drawn in another way another one has to be looked for. */
  readonly seed?: number;
}

type Right = (this: any, ...given: any[]) => any;
type Wrong = (right: Right) => Right;

const bug = (name: string, file: string, of: string, wrong: Wrong, only?: readonly Subject[]): Bug => ({
  name,
  file,
  of,
  bug: wrong,
  ...(only && { only }),
});

/** One that was real, as it stood in the text, and the subjects or the seed that find it. */
const was = (name: string, file: string, of: string, right: string, wrong: string, foundBy: readonly Subject[] | number): Bug => ({
  ...bug(name, file, of, (same) => same),
  was: [right, wrong],
  ...(typeof foundBy === 'number' ? { seed: foundBy } : { only: foundBy }),
});

const MACHINE = 'kernel/machine/batch-machine.ts';
const REPAIRER = 'kernel/repair/repairer.ts';
const SHELL = 'shell/batch/batch-shell.ts';
const CALL = 'shell/calls/call.ts';
const GATE = 'kernel/limiter/gate.ts';
const GRANT_LOOP = 'shell/limiter/grant-loop.ts';
const ITEMS = 'kernel/machine/item-machine.ts';
const LIMITED: readonly Subject[] = ['createLimiter', 'rateLimit', 'batchMap', 'policy'];
const BY_ITEM: readonly Subject[] = ['bulkheadMap'];
const nothing: Wrong = () => () => undefined;

/** Bugs that the schedules must find. One whose function is not there any more has to be planted anew. */
export const BUGS: readonly Bug[] = [
  bug(
    'an item settled twice',
    MACHINE,
    'BatchMachine.settle',
    (settle) =>
      function (job, ...given) {
        settle.call(this, job, ...given);
        if (!job.more?.place && !job.more?.whole) this.results.push(job);
      },
  ),
  bug('results shifted by one', 'kernel/machine/job.ts', 'matchAnswer', (match) => (...given) => {
    const right = match(...given);
    return [...right.slice(1), ...right.slice(0, 1)];
  }),
  bug('a forgotten abort', 'shell/calls/abort.ts', 'LazySignal.abort', nothing),
  bug("a listener left on a user's signal", 'shell/calls/abort.ts', 'onAbort', (listen) => (signal, listener) => {
    listen(signal, listener);
    return () => undefined;
  }),
  bug('a timer left after unsubscribing', 'shell/time/alarm.ts', 'Alarm.clear', nothing),
  bug('a retry of a fatal error', 'kernel/repair/verdict.ts', 'mayPass', () => (verdict) => verdict.class !== 'itemFault'),
  bug(
    'an item dropped on re-entrancy',
    SHELL,
    'BatchShell.submit',
    (submit) =>
      function (job) {
        if (this.isBusy) this.machine.entering--;
        else submit.call(this, job);
      },
  ),
  bug(
    'a batch lost after its backoff',
    REPAIRER,
    'Repairer.wake',
    (wake) =>
      function () {
        if (this.machine.now >= this.nextAt) this.pausing.clear();
        wake.call(this);
      },
  ),
  bug(
    'an item lost when its batch is cut up',
    REPAIRER,
    'Repairer.regroup',
    (regroup) =>
      function (batch, jobs, ...given) {
        const again = regroup.call(this, batch, jobs, ...given);
        if (jobs.length > 1) again.jobs = jobs.slice(1);
        return again;
      },
  ),
  bug('an order of results that is not kept', 'kernel/machine/accept.ts', 'takePlace', nothing),
  bug(
    'parts that go on after their item was rejected',
    'shell/batch/cut-item.ts',
    'CutItem.settled',
    (settled) =>
      function (machine, part, failed, ...given) {
        if (failed && !this.job.isDone) machine.settle(this.job, failed, ...given);
        else settled.call(this, machine, part, failed, ...given);
      },
  ),
  bug(
    'a call without callers goes on',
    MACHINE,
    'BatchMachine.abandon',
    () =>
      function (batch) {
        batch.isUnderWay = false;
        this.underWay.remove(batch);
        this.repairer?.inconclusive(batch);
      },
  ),
  bug('a deadline ignored', 'shell/calls/describe-item.ts', 'describe', (describe) => (job, ...given) => {
    describe(job, ...given);
    if (job.more) job.more.deadlineAt = Infinity;
  }),
  bug(
    'completion before the last result',
    MACHINE,
    'BatchMachine.drained',
    () =>
      function () {
        if (this.queued > 0) return false;
        this.phase = 2;
        return true;
      },
  ),
  bug(
    'a permit lost after a failure',
    'shell/batch/batch-call.ts',
    'BatchCall.releasePermit',
    (giveUp) =>
      function () {
        if (!this.fault) giveUp.call(this);
      },
  ),
  bug(
    'a permit given back twice',
    CALL,
    'PermittedCall.returnPermit',
    (free) =>
      function (...given) {
        free.call(this, ...given);
        free.call(this, ...given);
      },
  ),
  bug('a stream that is listened to after it was left', CALL, 'Call.leave', nothing),
  bug(
    'one slot too many',
    'shell/batch/slots.ts',
    'Slots.take',
    (take) =>
      function () {
        this.concurrency++;
        const permit = take.call(this);
        this.concurrency--;
        return permit;
      },
  ),
  bug(
    'savings kept when the rate falls',
    'kernel/limits/token-bucket.ts',
    'TokenBucket.resize',
    (resize) =>
      function (perMinute, capacity, now) {
        resize.call(this, perMinute, Math.max(capacity, this.capacity), now);
      },
  ),
  bug('results held back for an item that has left', 'kernel/queues/reorder-buffer.ts', 'ReorderBuffer.leave', nothing),
  bug('what a search has put aside forgotten', REPAIRER, 'Repairer.inconclusive', nothing),
  bug('the neighbour of a blamed item rejected', 'kernel/repair/blame.ts', 'blamed', (blamed) => (names, call) => {
    const right = blamed(names, call);
    return right && new Set([...right].map((job: object) => call[(call.indexOf(job) + 1) % call.length]));
  }),
  bug(
    'one permit too many',
    GATE,
    'Gate.hasSlots',
    (hasSlots) =>
      function (charge) {
        return hasSlots.call(this, charge) || this.executing === this.slots;
      },
    LIMITED,
  ),
  bug('a refund forgotten', 'kernel/limiter/rates.ts', 'Rates.refund', nothing, LIMITED),
  bug('a pause ignored', GRANT_LOOP, 'GrantLoop.penalize', nothing, LIMITED),
  bug('a call that waits and has left is granted', GRANT_LOOP, 'GrantLoop.leave', nothing, LIMITED),
  bug('a lane of a key that is never left', ITEMS, 'ItemMachine.end', nothing, BY_ITEM),
  bug(
    'more calls of a key than it may have',
    ITEMS,
    'ItemMachine.open',
    (open) =>
      function (key) {
        return open.call(this, key, Infinity);
      },
    BY_ITEM,
  ),
  bug(
    'a refund to the limiter above after the next grant',
    'shell/limiter/ticket.ts',
    'Lease.release',
    () =>
      function (outcome = 'ok', error) {
        if (this.isReleased) return;
        this.state = 'over';
        if (this.holder) this.holder = undefined;
        const [how, why] = this.failure === undefined ? [outcome, error] : ['error', this.failure];
        if (how === 'unused') this.limiter.gate.rates?.refund(this, this.limiter.now());
        const { parent } = this;
        delete this.parent;
        try {
          this.end(how, why);
        } finally {
          parent?.release(how, why);
        }
      },
    ['createLimiter'],
  ),
  bug(
    'a withdrawn place that is told of its refusal',
    'shell/limiter/ticket.ts',
    'BidderTicket.refused',
    () =>
      function (error) {
        this.bidder.refused(error);
      },
    ['createLimiter'],
  ),
  bug(
    'a keyed limiter that throws when it is full',
    'keyed-limiter.ts',
    'keyedLimiter',
    (make) =>
      (...given) => {
        const keyed = make(...given);
        const right = keyed.tryAcquire.bind(keyed);
        keyed.tryAcquire = (job: unknown) => {
          const lease = right(job);
          if (lease === undefined && keyed.keys >= given[given.length - 1].maxKeys) throw new Error('full');
          return lease;
        };
        return keyed;
      },
    ['createLimiter'],
  ),
  bug(
    'options of a limiter that are kept as they are',
    'shell/limiter/settings.ts',
    'limiterSettings',
    (read) => (options) => {
      const settings = read(options);
      return new Proxy(settings, { get: (own, name) => (options[name] === undefined ? own[name] : options[name]) });
    },
    ['createLimiter'],
  ),
  bug(
    'company for an item that is too heavy for a call',
    'kernel/machine/turn.ts',
    'bid',
    (right) => (machine, lead, affordable) => {
      const tokens = right(machine, lead, affordable);
      machine.budget = Math.max(machine.budget, tokens ?? 0);
      return tokens;
    },
    ['batchMap'],
  ),
  bug(
    'a key that is asked for before its item is accepted',
    'shell/calls/describe-item.ts',
    'describe',
    (describe) =>
      (job, shell, ...given) => {
        const { order } = shell.config;
        try {
          order?.keyOf?.(job.input);
        } catch {
          // Asked again.
        }
        describe(job, shell, ...given);
      },
    ['batchMap'],
  ),
  bug(
    'signals that abort when all listeners have been told',
    SHELL,
    'BatchShell.close',
    () =>
      function () {
        if (this.isOver) return;
        this.isOver = true;
        this.endFrame();
        this.alarm.clear();
        const { machine } = this;
        machine.tick(this.alarm.now());
        machine.phase = 2;
        machine.inputs.clear();
        machine.refusal = { error: undefined };
        for (const batch of machine.calls) machine.abandon(batch);
        machine.results.clear();
        this.withdraw();
        this.runEffects();
        while (this.afterResults.length > 0) this.afterResults.shift().run();
        this.watch(false);
        this.slots?.close();
      },
    ['batchMap'],
  ),
  was(
    'a refund to a rate that was added after it was paid',
    'kernel/limiter/rates.ts',
    'Rates.refund',
    'correction > rate.since ? paid(rate, lease, used) : 0',
    'paid(rate, lease, used)',
    ['createLimiter'],
  ),
  was(
    'time that is lost when the clock is set back and read',
    'shell/time/alarm.ts',
    'Alarm.now',
    'if (lost < this.#lost || read < this.#time || firesAt - read > COARSE_MS)',
    'if (read < this.#time)',
    ['createLimiter'],
  ),
  was(
    'a bidder that throws at whatever grants it',
    'shell/limiter/ticket.ts',
    'BidderTicket.begin',
    'try {\n      this.bidder.granted(this);\n    } catch (error) {\n      report(error);\n    }',
    'this.bidder.granted(this);',
    344_535,
  ),
  was(
    'a bidder that throws at whatever refuses it',
    'shell/limiter/ticket.ts',
    'BidderTicket.refused',
    'try {\n      this.bidder.refused(error);\n    } catch (fault) {\n      report(fault);\n    }',
    'this.bidder.refused(error);',
    63_688,
  ),
  was(
    'a place in the order that is kept for a load that its own key made leave',
    'shell/calls/describe-item.ts',
    'describe',
    'if (job.isDone) buffer.leave(taken);',
    '',
    212_412,
  ),
  was('a time that is ahead of the clock before that is first read', GATE, 'Gate.hasSlots', 'time = -Infinity;', 'time = 0;', 146_956),
];
