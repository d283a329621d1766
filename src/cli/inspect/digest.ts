import type { FlowEvent } from '../../../operators/index.js';

/** A call of a recorded run. */
export interface Call {
  /** In ms from the first event. */
  readonly startMs: number;
  readonly endMs: number;
  readonly outcome: Outcome;
}

/** How calls are told apart in the picture. */
export type Outcome = 'ok' | 'throttled' | 'failed' | 'cancelled' | 'running';

export interface Bucket {
  calls: number;
  items: number;
  /** Calls by how they ended. */
  readonly outcomes: Partial<Record<Outcome, number>>;
  settled: number;
}

/** A batch whose call was repeated or split, and the calls made for it. */
export interface Tree {
  readonly lane: string;
  readonly startMs: number;
  /** Of the batch and of all its parts. */
  calls: number;
  readonly root: Part;
}

export interface Part {
  readonly id: string;
  size: number;
  outcomes: Outcome[];
  readonly parts: Part[];
}

/** Up to so many calls each of them is kept. */
export const MAX_CALLS = 10_000;
const MAX_BUCKETS = 60;
const MAX_TREES = 20;
/** Parts are looked for among the batches that were told of last. */
const MAX_BATCHES = 20_000;

/** What a report shows of a run of any length: each call of a short one, slices of time and the largest trees of all. */
export class Digest {
  events = 0;
  calls = 0;
  bucketMs = 1;
  /** By time. */
  readonly buckets: Bucket[] = [];
  #startAt: number | undefined;
  #lastMs = 0;
  /** Undefined once there are too many. */
  #each: Call[] | undefined = [];
  readonly #open = new Map<string, number>();
  readonly #batches = new Map<string, { readonly part: Part; readonly tree: Tree }>();
  #trees: Tree[] = [];

  /** From the first event to the last, in ms. */
  get durationMs(): number {
    return this.#lastMs;
  }

  get isAggregated(): boolean {
    return this.#each === undefined;
  }

  /** Each call in the order of its start; undefined when there are more than {@link MAX_CALLS}. */
  get each(): readonly Call[] | undefined {
    const running = [...this.#open.values()].map((startMs) => ({ startMs, endMs: this.#lastMs, outcome: 'running' as const }));
    return this.#each?.concat(running).sort((a, b) => a.startMs - b.startMs);
  }

  /** The largest, those with the most calls first. */
  get trees(): readonly Tree[] {
    return largest(this.#trees);
  }

  add(event: FlowEvent): void {
    this.events += 1;
    const atMs = this.#ms(event.at);
    if (event.type === 'settled') this.#bucket(atMs).settled += 1;
    if (event.type === 'attemptStarted') this.#started(event, atMs);
    if (event.type === 'attemptEnded') this.#ended(event, atMs);
  }

  #started(event: FlowEvent & { type: 'attemptStarted' }, atMs: number): void {
    this.calls += 1;
    const bucket = this.#bucket(atMs);
    bucket.calls += 1;
    bucket.items += event.size;
    if (this.calls > MAX_CALLS) this.#each = undefined;
    this.#open.set(attemptKey(event), atMs);
    this.#grow(event, atMs);
  }

  #ended(event: FlowEvent & { type: 'attemptEnded' }, atMs: number): void {
    const key = attemptKey(event);
    const startMs = this.#open.get(key);
    if (startMs === undefined) return;
    this.#open.delete(key);
    const outcome = outcomeOf(event.outcome);
    const { outcomes } = this.#bucket(startMs);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    this.#each?.push({ startMs, endMs: Math.max(atMs, startMs), outcome });
    this.#batches.get(batchKey(event, event.batchId))?.part.outcomes.push(outcome);
  }

  #grow(event: FlowEvent & { type: 'attemptStarted' }, atMs: number): void {
    const { batchId, parentBatchId, lane, size } = event;
    const key = batchKey(event, batchId);
    const known = this.#batches.get(key);
    if (known !== undefined) {
      this.#count(known.tree);
      return;
    }
    const part: Part = { id: batchId, size, outcomes: [], parts: [] };
    const parent = parentBatchId === undefined ? undefined : this.#batches.get(batchKey(event, parentBatchId));
    const tree = parent?.tree ?? { lane, startMs: atMs, calls: 0, root: part };
    parent?.part.parts.push(part);
    this.#batches.set(key, { part, tree });
    this.#count(tree);
    if (this.#batches.size > MAX_BATCHES) for (const first of this.#batches.keys()) return void this.#batches.delete(first);
  }

  #count(tree: Tree): void {
    tree.calls += 1;
    if (tree.calls !== 2) return;
    this.#trees.push(tree);
    // Those that are still growing are among the newest: a few more are kept than are shown.
    if (this.#trees.length > MAX_TREES * 50) this.#trees = [...largest(this.#trees), ...this.#trees.slice(-MAX_TREES * 10)];
  }

  /** In ms from the first event: a clock that is set back stands still. */
  #ms(at: number | undefined): number {
    if (at === undefined) return this.#lastMs;
    this.#startAt ??= at;
    this.#lastMs = Math.max(this.#lastMs, at - this.#startAt);
    return this.#lastMs;
  }

  #bucket(atMs: number): Bucket {
    while (atMs >= this.bucketMs * MAX_BUCKETS) this.#halve();
    const index = Math.floor(atMs / this.bucketMs);
    while (this.buckets.length <= index) this.buckets.push(emptyBucket());
    return this.buckets[index] as Bucket;
  }

  #halve(): void {
    this.bucketMs *= 2;
    const before = this.buckets.splice(0);
    before.forEach((bucket, i) => {
      if (i % 2 === 0) this.buckets.push(emptyBucket());
      merge(this.buckets[i >> 1] as Bucket, bucket);
    });
  }
}

function largest(trees: readonly Tree[]): Tree[] {
  return [...new Set(trees)].sort((a, b) => b.calls - a.calls).slice(0, MAX_TREES);
}

function emptyBucket(): Bucket {
  return { calls: 0, items: 0, outcomes: {}, settled: 0 };
}

function merge(into: Bucket, from: Bucket): void {
  into.calls += from.calls;
  into.items += from.items;
  into.settled += from.settled;
  for (const [outcome, count] of Object.entries(from.outcomes)) {
    into.outcomes[outcome as Outcome] = (into.outcomes[outcome as Outcome] ?? 0) + count;
  }
}

function outcomeOf(outcome: string): Outcome {
  return outcome === 'ok' || outcome === 'throttled' || outcome === 'cancelled' ? outcome : 'failed';
}

const batchKey = ({ operator, instance }: FlowEvent, batchId: string): string => JSON.stringify([operator, instance, batchId]);
const attemptKey = (event: FlowEvent & { type: 'attemptStarted' | 'attemptEnded' }): string =>
  `${batchKey(event, event.batchId)}${String(event.attempt)}`;
