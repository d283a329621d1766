import type { OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import { requiredFunction } from './options/options.js';
import type { BatchOutcome, BatchResult, CallContext, Settled, WorkResult } from './options/types.js';
import type { BatchWork } from './shell/batch/batch-options.js';
import type { BatchStreamOptions } from './shell/batch/batch-stream.js';
import { BatchStream, streamConfig } from './shell/batch/batch-stream.js';

/**
 * Options of {@link batchMap}.
 * @stable
 */
export type BatchMapOptions<T, R = never> = BatchStreamOptions<T, R>;

/**
 * Sends items in batches through a gate. A batch keeps growing while every slot is busy and leaves when a permit is granted; every item comes
 * out once, with its own result or its own error. Lanes, orders and repairs are values that are passed in.
 *
 * ```text marbles/batchMap
 * source  -a-bcd---------|
 *         batchMap(work, { concurrency: 1 })
 * a        -----(r|)
 * bcd        ...----(r|)
 * result  ------A---(BCD)|
 * ```
 *
 * - **Emits when** an item settles: one {@link Settled} each, as calls end or in the `order` asked for. A passed deadline, an overflow
 *   or a callback that throws rejects its item at once.
 * - **Sends when** a permit is free and a batch is full (`maxSize`, `maxWeight`), has been held for its `window`, is closed by
 *   `closeWhen` or `flush`, or leads with a lane that does not wait. Never an empty batch.
 * - **Holds at most** `maxQueued` items that wait, those between two attempts and results held back by `order` included, and `maxSize`
 *   per call under way.
 * - **Drops** nothing in silence: under an `overflow` other than `'error'` an item goes, and its rejection is emitted.
 * - **Completes when** the source has completed and every item has settled; it then waits for no window.
 * - **Errors when** the source errors (`onSourceError` says what of the accepted items), the queue overflows under `overflow: 'error'`
 *   (`OverflowError`), `window` throws or answers nonsense (`CallbackError`), `flush` errors, or a changing `concurrency` errors or is out
 *   of range. A call that fails never does: `unwrap('first')` behind it errors at the first item that fails for good.
 * - **On unsubscribe** the queue and the timers are gone and every call's signal aborts, once, with a `DOMException` named
 *   `AbortError`, before `unsubscribe` returns. A promise cannot be stopped: in a shared limiter it keeps its slot until it settles or
 *   `abortGraceMs` has passed.
 *
 * The work answers with one result per item, in one of the shapes of {@link BatchResult}: as it is, as a promise, or as the last value of an
 * Observable. One that cannot be matched without guessing rejects the whole batch with `BatchShapeError`; results are never shifted to a
 * neighbour. It runs in the asynchronous context of the subscriber.
 *
 * Source: forming a batch only when it can leave is group commit (DeWitt et al., "Implementation Techniques for Main Memory Database
 * Systems", 1984); cutting up a failed batch is group testing (Dorfman, 1943).
 *
 * @stable
 * @param work - Makes one call. A throw is a failed call.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { delay, of } from 'rxjs';
 * import { batchMap } from 'sluice/operators';
 *
 * const calls: string[][] = [];
 * const embed = (texts: readonly string[]) => {
 *   calls.push([...texts]);
 *   return of(texts.map((text) => text.length)).pipe(delay(5));
 * };
 * const lengths: number[] = [];
 * await of('to', 'be', 'or').pipe(batchMap(embed, { maxSize: 2 })).forEach((settled) => {
 *   if (settled.status === 'fulfilled') lengths.push(settled.value);
 * });
 * calls; // => [['to', 'be'], ['or']]
 * lengths; // => [2, 2, 2]
 * ```
 * @example One bad item does not cost the others their results.
 * ```ts
 * import { of } from 'rxjs';
 * import { batchMap, divideAndConquer } from 'sluice/operators';
 *
 * const answer = (prompts: readonly string[]) => {
 *   if (prompts.includes('bad')) throw Object.assign(new Error('forbidden words'), { status: 400 });
 *   return of(prompts.map((prompt) => prompt.toUpperCase()));
 * };
 * const seen: string[] = [];
 * of('a', 'bad', 'c').pipe(batchMap(answer, { repair: divideAndConquer() })).subscribe((settled) => {
 *   seen.push(settled.status === 'fulfilled' ? settled.value : `${settled.input}: ${(settled.reason as Error).message}`);
 * });
 * seen; // => ['A', 'bad: forbidden words', 'C']
 * ```
 * @see {@link batch} when batches need no gate: logs, frames of a user interface.
 * @see {@link batchMapFrom} when the items come from a list, a generator or a stream that can wait.
 * @see {@link createBatcher} when every caller wants its own answer back.
 */
export function batchMap<T, R, W extends WorkResult<BatchResult<unknown>> = never>(
  work: BatchWork<T, R> | ((items: readonly T[], context: CallContext) => W),
  options?: BatchMapOptions<T, NoInfer<BatchOutcome<R, W>>>,
): OperatorFunction<T, Settled<T, BatchOutcome<R, W>>>;
export function batchMap<T, R>(work: BatchWork<T, R>, options: BatchMapOptions<T, NoInfer<R>> = {}): OperatorFunction<T, Settled<T, R>> {
  requiredFunction('batchMap', 'work', work);
  const config = streamConfig('batchMap', options);
  return (source) =>
    new Observable((subscriber) => {
      new BatchStream<T, R>(config, work, subscriber).follow(source);
    });
}
