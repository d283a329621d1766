import type { ObservableInput, SchedulerLike } from 'rxjs';
import type { Refusals } from '../../kernel/repair/refusals.js';
import type { RetryDecision } from '../../kernel/repair/rule.js';
import type { Breaker } from '../../options/breaker.js';
import type { Note } from '../../options/events.js';
import type { Lease, Limiter, LimiterJob } from '../../options/limiter.js';
import type { Classify, ErrorClass, ResponseLike, Usage, WorkResult } from '../../options/types.js';
import type { BreakerGate } from './breaker-gate.js';

/**
 * What the work of a policy is told about its attempt. The functions may be taken out of it.
 * @beta
 */
export interface PolicyContext {
  /**
   * Aborts when the attempt has timed out, the deadline has passed, or the last subscriber has left; never once a promise has answered.
   * Made on the first look.
   */
  readonly signal: AbortSignal;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** When this attempt is cut off, on the policy's scheduler; Infinity when it is not. */
  readonly deadlineAt: number;
  /** How long it has waited for its permit, in ms. */
  readonly queuedMs: number;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
  /** Replaces the estimated token cost by the real one. */
  readonly settle: (usage: Usage) => void;
  /** Lets the limiter read `retry-after` from a response. */
  readonly observe: (response: ResponseLike) => void;
  /** Set it to hear of the abort without a signal, which costs less: called once, just before the signal would abort. */
  whenAborted: (() => void) | undefined;
  /** Set it to release the permit later than the attempt ends: a server sees that a connection was closed later than its client closes it. */
  giveBack: ((release: () => void) => void) | undefined;
  /** Starts `timeoutMs` of this attempt anew, for work that reports its progress. */
  readonly restartTimeout: () => void;
  /** Stops the clock of `timeoutMs`, while the work waits for a person for example, until the returned function is called. `deadlineMs` goes on. */
  readonly pauseTimeout: () => () => void;
}

export type PolicyWork<R> = (context: PolicyContext) => WorkResult<R>;

/**
 * What the guard of a policy is told.
 * @beta
 */
export interface PolicyGuardContext {
  /** Aborts when the call is cancelled, or out of time, before the guard has answered. Made on the first look. */
  readonly signal: AbortSignal;
  /** The attempt that is to start: 1 for the first. */
  readonly attempt: number;
}

/**
 * Whether an attempt may be made: true lets it go, false or a reason refuses it. May answer later, with a promise or the last value of a stream.
 * @beta
 */
export type PolicyGuard = (context: PolicyGuardContext) => boolean | string | ObservableInput<boolean | string>;

/** What a fallback is told about the failure. */
export interface FallbackContext {
  /** What `classify` makes of the error. */
  readonly class: ErrorClass;
  /** Attempts that were made; 0 when the breaker was open. */
  readonly attempts: number;
  /** Aborts when the subscriber has left; never once a promise has answered. Made on the first look. */
  readonly signal: AbortSignal;
}

export type Fallback<F> = (error: unknown, context: FallbackContext) => WorkResult<F>;

/** What the calls of one policy have under way, for the share of retries, and the refusals that they share. */
export interface PolicyLoad {
  calls: number;
  active: number;
  retrying: number;
  executing: number;
  /** A permit was free, and the call that took it is being started: what that calls takes the way through the limiter's loop, which does not recurse. */
  isStarting: boolean;
  readonly refusals: Refusals;
}

/** A policy's rules for the attempts of a hedge. */
export interface HedgedRules {
  readonly operator: string;
  readonly limiter: Limiter | undefined;
  readonly breaker: Breaker | undefined;
  readonly job: LimiterJob | undefined;
  readonly timeoutMs: number;
  readonly silenceMs: number;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  readonly tell: ((note: Note) => void) | undefined;
}

/**
 * Makes the second attempts of calls while the first is silent: the value `hedging({ … })`.
 * @beta
 */
export interface HedgeRule {
  hedged(rules: HedgedRules): HedgedCalls;
}

/** The hedged calls of one policy. */
export interface HedgedCalls {
  /** Whose calls are hedged. */
  readonly lanes: ReadonlySet<string>;
  /** Whether the error says that the breaker has refused an attempt. */
  isRefusal(error: unknown): boolean;
  /** Work that makes all attempts of a hedge. Each asks the breaker, under a permit of its own. */
  work<R>(work: PolicyWork<R>, call: { readonly job: LimiterJob | undefined; readonly lane: string; readonly id: string }): PolicyWork<R>;
}

/** What a call does while the breaker is open. */
export type WhenOpen = 'fail' | 'wait';

/** The options of a policy. */
export interface CallRules<F> extends HedgedRules {
  readonly fallback: Fallback<F> | undefined;
  /** Where calls wait for the breaker; undefined without one. */
  readonly gate: BreakerGate | undefined;
  readonly whenOpen: WhenOpen;
  /** Set where the work asks the breaker, under permits of its own: whether an error is a refusal by it. */
  readonly asksInside: ((error: unknown) => boolean) | undefined;
  readonly retry: RetryDecision | undefined;
  readonly resumable: boolean;
  readonly load: PolicyLoad;
}

/** The options of one of its calls. */
export interface OwnRules {
  readonly deadlineMs: number;
  readonly guard: PolicyGuard | undefined;
  readonly job: LimiterJob | undefined;
  readonly idempotent: boolean;
  /** Numbers the calls of the policy, from 0. */
  readonly index: number;
  /** Names the call and its lane in events. */
  readonly id: string;
  readonly lane: string;
}
