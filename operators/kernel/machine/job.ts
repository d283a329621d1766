import type { Waiter } from '../queues/queue.js';
import type { OrderedPlace } from '../queues/reorder-buffer.js';
import type { FailedJob, Origin, Search } from '../repair/rule.js';

/** The state of an item: made, accepted but not queued, waiting (alone or in a batch), in a call, settled or left. */
export const NEW = 0;
export const ACCEPTED = 1;
export const WAITING = 2;
export const IN_FLIGHT = 3;
export const DONE = 4;

/** What waits in the queue of a machine: fresh items, and batches that came back. */
export type Entry<T, R> = Job<T, R> | Batch<T, R>;

/** So many items that are all alike came at one time. */
export interface Burst {
  readonly at: number;
  count: number;
}

/** Fields that few items need. */
class JobExtras<T, R> {
  deadlineAt = Infinity;
  name: string | undefined = undefined;
  key: unknown = undefined;
  /** Why it is rejected without being queued. */
  fault: { readonly error: unknown } | undefined = undefined;
  /** Its place in the order of results; undefined when that is the order in which calls end. */
  place: OrderedPlace<Job<T, R>> | undefined = undefined;
  /** Set on an item that was cut into parts, and on its parts. */
  whole: CutJob<T, R> | undefined = undefined;
}

/** In place of a value: this item of a call has failed. Values themselves are not wrapped, there may be a million of them. */
export class ItemFailure {
  constructor(readonly reason: unknown) {}
}

/** The machine, as far as settling items goes. */
export interface JobSettler<T, R> {
  settle(job: Job<T, R>, failed: boolean, outcome: unknown, counts?: boolean): void;
  remove(job: Job<T, R>): void;
}

/** An item that was cut into parts. Its own job is never sent: the parts are, each as a job of its own. */
export interface CutJob<T, R> {
  readonly job: Job<T, R>;
  readonly parts: readonly Job<T, R>[];
  /** A part is in this call. */
  sent(batch: Batch<T, R>): void;
  /** A part has its result: the whole has one when the first has failed, or the last has its value. */
  settled(machine: JobSettler<T, R>, part: Job<T, R>, failed: boolean, outcome: unknown, counts: boolean): void;
}

/**
 * One item. A million of them may wait, so each holds only what every item needs, and the rest is made on demand. An operator that has to keep more
 * about its items extends this class.
 */
export class Job<T, R> implements Waiter<Entry<T, R>>, FailedJob {
  previous: Entry<T, R> | undefined = undefined;
  next: Entry<T, R> | undefined = undefined;
  state: typeof NEW | typeof ACCEPTED | typeof WAITING | typeof IN_FLIGHT | typeof DONE = NEW;
  /** How many were accepted before it; -1 until it is its turn. */
  index = -1;
  lane = 0;
  weight = 1;
  acceptedAt = 0;
  attempts = 0;
  failed = false;
  /** The value once there is one; until then, and for ever without one, why it failed last. */
  outcome: unknown = undefined;
  /** The batch it waits in, or that is on its way with it. */
  batch: Batch<T, R> | undefined = undefined;
  more: JobExtras<T, R> | undefined = undefined;

  constructor(readonly input: T) {}

  /** Fields that few items need, made when they are first asked for. */
  get extras(): JobExtras<T, R> {
    return (this.more ??= new JobExtras());
  }

  get id(): string {
    return this.more?.name ?? String(this.index);
  }

  get key(): unknown {
    return this.more?.key;
  }

  get deadlineAt(): number {
    return this.more?.deadlineAt ?? Infinity;
  }

  get isDone(): boolean {
    return this.state === DONE;
  }

  get reason(): unknown {
    return this.outcome;
  }

  /** The parts that are sent instead of an item that was cut; undefined for all others. */
  get parts(): readonly Job<T, R>[] | undefined {
    const whole = this.more?.whole;
    return whole?.job === this ? whole.parts : undefined;
  }
}

/** Why a batch leaves. */
export type CloseReason = 'size' | 'weight' | 'complete' | 'flush' | 'urgent' | 'time' | 'retry' | 'split';

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
  /** Stands in the queue; or until when it does not. */
  isReady = false;
  readyAt = 0;
  /** Why it was closed; kept only where there is a listener. */
  reason: CloseReason | undefined = undefined;
  /** It is a call, which has not ended. */
  isUnderWay = false;
  startedAt = 0;
  timeoutAt = Infinity;
  attempt = 1;
  depth = 0;
  /** How long it has waited after refusals, and that it does. */
  refusedMs = 0;
  isRefused = false;
  /** The batch it repeats or is a part of, now and at the beginning. */
  parentId: string | undefined = undefined;
  origin: Batch<T, R> = this;
  /** The search that it is a step of. */
  search: Search<Job<T, R>> | undefined = undefined;
  /** Its call, set by the operator that drives the machine. */
  call: unknown = undefined;

  /** @param jobs its items: those of a call that has not begun yet, or those that are still in a waiting batch */
  constructor(
    public jobs: readonly Job<T, R>[],
    public lane: number,
    public weight: number,
    readonly id: string,
  ) {
    this.live = jobs.length;
  }

  /** The work is called now, for the items that have not left. Answers their inputs. */
  sent(): T[] {
    if (this.live !== this.jobs.length) this.tidy();
    return this.jobs.map((job) => {
      job.attempts++;
      job.more?.whole?.sent(this);
      return job.input;
    });
  }

  /** Forgets the items that left. */
  tidy(): void {
    if (this.live === this.jobs.length) return;
    this.jobs = this.jobs.filter(({ isDone }) => !isDone);
    this.weight = weightOf(this.jobs);
  }
}

export function weightOf(jobs: readonly { readonly weight: number }[]): number {
  let sum = 0;
  for (const { weight } of jobs) sum += weight;
  return sum;
}

/** The result of one item of a call. */
type Outcome<R> = R | ItemFailure;

/**
 * Matches the answer of a call to its items, in their order: by position, or by id.
 *
 * @throws what `shapeError` makes, when that cannot be done without guessing; results are never shifted to a neighbour
 */
export function matchAnswer<T, R>(
  jobs: readonly Job<T, R>[],
  answer: unknown,
  shapeError: (received: number, problem?: string) => unknown,
): readonly Outcome<R>[] {
  if (Array.isArray(answer)) {
    if (answer.length !== jobs.length) throw shapeError(answer.length);
    // Not one `map` of either: V8 would call it for each.
    return answer.every(isSettled) ? (answer as PromiseSettledResult<R>[]).map(ofSettled) : (answer as R[]).map(ofEntry);
  }
  const { get, has, keys } = Object(answer) as Readonly<Record<string, unknown>>;
  if ([get, has, keys].some((method) => typeof method !== 'function'))
    throw shapeError(0, 'expected the work to answer an array, a Map or a list of settled results');
  const map = answer as ReadonlyMap<string, R>;
  const wanted = new Set(jobs.map(({ id }) => id));
  if (wanted.size !== jobs.length)
    throw shapeError(map.size, 'two items of the batch have the same id, so results by id cannot be matched');
  for (const id of map.keys()) if (!wanted.has(id)) throw shapeError(map.size, 'the work answered with an id that was not in the batch');
  return jobs.map(({ id }) =>
    map.has(id) ? ofEntry(map.get(id) as R) : new ItemFailure(shapeError(map.size, 'the work answered without a result for this item')),
  );
}

/** An error in the place of a result is a failure. */
function ofEntry<R>(entry: R): Outcome<R> {
  return entry instanceof Error ? new ItemFailure(entry) : entry;
}

function ofSettled<R>(result: PromiseSettledResult<R>): Outcome<R> {
  return result.status === 'fulfilled' ? result.value : new ItemFailure(result.reason);
}

function isSettled(entry: unknown): boolean {
  if (typeof entry !== 'object' || entry === null || !('status' in entry)) return false;
  return (entry.status === 'fulfilled' && 'value' in entry) || (entry.status === 'rejected' && 'reason' in entry);
}
