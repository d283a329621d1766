import type { Filler } from './discipline.js';
import type { Waiter } from './queue.js';

/** A batch being chosen from several lanes: what it has of each, and how far it has looked. Nothing is removed from the lanes. */
export class BatchPlan<E extends Waiter<E>> implements Filler {
  readonly entries: E[] = [];
  private weight = 0;
  private readonly taken: number[];
  /** The next entry of each lane that has been looked at; undefined when it has no more for this batch. */
  private readonly heads: (E | undefined)[];

  /** @param lines - the fresh entries of each lane, in the order of their turns */
  constructor(
    private readonly lines: readonly Iterator<E, undefined>[],
    private readonly budget: number,
  ) {
    this.heads = lines.map((line) => line.next().value);
    this.taken = lines.map(() => 0);
  }

  /** An entry that does not fit closes its lane for this batch, so that later entries do not overtake it. An empty batch takes anything. */
  fill(lane: number, most: number): number {
    const { entries, heads } = this;
    const before = entries.length;
    for (let entry = heads[lane]; entry && entries.length - before < most; entry = heads[lane]) {
      if (entries.length > 0 && this.weight + entry.weight > this.budget) heads[lane] = undefined;
      else {
        entries.push(entry);
        this.weight += entry.weight;
        heads[lane] = this.lines[lane]?.next().value;
      }
    }
    const got = entries.length - before;
    (this.taken[lane] as number) += got;
    return got;
  }

  isOpen(lane: number): boolean {
    return this.heads[lane] !== undefined;
  }

  given(lane: number): number {
    return this.taken[lane] as number;
  }
}
