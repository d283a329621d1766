import type { OrderedPlace } from '../../kernel/queues/reorder-buffer.js';
import { ReorderBuffer } from '../../kernel/queues/reorder-buffer.js';

/** What one item has to say, and where it stands. */
interface Speaker<V> {
  readonly line: unknown;
  readonly values: V[];
  isStarted: boolean;
}

/**
 * Puts what items say in the order in which they came: one line for all of them, or one for each key. The first item of a line is
 * heard at once; what the others say is held until all before them are over.
 */
export class OrderedOutput<V> {
  readonly #emit: (value: V) => void;
  readonly #places = new Map<number, OrderedPlace<Speaker<V>>>();
  readonly #order = new ReorderBuffer<Speaker<V>>((speaker) => {
    this.#flush(speaker);
  });
  #held = 0;

  constructor(emit: (value: V) => void) {
    this.#emit = emit;
  }

  /** Values held back. */
  get held(): number {
    return this.#held;
  }

  /** Gives an item its place at the end of a line. */
  open(index: number, line: unknown): void {
    const place = this.#order.enter(line);
    place.item = { line, values: [], isStarted: false };
    this.#places.set(index, place);
  }

  start(index: number): void {
    const speaker = this.#places.get(index)?.item;
    if (speaker) speaker.isStarted = true;
  }

  /** Whether the item that a line waits for is under way. */
  isHeadStarted(line: unknown): boolean {
    return this.#order.head(line)?.isStarted === true;
  }

  next(index: number, value: V): void {
    const speaker = this.#places.get(index)?.item as Speaker<V>;
    if (this.#order.head(speaker.line) === speaker) {
      this.#emit(value);
    } else {
      speaker.values.push(value);
      this.#held++;
    }
  }

  /** Nothing more will come of this item. */
  close(index: number): void {
    const place = this.#places.get(index) as OrderedPlace<Speaker<V>>;
    const { line } = place.item as Speaker<V>;
    this.#places.delete(index);
    this.#order.ready(place, false);
    const head = this.#order.head(line);
    if (head) this.#flush(head);
  }

  clear(): void {
    this.#places.clear();
    this.#order.clear();
    this.#held = 0;
  }

  #flush({ values }: Speaker<V>): void {
    this.#held -= values.length;
    for (const value of values) this.#emit(value);
    values.length = 0;
  }
}
