import { Observable } from 'rxjs';
import { roomOf } from './kernel/machine/accept.js';
import { BATCH_MAP_FROM } from './options/defaults.js';
import { FlowConfigError } from './options/errors.js';
import { requiredFunction } from './options/options.js';
import type { BatchOutcome, BatchResult, CallContext, Settled, WorkResult } from './options/types.js';
import type { BatchWork } from './shell/batch/batch-options.js';
import type { BatchStreamOptions } from './shell/batch/batch-stream.js';
import { BatchStream, STREAM_CHECKS, streamConfig } from './shell/batch/batch-stream.js';
import type { PullSource } from './shell/streams/pull.js';
import { checkPullSource, openPull } from './shell/streams/pull.js';

/**
 * `batchMap`'s options; `overflow` has no place here, because nothing is pulled that there is no room for.
 * @stable
 */
export interface BatchMapFromOptions<T, R = never> extends Omit<BatchStreamOptions<T, R>, 'overflow'> {
  /** Most items waiting: how far is read ahead of the calls. A function is asked before each read. @defaultValue 80, which fills the next call of every slot */
  readonly maxQueued?: number | (() => number);
}

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
 * - **Emits when** an item settles: one {@link Settled} each, as calls end or in the `order` asked for.
 * - **Reads when** fewer than `maxQueued` items wait. Parts of a split, items between two attempts and results held back take up room.
 * - **Holds at most** `maxQueued` items that wait (one more of an asynchronous input, when a repair took the room of an item on its
 *   way), and `maxSize` per call under way.
 * - **Drops** nothing.
 * - **Completes when** the input has ended and every item has settled; it then waits for no window.
 * - **Errors when** the input throws or rejects (the same object; `onSourceError` says what of the items read), `window` throws or
 *   answers nonsense (`CallbackError`), `flush` errors, or a changing `concurrency` errors or is out of range.
 * - **On unsubscribe** the input is closed (`return` of an iterator, `cancel` of a stream) without waiting for it, the queue and the
 *   timers are gone and every call's signal aborts once.
 *
 * Read value by value ({@link toAsyncIterable}, {@link toReadableStream}), also through operators in between, it pulls only while the reader
 * has read all that was there.
 *
 * The input is opened by each subscription: a list can be read again, a generator object or a stream only once.
 *
 * @stable
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
 * @example A list with a bad item: what fails is cut up until the bad item stands alone.
 * ```ts
 * import { lastValueFrom, toArray } from 'rxjs';
 * import { batchMapFrom, divideAndConquer, inputOrder } from 'sluice/operators';
 *
 * const translate = async (texts: readonly string[]) => {
 *   if (texts.includes('bad')) throw Object.assign(new Error('forbidden words'), { status: 400 });
 *   return texts.map((text) => text.toUpperCase());
 * };
 * const options = { repair: divideAndConquer(), order: inputOrder() };
 * const settled = await lastValueFrom(batchMapFrom(['a', 'bad', 'c'], translate, options).pipe(toArray()));
 * settled.map(({ status }) => status); // => ['fulfilled', 'rejected', 'fulfilled']
 * ```
 * @see {@link batchMap} when the items are pushed: events, clicks, messages.
 */
export function batchMapFrom<T, R, W extends WorkResult<BatchResult<unknown>> = never>(
  input: PullSource<T>,
  work: BatchWork<T, R> | ((items: readonly T[], context: CallContext) => W),
  options?: BatchMapFromOptions<T, NoInfer<BatchOutcome<R, W>>>,
): Observable<Settled<T, BatchOutcome<R, W>>>;
export function batchMapFrom<T, R>(
  input: PullSource<T>,
  work: BatchWork<T, R>,
  options: BatchMapFromOptions<T, NoInfer<R>> = {},
): Observable<Settled<T, R>> {
  requiredFunction(NAME, 'work', work);
  const config = readOptions(options);
  checkPullSource(NAME, 'input', input);
  return new Observable((subscriber) => {
    const stream = new BatchStream<T, R>(config, work, subscriber, () => {
      pull.resume();
    });
    const { shell } = stream;
    const { machine } = shell;
    // Accepted and not handed out.
    const unsettled = (): number =>
      machine.calls.reduce((sum, { live }) => sum + live, machine.queued + machine.heldBack + machine.results.length);
    const pull = openPull(input, {
      room: () => roomOf(machine) > 0 && !subscriber.closed,
      unsettled,
      next: (item) => {
        shell.push(item);
      },
      done: () => {
        shell.finish();
      },
      failed: (error) => {
        stream.sourceFailed(error);
      },
    });
    subscriber.add(() => {
      pull.close();
    });
    stream.listen();
    pull.resume();
  });
}

const NAME = 'batchMapFrom';

function readOptions<T, R>(options: BatchMapFromOptions<T, R>) {
  const { overflow, ...checks } = STREAM_CHECKS;
  const config = Object.assign(streamConfig<T, R>(NAME, options, checks, BATCH_MAP_FROM), { isPulled: true });
  const bounded = config.queue.lanes.find((lane) => (lane.maxQueued ?? lane.overflow) !== undefined);
  if (bounded === undefined) return config;
  throw new FlowConfigError(
    NAME,
    'queue',
    'lanes without `maxQueued` and `overflow`: nothing is pulled that there is no room for',
    bounded.name,
  );
}
