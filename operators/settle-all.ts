import type { SchedulerLike } from 'rxjs';
import { EMPTY, from, Observable, Subject, takeUntil } from 'rxjs';
import { bulkheadMap } from './bulkhead-map.js';
import { DeadlineError, FlowConfigError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { callback, checked, count, durationMs, orDefault, required, words } from './options/options.js';
import type { ItemContext, Settled, WorkResult, WorkValue } from './options/types.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import { connect } from './shell/connect.js';
import type { Guard } from './shell/guard.js';
import { guarded } from './shell/guard.js';

export type { Guard } from './shell/guard.js';

export interface SettleAllOptions<T> {
  /** Every call gets its result, or the first failure aborts the others and is the result. @defaultValue 'settle' */
  readonly mode?: 'settle' | 'all';
  /** Most calls at a time. @defaultValue 4 */
  readonly concurrency?: number;
  /** Longest all calls together may take, in ms. What is not settled by then is aborted and has a `DeadlineError`. @defaultValue Infinity */
  readonly totalTimeoutMs?: number;
  /**
   * Asked before every call is made, when it has its place: true lets it go, false or a reason refuses it with `GuardRefusedError`. May
   * answer later, with a promise. @defaultValue none
   */
  readonly guard?: Guard<T>;
  /** Clock and timer of `totalTimeoutMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of what becomes of the calls: the events of `bulkheadMap`. @defaultValue none */
  readonly onEvent?: FlowSink;
}

type Project<T, R> = (call: T, context: ItemContext) => WorkResult<R>;

/** What {@link settleAll} does when an option is left out. */
export const SETTLE_ALL_DEFAULTS = { mode: 'settle', concurrency: 4, totalTimeoutMs: Infinity } as const;

const NAME = 'settleAll';
/**
 * Makes a list of calls, a few at a time, and has all their results at once, in the order of the list: what `Promise.allSettled` and
 * `Promise.all` do, with a limit, a guard, a time limit, and an end that stops what is still running.
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
 * - **Errors when** a call fails under `mode: 'all'`, with that call's error as the same object and the others aborted at once; and when
 *   `totalTimeoutMs` has passed under `mode: 'all'` (`DeadlineError`, which `classifyError` calls fatal: it is not for trying again).
 * - **On unsubscribe** every call's signal aborts, nothing further is started and the timer is cleared.
 *
 * Under `mode: 'settle'` it never errors: a throwing `project`, a refusal, a call cut short by `totalTimeoutMs` are rejected results.
 * `attempts` is 0 for a call that was never made.
 *
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
 * @example Functions, when nobody has to know which call it is.
 * ```ts
 * import { settleAll } from 'sluice/operators';
 *
 * const seen: unknown[] = [];
 * const all = settleAll([() => Promise.resolve(1), () => Promise.resolve('two')], { mode: 'all' });
 * await all.forEach((results) => {
 *   for (const result of results) seen.push(result.status === 'fulfilled' && result.value);
 * });
 * seen; // => [1, 'two']
 * ```
 * @see {@link bulkheadMap} when results are wanted one by one, or the calls come as a stream.
 * @see {@link unwrap} to go on with the values alone.
 */
export function settleAll<T, R>(calls: readonly T[], project: Project<T, R>, options?: SettleAllOptions<T>): Observable<Settled<T, R>[]>;
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
  const project = hasProject ? required(NAME, 'project', second as Project<T, R>) : (makeItself as Project<T, R>);
  const options = orDefault(hasProject ? third : second, {});
  const { mode, concurrency, totalTimeoutMs, guard, scheduler, onEvent } = readOptions(options);

  return new Observable((subscriber) => {
    /** What was really made, in contrast to what a guard kept back. */
    const made = new Set<number>();
    const results = new Map<number, Settled<T, R>>();
    const make = (call: T, context: ItemContext): WorkResult<R> => {
      // A guard may have made the consumer leave.
      if (subscriber.closed) return EMPTY;
      made.add(context.index);
      return project(call, context);
    };
    const expired = new Subject<void>();
    const alarm = new Alarm(scheduler, () => {
      const late = new DeadlineError(NAME, totalTimeoutMs, alarm.now() - startedAt);
      if (mode === 'all') {
        subscriber.error(late);
        return;
      }
      isLate = true;
      expired.next();
      finish(late);
    });
    const startedAt = alarm.now();
    let isLate = false;
    const finish = (late?: DeadlineError): void => {
      subscriber.next(list.map((input, index) => results.get(index) ?? rejected(input, index, late, made.has(index))));
      subscriber.complete();
    };
    subscriber.add(() => {
      alarm.clear();
    });
    alarm.set(startedAt + totalTimeoutMs);
    const source = from(list).pipe(
      bulkheadMap(guard === undefined ? make : guarded(NAME, guard, make), {
        concurrency,
        scheduler,
        ...(onEvent && {
          onEvent: (event) => {
            onEvent({ ...event, operator: NAME });
          },
        }),
      }),
      takeUntil(expired),
    );
    connect(source, subscriber, {
      next: (settled) => {
        if (mode === 'all' && settled.status === 'rejected') subscriber.error(settled.reason);
        else results.set(settled.index, made.has(settled.index) ? settled : { ...settled, attempts: 0 });
      },
      complete: () => {
        // Late, the calls are stopped first.
        if (!isLate) finish();
      },
    });
  });
}

function rejected<T>(input: T, index: number, reason: unknown, wasMade: boolean): Settled<T, never> {
  return { status: 'rejected', reason, input, index, id: String(index), attempts: wasMade ? 1 : 0 };
}

function makeItself<R>(call: (context: ItemContext) => R, context: ItemContext): R {
  return call(context);
}

function readOptions<T>(options: SettleAllOptions<T>) {
  return checked(NAME, options, SETTLE_ALL_DEFAULTS, {
    mode: words('settle', 'all'),
    concurrency: count,
    totalTimeoutMs: durationMs,
    guard: callback,
    scheduler: schedulerOption,
    onEvent: listener,
  });
}
