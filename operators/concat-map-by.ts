import type { ObservableInput, OperatorFunction } from 'rxjs';
import { ClosedError, FlowConfigError } from './options/errors.js';
import { flag, optional, requiredFunction } from './options/options.js';
import type { InputOutcome, ItemContext, Settled, WorkOutcome, WorkResult } from './options/types.js';
import type { ItemOptions } from './shell/item-options.js';
import { ITEM_CHECKS, itemConfig } from './shell/item-options.js';
import { perItem } from './shell/item-shell.js';

export interface ConcatMapByOptions<T> extends ItemOptions<T> {
  /** With `errors: 'settle'`: a failed item ends its key, and all other items of it reject with `ClosedError`, unstarted. @defaultValue false */
  readonly stopKey?: boolean;
  /**
   * `'settle'` hands on one {@link Settled} per item, with the last value of its inner stream; `'propagate'` hands on every value, and
   * the first error ends the output.
   * @defaultValue 'settle'
   */
  readonly errors?: 'settle' | 'propagate';
}

const NAME = 'concatMapBy';
const CHECKS = /* @__PURE__ */ (() => ({ ...ITEM_CHECKS, stopKey: optional(flag) }))();

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
 * - **Starts when** nothing of the item's key is under way and a slot is free. Keys go in turn.
 * - **Holds at most** `maxQueued` items that wait, results held back by `order` included, and one of each key under way.
 * - **Drops** nothing in silence: under an `overflow` other than `'error'` an item goes, and its rejection is emitted. With
 *   `errors: 'propagate'` there are no rejections; `onEvent` is told.
 * - **Completes when** the source has completed and every item has settled.
 * - **Errors when** the source errors (`onSourceError` says what of the accepted items), the queue overflows under `overflow: 'error'`
 *   (`OverflowError`), or a changing `concurrency` errors or is out of range; with
 *   `errors: 'propagate'` also with the first error of an inner stream, `project` or `key`. Otherwise those reject their item.
 * - **On unsubscribe** the queue and the timer are gone, every inner stream is torn down and its signal aborts, once, with a
 *   `DOMException` named `AbortError`, before `unsubscribe` returns.
 *
 * Keys with nothing waiting and nothing under way are forgotten; one stopped by `stopKey` is remembered until the end, and counts
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
export function concatMapBy<T, R, W extends ObservableInput<unknown> = never>(
  key: (item: T) => unknown,
  project: ((item: T, context: ItemContext) => ObservableInput<R>) | ((item: T, context: ItemContext) => W),
  options: ConcatMapByOptions<T> & { readonly errors: 'propagate'; readonly stopKey?: false },
): OperatorFunction<T, InputOutcome<R, W>>;
export function concatMapBy<T, R, W = never>(
  key: (item: T) => unknown,
  project: ((item: T, context: ItemContext) => WorkResult<R>) | ((item: T, context: ItemContext) => W),
  options?: ConcatMapByOptions<T> & { readonly errors?: 'settle' },
): OperatorFunction<T, Settled<T, WorkOutcome<R, W>>>;
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>,
  options: ConcatMapByOptions<T> = {},
): OperatorFunction<T, R | Settled<T, R>> {
  const config = itemConfig<T, R>(NAME, options, CHECKS, () => ({
    project: requiredFunction(NAME, 'project', project),
    key: requiredFunction(NAME, 'key', key),
    limitOf: () => 1,
    ...(options.stopKey && { stopped }),
  }));
  if (config.stopped && !config.settles) throw new FlowConfigError(NAME, 'stopKey', "absent with `errors: 'propagate'`", true);
  return perItem(config);
}

function stopped(cause: unknown): ClosedError {
  return new ClosedError(NAME, cause, 'not started, because an earlier item of its key failed');
}
