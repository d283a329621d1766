import type { Observable } from 'rxjs';
import { noop } from 'rxjs';
import { Job } from '../../kernel/machine/job.js';
import { durationMs, needs, onlyKnown } from '../../options/options.js';
import type { Handle, Settled } from '../../options/types.js';
import { requiredSignal } from '../calls/abort.js';
import { settledOf } from '../calls/call.js';
import { laneAt } from '../calls/describe-item.js';
import type { BatchConfig } from './batch-options.js';

/** Called once with the result of a load; the item is undefined when none was needed, or none accepted. */
export type OnEnd<T, R> = (failed: boolean, outcome: unknown, item: Item<T, R> | undefined) => void;

/** @stable */
export interface LoadOptions {
  /** One of the declared lanes. @defaultValue what the queue's `by` says, else the last lane */
  readonly lane?: string;
  /**
   * Items of a lane with equal keys share one turn in it, so that a tenant with many loads does not delay the others. Only with a `queue` that has a
   * `key`.
   * @defaultValue what the queue's `key` says
   */
  readonly key?: unknown;
  /** Leaves when it aborts; the call is aborted when all its members have left. */
  readonly signal?: AbortSignal;
  /** Longest time to the result, in ms. @defaultValue the `deadlineMs` option */
  readonly deadlineMs?: number;
}

/** @stable */
export interface BatcherSnapshot {
  /** Accepted and not on their way. */
  readonly queued: number;
  /** Calls under way. */
  readonly executing: number;
  /** What keeps the queued items from leaving now. */
  readonly heldBy: 'slot' | 'rate' | 'window';
  /** Loads that have their answer and wait for earlier ones, under an `order` other than `'completion'`. */
  readonly heldBack: number;
  /** Values the `cache` keeps, with expired ones that were not read since. */
  readonly cached: number;
}

/** @stable */
export interface Batcher<T, R> extends Handle {
  /** One request per subscription: emits the item's result and completes, or errors with its reason. Unsubscribing leaves. */
  load(item: T, options?: LoadOptions): Observable<R>;
  /**
   * The same as a promise, sent now, or when there is room under a finite `maxQueued` with `overflow: 'error'`. A rejection without a listener is not
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
  /** Forgets the value of an item's key. A call under way answers the loads that wait for it, and no later ones. */
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

export const NO_OPTIONS: LoadOptions = {};
const LOAD_OPTION_NAMES = ['lane', 'key', 'signal', 'deadlineMs'] as const;

/** @throws FlowConfigError, or LaneUnknownError */
export function checkLoad<T>({ operator, queue }: BatchConfig<T>, options: LoadOptions): void {
  if (options === NO_OPTIONS) return;
  onlyKnown(operator, options, LOAD_OPTION_NAMES, 'load options');
  const { lane, key, signal, deadlineMs } = options;
  if (!queue.keyOf) needs(operator, 'key', key, 'a queue with keys', 'Use `queue: lanes([…], { key: … })`, or remove `key`.');
  if (signal !== undefined) requiredSignal(operator, 'signal', signal);
  if (lane !== undefined) laneAt(operator, queue, lane);
  if (deadlineMs !== undefined) durationMs(operator, 'deadlineMs', deadlineMs);
}

/** One caller who waits for an item, and may leave. */
export class Load<T, R> {
  /** What it waits for. Set before the item is offered: a caller may leave while that is going on. */
  item: Item<T, R> | undefined = undefined;
  /** Its signal can cancel it no more. */
  leaveSignal: () => void = noop;

  constructor(
    readonly input: T,
    readonly options: LoadOptions,
    private readonly onEnd: OnEnd<T, R>,
  ) {}

  end(failed: boolean, outcome: unknown, item?: Item<T, R>): void {
    this.leaveSignal();
    this.onEnd(failed, outcome, item);
  }
}

/** An item with its waiting callers. One object of one class, because there is one for each load. */
export class Item<T, R> extends Job<T, R> {
  /** What a caller who cannot leave waits for. */
  private promised: Promise<R> | undefined = undefined;
  private resolve: ((value: R) => void) | undefined = undefined;
  private reject: ((error: unknown) => void) | undefined = undefined;
  /** The callers who may leave. */
  private loads: Set<Load<T, R>> | undefined = undefined;

  constructor(
    input: T,
    /** What loads of equal keys find it by, if they do. */
    readonly loadKey: unknown,
  ) {
    super(input);
  }

  /** For an unshared item, whose only caller cannot leave. */
  promise(): Promise<R> {
    return (this.promised = new Promise<R>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    }));
  }

  /** True when no caller waits for it. */
  get isEmpty(): boolean {
    return this.promised === undefined && !this.loads?.size;
  }

  join(load: Load<T, R>): void {
    load.item = this;
    (this.loads ??= new Set()).add(load);
  }

  /** False when it was not waiting. */
  part(load: Load<T, R>): boolean {
    return this.loads?.delete(load) === true;
  }

  /** Hands its result to all its callers. */
  deliver(): void {
    const { loads, promised, resolve, reject, failed, outcome } = this;
    this.loads = undefined;
    if (!failed) resolve?.(outcome as R);
    else if (reject) {
      // Callers that await the promise still get the rejection; without a caller it is not reported as unhandled. Attached only now, because a
      // handler costs a promise.
      promised?.catch(noop);
      reject(outcome);
    }
    if (loads) for (const load of loads) load.end(failed, outcome, this);
  }
}

/** What became of a load, with its own input: another caller's may have the same key. */
export function settledLoad<T, R>(input: T, failed: boolean, outcome: unknown, item: Item<T, R> | undefined): Settled<T, R> {
  const { index = -1, id = '', attempts = 0 } = item ?? {};
  return settledOf({ input, index, id, attempts }, failed, outcome);
}
