import type { ObservableInput, SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { DeadlineHeap } from '../kernel/deadline-heap.js';
import { LaneQueue } from '../kernel/lane-queue.js';
import { TokenBucket } from '../kernel/token-bucket.js';
import { LazySignal, onAbort } from './abort.js';
import { Alarm, schedulerOption } from './alarm.js';
import { ClosedError, FlowConfigError, ItemTooHeavyError, OverflowError, RateLimitError } from './errors.js';
import type { FlowSink } from './events.js';
import { safeSink } from './events.js';
import { parseRetryAfterMs } from './headers.js';
import type { Lane } from './lanes.js';
import { LaneTable, overflow } from './lanes.js';
import { callback, count, durationMs, known, oneOf, orDefault, positive, ratio } from './options.js';
import type { LaneOptions, Overflow, ResponseLike, Usage } from './types.js';
import { startWork } from './work.js';

/** What a job takes from the limiter. */
export interface Cost {
  /** @defaultValue 1 */
  readonly requests?: number;
  /** @defaultValue 0 */
  readonly tokens?: number;
}

export interface LimiterJob {
  /** One of the declared lanes. @defaultValue the last, least urgent one */
  readonly lane?: string;
  readonly cost?: Cost;
  /** Leaves the queue when it aborts; a lease already handed over is not touched. */
  readonly signal?: AbortSignal;
  /** Longest wait for the permit, in ms. @defaultValue the limiter's `maxWaitMs` */
  readonly timeoutMs?: number;
}

/** A permit. It counts against the limits until `release`; both methods may be called again without effect. */
export interface Lease {
  /** Replaces the estimated token cost by the real one; the bucket may go into debt. Without numbers the estimate stands. */
  settle(usage: Usage): void;
  /** Frees the slot. `'unused'` says nothing was sent: request and tokens are given back. */
  release(outcome?: 'ok' | 'error' | 'cancelled' | 'unused'): void;
  /** Frees the slot when the promise settles, or after `abortGraceMs`: for work that was given up but cannot be stopped. */
  releaseAfter(work: PromiseLike<unknown>): void;
}

export interface LimiterSnapshot {
  /** Most leases at a time. */
  readonly concurrency: number;
  /** Leases handed out and not released. */
  readonly executing: number;
  /** Waiting, for whatever reason. */
  readonly queued: number;
  /** Waiting for the rate (requests, tokens, or a pause the other side asked for). */
  readonly heldByRate: number;
  /** Waiting for a slot. */
  readonly heldBySlot: number;
  /** Requests that could be sent at once; Infinity without a limit, negative in debt. */
  readonly requests: number;
  /** Tokens that could be spent at once; Infinity without a limit, negative in debt. */
  readonly tokens: number;
  /** How much longer everything is paused, in ms. */
  readonly pausedForMs: number;
}

/** What can be changed while the limiter runs. */
export interface LimiterLimits {
  /** Most leases at a time; lowering it never takes one back. @defaultValue Infinity */
  readonly concurrency?: number;
  /** Requests per minute. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Tokens per minute. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
}

export interface LimiterOptions extends LimiterLimits {
  /** Seconds of rate that may be saved up and spent at once, 0.001 to 86400. Providers enforce windows well below a minute. @defaultValue 2 */
  readonly burstSeconds?: number;
  /** Share of the rates that is used, so that a provider which counts differently still never refuses. @defaultValue 0.9 */
  readonly headroom?: number;
  /** Lanes, most urgent first. @defaultValue one lane for all */
  readonly lanes?: readonly LaneOptions[];
  /** Most jobs waiting; 0 rejects instead of waiting. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** What happens at the bound. @defaultValue 'error' */
  readonly overflow?: Overflow;
  /** Longest wait for a permit, in ms. @defaultValue Infinity */
  readonly maxWaitMs?: number;
  /** A job that costs more than the bucket can ever hold goes into debt, or is rejected with `ItemTooHeavyError`. @defaultValue 'borrow' */
  readonly costAboveCapacity?: 'borrow' | 'reject';
  /** How long an aborted promise may keep its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  /** Told about `throttled`, `limitChanged` and `dropped`. */
  readonly onEvent?: FlowSink;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/** Work that decides what to send only when it gets its permit: the batch grows while it waits. */
export interface Bidder {
  /**
   * Tokens wanted now, or undefined to give up the place. Asked each time the bidder is next, with the tokens that could be
   * spent at once (Infinity without a limit). Must not call the limiter. Without it, a request without tokens is wanted.
   */
  bid?(affordable: number): number | undefined;
  granted(lease: Lease): void;
  refused(error: unknown): void;
}

/** A bidder's place in the queue. */
export interface Place {
  /** Asks for a new bid now, because what is wanted has changed. */
  poke(): void;
  /** Leaves; nothing was charged. */
  withdraw(): void;
}

export interface Limiter {
  /** Grants at once or not at all; undefined when a limit, or somebody who waits, is in the way. */
  tryAcquire(job?: LimiterJob): Lease | undefined;
  /** Emits one lease when it is granted (at once when nothing is in the way) and completes. From `next` on it is yours to release; unsubscribing before leaves the queue. */
  acquire(job?: LimiterJob): Observable<Lease>;
  /** The same as a promise. Aborting the job's signal rejects with an `AbortError` and costs nothing. */
  acquireAsync(job?: LimiterJob): Promise<Lease>;
  /** Runs the work under a lease, released when the work ends. Unsubscribing aborts the signal. */
  run<R>(work: (context: { readonly signal: AbortSignal; readonly lease: Lease }) => ObservableInput<R>, job?: LimiterJob): Observable<R>;
  /** Queues work that is formed when its permit comes; what `batchMap` uses. */
  enlist(bidder: Bidder, lane?: string): Place;
  /** Reads `retry-after` from a 429, 503 or 529 response and pauses. */
  observe(response: ResponseLike): void;
  /** Grants nothing for this long, in ms; a shorter pause never ends a longer one. */
  penalize(pauseMs: number): void;
  setLimits(limits: LimiterLimits): void;
  snapshot(): LimiterSnapshot;
  /** Most tokens that can be saved up and granted without going into debt; Infinity without a limit. */
  readonly tokenCapacity: number;
  /** Whether a job above that may go into debt. */
  readonly borrows: boolean;
  readonly concurrency: number;
  readonly executing: number;
  /** The declared lanes' names, undefined when none were declared. */
  readonly lanes: readonly string[] | undefined;
  /** Takes no new jobs and resolves when everything waiting and executing is over. */
  drain(): Promise<void>;
  /** Takes no new jobs and refuses the waiting ones with `ClosedError`. Leases stay valid until released; those of work that was given up end. */
  close(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

export const LIMITER_DEFAULTS = {
  concurrency: Infinity,
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  burstSeconds: 2,
  headroom: 0.9,
  maxQueued: 1000,
  overflow: 'error',
  maxWaitMs: Infinity,
  costAboveCapacity: 'borrow',
  abortGraceMs: 1000,
} as const;

const NAME = 'createLimiter';
const LIMITS = ['concurrency', 'requestsPerMinute', 'tokensPerMinute'];
const OPTIONS = [
  ...LIMITS,
  'burstSeconds',
  'headroom',
  'lanes',
  'maxQueued',
  'overflow',
  'maxWaitMs',
  'costAboveCapacity',
  'abortGraceMs',
  'onEvent',
  'scheduler',
];

function checkedLimits(limits: LimiterLimits, current: Required<LimiterLimits>): Required<LimiterLimits> {
  return {
    concurrency: count(NAME, 'concurrency', orDefault(limits.concurrency, current.concurrency)),
    requestsPerMinute: positive(NAME, 'requestsPerMinute', orDefault(limits.requestsPerMinute, current.requestsPerMinute)),
    tokensPerMinute: positive(NAME, 'tokensPerMinute', orDefault(limits.tokensPerMinute, current.tokensPerMinute)),
  };
}

/** One waiting job or bidder. */
interface Ticket {
  readonly lane: number;
  readonly requests: number;
  /** Undefined for a bidder that decides late; its own queue has a bound, so it does not count towards `maxQueued`. */
  readonly tokens: number | undefined;
  readonly bidder: Bidder;
  readonly expiresAt: number;
  waiting: boolean;
}

export class FlowLimiter implements Limiter {
  readonly #table: LaneTable;
  readonly #declared: boolean;
  readonly #queue: LaneQueue<Ticket>;
  readonly #taken: Int32Array;
  /** Jobs waiting in each lane; bidders do not count towards a bound. */
  readonly #jobs: Int32Array;
  readonly #alarm: Alarm;
  readonly #scheduler: SchedulerLike;
  readonly #onEvent: FlowSink | undefined;
  readonly #maxQueued: number;
  readonly #maxWaitMs: number;
  readonly #borrow: boolean;
  readonly #abortGraceMs: number;
  readonly #burstSeconds: number;
  readonly #headroom: number;
  /** Jobs with a time limit on their wait; those that left are swept out now and then. */
  readonly #expiring = new DeadlineHeap<Ticket>();
  /** Slots held by work that was given up but not over, and until when. */
  readonly #lingering = new Map<LimiterLease, number>();
  #limits: Required<LimiterLimits>;
  #requests: TokenBucket | undefined;
  #tokens: TokenBucket | undefined;
  #executing = 0;
  #counted = 0;
  #pausedUntil = -Infinity;
  #pumping = false;
  #again = false;
  #closed = false;
  /** Set by `close`: what a refused job releases must not be granted to the next. */
  #refusing = false;
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(options: LimiterOptions) {
    known(NAME, options, OPTIONS);
    const d = LIMITER_DEFAULTS;
    this.#limits = checkedLimits(options, d);
    this.#burstSeconds = ratio(NAME, 'burstSeconds', orDefault(options.burstSeconds, d.burstSeconds), 0.001, 86_400);
    this.#headroom = ratio(NAME, 'headroom', orDefault(options.headroom, d.headroom), 0.01);
    this.#maxQueued = count(NAME, 'maxQueued', orDefault(options.maxQueued, d.maxQueued), 0);
    this.#maxWaitMs = durationMs(NAME, 'maxWaitMs', orDefault(options.maxWaitMs, d.maxWaitMs));
    this.#borrow =
      oneOf(NAME, 'costAboveCapacity', orDefault(options.costAboveCapacity, d.costAboveCapacity), ['borrow', 'reject']) === 'borrow';
    this.#abortGraceMs = durationMs(NAME, 'abortGraceMs', orDefault(options.abortGraceMs, d.abortGraceMs));
    this.#onEvent = safeSink(callback(NAME, 'onEvent', options.onEvent));
    this.#table = new LaneTable(NAME, options.lanes, {
      maxQueued: this.#maxQueued,
      overflow: overflow(NAME, 'overflow', orDefault(options.overflow, d.overflow)),
    });
    this.#declared = options.lanes !== undefined;
    this.#queue = new LaneQueue<Ticket>(this.#table.floors, 1, (ticket) => ticket.waiting);
    this.#taken = new Int32Array(this.#table.lanes.length);
    this.#jobs = new Int32Array(this.#table.lanes.length);
    this.#scheduler = schedulerOption(NAME, options.scheduler);
    this.#alarm = new Alarm(this.#scheduler, () => {
      this.#pump();
    });
    const now = this.#alarm.now();
    this.#requests = this.#bucket(this.#limits.requestsPerMinute, undefined, now);
    this.#tokens = this.#bucket(this.#limits.tokensPerMinute, undefined, now);
  }

  get concurrency(): number {
    return this.#limits.concurrency;
  }

  get executing(): number {
    return this.#executing;
  }

  get tokenCapacity(): number {
    return this.#tokens?.capacity ?? Infinity;
  }

  get borrows(): boolean {
    return this.#borrow;
  }

  get lanes(): readonly string[] | undefined {
    return this.#declared ? this.#table.names : undefined;
  }

  tryAcquire(job: LimiterJob = {}): Lease | undefined {
    const { requests, tokens } = this.#cost(job.cost);
    const lane = this.#table.at(job.lane);
    if (this.#closed || job.signal?.aborted || this.#tooHeavy(requests, tokens) || !this.#goesFirst(lane)) return undefined;
    if (this.#blockedBy(requests, tokens, this.#alarm.now()) !== undefined) return undefined;
    const lease = this.#charge(lane, requests, tokens);
    // Somebody who was passed over may be owed the next turn, and whoever waited for the rate may wait for this slot now.
    if (this.#queue.size > 0) this.#letOthersIn();
    return lease;
  }

  acquire(job: LimiterJob = {}): Observable<Lease> {
    const { requests, tokens } = this.#cost(job.cost);
    const lane = this.#table.at(job.lane);
    const timeoutMs = durationMs(NAME, 'timeoutMs', orDefault(job.timeoutMs, this.#maxWaitMs));
    // Where nobody may wait, a job that cannot go at once has waited long enough.
    const waitMs = this.#maxQueued === 0 || this.#lane(lane).maxQueued === 0 ? 0 : timeoutMs;
    return new Observable<Lease>((subscriber) => {
      if (job.signal?.aborted) {
        subscriber.error(job.signal.reason);
        return undefined;
      }
      const tooHeavy = this.#tooHeavy(requests, tokens);
      if (tooHeavy) {
        subscriber.error(tooHeavy);
        return undefined;
      }
      const bidder = {
        granted: (lease: Lease): void => {
          if (subscriber.closed) {
            lease.release('unused');
            return;
          }
          subscriber.next(lease);
          subscriber.complete();
        },
        refused: (error: unknown): void => {
          subscriber.error(error);
        },
      };
      const ticket: Ticket = { lane, requests, tokens, bidder, expiresAt: this.#alarm.now() + waitMs, waiting: true };
      subscriber.add(() => {
        this.#leave(ticket);
      });
      subscriber.add(
        onAbort(job.signal, () => {
          if (!ticket.waiting) return;
          this.#leave(ticket);
          subscriber.error(job.signal?.reason);
        }),
      );
      this.#admit(ticket);
      return undefined;
    });
  }

  acquireAsync(job: LimiterJob = {}): Promise<Lease> {
    return new Promise((resolve, reject) => {
      this.acquire(job).subscribe({ next: resolve, error: reject });
    });
  }

  run<R>(
    work: (context: { readonly signal: AbortSignal; readonly lease: Lease }) => ObservableInput<R>,
    job: LimiterJob = {},
  ): Observable<R> {
    return new Observable<R>((subscriber) => {
      const signal = new LazySignal();
      const waiting = this.acquire(job).subscribe({
        next: (lease) => {
          const context = {
            get signal(): AbortSignal {
              return signal.signal;
            },
            lease,
          };
          let over = false;
          const observer = {
            next: (value: R): void => {
              subscriber.next(value);
            },
            done: (): void => {
              over = true;
              lease.release('ok');
              subscriber.complete();
            },
            failed: (error: unknown): void => {
              over = true;
              lease.release('error');
              subscriber.error(error);
            },
          };
          const running = startWork(() => work(context), observer, subscriber);
          subscriber.add(() => {
            if (over) return;
            running.cancel();
            signal.abort();
            if (running.settled) lease.releaseAfter(running.settled);
            else lease.release('cancelled');
          });
        },
        error: (error: unknown) => {
          subscriber.error(error);
        },
      });
      subscriber.add(waiting);
    });
  }

  enlist(bidder: Bidder, lane?: string): Place {
    const ticket: Ticket = { lane: this.#table.at(lane), requests: 1, tokens: undefined, bidder, expiresAt: Infinity, waiting: true };
    this.#admit(ticket);
    return {
      poke: () => {
        if (ticket.waiting) this.#pump();
      },
      withdraw: () => {
        this.#leave(ticket);
      },
    };
  }

  observe(response: ResponseLike): void {
    if (response.status !== 429 && response.status !== 503 && response.status !== 529) return;
    const pauseMs = parseRetryAfterMs(response.headers, this.#scheduler.now());
    if (pauseMs !== undefined) this.penalize(pauseMs);
  }

  penalize(pauseMs: number): void {
    const until = this.#alarm.now() + durationMs(NAME, 'pauseMs', pauseMs);
    if (until <= this.#pausedUntil) return;
    this.#pausedUntil = until;
    this.#onEvent?.({ type: 'throttled', operator: NAME, pauseMs });
    this.#pump();
  }

  setLimits(limits: LimiterLimits): void {
    known(NAME, limits, LIMITS);
    this.#limits = checkedLimits(limits, this.#limits);
    const now = this.#alarm.now();
    this.#requests = this.#bucket(this.#limits.requestsPerMinute, this.#requests, now);
    this.#tokens = this.#bucket(this.#limits.tokensPerMinute, this.#tokens, now);
    this.#onEvent?.({ type: 'limitChanged', operator: NAME, concurrency: this.#limits.concurrency });
    this.#pump();
  }

  snapshot(): LimiterSnapshot {
    const now = this.#alarm.now();
    const queued = this.#queue.size;
    const full = this.#executing >= this.#limits.concurrency;
    return {
      concurrency: this.#limits.concurrency,
      executing: this.#executing,
      queued,
      heldByRate: full ? 0 : queued,
      heldBySlot: full ? queued : 0,
      requests: this.#requests?.level(now) ?? Infinity,
      tokens: this.#tokens?.level(now) ?? Infinity,
      pausedForMs: Math.max(0, this.#pausedUntil - now),
    };
  }

  drain(): Promise<void> {
    this.#closed = true;
    if (this.#drained === undefined) {
      let resolve: () => void = () => undefined;
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.#drained = { promise, resolve };
    }
    this.#checkDrained();
    return this.#drained.promise;
  }

  close(): void {
    this.#closed = true;
    this.#refusing = true;
    for (let lane = this.#queue.first(); lane !== -1; lane = this.#queue.first()) this.#take(lane).bidder.refused(new ClosedError(NAME));
    for (const lease of this.#lingering.keys()) lease.release('cancelled');
    this.#pump();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  /** Called by a lease. */
  free(lease: LimiterLease, outcome: string): void {
    this.#lingering.delete(lease);
    this.#executing--;
    if (outcome === 'unused') {
      const now = this.#alarm.now();
      this.#requests?.pay(-lease.requests, now);
      this.#tokens?.pay(-lease.tokens, now);
      lease.tokens = 0;
    }
    if (outcome === 'cancelled') this.#letOthersIn();
    else this.#pump();
  }

  /** Called by a lease whose real cost differs from what was charged. */
  correct(tokens: number): void {
    this.#tokens?.pay(tokens, this.#alarm.now());
    if (tokens < 0) this.#pump();
  }

  /** Called by a lease whose work was given up. */
  linger(lease: LimiterLease): void {
    if (this.#lingering.has(lease)) return;
    this.#lingering.set(lease, this.#alarm.now() + this.#abortGraceMs);
    this.#pump();
  }

  #admit(ticket: Ticket): void {
    if (this.#closed) {
      ticket.waiting = false;
      ticket.bidder.refused(new ClosedError(NAME));
      return;
    }
    const losers = this.#losers(ticket);
    for (const loser of losers) if (loser !== ticket) this.#remove(loser);
    if (losers.includes(ticket)) ticket.waiting = false;
    else this.#enter(ticket);
    // Told only now that the newcomer has its place: they may well call again.
    const { overflow: policy, maxQueued } = this.#lane(ticket.lane);
    for (const loser of losers) {
      this.#onEvent?.({ type: 'dropped', operator: NAME, lane: this.#lane(loser.lane).name, policy });
      loser.bidder.refused(new OverflowError(NAME, Math.min(this.#maxQueued, maxQueued), policy));
    }
    this.#pump();
  }

  #enter(ticket: Ticket): void {
    this.#queue.push(ticket.lane, ticket);
    if (ticket.tokens === undefined) return;
    this.#counted++;
    (this.#jobs[ticket.lane] as number)++;
    if (ticket.expiresAt === Infinity) return;
    this.#expiring.push(ticket.expiresAt, ticket);
    if (this.#expiring.length > 2 * this.#counted + 32) this.#expiring.keep((waiter) => waiter.waiting);
  }

  /** Who has to go, by the overflow policy, so that the ticket can wait; the ticket itself when nobody else does. */
  #losers(ticket: Ticket): readonly Ticket[] {
    const { overflow: policy, maxQueued } = this.#lane(ticket.lane);
    const laneFull = (this.#jobs[ticket.lane] as number) >= maxQueued;
    if (ticket.tokens === undefined || (!laneFull && this.#counted < this.#maxQueued)) return [];
    // A job that may not wait expires by itself, one that goes at once needs no place to wait.
    if (maxQueued === 0 || this.#maxQueued === 0 || this.#goesAtOnce(ticket)) return [];
    let losers: Ticket[] = [];
    if (policy === 'latest' || policy === 'dropOldest') {
      this.#queue.scanFresh(ticket.lane, (waiter) => {
        if (isJob(waiter)) losers.push(waiter);
        return policy === 'latest' || losers.length === 0;
      });
    } else if (policy === 'dropLowest' && !laneFull) {
      losers = this.#newestBelow(ticket.lane);
    }
    return losers.length > 0 ? losers : [ticket];
  }

  /** The newest job of the least urgent lane that has one, if that is below the given lane. */
  #newestBelow(lane: number): Ticket[] {
    const lowest = this.#jobs.findLastIndex((jobs) => jobs > 0);
    const newest = lowest > lane ? this.#queue.newestFresh(lowest, isJob) : undefined;
    return newest ? [newest] : [];
  }

  /** Whether the ticket would be granted now, so that it does not need a place to wait. */
  #goesAtOnce(ticket: Ticket): boolean {
    return this.#goesFirst(ticket.lane) && this.#blockedBy(ticket.requests, ticket.tokens ?? 0, this.#alarm.now()) === undefined;
  }

  /** Nobody who waits goes before a newcomer in this lane: not in a lane as urgent, and not in one that is owed a turn. */
  #goesFirst(lane: number): boolean {
    const first = this.#queue.first();
    return first === -1 || (first > lane && this.#queue.owed(this.#queue.lead()) === 0);
  }

  #leave(ticket: Ticket): void {
    if (!ticket.waiting) return;
    this.#remove(ticket);
    this.#letOthersIn();
  }

  /**
   * Grants what can be granted at the end of the frame. One who leaves is often the first of many (a whole pipeline is
   * unsubscribed, call by call), and nobody is to start a call who is about to leave as well.
   */
  #letOthersIn(): void {
    this.#again = true;
    this.#arm();
    this.#checkDrained();
  }

  /** Takes the ticket out from wherever it stands. */
  #remove(ticket: Ticket): void {
    this.#forget(ticket);
    this.#queue.left(ticket.lane);
  }

  /** Takes the first ticket of a lane that has one. */
  #take(lane: number): Ticket {
    const ticket = this.#queue.shift(lane) as Ticket;
    this.#forget(ticket);
    return ticket;
  }

  #forget(ticket: Ticket): void {
    ticket.waiting = false;
    if (ticket.tokens === undefined) return;
    this.#counted--;
    (this.#jobs[ticket.lane] as number)--;
  }

  /** The one loop that grants. Calls made from inside it only enqueue: it comes round again. */
  #pump(): void {
    if (this.#pumping) {
      this.#again = true;
      return;
    }
    this.#pumping = true;
    try {
      do {
        this.#again = false;
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.#grantNext());
        this.#expire();
      } while (this.#again as boolean);
    } finally {
      this.#pumping = false;
      this.#arm();
      this.#checkDrained();
    }
  }

  #grantNext(): boolean {
    const ticket = this.#lead();
    if (ticket === undefined || this.#refusing) return false;
    const { lane, requests } = ticket;
    const now = this.#alarm.now();
    const tokens = this.#bid(ticket, now);
    if (tokens === undefined) {
      this.#take(lane);
      return true;
    }
    if (this.#blockedBy(requests, tokens, now) !== undefined) return false;
    this.#take(lane);
    ticket.bidder.granted(this.#charge(lane, requests, tokens));
    return true;
  }

  /** Whose turn it is. */
  #lead(): Ticket | undefined {
    const lane = this.#queue.lead();
    return lane === -1 ? undefined : this.#queue.peek(lane);
  }

  #charge(lane: number, requests: number, tokens: number): LimiterLease {
    const now = this.#alarm.now();
    this.#taken[lane] = 1;
    this.#queue.turn(this.#taken);
    this.#taken[lane] = 0;
    this.#executing++;
    this.#requests?.pay(requests, now);
    this.#tokens?.pay(tokens, now);
    return new LimiterLease(this, requests, tokens);
  }

  #blockedBy(requests: number, tokens: number, now: number): 'concurrency' | 'pause' | 'requestsPerMinute' | 'tokensPerMinute' | undefined {
    if (this.#executing >= this.#limits.concurrency) return 'concurrency';
    if (now < this.#pausedUntil) return 'pause';
    if (this.#requests && !this.#requests.canPay(requests, now)) return 'requestsPerMinute';
    if (this.#tokens && !this.#tokens.canPay(tokens, now)) return 'tokensPerMinute';
    return undefined;
  }

  /** Why the ticket has no permit: its own cost, or that of the one whose turn it is. */
  #refusal(ticket: Ticket, now: number): RateLimitError {
    const lead = this.#lead() ?? ticket;
    const limit = this.#blockedBy(lead.requests, this.#bid(lead, now) ?? 0, now) ?? 'concurrency';
    return new RateLimitError(NAME, limit, Math.max(this.#retryAt(ticket, now), this.#retryAt(lead, now)) - now);
  }

  /** When the rate alone would let this ticket go; at once when it is to give up its place. */
  #retryAt(ticket: Ticket, now: number): number {
    const tokens = this.#bid(ticket, now);
    if (tokens === undefined) return now;
    return Math.max(
      this.#pausedUntil,
      this.#requests?.payableAt(ticket.requests, now) ?? now,
      this.#tokens?.payableAt(tokens, now) ?? now,
      now,
    );
  }

  #bid(ticket: Ticket, now: number): number | undefined {
    if (ticket.tokens !== undefined) return ticket.tokens;
    return ticket.bidder.bid ? ticket.bidder.bid(this.#tokens?.level(now) ?? Infinity) : 0;
  }

  #expire(): void {
    const now = this.#alarm.now();
    while (this.#expiring.peekAt() <= now) {
      const ticket = this.#expiring.pop() as Ticket;
      if (!ticket.waiting) continue;
      const refusal = this.#refusal(ticket, now);
      this.#remove(ticket);
      // Whoever comes next may want less.
      this.#again = true;
      ticket.bidder.refused(refusal);
    }
    for (const [lease, until] of this.#lingering) if (until <= now) lease.release('cancelled');
  }

  /** One timer, for whatever comes first: the rate, a wait that gets too long, a slot held by work that was given up. */
  #arm(): void {
    if (this.#pumping) return;
    while (this.#expiring.peek()?.waiting === false) this.#expiring.pop();
    let at = Infinity;
    const next = this.#lead();
    if (next && this.#executing < this.#limits.concurrency) at = this.#retryAt(next, this.#alarm.now());
    at = Math.min(at, this.#expiring.peekAt());
    for (const until of this.#lingering.values()) at = Math.min(at, until);
    this.#alarm.set(at);
  }

  #checkDrained(): void {
    if (this.#drained && this.#executing === 0 && this.#queue.size === 0) this.#drained.resolve();
  }

  #tooHeavy(requests: number, tokens: number): ItemTooHeavyError | undefined {
    if (this.#borrow) return undefined;
    if (tokens > this.tokenCapacity) return new ItemTooHeavyError(NAME, tokens, this.tokenCapacity);
    const most = this.#requests?.capacity ?? Infinity;
    return requests > most ? new ItemTooHeavyError(NAME, requests, most) : undefined;
  }

  #lane(lane: number): Lane {
    return this.#table.lanes[lane] as Lane;
  }

  #cost(cost: Cost = {}): Required<Cost> {
    const { requests = 1, tokens = 0 } = cost;
    for (const [name, value] of [
      ['requests', requests],
      ['tokens', tokens],
    ] as const) {
      if (typeof value !== 'number' || !(value >= 0) || value === Infinity)
        throw new FlowConfigError(NAME, `cost.${name}`, 'a finite number >= 0', value);
    }
    return { requests, tokens };
  }

  #bucket(perMinute: number, current: TokenBucket | undefined, now: number): TokenBucket | undefined {
    if (perMinute === Infinity) return undefined;
    const rate = perMinute * this.#headroom;
    // A slow rate must still be able to save up one whole request.
    const capacity = Math.max(1, (rate / 60) * this.#burstSeconds);
    if (current === undefined) return new TokenBucket(rate, capacity, now);
    current.resize(rate, capacity, now);
    return current;
  }
}

function isJob(ticket: Ticket): boolean {
  return ticket.tokens !== undefined;
}

class LimiterLease implements Lease {
  readonly requests: number;
  tokens: number;
  readonly #limiter: FlowLimiter;
  #released = false;

  constructor(limiter: FlowLimiter, requests: number, tokens: number) {
    this.#limiter = limiter;
    this.requests = requests;
    this.tokens = tokens;
  }

  settle({ inputTokens, outputTokens }: Usage): void {
    if (inputTokens === undefined && outputTokens === undefined) return;
    const actual = (inputTokens ?? 0) + (outputTokens ?? 0);
    if (!(actual >= 0 && actual < Infinity) || actual === this.tokens) return;
    const more = actual - this.tokens;
    this.tokens = actual;
    this.#limiter.correct(more);
  }

  release(outcome: 'ok' | 'error' | 'cancelled' | 'unused' = 'ok'): void {
    if (this.#released) return;
    this.#released = true;
    this.#limiter.free(this, outcome);
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    if (this.#released) return;
    this.#limiter.linger(this);
    const release = (): void => {
      this.release();
    };
    work.then(release, release);
  }
}
