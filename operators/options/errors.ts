import type { Observable } from 'rxjs';
import { show } from './show.js';

/**
 * Machine-readable reason of a {@link FlowError}; switch on it, never on the message.
 * @stable
 */
export type FlowErrorCode = keyof FlowErrors;

/** Present on every {@link FlowError}, so that two bundled copies of the package recognise each other's errors. */
const BRAND = '@@sluice/FlowError';

/**
 * Base of every error this package raises. Errors of your own source or work pass through untouched, as the same object.
 * No item, prompt or key ever enters a message.
 * @stable
 */
export class FlowError extends Error {
  override readonly name: string = 'FlowError';
  constructor(
    readonly code: FlowErrorCode,
    /** The operator or factory that raised it, for example `batchMap`. */
    readonly operator: string,
    message: string,
    cause?: unknown,
  ) {
    super(`${operator}: ${message}`, cause === undefined ? cause : { cause });
  }

  /** {@link BRAND}: no field, which tests and loggers would show. */
  get '@@sluice/FlowError'(): true {
    return true;
  }
}

/** The error, or errors, that a code stands for. */
export interface FlowErrors {
  readonly FLOW_CONFIG_INVALID: FlowConfigError;
  readonly FLOW_LANE_UNKNOWN: LaneUnknownError;
  readonly FLOW_ITEM_TOO_HEAVY: ItemTooHeavyError;
  readonly FLOW_BATCH_SHAPE: BatchShapeError;
  readonly FLOW_RATE_LIMITED: RateLimitError;
  readonly FLOW_NESTED_ACQUIRE: NestedAcquireError;
  readonly FLOW_BREAKER_OPEN: BreakerOpenError;
  readonly FLOW_BUDGET_EXCEEDED: BudgetExceededError;
  readonly FLOW_DEADLINE: DeadlineError;
  readonly FLOW_ATTEMPT_TIMEOUT: AttemptTimeoutError;
  readonly FLOW_OVERFLOW: OverflowError;
  readonly FLOW_CLOSED: ClosedError;
  readonly FLOW_CLEARED: ClosedError;
  readonly FLOW_SPLIT_LIMIT: SplitLimitError;
  readonly FLOW_RETRY_SHARE: RetryShareError;
  readonly FLOW_REFUSED: GuardRefusedError;
  readonly FLOW_SEQUENCE_GAP: SequenceError;
  readonly FLOW_TOOL_CALL_UNFINISHED: UnfinishedToolCallError;
  readonly FLOW_CALLBACK: CallbackError;
  readonly FLOW_JOURNAL: JournalError;
}

/**
 * True for an error of this package, from whichever copy of it; with `code`, only for that one, which is then the type as well.
 * @stable
 */
export function isFlowError<C extends FlowErrorCode>(value: unknown, code: C): value is FlowErrors[C];
export function isFlowError(value: unknown, code?: FlowErrorCode): value is FlowError;
export function isFlowError(value: unknown, code?: FlowErrorCode): value is FlowError {
  try {
    const { [BRAND]: isOurs, code: its } = value as Partial<FlowError>;
    return isOurs === true && (code === undefined || its === code);
  } catch {
    // Null or undefined, or a proxy that forbids reading.
    return false;
  }
}

/**
 * An option is unknown, out of range or of the wrong shape; thrown where the operator is created, never inside a stream.
 * @stable
 */
export class FlowConfigError extends FlowError {
  override readonly name = 'FlowConfigError';
  constructor(
    operator: string,
    readonly option: string,
    /** What the option takes; with a `problem`, how to repair it. */
    readonly expected: string,
    /** Undefined where the value may be a secret, or is not the problem. */
    readonly got: unknown,
    // `Number(process.env.TPM)`.
    shown = Number.isNaN(got) && expected.includes('number') ? 'NaN (is the environment variable set?)' : show(got),
    problem = '',
  ) {
    super('FLOW_CONFIG_INVALID', operator, problem ? `${problem}. ${expected}` : `expected \`${option}\` to be ${expected}, got ${shown}`);
  }
}

/**
 * An item names a lane that was not declared.
 * @stable
 */
export class LaneUnknownError extends FlowError {
  override readonly name = 'LaneUnknownError';
  constructor(
    operator: string,
    readonly lane: string,
    readonly known: readonly string[],
  ) {
    super('FLOW_LANE_UNKNOWN', operator, `lane \`${lane}\` is not one of ${known.map((k) => `\`${k}\``).join(', ')}`);
  }
}

/**
 * One item weighs more than a batch, or the provider, may ever take.
 * @stable
 */
export class ItemTooHeavyError extends FlowError {
  override readonly name = 'ItemTooHeavyError';
  constructor(
    operator: string,
    readonly weight: number,
    readonly maxWeight: number,
    /** The unit of the rate that can never pay it; undefined for the weight of a batch. */
    readonly unit?: string,
  ) {
    const amount = unit === undefined ? weight : `${weight} ${unit}`;
    super('FLOW_ITEM_TOO_HEAVY', operator, `an item weighs ${amount}, more than the limit of ${maxWeight}`);
  }
}

/**
 * The work returned results that cannot be matched to the items it was given; the whole batch fails, nothing is shifted.
 * @stable
 */
export class BatchShapeError extends FlowError {
  override readonly name = 'BatchShapeError';
  constructor(
    operator: string,
    readonly expected: number,
    readonly received: number,
    problem = `expected ${expected} results, one per item, received ${received}`,
  ) {
    super('FLOW_BATCH_SHAPE', operator, problem);
  }
}

/**
 * A permit was refused instead of waited for.
 * @stable
 */
export class RateLimitError extends FlowError {
  override readonly name = 'RateLimitError';
  constructor(
    operator: string,
    readonly limit: string,
    /** When all its limits but a slot could pay: 0 where only a slot is missing, Infinity in a pause that lasts until `resume`. */
    readonly retryAfterMs: number,
  ) {
    const when = retryAfterMs > 0 && retryAfterMs < Infinity ? `; try again in ${Math.ceil(retryAfterMs)} ms` : '';
    super('FLOW_RATE_LIMITED', operator, `no permit under ${limit}${when}`);
  }
}

/**
 * Work that holds a permit asked for another one while work of the same kind holds every slot: none of them could ever continue.
 * @stable
 */
export class NestedAcquireError extends FlowError {
  override readonly name = 'NestedAcquireError';
  constructor(
    operator: string,
    /** Slots, all of them held by work that waits for another one. */
    readonly concurrency: number,
  ) {
    super(
      'FLOW_NESTED_ACQUIRE',
      operator,
      `all ${concurrency} slots are held by work that waits for another one; release the first permit before, or use a second limiter`,
    );
  }
}

/**
 * The breaker is open: the call, or another attempt at it, was not made, because too many before it had failed. `cause` is what its last attempt failed with.
 * @stable
 */
export class BreakerOpenError extends FlowError {
  override readonly name = 'BreakerOpenError';
  constructor(
    operator: string,
    /** When the breaker lets the next probe pass, from now; Infinity when it was opened by hand. */
    readonly retryAfterMs: number,
    cause?: unknown,
  ) {
    const until = retryAfterMs === Infinity ? ' until it is reset' : `; try again in ${Math.ceil(retryAfterMs)} ms`;
    super('FLOW_BREAKER_OPEN', operator, `the circuit is open${until}`, cause);
  }
}

/**
 * The limit of a budget that had no room for a call, and what the call would have taken of it.
 * @stable
 */
export interface BudgetRefusal {
  /** Undefined when the limit is about calls of all keys. Not in the message. */
  readonly key: string | undefined;
  /** Undefined when the limit is about calls of all models. */
  readonly model: string | undefined;
  readonly unit: 'usd' | 'tokens';
  readonly limit: number;
  /** What of the limit is neither spent nor reserved by calls under way, in `unit`. */
  readonly left: number;
  /** What the call may cost at most, in `unit`. */
  readonly asked: number;
  /** When the limit begins anew, on the clock of the budget; Infinity when it never does, or when the call costs more than all of it. */
  readonly resetsAt: number;
  /** How long that is from now. */
  readonly resetsInMs: number;
  /**
   * Emits when it is worth asking again: calls under way have reserved what this one needs, and now there is room, or no hope of it any more. Each call that
   * waits is told once, those that asked first before others. Undefined when the call has no room whatever becomes of them. `retry({ delay: (error) => error.freed ?? throwError(() => error) })` waits for room.
   */
  readonly freed?: Observable<unknown> | undefined;
}

/**
 * A limit of a budget has no room for the call, which was not made.
 * @stable
 */
export class BudgetExceededError extends FlowError implements BudgetRefusal {
  override readonly name = 'BudgetExceededError';
  readonly key: string | undefined;
  readonly model: string | undefined;
  readonly unit: 'usd' | 'tokens';
  readonly limit: number;
  readonly left: number;
  readonly asked: number;
  readonly resetsAt: number;
  readonly resetsInMs: number;
  declare readonly freed: Observable<unknown> | undefined;

  constructor(operator: string, refusal: BudgetRefusal) {
    const { asked, key, left, limit, model, resetsAt, resetsInMs, unit } = refusal;
    const shown = (amount: number): string => (unit === 'usd' ? `${Number(amount.toFixed(9))} USD` : `${amount} tokens`);
    const when = resetsInMs === Infinity ? '' : `; the limit resets in ${spanOf(resetsInMs)}`;
    super(
      'FLOW_BUDGET_EXCEEDED',
      operator,
      `the call may cost ${shown(asked)}, and ${shown(left)} of the limit of ${shown(limit)} is left${when}`,
    );
    this.key = key;
    this.model = model;
    this.unit = unit;
    this.limit = limit;
    this.left = left;
    this.asked = asked;
    this.resetsAt = resetsAt;
    this.resetsInMs = resetsInMs;
    // Not for loggers.
    Object.defineProperty(this, 'freed', { value: refusal.freed });
  }
}

/** A span of time as people say it. */
function spanOf(ms: number): string {
  const [unit, one] = ms >= 3_600_000 ? ['h', 3_600_000] : ms >= 60_000 ? ['min', 60_000] : ms >= 1000 ? ['s', 1000] : ['ms', 1];
  return `${Math.ceil((10 * ms) / one) / 10} ${unit}`;
}

/**
 * An item was not settled within its time; counts from acceptance, so waiting and backoff are included. Never retried.
 * @stable
 */
export class DeadlineError extends FlowError {
  override readonly name = 'DeadlineError';
  constructor(
    operator: string,
    readonly deadlineMs: number,
    readonly elapsedMs: number,
    cause?: unknown,
  ) {
    const elapsed = Math.round(elapsedMs);
    const late = `not settled within ${deadlineMs} ms (${elapsed} ms elapsed)`;
    // Not for a clock that is behind by a rounding.
    const isEarly = deadlineMs - elapsedMs > 1;
    const early = `given up after ${elapsed} ms: the next attempt would start after the deadline of ${deadlineMs} ms`;
    super('FLOW_DEADLINE', operator, isEarly ? early : late, cause);
  }
}

/**
 * One attempt of the work took longer than `timeoutMs`; its signal was aborted. Classified as `timeout`.
 * @stable
 */
export class AttemptTimeoutError extends FlowError {
  override readonly name = 'AttemptTimeoutError';
  constructor(
    operator: string,
    readonly timeoutMs: number,
  ) {
    super('FLOW_ATTEMPT_TIMEOUT', operator, `the attempt took longer than ${timeoutMs} ms and was aborted`);
  }
}

/**
 * A bounded queue was full; `policy` says which item paid for it.
 * @stable
 */
export class OverflowError extends FlowError {
  override readonly name = 'OverflowError';
  constructor(
    operator: string,
    readonly limit: number,
    readonly policy: string,
    /** The option that set the bound; `maxWaiting` is how many producers may wait for an intake. */
    readonly bound: 'maxQueued' | 'maxKeys' | 'maxWaiting' | 'maxWeight' = 'maxQueued',
  ) {
    const problem =
      bound === 'maxKeys' ? 'there are too many keys at a time' : bound === 'maxWaiting' ? 'too many producers wait' : 'the queue is full';
    super('FLOW_OVERFLOW', operator, `${problem} (\`${bound}\` ${limit}, \`overflow\` '${policy}')`);
  }
}

/**
 * It was not started. Either the handle was closed: it takes no new work, and waiting work was rejected; where an option that is an Observable
 * has failed, `cause` is that failure. Or an earlier item of its key
 * failed, and the key takes no more; `cause` is that failure. Or the queue was cleared (`FLOW_CLEARED`); `cause` is the reason that was given.
 * @stable
 */
export class ClosedError extends FlowError {
  override readonly name = 'ClosedError';
  constructor(
    operator: string,
    cause?: unknown,
    problem = 'closed; it accepts no more work',
    code: 'FLOW_CLOSED' | 'FLOW_CLEARED' = 'FLOW_CLOSED',
  ) {
    super(code, operator, problem, cause);
  }
}

/**
 * Divide-and-conquer ran out of calls or depth: this item was not proven bad, only not settled. `cause` is the last group's error.
 * @stable
 */
export class SplitLimitError extends FlowError {
  override readonly name = 'SplitLimitError';
  constructor(
    operator: string,
    readonly maxCalls: number,
    readonly calls: number,
    cause: unknown,
  ) {
    super('FLOW_SPLIT_LIMIT', operator, `gave up splitting after ${calls} of ${maxCalls} calls`, cause);
  }
}

/**
 * A call failed in a way that may pass, and is not made again: too many calls were being retried. `cause` is what it failed with.
 * @stable
 */
export class RetryShareError extends FlowError {
  override readonly name = 'RetryShareError';
  constructor(
    operator: string,
    /** Most retries at a time as a share of the calls under way. */
    readonly maxShare: number,
    cause: unknown,
  ) {
    super(
      'FLOW_RETRY_SHARE',
      operator,
      `not retried: retries already take their share (\`maxShare\` ${maxShare}) of the calls under way`,
      cause,
    );
  }
}

/**
 * A `guard` did not let a call go; it was never sent.
 * @stable
 */
export class GuardRefusedError extends FlowError {
  override readonly name = 'GuardRefusedError';
  constructor(
    operator: string,
    /** Position of the call, from 0. */
    readonly index: number,
    /** What the guard gave as its reason; not in the message, because it may name what was asked for. */
    readonly reason: string | undefined,
  ) {
    super('FLOW_REFUSED', operator, `the guard refused call ${index}`);
  }
}

/**
 * An item of a numbered stream did not come in time (`FLOW_SEQUENCE_GAP`).
 * @stable
 */
export class SequenceError extends FlowError {
  override readonly name = 'SequenceError';
  constructor(
    operator: string,
    /** The number that was waited for. */
    readonly sequence: number,
    /** How many are missing in a row, this one included. */
    readonly missingCount: number,
    /** Items that waited behind the gap. */
    readonly held: number,
  ) {
    const last = sequence + missingCount - 1;
    const what = missingCount === 1 ? String(sequence) : `${sequence} to ${last}`;
    super('FLOW_SEQUENCE_GAP', operator, `gave up waiting for ${what}, with ${held} held behind`);
  }
}

/**
 * A stream of a model ended, or its answer was cut off, within tool calls: what is there of their arguments cannot be used.
 * @stable
 */
export class UnfinishedToolCallError extends FlowError {
  override readonly name = 'UnfinishedToolCallError';
  constructor(
    operator: string,
    /** Of the calls that were not finished, as the model gave them; `no_id_1` and so on where it gave none. */
    readonly ids: readonly string[],
  ) {
    super('FLOW_TOOL_CALL_UNFINISHED', operator, `the stream ended within ${ids.map((id) => `\`${id}\``).join(', ')}`);
  }
}

/**
 * A callback of yours (`weigh`, `key`, `lane`, …) threw or returned something unusable; `cause` is what it threw.
 * @stable
 */
export class CallbackError extends FlowError {
  override readonly name = 'CallbackError';
  constructor(
    operator: string,
    readonly callback: string,
    problem: string,
    cause?: unknown,
  ) {
    super('FLOW_CALLBACK', operator, `\`${callback}\` ${problem}`, cause);
  }
}

/**
 * A journal in a file cannot be used (`FLOW_JOURNAL`). `cause` is the error of the system, when there is one.
 * @stable
 */
export class JournalError extends FlowError {
  override readonly name = 'JournalError';
  constructor(
    operator: string,
    /**
     * `'disk'`: the system cannot read or write the file. `'busy'`: it is open already, in another process or in this one. `'foreign'`: the file is
     * something else. `'value'`: a value is no JSON.
     */
    readonly reason: 'disk' | 'busy' | 'foreign' | 'value',
    problem: string,
    cause?: unknown,
  ) {
    super('FLOW_JOURNAL', operator, problem, cause);
  }
}
