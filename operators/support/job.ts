import { LazySignal } from './abort.js';
import type { Lease } from './limiter.js';
import type { Settled } from './types.js';
import type { Running } from './work.js';

/** Where an accepted item is: made but not submitted, waiting (alone or in a group), in a call, or settled (or given up). */
export const NEW = 0;
export const WAITING = 1;
export const FLYING = 2;
export const DONE = 3;

/** One accepted item. */
export class Job<T, R> {
  state: typeof NEW | typeof WAITING | typeof FLYING | typeof DONE = NEW;
  /** Why it was not even queued. */
  fault: { readonly error: unknown } | undefined;
  attempts = 0;
  group: Group<T, R> | undefined;
  call: Call<T, R> | undefined;
  failed = false;
  value: R | undefined;
  reason: unknown;

  constructor(
    readonly input: T,
    readonly index: number,
    readonly lane: number,
    readonly weight: number,
    readonly acceptedAt: number,
    readonly deadlineAt: number,
    readonly name: string | undefined,
    /** Whose it is; for the host. */
    readonly owner: unknown,
  ) {}

  get id(): string {
    return this.name ?? String(this.index);
  }

  get deadlineMs(): number {
    return this.deadlineAt - this.acceptedAt;
  }

  toSettled(): Settled<T, R> {
    const { input, index, id, attempts } = this;
    return this.failed
      ? { status: 'rejected', reason: this.reason, input, index, id, attempts }
      : { status: 'fulfilled', value: this.value as R, input, index, id, attempts };
  }
}

/** The batch a call started from; its retries and parts share it. */
export interface Root {
  readonly id: string;
  readonly size: number;
  /** Calls spent or promised, retries aside. */
  calls: number;
  blameRounds: number;
}

/** Jobs that travel together again: a retry, or a part of a split. */
export class Group<T, R> {
  /** Members that have not left. */
  live: number;
  /** Waits in its lane; before that, for its backoff to end. */
  ready = false;

  constructor(
    readonly jobs: readonly Job<T, R>[],
    readonly lane: number,
    readonly root: Root,
    readonly attempt: number,
    readonly depth: number,
    readonly reason: 'retry' | 'split',
  ) {
    this.live = jobs.length;
    for (const job of jobs) {
      job.state = WAITING;
      job.group = this;
      job.call = undefined;
    }
  }

  get members(): Job<T, R>[] {
    return this.jobs.filter((job) => job.group === this);
  }
}

/** One call under way. */
export class Call<T, R> {
  readonly abort = new LazySignal();
  /** Members that have not left. */
  live: number;
  /** Its place among the calls under way. */
  slot = -1;
  /** Unset while the work function itself is running. */
  running: Running | undefined;
  over = false;

  constructor(
    readonly jobs: readonly Job<T, R>[],
    readonly lane: number,
    readonly root: Root,
    readonly attempt: number,
    readonly depth: number,
    readonly weight: number,
    readonly lease: Lease,
    readonly startedAt: number,
    readonly timeoutAt: number,
  ) {
    this.live = jobs.length;
    for (const job of jobs) {
      job.state = FLYING;
      job.call = this;
      job.attempts++;
    }
  }
}

export function totalWeight(jobs: readonly { readonly weight: number }[]): number {
  return jobs.reduce((weight, job) => weight + job.weight, 0);
}
