import type { Subscriber, Unsubscribable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Waiter } from '../../kernel/queues/queue.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import type { LeaseContext, LeasedWork } from '../../options/limiter.js';
import type { Bidder, Outcome, Permit, Place } from '../../options/permits.js';
import type { ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { PermittedCall } from '../call.js';
import { rejectEmpty } from '../last-value.js';
import { NAME } from './settings.js';

/** What leases and tickets tell the limiter that they are of. */
export interface Lessor {
  settled(lease: Lease, tokens: number): void;
  freed(lease: Lease, outcome: Outcome, error: unknown): void;
  learn(response: ResponseLike, lease: Lease): void;
  /** The work was given up, and is not over. */
  lingers(lease: Lease): void;
  /** It does not want to wait any more. */
  leave(ticket: Ticket): void;
  /** What it wants has changed. */
  poked(): void;
  /** Takes it out of the queue, and tells it why. */
  refuse(ticket: Ticket, error: unknown, how?: 'dropped'): void;
  /** Work under its leases. */
  readonly running: Set<RunningWork>;
}

/** Work that can be ended, because the limiter is closed. */
export interface RunningWork {
  giveUp(error: unknown): void;
}

/** The right to what was charged. */
export class Lease implements Permit {
  readonly pump: Lessor;
  /** What it takes; of a bidder what it has bid last. */
  charge: Charge;
  isReleased = false;
  // Few have these, so the others have no room for them.
  /** Of the limiter above; settled and released together with this one. */
  declare above?: Lease;
  /** Of whoever keeps to rates: what it has paid by now, since when, and a mark of whoever learns from responses. */
  declare tokens?: number;
  declare grantedAt?: number;
  declare mark?: unknown;
  /** The lease of the work that asked for this one. */
  declare holder?: Lease | undefined;
  /** Why the work was given up. */
  declare private failure?: unknown;

  constructor(pump: Lessor, charge: Charge) {
    this.pump = pump;
    this.charge = charge;
  }

  settle(usage: Usage): void {
    const { inputTokens, outputTokens } = Object(usage) as Usage;
    const tokens = (inputTokens ?? 0) + (outputTokens ?? 0);
    // What a provider says may be anything: of what is no number nothing is known.
    if ((inputTokens ?? outputTokens) === undefined || !isAmount(tokens)) return;
    this.pump.settled(this, tokens);
    for (let { above } = this; above; above = above.above) above.pump.settled(above, tokens);
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.isReleased) return;
    this.isReleased = true;
    const { above, failure } = this;
    if (this.holder) this.holder = undefined;
    const [how, why] = failure === undefined ? [outcome, error] : (['error', failure] as const);
    try {
      this.pump.freed(this, how, why);
    } finally {
      // Whatever a callback of those who are served now throws.
      above?.release(how, why);
    }
  }

  observe(response: ResponseLike): void {
    this.pump.learn(response, this);
  }

  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void {
    if (typeof (work as Partial<PromiseLike<unknown>> | undefined | null)?.then !== 'function')
      throw new FlowConfigError(NAME, 'work', 'a promise', work);
    if (this.isReleased) return;
    if (error !== undefined) this.failure ??= error;
    this.pump.lingers(this);
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

/** Jobs that wait while the work that asked for them holds a lease. */
export interface NestedJobs {
  readonly isEmpty: boolean;
  add(ticket: Ticket, holder: Lease, refuse: () => void): void;
  released(held: Lease): void;
  refuseStuck(): void;
}

/** Who asks has to wait. */
export const WAIT = 'wait';

/** One of limiters above each other. */
export interface Level {
  readonly above: Above | undefined;
  readonly nesting: NestedJobs | undefined;
  readonly changes?: { tell(): void } | undefined;
  // When somebody below has left or wants something else, what his place has bid is out of date.
  letOthersIn(): void;
  poked(): void;
  /** Does now what was left for the end of the frame. */
  catchUp(): void;
  /** So many more of those who wait need no slot. */
  countSlotless(change: number): void;
}

/** What a limiter has of the one above it: leases when they are free, or else places in its queue. */
export interface Above {
  readonly pump: Level;
  /** Places taken. */
  readonly size: number;
  /** Tokens that could be spent at once there. */
  readonly affordable: number;
  /** A lease at once, or none. */
  take(charge: Charge, lane: number): Lease | typeof WAIT;
  /** Whether the limiter above will ask when it has something for this lane. */
  has(lane: number): boolean;
  /** Sees to it that there are places for as many as wait and could go here. */
  seek(most: number): void;
  /** Something waits or runs below, which the limiters above must know. */
  enter(): void;
  /** The place of one that waits below, if it has one. */
  placeOf(ticket: Ticket): { withdraw(): void } | undefined;
  /** Maybe nothing does any more. */
  rested(): void;
}

/** What is done about the work that asks, when it holds a lease itself. */
export interface Asker {
  granted(lease: Lease): void;
  waits(pump: object, ticket: Ticket): void;
}

/** Somebody who wants a lease, and then the lease itself. A hundred thousand of them may wait, so each kind holds what it needs and no more. */
export abstract class Ticket extends Lease implements Waiter<Ticket> {
  previous: Ticket | undefined = undefined;
  next: Ticket | undefined = undefined;
  lane = 0;
  isWaiting = false;
  declare key?: unknown;
  declare id?: string | number;
  declare asker?: Asker;
  /** Stands for a job of a limiter below. */
  declare readonly isPlace?: true;
  // Only batches are formed of what has this.
  declare readonly weight: number;

  /**
   * What it wants now; undefined to give up the place. Of those who decide late; all others are jobs, which count towards the bounds.
   *
   * @throws CallbackError
   */
  bid?(affordable: number): Charge | undefined;

  /** It is a lease now. */
  abstract begin(): void;
  abstract refused(error: unknown): void;
}

/** Work that decides late, and its place. */
export class BidderTicket extends Ticket implements Place {
  private readonly bidder: Bidder;

  constructor(pump: Lessor, lane: number, bidder: Bidder) {
    super(pump, ONE_REQUEST);
    this.lane = lane;
    this.bidder = bidder;
  }

  override bid(affordable: number): Charge | undefined {
    const { bidder } = this;
    const tokens = bidder.bid ? ask(NAME, 'bid', () => bidder.bid?.(affordable)) : 0;
    if (tokens === undefined) return undefined;
    if (!isAmount(tokens) || tokens === Infinity) throw unusable(NAME, 'bid', 'a finite number >= 0 or undefined', tokens);
    const { requests = 1, units } = bidder;
    if (units) this.charge = { slots: units['slots'] ?? 1, requests, tokens, others: units };
    else this.charge = tokens === 0 && requests === 1 ? ONE_REQUEST : { slots: 1, requests, tokens };
    return this.charge;
  }

  begin(): void {
    this.bidder.granted(this);
  }

  refused(error: unknown): void {
    this.bidder.refused(error);
  }

  poke(): void {
    if (this.isWaiting) this.pump.poked();
  }

  withdraw(): void {
    this.pump.leave(this);
  }
}

/** Somebody who knows what he wants: the lease itself, or work to be done under it. He has subscribed, or has a promise. */
export class JobTicket<R> extends Ticket implements Unsubscribable {
  /** Of whoever asked, once it has to wait: what is done belongs to him, not to whoever gives the permit back. */
  context: AsyncContext | undefined = undefined;
  readonly fn: LeasedWork<R> | undefined;
  /** Whoever has subscribed; without one there is a promise, for the last value. */
  private readonly to: Subscriber<R> | undefined;
  // Of a promise.
  declare resolve: (value: R) => void;
  declare reject: (error: unknown) => void;
  declare private call?: Unsubscribable;

  constructor(pump: Lessor, charge: Charge, lane: number, fn: LeasedWork<R> | undefined, to?: Subscriber<R>) {
    super(pump, charge);
    this.lane = lane;
    this.fn = fn;
    this.to = to;
  }

  begin(): void {
    const { context, fn, to } = this;
    // Somebody who was let in at the same time may have made the consumer leave.
    if (to?.closed) this.release('unused');
    else if (fn) {
      const call = new LeasedCall(this);
      // A promise cannot be left; and an old object that points to a young one is looked at in every collection.
      if (to) this.call = call;
      call.begin(context);
    } else if (context) context.run(handOver, this as unknown as JobTicket<Lease>);
    else handOver(this as unknown as JobTicket<Lease>);
  }

  work(context: LeaseContext): WorkResult<R> {
    const { fn } = this;
    return (fn as LeasedWork<R>)(context);
  }

  /** Hands on one of several values; false when only the last counts. */
  said(value: R): boolean {
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

  /** Leaves the queue, or gives up the work. */
  unsubscribe(): void {
    if (this.isWaiting) this.pump.leave(this);
    this.call?.unsubscribe();
  }
}

function handOver(ticket: JobTicket<Lease>): void {
  ticket.said(ticket);
  ticket.ended(ticket, false);
}

/** A call of a function that was wrapped: `this` and what it was given. */
export class WrappedTicket<R> extends JobTicket<R> {
  declare self: unknown;
  declare given: unknown[];

  override work(): WorkResult<R> {
    return (this.fn as (...given: unknown[]) => WorkResult<R>).apply(this.self, this.given);
  }
}

/** Work under a lease, which is what it is told about itself. */
class LeasedCall<R> extends PermittedCall<R> implements LeaseContext, RunningWork {
  readonly lease: JobTicket<R>;

  constructor(lease: JobTicket<R>) {
    super();
    this.lease = lease;
    this.permit = lease;
    lease.pump.running.add(this);
  }

  work(): WorkResult<R> {
    return this.lease.work(this);
  }

  override said(value: R, isWhole: boolean): void {
    if (!this.lease.said(value)) super.said(value, isWhole);
  }

  done(value: R, isEmpty: boolean): void {
    this.isOver();
    this.release();
    this.lease.ended(value, isEmpty);
  }

  failed(error: unknown): void {
    this.isOver();
    // The error is told first: whoever gives up other work for it is not to see that begin.
    this.lease.refused(error);
    this.release('error', error);
  }

  giveUp(error: unknown): void {
    this.lease.refused(error);
    this.unsubscribe();
  }

  /** The consumer has left, or is told the end: then the permit goes back after that. */
  unsubscribe(): void {
    this.isOver();
    if (!this.hasEnded) this.cancel();
  }

  private isOver(): void {
    this.lease.pump.running.delete(this);
  }
}
