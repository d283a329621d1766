import type { Subject } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { leastOf, unitsOf } from '../../kernel/limiter/tree.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import { ClosedError, FlowConfigError } from '../../options/errors.js';
import type { Teller } from '../../options/events.js';
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
import { amount, count, misused, nonEmpty, onlyKnown, orDefault, requiredFunction } from '../../options/options.js';
import type { Bidder, Place } from '../../options/permits.js';
import type { ResponseLike, WorkOutcome, WorkResult } from '../../options/types.js';
import { laneAt } from '../calls/describe-item.js';
import { passLastValue } from '../calls/last-value.js';
import type { Shutdown } from '../calls/shutdown.js';
import { ShutdownHandle } from '../calls/shutdown.js';
import { AbortCalls } from '../calls/signal-groups.js';
import type { Above } from './above.js';
import { GrantLoop } from './grant-loop.js';
import type { LimiterSettings } from './settings.js';
import { belowOption, chargeOf, checkJob, NAME, ratesOption } from './settings.js';
import { capacityOf, restoreTo, savedFrom, snapshotOf } from './snapshot.js';
import type { HolderHooks, Lease as OwnLease, Ticket } from './ticket.js';
import { BidderTicket, JobTicket } from './ticket.js';

const NO_JOB: LimiterJob = {};

type Reject = (error: unknown) => void;

/** The methods of a limiter: what callers ask for becomes tickets of its loop. */
export class FlowLimiter extends ShutdownHandle implements Limiter {
  readonly settings: LimiterSettings;
  readonly grants: GrantLoop;
  /** Of a child: the limiter above, which those who watch calls or spend go up to. */
  declare parent?: Limiter;
  /** Cancels jobs by their signals. */
  private signals = new AbortCalls();

  constructor(settings: LimiterSettings, above?: (below: GrantLoop) => Above<GrantLoop>) {
    super();
    this.settings = settings;
    this.grants = new GrantLoop(settings, above);
    const { restore, scheduler } = settings;
    if (!restore) return;
    this.grants.now();
    restoreTo(this.grants.gate, restore, scheduler.now());
  }

  protected get shutdown(): Shutdown {
    return this.grants.shutdown;
  }

  /** Tells the listeners of the limiter; undefined when there are none. */
  get tell(): Teller | undefined {
    return this.grants.tell;
  }

  get name(): string | undefined {
    return this.settings.name;
  }

  get executing(): number {
    return this.grants.gate.executing;
  }

  get load(): number {
    return -leastOf(this.grants.upToDate(), ({ load }) => -load);
  }

  get concurrency(): number {
    return leastOf(this.grants.gate, ({ slots }) => slots);
  }

  get tokenCapacity(): number {
    const { gate } = this.grants;
    // The weight of a batch is input.
    return Math.min(capacityOf(gate, 'tokens'), capacityOf(gate, 'inputTokens'));
  }

  get requestCapacity(): number {
    return capacityOf(this.grants.gate, 'requests');
  }

  get borrows(): boolean {
    return leastOf(this.grants.gate, ({ rates }) => (rates?.borrows === false ? 0 : 1)) > 0;
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
    const { gate } = this.grants;
    const lease = this.grants.tryGrant(charge, lane, gate.queue.granted && this.settings.queue.keyOf?.(job));
    if (lease) (job.holder as HolderHooks | undefined)?.granted(lease);
    return lease;
  }

  acquire(job: LimiterJob = NO_JOB): Observable<Lease> {
    return this.stream(undefined, job, false, this.chargeOf(job), this.laneOf(job));
  }

  acquireAsync(job: LimiterJob = NO_JOB): Promise<Lease> {
    // The usual case needs no ticket.
    const lease = job === NO_JOB && !this.grants.isGranting ? this.grants.tryGrant(this.chargeOf(job), this.laneOf(job)) : undefined;
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
    const grant = (call: LeasedWork<R>): Promise<R> =>
      new Promise((resolve, reject) => {
        this.submit(new JobTicket<R>(this.grants, charge, lane, call), job, resolve, reject);
      });
    return function wrapped(this: unknown, ...args: A): Promise<R> {
      return grant(() => work.apply(this, args));
    };
  }

  enlist(bidder: Bidder, lane?: string): Place {
    const { granted, refused, requests, key } = Object(bidder) as Partial<Bidder>;
    requiredFunction(NAME, 'bidder.granted', granted);
    requiredFunction(NAME, 'bidder.refused', refused);
    if (requests !== undefined) amount(NAME, 'bidder.requests', requests);
    const { grants } = this;
    const ticket = new BidderTicket(grants, laneAt(NAME, this.settings.queue, lane), bidder);
    if (key !== undefined) ticket.key = this.settings.queue.keyOf?.({ key });
    const error = grants.refusal(ONE_REQUEST, ticket.lane);
    if (error) ticket.refused(error);
    else {
      grants.enqueue(ticket, Infinity);
      grants.loop();
    }
    return ticket;
  }

  move(id: string | number, lane: string): boolean {
    const at = laneAt(NAME, this.settings.queue, lane);
    const ticket = this.grants.gate.byId.get(id);
    if (ticket) {
      const { grants } = this;
      grants.withdraw(ticket);
      ticket.lane = at;
      grants.enqueue(ticket, Infinity);
      grants.grantNow();
    }
    return ticket !== undefined;
  }

  remove(id: string | number, reason?: unknown): boolean {
    const ticket = this.grants.gate.byId.get(id);
    if (ticket) this.grants.refuse(ticket, clearedError('remove', reason), 'dropped');
    return ticket !== undefined;
  }

  penalize(pauseMs: number): void {
    this.grants.penalize(pauseMs);
  }

  pause(): void {
    const { grants } = this;
    grants.gate.isPaused = true;
    grants.arm();
  }

  resume(): void {
    const { grants } = this;
    const { isPaused } = grants.gate;
    grants.gate.isPaused = false;
    if (isPaused) grants.freed();
  }

  /** Also called when something comes free in a limiter above. */
  watch(listener: () => void): () => void {
    const stops: (() => void)[] = [];
    for (let at: GrantLoop | undefined = this.grants; at; at = at.above?.parent) stops.push(listen(at.freeings, listener));
    return () => {
      for (const stop of stops) stop();
    };
  }

  onRelease(listener: (release: Release) => void): () => void {
    return listen(this.grants.releases, listener);
  }

  observe(response: ResponseLike, options: ObserveOptions = {}): void {
    onlyKnown(NAME, options, ['sentAt', 'model']);
    const { sentAt, model } = options;
    if (sentAt !== undefined && !Number.isFinite(sentAt)) throw new FlowConfigError(NAME, 'sentAt', 'a finite number', sentAt);
    if (model !== undefined) nonEmpty(NAME, 'model', model);
    const { grants, settings } = this;
    // The time here is ahead of a clock that was set back.
    const ahead = grants.now() - settings.scheduler.now();
    grants.learn(response, undefined, sentAt === undefined ? undefined : sentAt + ahead);
  }

  setLimits(limits: LimiterLimits): void {
    onlyKnown(NAME, limits, ['concurrency', 'rates']);
    const { grants } = this;
    const concurrency = count(NAME, 'concurrency', orDefault(limits.concurrency, grants.gate.slots));
    const rates = ratesOption(NAME, 'rates', orDefault(limits.rates, []));
    grants.gate.slots = concurrency;
    grants.addRates(rates);
    grants.tell?.({ type: 'limitChanged', concurrency });
    grants.freed();
  }

  clear(reason?: unknown): void {
    const error = clearedError('clear', reason);
    for (const ticket of jobsOf(this.grants)) if (ticket.isWaiting) ticket.limiter.refuse(ticket, error, 'dropped');
  }

  whenIdle(): Promise<void> {
    return this.until(() => !this.grants.isBusy);
  }

  whenQueued(options: { readonly below: number }): Promise<void> {
    const below = belowOption(options);
    return this.until(() => this.grants.queued < below);
  }

  snapshot(): LimiterSnapshot {
    return snapshotOf(this.grants.upToDate());
  }

  save(): SavedLimits {
    const { gate } = this.grants;
    this.grants.now();
    return savedFrom(gate, this.settings.scheduler.now());
  }

  /** Listens to signals, and tells of changes, together with another limiter. */
  listenWith(other: FlowLimiter): void {
    this.signals = other.signals;
    this.grants.changes = other.grants.changes;
  }

  /** When this holds. It is asked now, and whenever something has begun or ended to wait or run. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const stop = listen(this.grants.changes, look);
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
    return unitsOf(this.grants.gate).includes(unit);
  }

  /** A stream of the lease, or of the values of work under it. For a promise it waits for room, and the signal cancels the work as well. */
  private stream<R>(fn: LeasedWork<R> | undefined, job: LimiterJob, isPromise = false, charge?: Charge, lane?: number): Observable<R> {
    return new Observable<R>((subscriber) => {
      const ticket = new JobTicket(this.grants, charge ?? this.chargeOf(job), lane ?? this.laneOf(job), fn, subscriber);
      const { signal } = job;
      if (signal?.aborted) subscriber.error(signal.reason);
      if (subscriber.closed) return;
      if (signal) {
        this.signals.stop(signal, subscriber, (reason) => {
          if (!ticket.isWaiting && !isPromise) return;
          this.grants.leave(ticket);
          subscriber.error(reason);
        });
      }
      // Added first: a callback that runs while this one is admitted may make its consumer leave.
      subscriber.add(ticket);
      this.submit(ticket, job, undefined, undefined, isPromise || job.waitsForRoom === true);
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
    else this.submit(new JobTicket<R>(this.grants, charge, this.laneOf(job), fn), job, resolve, reject);
  }

  private submit<R>(ticket: JobTicket<R>, job: LimiterJob, resolve?: (value: R) => void, reject?: Reject, waitsForRoom = true): void {
    if (resolve) ticket.resolve = resolve;
    if (reject) ticket.reject = reject;
    const { id, holder, deadlineMs = Infinity } = job;
    if (holder) ticket.hooks = holder as HolderHooks;
    if (id !== undefined) {
      if (this.grants.gate.byId.has(id))
        throw misused(NAME, 'id', 'another waiting job has the same `id`', 'Give each job an `id` of its own.');
      ticket.id = id;
    }
    const key = this.settings.queue.keyOf?.(job);
    if (key !== undefined) ticket.key = key;
    this.grants.admit(ticket, deadlineMs, waitsForRoom);
    if (ticket.state === 'waiting' && (ticket.fn || !reject)) ticket.context = captureContext();
  }

  /** @throws FlowConfigError or LaneUnknownError */
  private laneOf(job: LimiterJob): number {
    if (job !== NO_JOB) checkJob(job);
    const { queue } = this.settings;
    return laneAt(NAME, queue, job.lane === undefined ? queue.laneOf?.(job) : job.lane);
  }

  private chargeOf(job: LimiterJob): Charge {
    return job.cost === undefined ? ONE_REQUEST : chargeOf(NAME, job.cost, (unit) => this.counts(unit));
  }
}

/** Jobs waiting in a limiter and in those below it. */
function jobsOf(grants: GrantLoop): readonly Ticket[] {
  const own = grants.gate.all().filter(({ isPlace }) => !isPlace);
  return [...own, ...[...grants.children].flatMap(jobsOf)];
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
