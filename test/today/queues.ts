/** Queues and batches of streams, without work. */
import type { OperatorFunction } from 'rxjs';
import * as operators from '../../operators/index.js';
import { unstamped } from './events.js';

export type {
  BackpressureOptions,
  CoalesceOptions,
  ConflateWhileBusyOptions,
  Intake,
  IntakeOptions,
  OfferOptions,
  ResequenceOptions,
  Store,
} from '../../operators/index.js';
export { backpressure, coalesce, conflateWhileBusy, createIntake, resequence, toStore } from '../../operators/index.js';

export interface BatchOptions<T> extends Omit<operators.BatchOptions<T>, 'oversize'> {
  readonly oversize?: 'alone' | 'reject' | 'error' | 'split';
  readonly splitItem?: (item: T) => readonly T[];
}
export function batch<T>(options: BatchOptions<T> = {}): OperatorFunction<T, T[]> {
  const { oversize, splitItem, ...same } = unstamped(options);
  const rule = oversize === 'split' ? operators.splitItem({ into: splitItem! }) : oversize === 'error' ? 'reject' : oversize;
  return operators.batch({ ...same, ...(rule !== undefined && { oversize: rule }) });
}
