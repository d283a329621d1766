import type { Filler } from './discipline.js';
import type { KeyedLine } from './keyed-line.js';
import type { Line } from './line.js';
import type { Plan, Waiter } from './queue.js';

/** A batch being chosen from several lanes: what it has of each, and how far it has looked. Nothing is removed from the lanes. */
export class BatchPlan<E extends Waiter<E>> implements Filler, Plan<E> {
  readonly entries: E[] = [];
  weight = 0;
  /** How many it has of each lane. */
  readonly taken: number[];

  constructor(
    private readonly lines: readonly (Line<E> | KeyedLine<E>)[],
    private readonly budget: number,
  ) {
    for (const line of lines) line.rewind();
    this.taken = lines.map(() => 0);
  }

  /** One that does not fit closes its lane for this batch: nobody overtakes it there. A batch that is empty takes anything. */
  fill(lane: number, most: number): number {
    const line = this.lines[lane] as Line<E>;
    let got = 0;
    for (let entry = line.at; got < most && entry !== undefined; entry = line.at) {
      if (this.entries.length > 0 && this.weight + entry.weight > this.budget) line.at = undefined;
      else {
        this.entries.push(entry);
        this.weight += entry.weight;
        got++;
        line.step();
      }
    }
    (this.taken[lane] as number) += got;
    return got;
  }

  isOpen(lane: number): boolean {
    return (this.lines[lane] as Line<E>).at !== undefined;
  }

  given(lane: number): number {
    return this.taken[lane] as number;
  }
}
