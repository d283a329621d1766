import { Observable, Subscription } from 'rxjs';
import { classifyError } from './classify-error.js';
import { ClosedError, FlowConfigError } from './options/errors.js';
import { count, durationMs, known, orDefault, required } from './options/options.js';
import type { Handle, Settled } from './options/types.js';
import { requiredSignal } from './shell/abort.js';
import { Shutdown, ShutdownHandle } from './shell/shutdown.js';
import type { SignalGroups } from './shell/signal-groups.js';
import { isPromise } from './shell/work.js';
import type { BatchWork } from './support/batching/batch-engine.js';
import { BatchEngine } from './support/batching/batch-engine.js';
import type { GatedBatchOptions } from './support/batching/batch-options.js';
import { engineConfig } from './support/batching/batch-options.js';
import type { Load } from './support/batching/load.js';
import { Item, isItem, ManyLoad, ManyResults, PromiseLoad, SettledLoad, StreamLoad, signalLoads } from './support/batching/load.js';
import type { Kept, LoadCacheMap, LoadCacheOptions } from './support/batching/load-memory.js';
import { LoadMemory } from './support/batching/load-memory.js';

export type { CachedLoad, LoadCacheMap, LoadCacheOptions } from './support/batching/load-memory.js';

export interface BatcherOptions<T, R = never> extends GatedBatchOptions<T, R> {
  /**
   * Loads of equal keys, compared as a `Map` does, share one item while it is under way.
   * @defaultValue none, every load is its own item; with a `cache` the item itself, so that objects are compared by identity
   */
  readonly dedupe?: (item: T) => unknown;
  /**
   * Remembers values for later loads of equal keys: so many of them, or in a map of yours. Failures are not remembered.
   * @defaultValue none, nothing is remembered after the answer
   */
  readonly cache?: LoadCacheOptions | LoadCacheMap<R>;
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
  /** Values the `cache` keeps, with those past their time that nobody has asked for since; 0 for a map of yours. */
  readonly cached: number;
}

export interface Batcher<T, R> extends Handle {
  /** One request per subscription: emits the item's result and completes, or errors with its reason. Unsubscribing leaves. */
  load(item: T, options?: LoadOptions): Observable<R>;
  /**
   * The same as a promise, sent now, or when there is room under a finite `maxQueued` with `overflow: 'error'`. A rejection nobody listens to is not reported as unhandled. With `dedupe` or `cache`, loads of equal
   * keys without options are given the same promise while their item is under way; with a `cache` of its own, one promise afterwards as well.
   */
  loadAsync(item: T, options?: LoadOptions): Promise<R>;
  /** The same as `load`, but never errors: emits what became of the item. Its `index` is -1 when no item was needed, or none accepted. */
  loadSettled(item: T, options?: LoadOptions): Observable<Settled<T, R>>;
  /**
   * Loads all items now and answers when each has settled, in the order of the items. Never rejects. The options are for each of them.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `items` is no array
   */
  loadMany(items: readonly T[], options?: LoadOptions): Promise<Settled<T, R>[]>;
  /** Forgets the value of an item's key. What is under way for it answers those who wait for it, and nobody later. */
  clear(item: T): this;
  /** Forgets all values, as `clear` does one. */
  clearAll(): this;
  /**
   * Puts a value in the cache, unless one is there or under way; `clear(item).prime(item, value)` replaces it. Does nothing without a
   * cache. A promise is waited for: its value is put there then, unless the key is cleared meanwhile, and loads that come before that ask for
   * themselves. One that rejects is forgotten.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for an `Error`: failures are not remembered
   */
  prime(item: T, value: R | PromiseLike<R>): this;
  /** Sends what waits as soon as permits allow, whatever the window. */
  flush(): void;
  snapshot(): BatcherSnapshot;
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
 * - **Holds at most** `maxQueued` loads that wait and `maxSize` per call under way; with a `cache`, `maxEntries` values.
 * - **Drops** nothing in silence: a load that has to go rejects with `OverflowError`. `loadAsync` and `loadMany` wait for room instead, where
 *   `overflow` is `'error'`; their deadline runs from when they are let in.
 * - **Completes when** `drain` has been called and every load has settled; the promise of `drain` then resolves. A load completes
 *   after its value.
 * - **Errors when** the item fails, its deadline passes, its signal aborts (with the signal's reason), the queue overflows, or the
 *   batcher is closed (`ClosedError`): always that one load. A `window` that throws, and a changing `concurrency` that errors or is
 *   out of range, end every load and close the batcher.
 * - **On unsubscribe** from a load it leaves the queue or its call. A call is stopped when the last of its loads has left.
 *
 * Every accepted load settles exactly once. With `dedupe`, loads of equal keys share an item while it is under way; one with a
 * `deadlineMs` of its own always gets its own, and one that names a more urgent `lane` takes the waiting item there. With `cache`, later
 * loads of the key are answered at once with the value, until it is cleared, too old, or pushed out; failures are not remembered.
 *
 * @param work - As for {@link batchMap}.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range. `load` throws it for
 *   options nobody knows or a `deadlineMs` that is no duration, and `LaneUnknownError` for a lane nobody declared.
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
 * @example Values are kept for later loads, up to a bound.
 * ```ts
 * import { of } from 'rxjs';
 * import { createBatcher } from 'sluice/operators';
 *
 * const calls: number[][] = [];
 * const squares = createBatcher((items: readonly number[]) => {
 *   calls.push([...items]);
 *   return of(items.map((item) => item * item));
 * }, { cache: { maxEntries: 1000, ttlMs: 60_000 } });
 * await squares.loadMany([2, 3]);
 * await squares.loadAsync(3); // => 9
 * await squares.clear(3).prime(4, 16).loadMany([2, 3, 4]);
 * calls; // => [[2, 3], [3]]
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
const NO_OPTIONS: LoadOptions = {};
const LOAD_OPTION_NAMES = ['lane', 'signal', 'deadlineMs'] as const;

/** What {@link createBatcher} makes; whoever builds on it gives it its own name, which is in its errors and events. */
export class FlowBatcher<T, R> extends ShutdownHandle implements Batcher<T, R> {
  readonly #operator: string;
  readonly #engine: BatchEngine<T, R>;
  /** What loads of equal keys share, if they do. */
  readonly #memory: LoadMemory<T, R> | undefined;
  readonly #stoppable: SignalGroups<Load<T, R>>;
  /** Promised loads that wait for room, if they may. */
  readonly #line = new Map<Load<T, R>, { readonly input: T; readonly options: LoadOptions }>();
  readonly #maxQueued: number;
  protected override readonly shutdown: Shutdown;
  /** What rejects everything that is given up. */
  #fate: unknown;

  /** @param waits whether promised loads wait for room where `load` overflows */
  constructor(work: BatchWork<T, R>, options: BatcherOptions<T, R>, operator = NAME, waits = true) {
    super();
    this.#operator = operator;
    required(operator, 'work', work);
    const config = engineConfig(operator, options, classifyError, ['dedupe', 'cache']);
    this.#maxQueued = waits && orDefault(options.overflow, 'error') === 'error' ? config.maxQueued : Infinity;
    const { dedupe, cache } = options;
    this.#memory =
      dedupe === undefined && cache === undefined ? undefined : new LoadMemory(operator, { dedupe, cache, scheduler: config.scheduler });
    const following = new Subscription();
    this.#stoppable = signalLoads((loads) => {
      let left: readonly Load<T, R>[] = [];
      this.#engine.together(() => {
        left = loads.filter((load) => this.#leave(load));
      });
      return left;
    });
    this.shutdown = new Shutdown({
      operator,
      scheduler: config.scheduler,
      stop: () => {
        this.#engine.finish();
      },
      abort: (error) => {
        this.#fate = error;
        this.#refuseLine(error);
        this.#engine.rejectAll(error);
        this.#engine.finish();
      },
    });
    this.#engine = new BatchEngine<T, R>(config, work, {
      settled: (job) => {
        // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- all that is settled here was made here
        this.#settled(job as Item<T, R>);
      },
      finished: () => {
        following.unsubscribe();
        this.#engine.close();
        this.shutdown.finish();
      },
      failed: (error) => {
        this.shutdown.close(error);
      },
      ...(this.#maxQueued !== Infinity && {
        room: () => {
          this.#admit();
        },
      }),
    });
    following.add(
      config.concurrency$?.subscribe({
        next: (concurrency) => {
          try {
            this.#engine.setConcurrency(count(operator, 'concurrency', concurrency));
          } catch (error) {
            this.shutdown.close(error);
          }
        },
        error: (error: unknown) => {
          this.shutdown.close(error);
        },
      }),
    );
    following.add(
      config.flush$?.subscribe({
        next: () => {
          this.#engine.flush();
        },
        error: (error: unknown) => {
          this.shutdown.close(error);
        },
      }),
    );
  }

  load(item: T, options: LoadOptions = NO_OPTIONS): Observable<R> {
    this.#check(options);
    return new Observable((subscriber) => {
      const load = new StreamLoad<T, R>(subscriber);
      subscriber.add(() => {
        this.#leave(load);
      });
      this.#join(item, options, load);
    });
  }

  loadSettled(item: T, options: LoadOptions = NO_OPTIONS): Observable<Settled<T, R>> {
    this.#check(options);
    return new Observable((subscriber) => {
      const load = new SettledLoad<T, R>(subscriber, item);
      subscriber.add(() => {
        this.#leave(load);
      });
      this.#join(item, options, load);
    });
  }

  loadAsync(item: T, options: LoadOptions = NO_OPTIONS): Promise<R> {
    if (options === NO_OPTIONS && !this.shutdown.isClosed && this.#maxQueued === Infinity) {
      return this.#memory === undefined ? this.#loadAlone(item) : this.#loadShared(this.#memory, item);
    }
    this.#check(options);
    const load = new PromiseLoad<T, R>();
    this.#joinInTime(item, options, load);
    return load.promise;
  }

  loadMany(items: readonly T[], options: LoadOptions = NO_OPTIONS): Promise<Settled<T, R>[]> {
    const given: unknown = items;
    if (!Array.isArray(given)) throw new FlowConfigError(this.#operator, 'items', 'an array', given);
    this.#check(options);
    const results = new ManyResults<T, R>(items.length);
    for (const [at, item] of items.entries()) this.#joinInTime(item, options, new ManyLoad(results, at, item));
    return results.promise;
  }

  clear(item: T): this {
    this.#memory?.clear(item);
    return this;
  }

  clearAll(): this {
    this.#memory?.clearAll();
    return this;
  }

  prime(item: T, value: R | PromiseLike<R>): this {
    if (value instanceof Error) throw new FlowConfigError(this.#operator, 'value', 'a value, because failures are not remembered', value);
    if (isPromise(value)) this.#memory?.primeLater(item, value);
    else this.#memory?.prime(item, value);
    return this;
  }

  flush(): void {
    this.#engine.flush();
  }

  snapshot(): BatcherSnapshot {
    const { queued, executing, heldBy, heldBack } = this.#engine;
    return { queued, executing, heldBy, heldBack, cached: this.#memory?.size ?? 0 };
  }

  #check(options: LoadOptions): void {
    if (options === NO_OPTIONS) return;
    known(this.#operator, options, LOAD_OPTION_NAMES, 'load options');
    const { lane, signal, deadlineMs } = options;
    if (signal !== undefined) requiredSignal(this.#operator, 'signal', signal);
    if (lane !== undefined) this.#engine.checkLane(lane);
    if (deadlineMs !== undefined) durationMs(this.#operator, 'deadlineMs', deadlineMs);
  }

  /** Joins when there is room: whoever has a promise can wait. */
  #joinInTime(input: T, options: LoadOptions, load: Load<T, R>): void {
    const { signal } = options;
    const isFull = this.#line.size > 0 || this.#engine.room <= 0;
    if (this.#maxQueued === Infinity || !isFull || this.shutdown.isClosed || signal?.aborted || this.#memory?.knows(input)) {
      this.#join(input, options, load);
      return;
    }
    this.#line.set(load, { input, options });
    if (signal) {
      load.stopping = this.#stoppable.of(signal);
      load.stopping.add(load);
    }
  }

  /** Lets in, in their order, as many as there is room for. */
  #admit(): void {
    for (const [load, { input, options }] of this.#line) {
      if (this.#engine.room <= 0) return;
      this.#line.delete(load);
      load.stopping?.remove(load);
      this.#join(input, options, load, true);
    }
  }

  #refuseLine(error: unknown): void {
    const loads = [...this.#line.keys()];
    this.#line.clear();
    this.shutdown.count('dropped', loads.length);
    for (const load of loads) {
      load.stopping?.remove(load);
      load.refused(error);
    }
  }

  /** @param isInTime whether it came before a drain, and is still served */
  #join(input: T, options: LoadOptions, load: Load<T, R>, isInTime = false): void {
    const { signal, lane, deadlineMs } = options;
    const isClosed = this.shutdown.isClosed && !isInTime;
    if (isClosed || signal?.aborted) {
      load.refused(isClosed ? new ClosedError(this.#operator) : signal?.reason);
      return;
    }
    let item: Item<T, R>;
    if (this.#memory) {
      let known;
      try {
        known = this.#open(this.#memory, input, deadlineMs !== undefined, isInTime);
      } catch (error) {
        load.refused(error);
        return;
      }
      if (!isItem<T, R>(known)) {
        load.given(known.value);
        return;
      }
      item = known;
    } else {
      item = new Item(input, undefined, 0);
    }
    load.item = item;
    item.add(load);
    // `dedupe` may have aborted it, and no listener hears of that any more.
    if (signal?.aborted) {
      this.#leave(load);
      load.refused(signal.reason);
      return;
    }
    if (signal) {
      load.stopping = this.#stoppable.of(signal);
      load.stopping.add(load);
    }
    if (item.index === -1) this.#send(item, lane, deadlineMs);
    else if (lane !== undefined) this.#engine.hurry(item, lane);
  }

  /** @throws what the load is refused with */
  #open(memory: LoadMemory<T, R>, item: T, alone: boolean, isInTime = false): Item<T, R> | Kept<R> {
    const known = memory.open(item, alone);
    // `dedupe`, or a cache of yours, may have ended the batcher.
    if (isInTime ? this.#fate === undefined : !this.shutdown.isClosed) return known;
    if (isItem<T, R>(known) && known.isEmpty) memory.forget(known);
    throw new ClosedError(this.#operator);
  }

  #loadAlone(input: T): Promise<R> {
    const item = new Item<T, R>(input, undefined, 0);
    const promise = item.promise();
    this.#engine.add(item);
    return promise;
  }

  /** Loads that cannot leave need no promise of their own. */
  #loadShared(memory: LoadMemory<T, R>, item: T): Promise<R> {
    let known;
    try {
      known = this.#open(memory, item, false);
    } catch (error) {
      const load = new PromiseLoad<T, R>();
      load.refused(error);
      return load.promise;
    }
    const promise = known.promise();
    if (isItem<T, R>(known) && known.index === -1) this.#engine.add(known);
    return promise;
  }

  #send(item: Item<T, R>, lane?: string, deadlineMs?: number): void {
    this.#engine.accept(item, lane, deadlineMs);
    // Your callbacks have run, and may have made the only load leave.
    if (item.isEmpty) this.#engine.leave(item);
    this.#engine.submit(item);
  }

  /** False for a load that was not waiting. */
  #leave(load: Load<T, R>): boolean {
    const { item, stopping } = load;
    stopping?.remove(load);
    if (this.#line.delete(load)) return true;
    if (!item?.remove(load)) return false;
    if (item.isEmpty) {
      this.#memory?.forget(item);
      this.#engine.leave(item);
    }
    return true;
  }

  #settled(item: Item<T, R>): void {
    // Whoever left while the answer waited for earlier ones is not counted either.
    if (this.shutdown.isClosed && !item.isEmpty)
      this.shutdown.count(this.#isGivenUp(item) ? (item.attempts > 0 ? 'aborted' : 'dropped') : 'done');
    this.#memory?.settled(item);
    item.settle();
  }

  #isGivenUp({ failed, reason }: Item<T, R>): boolean {
    return failed && this.#fate !== undefined && reason === this.#fate;
  }
}
