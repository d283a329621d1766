import { Ring } from '../../kernel/queues/ring.js';
import { isFlowError } from '../../options/errors.js';
import type { FlowEvent, FlowSink } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { Alarm } from '../../shell/alarm.js';
import { LongQueue } from '../../shell/long-queue.js';

type Outcome = Extract<FlowEvent, { type: 'attemptEnded' }>['outcome'];

/**
 * Tells a listener what happens to items, when `tell` is called and not before: it may send, leave, or end what is under way. Only where there is
 * one does anybody look at the clock for it. Keys are not told: they are data.
 */
export class SlotReports {
  readonly #about: { readonly operator: string; readonly lane: string };
  readonly #sink: FlowSink;
  readonly #untold = new Ring<FlowEvent>();
  readonly #long: LongQueue | undefined;
  #telling = false;
  readonly #clock: Pick<Alarm, 'now'>;
  readonly #acceptedAt = new Map<number, number>();
  readonly #startedAt = new Map<number, number>();

  constructor(operator: string, sink: FlowSink, clock: Pick<Alarm, 'now'>, isBounded: boolean) {
    this.#about = { operator, lane: DEFAULT_LANE };
    this.#sink = sink;
    this.#clock = clock;
    if (!isBounded)
      this.#long = new LongQueue(operator, (event) => {
        this.#untold.push(event);
      });
  }

  get hasNews(): boolean {
    return this.#untold.length > 0;
  }

  /** What happens meanwhile is told after it, in a loop. */
  tell(): void {
    if (this.#telling) return;
    this.#telling = true;
    for (let event = this.#untold.shift(); event; event = this.#untold.shift()) this.#sink(event);
    this.#telling = false;
  }

  accepted(index: number, queued: number): void {
    this.#acceptedAt.set(index, this.#clock.now());
    this.#untold.push({ type: 'accepted', ...this.#about, queued });
  }

  /** One more waits. */
  queued(count: number): void {
    this.#long?.grew(count, this.#about.lane);
  }

  dropped(policy: string): void {
    this.#untold.push({ type: 'dropped', ...this.#about, policy });
  }

  started(index: number, executing: number): void {
    this.#startedAt.set(index, this.#clock.now());
    const batchId = String(index);
    this.#untold.push({ type: 'attemptStarted', ...this.#about, batchId, size: 1, weight: 1, attempt: 1, splitDepth: 0, executing });
  }

  ended(index: number, outcome: Outcome): void {
    const latencyMs = this.#since(this.#startedAt, index);
    this.#untold.push({ type: 'attemptEnded', ...this.#about, batchId: String(index), size: 1, attempt: 1, outcome, latencyMs });
  }

  failed(index: number, error: unknown): void {
    this.ended(index, isFlowError(error, 'FLOW_ATTEMPT_TIMEOUT') ? 'timeout' : 'failed');
  }

  settled(index: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.#untold.push({ type: 'settled', ...this.#about, outcome, attempts, totalMs: this.#since(this.#acceptedAt, index) });
  }

  /** The consumer has left, and what is not settled never will be. */
  left(): void {
    const count = this.#acceptedAt.size;
    if (count > 0) this.#untold.push({ type: 'cancelled', ...this.#about, count });
  }

  drained(): void {
    this.#untold.push({ type: 'drained', operator: this.#about.operator });
  }

  #since(times: Map<number, number>, index: number): number {
    const since = times.get(index);
    times.delete(index);
    const now = this.#clock.now();
    return now - (since ?? now);
  }
}
