/** `batchMap` and `batchMapFrom`. */
import type { Observable, OperatorFunction } from 'rxjs';
import { tap } from 'rxjs';
import type { BatchWork, PullSource, Settled } from '../../operators/index.js';
import * as operators from '../../operators/index.js';
import type { GatedBatchOptions } from './gated.js';
import { gated } from './gated.js';

export type { BatchWork } from '../../operators/index.js';
export type { GatedBatchOptions, SplitOptions } from './gated.js';

export interface BatchMapOptions<T, R = never> extends GatedBatchOptions<T, R> {
  readonly failure?: 'settle' | 'failFast';
  readonly onSourceError?: 'abort' | 'drain' | 'flush';
}
export type BatchMapFromOptions<T, R = never> = Omit<BatchMapOptions<T, R>, 'overflow'>;

function failFast<T, R>(failure: BatchMapOptions<T>['failure']): (results: Observable<Settled<T, R>>) => Observable<Settled<T, R>> {
  if (failure !== 'failFast') return (results) => results;
  return tap((settled) => {
    if (settled.status === 'rejected') throw settled.reason;
  });
}

export function batchMap<T, R>(work: BatchWork<T, R>, options: BatchMapOptions<T, NoInfer<R>> = {}): OperatorFunction<T, Settled<T, R>> {
  const { failure, ...same } = options;
  const mapped = operators.batchMap(work, gated(same));
  return (source) => mapped(source).pipe(failFast(failure));
}

export function batchMapFrom<T, R>(
  input: PullSource<T>,
  work: BatchWork<T, R>,
  options: BatchMapFromOptions<T, NoInfer<R>> = {},
): Observable<Settled<T, R>> {
  const { failure, ...same } = options;
  return operators.batchMapFrom(input, work, gated(same)).pipe(failFast(failure));
}
