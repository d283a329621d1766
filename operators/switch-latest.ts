import type { ObservableInput, OperatorFunction, SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { callback, checked, count, durationMs, flag, ofKeys, required, words } from './options/options.js';
import type { ItemContext } from './options/types.js';
import { schedulerOption } from './shell/alarm.js';
import { connect } from './shell/connect.js';
import { Switcher } from './support/racing/switcher.js';

export interface SwitchLatestOptions<T> {
  /** Switches within a key only: one newest call for each, and keys do not disturb each other. @defaultValue one for all */
  readonly key?: (item: T) => unknown;
  /** Most keys with something under way at a time; one more errors the stream with `OverflowError`. Needs a `key`. @defaultValue 1000 */
  readonly maxKeys?: number;
  /** Lets the old call go on until the new one has its first value, so that a screen is never empty in between. @defaultValue false */
  readonly keepLast?: boolean;
  /** How long an item must be the newest before its call starts, in ms; 0 = at once, Infinity = when the source completes. @defaultValue 0 */
  readonly debounceMs?: number;
  /** At an error of the source: abort what is under way, or let it end first; items in `debounceMs` are then started. @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort' | 'drain';
  /** Clock and timer of `debounceMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every call given up (`cancelled`), item passed over by `debounceMs` (`dropped`) and late error (`swallowed`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** What {@link switchLatest} does when an option is left out. */
export const SWITCH_LATEST_DEFAULTS = {
  maxKeys: 1000,
  keepLast: false,
  debounceMs: 0,
  onSourceError: 'abort',
} as const;

/**
 * Starts a call for every item and gives up the one before: the newest wins, and the old call is told by its signal.
 *
 * ```text marbles/switchLatest
 * source  -a-----b------|
 *         switchLatest(call)
 * a        --1--2!
 * b              --4--5|
 * result  ---1--2--4--5-|
 * ```
 *
 * - **Emits when** the newest call (of its key) does. What a superseded call still says is dropped, its error as well.
 * - **Holds at most** one call for each of `maxKeys` keys (two with `keepLast`), one item each while `debounceMs` runs, and what the
 *   consumer itself sends into the source while it is handed a value.
 * - **Drops** items that did not stay the newest for `debounceMs`.
 * - **Completes when** the source has completed and the last calls have ended.
 * - **Errors when** the source, a newest call or `project` errors, with that same error; when `key` throws (`CallbackError`) or there
 *   are more than `maxKeys` keys (`OverflowError`).
 * - **On unsubscribe** every call's signal aborts, then it is unsubscribed from. The same happens to a superseded call before the
 *   next one starts. The signal of a promise that has answered stays as it is: the answer may be a body that is still to be read.
 *
 * A call starts in the asynchronous context of whoever sent its item. What `project` returns is read as RxJS's `from` does: a list is its items.
 * A promise cannot be unsubscribed from: pass `context.signal` to whatever makes it. One that ignores its signal runs on, and is paid
 * for, but its result is dropped.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { NEVER, of } from 'rxjs';
 * import { switchLatest } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const search = (text: string, { signal }: { signal: AbortSignal }) => {
 *   signal.addEventListener('abort', () => seen.push(`${text}: aborted`));
 *   return text === 'cats' ? of(`${text}: found`) : NEVER;
 * };
 * of('c', 'ca', 'cats').pipe(switchLatest(search)).subscribe((line) => seen.push(line));
 * seen; // => ['c: aborted', 'ca: aborted', 'cats: found']
 * ```
 * @see {@link bulkheadMap} when every item counts and only so many may run at once.
 * @see {@link conflateWhileBusy} when the running call should end first, and take in all that came meanwhile next.
 */
export function switchLatest<T, R>(
  project: (item: T, context: ItemContext) => ObservableInput<R>,
  options: SwitchLatestOptions<T> = {},
): OperatorFunction<T, R> {
  const settings = { project: required('switchLatest', 'project', project), ...readOptions(options) };
  return (source) =>
    new Observable((subscriber) => {
      connect(source, subscriber, new Switcher<T, R>(settings, subscriber));
    });
}

function readOptions<T>(options: SwitchLatestOptions<T>) {
  const { onSourceError, ...settings } = checked('switchLatest', options, SWITCH_LATEST_DEFAULTS, {
    maxKeys: count,
    keepLast: flag,
    debounceMs: durationMs,
    onSourceError: words('flush', 'abort', 'drain'),
    key: callback,
    scheduler: schedulerOption,
    onEvent: listener,
  });
  ofKeys('switchLatest', 'maxKeys', options.maxKeys, settings.key !== undefined, settings.maxKeys);
  return { ...settings, drains: onSourceError !== 'abort' };
}
