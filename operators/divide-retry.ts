import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { Job } from './kernel/machine/job.js';
import { FIFO } from './kernel/queues/line.js';
import { FlowConfigError } from './options/errors.js';
import { laneOption } from './options/limiter-option.js';
import { count, onlyKnown, optional, requiredFunction } from './options/options.js';
import type { BatchOutcome, BatchResult, CallContext, Settled, WorkResult } from './options/types.js';
import { divideAndConquer } from './repair.js';
import { requiredSignal } from './shell/abort.js';
import type { BatchConfig, BatchWork, GateOptions } from './shell/batch-options.js';
import { BATCH_CHECKS, batchConfig } from './shell/batch-options.js';
import { BatchShell } from './shell/batch-shell.js';
import { settledOf } from './shell/call.js';
import { AbortCalls } from './shell/signal-groups.js';

const NAME = 'divideRetry';

const OPTIONS: readonly (keyof DivideRetryOptions<unknown>)[] = [
  ...(['concurrency', 'limiter', 'lane', 'weigh', 'id', 'repair', 'classify', 'timeoutMs', 'deadlineMs'] as const),
  ...(['onEvent', 'name', 'scheduler', 'random'] as const),
];

/** Options of {@link divideRetry}. */
export interface DivideRetryOptions<T>
  extends Pick<
    GateOptions<T>,
    'limiter' | 'weigh' | 'id' | 'classify' | 'timeoutMs' | 'deadlineMs' | 'onEvent' | 'name' | 'scheduler' | 'random'
  > {
  /** Calls at a time for one list of items. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number;
  /** Lane of all its calls in the limiter. @defaultValue the limiter's last lane */
  readonly lane?: string;
  /** What is done about a call that fails. @defaultValue `divideAndConquer()` */
  readonly repair?: GateOptions<T>['repair'];
}

/** What one run may be told; a number, as `mergeMap` passes along, tells nothing. */
export interface DivideRetryContext {
  /** Ends the run with the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Makes work on a list survive its bad items: the list is sent in one call, what fails is cut up until the bad item stands
 * alone, and every item comes back with its own result or its own error.
 *
 * ```text marbles/divideRetry
 *           divideRetry(work)([...'abcdefgh'])
 * abcdefgh  --#
 * ab          --(r|)
 * cd          --#
 * ef          ------(r|)
 * gh          --(r|)
 * c             ----#
 * d             --------(r|)
 * result    ------------(R|)
 *           # = Error: forbidden words
 *           R = "ABcDEFGH"
 * ```
 *
 * - **Emits when** every item has settled: one list of {@link Settled}, in the order of the items.
 * - **Sends** nothing before it is subscribed to, and afresh for every subscriber. The first call has all items, unless they weigh more
 *   than the limiter can ever grant; every call needs a permit of its own.
 * - **Cuts up** what fails because of some of its items (`itemFault`, `tooLarge`), never a 429, a 5xx, a 401, a connection or an abort.
 * - **Holds at most** the items it was given.
 * - **Drops** nothing.
 * - **Completes when** it has emitted; for no items at once, with an empty list and without a call.
 * - **Errors when** `signal` aborts, with its reason. A call that fails never errors the result.
 * - **On unsubscribe** every call's signal aborts, once, with a `DOMException` named `AbortError`; nothing is sent any more.
 *
 * Work that answers at once makes a result at once. Work that fails whatever it is given is found out: see {@link divideAndConquer}.
 *
 * Source: group testing (Dorfman, 1943), with the difference that a good item must be part of one call that succeeds.
 *
 * @param work - Makes one call, as for {@link batchMap}. A throw is a failed call; an Observable answers with its last value.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range. What it returns throws it for `items`
 *   that are no array and a `signal` that is none.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { divideRetry } from 'sluice/operators';
 *
 * const calls: string[] = [];
 * const translate = divideRetry((texts: readonly string[]) => {
 *   calls.push(texts.join(' '));
 *   if (texts.includes('bad')) throw Object.assign(new Error('forbidden words'), { status: 400 });
 *   return of(texts.map((text) => text.toUpperCase()));
 * });
 * const seen: string[] = [];
 * translate(['a', 'bad', 'c']).subscribe((settled) => {
 *   for (const one of settled) seen.push(one.status === 'fulfilled' ? one.value : `${one.input}: ${(one.reason as Error).message}`);
 * });
 * seen; // => ['A', 'bad: forbidden words', 'C']
 * calls; // => ['a bad c', 'a', 'bad', 'c']
 * ```
 * @see {@link batchMap} when batches are yet to be formed: there `repair: divideAndConquer()` does the same, each part under its own permit.
 */
export function divideRetry<T, R, W extends WorkResult<BatchResult<unknown>> = never>(
  work: BatchWork<T, R> | ((items: readonly T[], context: CallContext) => W),
  options?: DivideRetryOptions<T>,
): (items: readonly T[], context?: DivideRetryContext | number) => Observable<Settled<T, BatchOutcome<R, W>>[]>;
export function divideRetry<T, R>(
  work: BatchWork<T, R>,
  options: DivideRetryOptions<T> = {},
): (items: readonly T[], context?: DivideRetryContext | number) => Observable<Settled<T, R>[]> {
  requiredFunction(NAME, 'work', work);
  const config = divideConfig(options);
  const signals = new AbortCalls();

  return (items, context) => {
    if (!Array.isArray(items)) throw new FlowConfigError(NAME, 'items', 'an array', items);
    const signal = signalOf(context);
    return new Observable((subscriber) => {
      if (signal) {
        signals.stop(signal, subscriber, (reason) => {
          subscriber.error(reason);
        });
      }
      const run = new DivideShell<T, R>(config, work, subscriber);
      // A copy: the list may change, and a callback may leave, while the items are taken in.
      for (const item of [...(items as readonly T[])]) {
        if (subscriber.closed) return;
        run.add(new Job<T, R>(item));
      }
      run.finish();
    });
  };
}

/** One list of items, and what becomes of them. */
class DivideShell<T, R> extends BatchShell<T, R> {
  private readonly results: Settled<T, R>[] = [];

  constructor(
    config: BatchConfig<T>,
    work: BatchWork<T, R>,
    private readonly to: Subscriber<Settled<T, R>[]>,
  ) {
    super(config, work);
    to.add(() => {
      this.close();
    });
  }

  protected settled(job: Job<T, R>): void {
    this.results[job.index] = settledOf(job, job.failed, job.outcome);
  }

  protected finished(): void {
    this.to.next(this.results);
    this.to.complete();
  }

  protected failed(error: unknown): void {
    this.to.error(error);
  }
}

function signalOf(context: DivideRetryContext | number | undefined): AbortSignal | undefined {
  if (context === undefined || typeof context === 'number') return undefined;
  if (typeof context !== 'object' || (context as unknown) === null) throw new FlowConfigError(NAME, 'context', 'an object', context);
  const { signal } = context;
  return signal === undefined ? undefined : requiredSignal(NAME, 'signal', signal);
}

function divideConfig<T>(options: DivideRetryOptions<T>): BatchConfig<T> {
  onlyKnown(NAME, options, OPTIONS);
  const { lane, ...given } = options;
  optional(count)(NAME, 'concurrency', given.concurrency);
  const config = batchConfig<T, never>(NAME, given as GateOptions<T>, BATCH_CHECKS, { repair: divideAndConquer() });
  const queue = laneOption(NAME, lane, config.limiter) !== undefined && { queue: { ...FIFO, lanes: [{ name: lane }], isDeclared: true } };
  // The batch is what was given: nothing leaves before all of it is there, so nothing looks for what is due before that either.
  return Object.assign(config, { maxSize: Infinity, maxWeight: Infinity, maxQueued: Infinity, window: () => Infinity }, queue);
}
