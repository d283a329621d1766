import type { FlowEvent } from '../../operators/support/events.js';

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
  /** Mean size of the batches formed, as a share of the largest they may be. */
  readonly meanFill: number;
}

/** Adds up flow events. */
export class FlowStats {
  readonly #maxSize: number;
  #calls = 0;
  #throttled = 0;
  #retries = 0;
  #splits = 0;
  #fulfilled = 0;
  #rejected = 0;
  #batches = 0;
  #batched = 0;

  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  add(event: FlowEvent): void {
    switch (event.type) {
      case 'batchFormed':
        if (event.reason === 'retry' || event.reason === 'split') return;
        this.#batches++;
        this.#batched += event.size;
        return;
      case 'attemptStarted':
        this.#calls++;
        return;
      case 'attemptEnded':
        if (event.outcome === 'throttled') this.#throttled++;
        return;
      case 'retryScheduled':
        this.#retries++;
        return;
      case 'split':
      case 'blamed':
        this.#splits++;
        return;
      case 'settled':
        if (event.outcome === 'fulfilled') this.#fulfilled++;
        else this.#rejected++;
        return;
      default:
    }
  }

  totals(): FlowTotals {
    return {
      calls: this.#calls,
      throttled: this.#throttled,
      retries: this.#retries,
      splits: this.#splits,
      fulfilled: this.#fulfilled,
      rejected: this.#rejected,
      meanFill: this.#batches === 0 ? 0 : this.#batched / this.#batches / this.#maxSize,
    };
  }
}
