import type { ObservableInput, OperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import { oneOf, orDefault, required } from './options/options.js';
import type { ItemContext, Settled, WorkResult } from './options/types.js';
import type { SlotConfig, SlotOptions } from './support/slots/slot-options.js';
import { SLOT_DEFAULTS, SLOT_OPTIONS, slotConfig } from './support/slots/slot-options.js';
import { runInSlots } from './support/slots/slots.js';

export interface ConcatMapByOptions extends SlotOptions {
  /**
   * What happens at `maxQueued`: `'error'` fails the output, the others drop an item, whose caller gets an `OverflowError`; `'latest'`
   * leaves only the newest of its key waiting.
   * @defaultValue 'error'
   */
  readonly overflow?: 'error' | 'dropOldest' | 'dropNewest' | 'latest';
  /** Results go out as inner streams have them, which keeps the order within a key, or in the order of the items. @defaultValue 'completion' */
  readonly order?: 'completion' | 'input';
  /** Which key goes next, among those with nothing under way: keys in turn, or the one whose item is oldest. @defaultValue 'roundRobin' */
  readonly fairness?: 'roundRobin' | 'fifo';
  /**
   * `'settle'` hands on one {@link Settled} per item, with the last value of its inner stream; `'propagate'` hands on every value, and
   * the first error ends the output.
   * @defaultValue 'settle'
   */
  readonly errors?: 'settle' | 'propagate';
  /**
   * What a failed item means: its key goes on with the next; all other items of its key reject with `KeyStoppedError` unstarted; or its
   * rejection is the last thing before the same error ends the output. With `errors: 'propagate'` only `'error'` is possible.
   * @defaultValue 'continue', with `errors: 'propagate'` 'error'
   */
  readonly onError?: 'continue' | 'stopKey' | 'error';
}

/** What {@link concatMapBy} does when an option is left out. */
export const CONCAT_MAP_BY_DEFAULTS = /* @__PURE__ */ (() => ({ ...SLOT_DEFAULTS, onError: 'continue' }) as const)();

const NAME = 'concatMapBy';
const OPTION_NAMES = /* @__PURE__ */ SLOT_OPTIONS.concat('onError');

/**
 * Runs the items of a key one after the other, and keys beside each other: conversations, files, accounts.
 *
 * ```text marbles/concatMapBy
 * source  -a-b-C-------------|
 *         concatMapBy(key, project): a and b share a key, C has its own
 * a        ----------(x|)
 * C            --(z|)
 * b          ........----(y|)
 * result  -------z---x---y---|
 * ```
 *
 * - **Emits when** an inner stream ends: one {@link Settled} per item, with the last value (`undefined` when there was none). With
 *   `errors: 'propagate'` every value, when it comes.
 * - **Starts when** nothing of the item's key is under way and a slot is free. Which of several keys goes first, `fairness` says.
 * - **Holds at most** `maxQueued` items that wait, results held back by `order` included, and one of each key under way.
 * - **Drops** nothing in silence: under an `overflow` other than `'error'` an item goes, and its rejection is emitted. With
 *   `errors: 'propagate'` there are no rejections; `onEvent` is told.
 * - **Completes when** the source has completed and every item has settled.
 * - **Errors when** the source errors (`onSourceError` says what of the accepted items), the queue overflows under `overflow: 'error'`
 *   (`OverflowError`), an item fails under `onError: 'error'`, or a changing `concurrency` errors or is out of range; with
 *   `errors: 'propagate'` also with the first error of an inner stream, `project` or `key`. Otherwise those reject their item.
 * - **On unsubscribe** the queue and the timer are gone, every inner stream is torn down and its signal aborts, once, with a
 *   `DOMException` named `AbortError`, before `unsubscribe` returns.
 *
 * Keys with nothing waiting and nothing under way are forgotten; one stopped by `onError: 'stopKey'` is remembered until the end, and counts
 * towards `maxKeys`.
 *
 * @param key - Key of an item, compared as a `Map` does.
 * @param project - Starts the work for one item: a promise, an Observable, an async iterable or a stream; anything else that it returns is its
 *   value (with `errors: 'propagate'`, anything `from` takes). A throw is a failed item.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { concatMapBy } from 'sluice/operators';
 *
 * const messages = [{ chat: 1, text: 'hello' }, { chat: 1, text: 'are you there?' }, { chat: 2, text: 'good morning' }];
 * const log: string[] = [];
 * const send = async ({ chat, text }: { chat: number; text: string }) => {
 *   log.push(`${chat}: ${text}`);
 *   await Promise.resolve();
 *   log.push(`${chat}: sent`);
 * };
 * await of(...messages).pipe(concatMapBy((message) => message.chat, send)).forEach(() => undefined);
 * log; // => ['1: hello', '2: good morning', '1: sent', '2: sent', '1: are you there?', '1: sent']
 * ```
 * @see {@link bulkheadMap} when a key may have more than one item under way.
 * @see {@link switchLatest} with a `key`, when only the newest item of each key counts.
 */
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: ItemContext) => ObservableInput<R>,
  options: ConcatMapByOptions & { readonly errors: 'propagate'; readonly onError?: 'error' },
): OperatorFunction<T, R>;
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: ItemContext) => WorkResult<R>,
  options?: ConcatMapByOptions & { readonly errors?: 'settle' },
): OperatorFunction<T, Settled<T, R>>;
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>,
  options: ConcatMapByOptions = {},
): OperatorFunction<T, R | Settled<T, R>> {
  const shared = slotConfig<T>(NAME, options, OPTION_NAMES, { orders: ['completion', 'input'], priorities: false, alwaysKeyed: true });
  const config: SlotConfig<T, R> = {
    ...shared,
    operator: NAME,
    project: required(NAME, 'project', project),
    key: required(NAME, 'key', key),
    limitOf: one,
    onError: shared.settles
      ? oneOf(NAME, 'onError', orDefault(options.onError, CONCAT_MAP_BY_DEFAULTS.onError), ['continue', 'stopKey', 'error'])
      : oneOf(NAME, 'onError', orDefault(options.onError, 'error'), ['error']),
  };
  return (source) =>
    new Observable((subscriber) => {
      runInSlots(config, source, subscriber);
    });
}

function one(): number {
  return 1;
}
