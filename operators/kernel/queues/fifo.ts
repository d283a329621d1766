import { Line } from './line.js';
import type { Plan, Queue, QueueRule, Waiter } from './queue.js';

/** One line for all: first come, first served, but for what came back, which is ahead. */
class Fifo<E extends Waiter<E>> implements Queue<E> {
  private readonly line = new Line<E>();
  private planned: E[] = [];

  get size(): number {
    return this.line.size;
  }

  count(): number {
    return this.line.size;
  }

  push(entry: E): void {
    this.line.push(entry);
  }

  pushReturned(entry: E): void {
    this.line.pushReturned(entry);
  }

  remove(entry: E): void {
    this.line.remove(entry);
  }

  lead(): number {
    return this.line.first === undefined ? -1 : 0;
  }

  goesFirst(): boolean {
    return this.line.first === undefined;
  }

  head(): E | undefined {
    return this.line.first;
  }

  isReturned(): boolean {
    return this.line.isReturned;
  }

  takeHead(): E {
    const head = this.line.first as E;
    this.line.remove(head);
    return head;
  }

  turn(): void {
    // One lane has every turn.
  }

  plan(_lane: number, places: number, budget: number): Plan<E> {
    const entries: E[] = [];
    const head = this.line.oldest;
    let weight = 0;
    for (let entry = head; entry !== undefined && entries.length < places; entry = entry.next) {
      if (entry !== head && (entry.stretch !== head?.stretch || weight + entry.weight > budget)) break;
      entries.push(entry);
      weight += entry.weight;
    }
    this.planned = entries;
    return { entries, weight };
  }

  takePlanned(): void {
    for (const entry of this.planned) this.line.remove(entry);
    this.planned = [];
  }

  after(lane: number): number {
    return lane === -1 && this.line.oldest !== undefined ? 0 : -1;
  }

  oldest(): E | undefined {
    return this.line.oldest;
  }

  newest(): E | undefined {
    return this.line.newest;
  }

  each(_lane: number, visit: (entry: E) => boolean): void {
    this.line.each(visit);
  }
}

/** What queues are when nobody says otherwise: without lanes. */
export const FIFO: Readonly<QueueRule<unknown>> = {
  lanes: [{ name: 'default' }],
  isDeclared: false,
  at: () => 0,
  create: () => new Fifo(),
};
