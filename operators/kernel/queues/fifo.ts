import { Line } from './line.js';
import type { Plan, Queue, QueueRule, Waiter } from './queue.js';

/** One line of which batches are made. */
class Fifo<E extends Waiter<E>> extends Line<E> implements Queue<E> {
  private planned: E[] = [];

  plan(_lane: number, places: number, budget: number): Plan<E> {
    const entries: E[] = [];
    const head = this.oldest();
    let weight = 0;
    for (let entry = head; entry !== undefined && entries.length < places; entry = entry.next) {
      if (entry !== head && weight + entry.weight > budget) break;
      entries.push(entry);
      weight += entry.weight;
    }
    this.planned = entries;
    return { entries, weight };
  }

  takePlanned(): void {
    for (const entry of this.planned) this.remove(entry);
    this.planned = [];
  }

  after(lane: number): number {
    return lane === -1 && this.oldest() !== undefined ? 0 : -1;
  }
}

/** What queues are when nobody says otherwise: without lanes. */
export const FIFO: Readonly<QueueRule<unknown>> = {
  lanes: [{ name: 'default' }],
  isDeclared: false,
  at: () => 0,
  create: () => new Fifo(),
};
