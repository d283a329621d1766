import type { Subscriber } from 'rxjs';
import type { Settled } from '../../options/types.js';
import type { SignalGroup } from '../../shell/signal-groups.js';
import { SignalGroups } from '../../shell/signal-groups.js';
import { Job } from './job.js';

/** Somebody who asked for an item, and may leave. */
export abstract class Load<T, R> {
  /** What it waits for. Set before the item is offered: a caller may leave while that is going on. */
  item: Item<T, R> | undefined;
  /** With everything else that its signal ends. */
  stopping: SignalGroup<Load<T, R>> | undefined;

  abstract settled(job: Job<T, R>): void;
  /** There was a value already. */
  abstract given(value: R): void;
  /** Left, or never accepted. */
  abstract refused(error: unknown): void;

  end(job: Job<T, R>): void {
    this.stopping?.remove(this);
    this.settled(job);
  }
}

/** `loadAsync`, for those who may leave. */
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

  given(value: R): void {
    this.#resolve(value);
  }

  refused(error: unknown): void {
    rejectQuietly(this.promise, this.#reject, error);
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
      this.given(job.value);
    }
  }

  given(value: R): void {
    this.#to.next(value);
    this.#to.complete();
  }

  refused(error: unknown): void {
    this.#to.error(error);
  }
}

/** Tells what became of the item, whatever that is. */
abstract class TellingLoad<T, R> extends Load<T, R> {
  readonly #input: T;

  constructor(input: T) {
    super();
    this.#input = input;
  }

  abstract tell(result: Settled<T, R>): void;

  /** With its own input: another caller's may have the same key. */
  settled(job: Job<T, R>): void {
    this.tell(job.toSettled(this.#input));
  }

  given(value: R): void {
    this.tell({ status: 'fulfilled', value, input: this.#input, index: -1, id: '', attempts: 0 });
  }

  refused(reason: unknown): void {
    this.tell({ status: 'rejected', reason, input: this.#input, index: -1, id: '', attempts: 0 });
  }
}

/** `loadSettled`. */
export class SettledLoad<T, R> extends TellingLoad<T, R> {
  readonly #to: Subscriber<Settled<T, R>>;

  constructor(to: Subscriber<Settled<T, R>>, input: T) {
    super(input);
    this.#to = to;
  }

  tell(result: Settled<T, R>): void {
    this.#to.next(result);
    this.#to.complete();
  }
}

/** One of `loadMany`. */
export class ManyLoad<T, R> extends TellingLoad<T, R> {
  readonly #to: ManyResults<T, R>;
  readonly #at: number;

  constructor(to: ManyResults<T, R>, at: number, input: T) {
    super(input);
    this.#to = to;
    this.#at = at;
  }

  tell(result: Settled<T, R>): void {
    this.#to.put(this.#at, result);
  }
}

/** What became of many loads, in the order of their items. */
export class ManyResults<T, R> {
  readonly promise: Promise<Settled<T, R>[]>;
  readonly #results: Settled<T, R>[];
  #resolve: (results: Settled<T, R>[]) => void = noop;
  #missing: number;

  constructor(size: number) {
    this.#missing = size;
    this.#results = new Array<Settled<T, R>>(size);
    this.promise = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    if (size === 0) this.#resolve(this.#results);
  }

  put(at: number, result: Settled<T, R>): void {
    this.#results[at] = result;
    if (--this.#missing === 0) this.#resolve(this.#results);
  }
}

/** An item, and who waits for it: one object, and of one class, because there is one for each load. */
export class Item<T, R> extends Job<T, R> {
  /** Whether loads of its key find it, and join while it is under way. */
  isListed = false;
  /** Those who may leave. Nearly always there is one at most, so a set is only made for the second. */
  private loads: Load<T, R> | Set<Load<T, R>> | undefined = undefined;
  /** What `promise` has answered. */
  shown: Promise<R> | undefined = undefined;
  private resolve: ((value: R) => void) | undefined = undefined;
  private reject: ((error: unknown) => void) | undefined = undefined;

  constructor(
    input: T,
    /** For the memory, if there is one. */
    readonly key: unknown,
    /** How often something had been cleared when it was made. */
    readonly clears: number,
  ) {
    super(input);
  }

  /** The same for everybody who cannot leave; it counts as one load that stays. */
  promise(): Promise<R> {
    return (this.shown ??= new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    }));
  }

  /** Nobody waits for it. */
  get isEmpty(): boolean {
    if (this.reject !== undefined) return false;
    return this.loads instanceof Set ? this.loads.size === 0 : this.loads === undefined;
  }

  add(load: Load<T, R>): void {
    if (this.loads === undefined) this.loads = load;
    else if (this.loads instanceof Set) this.loads.add(load);
    else this.loads = new Set([this.loads, load]);
  }

  /** False when it was not waiting. */
  remove(load: Load<T, R>): boolean {
    if (this.loads instanceof Set) return this.loads.delete(load);
    const waited = this.loads === load;
    if (waited) this.loads = undefined;
    return waited;
  }

  /** Hands its result to everybody. */
  settle(): void {
    const { loads, resolve, reject } = this;
    this.loads = undefined;
    this.resolve = undefined;
    this.reject = undefined;
    if (!this.failed) resolve?.(this.value);
    else if (reject && this.shown) rejectQuietly(this.shown, reject, this.reason);
    if (loads === undefined) return;
    if (loads instanceof Set) for (const load of loads) load.end(this);
    else loads.end(this);
  }
}

export function isItem<T, R>(known: unknown): known is Item<T, R> {
  return known instanceof Item;
}

/** The loads that signals end. @param leave takes them out of where they wait, and of their group; answers those that did wait */
export function signalLoads<T, R>(leave: (loads: readonly Load<T, R>[]) => readonly Load<T, R>[]): SignalGroups<Load<T, R>> {
  return new SignalGroups((group, reason) => {
    // All of them leave before anybody is told: who is told may do anything.
    for (const load of leave(group.members)) load.refused(reason);
  });
}

/** Whoever awaits it still sees the rejection; whoever does not is not killed by it. Only now: a handler costs a promise. */
function rejectQuietly(promise: Promise<unknown>, reject: (error: unknown) => void, error: unknown): void {
  promise.catch(noop);
  reject(error);
}

function noop(): void {
  // nothing to do
}
