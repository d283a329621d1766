import { Observable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { ClearedError } from '../../options/errors.js';
import { count, durationMs, known, required } from '../../options/options.js';
import type { ResponseLike, WorkResult } from '../../options/types.js';
import type { Shutdown } from '../../shell/shutdown.js';
import { ShutdownHandle } from '../../shell/shutdown.js';
import { AbortCalls } from '../../shell/signal-groups.js';
import { amount } from './cost.js';
import { FlowKeyedLimiter } from './keyed-limiter.js';
import type { LimiterLease } from './limiter-lease.js';
import type { JobWish, LimiterConfig, Wish } from './limiter-options.js';
import { checkJob, checkObserved, childConfig, jobWish, limiterConfig, NAME } from './limiter-options.js';
import { LimiterPump } from './limiter-pump.js';
import type { Admission } from './limiter-tickets.js';
import { BidderTicket, PromiseTicket, WorkTicket } from './limiter-tickets.js';
import type {
  Bidder,
  ChildLimiterOptions,
  KeyedLimiter,
  KeyedLimiterOptions,
  Lease,
  LeaseContext,
  Limiter,
  LimiterJob,
  LimiterLimits,
  LimiterOptions,
  LimiterSnapshot,
  ObserveOptions,
  Place,
  Release,
} from './limiter-types.js';
import { passLastValue, runLeased } from './limiter-work.js';

const NO_JOB: LimiterJob = {};

/** Checked with the job. */
function holderOf({ holder }: LimiterJob): LimiterLease | undefined {
  return holder as LimiterLease | undefined;
}

/** That of a bidder whose requests are not always one. */
function changingWish(lane: number, bidder: Bidder): Wish {
  return {
    lane,
    get requests() {
      return bidder.requests ?? 1;
    },
    tokens: undefined,
  };
}

/** What a limiter is asked, in terms of its pump. */
export class FlowLimiter extends ShutdownHandle implements Limiter {
  readonly #config: LimiterConfig;
  readonly #pump: LimiterPump;
  /** What most jobs and bidders of a lane want; shared by all of them. */
  readonly #plainWishes: readonly JobWish[];
  readonly #bidderWishes: readonly Wish[];
  /** Longest wait; undefined for ever. */
  readonly #maxWaitMs: number | undefined;
  /** What ends jobs, by their signals. */
  readonly #signals = new AbortCalls();

  constructor(options: LimiterOptions, parent?: FlowLimiter) {
    super();
    const config = parent ? childConfig(options, parent.#config) : limiterConfig(options);
    this.#config = config;
    this.#pump = new LimiterPump(config, parent && parent.#pump);
    this.#plainWishes = config.lanes.lanes.map((_, lane) => jobWish(lane));
    this.#bidderWishes = config.lanes.lanes.map((_, lane) => ({ lane, requests: 1, tokens: undefined }));
    this.#maxWaitMs = config.maxWaitMs === Infinity ? undefined : config.maxWaitMs;
  }

  protected override get shutdown(): Shutdown {
    return this.#pump.shutdown;
  }

  get concurrency(): number {
    return this.#pump.capacity.concurrency;
  }

  get executing(): number {
    return this.#pump.capacity.executing;
  }

  get load(): number {
    return this.#pump.capacity.load;
  }

  get tokenCapacity(): number {
    return this.#pump.capacity.tokenCapacity;
  }

  get requestCapacity(): number {
    return this.#pump.capacity.requestCapacity;
  }

  get borrows(): boolean {
    return this.#pump.capacity.borrows;
  }

  get lanes(): readonly string[] | undefined {
    return this.#config.lanes.isDeclared ? this.#config.lanes.names : undefined;
  }

  tryAcquire(job: LimiterJob = NO_JOB): Lease | undefined {
    const wish = this.#wish(job);
    if (job.signal?.aborted) return undefined;
    const lease = this.#pump.tryGrant(wish);
    const holder = holderOf(job);
    if (lease && holder) lease.askedBy(holder);
    return lease;
  }

  acquire(job: LimiterJob = NO_JOB): Observable<Lease> {
    return this.#acquire(job, false);
  }

  #acquire(job: LimiterJob, waitsForRoom: boolean): Observable<Lease> {
    const wish = this.#wish(job);
    const admission = this.#admission(job, waitsForRoom);
    return new Observable<Lease>((subscriber) => {
      if (job.signal?.aborted) {
        subscriber.error(job.signal.reason);
        return undefined;
      }
      let context: AsyncContext | undefined;
      const deliver = (lease: Lease): void => {
        subscriber.next(lease);
        subscriber.complete();
      };
      const ticket = new BidderTicket(wish, {
        granted: (lease) => {
          if (subscriber.closed) lease.release('unused');
          else if (context) context.run(deliver, lease);
          else deliver(lease);
        },
        refused: (error) => {
          subscriber.error(error);
        },
      });
      subscriber.add(() => {
        this.#pump.leave(ticket);
      });
      const { signal } = job;
      if (signal) {
        this.#signals.stop(signal, subscriber, () => {
          if (!ticket.isWaiting) return;
          this.#pump.leave(ticket);
          subscriber.error(signal.reason);
        });
      }
      this.#pump.admitJob(ticket, wish, admission);
      // What is done with the lease belongs to whoever asked, not to whoever gives the permit back.
      if (ticket.isWaiting) context = captureContext();
      return undefined;
    });
  }

  acquireAsync(job: LimiterJob = NO_JOB): Promise<Lease> {
    // The usual case needs no ticket.
    const lease = job === NO_JOB ? this.#pump.grantNow(this.#wish(job)) : undefined;
    if (lease) return Promise.resolve(lease);
    return new Promise((resolve, reject) => {
      const wish = this.#wish(job);
      if (job.signal) {
        this.#acquire(job, true).subscribe({ next: resolve, error: reject });
        return;
      }
      this.#pump.admitJob(new PromiseTicket(wish, resolve, reject), wish, this.#admission(job, true));
    });
  }

  run<R>(work: (context: LeaseContext) => WorkResult<R>, job: LimiterJob = NO_JOB): Observable<R> {
    return this.#run(work, job, false);
  }

  #run<R>(work: (context: LeaseContext) => WorkResult<R>, job: LimiterJob, waitsForRoom: boolean): Observable<R> {
    required(NAME, 'work', work);
    return new Observable<R>((subscriber) => {
      const waiting = this.#acquire(job, waitsForRoom).subscribe({
        next: (lease) => {
          // Somebody whose work was let in at the same time may have made the consumer leave.
          if (subscriber.closed) lease.release('unused');
          else runLeased(lease, work, subscriber, this.#pump.endings.running);
        },
        error: (error: unknown) => {
          subscriber.error(error);
        },
      });
      subscriber.add(waiting);
    });
  }

  runAsync<R>(work: (context: LeaseContext) => WorkResult<R>, job: LimiterJob = NO_JOB): Promise<R> {
    return new Promise((resolve, reject) => {
      required(NAME, 'work', work);
      const wish = this.#wish(job);
      if (job.signal) {
        const { signal } = job;
        const giveUp: (reason: unknown) => void = reject;
        const subscription = passLastValue(this.#run(work, job, true), resolve, reject);
        this.#signals.stop(signal, subscription, () => {
          subscription.unsubscribe();
          giveUp(signal.reason);
        });
        return;
      }
      const ticket = new WorkTicket(wish, work, resolve, reject);
      this.#pump.admitJob(ticket, wish, this.#admission(job, true));
      if (ticket.isWaiting) ticket.context = captureContext();
    });
  }

  enlist(bidder: Bidder, lane?: string): Place {
    const { granted, refused } = Object(bidder) as Partial<Bidder>;
    required(NAME, 'bidder.granted', granted);
    required(NAME, 'bidder.refused', refused);
    const at = this.#config.lanes.at(lane);
    if (bidder.requests !== undefined) amount(NAME, 'bidder.requests', bidder.requests);
    const wish = (bidder.requests === undefined ? this.#bidderWishes[at] : changingWish(at, bidder)) as Wish;
    const ticket = new BidderTicket(wish, bidder);
    this.#pump.admitBidder(ticket);
    return {
      poke: () => {
        if (ticket.isWaiting) this.#pump.pump();
      },
      withdraw: () => {
        this.#pump.leave(ticket);
      },
    };
  }

  watch(listener: () => void): () => void {
    return this.#pump.listeners.watch(required(NAME, 'listener', listener));
  }

  onRelease(listener: (release: Release) => void): () => void {
    return this.#pump.listeners.onRelease(required(NAME, 'listener', listener));
  }

  observe(response: ResponseLike, options: ObserveOptions = {}): void {
    checkObserved(options);
    this.#pump.observe(response, options.sentAt, this.#laneAt(options.lane));
  }

  penalize(pauseMs: number, lane?: string): void {
    this.#pump.penalize(pauseMs, this.#laneAt(lane));
  }

  pause(): void {
    this.#pump.pause();
  }

  resume(): void {
    this.#pump.resume();
  }

  clear(reason?: unknown): void {
    this.#pump.family.clear(new ClearedError(NAME, reason));
  }

  whenIdle(): Promise<void> {
    return this.#pump.family.whenIdle();
  }

  whenQueued(options: { readonly below: number }): Promise<void> {
    known(NAME, options, ['below']);
    return this.#pump.family.whenQueued(count(NAME, 'below', options.below));
  }

  setLimits(limits: LimiterLimits): void {
    this.#pump.setLimits(limits);
  }

  child(options: ChildLimiterOptions = {}): FlowLimiter {
    return new FlowLimiter(options, this);
  }

  keyed(options: KeyedLimiterOptions = {}): KeyedLimiter {
    return new FlowKeyedLimiter(this, options);
  }

  /** @throws FlowConfigError or LaneUnknownError for a job that nobody could do. */
  check(job: LimiterJob): void {
    this.#wish(job);
    this.#waitMs(job);
  }

  /** Whether everything is as it was in the beginning. */
  get isIdle(): boolean {
    return this.#pump.isIdle;
  }

  snapshot(): LimiterSnapshot {
    return this.#pump.snapshot();
  }

  /** Undefined without a name. */
  #laneAt(name: string | undefined): number | undefined {
    return name === undefined ? undefined : this.#config.lanes.at(name);
  }

  #wish(job: LimiterJob): JobWish {
    if (job !== NO_JOB) checkJob(job);
    const { lane, cost } = job;
    const at = this.#config.lanes.at(lane);
    return cost === undefined ? (this.#plainWishes[at] as JobWish) : jobWish(at, cost);
  }

  #admission(job: LimiterJob, waitsForRoom: boolean): Admission {
    return { waitMs: this.#waitMs(job), holder: holderOf(job), waitsForRoom };
  }

  /** Undefined for ever. */
  #waitMs({ timeoutMs }: LimiterJob): number | undefined {
    if (timeoutMs === undefined) return this.#maxWaitMs;
    const waitMs = durationMs(NAME, 'timeoutMs', timeoutMs);
    return waitMs === Infinity ? undefined : waitMs;
  }
}
