import { Backlog } from './line.js';
import type { OrderedPlace } from './reorder-buffer.js';
import { ReorderBuffer } from './reorder-buffer.js';

/** The values of one item that are held, and its line. */
interface ItemValues<V> {
  readonly line: unknown;
  readonly values: V[];
  isStarted: boolean;
}

/**
 * Puts the values of items in the order in which the items came: one line for all of them, or several. Values of the first item of a line go out at once;
 * those of the others are held until all items before them are over.
 */
export class OrderedValues<V> {
  /** Values held back. */
  held = 0;
  /** Values whose turn has come. */
  private readonly due = new Backlog<V>();
  private isHandingOut = false;
  private readonly out: (value: V) => void;
  private readonly places = new Map<number, OrderedPlace<ItemValues<V>>>();
  private readonly lines: ReorderBuffer<ItemValues<V>>;

  /** `out` is called with each value when its turn has come; what it calls here is done, and its values come out behind those that are due. */
  constructor(out: (value: V) => void) {
    this.out = out;
    this.lines = new ReorderBuffer((valuesOf) => {
      this.flush(valuesOf);
    });
  }

  /** Gives an item its place at the end of a line. */
  enter(index: number, line: unknown): void {
    const place = this.lines.enter(line);
    place.item = { line, values: [], isStarted: false };
    this.places.set(index, place);
  }

  started(index: number): void {
    this.speaker(index).isStarted = true;
  }

  /** Whether what this item's line waits for is under way. */
  isHeadStarted(index: number): boolean {
    return (this.lines.head(this.speaker(index).line) as ItemValues<V>).isStarted;
  }

  push(index: number, value: V): void {
    const speaker = this.speaker(index);
    if (this.lines.head(speaker.line) === speaker) {
      this.due.push(value);
      this.handOut();
    } else {
      speaker.values.push(value);
      this.held++;
    }
  }

  /** Nothing more will come of this item. */
  close(index: number): void {
    const { line } = this.speaker(index);
    this.lines.ready(this.places.get(index) as OrderedPlace<ItemValues<V>>);
    this.places.delete(index);
    const head = this.lines.head(line);
    if (head) this.flush(head);
    this.handOut();
  }

  clear(): void {
    this.places.clear();
    this.lines.clear();
    this.due.clear();
    this.held = 0;
  }

  private speaker(index: number): ItemValues<V> {
    return this.places.get(index)?.item as ItemValues<V>;
  }

  private flush({ values }: ItemValues<V>): void {
    this.held -= values.length;
    for (const value of values) this.due.push(value);
    values.length = 0;
  }

  private handOut(): void {
    if (this.isHandingOut) return;
    this.isHandingOut = true;
    while (this.due.length > 0) this.out(this.due.shift() as V);
    this.isHandingOut = false;
  }
}
