import type { Order } from '../queues/order.js';
import type { Overflow, QueueRule } from '../queues/queue.js';
import type { RepairNote, RepairRule } from '../repair/rule.js';
import type { Classify } from '../repair/verdict.js';
import type { Batch, Job } from './job.js';

/** What an operator says of its batches. */
export interface BatchRules<T> {
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly queue: QueueRule<T>;
  readonly order: Order<T> | undefined;
  readonly repair: readonly RepairRule[];
  readonly timeoutMs: number;
  /** For whoever pulls: that is done while there is room, and what was on its way when repairs came back is still taken. */
  readonly isPulled?: boolean | undefined;
  /** Sorts errors, a callback of yours; without one the first rule that brings one does. */
  readonly classify?: Classify | undefined;
  /** A random number, a callback of yours; and the time of day, in ms. Both for repairs. */
  readonly random: () => number;
  readonly scheduler?: { now(): number };
}

/** What happens to items that wait, or have their result. */
export type ItemNote = Readonly<
  | { type: 'dropped'; lane: string; policy: string }
  /** 10,000 wait in a queue without a bound: told once, and again when it has been empty in between. */
  | { type: 'queueLong'; lane: string; queued: number }
  | { type: 'expired'; lane: string; deadlineMs: number }
  | { type: 'cancelled'; lane: string; count: number }
  | { type: 'settled'; lane: string; outcome: 'fulfilled' | 'rejected'; attempts: number; totalMs: number }
>;

/** What a machine tells; whoever drives it adds who and when. */
export type BatchNote =
  | (ItemNote & { readonly seq?: number })
  | (RepairNote & { readonly lane: string; readonly batchId: string })
  | Readonly<{ type: 'hintClamped'; askedMs: number; pauseMs: number }>;

/** Whoever drives a machine: asked for what a machine cannot know, and told what is to be done outside once this step is over. */
export interface BatchHost<T, R> {
  readonly operator: string;
  /** Undefined when nobody listens. */
  readonly tell: ((note: BatchNote) => void) | undefined;
  deadlineError(job: Job<T, R>, now: number): unknown;
  overflowError(limit: number, policy: Overflow): unknown;
  /** Nobody is to send anything for a while. */
  pause(pauseMs: number): void;
  /** Everybody has left the call. */
  stop(batch: Batch<T, R>): void;
}
