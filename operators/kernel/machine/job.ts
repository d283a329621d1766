import type { Waiter } from '../queues/queue.js';
import type { OrderedPlace } from '../queues/reorder-buffer.js';
import type { FailedJob, Origin, Search } from '../repair/rule.js';

/** Where an item is: made, accepted but not submitted, waiting (alone or in a batch), in a call, or settled (or given up). */
export const NEW = 0;
export const ACCEPTED = 1;
export const WAITING = 2;
export const FLYING = 3;
export const DONE = 4;

/** What waits in the queue of a machine: fresh items, and batches that came back. */
export type Entry<T, R> = Job<T, R> | Batch<T, R>;

/** What few items have. */
class More<T, R> {
  deadlineAt = Infinity;
  name: string | undefined = undefined;
  key: unknown = undefined;
  /** Why it is not even queued. */
  fault: { readonly error: unknown } | undefined = undefined;
  /** Where `closeWhen` puts a boundary. */
  closes: 'before' | 'after' | false = false;
  /** Its place in the order of results; undefined when that is the order in which calls end. */
  place: OrderedPlace<Job<T, R>> | undefined = undefined;
  /** Set on an item that was cut up, and on its parts. */
  whole: Whole<T, R> | undefined = undefined;
}

/** In place of a value: this item of a call has failed. Values themselves are not wrapped, there may be a million of them. */
export class ItemFailure {
  constructor(readonly reason: unknown) {}
}

/** An item that was cut into parts. Its own job never travels: the parts do, each as a job of its own. */
export interface Whole<T, R> {
  readonly job: Job<T, R>;
  readonly parts: readonly Job<T, R>[];
  /** A part is in this call. */
  sent(batch: Batch<T, R>): void;
  /** A part has its value; undefined while others have none. */
  fulfilled(part: Job<T, R>, value: R): { readonly failed: boolean; readonly outcome: unknown } | undefined;
}

/**
 * One item. A million of them may wait, so each holds what every item needs, and the rest is made for those that need it. Whoever wants to
 * know more of its items makes them of a class of its own.
 */
export class Job<T, R> implements Waiter<Entry<T, R>>, FailedJob {
  previous: Entry<T, R> | undefined = undefined;
  next: Entry<T, R> | undefined = undefined;
  state: typeof NEW | typeof ACCEPTED | typeof WAITING | typeof FLYING | typeof DONE = NEW;
  /** How many were accepted before it; -1 until it is its turn. */
  index = -1;
  lane = 0;
  weight = 1;
  stretch = 0;
  acceptedAt = 0;
  attempts = 0;
  failed = false;
  /** The value once there is one; until then, and for ever without one, why it failed last. */
  outcome: unknown = undefined;
  /** The batch it waits in, or that is on its way with it. */
  batch: Batch<T, R> | undefined = undefined;
  more: More<T, R> | undefined = undefined;

  constructor(readonly input: T) {}

  /** What most have none of. */
  get extras(): More<T, R> {
    return (this.more ??= new More());
  }

  get id(): string {
    return this.more?.name ?? String(this.index);
  }

  get key(): unknown {
    return this.more?.key;
  }

  get deadlineAt(): number {
    return this.more === undefined ? Infinity : this.more.deadlineAt;
  }

  get isDone(): boolean {
    return this.state === DONE;
  }

  get value(): R {
    return this.outcome as R;
  }

  get reason(): unknown {
    return this.outcome;
  }

  /** Set on an item that was cut up; its parts have none. */
  get whole(): Whole<T, R> | undefined {
    const whole = this.more?.whole;
    return whole?.job === this ? whole : undefined;
  }

  /** The lane in which the item, or a part of it, waits to be sent for the first time; -1 when none does. */
  get freshLane(): number {
    const { whole } = this;
    if (whole) return whole.parts.some((part) => part.freshLane !== -1) ? this.lane : -1;
    return this.state === WAITING && this.batch === undefined ? this.lane : -1;
  }
}

/** Items that travel together: fresh ones once they have their permit, and those that are sent again, from then on. */
export class Batch<T, R> implements Waiter<Entry<T, R>>, Origin<Job<T, R>> {
  previous: Entry<T, R> | undefined = undefined;
  next: Entry<T, R> | undefined = undefined;
  /** Members that have not left. */
  live: number;
  /** Calls spent or promised on a first batch, retries aside. */
  calls = 1;
  /** Kept by the rule that cuts up a first batch. */
  note: unknown = undefined;
  /** Batches made of this one. */
  children = 0;
  /** Stands in the queue. */
  isReady = false;
  /** Waits for the end of its pause. */
  isPausing = false;
  /** Its place among the calls under way; -1 when it is none of them. */
  slot = -1;
  startedAt = 0;
  timeoutAt = Infinity;
  readonly stretch = 0;
  /** Its call, for whoever drives the machine. */
  call: unknown = undefined;

  /**
   * @param jobs everybody who is in it: those in a call that has not begun yet, and those who have not left a batch that waits
   * @param origin the batch it repeats or is a part of, at the beginning; undefined when that is itself
   */
  constructor(
    public jobs: readonly Job<T, R>[],
    public lane: number,
    public weight: number,
    readonly id: string,
    readonly first: Batch<T, R> | undefined,
    readonly parentId: string | undefined,
    readonly attempt: number,
    readonly depth: number,
    readonly search: Search<Job<T, R>> | undefined,
  ) {
    this.live = jobs.length;
  }

  get origin(): Batch<T, R> {
    return this.first ?? this;
  }

  /** Forgets who left. */
  tidy(): void {
    if (this.live === this.jobs.length) return;
    this.jobs = this.jobs.filter((job) => job.batch === this && job.state !== DONE);
    this.weight = this.jobs.reduce((sum, { weight }) => sum + weight, 0);
  }
}
