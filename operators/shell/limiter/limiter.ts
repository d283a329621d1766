import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import { ClosedError, FlowConfigError, LaneUnknownError } from '../../options/errors.js';
import type {
  LeasedWork,
  Limiter,
  LimiterJob,
  LimiterLimits,
  LimiterSnapshot,
  ObserveOptions,
  Release,
  SavedLimits,
} from '../../options/limiter.js';
import { count, durationMs, known, required } from '../../options/options.js';
import type { Bidder, Place } from '../../options/permits.js';
import type { ResponseLike, WorkResult } from '../../options/types.js';
import { passLastValue } from '../last-value.js';
import type { Shutdown } from '../shutdown.js';
import { ShutdownHandle } from '../shutdown.js';
import { AbortCalls } from '../signal-groups.js';
import type { Lease } from './lease.js';
import { clear, snapshotOf } from './overview.js';
import type { Pump } from './pump.js';
import { amountOption, chargeOf, checkJob, checkLimits, NAME } from './settings.js';
import type { Holder, Ticket } from './ticket.js';
import { BidderTicket, PromiseTicket, SubscriberTicket } from './ticket.js';
import { RunningWork, StreamedCall, WorkTicket, WrappedTicket } from './work.js';

const NO_JOB: LimiterJob = {};

/** What a limiter is asked, in terms of its pump. */
export class FlowLimiter extends ShutdownHandle implements Limiter {
  /** For limiters below. */
  readonly pump: Pump;
  private readonly running = new RunningWork();
  /** What ends jobs, by their signals. */
  private readonly signals = new AbortCalls();

  constructor(pump: Pump) {
    super();
    this.pump = pump;
    pump.onGiveUp = (error) => {
      this.running.giveUp(error);
    };
  }

  protected override get shutdown(): Shutdown {
    return this.pump.shutdown;
  }

  get concurrency(): number {
    return this.pump.least(({ concurrency }) => concurrency);
  }

  get executing(): number {
    return this.pump.executing;
  }

  get load(): number {
    return this.pump.load;
  }

  get tokenCapacity(): number {
    return this.pump.least(({ rates }) => rates?.capacity('tokens') ?? Infinity);
  }

  get requestCapacity(): number {
    return this.pump.least(({ rates }) => rates?.capacity('requests') ?? Infinity);
  }

  get borrows(): boolean {
    return this.pump.least(({ rates }) => (rates?.borrows === false ? 0 : 1)) === 1;
  }

  get lanes(): readonly string[] | undefined {
    const { lanes, isDeclared } = this.pump.settings.queue;
    return isDeclared ? lanes.map(({ name }) => name) : undefined;
  }

  take(): Lease | undefined {
    return this.tryAcquire();
  }

  tryAcquire(job: LimiterJob = NO_JOB): Lease | undefined {
    const lane = this.laneOf(job);
    const charge = this.chargeOf(job);
    if (job.signal?.aborted) return undefined;
    const lease = this.pump.tryGrant(charge, lane);
    if (lease) (job.holder as Holder | undefined)?.granted(lease);
    return lease;
  }

  acquire(job: LimiterJob = NO_JOB): Observable<Lease> {
    const lane = this.laneOf(job);
    const charge = this.chargeOf(job);
    return new Observable<Lease>((subscriber) => {
      this.seat(subscriber, new SubscriberTicket(lane, charge, this.pump, subscriber), job, false);
    });
  }

  acquireAsync(job: LimiterJob = NO_JOB): Promise<Lease> {
    // The usual case needs no ticket.
    const lease = job === NO_JOB ? this.pump.grantNow(this.chargeOf(job), this.laneOf(job)) : undefined;
    if (lease) return Promise.resolve(lease);
    return new Promise((resolve, reject) => {
      this.promise(job, this.chargeOf(job), resolve, reject);
    });
  }

  pass(job: LimiterJob = NO_JOB): Promise<void> {
    return new Promise((resolve, reject) => {
      const granted = (lease: Lease): void => {
        lease.release();
        resolve();
      };
      this.promise(job, { ...this.chargeOf(job), slots: 0 }, granted, reject);
    });
  }

  run<R>(work: LeasedWork<R>, job: LimiterJob = NO_JOB): Observable<R> {
    return this.stream(work, job, false);
  }

  runAsync<R>(work: LeasedWork<R>, job: LimiterJob = NO_JOB): Promise<R> {
    return new Promise((resolve, reject) => {
      required(NAME, 'work', work);
      const { signal } = job;
      if (signal === undefined) {
        const ticket = new WorkTicket(this.laneOf(job), this.chargeOf(job), this.running, work, resolve, reject);
        this.place(ticket, job, true);
        if (ticket.isWaiting) ticket.context = captureContext();
        return;
      }
      const giveUp: (reason: unknown) => void = reject;
      const subscription = passLastValue(this.stream(work, job, true), resolve, reject);
      this.signals.stop(signal, subscription, () => {
        subscription.unsubscribe();
        giveUp(signal.reason);
      });
    });
  }

  wrap<A extends unknown[], R>(work: (...args: A) => WorkResult<R>, job: LimiterJob = NO_JOB): (...args: A) => Promise<R> {
    required(NAME, 'work', work);
    const lane = this.laneOf(job);
    const charge = this.chargeOf(job);
    const { pump, running } = this;
    const { deadlineMs = Infinity } = job;
    const key = this.keyOf(job);
    return function wrapped(this: unknown, ...given: A): Promise<R> {
      return new Promise((resolve, reject) => {
        const ticket = new WrappedTicket(lane, charge, running, work, resolve, reject, this, given);
        if (key !== undefined) ticket.key = key;
        pump.admit(ticket, deadlineMs, true);
        if (ticket.isWaiting) ticket.context = captureContext();
      });
    };
  }

  enlist(bidder: Bidder, lane?: string): Place {
    const { granted, refused, requests } = Object(bidder) as Partial<Bidder>;
    required(NAME, 'bidder.granted', granted);
    required(NAME, 'bidder.refused', refused);
    if (requests !== undefined) amountOption(NAME, 'bidder.requests', requests);
    const { pump } = this;
    const ticket = new BidderTicket(this.at(lane), bidder);
    if (pump.isClosed) ticket.refused(new ClosedError(NAME));
    else pump.admitPlace(ticket);
    return {
      poke: () => {
        if (ticket.isWaiting) pump.pump();
      },
      withdraw: () => {
        pump.leave(ticket);
      },
    };
  }

  move(id: string | number, lane: string): boolean {
    const at = this.at(lane);
    const ticket = this.pump.room.find(id);
    if (ticket) this.pump.move(ticket, at);
    return ticket !== undefined;
  }

  remove(id: string | number, reason?: unknown): boolean {
    const ticket = this.pump.room.find(id);
    if (ticket) this.pump.dismiss(ticket, cleared(reason));
    return ticket !== undefined;
  }

  watch(listener: () => void): () => void {
    return this.pump.watch(required(NAME, 'listener', listener));
  }

  onRelease(listener: (release: Release) => void): () => void {
    return this.pump.audience.onRelease(required(NAME, 'listener', listener));
  }

  observe(response: ResponseLike, options: ObserveOptions = {}): void {
    known(NAME, options, ['sentAt']);
    const { sentAt } = options;
    if (sentAt !== undefined && !Number.isFinite(sentAt)) throw new FlowConfigError(NAME, 'sentAt', 'a finite number', sentAt);
    this.pump.observe(response, undefined, sentAt);
  }

  penalize(pauseMs: number): void {
    this.pump.penalize(durationMs(NAME, 'pauseMs', pauseMs));
  }

  pause(): void {
    this.pump.hold(true);
  }

  resume(): void {
    this.pump.hold(false);
  }

  clear(reason?: unknown): void {
    clear(this.pump, cleared(reason));
  }

  whenIdle(): Promise<void> {
    return this.pump.audience.until(() => !this.pump.isBusy);
  }

  whenQueued(options: { readonly below: number }): Promise<void> {
    known(NAME, options, ['below']);
    const below = count(NAME, 'below', options.below);
    return this.pump.audience.until(() => this.pump.queued < below);
  }

  setLimits(limits: LimiterLimits): void {
    this.pump.setLimits(checkLimits(limits));
  }

  snapshot(): LimiterSnapshot {
    return snapshotOf(this.pump);
  }

  save(): SavedLimits {
    const { pump } = this;
    return { at: pump.settings.scheduler.now(), pausedForMs: pump.saysToWaitMs, rates: pump.rates?.save() ?? [] };
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** @throws FlowConfigError or LaneUnknownError for a job that nobody could do */
  check(job: LimiterJob): void {
    this.laneOf(job);
    this.chargeOf(job);
  }

  private stream<R>(work: LeasedWork<R>, job: LimiterJob, waitsForRoom: boolean): Observable<R> {
    required(NAME, 'work', work);
    const { running } = this;
    return new Observable<R>((subscriber) => {
      const start = (lease: Lease, context: AsyncContext | undefined): void => {
        new StreamedCall(lease, running, work, subscriber).begin(context);
      };
      this.seat(subscriber, new SubscriberTicket(this.laneOf(job), this.chargeOf(job), this.pump, subscriber, start), job, waitsForRoom);
    });
  }

  /** Lets a ticket wait for a subscriber. Whoever leaves leaves the queue. */
  private seat<R>(subscriber: Subscriber<R>, ticket: SubscriberTicket<R>, job: LimiterJob, waitsForRoom: boolean): void {
    const { signal } = job;
    if (signal?.aborted) subscriber.error(signal.reason);
    if (subscriber.closed) return;
    if (signal) {
      this.signals.stop(signal, subscriber, () => {
        if (!ticket.isWaiting) return;
        this.pump.leave(ticket);
        subscriber.error(signal.reason);
      });
    }
    // Others may be told something while this one is let in, and make its consumer leave.
    subscriber.add(ticket);
    this.place(ticket, job, waitsForRoom);
    // What is done with the lease belongs to whoever asked, not to whoever gives the permit back.
    if (ticket.isWaiting) ticket.context = captureContext();
  }

  /** Lets somebody with a promise wait. */
  private promise(job: LimiterJob, charge: Charge, granted: (lease: Lease) => void, refused: (error: unknown) => void): void {
    const lane = this.laneOf(job);
    if (job.signal === undefined) {
      this.place(new PromiseTicket(lane, charge, granted, refused), job, true);
      return;
    }
    new Observable<Lease>((subscriber) => {
      this.seat(subscriber, new SubscriberTicket(lane, charge, this.pump, subscriber), job, true);
    }).subscribe({
      next: granted,
      error: refused,
    });
  }

  private place(ticket: Ticket, job: LimiterJob, waitsForRoom: boolean): void {
    const { id, holder, deadlineMs = Infinity } = job;
    if (holder) ticket.holder = holder as Holder;
    if (id !== undefined) {
      if (this.pump.room.find(id)) throw new FlowConfigError(NAME, 'id', 'one that nobody waits under', undefined, 'one in use');
      ticket.id = id;
    }
    const key = this.keyOf(job);
    if (key !== undefined) ticket.key = key;
    this.pump.admit(ticket, deadlineMs, waitsForRoom);
  }

  private keyOf(job: LimiterJob): unknown {
    return this.pump.settings.queue.keyOf?.(job);
  }

  /** @throws FlowConfigError or LaneUnknownError */
  private laneOf(job: LimiterJob): number {
    if (job !== NO_JOB) checkJob(job);
    return this.at(job.lane === undefined ? this.pump.settings.queue.laneOf?.(job) : job.lane);
  }

  private at(name: string | undefined): number {
    const { queue } = this.pump.settings;
    const at = queue.at(name);
    if (at === -1)
      throw new LaneUnknownError(
        NAME,
        name as string,
        queue.lanes.map((lane) => lane.name),
      );
    return at;
  }

  /** Whether a job may name the unit in its cost. */
  counts(unit: string): boolean {
    return this.pump.least(({ rates }) => (rates?.counts(unit) ? 0 : 1)) === 0;
  }

  private chargeOf(job: LimiterJob): Charge {
    return chargeOf(NAME, job.cost, (unit) => this.counts(unit));
  }
}

function cleared(reason: unknown): ClosedError {
  return new ClosedError(NAME, reason, 'taken out of the queue by `clear`; it was not started', 'FLOW_CLEARED');
}
