import type { Subscriber, Unsubscribable } from 'rxjs';
import { Subscription } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import { amountOf, ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Amounts } from '../../kernel/limits/usage.js';
import { usedOf } from '../../kernel/limits/usage.js';
import type { LeaseShare } from '../../kernel/queues/keyed-line.js';
import type { Chain, Linked } from '../../kernel/queues/line.js';
import type { Waiter } from '../../kernel/queues/queue.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import type { LeaseContext, LeasedWork } from '../../options/limiter.js';
import type { Bidder, Outcome, Permit, Place } from '../../options/permits.js';
import type { ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { PermittedCall } from '../call.js';
import { rejectEmpty } from '../last-value.js';
import { report } from '../report.js';
import { NAME } from './settings.js';

/** The limiter of a lease or ticket, as that sees it. */
export interface LeaseOwner {
  /** Corrects what the lease has paid. Answers whether something came back, which `grantNow` may grant. */
  settled(lease: Lease, used: Amounts): boolean;
  /** Refunds what was paid for an unused lease; grants nothing. */
  refund(lease: Lease): void;
  released(lease: Lease, outcome: Outcome, error: unknown): void;
  learn(response: ResponseLike, lease: Lease): void;
  /** What a batch of a lane may cost of a unit to go at once, here and above. */
  affordable(unit: string, lane: number): number;
  /** The work was cancelled but still runs: the lease keeps its slot for a while. */
  abandon(lease: Lease): void;
  /** The ticket leaves the queue. */
  leave(ticket: Ticket): void;
  /** A bid has changed: grants at once what can be granted. */
  grantNow(): void;
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

/** Tells when a limiter of ours ends the work of `run`, until that is unsubscribed: for calls that have no other handle than it. */
export function whenGivenUp(limiter: object, giveUp: (error: unknown) => void): Subscription {
  const { running } = limiter as Partial<LeaseOwner>;
  const work: RunningWork = { previous: undefined, next: undefined, failWith: giveUp };
  running?.push(work);
  return new Subscription(() => {
    running?.remove(work);
  });
}

/** A granted permit: the right to what was charged for it. */
export class Lease implements Permit {
  readonly limiter: LeaseOwner;
  /** What it takes from the limits; for a bidder, its last bid. */
  charge: Charge;
  isReleased = false;
  // Few leases have the fields below, so they are not made for all.
  /** The lease of the parent limiter; settled and released together with this one. */
  declare parent?: Lease;
  /** Position of the lane that pays. */
  declare lane?: number;
  /** Where keys share a lane by cost: what this lease counts for its key. */
  declare share?: LeaseShare;
  /** Granted while a lower lane had its turn and waited for a rate. */
  declare passes?: true;
  /** Under rates: what was reported to be used, by unit, when it paid, the number of the payment, and a mark for whoever learns from responses. */
  declare used?: Amounts;
  declare grantedAt?: number;
  declare payment?: number;
  /** When it was first corrected, where it had been granted before there was a limit. */
  declare settledAt?: number;
  /** The number of its last correction, in the order of all payments. */
  declare correction?: number;
  declare mark?: unknown;
  /** Granted by a limiter that would have held it back, if it did that. */
  declare wouldWait?: true;
  /** Its charge is less than its estimate. */
  declare isBounded?: boolean;
  /** The lease of the work that asked for this one. */
  declare holder?: Lease | undefined;
  /** Why the work was cancelled. */
  declare private failure?: unknown;

  constructor(limiter: LeaseOwner, charge: Charge) {
    this.limiter = limiter;
    this.charge = charge;
  }

  settle(usage: Usage): void {
    const used = usedOf(usage);
    if (used === undefined) return;
    let isRefunded = false;
    // All limiters are corrected before any of them grants: a full bucket above would lose the refund to the next grant.
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the first of the chain
    for (let lease: Lease | undefined = this; lease; lease = lease.parent) {
      if (lease.limiter.settled(lease, used)) isRefunded = true;
      // By what the rates count of it, where there are any.
      if (lease.share?.settled(lease.used ?? used)) isRefunded = true;
    }
    if (isRefunded) this.limiter.grantNow();
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.isReleased) return;
    const { failure } = this;
    if (this.holder) this.holder = undefined;
    const [how, why] = failure === undefined ? [outcome, error] : (['error', failure] as const);
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- the first of the chain
    for (let lease: Lease | undefined = this; lease; lease = lease.parent) {
      lease.isReleased = true;
      lease.share?.released(how === 'unused');
      // All limiters are refunded before any of them grants: a full bucket above would lose the refund to the next grant.
      if (how === 'unused') lease.limiter.refund(lease);
    }
    this.end(how, why);
  }

  private end(outcome: Outcome, error: unknown): void {
    const { parent } = this;
    try {
      this.limiter.released(this, outcome, error);
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
    this.limiter.abandon(this);
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
}

/** The answer when no lease can be given now. */
export const WAIT = 'wait';

/** Made by `heldBy`: told what becomes of a job whose work already holds a lease. */
export interface HolderHooks {
  granted(lease: Lease): void;
  waits(ticket: Ticket): void;
}

/** A request for a lease; once granted, the lease itself. A hundred thousand of them may wait, so each kind has the fields it needs and no more. */
export abstract class Ticket extends Lease implements Waiter<Ticket> {
  previous: Ticket | undefined = undefined;
  next: Ticket | undefined = undefined;
  override lane = 0;
  isWaiting = false;
  declare key?: unknown;
  declare index?: number;
  declare id?: string | number;
  declare hooks?: HolderHooks;
  /** Stands for a job of a child limiter. */
  declare readonly isPlace?: true;
  // Only queues that form batches read this.
  declare readonly weight: number;

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
  private readonly bidder: Bidder;
  private isWithdrawn = false;

  constructor(limiter: LeaseOwner, lane: number, bidder: Bidder) {
    super(limiter, ONE_REQUEST);
    this.lane = lane;
    this.bidder = bidder;
  }

  override bid(): Charge | undefined {
    const { bidder, lane, limiter } = this;
    // What is bid is input; output may be reserved beside it.
    const affordable = (): number =>
      Math.min(limiter.affordable('inputTokens', lane), limiter.affordable('tokens', lane) - reservedOutput(bidder));
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

  constructor(limiter: LeaseOwner, charge: Charge, lane: number, fn: LeasedWork<R> | undefined, to?: Subscriber<R>) {
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

  work(context: LeaseContext): WorkResult<R> {
    const { fn } = this;
    return (fn as LeasedWork<R>)(context);
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
    if (this.isWaiting) this.limiter.leave(this);
    this.call?.unsubscribe();
  }
}

function handOver(ticket: JobTicket<Lease>): void {
  ticket.emit(ticket);
  ticket.ended(ticket, false);
}

/** A call of a function made by `wrap`, with its `this` and its arguments. */
export class WrappedTicket<R> extends JobTicket<R> {
  declare self: unknown;
  declare args: unknown[];

  override work(): WorkResult<R> {
    return (this.fn as (...args: unknown[]) => WorkResult<R>).apply(this.self, this.args);
  }
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
    return this.lease.work(this);
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

/** What a lease was charged of a unit when it was granted, where the rates of a limiter bounded its estimate; undefined where none did. */
export function boundedTo(lease: object | undefined, unit: string): number | undefined {
  let least: number | undefined;
  // A lease of another copy of the package counts too, and a lease of a caller's own limiter has neither field.
  for (let at = lease as Partial<Lease> | undefined; at; at = at.parent)
    if (at.isBounded && at.charge) least = Math.min(least ?? Infinity, amountOf(at.charge, unit));
  return least;
}
