import type { Subscriber } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Charge } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { LeaseContext, LeasedWork } from '../../options/limiter.js';
import type { WorkResult } from '../../options/types.js';
import { Call } from '../call.js';
import { rejectEmpty } from '../last-value.js';
import type { Lease } from './lease.js';
import { Ticket } from './ticket.js';

/** Work under a lease, which is what it is told about itself. */
abstract class LeasedCall<R> extends Call<R> implements LeaseContext, Slotted {
  slot = -1;
  readonly lease: Lease;
  protected readonly running: Bag<LeasedCall<never>>;

  constructor(lease: Lease, running: Bag<LeasedCall<never>>) {
    super();
    this.lease = lease;
    this.permit = lease;
    this.running = running;
    running.add(this as unknown as LeasedCall<never>);
  }

  /** Ends it, because the limiter is closed. */
  abstract giveUp(error: unknown): void;

  protected isOver(): void {
    this.running.delete(this as unknown as LeasedCall<never>);
  }
}

/** What runs under leases of one limiter. */
export class RunningWork {
  readonly calls = new Bag<LeasedCall<never>>();

  giveUp(error: unknown): void {
    for (const call of [...this.calls.items]) call.giveUp(error);
  }
}

/** `run`: hands on every value, and is given up when its consumer leaves. */
export class StreamedCall<R> extends LeasedCall<R> {
  private readonly fn: LeasedWork<R>;
  private readonly to: Subscriber<R>;

  constructor(lease: Lease, running: RunningWork, fn: LeasedWork<R>, to: Subscriber<R>) {
    super(lease, running.calls);
    this.fn = fn;
    this.to = to;
    to.add(this);
  }

  work(): WorkResult<R> {
    const { fn } = this;
    return fn(this);
  }

  override said(value: R): void {
    this.to.next(value);
  }

  done(): void {
    this.isOver();
    this.release();
    this.to.complete();
  }

  failed(error: unknown): void {
    this.isOver();
    // The error is told first: whoever gives up other work for it is not to see that begin.
    this.to.error(error);
    this.release('error', error);
  }

  giveUp(error: unknown): void {
    this.to.error(error);
  }

  /** The consumer has left, or is told the end: then the permit goes back after that. */
  unsubscribe(): void {
    this.isOver();
    if (!this.hasEnded) this.cancel();
  }
}

/** `runAsync` and `wrap`. */
class PromisedCall<R> extends LeasedCall<R> {
  private readonly ticket: WorkTicket<R>;

  constructor(lease: Lease, running: RunningWork, ticket: WorkTicket<R>) {
    super(lease, running.calls);
    this.ticket = ticket;
  }

  work(): WorkResult<R> {
    return this.ticket.work(this);
  }

  done(value: R, isEmpty: boolean): void {
    this.isOver();
    this.release();
    if (isEmpty) rejectEmpty(this.ticket.refused);
    else this.ticket.resolve(value);
  }

  failed(error: unknown): void {
    this.isOver();
    this.release('error', error);
    this.ticket.refused(error);
  }

  giveUp(error: unknown): void {
    this.isOver();
    this.cancel();
    this.ticket.refused(error);
  }
}

/** Work that waits for its lease, and whoever waits for its result with a promise. */
export class WorkTicket<R> extends Ticket {
  readonly resolve: (value: R) => void;
  readonly refused: (error: unknown) => void;
  /** Of whoever asked, once the work has to wait. */
  context: AsyncContext | undefined = undefined;
  protected readonly fn: LeasedWork<R>;
  private readonly running: RunningWork;

  constructor(
    lane: number,
    charge: Charge,
    running: RunningWork,
    fn: LeasedWork<R>,
    resolve: (value: R) => void,
    reject: (error: unknown) => void,
  ) {
    super(lane, charge);
    this.running = running;
    this.fn = fn;
    this.resolve = resolve;
    this.refused = reject;
  }

  work(context: LeaseContext): WorkResult<R> {
    const { fn } = this;
    return fn(context);
  }

  granted(lease: Lease): void {
    new PromisedCall(lease, this.running, this).begin(this.context);
  }
}

/** A call of a function that was wrapped. */
export class WrappedTicket<A extends unknown[], R> extends WorkTicket<R> {
  private readonly self: unknown;
  private readonly given: A;

  constructor(
    lane: number,
    charge: Charge,
    running: RunningWork,
    fn: (...given: A) => WorkResult<R>,
    resolve: (value: R) => void,
    reject: (error: unknown) => void,
    self: unknown,
    given: A,
  ) {
    super(lane, charge, running, fn as unknown as LeasedWork<R>, resolve, reject);
    this.self = self;
    this.given = given;
  }

  override work(): WorkResult<R> {
    return (this.fn as unknown as (...given: A) => WorkResult<R>).apply(this.self, this.given);
  }
}
