import { Observable } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { BatchWork } from './support/batch-engine.js';
import { BatchEngine } from './support/batch-engine.js';
import type { GatedBatchOptions } from './support/batch-options.js';
import { engineConfig, GATED_BATCH_DEFAULTS, GATED_BATCH_OPTIONS } from './support/batch-options.js';
import { connect } from './support/connect.js';
import { FlowConfigError } from './support/errors.js';
import { count, known, required } from './support/options.js';
import type { PullSource } from './support/pull.js';
import { checkPullSource, openPull } from './support/pull.js';
import type { Settled } from './support/types.js';

/** `batchMap`'s options; `overflow` has no place here, because nothing is pulled that there is no room for. */
export type BatchMapFromOptions<T> = Omit<GatedBatchOptions<T>, 'overflow'>;

/** What differs from `batchMap`. */
export const BATCH_MAP_FROM_DEFAULTS = { ...GATED_BATCH_DEFAULTS, maxQueued: 80 } as const;

const OPTION_NAMES = GATED_BATCH_OPTIONS.filter((name) => name !== 'overflow');

/**
 * Sends the items of an input that can wait through {@link batchMap}'s gate, and reads on only while there is room: a file of a
 * million lines or an endless generator is never in memory, and nothing overflows.
 *
 * ```text marbles/batchMapFrom
 *         batchMapFrom('abcde', work, { maxSize: 2, concurrency: 1 })
 * ab      ----(r|)
 * cd          ----(r|)
 * e               ----(r|)
 * result  ----(AB)(CD)(E|)
 * ```
 *
 * - **Emits when** an item settles: one {@link Settled} each, as calls end.
 * - **Reads when** fewer than `maxQueued` items wait. Parts of a split and items between two attempts take up room as well.
 * - **Holds at most** `maxQueued` items that wait (one more of an asynchronous input, when a repair took the room of an item on its
 *   way), and `maxSize` per call under way.
 * - **Drops** nothing.
 * - **Completes when** the input has ended and every item has settled; it then waits for no window.
 * - **Errors when** the input throws or rejects (the same object; calls under way are stopped), `window` throws or answers nonsense
 *   (`CallbackError`), or a changing `concurrency` errors or is out of range. A call that fails never errors the stream.
 * - **On unsubscribe** the input is closed (`return` of an iterator, `cancel` of a stream) without waiting for it, the queue and the
 *   timers are gone and every call's signal aborts once.
 *
 * The input is opened by each subscription: a list can be read again, a generator object or a stream only once.
 *
 * @param input - An Iterable (a text counts as its characters), an AsyncIterable or a web ReadableStream.
 * @param work - As for {@link batchMap}.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the input cannot be read piece by piece or an option is unknown or
 *   out of range; `overflow` is one that is unknown here.
 * @example
 * ```ts
 * import { of, take } from 'rxjs';
 * import { batchMapFrom } from 'sluice/operators';
 *
 * let read = 0;
 * function* numbers() {
 *   for (;;) yield read++;
 * }
 * const squares: number[] = [];
 * const square = (items: readonly number[]) => of(items.map((item) => item * item));
 * batchMapFrom(numbers(), square, { maxSize: 5 }).pipe(take(10)).subscribe((settled) => {
 *   if (settled.status === 'fulfilled') squares.push(settled.value);
 * });
 * squares; // => [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
 * read; // => 10
 * ```
 * @see {@link batchMap} when the items are pushed: events, clicks, messages.
 */
export function batchMapFrom<T, R>(
  input: PullSource<T>,
  work: BatchWork<T, R>,
  options: BatchMapFromOptions<T> = {},
): Observable<Settled<T, R>> {
  const operator = 'batchMapFrom';
  required(operator, 'work', work);
  known(operator, options, OPTION_NAMES);
  const config = engineConfig(operator, { ...options, maxQueued: options.maxQueued ?? BATCH_MAP_FROM_DEFAULTS.maxQueued }, classifyError);
  const bounded = options.lanes?.find((lane) => lane.maxQueued !== undefined || lane.overflow !== undefined);
  if (bounded) {
    throw new FlowConfigError(
      operator,
      'lanes',
      'lanes without `maxQueued` and `overflow`: nothing is pulled that there is no room for',
      bounded.name,
    );
  }
  checkPullSource(operator, input);

  return new Observable((subscriber) => {
    const engine = new BatchEngine<T, R>(config, work, {
      settled: (job) => {
        subscriber.next(job.toSettled());
      },
      finished: () => {
        subscriber.complete();
      },
      failed: (error) => {
        subscriber.error(error);
      },
      room: () => {
        pull.resume();
      },
    });
    const pull = openPull(input, {
      room: () => engine.room > 0 && !subscriber.closed,
      next: (item) => {
        engine.offer(item);
      },
      done: () => {
        engine.finish();
      },
      failed: (error) => {
        subscriber.error(error);
      },
    });
    subscriber.add(() => {
      pull.close();
      engine.close();
    });
    if (config.concurrency$) {
      connect(config.concurrency$, subscriber, {
        next: (concurrency) => {
          engine.setConcurrency(count(operator, 'concurrency', concurrency));
        },
        // The last value stays in force.
        complete: () => undefined,
      });
    }
    pull.resume();
  });
}
