import type { Subscriber, Unsubscribable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import type { LeaseContext, LeasedWork } from '../../options/limiter.js';
import type { WorkResult } from '../../options/types.js';
import { Call } from '../call.js';
import { rejectEmpty } from '../last-value.js';
import type { Lessor, RunningWork } from './ticket.js';
import { Ticket } from './ticket.js';

/** Somebody who knows what he wants: the lease itself, or work to be done under it. */
export abstract class JobTicket<R> extends Ticket {
  /** Of whoever asked, once it has to wait: what is done belongs to him, not to whoever gives the permit back. */
  context: AsyncContext | undefined = undefined;
  readonly fn: LeasedWork<R> | undefined;
  declare protected call?: Unsubscribable;

  constructor(pump: Lessor, lane: number, charge: Charge, fn: LeasedWork<R> | undefined) {
    super(pump, lane, charge);
    this.fn = fn;
  }

  /** Nobody wants it any more. */
  abstract readonly hasLeft: boolean;
  /** Hands on one of several values; false when only the last counts. */
  abstract said(value: R): boolean;
  abstract ended(value: R, isEmpty: boolean): void;

  work(context: LeaseContext): WorkResult<R> {
    const { fn } = this;
    return (fn as LeasedWork<R>)(context);
  }

  begin(): void {
    const { context } = this;
    // Somebody who was let in at the same time may have made the consumer leave.
    if (this.hasLeft) this.release('unused');
    else if (this.fn) {
      const call = new LeasedCall(this);
      this.call = call;
      call.begin(context);
    } else if (context) context.run(handOver, this);
    else handOver(this);
  }
}

function handOver(ticket: JobTicket<unknown>): void {
  ticket.said(ticket);
  ticket.ended(ticket, false);
}

/** Somebody who has subscribed, and leaves by unsubscribing: the queue, or the work, which is given up. */
export class SubscriberTicket<R> extends JobTicket<R> implements Unsubscribable {
  private readonly to: Subscriber<R>;

  constructor(pump: Lessor, lane: number, charge: Charge, fn: LeasedWork<R> | undefined, to: Subscriber<R>) {
    super(pump, lane, charge, fn);
    this.to = to;
  }

  get hasLeft(): boolean {
    return this.to.closed;
  }

  said(value: R): boolean {
    this.to.next(value);
    return true;
  }

  ended(): void {
    this.to.complete();
  }

  refused(error: unknown): void {
    this.to.error(error);
  }

  unsubscribe(): void {
    this.pump.leave(this);
    this.call?.unsubscribe();
  }
}

/** Somebody with a promise, which cannot be left. */
export class PromiseTicket<R> extends JobTicket<R> {
  readonly resolve: (value: R) => void;
  readonly refused: (error: unknown) => void;

  constructor(
    pump: Lessor,
    lane: number,
    charge: Charge,
    fn: LeasedWork<R> | undefined,
    resolve: (value: R) => void,
    reject: (error: unknown) => void,
  ) {
    super(pump, lane, charge, fn);
    this.resolve = resolve;
    this.refused = reject;
  }

  get hasLeft(): boolean {
    return false;
  }

  said(): boolean {
    return false;
  }

  ended(value: R, isEmpty: boolean): void {
    if (isEmpty) rejectEmpty(this.refused);
    else this.resolve(value);
  }
}

/** A call of a function that was wrapped: `this` and what it was given. */
export class WrappedTicket<R> extends PromiseTicket<R> {
  declare self: unknown;
  declare given: unknown[];

  override work(): WorkResult<R> {
    return (this.fn as (...given: unknown[]) => WorkResult<R>).apply(this.self, this.given);
  }
}

/** Work under a lease, which is what it is told about itself. */
class LeasedCall<R> extends Call<R> implements LeaseContext, RunningWork {
  slot = -1;
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
