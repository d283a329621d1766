import type { FlowEvent } from '../../operators/index.js';
import type { AttemptMetrics } from './attempt-stats.js';
import { AttemptStats } from './attempt-stats.js';
import type { Distribution } from './histogram.js';
import { Histogram } from './histogram.js';

/** Totals since the start. */
export interface FlowTotals {
  /** Calls sent, retries and parts of splits included. */
  readonly calls: number;
  /** Calls that were refused for their rate (429). */
  readonly throttled: number;
  /** Calls sent again after a failure. */
  readonly retries: number;
  /** Batches cut up, and batches cleared of what their error named. */
  readonly splits: number;
  readonly fulfilled: number;
  readonly rejected: number;
  /** Mean size of the batches formed, as a share of the largest they may be; 0 where that is not known. */
  readonly meanFill: number;
}

/** What the events of operators add up to. */
export interface FlowMetrics extends FlowTotals {
  readonly accepted: number;
  readonly dropped: number;
  readonly expired: number;
  readonly hedged: number;
  /** Jobs that a limiter with `enforce: false` let go, and would have held back. */
  readonly wouldWait: number;
  /** Batches formed, without retries and parts of splits. */
  readonly batches: number;
  /** Mean number of items in those. */
  readonly meanSize: number;
  /** How long their oldest items had waited. */
  readonly waitMs: Distribution;
  /** Most calls that were ever under way at once, of all instances together. */
  readonly peakExecuting: number;
  /** Calls that are over; failures by class. */
  readonly ended: AttemptMetrics;
  /** From acceptance to the result. */
  readonly totalMs: Distribution;
  /** Of `createStages`: items that came through the last stage, and documents that are over. */
  readonly items: number;
  readonly documents: number;
}

/** There are fewer classes than that. */
const MAX_CLASSES = 16;

/** Events that are only counted, and as what. */
const COUNTED = {
  accepted: 'accepted',
  dropped: 'dropped',
  expired: 'expired',
  hedged: 'hedged',
  retryScheduled: 'retries',
  split: 'splits',
  blamed: 'splits',
  wouldWait: 'wouldWait',
} as const;

const NONE = {
  ...{ accepted: 0, dropped: 0, expired: 0, hedged: 0, retries: 0, splits: 0, wouldWait: 0 },
  ...{ calls: 0, throttled: 0, fulfilled: 0, rejected: 0, batches: 0, batched: 0, items: 0, documents: 0 },
};

/** Adds up flow events. */
export class FlowStats {
  readonly #maxSize: number;
  readonly #ended = new AttemptStats(MAX_CLASSES);
  readonly #waits = new Histogram();
  readonly #totalTimes = new Histogram();
  readonly #sums = { ...NONE };
  /** Counted here: what an event says of that is about one instance, or about a limiter that others use too. */
  #executing = 0;
  #peak = 0;

  /** @param maxSize - most items in a batch, Infinity where that is not known */
  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  get executing(): number {
    return this.#executing;
  }

  add(event: FlowEvent): void {
    const sums = this.#sums;
    switch (event.type) {
      case 'batchFormed':
        if (event.reason === 'retry' || event.reason === 'split') return;
        sums.batches++;
        sums.batched += event.size;
        this.#waits.add(event.waitMs);
        return;
      case 'attemptStarted':
        sums.calls++;
        this.#executing++;
        this.#peak = Math.max(this.#peak, this.#executing);
        return;
      case 'attemptEnded':
        // Calls that were under way before listening began end as well.
        this.#executing = Math.max(0, this.#executing - 1);
        this.#end(event);
        return;
      case 'settled':
        this.#totalTimes.add(event.totalMs);
        sums[event.outcome]++;
        return;
      case 'itemEnded':
        if (event.outcome === 'fulfilled') sums.items++;
        return;
      case 'documentEnded':
        if (event.outcome !== 'cancelled') sums.documents++;
        return;
      default:
        if (isCounted(event.type)) sums[COUNTED[event.type]]++;
    }
  }

  /** Takes the calls that are under way where another one ended. */
  goOnFrom(before: FlowStats): void {
    this.#executing = before.#executing;
    this.#peak = Math.max(this.#peak, this.#executing);
  }

  /** Takes all that another one was given, of another time. */
  merge(other: FlowStats): void {
    for (const name of Object.keys(NONE) as (keyof typeof NONE)[]) this.#sums[name] += other.#sums[name];
    this.#peak = Math.max(this.#peak, other.#peak);
    this.#ended.merge(other.#ended);
    this.#waits.merge(other.#waits);
    this.#totalTimes.merge(other.#totalTimes);
  }

  totals(): FlowTotals {
    const { calls, throttled, retries, splits, fulfilled, rejected } = this.#sums;
    return { calls, throttled, retries, splits, fulfilled, rejected, meanFill: this.#meanSize() / this.#maxSize };
  }

  snapshot(): FlowMetrics {
    const { accepted, dropped, expired, hedged, wouldWait, batches, items, documents } = this.#sums;
    return {
      ...this.totals(),
      ...{ accepted, dropped, expired, hedged, wouldWait, batches },
      meanSize: this.#meanSize(),
      waitMs: this.#waits.distribution(),
      peakExecuting: this.#peak,
      ended: this.#ended.snapshot(),
      totalMs: this.#totalTimes.distribution(),
      ...{ items, documents },
    };
  }

  #end({ outcome, attempt, latencyMs }: Extract<FlowEvent, { type: 'attemptEnded' }>): void {
    if (outcome === 'throttled') this.#sums.throttled++;
    this.#ended.add(outcome === 'ok' || outcome === 'cancelled' ? outcome : { code: outcome }, attempt, latencyMs);
  }

  #meanSize(): number {
    const { batches, batched } = this.#sums;
    return batches === 0 ? 0 : batched / batches;
  }
}

function isCounted(type: string): type is keyof typeof COUNTED {
  return Object.hasOwn(COUNTED, type);
}
