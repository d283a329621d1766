import { Observable, Subscription } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { BatchWork, Job } from './support/batching/batch-engine.js';
import { BatchEngine } from './support/batching/batch-engine.js';
import type { GatedBatchOptions } from './support/batching/batch-options.js';
import { engineConfig } from './support/batching/batch-options.js';
import type { Load, Party } from './support/batching/load.js';
import { PromiseLoad, SettledLoad, SharedItem, SignalLoads, StreamLoad } from './support/batching/load.js';
import { CallbackError, ClosedError } from './support/errors.js';
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
const NO_OPTIONS: LoadOptions = {};

class FlowBatcher<T, R> implements Batcher<T, R> {
  readonly #engine: BatchEngine<T, R>;
  readonly #dedupe: ((item: T) => unknown) | undefined;
  readonly #shared = new Map<unknown, SharedItem<T, R>>();
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
    this.#check(options);
    const load = new PromiseLoad<T, R>();
    this.#join(item, options, load);
    return load.promise;
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
    if (lane !== undefined) this.#engine.checkLane(lane);
    if (deadlineMs !== undefined) durationMs(NAME, 'deadlineMs', deadlineMs);
  }

  #end(error: unknown): void {
    this.#closed = true;
    this.#engine.rejectAll(error);
    this.#engine.finish();
  }

  #join(item: T, options: LoadOptions, load: Load<T, R>): void {
    const { signal, lane, deadlineMs } = options;
    if (this.#closed || signal?.aborted) {
      load.refused(this.#closed ? new ClosedError(NAME) : signal?.reason);
      return;
    }
    let party: Party<T, R>;
    try {
      party = this.#dedupe === undefined ? load : this.#shareable(this.#dedupe(item), deadlineMs);
    } catch (error) {
      load.refused(new CallbackError(NAME, 'dedupe', 'threw', error));
      return;
    }
    load.party = party;
    party.add(load);
    if (signal) this.#listen(signal, load);
    if (party.job === undefined) {
      const job = this.#engine.accept(item, party, lane, deadlineMs);
      party.job = job;
      // Your callbacks have run, and may have made the only load leave.
      if (party.isEmpty) this.#engine.leave(job);
      this.#engine.submit(job);
    } else if (lane !== undefined) {
      party.job = this.#engine.hurry(party.job, lane);
    }
  }

  #listen(signal: AbortSignal, load: Load<T, R>): void {
    let loads = this.#stoppable.get(signal);
    if (loads === undefined) {
      const leave = (leaving: Load<T, R>): void => {
        this.#leave(leaving);
      };
      loads = new SignalLoads(signal, leave, () => this.#stoppable.delete(signal));
      this.#stoppable.set(signal, loads);
    }
    loads.add(load);
  }

  #leave(load: Load<T, R>): void {
    const { party, signalLoads } = load;
    signalLoads?.remove(load);
    if (!party?.remove(load) || !party.isEmpty) return;
    this.#forget(party);
    if (party.job) this.#engine.leave(party.job);
  }

  /** The item to wait for: one that is under way, unless this load has a deadline of its own. */
  #shareable(key: unknown, deadlineMs: number | undefined): SharedItem<T, R> {
    if (deadlineMs !== undefined) return new SharedItem(key);
    let item = this.#shared.get(key);
    if (item === undefined) this.#shared.set(key, (item = new SharedItem(key)));
    return item;
  }

  #forget(party: Party<T, R>): void {
    if (party instanceof SharedItem && this.#shared.get(party.key) === party) this.#shared.delete(party.key);
  }

  #settled(job: Job<T, R>): void {
    const party = job.owner as Party<T, R>;
    this.#forget(party);
    party.settle(job);
  }
}
