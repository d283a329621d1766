import { Observable, Subscription } from 'rxjs';
import { classifyError } from './classify-error.js';
import { onAbort } from './support/abort.js';
import type { BatchWork, Job } from './support/batch-engine.js';
import { BatchEngine } from './support/batch-engine.js';
import type { GatedBatchOptions } from './support/batch-options.js';
import { engineConfig } from './support/batch-options.js';
import { CallbackError, ClosedError } from './support/errors.js';
import { FLYING } from './support/job.js';
import { callback, count, durationMs, required } from './support/options.js';
import type { Settled } from './support/types.js';

export interface BatcherOptions<T, R = never> extends GatedBatchOptions<T, R> {
  /** Loads of equal keys that are under way share one item; nothing is remembered after it settled. @defaultValue none, every load is its own item */
  readonly dedupe?: (item: T) => unknown;
}

export interface LoadOptions {
  /** One of the declared lanes. @defaultValue what the `lane` option says, else the last lane */
  readonly lane?: string;
  /** Leaves when it aborts; the call is aborted when all its members have left. */
  readonly signal?: AbortSignal;
  /** Longest time to the result, in ms. @defaultValue the `itemDeadlineMs` option */
  readonly deadlineMs?: number;
}

/** Numbers of one moment. */
export interface BatcherSnapshot {
  /** Accepted and not on their way. */
  readonly queued: number;
  /** Calls under way. */
  readonly executing: number;
  /** What keeps the queued items from leaving now. */
  readonly heldBy: 'slot' | 'rate' | 'window';
  /** Loads that have their answer and wait for earlier ones, under an `order` other than `'completion'`. */
  readonly heldBack: number;
}

export interface Batcher<T, R> {
  /** One request per subscription: emits the item's result and completes, or errors with its reason. Unsubscribing leaves. */
  load(item: T, options?: LoadOptions): Observable<R>;
  /** The same as a promise, sent now. A rejection nobody listens to is not reported as unhandled. */
  loadAsync(item: T, options?: LoadOptions): Promise<R>;
  /** The same as `load`, but never errors: emits what became of the item. Its `index` is -1 when it was not accepted. */
  loadSettled(item: T, options?: LoadOptions): Observable<Settled<T, R>>;
  /** Sends what waits as soon as permits allow, whatever the window. */
  flush(): void;
  /** Takes no new loads and resolves when every accepted one has settled. */
  drain(): Promise<void>;
  /** Takes no new loads, aborts the calls under way and rejects what has not settled with `ClosedError`. */
  close(): void;
  snapshot(): BatcherSnapshot;
  [Symbol.asyncDispose](): Promise<void>;
}

/** One load. */
class Waiter<T, R> {
  stopListening = noop;
  /** Set before the item is offered: a caller may leave while that is going on. */
  leave = noop;

  constructor(
    readonly settled: (job: Job<T, R>) => void,
    /** Left, or never accepted. */
    readonly refused: (error: unknown) => void,
  ) {}
}

/** The loads that wait for the same item. Nearly always there is one, so the set is only made for the second. */
class Entry<T, R> {
  job: Job<T, R> | undefined;
  #first: Waiter<T, R> | undefined;
  #others: Set<Waiter<T, R>> | undefined;

  constructor(readonly key: unknown) {}

  add(waiter: Waiter<T, R>): void {
    if (this.#first === undefined) this.#first = waiter;
    else (this.#others ??= new Set()).add(waiter);
  }

  /** False when it was not waiting. */
  remove(waiter: Waiter<T, R>): boolean {
    if (this.#first !== waiter) return this.#others?.delete(waiter) ?? false;
    this.#first = undefined;
    return true;
  }

  get isEmpty(): boolean {
    return this.#first === undefined && (this.#others === undefined || this.#others.size === 0);
  }

  settle(job: Job<T, R>): void {
    const first = this.#first;
    const others = this.#others;
    this.#first = undefined;
    this.#others = undefined;
    if (first) settleWaiter(first, job);
    if (others) for (const waiter of others) settleWaiter(waiter, job);
  }
}

/** The loads that one signal ends. */
interface SignalLoads<T, R> {
  readonly entries: Map<Waiter<T, R>, Entry<T, R>>;
  readonly stopListening: () => void;
}

function settleWaiter<T, R>(waiter: Waiter<T, R>, job: Job<T, R>): void {
  waiter.stopListening();
  waiter.settled(job);
}

/**
 * Lets callers who know nothing of each other share calls: each asks for one item and gets its own answer, and what is asked for
 * while the slots are busy travels together. {@link batchMap}'s gate with a return address.
 *
 * ```text marbles/createBatcher
 * source  -a-bc----------|
 *         mergeMap((item) => batcher.load(item)), batcher = createBatcher(work, { concurrency: 1 })
 * a        -----(r|)
 * bc         ...----(r|)
 * result  ------A---(BC)-|
 * ```
 *
 * - **Emits when** the call that carries the item ends: one value, then completion. `loadAsync` answers with a promise, `loadSettled`
 *   with a {@link Settled}, which never errors.
 * - **Sends when** {@link batchMap} would, or after `flush` as soon as a permit is free.
 * - **Holds at most** `maxQueued` loads that wait and `maxSize` per call under way. Nothing is remembered after its answer.
 * - **Drops** nothing in silence: a load that has to go rejects with `OverflowError`.
 * - **Completes when** `drain` has been called and every load has settled; the promise of `drain` then resolves. A load completes
 *   after its value.
 * - **Errors when** the item fails, its deadline passes, its signal aborts (with the signal's reason), the queue overflows, or the
 *   batcher is closed (`ClosedError`): always that one load. A `window` that throws, and a changing `concurrency` that errors or is
 *   out of range, end every load and close the batcher.
 * - **On unsubscribe** from a load it leaves the queue or its call. A call is stopped when the last of its loads has left.
 *
 * Every accepted load settles exactly once. With `dedupe`, loads of equal keys share an item while it is under way; one with a
 * `deadlineMs` of its own always gets its own, and one that names a more urgent `lane` takes the waiting item there.
 *
 * @param work - As for {@link batchMap}.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range. `load` throws it for a
 *   `deadlineMs` that is no duration, and `LaneUnknownError` for a lane nobody declared.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { createBatcher } from 'sluice/operators';
 *
 * const calls: number[][] = [];
 * const users = createBatcher((ids: readonly number[]) => {
 *   calls.push([...ids]);
 *   return of(ids.map((id) => `user ${id}`));
 * }, { dedupe: (id) => id });
 * const names = await Promise.all([users.loadAsync(7), users.loadAsync(3), users.loadAsync(7)]);
 * names; // => ['user 7', 'user 3', 'user 7']
 * calls; // => [[7, 3]]
 * ```
 * @example A load ends with the request it belongs to.
 * ```ts
 * import { NEVER } from 'rxjs';
 * import { createBatcher } from 'sluice/operators';
 *
 * const request = new AbortController();
 * const batcher = createBatcher((texts: readonly string[]) => NEVER);
 * const answer = batcher.loadAsync('hello', { signal: request.signal }).catch((reason: Error) => reason.name);
 * request.abort();
 * await answer; // => 'AbortError'
 * batcher.snapshot().queued; // => 0
 * ```
 * @see {@link batchMap} when the items are a stream already, and its results go on together.
 */
export function createBatcher<T, R>(work: BatchWork<T, R>, options: BatcherOptions<T, NoInfer<R>> = {}): Batcher<T, R> {
  return new FlowBatcher(work, options);
}

const NAME = 'createBatcher';

class FlowBatcher<T, R> implements Batcher<T, R> {
  readonly #engine: BatchEngine<T, R>;
  readonly #dedupe: ((item: T) => unknown) | undefined;
  readonly #shared = new Map<unknown, Entry<T, R>>();
  readonly #stoppable = new Map<AbortSignal, SignalLoads<T, R>>();
  readonly #drained: Promise<void>;
  #closed = false;

  constructor(work: BatchWork<T, R>, options: BatcherOptions<T, R>) {
    required(NAME, 'work', work);
    const config = engineConfig(NAME, options, classifyError, ['dedupe']);
    this.#dedupe = callback(NAME, 'dedupe', options.dedupe);
    const following = new Subscription();
    let finished: () => void = () => undefined;
    this.#drained = new Promise((resolve) => {
      finished = resolve;
    });
    this.#engine = new BatchEngine<T, R>(config, work, {
      settled: (job) => {
        this.#settled(job);
      },
      finished: () => {
        following.unsubscribe();
        this.#engine.close();
        finished();
      },
      failed: (error) => {
        this.#end(error);
      },
    });
    following.add(
      config.concurrency$?.subscribe({
        next: (concurrency) => {
          try {
            this.#engine.setConcurrency(count(NAME, 'concurrency', concurrency));
          } catch (error) {
            this.#end(error);
          }
        },
        error: (error: unknown) => {
          this.#end(error);
        },
      }),
    );
    following.add(
      config.flush$?.subscribe({
        next: () => {
          this.#engine.flush();
        },
        error: (error: unknown) => {
          this.#end(error);
        },
      }),
    );
  }

  load(item: T, options: LoadOptions = {}): Observable<R> {
    this.#check(options);
    return new Observable((subscriber) => {
      const refused = (error: unknown): void => {
        subscriber.error(error);
      };
      const settled = (job: Job<T, R>): void => {
        if (job.failed) {
          subscriber.error(job.reason);
        } else {
          subscriber.next(job.value as R);
          subscriber.complete();
        }
      };
      const waiter = new Waiter(settled, refused);
      subscriber.add(() => {
        waiter.leave();
      });
      this.#join(item, options, waiter);
    });
  }

  loadSettled(item: T, options: LoadOptions = {}): Observable<Settled<T, R>> {
    this.#check(options);
    return new Observable((subscriber) => {
      const emit = (result: Settled<T, R>): void => {
        subscriber.next(result);
        subscriber.complete();
      };
      const settled = (job: Job<T, R>): void => {
        emit(job.toSettled());
      };
      const refused = (reason: unknown): void => {
        emit({ status: 'rejected', reason, input: item, index: -1, id: '', attempts: 0 });
      };
      const waiter = new Waiter(settled, refused);
      subscriber.add(() => {
        waiter.leave();
      });
      this.#join(item, options, waiter);
    });
  }

  loadAsync(item: T, options: LoadOptions = {}): Promise<R> {
    this.#check(options);
    const result = new Promise<R>((resolve, reject) => {
      const settled = (job: Job<T, R>): void => {
        // Whatever the work failed with is handed on as it is.
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors
        if (job.failed) reject(job.reason);
        else resolve(job.value as R);
      };
      this.#join(item, options, new Waiter(settled, reject));
    });
    // Whoever awaits it still sees the rejection; whoever does not is not killed by it.
    result.catch(noop);
    return result;
  }

  flush(): void {
    this.#engine.flush();
  }

  drain(): Promise<void> {
    this.#closed = true;
    this.#engine.finish();
    return this.#drained;
  }

  close(): void {
    this.#end(new ClosedError(NAME));
  }

  snapshot(): BatcherSnapshot {
    const { queued, executing, heldBy, heldBack } = this.#engine;
    return { queued, executing, heldBy, heldBack };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain();
  }

  #check({ lane, deadlineMs }: LoadOptions): void {
    this.#engine.checkLane(lane);
    if (deadlineMs !== undefined) durationMs(NAME, 'deadlineMs', deadlineMs);
  }

  #end(error: unknown): void {
    this.#closed = true;
    this.#engine.rejectAll(error);
    this.#engine.finish();
  }

  /** Adds one load of the item. */
  #join(item: T, options: LoadOptions, waiter: Waiter<T, R>): void {
    const { signal, lane, deadlineMs } = options;
    if (this.#closed || signal?.aborted) {
      waiter.refused(this.#closed ? new ClosedError(NAME) : signal?.reason);
      return;
    }
    let entry: Entry<T, R>;
    try {
      entry = this.#entryFor(item, options);
    } catch (error) {
      waiter.refused(new CallbackError(NAME, 'dedupe', 'threw', error));
      return;
    }
    entry.add(waiter);
    waiter.leave = () => {
      this.#leave(entry, waiter);
    };
    if (signal) this.#listen(signal, entry, waiter);
    if (entry.job === undefined) {
      entry.job = this.#engine.accept(item, entry, lane, deadlineMs);
      // Your callbacks have run, and may have made the only load leave.
      if (entry.isEmpty) this.#engine.leave(entry.job);
      this.#engine.submit(entry.job);
    } else if (lane !== undefined) {
      entry.job = this.#engine.hurry(entry.job, lane);
    }
  }

  /** One listener for all loads of a signal: Node warns of a leak above ten. */
  #listen(signal: AbortSignal, entry: Entry<T, R>, waiter: Waiter<T, R>): void {
    const loads = this.#stoppable.get(signal) ?? this.#firstOf(signal);
    loads.entries.set(waiter, entry);
    waiter.stopListening = () => {
      if (!loads.entries.delete(waiter) || loads.entries.size > 0) return;
      loads.stopListening();
      this.#stoppable.delete(signal);
    };
  }

  #firstOf(signal: AbortSignal): SignalLoads<T, R> {
    const entries = new Map<Waiter<T, R>, Entry<T, R>>();
    const end = (underWay: boolean): void => {
      for (const [waiter, entry] of [...entries]) {
        if ((entry.job?.state === FLYING) !== underWay) continue;
        waiter.leave();
        waiter.refused(signal.reason);
      }
    };
    const stopListening = onAbort(signal, () => {
      // Those that wait first: a slot that is freed must not go to a load that leaves next.
      end(false);
      end(true);
    });
    const loads = { entries, stopListening };
    this.#stoppable.set(signal, loads);
    return loads;
  }

  #leave(entry: Entry<T, R>, waiter: Waiter<T, R>): void {
    waiter.stopListening();
    if (!entry.remove(waiter) || !entry.isEmpty) return;
    this.#forget(entry);
    if (entry.job) this.#engine.leave(entry.job);
  }

  /** The item to wait for: one that is under way when loads are deduplicated, unless this one has a deadline of its own. */
  #entryFor(item: T, { deadlineMs }: LoadOptions): Entry<T, R> {
    if (this.#dedupe === undefined) return new Entry(undefined);
    const key = this.#dedupe(item);
    const shared = deadlineMs === undefined ? this.#shared.get(key) : undefined;
    if (shared) return shared;
    const entry = new Entry<T, R>(key);
    if (deadlineMs === undefined) this.#shared.set(key, entry);
    return entry;
  }

  #forget(entry: Entry<T, R>): void {
    if (this.#shared.get(entry.key) === entry) this.#shared.delete(entry.key);
  }

  #settled(job: Job<T, R>): void {
    const entry = job.owner as Entry<T, R>;
    this.#forget(entry);
    entry.settle(job);
  }
}

function noop(): void {
  // nothing to leave
}
