import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import type { Classify, FlowEvent, FlowSink, GateOptions, Overflow, Permits, RetryOptions, WindowContext } from '../../operators/index.js';
import {
  classifyError,
  divideAndConquer,
  fixed,
  graded,
  inputOrder,
  lanes as lanesOf,
  natural,
  orderPerKey,
  retryFailed,
  roundRobin,
  sequentialSearch,
  splitItem,
  strictWithFloor,
  weighted,
} from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

/** A lane, as options of today have it. */
export interface LaneOptions {
  readonly name: string;
  readonly maxWaitMs?: number;
  readonly maxQueued?: number;
  readonly overflow?: Overflow;
  readonly floor?: number;
  readonly weight?: number;
  readonly piggyback?: boolean;
}

export type Fairness =
  | 'strict'
  | 'wdrr'
  | 'roundRobin'
  | { readonly kind: 'strict'; readonly floor?: number }
  | { readonly kind: 'wdrr' | 'roundRobin' };

export type Window =
  | { readonly kind: 'natural' }
  | { readonly kind: 'fixed'; readonly ms: number }
  | { readonly kind: 'graded'; readonly maxMs: number }
  | ((context: WindowContext) => number);

export interface SplitOptions {
  readonly strategy?: 'parallel' | 'sequential';
  readonly factor?: number;
  readonly confirm?: boolean;
  readonly maxCalls?: number;
  readonly maxDepth?: number;
  readonly maxBlameRounds?: number;
}

/** Options of batches as they are called today. */
export interface GatedBatchOptions<T, R = never> {
  readonly maxSize?: number;
  readonly maxWeight?: number;
  readonly weigh?: (item: T) => number;
  readonly oversize?: 'alone' | 'reject' | 'split';
  readonly splitItem?: (item: T) => readonly T[];
  readonly joinResults?: { join(results: readonly R[]): R }['join'];
  readonly flush?: ObservableInput<unknown>;
  readonly order?: 'completion' | 'input' | 'perKey';
  readonly key?: (item: T) => unknown;
  readonly concurrency?: number | Observable<number>;
  readonly limiter?: Permits;
  readonly window?: Window;
  readonly maxQueued?: number;
  readonly overflow?: Overflow;
  readonly lanes?: readonly LaneOptions[];
  readonly fairness?: Fairness;
  readonly lane?: (item: T) => string;
  readonly id?: (item: T) => string;
  readonly classify?: Classify;
  readonly retry?: RetryOptions | false;
  readonly split?: SplitOptions | false;
  readonly attemptTimeoutMs?: number;
  readonly itemDeadlineMs?: number | ((item: T) => number);
  /** Gone: a burst always ends with its frame, which a scheduler that runs a delay of 0 at once makes that of one item. */
  readonly burst?: 'asap' | 'sync' | 'tick';
  readonly onEvent?: FlowSink;
  readonly scheduler?: SchedulerLike;
  readonly random?: () => number;
}

/** Options under their new names. What is left out keeps the default of today: everything is repaired. */
export function gated<T, R>(given: GatedBatchOptions<T, R>): GateOptions<T, R> {
  const {
    oversize,
    splitItem: into,
    joinResults: join,
    order,
    key,
    window,
    lanes,
    fairness,
    lane,
    classify,
    retry,
    split,
    ...rest
  } = given;
  const { attemptTimeoutMs, itemDeadlineMs, onEvent, burst, ...same } = rest;
  return {
    ...same,
    ...(burst === 'sync' && { scheduler: atOnce(same.scheduler ?? asyncScheduler) }),
    // Its frames end with the turn of the event loop.
    ...(burst === 'tick' && { scheduler: same.scheduler ?? asyncScheduler }),
    ...(oversize !== undefined && { oversize: oversize === 'split' ? (splitItem({ into, join } as never) as never) : oversize }),
    ...(order === 'input' && { order: inputOrder() }),
    ...(order === 'perKey' && { order: orderPerKey(key as (item: T) => unknown) }),
    ...(window !== undefined && { window: windowOf(window) }),
    ...((lanes !== undefined || lane !== undefined) && { queue: queueOf(lanes, fairness, lane) }),
    classify: classify ?? classifyError,
    repair: [retry === false ? [] : retryFailed(retry), split === false ? [] : divideAndConquer(divideOf(split))],
    ...(attemptTimeoutMs !== undefined && { timeoutMs: attemptTimeoutMs }),
    ...(itemDeadlineMs !== undefined && { deadlineMs: itemDeadlineMs }),
    ...(onEvent !== undefined && { onEvent: typeof onEvent === 'function' ? heard(onEvent) : onEvent }),
  };
}

export function queueOf<T>(
  list: readonly LaneOptions[] | undefined,
  fairness: Fairness | undefined,
  by: ((item: T) => string) | undefined,
) {
  const shares = (list ?? [{ name: 'default' }]).map(({ weight, ...lane }) => ({
    ...lane,
    ...(weight !== undefined && { share: weight }),
  }));
  const queue = lanesOf<T>(shares, { fairness: fairnessOf(fairness), ...(by && { by }) });
  // Without declared lanes every name was the one lane.
  return list === undefined ? { ...queue, isDeclared: false, at: () => 0 } : queue;
}

export function fairnessOf(fairness: Fairness = 'strict') {
  const { kind, floor } = (typeof fairness === 'object' ? fairness : { kind: fairness }) as { kind: string; floor?: number };
  return kind === 'strict' ? strictWithFloor(floor) : kind === 'wdrr' ? weighted() : roundRobin();
}

export function windowOf(window: Window): (context: WindowContext) => number {
  if (typeof window === 'function') return window;
  if (window.kind === 'natural') return natural();
  return window.kind === 'fixed' ? fixed(window.ms) : graded(window.maxMs);
}

function divideOf({ strategy, confirm = true, ...same }: SplitOptions = {}) {
  return strategy === 'sequential' ? { ...same, strategy: sequentialSearch({ confirm }) } : same;
}

/** An event as it was told before events said when and of whom. */
export function heard(onEvent: FlowSink): FlowSink {
  return (event) => {
    const { at: _at, instance: _instance, parentBatchId: _parent, seq: _seq, seqs: _seqs, ...before } = event;
    const told: Record<string, unknown> = { ...before };
    if (!event.type.startsWith('attempt')) delete told['batchId'];
    else if (typeof before.batchId === 'string') told['batchId'] = before.batchId.split('.')[0];
    onEvent(told as unknown as FlowEvent);
  };
}
