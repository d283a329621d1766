import { asyncScheduler } from 'rxjs';
import { DeadlineError, isFlowError } from '../../options/errors.js';
import type { FlowEvent } from '../../options/events.js';
import { Alarm } from '../../shell/alarm.js';
import type { Lease } from '../limiting/limiter-types.js';
import type { BatchWork } from './batch-calls.js';
import { BatchCalls } from './batch-calls.js';
import { BatchGate } from './batch-gate.js';
import { BatchIntake } from './batch-intake.js';
import type { EngineConfig } from './batch-options.js';
import { BatchOutbox } from './batch-outbox.js';
import { BatchQueue } from './batch-queue.js';
import { BatchRepair } from './batch-repair.js';
import { BatchTiming } from './batch-timing.js';
import { Boundaries } from './boundaries.js';
import { Effects } from './effects.js';
import type { Call, Search } from './job.js';
import { ACCEPTED, DONE, FLYING, Job, NEW, Root, totalWeight, WAITING } from './job.js';

export type { BatchWork } from './batch-calls.js';
export { Job } from './job.js';

/** Who owns an engine: told what to hand on, one thing at a time, never from inside another of its calls. */
export interface EngineHost<T, R> {
  settled(job: Job<T, R>): void;
  /** Nothing is waiting or under way, and `finish` was called. */
  finished(): void;
  /** A rule of yours threw: the engine cannot go on. */
  failed(error: unknown): void;
  /** An item is too much, under `overflow: 'error'` or `oversize: 'error'`; it has been rejected. */
  overflowed?(error: unknown): void;
  /** There may be room for more. */
  room?(): void;
  /** It takes no more than there was room for, so nothing of it is refused. */
  readonly pulls?: boolean;
}

/**
 * The one drain engine behind every gated operator: accepts items into lanes, forms a batch when a permit is granted (never
 * before), runs it, repairs what fails, and settles every accepted item exactly once.
 *
 * One loop does everything. Whatever happens while it runs (a sink that feeds the source, work that completes at once, a
 * lease granted inside a release) changes state and lets the loop come round again, so nothing recurses. Listeners are told, and calls
 * started and stopped, between its steps (`Effects`), so whoever is reached may do anything.
 */
export class BatchEngine<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #host: EngineHost<T, R>;
  readonly #tell: ((event: FlowEvent) => void) | undefined;
  readonly #alarm: Alarm;
  readonly #timing: BatchTiming<T, R>;
  readonly #queue: BatchQueue<T, R>;
  readonly #gate: BatchGate<T, R>;
  readonly #intake: BatchIntake<T, R>;
  readonly #calls: BatchCalls<T, R>;
  readonly #repair: BatchRepair<T, R>;
  readonly #outbox: BatchOutbox<T, R>;
  readonly #effects = new Effects();
  /** How many more items may come before anything has to be looked at. */
  #spare = 0;
  #batches = 0;
  /** Items that are being accepted: your callbacks are asked about them, and may do anything, but nothing is over before they are in. */
  #entering = 0;
  /** Calls that are over, and whose members are being seen to. */
  readonly #ending = new Set<Call<T, R>>();
  #busy = false;
  #again = false;
  #isFinished = false;
  #over = false;

  constructor(given: EngineConfig<T>, work: BatchWork<T, R>, host: EngineHost<T, R>) {
    const { onEvent } = given;
    const tell =
      onEvent &&
      ((event: FlowEvent) => {
        this.#effects.add(() => {
          onEvent(event);
        });
      });
    const config = { ...given, onEvent: tell };
    this.#config = config;
    this.#host = host;
    this.#tell = tell;
    this.#alarm = new Alarm(config.scheduler ?? asyncScheduler, () => {
      this.#run();
    });
    const boundaries = new Boundaries(config.table.lanes.length);
    this.#queue = new BatchQueue(config.table, config.maxSize, config.maxQueued);
    const now = (): number => this.#alarm.now();
    const laneName = (lane: number): string => this.#laneName(lane);
    this.#outbox = new BatchOutbox(config, { now, laneName });
    this.#gate = new BatchGate(config, this.#queue, {
      now,
      laneName,
      lead: () => this.#lead(),
      granted: (lease) => {
        this.#granted(lease);
      },
      refused: (error) => {
        if (isFlowError(error, 'FLOW_CLEARED')) this.#refuseWaiting(error);
        else this.rejectAll(error);
      },
      freed: () => {
        this.#run();
      },
    });
    this.#timing = new BatchTiming(config, this.#queue, this.#gate, boundaries, {
      framed: () => {
        this.#run();
      },
      failed: (error) => {
        host.failed(error);
      },
    });
    this.#intake = new BatchIntake(config, this.#queue, this.#outbox, boundaries, this.#gate, host.pulls !== true);
    this.#calls = new BatchCalls(config, work, this.#gate, this.#effects, {
      now,
      laneName,
      isOver: () => this.#over,
      succeeded: (call, answer) => {
        this.#conclude(call, () => {
          this.#repair.succeed(call, answer);
        });
      },
      failed: (call, error) => {
        this.#conclude(call, () => {
          this.#repair.fail(call, error);
        });
      },
      abandoned: ({ search }) => {
        this.#skip(search);
      },
    });
    this.#repair = new BatchRepair(config, this.#queue, {
      now,
      laneName,
      executing: () => this.#calls.size,
      retrying: () => this.#calls.retrying,
      pause: (pauseMs) => {
        // A pause of 0 would end one that somebody else has asked for.
        if (pauseMs === 0) return;
        this.#effects.add(() => {
          this.#gate.limiter.penalize(pauseMs);
        });
      },
      ended: (call, outcome, failure) => {
        this.#calls.end(call, outcome, failure);
      },
      fulfil: (job, value) => {
        this.#outbox.fulfil(job, value);
      },
      reject: (job, reason) => {
        this.#outbox.reject(job, reason);
      },
    });
  }

  /** Accepted and not on its way: fresh, between attempts, or waiting as part of a split. */
  get queued(): number {
    return this.#queue.queued;
  }

  /** Calls under way. */
  get executing(): number {
    return this.#calls.size;
  }

  /** Results that wait for those of earlier items. */
  get heldBack(): number {
    return this.#outbox.held;
  }

  /** Accepted and not handed out. */
  get unsettled(): number {
    return this.#queue.queued + this.#calls.items + this.#outbox.length + this.#outbox.held;
  }

  get room(): number {
    return this.#queue.room - this.#outbox.length - this.#outbox.held;
  }

  /** What keeps the waiting items from leaving now. */
  get heldBy(): 'slot' | 'rate' | 'window' {
    if (!this.#gate.isWaiting) return 'window';
    const { executing, concurrency } = this.#gate.limiter;
    return executing >= concurrency ? 'slot' : 'rate';
  }

  /** Changes the concurrency of a limiter of its own. */
  setConcurrency(concurrency: number): void {
    this.#gate.limiter.setLimits({ concurrency });
    this.#run();
  }

  /** @throws LaneUnknownError */
  checkLane(laneName: string | undefined): void {
    this.#config.table.at(laneName);
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** Accepts one item. It will be settled, through the host, exactly once. */
  offer(input: T): void {
    this.add(new Job(input));
  }

  /** The same for an item that its owner has made. */
  add(job: Job<T, R>): void {
    if (this.#spare > 0) {
      this.#spare--;
      this.#intake.join(job, this.#timing.burstAt ?? this.#alarm.now());
    } else {
      this.accept(job);
      this.submit(job);
      this.#spare = this.#spareRoom();
    }
  }

  /** The first half of `add`, in which your callbacks are asked about the item. */
  accept(job: Job<T, R>, laneName?: string, deadlineMs?: number): void {
    this.#spare = 0;
    this.#entering++;
    this.#intake.accept(job, laneName, deadlineMs, this.#timing.burstAt ?? this.#alarm.now());
  }

  /** The second half of `add`; queues nothing for a job that was given up in between. */
  submit(job: Job<T, R>): void {
    let changes = false;
    if (job.state === ACCEPTED && !this.#over) {
      this.#tell?.({ type: 'accepted', operator: this.#config.operator, lane: this.#laneName(job.lane), queued: this.#queue.queued });
      changes = !this.#intake.enter(job) || this.#changes(job);
    }
    this.#entering--;
    if (changes || this.#timing.isFinishing) this.#run();
    else if (!this.#busy && !this.#effects.isIdle) this.#step(nothing);
  }

  /** Moves an item that waits to a more urgent lane. */
  hurry(job: Job<T, R>, laneName: string): void {
    const from = job.lane;
    this.#intake.hurry(job, this.#config.table.at(laneName));
    if ((job.lane !== from || job.whole) && this.#changes(job)) this.#run();
  }

  /**
   * Gives an item up on behalf of its owner: it is not settled any more. A call is aborted when its last member has left. While the item is
   * being accepted it cannot leave: its owner has to look again afterwards.
   */
  leave(job: Job<T, R>): void {
    if (job.state === DONE || job.state === NEW) return;
    this.#outbox.leave(job);
    if (job.state === ACCEPTED) {
      job.state = DONE;
    } else {
      this.#remove(job);
      this.#tell?.({ type: 'cancelled', operator: this.#config.operator, lane: this.#laneName(job.lane), count: 1 });
    }
    this.#run();
    // A call that nobody waits for any more is stopped before this returns, even if results are being handed out.
    this.#effects.run();
  }

  /** Does several things as one: nothing is sent or handed out in between. */
  together(act: () => void): void {
    this.#step(act);
    this.#run();
  }

  /** Makes everything that waits now due, whatever its window. */
  flush(): void {
    this.#timing.flush(this.#intake.accepted);
    this.#run();
  }

  /** No more items will come: what waits leaves as soon as permits allow, then the host is told. */
  finish(): void {
    this.#timing.finish();
    this.#run();
  }

  /** Rejects everything that is not settled yet and aborts the calls under way. */
  rejectAll(error: unknown): void {
    this.#spare = 0;
    this.#intake.refuseAll(error);
    this.#step(() => {
      for (const call of this.#ending) this.#rejectAllOf(call, error);
      for (const call of this.#calls.all) {
        this.#rejectAllOf(call, error);
        this.#calls.abandon(call);
      }
      for (const job of this.#queue.removeAll()) this.#outbox.reject(job, error);
      this.#gate.withdraw();
    });
    this.#run();
    this.#effects.runNow();
  }

  #rejectAllOf(call: Call<T, R>, error: unknown): void {
    for (const job of call.jobs) if (job.state === FLYING) this.#outbox.reject(job, error);
  }

  /** Decides what becomes of the members of a call that has ended. Your callbacks are asked on the way, and may do anything. */
  #conclude(call: Call<T, R>, decide: () => void): void {
    this.#ending.add(call);
    this.#step(() => {
      this.#calls.close(call);
      decide();
      this.#ending.delete(call);
    });
    this.#run();
  }

  /** Does something whole before anything is made of it; then the outside hears of it. */
  #step(act: () => void): void {
    if (this.#busy) {
      act();
      return;
    }
    this.#busy = true;
    act();
    this.#effects.run();
    this.#busy = false;
    if (this.#again) this.#run();
  }

  /** Rejects what waits to be sent: the limiter lets nobody wait for a while. What is under way goes on, and may be sent again later. */
  #refuseWaiting(error: unknown): void {
    for (let lane = this.#queue.lead; lane !== -1; lane = this.#queue.lead) {
      const jobs = this.#queue.groupOf(lane)?.members ?? [this.#queue.head(lane) as Job<T, R>];
      for (const job of jobs) {
        this.#remove(job);
        this.#outbox.reject(job, error);
      }
    }
    this.#run();
  }

  /** Leaves at once: timers, queue and calls are gone, nothing is reported any more. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    this.#spare = 0;
    this.#timing.landFrame();
    this.#alarm.clear();
    for (const { jobs } of this.#ending) for (const job of jobs) job.state = DONE;
    for (const call of this.#calls.all) this.#calls.abandon(call);
    this.#outbox.clear();
    const count = this.#queue.removeAll().length;
    if (count > 0) this.#tell?.({ type: 'cancelled', operator: this.#config.operator, lane: this.#laneName(0), count });
    this.#gate.withdraw();
    this.#effects.runNow();
    this.#calls.releaseAll();
    this.#gate.close();
  }

  /**
   * How many items may come before anything has to be done about one of them: while a frame is open, and they are all alike, none fills a
   * batch or the queue, and nobody hears of them.
   */
  #spareRoom(): number {
    const isQuiet = this.#timing.isFrameOpen && !this.#busy && !this.#gate.isWaiting && this.#tell === undefined;
    return isQuiet && this.#intake.isOpen && this.#intake.isUniform ? this.#queue.spare(this.#gate.aim) : 0;
  }

  /** Whether the loop has something to do because this item has come. */
  #changes({ lane, deadlineAt, acceptedAt }: Job<T, R>): boolean {
    // With a place in the limiter's queue, or a frame to wait for, one more item behind others changes nothing yet.
    const waits = this.#gate.isWaiting ? lane >= this.#gate.lane : this.#timing.waitsForFrame(acceptedAt);
    return this.#busy || !waits || deadlineAt !== Infinity || this.#config.closeWhen !== undefined || !this.#outbox.isIdle;
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  #run(): void {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    this.#spare = 0;
    this.#busy = true;
    while (!this.#over && this.#comeRound());
    this.#busy = false;
    // Work that ended while everything was left.
    if (!this.#over) return;
    this.#effects.run();
    this.#calls.releaseAll();
  }

  /** Does what there is to do; true when that has made more. */
  #comeRound(): boolean {
    // Whatever has happened until now is seen to in this round.
    this.#again = false;
    this.#effects.run();
    this.#deliver();
    if (this.#isOver()) return false;
    const now = this.#alarm.now();
    this.#expire(now);
    this.#effects.run();
    this.#queue.wake(now);
    this.#dispatch(now);
    if (!this.#isOver()) this.#host.room?.();
    if (this.#hasMore() || this.#isOver()) return true;
    // Your window is asked, and may do anything.
    this.#arm(now);
    if (this.#hasMore() || this.#isOver()) return true;
    this.#endIfDone();
    return this.#hasMore();
  }

  #hasMore(): boolean {
    return this.#again || !this.#effects.isIdle || !this.#outbox.isIdle || this.#calls.spent > 0;
  }

  #endIfDone(): void {
    if (!this.#timing.isFinishing || this.#isFinished || this.#queue.queued + this.#calls.size + this.#entering > 0) return;
    this.#isFinished = true;
    this.#tell?.({ type: 'drained', operator: this.#config.operator });
    this.#effects.run();
    if (!this.#over) this.#host.finished();
  }

  /** Hands out results first, then frees the slots they held: a result is never overtaken by the next call's. */
  #deliver(): void {
    this.#clearOrphans();
    for (let job = this.#outbox.shift(); job; job = this.#outbox.shift()) {
      this.#host.settled(job);
      if (this.#isOver()) return;
    }
    const overflow = this.#intake.takeOverflow();
    if (overflow) this.#host.overflowed?.(overflow.error);
    // What a consumer sent in may have cost others their place, and a slot that comes free goes to what waits.
    this.#clearOrphans();
    this.#calls.release();
  }

  /** Parts whose item has been rejected are sent no more. */
  #clearOrphans(): void {
    for (let part = this.#outbox.orphan(); part; part = this.#outbox.orphan()) this.#remove(part);
  }

  #expire(now: number): void {
    const { operator } = this.#config;
    for (let job = this.#queue.takeExpired(now); job; job = this.#queue.takeExpired(now)) {
      this.#remove(job);
      this.#tell?.({ type: 'expired', operator, lane: this.#laneName(job.lane), deadlineMs: job.deadlineMs });
      this.#outbox.reject(job, new DeadlineError(operator, job.deadlineMs, now - job.acceptedAt));
    }
    this.#calls.expire(now);
  }

  #dispatch(now: number): void {
    const stood = this.#gate.isWaiting;
    while (!this.#over && !this.#gate.isWaiting && this.#outbox.isIdle && this.#isDue(now)) {
      this.#gate.enlist();
      this.#effects.run();
    }
    // Results first: the loop comes round again.
    if (this.#isOver() || !this.#gate.isWaiting || !this.#outbox.isIdle) return;
    const lead = this.#lead();
    if (lead === this.#gate.lane) {
      if (stood) this.#gate.poke();
      return;
    }
    // Something more urgent has come, or what was urgent has left: stand in the right lane instead.
    this.#gate.withdraw();
    this.#again = lead !== -1;
  }

  /** The lane whose turn it is, or -1. With no room for more results, only repairs and the item that all wait for may go. */
  #lead(): number {
    if (!this.#outbox.isFull) return this.#queue.lead;
    const { lanes } = this.#config.table;
    if (this.#queue.hasReadyGroups) return lanes.findIndex((_, lane) => this.#queue.groupOf(lane) !== undefined);
    return this.#outbox.head?.freshLane ?? -1;
  }

  #isDue(now: number): boolean {
    if (this.#lead() === -1) return false;
    // A window that fails on the way leaves nothing to send.
    return this.#queue.hasReadyGroups || this.#outbox.isFull || (this.#timing.isDue(now) && this.#queue.lead !== -1);
  }

  /** One timer for everything that will be due. */
  #arm(now: number): void {
    const isHeld = !this.#gate.isWaiting && this.#queue.fresh > 0;
    let at = Math.min(this.#queue.nextWakeAt(), this.#calls.nextTimeoutAt(), Math.max(this.#gate.wakeAt, now + 1));
    if (isHeld && !this.#outbox.isFull) at = Math.min(at, this.#timing.dueAt(now));
    if (this.#isOver()) return;
    this.#gate.watch(isHeld);
    this.#alarm.set(at);
  }

  /** Narrowing does not see that a host's callback may have closed the engine. */
  #isOver(): boolean {
    return this.#over;
  }

  // ---- sending ------------------------------------------------------------------------------------------------------

  #granted(lease: Lease): void {
    this.#clearOrphans();
    const lead = this.#over ? -1 : this.#lead();
    const group = lead === -1 ? undefined : this.#queue.groupOf(lead);
    if (lead === -1) {
      lease.release('unused');
    } else if (group) {
      const jobs = this.#queue.takeGroup(lead, group);
      const { root, attempt, depth, reason, search } = group;
      this.#calls.launch({ jobs, lane: lead, root, attempt, depth, weight: totalWeight(jobs), reason, search }, lease);
    } else {
      const reason = this.#timing.reason(lead);
      const { jobs, weight } = this.#queue.plan(lead, this.#gate.budget);
      this.#queue.take();
      const root = new Root(`b${String(this.#batches++)}`, jobs);
      this.#calls.launch({ jobs, lane: lead, root, attempt: 1, depth: 0, weight, reason }, lease);
    }
    this.#run();
  }

  /** Takes a job that is not done out of wherever it is. */
  #remove(job: Job<T, R>): void {
    const { call, group, state } = job;
    if (state === DONE) return;
    if (job.whole && !job.isPart) {
      for (const part of job.whole.parts) this.#remove(part);
      job.state = DONE;
    } else if (state === WAITING) {
      this.#queue.remove(job);
      if (group?.live === 0) this.#skip(group.search);
    } else {
      job.state = DONE;
      if (call && --call.live === 0) this.#calls.abandon(call);
    }
  }

  /** Everybody has left the part of a search that was its turn. */
  #skip(search: Search<T, R> | undefined): void {
    if (search && !this.#over && this.#intake.isOpen) this.#repair.carryOn(search);
  }

  #laneName(lane: number): string {
    return this.#config.table.lanes[lane]?.name ?? '';
  }
}

function nothing(): void {
  // only what waits for the end of a step
}
