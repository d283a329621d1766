import { noop } from 'rxjs';
import { Job } from '../kernel/machine/job.js';
import type { Settled } from '../options/types.js';
import { settledOf } from './call.js';
import type { SignalGroup } from './signal-groups.js';
import { SignalGroups } from './signal-groups.js';

/** Called once with the result of a load; the item is undefined when none was needed, or none accepted. */
type OnEnd<T, R> = (failed: boolean, outcome: unknown, item: Item<T, R> | undefined) => void;

/** One caller who waits for an item, and may leave. */
export class Load<T, R> {
  /** What it waits for. Set before the item is offered: a caller may leave while that is going on. */
  item: Item<T, R> | undefined = undefined;
  /** The group of everything that its signal cancels. */
  private stopping: SignalGroup<Load<T, R>> | undefined = undefined;

  constructor(private readonly onEnd: OnEnd<T, R>) {}

  stopWith(group: SignalGroup<Load<T, R>>): void {
    this.stopping = group;
    group.add(this);
  }

  /** Its signal can cancel it no more. */
  leaveSignal(): void {
    this.stopping?.remove(this);
  }

  end(failed: boolean, outcome: unknown, item?: Item<T, R>): void {
    this.leaveSignal();
    this.onEnd(failed, outcome, item);
  }
}

type Resolve = (value: never) => void;
type Reject = (error: unknown) => void;

/** An item with its waiting callers. One object of one class, because there is one for each load. */
export class Item<T, R> extends Job<T, R> {
  /** What `promise` has answered. */
  private shown: Promise<R> | undefined = undefined;
  private resolve: Resolve | undefined = undefined;
  private reject: Reject | undefined = undefined;
  /** The callers who may leave. There is nearly always one at most, so a set is only made for the second. */
  private loads: Load<T, R> | Set<Load<T, R>> | undefined = undefined;

  constructor(
    input: T,
    /** For the memory, if there is one. */
    readonly loadKey: unknown,
  ) {
    super(input);
  }

  /** The same for everybody who cannot leave; it counts as one load that stays. */
  promise(): Promise<R> {
    if (this.shown === undefined) {
      this.shown = new Promise<R>(handOver);
      this.resolve = resolveLast;
      this.reject = rejectLast;
      // They hold on to the promise, and so to its value.
      resolveLast = undefined;
      rejectLast = undefined;
    }
    return this.shown;
  }

  /** The promise that was shown; one for others is not made for it. */
  get promised(): Promise<R> | undefined {
    return this.shown;
  }

  /** Nobody waits for it. */
  get isEmpty(): boolean {
    if (this.reject !== undefined) return false;
    return this.loads instanceof Set ? this.loads.size === 0 : this.loads === undefined;
  }

  join(load: Load<T, R>): void {
    load.item = this;
    if (this.loads === undefined) this.loads = load;
    else if (this.loads instanceof Set) this.loads.add(load);
    else this.loads = new Set([this.loads, load]);
  }

  /** False when it was not waiting. */
  part(load: Load<T, R>): boolean {
    if (this.loads instanceof Set) return this.loads.delete(load);
    const waited = this.loads === load;
    if (waited) this.loads = undefined;
    return waited;
  }

  /** Hands its result to everybody. */
  deliver(): void {
    const { loads, resolve, reject, failed, outcome } = this;
    this.loads = undefined;
    this.resolve = undefined;
    this.reject = undefined;
    if (!failed) resolve?.(outcome as never);
    else if (reject) rejectQuietly(this.shown as Promise<R>, reject, outcome);
    if (loads === undefined) return;
    if (loads instanceof Set) for (const load of loads) load.end(failed, outcome, this);
    else loads.end(failed, outcome, this);
  }
}

/** What the last promise was made with: a function that keeps it would be made for each. */
let resolveLast: Resolve | undefined;
let rejectLast: Reject | undefined;

function handOver(resolve: Resolve, reject: Reject): void {
  resolveLast = resolve;
  rejectLast = reject;
}

export function isItem<T, R>(known: unknown): known is Item<T, R> {
  return known instanceof Item;
}

/** A promise for whoever may leave, and the load that ends it. */
export function promisedLoad<T, R>(): { readonly load: Load<T, R>; readonly promise: Promise<R> } {
  let load: Load<T, R> | undefined;
  const promise = new Promise<R>((resolve, reject) => {
    load = new Load<T, R>((failed, outcome) => {
      if (failed) rejectQuietly(promise, reject, outcome);
      else resolve(outcome as R);
    });
  });
  return { load: load as unknown as Load<T, R>, promise };
}

/** What became of a load, with its own input: another caller's may have the same key. */
export function settledLoad<T, R>(input: T, failed: boolean, outcome: unknown, item: Item<T, R> | undefined): Settled<T, R> {
  const { index = -1, id = '', attempts = 0 } = item ?? {};
  return settledOf({ input, index, id, attempts }, failed, outcome);
}

/** The loads that signals end. @param leave takes them out of where they wait, and of their group; answers those that did wait */
export function signalLoads<T, R>(leave: (loads: readonly Load<T, R>[]) => readonly Load<T, R>[]): SignalGroups<Load<T, R>> {
  return new SignalGroups((group, reason) => {
    // All of them leave before anybody is told: who is told may do anything.
    for (const load of leave(group.members)) load.end(true, reason);
  });
}

/** Whoever awaits it still sees the rejection; whoever does not is not killed by it. Only now: a handler costs a promise. */
function rejectQuietly(promise: Promise<unknown>, reject: Reject, error: unknown): void {
  promise.catch(noop);
  reject(error);
}
