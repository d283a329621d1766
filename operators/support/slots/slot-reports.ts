import type { Alarm } from '../alarm.js';
import { isFlowError } from '../errors.js';
import type { FlowEvent, FlowSink } from '../events.js';
import { DEFAULT_LANE } from '../lanes.js';

type Outcome = Extract<FlowEvent, { type: 'attemptEnded' }>['outcome'];

/** Tells a listener what happens to items. Only there is one does anybody look at the clock for it. Keys are not told: they are data. */
export class SlotReports {
  readonly #about: { readonly operator: string; readonly lane: string };
  readonly #tell: FlowSink;
  readonly #clock: Pick<Alarm, 'now'>;
  readonly #acceptedAt = new Map<number, number>();
  readonly #startedAt = new Map<number, number>();

  constructor(operator: string, tell: FlowSink, clock: Pick<Alarm, 'now'>) {
    this.#about = { operator, lane: DEFAULT_LANE };
    this.#tell = tell;
    this.#clock = clock;
  }

  accepted(index: number, queued: number): void {
    this.#acceptedAt.set(index, this.#clock.now());
    this.#tell({ type: 'accepted', ...this.#about, queued });
  }

  dropped(policy: string): void {
    this.#tell({ type: 'dropped', ...this.#about, policy });
  }

  started(index: number, executing: number): void {
    this.#startedAt.set(index, this.#clock.now());
    const batchId = String(index);
    this.#tell({ type: 'attemptStarted', ...this.#about, batchId, size: 1, weight: 1, attempt: 1, splitDepth: 0, executing });
  }

  ended(index: number, outcome: Outcome): void {
    const latencyMs = this.#since(this.#startedAt, index);
    this.#tell({ type: 'attemptEnded', ...this.#about, batchId: String(index), size: 1, attempt: 1, outcome, latencyMs });
  }

  failed(index: number, error: unknown): void {
    this.ended(index, isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') ? 'timeout' : 'failed');
  }

  settled(index: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.#tell({ type: 'settled', ...this.#about, outcome, attempts, totalMs: this.#since(this.#acceptedAt, index) });
  }

  /** The consumer has left while so many items were not settled. */
  left(count: number): void {
    if (count > 0) this.#tell({ type: 'cancelled', ...this.#about, count });
  }

  drained(): void {
    this.#tell({ type: 'drained', operator: this.#about.operator });
  }

  #since(times: Map<number, number>, index: number): number {
    const since = times.get(index);
    times.delete(index);
    const now = this.#clock.now();
    return now - (since ?? now);
  }
}
