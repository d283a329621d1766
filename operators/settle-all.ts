import { EMPTY, from, Observable } from 'rxjs';
import { CONCURRENCY } from './options/defaults.js';
import { FlowConfigError } from './options/errors.js';
import { callback, orDefault, requiredFunction } from './options/options.js';
import type { ItemContext, Settled, WorkOutcome, WorkResult, WorkValue } from './options/types.js';
import type { Guard } from './shell/items/guard.js';
import { guarded } from './shell/items/guard.js';
import type { ItemOptions } from './shell/items/item-options.js';
import { ITEM_CHECKS, itemConfig } from './shell/items/item-options.js';
import { perItem } from './shell/items/item-shell.js';
import { connect } from './shell/streams/connect.js';

export type { Guard } from './shell/items/guard.js';

/** @stable */
export interface SettleAllOptions<T>
  extends Pick<ItemOptions<T>, 'concurrency' | 'limiter' | 'timeoutMs' | 'deadlineMs' | 'onEvent' | 'name' | 'scheduler'> {
  /** Most calls at a time; an Observable changes it while running. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number | Observable<number>;
  /** Every call gets its result, or the first failure aborts the others and is the result. @defaultValue 'settle' */
  readonly errors?: 'settle' | 'propagate';
  /** Longest all calls together may take, in ms. What is not settled by then is aborted and has a `DeadlineError`. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /**
   * Asked before every call is made, when it has its place: true lets it go, false or a reason refuses it with `GuardRefusedError`. May
   * answer later, with a promise; `timeoutMs` includes that. @defaultValue none
   */
  readonly guard?: Guard<T>;
}

type Project<T, R> = (call: T, context: ItemContext) => WorkResult<R>;

const NAME = 'settleAll';
const CHECKS = /* @__PURE__ */ (() => {
  const { maxKeys, maxQueued, overflow, order, onSourceError, ...checks } = ITEM_CHECKS;
  return { ...checks, guard: callback };
})();

/**
 * Makes a list of calls, a few at a time, and emits all their results at once, in the order of the list. It does what `Promise.allSettled` and
 * `Promise.all` do, with a limit, a guard and a time limit, and unsubscribing stops the calls that still run.
 *
 * ```text marbles/settleAll
 *         settleAll([a, b, c], call, { concurrency: 2 })
 * a       -----(1|)
 * b       --#
 * c         -------(3|)
 * result  ---------(r|)
 *         # = Error: the tool broke
 *         r = [{"status":"fulfilled","value":"1","input":"a","index":0,"id":"0","attempts":1},{"status":"rejected","reason":"Error: the tool broke","input":"b","index":1,"id":"1","attempts":1},{"status":"fulfilled","value":"3","input":"c","index":2,"id":"2","attempts":1}]
 * ```
 *
 * - **Emits when** every call has settled: one list, `[]` for no calls. A call's result is the last value it emits.
 * - **Holds at most** the list and its results.
 * - **Completes when** it has emitted.
 * - **Errors when** a call fails under `errors: 'propagate'`, with that call's error as the same object and the others aborted at once; and when
 *   `deadlineMs` has passed under `errors: 'propagate'` (`DeadlineError`, which `classifyError` calls fatal: it is not for trying again).
 * - **On unsubscribe** every call's signal aborts, nothing further is started and the timer is cleared.
 *
 * Under `errors: 'settle'` it never errors: a throwing `project`, a refusal, a call cut short by `deadlineMs` are rejected results.
 * `attempts` is 0 for a call that was never made.
 *
 * @stable
 * @param calls - What to call, as data, so that a guard sees what it judges and a result tells whose it is; or, without `project`, the
 *   functions that make the calls.
 * @param project - Makes one call: a promise, an Observable, an async iterable or a stream; anything else that it returns is its value. A throw is a
 *   failed call.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `calls` is no list of them or an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { settleAll } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const tools = ['read notes', 'rm -rf /'];
 * const run = (tool: string) => of(`done: ${tool}`);
 * settleAll(tools, run, { guard: (tool) => !tool.startsWith('rm') }).subscribe((results) => {
 *   for (const { input, status } of results) seen.push(`${input}: ${status}`);
 * });
 * seen; // => ['read notes: fulfilled', 'rm -rf /: rejected']
 * ```
 * @example Functions, when results need not tell which call they belong to.
 * ```ts
 * import { settleAll } from 'sluice/operators';
 *
 * const seen: unknown[] = [];
 * const all = settleAll([() => Promise.resolve(1), () => Promise.resolve('two')], { errors: 'propagate' });
 * await all.forEach((results) => {
 *   for (const result of results) seen.push(result.status === 'fulfilled' && result.value);
 * });
 * seen; // => [1, 'two']
 * ```
 * @see {@link bulkheadMap} when results are wanted one by one, or the calls come as a stream.
 * @see {@link unwrap} to keep the values alone, and {@link partitionSettled} to split successes and failures.
 */
export function settleAll<T, R, W = never>(
  calls: readonly T[],
  project: ((call: T, context: ItemContext) => WorkResult<R>) | ((call: T, context: ItemContext) => W),
  options?: SettleAllOptions<T>,
): Observable<Settled<T, WorkOutcome<R, W>>[]>;
export function settleAll<F extends (context: ItemContext) => unknown>(
  calls: readonly F[],
  options?: SettleAllOptions<F>,
): Observable<Settled<F, WorkValue<ReturnType<F>>>[]>;
export function settleAll<T, R>(
  calls: readonly T[],
  second?: Project<T, R> | SettleAllOptions<T>,
  third?: SettleAllOptions<T>,
): Observable<Settled<T, R>[]> {
  if (!Array.isArray(calls)) throw new FlowConfigError(NAME, 'calls', 'an array', calls);
  const list = [...(calls as readonly T[])];
  const hasProject = typeof second === 'function' || third !== undefined || !list.every((call) => typeof call === 'function');
  const project = hasProject ? requiredFunction(NAME, 'project', second as Project<T, R>) : (makeItself as Project<T, R>);
  const options = orDefault(hasProject ? third : second, {}) as SettleAllOptions<T>;
  const config = itemConfig<T, R>(
    NAME,
    options,
    CHECKS,
    () => ({ project, key: undefined, limitOf: () => Infinity }),
    CONCURRENCY.settleAll,
  );
  const { guard } = options;

  return new Observable((subscriber) => {
    /** What was really made, in contrast to what a guard kept back. */
    const made = new Set<number>();
    const results: Settled<T, R>[] = [];
    const make = (call: T, context: ItemContext): WorkResult<R> => {
      // A guard may have made the consumer leave.
      if (subscriber.closed) return EMPTY;
      made.add(context.index);
      return project(call, context);
    };
    const items = Object.assign({}, config, { settles: true, project: guard === undefined ? make : guarded(NAME, guard, make) });
    connect(from(list).pipe(perItem(items)) as Observable<Settled<T, R>>, subscriber, {
      next: (settled) => {
        if (!config.settles && settled.status === 'rejected') subscriber.error(settled.reason);
        else results[settled.index] = made.has(settled.index) ? settled : { ...settled, attempts: 0 };
      },
      complete: () => {
        subscriber.next(results);
        subscriber.complete();
      },
    });
  });
}

function makeItself<R>(call: (context: ItemContext) => R, context: ItemContext): R {
  return call(context);
}
