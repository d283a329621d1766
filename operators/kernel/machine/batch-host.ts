import type { Order } from '../queues/order.js';
import type { QueueRule } from '../queues/queue.js';
import type { RepairNote, RepairRule } from '../repair/rule.js';
import type { Classify, ErrorClass } from '../repair/verdict.js';
import type { Bounds, Refusal } from '../waiting/bounds.js';
import type { Batch, Job } from './job.js';

/** What an operator says of its batches. */
export interface BatchRules<T> {
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly bounds: Bounds;
  readonly queue: QueueRule<T>;
  readonly order: Order<T> | undefined;
  readonly repair: readonly RepairRule[];
  readonly timeoutMs: number;
  /** Set where items are weighed: only then what permits can grant bounds a batch. */
  readonly weigh?: unknown;
  /** Set where permits are queued for, a place in a lane each; otherwise one slot is as good as another. */
  readonly limiter?: unknown;
  /** Set where a callback says how long a batch is held. */
  readonly window?: unknown;
  /** Set where the operator pulls its items: it pulls while there is room, and items already on their way when a repair returns parts are still accepted. */
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

/** Events of a machine, to which its host adds the operator and the time. */
export type BatchNote =
  | Readonly<{ type: 'accepted'; lane: string; queued: number; seq: number }>
  | (ItemNote & { readonly seq?: number })
  | (RepairNote & { readonly lane: string; readonly batchId: string })
  | Readonly<{ type: 'hintClamped'; askedMs: number; pauseMs: number }>;

/** How busy the permits of calls are, and what they can grant at most. */
export interface Capacity {
  readonly concurrency: number;
  readonly executing: number;
  readonly load: number;
  readonly tokenCapacity: number;
  readonly borrows: boolean;
}

/** What drives a machine: asked for what a machine cannot know, and told what is to be done outside once this step is over. */
export interface BatchHost<T, R> {
  readonly operator: string;
  readonly permits: Capacity;
  /** Undefined when there is no listener. */
  readonly tell: ((note: BatchNote) => void) | undefined;
  /** How long a batch that is not full is held now. Asks a callback, which may do anything. */
  windowMs(): number;
  deadlineError(job: Job<T, R>, now: number): unknown;
  overflowError(refused: Refusal): unknown;
  timeoutError(): unknown;
  shapeError(expected: number, received: number, problem?: string): unknown;
  /** An item was too much under `overflow: 'error'`. */
  overflowed(error: unknown): void;
  /** Nothing is to be sent for a while. */
  pause(pauseMs: number): void;
  /** The call is to be stopped: all its items have left, or it has taken too long, which is then its fault. */
  stop(batch: Batch<T, R>, fault?: Fault): void;
  /** The call has ended by itself; its permit is free once the results are out. */
  ended(batch: Batch<T, R>, outcome: 'ok' | 'failed' | ErrorClass, fault: Fault | undefined): void;
}

/** Why a call has failed. */
export interface Fault {
  readonly error: unknown;
}
