import type { Subscriber } from 'rxjs';
import { noop, Observable, Subscription } from 'rxjs';
import type { Job } from './kernel/machine/job.js';
import { DONE, NEW } from './kernel/machine/job.js';
import { leave, promote } from './kernel/machine/leave.js';
import { ask } from './options/ask.js';
import { ClosedError, FlowConfigError } from './options/errors.js';
import { callback, count, durationMs, madeBy, onlyKnown, requiredFunction } from './options/options.js';
import type { BatchOutcome, BatchResult, CallContext, Drained, DrainOptions, Handle, Settled, WorkResult } from './options/types.js';
import { requiredSignal } from './shell/abort.js';
import type { BatchConfig, BatchWork, GateOptions } from './shell/batch-options.js';
import { BATCH_CHECKS, batchConfig } from './shell/batch-options.js';
import { BatchShell } from './shell/batch-shell.js';
import { isPromise } from './shell/call.js';
import { laneAt } from './shell/describe-item.js';
import { keepOne, never } from './shell/keep.js';
import type { KeptValues, LoadCache, LoadCacheRule } from './shell/load-cache.js';
import type { BatcherPlace, LoadOptions, OnEnd } from './shell/loads.js';
import { Item, Load, settledLoad } from './shell/loads.js';
import { Shutdown } from './shell/shutdown.js';
import { SignalGroups } from './shell/signal-groups.js';

export type { LoadCache } from './shell/load-cache.js';
export type { LoadOptions } from './shell/loads.js';

/** Options of {@link createBatcher}. */
export interface BatcherOptions<T, R = never> extends GateOptions<T, R> {
  /**
   * Loads of equal keys, compared as a `Map` does, share one item while it is under way.
   * @defaultValue none, every load is its own item; with a `cache` the item itself, so that objects are compared by identity
   */
  readonly dedupe?: (item: T) => unknown;
  /** Remembers values for later loads of equal keys: {@link lruCache}. Failures are not remembered. @defaultValue none, nothing is remembered after the answer */
  readonly cache?: LoadCache;
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
   * The same as a promise, sent now, or when there is room under a finite `maxQueued` with `overflow: 'error'`. A rejection nobody listens to is not
   * reported as unhandled.
   */
  loadAsync(item: T, options?: LoadOptions): Promise<R>;
  /** The same as `load`, but never errors: emits what became of the item. Its `index` is -1 when no item was needed, or none accepted. */
  loadSettled(item: T, options?: LoadOptions): Observable<Settled<T, R>>;
  /**
   * Loads all items now and answers when each has settled, in the order of the items. Never rejects. The options are for each of them.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `items` is no array
   */
  loadManyAsync(items: readonly T[], options?: LoadOptions): Promise<Settled<T, R>[]>;
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
 * - **Holds at most** `maxQueued` loads that wait and `maxSize` per call under way; with an {@link lruCache}, `maxEntries` values.
 * - **Drops** nothing in silence: a load that has to go rejects with `OverflowError`. `loadAsync` and `loadManyAsync` wait for room instead, where
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
export function createBatcher<T, R, W extends WorkResult<BatchResult<unknown>> = never>(
  work: BatchWork<T, R> | ((items: readonly T[], context: CallContext) => W),
  options?: BatcherOptions<T, NoInfer<BatchOutcome<R, W>>>,
): Batcher<T, BatchOutcome<R, W>>;
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
const LOAD_OPTION_NAMES = ['lane', 'key', 'signal', 'deadlineMs'] as const;

const CHECKS = /* @__PURE__ */ (() => ({
  ...BATCH_CHECKS,
  dedupe: callback,
  cache: madeBy<LoadCacheRule | undefined>('create', 'lruCache({ maxEntries })', undefined),
}))();

/** The options, checked. */
interface BatcherConfig<T> extends BatchConfig<T> {
  readonly dedupe: ((item: T) => unknown) | undefined;
  readonly cache: LoadCacheRule | undefined;
}

/** What {@link createBatcher} makes; whoever builds on it gives it its own name, which is in its errors and events. */
export class FlowBatcher<T, R> extends BatchShell<T, R> implements Batcher<T, R> {
  readonly model: string | undefined;
  readonly key: unknown;
  private readonly shutdown: Shutdown;
  private readonly following = new Subscription();
  private readonly dedupe: ((item: T) => unknown) | undefined;
  /** The items under way by key, when loads of equal keys share them. */
  private readonly shared: Map<unknown, Item<T, R>> | undefined;
  private readonly values: KeptValues<R> | undefined;
  private readonly stoppable: SignalGroups<Load<T, R>>;
  /** Whether promised loads wait for room where others overflow, and those that do. */
  private readonly isWaitedFor: boolean;
  private readonly line = new Set<Load<T, R>>();
  /** What rejects everything that is given up. */
  private failure: unknown = undefined;

  constructor(work: BatchWork<T, R>, options: BatcherOptions<T, R>, operator = NAME, { waits = true, model, key }: BatcherPlace = {}) {
    requiredFunction(operator, 'work', work);
    const config = batchConfig(operator, options, CHECKS) as BatcherConfig<T>;
    super(config, work);
    const { dedupe, cache, scheduler, concurrency$, flush } = config;
    this.model = model;
    this.key = key;
    this.isWaitedFor = waits && config.overflow === 'error' && config.maxQueued !== Infinity;
    this.dedupe = dedupe;
    this.shared = (dedupe ?? cache) && new Map();
    this.values = cache?.create<R>(scheduler);
    this.stoppable = new SignalGroups((loads, reason) => {
      let left: readonly Load<T, R>[] = [];
      // All of them leave before anybody is told: who is told may do anything.
      this.step(() => {
        left = loads.filter((load) => this.leave(load));
      });
      this.run();
      this.runEffects();
      for (const load of left) load.end(true, reason);
    });
    this.shutdown = new Shutdown({
      operator,
      scheduler,
      stop: () => {
        this.finish();
      },
      abort: (error) => {
        this.giveUpAll(error);
      },
    });
    const error = (fault: unknown): void => {
      this.failed(fault);
    };
    const next = (concurrency: number): void => {
      try {
        this.setConcurrency(count(operator, 'concurrency', concurrency));
      } catch (fault) {
        this.failed(fault);
      }
    };
    this.following.add(concurrency$?.subscribe({ next, error }));
    this.following.add(
      flush?.subscribe({
        next: () => {
          this.flush();
        },
        error,
      }),
    );
  }

  load(item: T, options: LoadOptions = NO_OPTIONS): Observable<R> {
    return this.streamed<R>(item, options, (to, failed, outcome) => {
      if (failed) to.error(outcome);
      else {
        to.next(outcome as R);
        to.complete();
      }
    });
  }

  loadSettled(item: T, options: LoadOptions = NO_OPTIONS): Observable<Settled<T, R>> {
    return this.streamed<Settled<T, R>>(item, options, (to, ...end) => {
      to.next(settledLoad(item, ...end));
      to.complete();
    });
  }

  loadAsync(item: T, options: LoadOptions = NO_OPTIONS): Promise<R> {
    // Most loads: they share nothing, cannot leave, and wait for nothing.
    if (options === NO_OPTIONS && !this.shared && !this.isWaitedFor && !this.shutdown.isClosed) {
      const one = new Item<T, R>(item, undefined);
      const promise = one.promise();
      this.add(one);
      return promise;
    }
    this.check(options);
    const promise = new Promise<R>((resolve, reject) => {
      this.joinInTime(item, options, (failed, outcome) => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- whatever the item failed with
        if (failed) reject(outcome);
        else resolve(outcome as R);
      });
    });
    promise.catch(noop);
    return promise;
  }

  loadManyAsync(items: readonly T[], options: LoadOptions = NO_OPTIONS): Promise<Settled<T, R>[]> {
    const given: unknown = items;
    if (!Array.isArray(given)) throw new FlowConfigError(this.operator, 'items', 'an array', given);
    this.check(options);
    const settled = (item: T): Promise<Settled<T, R>> =>
      new Promise((resolve) => {
        this.joinInTime(item, options, (...end) => {
          resolve(settledLoad(item, ...end));
        });
      });
    return Promise.all(Array.from(items, settled));
  }

  clear(item: T): this {
    if (this.shared === undefined) return this;
    const key = this.keyOf(item);
    this.shared.delete(key);
    this.values?.forget(key);
    return this;
  }

  clearAll(): this {
    this.shared?.clear();
    this.values?.clear();
    return this;
  }

  prime(item: T, value: R): this {
    if (value instanceof Error) throw new FlowConfigError(this.operator, 'value', 'a value, because failures are not remembered', value);
    if (isPromise(value)) throw new FlowConfigError(this.operator, 'value', 'a value that is there', value);
    if (this.values === undefined) return this;
    const key = this.keyOf(item);
    if (!this.shared?.has(key) && !this.values.find(key)) this.values.keep(key, value);
    return this;
  }

  snapshot(): BatcherSnapshot {
    const { machine, permits, waitsIn, values } = this;
    const { queued, calls, heldBack } = machine;
    const heldBy = waitsIn === -1 ? 'window' : permits.executing >= permits.concurrency ? 'slot' : 'rate';
    return { queued, executing: calls.length, heldBy, heldBack, cached: values?.size ?? 0 };
  }

  drain(options?: DrainOptions): Promise<Drained> {
    return this.shutdown.drain(options);
  }

  override close(): void {
    this.shutdown.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    this.shutdown.on(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  private check(options: LoadOptions): void {
    if (options === NO_OPTIONS) return;
    const { operator, config } = this;
    onlyKnown(operator, options, LOAD_OPTION_NAMES, 'load options');
    const { lane, key, signal, deadlineMs } = options;
    if (key !== undefined && !config.queue.keyOf) throw new FlowConfigError(operator, 'key', 'absent unless the `queue` has a `key`', key);
    if (signal !== undefined) requiredSignal(operator, 'signal', signal);
    if (lane !== undefined) laneAt(operator, config.queue, lane);
    if (deadlineMs !== undefined) durationMs(operator, 'deadlineMs', deadlineMs);
  }

  private keyOf(item: T): unknown {
    return this.dedupe ? ask(this.operator, 'dedupe', this.dedupe, item) : item;
  }

  // ---- loads --------------------------------------------------------------------------------------------------------

  private streamed<V>(item: T, options: LoadOptions, told: (to: Subscriber<V>, ...end: Parameters<OnEnd<T, R>>) => void): Observable<V> {
    this.check(options);
    return new Observable((subscriber) => {
      const load = new Load<T, R>(item, options, (...end) => {
        told(subscriber, ...end);
      });
      subscriber.add(() => {
        this.leave(load);
        // Before this returns, even if results are being handed out.
        this.runEffects();
      });
      this.join(load);
    });
  }

  /** For whoever has a promise, and can wait for room. */
  private joinInTime(input: T, options: LoadOptions, onEnd: OnEnd<T, R>): void {
    this.join(new Load(input, options, onEnd), this.isWaitedFor);
  }

  /** @param isLetIn whether it has waited, and is served although the batcher drains */
  private join(load: Load<T, R>, waits = false, isLetIn = false): void {
    const { input, options } = load;
    const { signal, lane, deadlineMs } = options;
    if (this.refuses(load, isLetIn)) return;
    let key: unknown;
    if (this.shared) {
      try {
        key = this.keyOf(input);
      } catch (error) {
        load.end(true, error);
        return;
      }
      // `dedupe` may have closed the batcher, or aborted the signal.
      if (this.refuses(load, isLetIn)) return;
    }
    const known = this.values?.find(key);
    if (known) {
      load.end(false, known.value);
      return;
    }
    const shared = deadlineMs === undefined ? this.shared : undefined;
    const found = shared?.get(key);
    if (signal) load.leaveSignal = this.stoppable.add(signal, load);
    if (!found && waits && (this.line.size > 0 || this.machine.room <= 0)) {
      this.line.add(load);
      return;
    }
    const item = found ?? new Item<T, R>(input, key);
    item.join(load);
    if (found) {
      if (lane === undefined) return;
      promote(this.machine, found, laneAt(this.operator, this.config.queue, lane));
      this.run();
      return;
    }
    shared?.set(key, item);
    this.accept(item, options);
    // Your callbacks have run, and may have made the only load leave.
    if (item.isEmpty) this.giveUp(item);
    this.submit(item);
  }

  /** Ends a load that comes too late. */
  private refuses(load: Load<T, R>, isLetIn: boolean): boolean {
    const { signal } = load.options;
    const isClosed = isLetIn ? this.failure !== undefined : this.shutdown.isClosed;
    if (isClosed) load.end(true, new ClosedError(this.operator));
    else if (signal?.aborted) load.end(true, signal.reason);
    else return false;
    return true;
  }

  /** False for a load that was not waiting. */
  private leave(load: Load<T, R>): boolean {
    const { item } = load;
    load.leaveSignal();
    if (this.line.delete(load)) return true;
    if (!item?.part(load)) return false;
    if (item.isEmpty) {
      this.forget(item);
      this.giveUp(item);
    }
    return true;
  }

  /** It is not settled any more, unless it is just being accepted. A call is stopped when its last member has left. */
  private giveUp(item: Item<T, R>): void {
    if (item.state === DONE || item.state === NEW) return;
    this.step(() => {
      leave(this.machine, item);
    });
    this.run();
  }

  /** Nobody else is to share it. False when its key was cleared. */
  private forget(item: Item<T, R>): boolean {
    return this.shared?.get(item.loadKey) === item && this.shared.delete(item.loadKey);
  }

  private giveUpAll(error: unknown): void {
    const { line, shutdown } = this;
    this.failure = error;
    const loads = [...line];
    line.clear();
    shutdown.count('dropped', loads.length);
    for (const load of loads) load.end(true, error);
    this.rejectAll(error);
    this.finish();
  }

  // ---- what the shell tells -----------------------------------------------------------------------------------------

  protected override settled(job: Job<T, R>): void {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- all that is settled here was made here
    const item = job as Item<T, R>;
    // Whoever left while the answer waited for earlier ones is not counted either.
    if (this.shutdown.isClosed && !item.isEmpty) {
      const isGivenUp = item.failed && this.failure !== undefined && item.reason === this.failure;
      this.shutdown.count(isGivenUp ? (item.attempts > 0 ? 'aborted' : 'dropped') : 'done');
    }
    if (this.forget(item) && !item.failed) this.values?.keep(item.loadKey, item.outcome as R);
    item.deliver();
  }

  protected override finished(): void {
    this.following.unsubscribe();
    super.close();
    this.shutdown.finish();
  }

  protected override failed(error: unknown): void {
    this.shutdown.close(error);
  }

  /** Lets in, in their order, as many as there is room for. */
  protected override hasRoom(): void {
    for (const load of this.line) {
      if (this.machine.room <= 0) return;
      this.line.delete(load);
      load.leaveSignal();
      this.join(load, false, true);
    }
  }
}
