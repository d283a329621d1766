import type { Backlog } from '../queues/line.js';
import type { Queue } from '../queues/queue.js';
import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import type { Deadlines, LongMark } from '../waiting/deadlines.js';
import type { BatchHost, BatchRules, Fault } from './batch-host.js';
import type { Batch, Burst, Entry, Job, JobSettler } from './job.js';
import type { Arrival, CLOSED, FINISHING, OPEN } from './step.js';

/** A batch machine, for the decisions beside it; `BatchMachine` says what each member is. */
export interface MachineState<T, R> extends JobSettler<T, R> {
  readonly rules: BatchRules<T>;
  readonly host: BatchHost<T, R>;
  readonly order: ReorderBuffer<Job<T, R>> | undefined;
  readonly lines: Queue<Entry<T, R>>;
  readonly inputs: Backlog<T>;
  readonly bursts: Backlog<Burst>;
  readonly results: Backlog<Job<T, R>>;
  readonly ending: readonly Batch<T, R>[];
  readonly calls: readonly Batch<T, R>[];
  readonly inLane: readonly number[];
  readonly repairer: { takeAll(): readonly Batch<T, R>[] } | undefined;
  readonly isFramed: boolean;
  readonly isFull: boolean;
  readonly heldBack: number;
  readonly flushedBelow: number;
  readonly latencyMs: number | undefined;
  readonly queued: number;
  now: number;
  phase: typeof OPEN | typeof FINISHING | typeof CLOSED;
  entering: number;
  accepted: number;
  fresh: number;
  freshWeight: number;
  batches: number;
  aim: number;
  budget: number;
  charges: boolean;
  refusal: Fault | undefined;
  deadlines: Deadlines<Job<T, R>> | undefined;
  long: LongMark | undefined;
  laneName(lane: number): string;
  arrived(lane: number, isTimed?: boolean): Arrival;
  count(lane: number, change: number): void;
  detach(job: Job<T, R>): void;
  abandon(batch: Batch<T, R>): void;
}
