import { isFlowError } from '../options/errors.js';
import type { FlowEvent, Note } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';
import type { Alarm } from './alarm.js';

type Outcome = Extract<FlowEvent, { type: 'attemptEnded' }>['outcome'];

/** So many that wait without a bound are told of: whoever sends them should be looked at. */
const LONG = 10_000;

const lane = DEFAULT_LANE;

/**
 * Tells a listener what happens to items, when `tell` is called and not before: it may send, leave, or end what is under way. Only where there is
 * one does anybody look at the clock for it. Keys are not told: they are data.
 */
export class ItemReports {
  private readonly teller: (note: Note) => void;
  private readonly clock: Pick<Alarm, 'now'>;
  private readonly isBounded: boolean;
  private untold: Note[] = [];
  private readonly acceptedAt = new Map<number, number>();
  private readonly startedAt = new Map<number, number>();
  private isTelling = false;
  private isLongTold = false;

  constructor(teller: (note: Note) => void, clock: Pick<Alarm, 'now'>, isBounded: boolean) {
    this.teller = teller;
    this.clock = clock;
    this.isBounded = isBounded;
  }

  get hasNews(): boolean {
    return this.untold.length > 0;
  }

  /** What happens meanwhile is told after it, in a loop. */
  tell(): void {
    if (this.isTelling) return;
    this.isTelling = true;
    // In rounds: a list that grows while it is told would keep all of it.
    while (this.untold.length > 0) {
      const notes = this.untold;
      this.untold = [];
      for (const note of notes) this.teller(note);
    }
    this.isTelling = false;
  }

  accepted(seq: number, queued: number): void {
    this.acceptedAt.set(seq, this.clock.now());
    this.untold.push({ type: 'accepted', lane, seq, queued });
  }

  /** One more waits. */
  queued(queued: number): void {
    if (queued === 1) this.isLongTold = false;
    if (this.isBounded || queued < LONG || this.isLongTold) return;
    this.isLongTold = true;
    this.untold.push({ type: 'queueLong', lane, queued });
  }

  dropped(seq: number, policy: string): void {
    this.untold.push({ type: 'dropped', lane, seq, policy });
  }

  expired(seq: number, deadlineMs: number): void {
    this.untold.push({ type: 'expired', lane, seq, deadlineMs });
  }

  started(seq: number, executing: number): void {
    this.startedAt.set(seq, this.clock.now());
    const batchId = String(seq);
    this.untold.push({ type: 'attemptStarted', lane, seq, batchId, size: 1, weight: 1, attempt: 1, splitDepth: 0, executing });
  }

  ended(seq: number, outcome: Outcome): void {
    const latencyMs = this.since(this.startedAt, seq);
    this.untold.push({ type: 'attemptEnded', lane, seq, batchId: String(seq), size: 1, attempt: 1, outcome, latencyMs });
  }

  failed(seq: number, error: unknown): void {
    const isTimeout = isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') || isFlowError(error, 'FLOW_DEADLINE');
    this.ended(seq, isTimeout ? 'timeout' : 'failed');
  }

  settled(seq: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.untold.push({ type: 'settled', lane, seq, outcome, attempts, totalMs: this.since(this.acceptedAt, seq) });
  }

  /** The consumer has left, and what is not settled never will be. */
  left(): void {
    const count = this.acceptedAt.size;
    if (count > 0) this.untold.push({ type: 'cancelled', lane, count });
  }

  drained(): void {
    this.untold.push({ type: 'drained' });
  }

  private since(times: Map<number, number>, seq: number): number {
    const since = times.get(seq);
    times.delete(seq);
    const now = this.clock.now();
    return now - (since ?? now);
  }
}
