import type { ObservableInput, OperatorFunction } from 'rxjs';
import { unusable } from './options/answers.js';
import { ask } from './options/ask.js';
import { CONCURRENCY } from './options/defaults.js';
import { ClosedError } from './options/errors.js';
import { callback, count, excludes, flag, ofKeys, optional, requiredFunction, unchecked } from './options/options.js';
import type { InputOutcome, ItemContext, Settled, WorkOutcome, WorkResult } from './options/types.js';
import type { ItemOptions } from './shell/items/item-options.js';
import { ITEM_CHECKS, itemConfig } from './shell/items/item-options.js';
import { perItem } from './shell/items/item-shell.js';

/** @stable */
export interface BulkheadMapOptions<T> extends ItemOptions<T> {
  /** Key of an item: a tool, a tenant, a host. Compared as a `Map` does. @defaultValue one key for all */
  readonly key?: (item: T) => unknown;
  /**
   * Most inner streams of one key at a time: the same for all, by name of the key (those without a name have no limit), or your own rule.
   * 1 runs the items of a key one after the other. Needs a `key`. @defaultValue Infinity
   */
  readonly perKey?: number | Readonly<Record<string, number>> | ((key: unknown) => number);
  /**
   * After the first failed item of a key, its waiting and later items reject with `ClosedError`, unstarted; items of the key under way
   * finish. Needs a `key` and `errors: 'settle'`. @defaultValue false
   */
  readonly stopKey?: boolean;
  /**
   * `'settle'` hands on one {@link Settled} per item, with the last value of its inner stream; `'propagate'` hands on every value, and
   * the first error ends the output.
   * @defaultValue 'settle'
   */
  readonly errors?: 'settle' | 'propagate';
}

const NAME = 'bulkheadMap';
const CHECKS = /* @__PURE__ */ (() => ({ ...ITEM_CHECKS, key: callback, perKey: unchecked, stopKey: optional(flag) }))();

/**
 * Runs one piece of work per item, so many at a time, and so many at a time for each key: a key that is full never blocks another.
 *
 * ```text marbles/bulkheadMap
 * source  -A-B-c--------------|
 *         bulkheadMap(project, { key, perKey: 1 }): A and B share a key, c has its own
 * A        -----------(x|)
 * c            ---(z|)
 * B          .........----(y|)
 * result  --------z---x---y---|
 * ```
 *
 * - **Emits when** an inner stream ends: one {@link Settled} per item, with the last value (`undefined` when there was none). With
 *   `errors: 'propagate'` every value, when it comes.
 * - **Starts when** a slot is free, and a slot of the item's key. Keys go in turn.
 * - **Holds at most** `maxQueued` items that wait, results held back by `order` included, and those under way.
 * - **Drops** nothing in silence: under an `overflow` other than `'error'` an item goes, and its rejection is emitted. With
 *   `errors: 'propagate'` there are no rejections; `onEvent` is told.
 * - **Completes when** the source has completed and every item has settled.
 * - **Errors when** the source errors (`onSourceError` says what of the accepted items), the queue overflows under `overflow: 'error'`
 *   (`OverflowError`), or a changing `concurrency` errors or is out of range; with `errors: 'propagate'` also with the first error of an inner
 *   stream, `project` or `key`. Otherwise those reject their item.
 * - **On unsubscribe** the queue and the timer are gone, every inner stream is torn down and its signal aborts, once, with a
 *   `DOMException` named `AbortError`, before `unsubscribe` returns. A promise cannot be stopped: in a shared limiter it keeps its slot until
 *   it settles or `abortGraceMs` has passed.
 *
 * With `perKey: 1` the items of a key run one after the other, and keys beside each other: an inner stream is torn down before the next of its key starts.
 *
 * An inner stream that never ends keeps its slot until `timeoutMs`. Keys with nothing waiting and nothing under way are forgotten; a key
 * stopped by `stopKey` is remembered until the end, and counts towards `maxKeys`. With
 * `order: inputOrder()` and `errors: 'propagate'` the values of the first item in line are handed on at once, the others' are held.
 *
 * Source: keeping the rest of the ship dry when one compartment floods is the bulkhead of Nygard, "Release It!", 2007.
 *
 * @stable
 * @param project - Starts the work for one item: a promise, an Observable, an async iterable or a stream; anything else that it returns is its
 *   value (with `errors: 'propagate'`, anything `from` takes). A throw is a failed item.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example Tools with a limit each.
 * ```ts
 * import { of } from 'rxjs';
 * import { bulkheadMap } from 'sluice/operators';
 *
 * const calls = [{ tool: 'WebSearch', query: 'otters' }, { tool: 'ImageGen', query: 'an otter' }, { tool: 'WebSearch', query: 'rivers' }];
 * const run = (call: { tool: string; query: string }) => Promise.resolve(`${call.tool}: ${call.query}`);
 * const limits = { key: (call: { tool: string }) => call.tool, perKey: { ImageGen: 1, WebSearch: 5, CodeExec: 2 } };
 * const seen: string[] = [];
 * await of(...calls).pipe(bulkheadMap(run, limits)).forEach((settled) => {
 *   if (settled.status === 'fulfilled') seen.push(settled.value);
 * });
 * seen; // => ['WebSearch: otters', 'ImageGen: an otter', 'WebSearch: rivers']
 * ```
 * @example Messages of a conversation one after the other, conversations beside each other.
 * ```ts
 * import { of } from 'rxjs';
 * import { bulkheadMap } from 'sluice/operators';
 *
 * const messages = [{ chat: 1, text: 'hello' }, { chat: 1, text: 'are you there?' }, { chat: 2, text: 'good morning' }];
 * const log: string[] = [];
 * const send = async ({ chat, text }: { chat: number; text: string }) => {
 *   log.push(`${chat}: ${text}`);
 *   await Promise.resolve();
 *   log.push(`${chat}: sent`);
 * };
 * const serial = { key: (message: { chat: number }) => message.chat, perKey: 1 };
 * await of(...messages).pipe(bulkheadMap(send, serial)).forEach(() => undefined);
 * log; // => ['1: hello', '2: good morning', '1: sent', '2: sent', '1: are you there?', '1: sent']
 * ```
 * @example Every value, as `mergeMap` hands them on.
 * ```ts
 * import { of } from 'rxjs';
 * import { bulkheadMap } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * of('to', 'be').pipe(bulkheadMap((word) => of(...word), { errors: 'propagate' })).subscribe((letter) => seen.push(letter));
 * seen; // => ['t', 'o', 'b', 'e']
 * ```
 * @see {@link batchMap} when one call can take several items.
 * @see {@link switchLatest} when only the newest item counts, of all or with a `key` of each.
 */
export function bulkheadMap<T, R, W extends ObservableInput<unknown> = never>(
  project: ((item: T, context: ItemContext) => ObservableInput<R>) | ((item: T, context: ItemContext) => W),
  options: BulkheadMapOptions<T> & { readonly errors: 'propagate' },
): OperatorFunction<T, InputOutcome<R, W>>;
export function bulkheadMap<T, R, W = never>(
  project: ((item: T, context: ItemContext) => WorkResult<R>) | ((item: T, context: ItemContext) => W),
  options?: BulkheadMapOptions<T> & { readonly errors?: 'settle' },
): OperatorFunction<T, Settled<T, WorkOutcome<R, W>>>;
export function bulkheadMap<T, R>(
  project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>,
  options: BulkheadMapOptions<T> = {},
): OperatorFunction<T, R | Settled<T, R>> {
  const config = itemConfig<T, R>(
    NAME,
    options,
    CHECKS,
    () => {
      const { key, perKey, stopKey } = options;
      ofKeys(NAME, 'stopKey', stopKey || undefined, key !== undefined, false);
      return {
        project: requiredFunction(NAME, 'project', project),
        key,
        limitOf: limits(ofKeys(NAME, 'perKey', perKey, key !== undefined, Infinity)),
        ...(stopKey && { stopped }),
      };
    },
    CONCURRENCY.bulkheadMap,
  );
  if (!config.settles)
    excludes(NAME, 'stopKey', config.stopped, "`errors: 'propagate'`", 'Remove one of them: the first error already ends all keys.');
  return perItem(config);
}

/** How many items of a key may be under way. */
function limits(perKey: NonNullable<BulkheadMapOptions<never>['perKey']>): (key: unknown) => number {
  if (typeof perKey === 'function') return (key) => limitFrom(perKey, key);
  // An array or a `Map` is no limits by name.
  if (Object.prototype.toString.call(perKey) !== '[object Object]') {
    const same = count(NAME, 'perKey', perKey);
    return () => same;
  }
  const byName = new Map<unknown, number>(Object.entries(perKey).map(([name, limit]) => [name, count(NAME, `perKey.${name}`, limit)]));
  // A number is the name that a record makes of it.
  return (key) => byName.get(typeof key === 'number' ? String(key) : key) ?? Infinity;
}

function limitFrom(perKey: (key: unknown) => number, key: unknown): number {
  const limit: unknown = ask(NAME, 'perKey', perKey, key);
  if (limit === Infinity || (Number.isSafeInteger(limit) && (limit as number) >= 1)) return limit as number;
  throw unusable(NAME, 'perKey', 'a whole number >= 1 or Infinity', limit);
}

function stopped(cause: unknown): ClosedError {
  return new ClosedError(NAME, cause, 'not started, because an earlier item of its key failed');
}
