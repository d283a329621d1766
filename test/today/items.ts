/** One call per item: `bulkheadMap`, `concatMapBy`, `settleAll`. */
import type { Observable, ObservableInput, OperatorFunction } from 'rxjs';
import { concat, mergeMap, of, throwError } from 'rxjs';
import type {
  BulkheadMapOptions as Bulkhead,
  ConcatMapByOptions as Concat,
  ItemContext,
  SettleAllOptions as SettleAll,
  Settled,
  WorkResult,
  WorkValue,
} from '../../operators/index.js';
import * as operators from '../../operators/index.js';
import { unstamped } from './events.js';

interface Old {
  readonly order?: 'completion' | 'input' | 'perKey';
  readonly errors?: 'settle' | 'propagate';
}
export interface BulkheadMapOptions<T> extends Old, Omit<Bulkhead<T>, 'order' | 'errors'> {
  readonly perKeyDefault?: number;
}
export interface ConcatMapByOptions extends Old, Omit<Concat<never>, 'order' | 'errors' | 'stopKey'> {
  readonly onError?: 'continue' | 'stopKey' | 'error';
}
export interface SettleAllOptions<T> extends Omit<SettleAll<T>, 'errors' | 'deadlineMs'> {
  readonly mode?: 'settle' | 'all';
  readonly totalTimeoutMs?: number;
}

export const BULKHEAD_MAP_DEFAULTS = { concurrency: 10 };

type Work<T, R> = (item: T, context: ItemContext) => WorkResult<R>;
type Stream<T, R> = (item: T, context: ItemContext) => ObservableInput<R>;

/** Other values are handed on as they are: they are for the operator to refuse. */
function translated(options: unknown, key: unknown): Record<string, unknown> {
  if (typeof options !== 'object' || options === null) return options as never;
  const { order, perKeyDefault, ...same } = unstamped(options as { readonly onEvent?: never } & Record<string, unknown>);
  const given: Record<string, unknown> = same;
  if (order === 'input') given['order'] = operators.inputOrder();
  else if (order === 'perKey') given['order'] = operators.orderPerKey(key as never);
  else if (order !== undefined && order !== 'completion') given['order'] = order;
  const { perKey } = given;
  if (perKeyDefault !== undefined)
    given['perKey'] = (name: never) => (Object(perKey) as Record<string, number>)[name] ?? (perKeyDefault as number);
  return given;
}

export function bulkheadMap<T, R>(
  project: Stream<T, R>,
  options: BulkheadMapOptions<T> & { readonly errors: 'propagate' },
): OperatorFunction<T, R>;
export function bulkheadMap<T, R>(
  project: Work<T, R>,
  options?: BulkheadMapOptions<T> & { readonly errors?: 'settle' },
): OperatorFunction<T, Settled<T, R>>;
export function bulkheadMap<T, R>(project: Work<T, R>, options: BulkheadMapOptions<T> = {}): unknown {
  return operators.bulkheadMap(project, translated(options, options.key));
}

export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: Stream<T, R>,
  options: ConcatMapByOptions & { readonly errors: 'propagate'; readonly onError?: 'error' },
): OperatorFunction<T, R>;
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: Work<T, R>,
  options?: ConcatMapByOptions & { readonly errors?: 'settle' },
): OperatorFunction<T, Settled<T, R>>;
export function concatMapBy<T, R>(key: (item: T) => unknown, project: Work<T, R>, options: ConcatMapByOptions = {}): unknown {
  const { onError, ...given } = translated(options, key);
  const operator = operators.concatMapBy(key, project, { ...given, ...(onError === 'stopKey' && { stopKey: true }) });
  if (onError !== 'error' || options.errors === 'propagate') return operator;
  return (source: Observable<T>) =>
    source.pipe(
      operator,
      mergeMap((settled) =>
        settled.status === 'rejected'
          ? concat(
              of(settled),
              // eslint-disable-next-line rxjs-x/throw-error -- what was thrown is passed on as it is
              throwError(() => settled.reason),
            )
          : of(settled),
      ),
    );
}

export function settleAll<T, R>(calls: readonly T[], project: Work<T, R>, options?: SettleAllOptions<T>): Observable<Settled<T, R>[]>;
export function settleAll<F extends (context: ItemContext) => unknown>(
  calls: readonly F[],
  options?: SettleAllOptions<F>,
): Observable<Settled<F, WorkValue<ReturnType<F>>>[]>;
export function settleAll(calls: readonly unknown[], ...given: readonly unknown[]): never {
  const [second, third] = given.map((each) => {
    if (typeof each !== 'object' || each === null) return each;
    const { mode, totalTimeoutMs, ...same } = unstamped(each as SettleAllOptions<never>);
    return {
      ...same,
      ...(mode && { errors: mode === 'all' ? 'propagate' : mode }),
      ...(totalTimeoutMs !== undefined && { deadlineMs: totalTimeoutMs }),
    };
  });
  return operators.settleAll(calls, second as never, third as never) as never;
}
