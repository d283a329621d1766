import type { Subscriber } from 'rxjs';
import { onAbort } from '../abort.js';
import type { Settled } from '../types.js';
import type { Job } from './job.js';
import { FLYING } from './job.js';

/** Whom an item is for: a load alone, or all that share it. */
export interface Party<T, R> {
  job: Job<T, R> | undefined;
  /** Nobody waits for the item. */
  readonly isEmpty: boolean;
  add(load: Load<T, R>): void;
  /** False when it was not waiting. */
  remove(load: Load<T, R>): boolean;
  settle(job: Job<T, R>): void;
}

/** One load; its own party when loads are not deduplicated, which saves an object for each. */
export abstract class Load<T, R> implements Party<T, R> {
  job: Job<T, R> | undefined;
  /** Set before the item is offered: a caller may leave while that is going on. */
  party: Party<T, R> | undefined;
  signalLoads: SignalLoads<T, R> | undefined;

  get isEmpty(): boolean {
    return this.party !== this;
  }

  abstract settled(job: Job<T, R>): void;
  /** Left, or never accepted. */
  abstract refused(error: unknown): void;

  add(): void {
    this.party = this;
  }

  remove(): boolean {
    const waited = this.party === this;
    this.party = undefined;
    return waited;
  }

  settle(job: Job<T, R>): void {
    this.party = undefined;
    this.end(job);
  }

  end(job: Job<T, R>): void {
    this.signalLoads?.remove(this);
    this.settled(job);
  }
}

/** `loadAsync`. */
export class PromiseLoad<T, R> extends Load<T, R> {
  readonly promise: Promise<R>;
  #resolve: (value: R) => void = noop;
  #reject: (error: unknown) => void = noop;

  constructor() {
    super();
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  settled(job: Job<T, R>): void {
    if (job.failed) this.refused(job.reason);
    else this.#resolve(job.value);
  }

  refused(error: unknown): void {
    // Whoever awaits it still sees the rejection; whoever does not is not killed by it. Only now: a handler costs a promise.
    this.promise.catch(noop);
    this.#reject(error);
  }
}

/** `load`. */
export class StreamLoad<T, R> extends Load<T, R> {
  readonly #to: Subscriber<R>;

  constructor(to: Subscriber<R>) {
    super();
    this.#to = to;
  }

  settled(job: Job<T, R>): void {
    if (job.failed) {
      this.#to.error(job.reason);
    } else {
      this.#to.next(job.value);
      this.#to.complete();
    }
  }

  refused(error: unknown): void {
    this.#to.error(error);
  }
}

/** `loadSettled`. */
export class SettledLoad<T, R> extends Load<T, R> {
  readonly #to: Subscriber<Settled<T, R>>;
  readonly #input: T;

  constructor(to: Subscriber<Settled<T, R>>, input: T) {
    super();
    this.#to = to;
    this.#input = input;
  }

  settled(job: Job<T, R>): void {
    this.#emit(job.toSettled());
  }

  refused(reason: unknown): void {
    this.#emit({ status: 'rejected', reason, input: this.#input, index: -1, id: '', attempts: 0 });
  }

  #emit(result: Settled<T, R>): void {
    this.#to.next(result);
    this.#to.complete();
  }
}

/** The loads that share an item. Nearly always there is one, so the set is only made for the second. */
export class SharedItem<T, R> implements Party<T, R> {
  job: Job<T, R> | undefined;
  #first: Load<T, R> | undefined;
  #others: Set<Load<T, R>> | undefined;

  constructor(readonly key: unknown) {}

  get isEmpty(): boolean {
    return this.#first === undefined && (this.#others === undefined || this.#others.size === 0);
  }

  add(load: Load<T, R>): void {
    if (this.#first === undefined) this.#first = load;
    else (this.#others ??= new Set()).add(load);
  }

  remove(load: Load<T, R>): boolean {
    if (this.#first !== load) return this.#others?.delete(load) ?? false;
    this.#first = undefined;
    return true;
  }

  settle(job: Job<T, R>): void {
    const first = this.#first;
    const others = this.#others;
    this.#first = undefined;
    this.#others = undefined;
    first?.end(job);
    if (others) for (const load of others) load.end(job);
  }
}

/** The loads that one signal ends, with one listener for all of them: Node warns of a leak above ten. */
export class SignalLoads<T, R> {
  readonly #loads = new Set<Load<T, R>>();
  readonly #stopListening: () => void;

  /** @param leave takes a load out of where it waits; @param done nobody needs this any more */
  constructor(
    signal: AbortSignal,
    leave: (load: Load<T, R>) => void,
    readonly done: () => void,
  ) {
    const end = (underWay: boolean): void => {
      for (const load of [...this.#loads]) {
        if ((load.party?.job?.state === FLYING) !== underWay) continue;
        leave(load);
        load.refused(signal.reason);
      }
    };
    this.#stopListening = onAbort(signal, () => {
      // Those that wait first: a slot that is freed must not go to a load that leaves next.
      end(false);
      end(true);
    });
  }

  add(load: Load<T, R>): void {
    this.#loads.add(load);
    load.signalLoads = this;
  }

  remove(load: Load<T, R>): void {
    if (!this.#loads.delete(load) || this.#loads.size > 0) return;
    this.#stopListening();
    this.done();
  }
}

function noop(): void {
  // nothing to do
}
