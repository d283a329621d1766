import type { Subject } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import { amountOf, isTokenUnit, ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Rate } from '../../kernel/limits/rate.js';
import { ClosedError, FlowConfigError } from '../../options/errors.js';
import type {
  Lease,
  LeaseContext,
  LeasedWork,
  Limiter,
  LimiterJob,
  LimiterLimits,
  LimiterSnapshot,
  ObserveOptions,
  Release,
  SavedLimits,
} from '../../options/limiter.js';
import { amount, count, nonEmpty, onlyKnown, orDefault, requiredFunction } from '../../options/options.js';
import type { Bidder, Place } from '../../options/permits.js';
import type { ResponseLike, WorkOutcome, WorkResult } from '../../options/types.js';
import { laneAt } from '../describe-item.js';
import { passLastValue } from '../last-value.js';
import { AbortCalls } from '../signal-groups.js';
import { GrantLoop } from './grant-loop.js';
import type { LimiterSettings } from './settings.js';
import { belowOption, chargeOf, checkJob, NAME, ratesOption } from './settings.js';
import type { HolderHooks, Lease as OwnLease } from './ticket.js';
import { BidderTicket, JobTicket, WrappedTicket } from './ticket.js';

const NO_JOB: LimiterJob = {};

/** Levels and costs that differ by less are equal: they are sums of fractions. */
const ROUNDING = 1e-6;

type Reject = (error: unknown) => void;

/** The methods of a limiter. */
export class FlowLimiter extends GrantLoop implements Limiter {
  declare readonly parent?: FlowLimiter;
  /** Cancels jobs by their signals. */
  private signals = new AbortCalls();

  constructor(settings: LimiterSettings) {
    super(settings);
    if (settings.restore) this.restore(settings.restore);
  }

  get load(): number {
    const slots = this.slots === Infinity ? 0 : Math.min(1, this.executing / this.slots);
    return Math.max(this.pausedForMs > 0 ? 1 : slots, this.rates?.load() ?? 0);
  }

  /** In how many ms it has nothing left to remember: everything spent has come back, and no pause of `penalize` is left. Infinity while it is in use. */
  get idleInMs(): number {
    return this.isBusy ? Infinity : Math.max(this.penaltyMs, (this.rates?.fullAt() ?? 0) - (this.rates ? this.time : 0));
  }

  get concurrency(): number {
    return this.minOf(({ slots }) => slots);
  }

  get tokenCapacity(): number {
    const capacityOf = (unit: string): number => this.minRate(unit, ({ capacity }) => capacity);
    // The weight of a batch is input.
    return Math.min(capacityOf('tokens'), capacityOf('inputTokens'));
  }

  get requestCapacity(): number {
    return this.minRate('requests', ({ capacity }) => capacity);
  }

  get borrows(): boolean {
    return this.minOf(({ rates }) => (rates?.borrows === false ? 0 : 1)) > 0;
  }

  get lanes(): readonly string[] | undefined {
    const { lanes, isDeclared } = this.settings.queue;
    return isDeclared ? lanes.map(({ name }) => name) : undefined;
  }

  take(): Lease | undefined {
    return this.tryAcquire();
  }

  tryAcquire(job: LimiterJob = NO_JOB): Lease | undefined {
    const lane = this.laneOf(job);
    const charge = this.chargeOf(job);
    if (job.signal?.aborted) return undefined;
    const { queue, settings } = this;
    const lease = this.tryGrant(charge, lane, queue.granted && settings.queue.keyOf?.(job));
    if (lease) (job.holder as HolderHooks | undefined)?.granted(lease);
    return lease;
  }

  acquire(job: LimiterJob = NO_JOB): Observable<Lease> {
    return this.stream(undefined, job, false, this.chargeOf(job), this.laneOf(job));
  }

  acquireAsync(job: LimiterJob = NO_JOB): Promise<Lease> {
    // The usual case needs no ticket.
    const lease = job === NO_JOB && !this.isGranting ? this.tryGrant(this.chargeOf(job), this.laneOf(job)) : undefined;
    if (lease) return Promise.resolve(lease);
    return new Promise((resolve, reject) => {
      this.request(undefined, job, resolve, reject);
    });
  }

  pass(job: LimiterJob = NO_JOB): Promise<void> {
    return new Promise((resolve, reject) => {
      const granted = (lease: OwnLease): void => {
        lease.release();
        resolve();
      };
      this.request(undefined, job, granted, reject, { ...this.chargeOf(job), slots: 0 });
    });
  }

  run<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Observable<WorkOutcome<R, W>>;
  run<R>(work: LeasedWork<R>, job: LimiterJob = NO_JOB): Observable<R> {
    return this.stream(requiredFunction(NAME, 'work', work), job);
  }

  runAsync<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Promise<WorkOutcome<R, W>>;
  runAsync<R>(work: LeasedWork<R>, job: LimiterJob = NO_JOB): Promise<R> {
    return new Promise((resolve, reject) => {
      this.request(requiredFunction(NAME, 'work', work), job, resolve, reject);
    });
  }

  wrap<A extends unknown[], R>(work: (...args: A) => WorkResult<R>, job: LimiterJob = NO_JOB): (...args: A) => Promise<R> {
    requiredFunction(NAME, 'work', work);
    const lane = this.laneOf(job);
    const charge = this.chargeOf(job);
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the function has a `this` of its own
    const limiter = this;
    return function wrapped(this: unknown, ...args: A): Promise<R> {
      return new Promise((resolve, reject) => {
        const ticket = new WrappedTicket<R>(limiter, charge, lane, work as unknown as LeasedWork<R>);
        ticket.self = this;
        ticket.args = args;
        limiter.submit(ticket, job, resolve, reject);
      });
    };
  }

  enlist(bidder: Bidder, lane?: string): Place {
    const { granted, refused, requests, key } = Object(bidder) as Partial<Bidder>;
    requiredFunction(NAME, 'bidder.granted', granted);
    requiredFunction(NAME, 'bidder.refused', refused);
    if (requests !== undefined) amount(NAME, 'bidder.requests', requests);
    const ticket = new BidderTicket(this, this.laneAt(lane), bidder);
    if (key !== undefined) ticket.key = this.settings.queue.keyOf?.({ key });
    const error = this.refusal(ONE_REQUEST, ticket.lane);
    if (error) ticket.refused(error);
    else {
      this.admitPlace(ticket);
      this.loop();
    }
    return ticket;
  }

  move(id: string | number, lane: string): boolean {
    const at = this.laneAt(lane);
    const ticket = this.byId.get(id);
    if (ticket) {
      this.withdraw(ticket);
      ticket.lane = at;
      this.enqueue(ticket, Infinity);
      this.grantNow();
    }
    return ticket !== undefined;
  }

  remove(id: string | number, reason?: unknown): boolean {
    const ticket = this.byId.get(id);
    if (ticket) this.refuse(ticket, clearedError('remove', reason), 'dropped');
    return ticket !== undefined;
  }

  watch(listener: () => void): () => void {
    return listen(this.freeings, listener);
  }

  onRelease(listener: (release: Release) => void): () => void {
    return listen(this.releases, listener);
  }

  observe(response: ResponseLike, options: ObserveOptions = {}): void {
    onlyKnown(NAME, options, ['sentAt', 'model']);
    const { sentAt, model } = options;
    if (sentAt !== undefined && !Number.isFinite(sentAt)) throw new FlowConfigError(NAME, 'sentAt', 'a finite number', sentAt);
    if (model !== undefined) nonEmpty(NAME, 'model', model);
    // The time here is ahead of a clock that was set back.
    const ahead = this.now() - this.settings.scheduler.now();
    this.learn(response, undefined, sentAt === undefined ? undefined : sentAt + ahead);
  }

  /** Whether something was learned from a response to the request under this lease, or to one of which nothing is known but maybe when it was sent. */
  learn(response: ResponseLike, lease?: OwnLease, sentAt = Infinity): boolean {
    return this.rates?.learn(response, lease, sentAt) === true;
  }

  setLimits(limits: LimiterLimits): void {
    onlyKnown(NAME, limits, ['concurrency', 'rates']);
    const concurrency = count(NAME, 'concurrency', orDefault(limits.concurrency, this.slots));
    const rates = ratesOption(NAME, 'rates', orDefault(limits.rates, []));
    this.slots = concurrency;
    this.addRates(rates);
    this.tell?.({ type: 'limitChanged', concurrency });
    this.freed();
  }

  clear(reason?: unknown): void {
    const error = clearedError('clear', reason);
    for (const ticket of this.jobs()) if (ticket.isWaiting) ticket.limiter.refuse(ticket, error, 'dropped');
  }

  whenIdle(): Promise<void> {
    return this.until(() => !this.isBusy);
  }

  whenQueued(options: { readonly below: number }): Promise<void> {
    const below = belowOption(options);
    return this.until(() => this.queued < below);
  }

  snapshot(): LimiterSnapshot {
    const { executing, rates } = this;
    const queued = this.queue.size;
    const inForce = (unit: string): number => this.minRate(unit, ({ perMinute }) => perMinute);
    const pausedForMs = Math.max(0, -this.minOf((each) => -each.pausedForMs));
    const { first } = this;
    const isFull = first && this.minOf((each) => Number(each.hasSlots(first.charge))) === 0;
    // How many would be granted if there were slots, here and in the parents. In a pause nobody is.
    const heldBySlot = isFull && pausedForMs === 0 ? this.payable() : 0;
    return {
      concurrency: this.concurrency,
      executing,
      queued,
      heldByRate: queued - heldBySlot,
      heldBySlot,
      requests: this.left('requests'),
      tokens: this.left('tokens'),
      pausedForMs,
      requestsPerMinute: inForce('requests'),
      tokensPerMinute: inForce('tokens'),
      rates: rates?.snapshots() ?? [],
    };
  }

  /**
   * How many waiting tickets could be paid for, in the order of the lanes: they only wait for a slot. What a bidder wants is not known before its turn,
   * so it counts as one token.
   */
  private payable(): number {
    const spent = new Map<string, number>();
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the first of the chain
    for (let at: FlowLimiter | undefined = this; at; at = at.parent) for (const { rule } of at.rates?.all ?? []) spent.set(rule.unit, 0);
    // By lane: with reserves a lower one has less.
    const left = this.inLane.map((_, lane) => new Map([...spent.keys()].map((unit) => [unit, this.left(unit, lane) + ROUNDING])));
    const unpaid = this.allWaiting().findIndex((ticket) => {
      let isShort = false;
      for (const [unit, before] of spent) {
        const sum = before + (ticket.bid && isTokenUnit(unit) ? 1 : amountOf(ticket.charge, unit));
        spent.set(unit, sum);
        isShort ||= sum > (left[ticket.lane]?.get(unit) ?? Infinity);
      }
      return isShort;
    });
    return unpaid === -1 ? this.queue.size : unpaid;
  }

  save(): SavedLimits {
    const { penaltyMs } = this;
    // JSON has no Infinity.
    const pausedForMs = penaltyMs === Infinity ? -1 : penaltyMs;
    return { at: this.settings.scheduler.now(), pausedForMs, rates: this.rates?.save() ?? [] };
  }

  private restore({ at, pausedForMs, rates }: SavedLimits): void {
    const elapsedMs = Math.max(0, this.settings.scheduler.now() - at);
    this.rates?.restore(rates, elapsedMs);
    const pauseMs = pausedForMs < 0 ? Infinity : pausedForMs - elapsedMs;
    if (pauseMs > 0) this.pausedUntil = this.now() + pauseMs;
  }

  /** Listens to signals, and tells of changes, together with another limiter. */
  listenWith(other: FlowLimiter): void {
    this.signals = other.signals;
    this.changes = other.changes;
  }

  /** When this holds. It is asked now, and whenever something has begun or ended to wait or run. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const stop = listen(this.changes, look);
      look();
      function look(): void {
        if (!holds()) return;
        stop();
        resolve();
      }
    });
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** @throws FlowConfigError or LaneUnknownError for a job that nobody could do */
  check(job: LimiterJob): void {
    this.laneOf(job);
    this.chargeOf(job);
  }

  /** Whether a job may name the unit in its cost. */
  counts(unit: string): boolean {
    return this.minOf(({ rates }) => (rates?.of(unit).length ? 0 : 1)) === 0;
  }

  /** A stream of the lease, or of the values of work under it. For a promise it waits for room, and the signal cancels the work as well. */
  private stream<R>(fn: LeasedWork<R> | undefined, job: LimiterJob, isPromise = false, charge?: Charge, lane?: number): Observable<R> {
    return new Observable<R>((subscriber) => {
      const ticket = new JobTicket(this, charge ?? this.chargeOf(job), lane ?? this.laneOf(job), fn, subscriber);
      const { signal } = job;
      if (signal?.aborted) subscriber.error(signal.reason);
      if (subscriber.closed) return;
      if (signal) {
        this.signals.stop(signal, subscriber, (reason) => {
          if (!ticket.isWaiting && !isPromise) return;
          this.leave(ticket);
          subscriber.error(reason);
        });
      }
      // Added first: a callback that runs while this one is admitted may make its consumer leave.
      subscriber.add(ticket);
      this.submit(ticket, job, undefined, undefined, isPromise);
    });
  }

  private request<R>(
    fn: LeasedWork<R> | undefined,
    job: LimiterJob,
    resolve: (value: R) => void,
    reject: Reject,
    charge = this.chargeOf(job),
  ): void {
    if (job.signal) passLastValue(this.stream(fn, job, true, charge), resolve, reject);
    else this.submit(new JobTicket<R>(this, charge, this.laneOf(job), fn), job, resolve, reject);
  }

  private submit<R>(ticket: JobTicket<R>, job: LimiterJob, resolve?: (value: R) => void, reject?: Reject, waitsForRoom = true): void {
    if (resolve) ticket.resolve = resolve;
    if (reject) ticket.reject = reject;
    const { id, holder, deadlineMs = Infinity } = job;
    if (holder) ticket.hooks = holder as HolderHooks;
    if (id !== undefined) {
      if (this.byId.has(id)) throw new FlowConfigError(NAME, 'id', 'one that nobody waits under', undefined, 'one in use');
      ticket.id = id;
    }
    const key = this.settings.queue.keyOf?.(job);
    if (key !== undefined) ticket.key = key;
    this.admit(ticket, deadlineMs, waitsForRoom);
    if (ticket.isWaiting && (ticket.fn || !reject)) ticket.context = captureContext();
  }

  /** @throws FlowConfigError or LaneUnknownError */
  private laneOf(job: LimiterJob): number {
    if (job !== NO_JOB) checkJob(job);
    return this.laneAt(job.lane === undefined ? this.settings.queue.laneOf?.(job) : job.lane);
  }

  private laneAt(name: string | undefined): number {
    return laneAt(NAME, this.settings.queue, name);
  }

  private chargeOf(job: LimiterJob): Charge {
    return job.cost === undefined ? ONE_REQUEST : chargeOf(NAME, job.cost, (unit) => this.counts(unit));
  }

  private minRate(unit: string, of: (rate: Rate, now: number) => number): number {
    return this.minOf(({ rates }) => rates?.least(unit, of) ?? Infinity);
  }
}

/** The returned function stops it. What a listener throws is reported, and the others are still called. */
function listen<V>(to: Subject<V>, listener: (value: V) => void): () => void {
  // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
  const subscription = to.subscribe({ next: requiredFunction(NAME, 'listener', listener) });
  return () => {
    subscription.unsubscribe();
  };
}

function clearedError(by: 'clear' | 'remove', reason: unknown): ClosedError {
  return new ClosedError(NAME, reason, `taken out of the queue by \`${by}\`; it was not started`, 'FLOW_CLEARED');
}
