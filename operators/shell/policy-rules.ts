import type { SchedulerLike } from 'rxjs';
import type { Refusals } from '../kernel/repair/refusals.js';
import type { RepairRule } from '../kernel/repair/rule.js';
import type { Breaker } from '../options/breaker.js';
import type { Note } from '../options/events.js';
import type { Lease, Limiter, LimiterJob } from '../options/limiter.js';
import type { Classify, ErrorClass, ResponseLike, Usage, WorkResult } from '../options/types.js';
import type { BreakerGate } from './breaker-gate.js';

/** What the work of a policy is told about its attempt. The functions may be taken out of it. */
export interface PolicyContext {
  /**
   * Aborts when the attempt has timed out, the deadline has passed, or nobody wants the result any more; never once a promise has answered.
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
}

export type PolicyWork<R> = (context: PolicyContext) => WorkResult<R>;

/** The same for work that is part of this package. */
export interface AttemptContext extends PolicyContext {
  /** Called when the signal aborts, or would. */
  whenAborted: (() => void) | undefined;
  /** When set, it says when the permit goes back: the other side sees a connection close later than we close it. */
  giveBack: ((release: () => void) => void) | undefined;
}

export type AttemptWork<R> = (context: AttemptContext) => WorkResult<R>;

/** What a fallback is told about the failure. */
export interface FallbackContext {
  /** What `classify` makes of the error. */
  readonly class: ErrorClass;
  /** Attempts that were made; 0 when the breaker was open. */
  readonly attempts: number;
  /** Aborts when nobody wants the result any more; never once a promise has answered. Made on the first look. */
  readonly signal: AbortSignal;
}

export type Fallback<F> = (error: unknown, context: FallbackContext) => WorkResult<F>;

/** What the calls of one policy have under way, for the share of retries, and the refusals that they share. */
export interface PolicyLoad {
  calls: number;
  active: number;
  retrying: number;
  executing: number;
  readonly refusals: Refusals;
}

/** Where attempts get their permits: a limiter, or what stands for one. */
export type PermitSource = Pick<Limiter, 'acquire' | 'penalize'>;

/** What a call does while the breaker is open. */
export type WhenOpen = 'fail' | 'wait';

/** The options of a call. */
export interface CallRules<F> {
  readonly operator: string;
  readonly fallback: Fallback<F> | undefined;
  readonly deadlineMs: number;
  readonly breaker: Breaker | undefined;
  /** Where calls wait for the breaker; undefined without one. */
  readonly gate: BreakerGate | undefined;
  readonly whenOpen: WhenOpen;
  /** Set where the work asks the breaker, under permits of its own: whether an error is a refusal by it. */
  readonly asksInside: ((error: unknown) => boolean) | undefined;
  readonly retry: RepairRule | undefined;
  readonly limiter: PermitSource | undefined;
  readonly job: LimiterJob | undefined;
  readonly timeoutMs: number;
  readonly idempotent: boolean;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  readonly tell: ((note: Note) => void) | undefined;
  readonly load: PolicyLoad;
  /** Names the call and its lane in events. */
  readonly id: string;
  readonly lane: string;
}
