/**
 * What kind of failure an error is; decides whether to retry, split, wait or reject.
 * @stable
 */
export type ErrorClass = 'throttled' | 'transient' | 'timeout' | 'tooLarge' | 'itemFault' | 'fatal' | 'contract' | 'cancelled';

/**
 * What a classifier answers.
 * @stable
 */
export interface Verdict {
  readonly class: ErrorClass;
  /** How long the other side asked us to wait. */
  readonly retryAfterMs?: number;
  /** Indices (in the call's order) or ids of the items at fault, when the error names them. */
  readonly blame?: readonly (number | string)[];
  /** Size the other side measured and its limit, in the unit of the item's weight, when a `tooLarge` error gives them. */
  readonly tooLarge?: { readonly actual: number; readonly limit: number };
  /** The refusal concerns one service tier (no capacity there), not the account: nothing else is paused for it. */
  readonly isTierOnly?: boolean;
  /** True when nothing in the error says what it is about, so that `class` is a guess. */
  readonly unrecognised?: boolean;
}

/**
 * Context of a classifier.
 * @stable
 */
export interface ClassifyContext {
  /** Items in the failed call. */
  readonly size: number;
  readonly attempt: number;
  /** True when we aborted the call ourselves. */
  readonly aborted: boolean;
  /** The time now in ms since 1970, for a `retry-after` given as a date. @defaultValue none: such dates are ignored */
  readonly epochMs?: number;
}

/** @stable */
export type Classify = (error: unknown, context: ClassifyContext) => Verdict;

/** Whether an error may be gone at another try. */
export function mayPass({ class: found }: Verdict): boolean {
  return found === 'throttled' || found === 'transient' || found === 'timeout';
}
