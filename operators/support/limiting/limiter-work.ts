import type { Observable, Subscriber } from 'rxjs';
import { EMPTY, Subscription, throwIfEmpty } from 'rxjs';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { WorkResult } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';
import type { WorkObserver } from '../../shell/work.js';
import { isPromise, onlyOnce, startWork } from '../../shell/work.js';
import type { Lease, LeaseContext } from './limiter-types.js';

/** What work under a lease is told. */
class WorkContext extends LazySignal implements LeaseContext {
  constructor(readonly lease: Lease) {
    super();
  }
}

/** What runs for a subscriber. */
export interface LeasedWork extends Slotted {
  /** Errors the subscriber, and thereby ends the work. */
  giveUp(error: unknown): void;
}

/** Runs the work for a subscriber, and releases the lease when the work ends or the subscriber leaves. */
export function runLeased<R>(
  lease: Lease,
  work: (context: LeaseContext) => WorkResult<R>,
  subscriber: Subscriber<R>,
  running: Bag<LeasedWork>,
): void {
  const context = new WorkContext(lease);
  const leased: LeasedWork = {
    slot: -1,
    giveUp: (error) => {
      subscriber.error(error);
    },
  };
  running.add(leased);
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
      // The error is told first: whoever gives up other work for it is not to see that begin.
      subscriber.error(error);
      lease.release('error', error);
    },
  };
  const started = startWork(() => work(context), observer, subscriber);
  subscriber.add(() => {
    running.delete(leased);
    if (over) return;
    started.cancel();
    if (started.isAnswered) {
      lease.release('ok');
      return;
    }
    context.abort();
    if (started.settled) lease.releaseAfter(started.settled);
    else lease.release('cancelled');
  });
}

/** The ends of the work under way. One of `runAsync` that is over is used for the next, which needs no handlers of its own. */
export class Endings {
  /** What runs for subscribers. */
  readonly running = new Bag<LeasedWork>();
  readonly #all: Ending[] = [];
  readonly #idle: Ending[] = [];

  /** Ends all of them. */
  giveUp(error: unknown): void {
    for (const work of [...this.running.items]) work.giveUp(error);
    for (const ending of this.#all) ending.giveUp(error);
  }

  /** Starts the work; releases the lease and settles the promise when it ends. */
  run<R>(
    work: (context: LeaseContext) => WorkResult<R>,
    lease: Lease,
    resolve: (value: R) => void,
    reject: (error: unknown) => void,
  ): void {
    const ending = this.#idle.pop() ?? this.#add();
    const context = new WorkContext(lease);
    ending.begin(context, resolve as (value: unknown) => void, reject);
    let answer: WorkResult<R>;
    let isLater: boolean;
    try {
      answer = work(context);
      isLater = isPromise(answer);
    } catch (error) {
      ending.failed(error);
      return;
    }
    // One made elsewhere might settle twice, and the second time would end the work of another.
    if (isLater) onlyOnce(answer as PromiseLike<R>).then(ending.done, ending.failed);
    else startWork(() => answer, ending, ending.owner());
  }

  #add(): Ending {
    const ending = new Ending(this.#idle);
    this.#all.push(ending);
    return ending;
  }
}

class Ending implements WorkObserver<unknown> {
  readonly #idle: Ending[];
  #context: WorkContext | undefined;
  /** Of an Observable, which can be stopped. */
  #owner: Subscription | undefined;
  #resolve: ((value: unknown) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;

  constructor(idle: Ending[]) {
    this.#idle = idle;
  }

  begin(context: WorkContext, resolve: (value: unknown) => void, reject: (error: unknown) => void): void {
    this.#context = context;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  owner(): Subscription {
    this.#owner = new Subscription();
    return this.#owner;
  }

  /** Answers at once. A promise goes on, and ends this one when it is over; an Observable is left. */
  giveUp(error: unknown): void {
    const reject = this.#reject;
    const context = this.#context;
    this.#resolve = this.#reject = undefined;
    this.#owner?.unsubscribe();
    context?.abort();
    context?.lease.release('cancelled');
    reject?.(error);
  }

  readonly done = (value: unknown, empty?: boolean): void => {
    const resolve = this.#resolve;
    const reject = this.#reject;
    this.#over('ok');
    if (empty) rejectEmpty(reject);
    else resolve?.(value);
  };

  readonly failed = (error: unknown): void => {
    const reject = this.#reject;
    this.#over('error', error);
    reject?.(error);
  };

  /** The release may start the next work, with this very object. */
  #over(outcome: 'ok' | 'error', error?: unknown): void {
    const lease = this.#context?.lease;
    this.#context = this.#owner = this.#resolve = this.#reject = undefined;
    this.#idle.push(this);
    lease?.release(outcome, error);
  }
}

/** Settles a promise with the last value of a stream. */
export function passLastValue<R>(source: Observable<R>, resolve: (value: R) => void, reject: (error: unknown) => void): Subscription {
  let last: { readonly value: R } | undefined;
  return source.subscribe({
    next: (value) => {
      last = { value };
    },
    error: reject,
    complete: () => {
      if (last) resolve(last.value);
      else rejectEmpty(reject);
    },
  });
}

/** The last value of a stream, as a promise that nobody can leave. */
export function lastOf<R>(source: Observable<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    passLastValue(source, resolve, reject);
  });
}

/** With RxJS's own `EmptyError`, which nobody else is to make. */
function rejectEmpty(reject: ((error: unknown) => void) | undefined): void {
  EMPTY.pipe(throwIfEmpty()).subscribe({ error: (error: unknown) => reject?.(error) });
}
