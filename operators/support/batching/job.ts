import type { OrderedPlace } from '../../kernel/queues/reorder-buffer.js';
import type { BadItemSearch } from '../../kernel/repair/bad-item-search.js';
import type { FaultWatch } from '../../kernel/repair/fault-watch.js';
import type { Settled } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';
import type { Running } from '../../shell/work.js';
import type { Lease } from '../limiting/limiter-types.js';

/** Where an item is: made, accepted but not submitted, waiting (alone or in a group), in a call, or settled (or given up). */
export const NEW = 0;
export const ACCEPTED = 1;
export const WAITING = 2;
export const FLYING = 3;
export const DONE = 4;

/** What few items have. */
class Extras<T, R> {
  /** When it must be settled. */
  deadlineAt = Infinity;
  /** Given by the `id` option. */
  name: string | undefined = undefined;
  /** Why it was not even queued. */
  fault: Fault | undefined = undefined;
  /** Where `closeWhen` puts a boundary. */
  closes: 'before' | 'after' | false = false;
  /** Its place in the order of results; undefined when that is the order in which calls end. */
  place: OrderedPlace<Job<T, R>> | undefined = undefined;
  /** Set on an item that was cut up, and on its parts. */
  whole: Whole<T, R> | undefined = undefined;
}

/**
 * One item. A million of them may wait, so each holds what every item needs, and the rest is made for those that need it. Whoever wants to
 * know more of its items makes them of a class of its own.
 */
export class Job<T, R> {
  state: typeof NEW | typeof ACCEPTED | typeof WAITING | typeof FLYING | typeof DONE = NEW;
  /** How many were accepted before it; -1 until it is its turn. */
  index = -1;
  lane = 0;
  weight = 0;
  acceptedAt = 0;
  attempts = 0;
  /** Batches take items of one stretch of a lane only; see `Boundaries`. */
  stretch = 0;
  group: Group<T, R> | undefined = undefined;
  call: Call<T, R> | undefined = undefined;
  failed = false;
  /** The value once there is one; until then, and for ever without one, why it failed last. */
  private outcome: unknown = undefined;
  private extras: Extras<T, R> | undefined = undefined;

  constructor(readonly input: T) {}

  /** Whether it is like most: without a deadline, a name, a boundary, a place in the order of results, and in one piece. */
  get isPlain(): boolean {
    return this.extras === undefined;
  }

  get deadlineAt(): number {
    return this.extras === undefined ? Infinity : this.extras.deadlineAt;
  }

  set deadlineAt(at: number) {
    if (at !== Infinity) this.#own().deadlineAt = at;
  }

  get value(): R {
    return this.outcome as R;
  }

  set value(value: R) {
    this.outcome = value;
  }

  get reason(): unknown {
    return this.outcome;
  }

  set reason(reason: unknown) {
    this.outcome = reason;
  }

  get name(): string | undefined {
    return this.extras?.name;
  }

  set name(name: string | undefined) {
    if (name !== undefined) this.#own().name = name;
  }

  get fault(): Fault | undefined {
    return this.extras?.fault;
  }

  set fault(fault: Fault | undefined) {
    if (fault) this.#own().fault = fault;
  }

  get closes(): 'before' | 'after' | false {
    return this.extras?.closes ?? false;
  }

  set closes(closes: 'before' | 'after' | false) {
    if (closes) this.#own().closes = closes;
  }

  get place(): OrderedPlace<Job<T, R>> | undefined {
    return this.extras?.place;
  }

  set place(place: OrderedPlace<Job<T, R>> | undefined) {
    if (place) this.#own().place = place;
  }

  get whole(): Whole<T, R> | undefined {
    return this.extras?.whole;
  }

  set whole(whole: Whole<T, R> | undefined) {
    if (whole) this.#own().whole = whole;
  }

  #own(): Extras<T, R> {
    return (this.extras ??= new Extras());
  }

  get id(): string {
    return this.name ?? String(this.index);
  }

  /** A part of a whole that was cut up. */
  get isPart(): boolean {
    return this.whole !== undefined && this.whole.job !== this;
  }

  get deadlineMs(): number {
    return this.deadlineAt - this.acceptedAt;
  }

  /** The lane in which the item, or a part of it, waits to be sent for the first time; -1 when none does. */
  get freshLane(): number {
    const { whole } = this;
    if (whole && !this.isPart) return whole.parts.some((part) => part.freshLane !== -1) ? this.lane : -1;
    return this.state === WAITING && this.group === undefined ? this.lane : -1;
  }

  /** A part of it, which travels like an item. */
  part(input: T, weight: number, name: string): Job<T, R> {
    const part = new Job<T, R>(input);
    part.state = ACCEPTED;
    part.index = this.index;
    part.lane = this.lane;
    part.weight = weight;
    part.acceptedAt = this.acceptedAt;
    part.deadlineAt = this.deadlineAt;
    part.name = name;
    return part;
  }

  /** Something about it went wrong before it was accepted: of what was said of it only its name stands. */
  spoil(error: unknown, lane: number): void {
    const { name } = this;
    this.extras = undefined;
    this.lane = lane;
    this.weight = 0;
    this.name = name;
    this.fault = { error };
  }

  toSettled(input = this.input): Settled<T, R> {
    const { index, id, attempts } = this;
    return this.failed
      ? { status: 'rejected', reason: this.reason, input, index, id, attempts }
      : { status: 'fulfilled', value: this.value, input, index, id, attempts };
  }
}

/** What keeps an item from being queued. */
export interface Fault {
  readonly error: unknown;
  /** The item is too heavy, and this is to be done about it. */
  readonly oversize?: 'drop' | 'error';
}

/** An item that was cut into parts. Its own job never travels: the parts do, each as a job of its own. */
export class Whole<T, R> {
  readonly values: R[] = [];
  /** Parts without a value. */
  missing: number;
  #lastCall: unknown;

  constructor(
    readonly job: Job<T, R>,
    readonly parts: Job<T, R>[],
  ) {
    this.missing = parts.length;
    for (const part of parts) part.whole = this;
  }

  /** A part is in a call. */
  joins(): void {
    this.job.state = FLYING;
  }

  /** It is one call for the item, however many of its parts are in it. */
  sent(call: unknown): void {
    if (this.#lastCall !== call) this.job.attempts++;
    this.#lastCall = call;
  }
}

/** The batch a call started from; its retries and parts share it. */
export class Root<T, R> {
  /** Calls spent or promised, retries aside. */
  calls = 1;
  blameRounds = 0;
  /** Made when its first call fails. */
  watch: FaultWatch | undefined = undefined;

  constructor(
    readonly id: string,
    readonly jobs: readonly Job<T, R>[],
  ) {}
}

/** A search for bad items that sends one part at a time. */
export interface Search<T, R> {
  readonly plan: BadItemSearch<Job<T, R>>;
  readonly root: Root<T, R>;
  readonly lane: number;
  readonly maxCalls: number;
  /** Those that wait for their turn. */
  held: Group<T, R> | undefined;
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
    readonly root: Root<T, R>,
    readonly attempt: number,
    readonly depth: number,
    readonly reason: 'retry' | 'split',
    /** What waits for the end of this group's call. */
    readonly search?: Search<T, R>,
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
  /** Ended by us, not by itself: its lease goes back as the work lets it. */
  isStopped = false;
  /** Listeners have heard of it. */
  isAnnounced = false;
  /** What waits for its end. */
  search: Search<T, R> | undefined;

  constructor(
    public jobs: readonly Job<T, R>[],
    readonly lane: number,
    readonly root: Root<T, R>,
    readonly attempt: number,
    readonly depth: number,
    public weight: number,
    readonly lease: Lease,
    readonly startedAt: number,
    readonly timeoutAt: number,
  ) {
    this.live = jobs.length;
    for (const job of jobs) {
      job.state = FLYING;
      job.call = this;
      job.whole?.joins();
    }
  }

  /** Whoever left before the work was called is not sent. */
  forgetThoseWhoLeft(): void {
    if (this.live === this.jobs.length) return;
    this.jobs = this.jobs.filter(({ state }) => state === FLYING);
    this.weight = totalWeight(this.jobs);
  }

  /** The work is called now. */
  sent(): void {
    for (const job of this.jobs) {
      job.attempts++;
      job.whole?.sent(this);
    }
  }
}

export function totalWeight(jobs: readonly { readonly weight: number }[]): number {
  return jobs.reduce((weight, job) => weight + job.weight, 0);
}
