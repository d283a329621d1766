import type { Subscriber } from 'rxjs';
import { noop, Observable, Subscription } from 'rxjs';
import { roomOf } from './kernel/machine/accept.js';
import { DONE, NEW } from './kernel/machine/job.js';
import { leave, promote } from './kernel/machine/leave.js';
import { waitsForRoom } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { ClosedError, FlowConfigError, isFlowError } from './options/errors.js';
import type { LimiterJob } from './options/limiter.js';
import { jobOption } from './options/limiter-option.js';
import { callback, check, misused, nonEmpty, onlyKnown, optional, requiredFunction, unchecked } from './options/options.js';
import type { BatchOutcome, BatchResult, CallContext, Settled, WorkResult } from './options/types.js';
import type { BatchConfig, BatchWork, GateOptions } from './shell/batch/batch-options.js';
import { BATCH_CHECKS, batchConfig } from './shell/batch/batch-options.js';
import type { BatchOutput, CallOwner } from './shell/batch/batch-shell.js';
import { BatchShell } from './shell/batch/batch-shell.js';
import type { CacheMap, LoadCache, LoadCacheRule, Values } from './shell/batch/load-cache.js';
import { OwnValues } from './shell/batch/load-cache.js';
import type { Batcher, BatcherSnapshot, LoadOptions, OnEnd } from './shell/batch/loads.js';
import { checkLoad, Item, Load, NO_OPTIONS, settledLoad } from './shell/batch/loads.js';
import { isPromise } from './shell/calls/call.js';
import { laneAt } from './shell/calls/describe-item.js';
import type { Shutdown } from './shell/calls/shutdown.js';
import { ShutdownHandle } from './shell/calls/shutdown.js';
import { SignalGroups } from './shell/calls/signal-groups.js';

export type { CacheMap } from './shell/batch/load-cache.js';
export type { Batcher, BatcherSnapshot, LoadOptions } from './shell/batch/loads.js';

/** @stable */
export interface BatcherOptions<T, R = never> extends GateOptions<T, R> {
  /**
   * Loads of equal keys, compared as a `Map` does, share one item while it is under way.
   * @defaultValue none, every load is its own item; with a `cache` the item itself, so that objects are compared by identity
   */
  readonly dedupe?: (item: T) => unknown;
  /**
   * Remembers values for later loads of equal keys: {@link lruCache}, or a cache of your own in memory, such as a `Map`. Failures are not remembered.
   * @defaultValue none, nothing is remembered after the answer
   */
  readonly cache?: LoadCache | CacheMap<R>;
  /** Model and key of all calls under the `limiter`: for one with limits per model, or with lanes that keys share. @defaultValue none */
  readonly job?: Pick<LimiterJob, 'model' | 'key'>;
  /** What errors and events call it, for functions built on this one. @defaultValue 'createBatcher' */
  readonly operator?: string;
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
 *   out of range, end every load and close the batcher: it is the `cause` of the `ClosedError` of later loads.
 * - **On unsubscribe** from a load it leaves the queue or its call. A call is stopped when the last of its loads has left.
 *
 * Every accepted load settles exactly once. With `dedupe`, loads of equal keys share an item while it is under way; one with a
 * `deadlineMs` of its own always gets its own, and one that names a more urgent `lane` takes the waiting item there. With `cache`, later
 * loads of the key are answered at once with the value, until it is cleared, too old, or pushed out; failures are not remembered.
 *
 * @stable
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
  const { operator = NAME, job, limiter } = Object(options) as BatcherOptions<T, R>;
  nonEmpty(NAME, 'operator', operator);
  const owner = jobOption(operator, job, limiter) ?? {};
  onlyKnown(operator, owner, ['model', 'key'], 'job', 'job.');
  return new FlowBatcher(work, options, operator, owner);
}

const NAME = 'createBatcher';

const CHECKS = /* @__PURE__ */ (() => ({
  ...BATCH_CHECKS,
  dedupe: callback,
  cache: optional(
    check<LoadCacheRule | CacheMap<never>>(
      'lruCache(maxEntries), or a cache with `get`, `set`, `delete` and `clear`',
      (cache) => has(cache, 'create') || ['get', 'set', 'delete', 'clear'].every((method) => has(cache, method)),
    ),
  ),
  job: unchecked,
  operator: unchecked,
}))();

function has(value: unknown, method: string): boolean {
  return typeof (Object(value) as Record<string, unknown>)[method] === 'function';
}

/** The options, checked. */
interface BatcherConfig<T> extends BatchConfig<T> {
  readonly dedupe: ((item: T) => unknown) | undefined;
  readonly cache: LoadCacheRule | CacheMap<never> | undefined;
}

/** What {@link createBatcher} makes. */
class FlowBatcher<T, R> extends ShutdownHandle implements Batcher<T, R> {
  private readonly config: BatcherConfig<T>;
  private readonly shell: BatchShell<T, R>;
  protected override readonly shutdown: Shutdown;
  private readonly following = new Subscription();
  private readonly dedupe: ((item: T) => unknown) | undefined;
  /** The items under way by key, when loads of equal keys share them. */
  private readonly shared: Map<unknown, Item<T, R>> | undefined;
  private readonly values: Values<R> | undefined;
  private readonly stoppable: SignalGroups<Load<T, R>>;
  /** Promised loads that wait for room where others overflow. */
  private readonly line = new Set<Load<T, R>>();
  /** What rejects everything that is given up. */
  private failure: unknown = undefined;

  constructor(work: BatchWork<T, R>, options: BatcherOptions<T, R>, operator = NAME, owner: CallOwner = {}) {
    super();
    requiredFunction(operator, 'work', work);
    const config = batchConfig(operator, options, CHECKS, { operator }) as BatcherConfig<T>;
    this.config = config;
    this.shell = new BatchShell<T, R>(config, work, this.output(), owner);
    const { dedupe, cache, scheduler, concurrency$, flush } = config;
    this.dedupe = dedupe;
    this.shared = (dedupe ?? cache) && new Map();
    if (cache) this.values = 'get' in cache ? new OwnValues<R>(operator, cache) : cache.create<R>(scheduler);
    this.stoppable = new SignalGroups((loads, reason) => {
      let left: readonly Load<T, R>[] = [];
      // All of them leave before any is told, because what is told may do anything.
      this.shell.change(() => {
        left = loads.filter((load) => this.leave(load));
      });
      this.shell.runEffects();
      for (const load of left) load.end(true, reason);
    });
    this.shutdown = this.shutdownOf({
      operator,
      scheduler,
      stop: () => {
        this.shell.finish();
      },
      abort: (error) => {
        this.giveUpAll(error);
      },
    });
    const error = (fault: unknown): void => {
      this.shutdown.close(fault);
    };
    this.following.add(
      concurrency$?.subscribe({
        next: (concurrency) => {
          this.shell.setConcurrency(concurrency);
        },
        error,
      }),
    );
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
      this.shell.add(one);
      return promise;
    }
    checkLoad(this.config, options);
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
    if (!Array.isArray(given)) throw new FlowConfigError(this.config.operator, 'items', 'an array', given);
    checkLoad(this.config, options);
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
    if (value instanceof Error)
      throw misused(this.config.operator, 'value', '`value` is an error, and errors are not cached', 'Pass a result.');
    if (isPromise(value)) throw misused(this.config.operator, 'value', '`value` is a promise', 'Await it first.');
    if (this.values === undefined) return this;
    const key = this.keyOf(item);
    if (!this.shared?.has(key) && !this.values.find(key)) this.values.keep(key, value);
    return this;
  }

  snapshot(): BatcherSnapshot {
    const { machine, permits } = this.shell;
    const { queued, heldBack, waitsIn } = machine;
    const heldBy = waitsIn === -1 ? 'window' : permits.executing >= permits.concurrency ? 'slot' : 'rate';
    return { queued, executing: machine.calls.length, heldBy, heldBack, cached: this.values?.size ?? 0 };
  }

  flush(): void {
    this.shell.flush();
  }

  /** Whether promised loads wait for room. */
  private get isWaitedFor(): boolean {
    return waitsForRoom(this.config.bounds);
  }

  private keyOf(item: T): unknown {
    return this.dedupe ? ask(this.config.operator, 'dedupe', this.dedupe, item) : item;
  }

  // ---- loads --------------------------------------------------------------------------------------------------------

  private streamed<V>(item: T, options: LoadOptions, told: (to: Subscriber<V>, ...end: Parameters<OnEnd<T, R>>) => void): Observable<V> {
    checkLoad(this.config, options);
    return new Observable((subscriber) => {
      const load = new Load<T, R>(item, options, (...end) => {
        told(subscriber, ...end);
      });
      subscriber.add(() => {
        this.leave(load);
        // Before this returns, even if results are being handed out.
        this.shell.runEffects();
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
    let known: { readonly value: R } | undefined;
    if (this.shared) {
      try {
        key = this.keyOf(input);
        known = this.values?.find(key);
      } catch (error) {
        load.end(true, error);
        return;
      }
      // `dedupe` and `cache` may have closed the batcher, or aborted the signal.
      if (this.refuses(load, isLetIn)) return;
    }
    if (known) {
      load.end(false, known.value);
      return;
    }
    const shared = deadlineMs === undefined ? this.shared : undefined;
    const found = shared?.get(key);
    if (signal) load.leaveSignal = this.stoppable.add(signal, load);
    if (!found && waits && (this.line.size > 0 || roomOf(this.shell.machine) <= 0)) {
      this.line.add(load);
      return;
    }
    const item = found ?? new Item<T, R>(input, key);
    item.join(load);
    if (found) {
      if (lane === undefined) return;
      this.shell.change(() => {
        promote(this.shell.machine, found, laneAt(this.config.operator, this.config.queue, lane));
      });
      return;
    }
    shared?.set(key, item);
    this.shell.accept(item, options);
    // Your callbacks have run, and may have made the only load leave.
    if (item.isEmpty) this.giveUp(item);
    this.shell.submit(item);
  }

  /** Ends a load that comes too late. */
  private refuses(load: Load<T, R>, isLetIn: boolean): boolean {
    const { signal } = load.options;
    const isClosed = isLetIn ? this.failure !== undefined : this.shutdown.isClosed;
    // What came after the failure of an option is to hear of it, too.
    if (isClosed)
      load.end(true, new ClosedError(this.config.operator, isFlowError(this.failure, 'FLOW_CLOSED') ? undefined : this.failure));
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
    this.shell.change(() => {
      leave(this.shell.machine, item);
    });
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
    this.shell.rejectAll(error);
    this.shell.finish();
  }

  // ---- what the shell hands out -------------------------------------------------------------------------------------

  private output(): BatchOutput<T, R> {
    return {
      settled: (job) => {
        // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- all that is settled here was made here
        this.settled(job as Item<T, R>);
      },
      finished: () => {
        this.following.unsubscribe();
        this.shell.close();
        this.shutdown.finish();
      },
      failed: (error) => {
        this.shutdown.close(error);
      },
      hasRoom: () => {
        this.letIn();
      },
    };
  }

  private settled(item: Item<T, R>): void {
    // A load that left while the answer waited for earlier ones is not counted either.
    if (this.shutdown.isClosed && !item.isEmpty) {
      const isGivenUp = item.failed && this.failure !== undefined && item.reason === this.failure;
      this.shutdown.count(isGivenUp ? (item.attempts > 0 ? 'aborted' : 'dropped') : 'done');
    }
    if (this.forget(item) && !item.failed) this.values?.keep(item.loadKey, item.outcome as R);
    item.deliver();
  }

  /** Lets in, in their order, as many as there is room for. */
  private letIn(): void {
    for (const load of this.line) {
      if (roomOf(this.shell.machine) <= 0) return;
      this.line.delete(load);
      load.leaveSignal();
      this.join(load, false, true);
    }
  }
}
