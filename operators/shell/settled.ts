import type { Settled } from '../options/types.js';

/** What is known of an item that has its result. */
interface About<T> {
  readonly input: T;
  readonly index: number;
  readonly id: string;
  readonly attempts: number;
}

/** What became of an item. */
export function settledOf<T, R>({ input, index, id, attempts }: About<T>, failed: boolean, outcome: unknown): Settled<T, R> {
  return failed
    ? { status: 'rejected', reason: outcome, input, index, id, attempts }
    : { status: 'fulfilled', value: outcome as R, input, index, id, attempts };
}
