import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import { ClosedError, FlowConfigError } from './options/errors.js';
import { callback, count, durationMs, onlyKnown, orDefault, positive, requiredFunction } from './options/options.js';
import type { Handle, Settled } from './options/types.js';
import { requiredSignal } from './shell/abort.js';
import type { BatchConfig, BatchWork, GateOptions } from './shell/batch-options.js';
import { BATCH_CHECKS, batchConfig } from './shell/batch-options.js';
import { isPromise } from './shell/call.js';
import { keepOne, never } from './shell/keep.js';
import type { CachedValue, LoadCacheOptions } from './shell/load-cache.js';
import { LoadCache } from './shell/load-cache.js';
import { LoadShell } from './shell/load-shell.js';
import { Item, isItem, Load, promisedLoad, settledLoad, signalLoads } from './shell/loads.js';
import { Shutdown, ShutdownHandle } from './shell/shutdown.js';
import type { SignalGroups } from './shell/signal-groups.js';

export type { LoadCacheOptions } from './shell/load-cache.js';

/** Options of {@link createBatcher}. */
export interface BatcherOptions<T, R = never> extends GateOptions<T, R> {
  /**
   * Loads of equal keys, compared as a `Map` does, share one item while it is under way.
   * @defaultValue none, every load is its own item; with a `cache` the item itself, so that objects are compared by identity
   */
  readonly dedupe?: (item: T) => unknown;
  /** Remembers so many values for later loads of equal keys. Failures are not remembered. @defaultValue none, nothing is remembered after the answer */
  readonly cache?: LoadCacheOptions;
}

export interface LoadOptions {
  /** One of the declared lanes. @defaultValue what the queue's `by` says, else the last lane */
  readonly lane?: string;
  /** Leaves when it aborts; the call is aborted when all its members have left. */
  readonly signal?: AbortSignal;
  /** Longest time to the result, in ms. @defaultValue the `deadlineMs` option */
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
  /** Values the `cache` keeps, with those past their time that nobody has asked for since. */
  readonly cached: number;
}

export interface Batcher<T, R> extends Handle {
  /** One request per subscription: emits the item's result and completes, or errors with its reason. Unsubscribing leaves. */
  load(item: T, options?: LoadOptions): Observable<R>;
  /**
   * The same as a promise, sent now, or when there is room under a finite `maxQueued` with `overflow: 'error'`. A rejection nobody listens to is not reported as unhandled. With `dedupe` or `cache`, loads of equal
   * keys without options are given the same promise while their item is under way; with a `cache` afterwards as well.
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
   * cache.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for an `Error`, because failures are not remembered, and for a promise
   */
  prime(item: T, value: R): this;
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
  keepOne(NAME, () => {
    const batcher = createBatcher(never, { maxSize: 1, concurrency: 1, timeoutMs: Infinity });
    void batcher.loadAsync(0);
    void batcher.loadAsync(1);
    return batcher;
  });
  return new FlowBatcher(work, options);
}

const NAME = 'createBatcher';
const NO_OPTIONS: LoadOptions = {};
const LOAD_OPTION_NAMES = ['lane', 'signal', 'deadlineMs'] as const;

const CHECKS = /* @__PURE__ */ (() => ({
  ...BATCH_CHECKS,
  dedupe: callback,
  cache: (operator: string, option: string, cache: LoadCacheOptions | undefined) => {
    if (cache === undefined) return undefined;
    onlyKnown(operator, cache, ['maxEntries', 'ttlMs'], option, `${option}.`);
    const maxEntries = count(operator, `${option}.maxEntries`, cache.maxEntries);
    return { maxEntries, ttlMs: positive(operator, `${option}.ttlMs`, orDefault(cache.ttlMs, Infinity)) };
  },
}))();

/** The options, checked. */
interface BatcherConfig<T> extends BatchConfig<T> {
  readonly dedupe: ((item: T) => unknown) | undefined;
  readonly cache: LoadCacheOptions | undefined;
}

/** What {@link createBatcher} makes; whoever builds on it gives it its own name, which is in its errors and events. */
export class FlowBatcher<T, R> extends ShutdownHandle implements Batcher<T, R> {
  protected override readonly shutdown: Shutdown;
  private readonly operator: string;
  private readonly shell: LoadShell<T, R>;
  /** What loads of equal keys share, if they do. */
  private readonly memory: LoadCache<T, R> | undefined;
  private readonly stoppable: SignalGroups<Load<T, R>>;
  /** Promised loads that wait for room, if they may. */
  private readonly line = new Map<Load<T, R>, { readonly input: T; readonly options: LoadOptions }>();
  /** The bound at which they wait. */
  private readonly waitsAt: number;
  /** What rejects everything that is given up. */
  private failure: unknown = undefined;

  /** @param waits whether promised loads wait for room where `load` overflows */
  constructor(work: BatchWork<T, R>, options: BatcherOptions<T, R>, operator = NAME, waits = true) {
    super();
    this.operator = operator;
    requiredFunction(operator, 'work', work);
    const config = batchConfig(operator, options, CHECKS) as BatcherConfig<T>;
    const { dedupe, cache, scheduler } = config;
    this.waitsAt = waits && config.overflow === 'error' ? config.maxQueued : Infinity;
    this.memory = (dedupe ?? cache) === undefined ? undefined : new LoadCache(operator, dedupe, cache, scheduler);
    const following = new Subscription();
    this.stoppable = signalLoads((loads) => {
      let left: readonly Load<T, R>[] = [];
      this.shell.together(() => {
        left = loads.filter((load) => this.leave(load));
      });
      return left;
    });
    this.shutdown = new Shutdown({
      operator,
      scheduler,
      stop: () => {
        this.shell.finish();
      },
      abort: (error) => {
        this.failure = error;
        this.refuseLine(error);
        this.shell.rejectAll(error);
        this.shell.finish();
      },
    });
    const fail = (error: unknown): void => {
      this.shutdown.close(error);
    };
    this.shell = new LoadShell<T, R>(config, work, {
      settled: (item) => {
        this.settled(item);
      },
      finished: () => {
        following.unsubscribe();
        this.shell.close();
        this.shutdown.finish();
      },
      failed: fail,
      admit: () => {
        this.admit();
      },
    });
    following.add(
      config.concurrency$?.subscribe({
        next: (concurrency) => {
          try {
            this.shell.setConcurrency(count(operator, 'concurrency', concurrency));
          } catch (error) {
            fail(error);
          }
        },
        error: fail,
      }),
    );
    following.add(
      config.flush?.subscribe({
        next: () => {
          this.shell.flush();
        },
        error: fail,
      }),
    );
  }

  load(item: T, options: LoadOptions = NO_OPTIONS): Observable<R> {
    return this.streamed(item, options, (to) => (failed, outcome) => {
      if (failed) to.error(outcome);
      else {
        to.next(outcome as R);
        to.complete();
      }
    });
  }

  loadSettled(item: T, options: LoadOptions = NO_OPTIONS): Observable<Settled<T, R>> {
    return this.streamed(item, options, (to) => (failed, outcome, from) => {
      to.next(settledLoad(item, failed, outcome, from));
      to.complete();
    });
  }

  loadAsync(item: T, options: LoadOptions = NO_OPTIONS): Promise<R> {
    if (options === NO_OPTIONS && !this.shutdown.isClosed && this.waitsAt === Infinity) {
      return this.memory === undefined ? this.loadAlone(item) : this.loadShared(this.memory, item);
    }
    this.check(options);
    const { load, promise } = promisedLoad<T, R>();
    this.joinInTime(item, options, load);
    return promise;
  }

  loadMany(items: readonly T[], options: LoadOptions = NO_OPTIONS): Promise<Settled<T, R>[]> {
    const given: unknown = items;
    if (!Array.isArray(given)) throw new FlowConfigError(this.operator, 'items', 'an array', given);
    this.check(options);
    const results = new Array<Settled<T, R>>(items.length);
    let missing = items.length;
    return new Promise((resolve) => {
      if (missing === 0) resolve(results);
      for (const [at, item] of items.entries()) {
        const load = new Load<T, R>((failed, outcome, from) => {
          results[at] = settledLoad(item, failed, outcome, from);
          if (--missing === 0) resolve(results);
        });
        this.joinInTime(item, options, load);
      }
    });
  }

  clear(item: T): this {
    this.memory?.clear(item);
    return this;
  }

  clearAll(): this {
    this.memory?.clearAll();
    return this;
  }

  prime(item: T, value: R): this {
    if (value instanceof Error) throw new FlowConfigError(this.operator, 'value', 'a value, because failures are not remembered', value);
    if (isPromise(value)) throw new FlowConfigError(this.operator, 'value', 'a value that is there', value);
    this.memory?.prime(item, value);
    return this;
  }

  flush(): void {
    this.shell.flush();
  }

  snapshot(): BatcherSnapshot {
    const { machine, heldBy } = this.shell;
    const { queued, calls, heldBack } = machine;
    return { queued, executing: calls.length, heldBy, heldBack, cached: this.memory?.size ?? 0 };
  }

  private streamed<V>(
    item: T,
    options: LoadOptions,
    told: (to: Subscriber<V>) => ConstructorParameters<typeof Load<T, R>>[0],
  ): Observable<V> {
    this.check(options);
    return new Observable((subscriber) => {
      const load = new Load<T, R>(told(subscriber));
      subscriber.add(() => {
        this.leave(load);
      });
      this.join(item, options, load);
    });
  }

  private check(options: LoadOptions): void {
    if (options === NO_OPTIONS) return;
    onlyKnown(this.operator, options, LOAD_OPTION_NAMES, 'load options');
    const { lane, signal, deadlineMs } = options;
    if (signal !== undefined) requiredSignal(this.operator, 'signal', signal);
    if (lane !== undefined) this.shell.checkLane(lane);
    if (deadlineMs !== undefined) durationMs(this.operator, 'deadlineMs', deadlineMs);
  }

  /** Joins when there is room: whoever has a promise can wait. */
  private joinInTime(input: T, options: LoadOptions, load: Load<T, R>): void {
    const { signal } = options;
    const isFull = this.waitsAt !== Infinity && (this.line.size > 0 || this.shell.machine.room <= 0);
    const isOver = (): boolean => this.shutdown.isClosed || signal?.aborted === true;
    // Asking for its key may close it, too.
    if (!isFull || isOver() || this.memory?.knows(input) || isOver()) {
      this.join(input, options, load);
      return;
    }
    this.line.set(load, { input, options });
    if (signal) load.stopWith(this.stoppable.of(signal));
  }

  /** Lets in, in their order, as many as there is room for. */
  private admit(): void {
    for (const [load, { input, options }] of this.line) {
      if (this.shell.machine.room <= 0) return;
      this.line.delete(load);
      load.leaveSignal();
      this.join(input, options, load, true);
    }
  }

  private refuseLine(error: unknown): void {
    const loads = [...this.line.keys()];
    this.line.clear();
    this.shutdown.count('dropped', loads.length);
    for (const load of loads) load.end(true, error);
  }

  /** @param isInTime whether it came before a drain, and is still served */
  private join(input: T, options: LoadOptions, load: Load<T, R>, isInTime = false): void {
    const { signal, lane, deadlineMs } = options;
    const isClosed = this.shutdown.isClosed && !isInTime;
    if (isClosed || signal?.aborted) {
      load.end(true, isClosed ? new ClosedError(this.operator) : signal?.reason);
      return;
    }
    let item: Item<T, R> | CachedValue<R>;
    try {
      item = this.memory ? this.open(this.memory, input, deadlineMs !== undefined, isInTime) : new Item<T, R>(input, undefined);
    } catch (error) {
      load.end(true, error);
      return;
    }
    if (!isItem<T, R>(item)) {
      load.end(false, item.value);
      return;
    }
    item.join(load);
    // `dedupe` may have aborted it, and no listener hears of that any more.
    if (signal?.aborted) {
      this.leave(load);
      load.end(true, signal.reason);
      return;
    }
    if (signal) load.stopWith(this.stoppable.of(signal));
    if (item.index === -1) this.send(item, lane, deadlineMs);
    else if (lane !== undefined) this.shell.promote(item, lane);
  }

  /** @throws what the load is refused with */
  private open(memory: LoadCache<T, R>, item: T, alone: boolean, isInTime = false): Item<T, R> | CachedValue<R> {
    const found = memory.open(item, alone);
    // `dedupe` may have ended the batcher.
    if (isInTime ? this.failure === undefined : !this.shutdown.isClosed) return found;
    if (isItem<T, R>(found) && found.isEmpty) memory.forget(found);
    throw new ClosedError(this.operator);
  }

  private loadAlone(input: T): Promise<R> {
    const item = new Item<T, R>(input, undefined);
    const promise = item.promise();
    this.shell.add(item);
    return promise;
  }

  /** Loads that cannot leave need no promise of their own. */
  private loadShared(memory: LoadCache<T, R>, input: T): Promise<R> {
    let found;
    try {
      found = this.open(memory, input, false);
    } catch (error) {
      const { load, promise } = promisedLoad<T, R>();
      load.end(true, error);
      return promise;
    }
    const promise = found.promise();
    if (isItem<T, R>(found) && found.index === -1) this.shell.add(found);
    return promise;
  }

  private send(item: Item<T, R>, lane?: string, deadlineMs?: number): void {
    this.shell.accept(item, lane, deadlineMs);
    // Your callbacks have run, and may have made the only load leave.
    if (item.isEmpty) this.shell.leave(item);
    this.shell.submit(item);
  }

  /** False for a load that was not waiting. */
  private leave(load: Load<T, R>): boolean {
    const { item } = load;
    load.leaveSignal();
    if (this.line.delete(load)) return true;
    if (!item?.part(load)) return false;
    if (item.isEmpty) {
      this.memory?.forget(item);
      this.shell.leave(item);
    }
    return true;
  }

  private settled(item: Item<T, R>): void {
    // Whoever left while the answer waited for earlier ones is not counted either.
    if (this.shutdown.isClosed && !item.isEmpty) {
      const isGivenUp = item.failed && this.failure !== undefined && item.reason === this.failure;
      this.shutdown.count(isGivenUp ? (item.attempts > 0 ? 'aborted' : 'dropped') : 'done');
    }
    this.memory?.settled(item);
    item.deliver();
  }
}
