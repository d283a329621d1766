import { isFlowError } from '../options/errors.js';
import type { FlowEvent, Note } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';

type Outcome = Extract<FlowEvent, { type: 'attemptEnded' }>['outcome'];

/** So many that wait without a bound are told of: whoever sends them should be looked at. */
const LONG = 10_000;

const lane = DEFAULT_LANE;

/**
 * What a listener is told about items. Only where there is one does anybody look at the clock for it. Keys are not told: they are data.
 */
export class ItemReports {
  private readonly tell: (note: Note) => void;
  private readonly now: () => number;
  private readonly isBounded: boolean;
  private readonly acceptedAt = new Map<number, number>();
  private readonly startedAt = new Map<number, number>();
  private isLongTold = false;

  constructor(tell: (note: Note) => void, now: () => number, isBounded: boolean) {
    this.tell = tell;
    this.now = now;
    this.isBounded = isBounded;
  }

  accepted(seq: number, queued: number): void {
    this.acceptedAt.set(seq, this.now());
    this.tell({ type: 'accepted', lane, seq, queued });
  }

  /** One more waits. */
  queued(queued: number): void {
    if (queued === 1) this.isLongTold = false;
    if (this.isBounded || queued < LONG || this.isLongTold) return;
    this.isLongTold = true;
    this.tell({ type: 'queueLong', lane, queued });
  }

  dropped(seq: number, policy: string): void {
    this.tell({ type: 'dropped', lane, seq, policy });
  }

  expired(seq: number, deadlineMs: number): void {
    this.tell({ type: 'expired', lane, seq, deadlineMs });
  }

  started(seq: number, executing: number): void {
    this.startedAt.set(seq, this.now());
    const batchId = String(seq);
    this.tell({ type: 'attemptStarted', lane, seq, batchId, size: 1, weight: 1, attempt: 1, splitDepth: 0, executing });
  }

  ended(seq: number, outcome: Outcome): void {
    const latencyMs = this.since(this.startedAt, seq);
    this.tell({ type: 'attemptEnded', lane, seq, batchId: String(seq), size: 1, attempt: 1, outcome, latencyMs });
  }

  failed(seq: number, error: unknown): void {
    const isTimeout = isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') || isFlowError(error, 'FLOW_DEADLINE');
    this.ended(seq, isTimeout ? 'timeout' : 'failed');
  }

  settled(seq: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.tell({ type: 'settled', lane, seq, outcome, attempts, totalMs: this.since(this.acceptedAt, seq) });
  }

  /** The consumer has left, and what is not settled never will be. */
  left(): void {
    const count = this.acceptedAt.size;
    if (count > 0) this.tell({ type: 'cancelled', lane, count });
  }

  drained(): void {
    this.tell({ type: 'drained' });
  }

  private since(times: Map<number, number>, seq: number): number {
    const since = times.get(seq);
    times.delete(seq);
    const now = this.now();
    return now - (since ?? now);
  }
}
