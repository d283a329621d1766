import type { Classify, ErrorClass, Verdict } from './verdict.js';

/** What a rule may know of an item. */
export interface FailedJob {
  readonly id: string;
  readonly weight: number;
  readonly acceptedAt: number;
  /** When it must be settled; Infinity without a deadline. */
  readonly deadlineAt: number;
  /** Settled, or cancelled by its owner. */
  readonly isDone: boolean;
  /** Why it failed last. */
  readonly reason: unknown;
}

/** The batch a call began as; its retries and parts share it. */
export interface Origin<J> {
  readonly id: string;
  /** The items of its first call. */
  readonly jobs: readonly J[];
  /** Calls spent on it or promised by `Repair.parts`, retries aside. */
  readonly calls: number;
  /** What the rule that cuts it up keeps in mind; its own. */
  note: unknown;
}

/** A call, or single items of one, that failed. */
export interface Failure<J> {
  readonly operator: string;
  readonly now: number;
  readonly error: unknown;
  /** What the operator's classifier said of the error; asked once, whatever the number of rules. */
  readonly verdict: Verdict;
  /** The items of the call, in its order. */
  readonly call: readonly J[];
  /** Those of them that have failed and still wait for a result. */
  readonly jobs: readonly J[];
  /** The call succeeded and these failed alone: whatever else is true of them, they have been told apart already. */
  readonly isPartial: boolean;
  /** 1 for the first. */
  readonly attempt: number;
  /** Splits and blame rounds above the call. */
  readonly depth: number;
  readonly origin: Origin<J>;
  /** The search that the call was a step of. */
  readonly search: Search<J> | undefined;
  /** Calls under way. */
  readonly executing: number;
  /** Those of them that are not a first attempt. */
  readonly retrying: number;
  /** Batches between two attempts, refused ones aside. */
  readonly waiting: number;
  /** Refusals by the backend in a row, this one included when it is one. Calls that were under way together count once. */
  readonly refusals: number;
  /** How long the call has waited after refusals, in ms. */
  readonly refusedMs: number;
  /** A number from 0 to 1. @throws CallbackError, which then rejects the items */
  draw(): number;
}

/** Events of a repair, to which the operator adds its name and the time. */
export type RepairNote = Readonly<
  | { type: 'retryScheduled'; class: ErrorClass; size: number; attempt: number; delayMs: number }
  | { type: 'split'; size: number; parts: number; depth: number }
  | { type: 'blamed'; size: number; blamed: number; round: number }
>;

/** What is done about a failure. Failed items that the plan does not list are rejected with their own reason. */
export interface Repair<J> {
  /** Sent again, each as a batch of its own under its own permit, in this order; ahead of the fresh items of their lane. */
  readonly parts?: readonly (readonly J[])[];
  /** Attempt number of the parts. @defaultValue 1, a first attempt, which counts towards the origin's `calls` */
  readonly attempt?: number;
  /** Their depth. @defaultValue that of the failed call */
  readonly depth?: number;
  /** Pause before they are sent, in which they hold no slot. @defaultValue 0 */
  readonly delayMs?: number;
  /** Nothing is sent through these permits for so long. @defaultValue not at all */
  readonly pauseMs?: number;
  /** The parts are the refused call itself, which is not counted as an attempt. @defaultValue false */
  readonly isRefusal?: boolean;
  /** Settled now, wherever they are: those of the call, held ones, and any other of the same origin that waits. */
  readonly rejected?: readonly { readonly job: J; readonly reason: unknown }[];
  /** The search that the parts are a step of: their ends are reported to it. @defaultValue for another attempt (`attempt`) that of the call, else none */
  readonly search?: Search<J>;
  /** Those of the call that wait for a later step of the search, which has to mention them. */
  readonly held?: readonly J[];
  readonly note?: RepairNote | undefined;
}

/** A search for bad items that sends one part after the other. */
export interface Search<J> {
  /**
   * The call of its part is over, or was never made. The result when all its items are `good`; undefined when it says nothing of its items.
   * A step that sends nothing is the last, and leaves nothing held.
   */
  next(good: readonly J[] | undefined, origin: Origin<J>): Repair<J>;
}

/**
 * The value of a `repair` option: what may be done about a failed call. Rules are asked in their order; the first that answers has decided.
 * @stable
 */
export interface RepairRule {
  /** Sorts errors when the operator has no `classify` of its own; the first rule that brings one decides. */
  readonly classify?: Classify;
  /** Carries out what rules decide; part of the rule, so that bundles without repair do not contain it. A rule of your own takes it from another: `{ ...retryFailed(), failed }`. */
  readonly createRepairer: (machine: never, rules: readonly RepairRule[]) => unknown;
  /** Undefined when it is for another rule. */
  failed<J extends FailedJob>(failure: Failure<J>): Repair<J> | undefined;
  /** A call has succeeded, at least for some of its items. */
  succeeded?<J>(origin: Origin<J>): void;
}

/** What `policy` takes of a rule: a single call is never divided. */
export type RetryDecision = Pick<RepairRule, 'failed'>;
