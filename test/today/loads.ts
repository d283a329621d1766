/** `createBatcher`, `divideRetry`, `mergeLanes`. */
import type { Observable, ObservableInput, ObservedValueOf, SchedulerLike } from 'rxjs';
import type {
  Batcher,
  BatchWork,
  DivideRetryContext,
  FlowSink,
  LaneBatch,
  LaneOverflow,
  LoadCacheOptions,
  Settled,
} from '../../operators/index.js';
import * as operators from '../../operators/index.js';
import type { Fairness, GatedBatchOptions, LaneOptions } from './gated.js';
import { fairnessOf, gated, heard } from './gated.js';

export type { Batcher, LaneBatch, LoadOptions } from '../../operators/index.js';

export interface BatcherOptions<T, R = never> extends GatedBatchOptions<T, R> {
  readonly dedupe?: (item: T) => unknown;
  readonly cache?: LoadCacheOptions;
}
export function createBatcher<T, R>(work: BatchWork<T, R>, options: BatcherOptions<T, NoInfer<R>> = {}): Batcher<T, R> {
  const { dedupe, cache, ...rest } = options;
  return operators.createBatcher(work, {
    ...gated<T, NoInfer<R>>(rest),
    ...(dedupe !== undefined && { dedupe }),
    ...(cache !== undefined && { cache }),
  });
}

type DividedOptions =
  | 'concurrency'
  | 'limiter'
  | 'weigh'
  | 'id'
  | 'classify'
  | 'retry'
  | 'split'
  | 'attemptTimeoutMs'
  | 'itemDeadlineMs'
  | 'onEvent'
  | 'scheduler'
  | 'random';

export interface DivideRetryOptions<T> extends Pick<GatedBatchOptions<T>, DividedOptions> {
  readonly lane?: string;
}
export function divideRetry<T, R>(
  work: BatchWork<T, R>,
  options: DivideRetryOptions<T> = {},
): (items: readonly T[], context?: DivideRetryContext | number) => Observable<Settled<T, R>[]> {
  const { lane, ...rest } = options;
  return operators.divideRetry<T, R>(work, { ...gated<T, R>(rest), ...(lane !== undefined && { lane }) } as object);
}

export interface MergeLane<T, N extends string = string> extends LaneOptions {
  readonly name: N;
  readonly source: ObservableInput<T>;
  readonly overflow?: LaneOverflow;
}
export interface MergeLanesOptions<T> {
  readonly maxSize?: number;
  readonly maxWeight?: number;
  readonly weigh?: (item: T) => number;
  readonly oversize?: 'alone' | 'reject';
  readonly fairness?: Fairness;
  readonly flush?: ObservableInput<unknown>;
  readonly maxQueued?: number;
  readonly overflow?: LaneOverflow;
  readonly laneError?: 'propagate' | 'isolate';
  readonly eagerComplete?: boolean;
  readonly onSourceError?: 'flush' | 'abort';
  readonly scheduler?: SchedulerLike;
  readonly onEvent?: FlowSink;
}
type ItemOf<L extends readonly MergeLane<unknown>[]> = ObservedValueOf<L[number]['source']>;
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a lane of whatever items; which, is inferred
export function mergeLanes<const L extends readonly MergeLane<any>[]>(
  lanes: L,
  options: MergeLanesOptions<ItemOf<L>> = {},
): Observable<LaneBatch<ItemOf<L>, L[number]['name']>> {
  const { fairness, onEvent, ...same } = options;
  const shared = lanes.map(({ weight, ...lane }) => ({ ...lane, ...(weight !== undefined && { share: weight }) }));
  return operators.mergeLanes(shared as never, {
    ...same,
    ...(fairness !== undefined && { fairness: fairnessOf(fairness) }),
    ...(onEvent && { onEvent: heard(onEvent) }),
  });
}
