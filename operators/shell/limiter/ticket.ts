import type { Subscriber, Unsubscribable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Waiter } from '../../kernel/queues/queue.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import type { Bidder } from '../../options/permits.js';
import type { Lease, Lessor } from './lease.js';
import { NAME } from './settings.js';

/** Jobs that wait while the work that asked for them holds a lease. */
export interface NestedJobs {
  readonly isEmpty: boolean;
  add(ticket: Ticket, holder: Lease, refuse: () => void): void;
  released(held: Lease): void;
  refuseStuck(): void;
}

/** What has to be known of a limiter whose jobs may wait for each other. */
export interface NestingLimiter extends Lessor {
  readonly above: { readonly pump: NestingLimiter } | undefined;
  /** Handed out and not released. */
  readonly leases: number;
  nesting: NestedJobs | undefined;
  hasSlots(charge: Charge): boolean;
  least(of: (limiter: { readonly concurrency: number }) => number): number;
  refuse(ticket: Ticket, error: unknown): void;
  refuseStuck(): void;
}

/** What is done about the work that asks, when it holds a lease itself. */
export interface Holder {
  granted(lease: Lease): void;
  waits(pump: NestingLimiter, ticket: Ticket): void;
}

/** Somebody who wants a lease. A hundred thousand of them may wait, so each kind holds what it needs and no more. */
export abstract class Ticket implements Waiter<Ticket> {
  previous: Ticket | undefined = undefined;
  next: Ticket | undefined = undefined;
  /** That it waits in; while it does not wait its complement. */
  lane: number;
  /** What it takes; of a bidder what it has bid last. */
  charge: Charge;
  // Few have these, so the others have no room for them.
  declare key?: unknown;
  declare id?: string | number;
  /** Of whoever says whose work asks. */
  declare holder?: Holder;

  constructor(lane: number, charge: Charge) {
    this.lane = ~lane;
    this.charge = charge;
  }

  get weight(): number {
    return 0;
  }

  get stretch(): number {
    return 0;
  }

  get isWaiting(): boolean {
    return this.lane >= 0;
  }

  /** Says what it wants when it comes, so it counts towards the bounds. */
  get isJob(): boolean {
    return true;
  }

  /** Stands for a job of a limiter below. */
  get isPlace(): boolean {
    return false;
  }

  /** What it wants now; undefined to give up the place. @throws CallbackError */
  bid(_affordable: number): Charge | undefined {
    return this.charge;
  }

  abstract granted(lease: Lease): void;
  abstract refused(error: unknown): void;
}

/** Work that decides late. */
export class BidderTicket extends Ticket {
  private readonly bidder: Bidder;

  constructor(lane: number, bidder: Bidder) {
    super(lane, ONE_REQUEST);
    this.bidder = bidder;
  }

  override get isJob(): boolean {
    return false;
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

  granted(lease: Lease): void {
    this.bidder.granted(lease);
  }

  refused(error: unknown): void {
    this.bidder.refused(error);
  }
}

/** Somebody with a promise. */
export class PromiseTicket extends Ticket {
  readonly granted: (lease: Lease) => void;
  readonly refused: (error: unknown) => void;

  constructor(lane: number, charge: Charge, granted: (lease: Lease) => void, refused: (error: unknown) => void) {
    super(lane, charge);
    this.granted = granted;
    this.refused = refused;
  }
}

/** Somebody who has subscribed, and leaves the queue by unsubscribing. */
export class SubscriberTicket<R> extends Ticket implements Unsubscribable {
  /** Of whoever asked, once it has to wait. */
  context: AsyncContext | undefined = undefined;
  private readonly pump: { leave(ticket: Ticket): void };
  private readonly subscriber: Subscriber<R>;
  /** What is begun under the lease; without it the lease itself is handed over. */
  private readonly start: ((lease: Lease, context: AsyncContext | undefined) => void) | undefined;

  constructor(
    lane: number,
    charge: Charge,
    pump: { leave(ticket: Ticket): void },
    subscriber: Subscriber<R>,
    start?: (lease: Lease, context: AsyncContext | undefined) => void,
  ) {
    super(lane, charge);
    this.pump = pump;
    this.subscriber = subscriber;
    this.start = start;
  }

  granted(lease: Lease): void {
    const { context, subscriber, start } = this;
    // Somebody who was let in at the same time may have made the consumer leave.
    if (subscriber.closed) lease.release('unused');
    else if (start) start(lease, context);
    else if (context) {
      context.run((own) => {
        this.deliver(own);
      }, lease);
    } else this.deliver(lease);
  }

  refused(error: unknown): void {
    this.subscriber.error(error);
  }

  private deliver(lease: Lease): void {
    this.subscriber.next(lease as unknown as R);
    this.subscriber.complete();
  }

  unsubscribe(): void {
    this.pump.leave(this);
  }
}
