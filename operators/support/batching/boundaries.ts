import type { Job } from './job.js';

/**
 * Where batches must end, per lane, and what is due because of that or because of a flush. A boundary ends a stretch of its lane: the
 * items after it belong to the next one, and no batch has items of two stretches of a lane.
 */
export class Boundaries {
  readonly #stretch: Int32Array;
  /** Items accepted before this index are due, per lane. */
  readonly #closedBelow: Float64Array;
  #flushedBelow = 0;

  constructor(lanes: number) {
    this.#stretch = new Int32Array(lanes);
    this.#closedBelow = new Float64Array(lanes);
  }

  /** The stretch that is open in a lane. */
  stretch(lane: number): number {
    return this.#stretch[lane] as number;
  }

  /** Ends the open stretch of a lane; its items with an index below this are due. */
  close(lane: number, below: number): void {
    (this.#stretch[lane] as number)++;
    this.#closedBelow[lane] = below;
  }

  /** Makes everything below this index due. */
  flush(below: number): void {
    this.#flushedBelow = below;
  }

  /** Why the item is due whatever its window; undefined when it is not. */
  due({ index, lane }: Job<unknown, unknown>): 'flush' | 'closeWhen' | undefined {
    if (index < this.#flushedBelow) return 'flush';
    return index < (this.#closedBelow[lane] as number) ? 'closeWhen' : undefined;
  }
}
