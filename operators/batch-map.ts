import type { OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { BatchWork } from './support/batch-engine.js';
import { BatchEngine } from './support/batch-engine.js';
import type { GatedBatchOptions } from './support/batch-options.js';
import { engineConfig } from './support/batch-options.js';
import { connect } from './support/connect.js';
import { count, oneOf, required } from './support/options.js';
import type { Settled } from './support/types.js';

export { GATED_BATCH_DEFAULTS as BATCH_MAP_DEFAULTS } from './support/batch-options.js';

export interface BatchMapOptions<T> extends GatedBatchOptions<T> {
  /**
   * What a source error does: `'abort'` stops everything and errors at once, `'drain'` settles what was accepted first,
   * `'flush'` does the same without waiting for batches to fill (which ends up the same here, where draining never waits for company).
   * @defaultValue 'abort'
   */
  readonly onSourceError?: 'abort' | 'drain' | 'flush';
}

/**
 * Sends items in batches through a gate. A batch goes on growing while every slot is busy and leaves when a permit is granted; what
 * fails is retried or cut up until the bad item stands alone; every item comes out once, with its own result or its own error.
 *
 * ```text marbles/batchMap
 * source  -a-bcd---------|
 *         batchMap(work, { concurrency: 1 })
 * a        -----(r|)
 * bcd           ----(r|)
 * result  ------A---(BCD)|
 * ```
 *
 * - **Emits when** an item settles: one {@link Settled} each, as calls end. A passed deadline, an overflow or a callback that throws
 *   rejects its item at once.
 * - **Sends when** a permit is free and a batch is full (`maxSize`, `maxWeight`), has been held for its `window` or leads with a lane
 *   that does not wait. Never an empty batch.
 * - **Holds at most** `maxQueued` items that wait, those between two attempts included, and `maxSize` per call under way.
 * - **Drops** nothing in silence: under an `overflow` other than `'error'` an item goes, and its rejection is emitted.
 * - **Completes when** the source has completed and every item has settled; it then waits for no window.
 * - **Errors when** the source errors (`onSourceError` says what of the accepted items), the queue overflows under `overflow: 'error'`
 *   (`OverflowError`), `window` throws or answers nonsense (`CallbackError`), or a changing `concurrency` errors or is out of range.
 *   A call that fails never errors the stream.
 * - **On unsubscribe** the queue and the timers are gone and every call's signal aborts, once, with a `DOMException` named
 *   `AbortError`, before `unsubscribe` returns. A promise cannot be stopped: in a shared limiter it keeps its slot until it settles or
 *   `abortGraceMs` has passed.
 *
 * The work answers with one result per item, in one of the shapes of {@link BatchResult}. One that cannot be matched without
 * guessing rejects the whole batch with `BatchShapeError`; results are never shifted to a neighbour. A list returned as it is would
 * be emitted element by element: return `of(list)` or a promise of it.
 *
 * Source: forming a batch only when it can leave is group commit (DeWitt et al., "Implementation Techniques for Main Memory Database
 * Systems", 1984); cutting up a failed batch is group testing (Dorfman, 1943).
 *
 * @param work - Makes one call. A throw is a failed call; an Observable answers with its last value.
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
 * import { batchMap } from 'sluice/operators';
 *
 * const answer = (prompts: readonly string[]) => {
 *   if (prompts.includes('bad')) throw Object.assign(new Error('forbidden words'), { status: 400 });
 *   return of(prompts.map((prompt) => prompt.toUpperCase()));
 * };
 * const seen: string[] = [];
 * of('a', 'bad', 'c').pipe(batchMap(answer)).subscribe((settled) => {
 *   seen.push(settled.status === 'fulfilled' ? settled.value : `${settled.input}: ${(settled.reason as Error).message}`);
 * });
 * seen; // => ['A', 'bad: forbidden words', 'C']
 * ```
 * @see {@link batch} when batches need no gate: logs, frames of a user interface.
 * @see {@link batchMapFrom} when the items come from a list, a generator or a stream that can wait.
 * @see {@link createBatcher} when every caller wants its own answer back.
 */
export function batchMap<T, R>(work: BatchWork<T, R>, options: BatchMapOptions<T> = {}): OperatorFunction<T, Settled<T, R>> {
  required('batchMap', 'work', work);
  const config = engineConfig('batchMap', options, classifyError, ['onSourceError']);
  const drains = oneOf('batchMap', 'onSourceError', options.onSourceError ?? 'abort', ['abort', 'drain', 'flush']) !== 'abort';

  return (source) =>
    new Observable((subscriber) => {
      let failure: { readonly error: unknown } | undefined;
      const engine = new BatchEngine<T, R>(config, work, {
        settled: (job) => {
          subscriber.next(job.toSettled());
        },
        finished: () => {
          if (failure) subscriber.error(failure.error);
          else subscriber.complete();
        },
        failed: (error) => {
          subscriber.error(error);
        },
        overflowed: (error) => {
          subscriber.error(error);
        },
      });
      subscriber.add(() => {
        engine.close();
      });
      if (config.concurrency$) {
        connect(config.concurrency$, subscriber, {
          next: (concurrency) => {
            engine.setConcurrency(count('batchMap', 'concurrency', concurrency));
          },
          // The last value stays in force.
          complete: () => undefined,
        });
      }
      connect(source, subscriber, {
        next: (item) => {
          engine.offer(item);
        },
        error: (error) => {
          if (!drains) {
            subscriber.error(error);
            return;
          }
          failure = { error };
          engine.finish();
        },
        complete: () => {
          engine.finish();
        },
      });
    });
}
