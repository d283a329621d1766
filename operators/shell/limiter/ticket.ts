import type { Subscriber, Unsubscribable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Gate, GateJob, GatePermit, PermitState } from '../../kernel/limiter/gate.js';
import type { TreeGate } from '../../kernel/limiter/tree.js';
import { leftOf } from '../../kernel/limiter/tree.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { amountOf, ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Amounts } from '../../kernel/limits/usage.js';
import { usedOf } from '../../kernel/limits/usage.js';
import type { LeaseShare } from '../../kernel/queues/keyed-line.js';
import type { Chain, Linked } from '../../kernel/queues/line.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import type { LeaseContext, LeasedWork, Release } from '../../options/limiter.js';
import type { Bidder, Outcome, Permit, Place } from '../../options/permits.js';
import type { ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { PermittedCall } from '../calls/call.js';
import { rejectEmpty } from '../calls/last-value.js';
import { report } from '../calls/report.js';
import { NAME } from './settings.js';

/** The limiter of a lease, as that sees it. */
export interface LeaseOwner {
  readonly gate: Pick<Gate<never, Lease>, 'abandon' | 'executing' | 'free' | 'rates'>;
  readonly settings: { readonly abortGraceMs: number };
  readonly releases: { readonly observed: boolean; next(release: Release): void };
  /** Everything is being cancelled. */
  readonly isAborting: boolean;
  /** Reads the clock, and keeps the time. */
  now(): number;
  learn(response: ResponseLike, lease: Lease): void;
  /** Tells which amounts the rates have bounded. */
  tellNotes(): void;
  /** The lease has given back its slots. */
  freedBy(outcome: Outcome, wasAbandoned: boolean): void;
  /** Grants at once what can be granted. */
  grantNow(): void;
  /** Sets the timer for what comes next. */
  arm(): void;
}

/** A granted permit: the right to what was charged for it. */
export class Lease implements Permit, GatePermit {
  readonly limiter: LeaseOwner;
  /** What it takes from the limits; for a bidder, its last bid. */
  charge: Charge;
  state: PermitState = 'new';
  // Few leases have the fields below, so they are not made for all.
  /** The lease of the parent limiter; settled and released together with this one. */
  declare parent?: Lease;
  /** Where keys share a lane by cost: what this lease counts for its key. */
  declare share?: LeaseShare;
  declare lane?: number;
  declare passes?: true;
  declare used?: Amounts;
  declare grantedAt?: number;
  declare payment?: number;
  declare settledAt?: number;
  declare correction?: number;
  declare mark?: unknown;
  declare isBounded?: boolean;
  declare wouldWait?: true;
  /** The lease of the work that asked for this one. */
  declare holder?: Lease | undefined;
  /** Why the work was cancelled. */
  declare private failure?: unknown;

  constructor(limiter: LeaseOwner, charge: Charge) {
    this.limiter = limiter;
    this.charge = charge;
  }

  get isReleased(): boolean {
    return this.state === 'over';
  }

  boundedTo(unit: string): number | undefined {
    const above = this.parent?.boundedTo(unit);
    return this.isBounded ? Math.min(above ?? Infinity, amountOf(this.charge, unit)) : above;
  }

  settle(usage: Usage): void {
    const reported = usedOf(usage);
    if (reported === undefined) return;
    let isRefunded = false;
    // All limiters are corrected before any of them grants: a full bucket above would lose the refund to the next grant.
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the first of the chain
    for (let lease: Lease | undefined = this; lease; lease = lease.parent) {
      const { limiter, share }: Lease = lease;
      if (limiter.gate.rates?.settle(lease, reported, limiter.now())) isRefunded = true;
      limiter.tellNotes();
      // By what the rates count of it, where there are any.
      if (share?.settled(lease.used ?? reported)) isRefunded = true;
    }
    if (isRefunded) this.limiter.grantNow();
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.state === 'over') return;
    const { failure } = this;
    if (this.holder) this.holder = undefined;
    const [how, why] = failure === undefined ? [outcome, error] : (['error', failure] as const);
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the first of the chain
    for (let lease: Lease | undefined = this; lease; lease = lease.parent) {
      const { limiter, share }: Lease = lease;
      lease.state = 'over';
      share?.released(how === 'unused');
      // All limiters are refunded before any of them grants: a full bucket above would lose the refund to the next grant.
      if (how === 'unused') limiter.gate.rates?.refund(lease, limiter.now());
    }
    this.end(how, why);
  }

  private end(outcome: Outcome, error: unknown): void {
    const { limiter, parent } = this;
    const { gate, releases } = limiter;
    try {
      if (releases.observed) {
        const releasedAt = limiter.now();
        const { grantedAt = releasedAt } = this;
        releases.next({ outcome, error, grantedAt, releasedAt, executing: gate.executing });
      }
      limiter.freedBy(outcome, gate.free(this));
    } finally {
      // Also when a callback of the next grant throws.
      parent?.end(outcome, error);
    }
  }

  observe(response: ResponseLike): void {
    this.limiter.learn(response, this);
  }

  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void {
    if (typeof (work as Partial<PromiseLike<unknown>> | undefined | null)?.then !== 'function')
      throw new FlowConfigError(NAME, 'work', 'a promise', work);
    if (this.isReleased) return;
    if (error !== undefined) this.failure ??= error;
    this.abandon();
    const failed = (reason: unknown): void => {
      this.release('error', reason);
    };
    try {
      // Once: the `then` of a query builder sends its request.
      work.then(() => {
        this.release();
      }, failed);
    } catch (reason) {
      failed(reason);
    }
  }

  /** The work was cancelled but still runs: the lease keeps its slots for a while. */
  private abandon(): void {
    const { limiter } = this;
    if (limiter.isAborting || limiter.settings.abortGraceMs === 0) this.release('cancelled');
    else {
      limiter.now();
      if (limiter.gate.abandon(this)) limiter.arm();
    }
  }
}

/** The limiter of a ticket, as that sees it. */
export interface TicketOwner extends LeaseOwner {
  /** Reads the clocks here and above, and answers the gate. */
  upToDate(): TreeGate;
  /** The ticket leaves the queue. */
  leave(ticket: Ticket): void;
  /** Takes the ticket out of the queue and rejects it with the error. */
  refuse(ticket: Ticket, error: unknown, how?: 'dropped'): void;
  /** Work that runs under its leases. */
  readonly running: Chain<RunningWork>;
}

/** Running work, which is cancelled when the limiter is closed. */
export interface RunningWork extends Linked<RunningWork> {
  /** Rejects the caller with the error and cancels the work. */
  failWith(error: unknown): void;
}

/** Made by `heldBy`: told what becomes of a job whose work already holds a lease. */
export interface HolderHooks {
  granted(lease: Lease): void;
  waits(ticket: Ticket): void;
}

/** A request for a lease; once granted, the lease itself. A hundred thousand of them may wait, so each kind has the fields it needs and no more. */
export abstract class Ticket extends Lease implements GateJob<Ticket> {
  declare readonly limiter: TicketOwner;
  previous: Ticket | undefined = undefined;
  next: Ticket | undefined = undefined;
  override lane = 0;
  declare key?: unknown;
  declare index?: number;
  declare id?: string | number;
  declare deadlineMs?: number;
  declare readonly isBidder?: true;
  declare hooks?: HolderHooks;
  /** Stands for a job of a child limiter. */
  declare readonly isPlace?: true;
  // Only queues that form batches read this.
  declare readonly weight: number;

  get isWaiting(): boolean {
    return this.state === 'waiting';
  }

  /**
   * What it wants now; undefined to leave the queue. Only bidders have it. All other tickets are jobs, which count towards the bounds.
   *
   * @throws CallbackError
   */
  bid?(): Charge | undefined;

  /** It was granted, and is a lease now. */
  abstract begin(): void;
  abstract refused(error: unknown): void;
}

/** The ticket of a bidder, which decides what it wants when its turn comes. */
export class BidderTicket extends Ticket implements Place {
  override readonly isBidder = true;
  private readonly bidder: Bidder;
  private isWithdrawn = false;

  constructor(limiter: TicketOwner, lane: number, bidder: Bidder) {
    super(limiter, ONE_REQUEST);
    this.lane = lane;
    this.bidder = bidder;
  }

  override bid(): Charge | undefined {
    const { bidder, lane, limiter } = this;
    // What is bid is input; output may be reserved beside it.
    const affordable = (): number => {
      const gate = limiter.upToDate();
      return Math.min(leftOf(gate, 'inputTokens', lane, true), leftOf(gate, 'tokens', lane, true) - reservedOutput(bidder));
    };
    const bid = bidder.bid ? ask(NAME, 'bid', () => bidder.bid?.(affordable())) : 0;
    if (bid === undefined) return undefined;
    if (!isAmount(bid) || bid === Infinity) throw unusable(NAME, 'bid', 'a finite number >= 0 or undefined', bid);
    const { requests = 1, units } = bidder;
    const tokens = units?.['tokens'] ?? bid + reservedOutput(bidder);
    if (units) this.charge = { slots: units['slots'] ?? 1, requests, tokens, others: units };
    else this.charge = tokens === 0 && requests === 1 ? ONE_REQUEST : { slots: 1, requests, tokens };
    return this.charge;
  }

  // What a bidder throws must not end the loop that grants: others wait for their end there.
  begin(): void {
    try {
      this.bidder.granted(this);
    } catch (error) {
      report(error);
    }
  }

  refused(error: unknown): void {
    // A listener or `bid` may have withdrawn it since it left the queue.
    if (this.isWithdrawn) return;
    try {
      this.bidder.refused(error);
    } catch (fault) {
      report(fault);
    }
  }

  poke(): void {
    if (this.isWaiting) this.limiter.grantNow();
  }

  withdraw(): void {
    this.isWithdrawn = true;
    this.limiter.leave(this);
  }
}

function reservedOutput({ units }: Bidder): number {
  return units?.['outputTokens'] ?? 0;
}

/** The ticket of a job: for a lease, or for work under one. The caller has subscribed or has a promise. */
export class JobTicket<R> extends Ticket implements Unsubscribable {
  /** The caller's context, kept when it has to wait: its work must not run in the context of whoever releases the permit. */
  context: AsyncContext | undefined = undefined;
  readonly fn: LeasedWork<R> | undefined;
  /** Without a subscriber there is a promise, of the last value. */
  private readonly to: Subscriber<R> | undefined;
  // Of a promise.
  declare resolve: (value: R) => void;
  declare reject: (error: unknown) => void;
  declare private call?: Unsubscribable;

  constructor(limiter: TicketOwner, charge: Charge, lane: number, fn: LeasedWork<R> | undefined, to?: Subscriber<R>) {
    super(limiter, charge);
    this.lane = lane;
    this.fn = fn;
    this.to = to;
  }

  begin(): void {
    const { context, fn, to } = this;
    // A grant just before this one may have made the consumer leave.
    if (to?.closed) this.release('unused');
    else if (fn) {
      const call = new LeasedCall(this);
      // Only a subscriber can leave. Not set for promises: the garbage collector looks at an old object that points to a young one every time.
      if (to) this.call = call;
      call.begin(context);
    } else if (context) context.run(handOver, this as unknown as JobTicket<Lease>);
    else handOver(this as unknown as JobTicket<Lease>);
  }

  /** Emits one of several values; false for a promise, for which only the last counts. */
  emit(value: R): boolean {
    this.to?.next(value);
    return this.to !== undefined;
  }

  ended(value: R, isEmpty: boolean): void {
    if (this.to) this.to.complete();
    else if (isEmpty) rejectEmpty(this.reject);
    else this.resolve(value);
  }

  refused(error: unknown): void {
    if (this.to) this.to.error(error);
    else this.reject(error);
  }

  /** Leaves the queue, or cancels the work. */
  unsubscribe(): void {
    if (this.state === 'waiting') this.limiter.leave(this);
    this.call?.unsubscribe();
  }
}

function handOver(ticket: JobTicket<Lease>): void {
  ticket.emit(ticket);
  ticket.ended(ticket, false);
}

/** Running work under a lease; also the context that the work gets. */
class LeasedCall<R> extends PermittedCall<R> implements LeaseContext, RunningWork {
  previous: RunningWork | undefined = undefined;
  next: RunningWork | undefined = undefined;
  readonly lease: JobTicket<R>;

  constructor(lease: JobTicket<R>) {
    super();
    this.lease = lease;
    this.permit = lease;
    lease.limiter.running.push(this);
  }

  work(): WorkResult<R> {
    const { fn } = this.lease;
    return (fn as LeasedWork<R>)(this);
  }

  override got(value: R): void {
    if (!this.lease.emit(value)) super.got(value);
  }

  done(value: R, isEmpty: boolean): void {
    this.isOver();
    this.release();
    this.lease.ended(value, isEmpty);
  }

  failed(error: unknown): void {
    this.isOver();
    // The error first: whoever cancels other work because of it must not see that work begin.
    this.lease.refused(error);
    this.release('error', error);
  }

  failWith(error: unknown): void {
    this.lease.refused(error);
    this.unsubscribe();
  }

  /** The consumer has left; after its end this does nothing, and the permit goes back later. */
  unsubscribe(): void {
    if (!this.isOpen) return;
    this.isOver();
    this.cancel();
  }

  private isOver(): void {
    this.lease.limiter.running.remove(this);
  }
}
