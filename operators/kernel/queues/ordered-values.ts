import type { OrderedPlace } from './reorder-buffer.js';
import { ReorderBuffer } from './reorder-buffer.js';

/** What one item has to say, and where it stands. */
interface Speaker<V> {
  readonly line: unknown;
  readonly values: V[];
  isStarted: boolean;
}

/**
 * Puts what items say in the order in which they came: one line for all of them, or several. The first item of a line is heard at once; what the
 * others say is held until all before them are over.
 */
export class OrderedValues<V> {
  /** Values held back. */
  held = 0;
  private readonly out: (value: V) => void;
  private readonly places = new Map<number, OrderedPlace<Speaker<V>>>();
  private readonly lines: ReorderBuffer<Speaker<V>>;

  constructor(out: (value: V) => void) {
    this.out = out;
    this.lines = new ReorderBuffer((speaker) => {
      this.flush(speaker);
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
    return (this.lines.head(this.speaker(index).line) as Speaker<V>).isStarted;
  }

  push(index: number, value: V): void {
    const speaker = this.speaker(index);
    if (this.lines.head(speaker.line) === speaker) {
      this.out(value);
    } else {
      speaker.values.push(value);
      this.held++;
    }
  }

  /** Nothing more will come of this item. */
  close(index: number): void {
    const { line } = this.speaker(index);
    this.lines.ready(this.places.get(index) as OrderedPlace<Speaker<V>>);
    this.places.delete(index);
    const head = this.lines.head(line);
    if (head) this.flush(head);
  }

  clear(): void {
    this.places.clear();
    this.lines.clear();
    this.held = 0;
  }

  private speaker(index: number): Speaker<V> {
    return this.places.get(index)?.item as Speaker<V>;
  }

  private flush({ values }: Speaker<V>): void {
    this.held -= values.length;
    for (const value of values) this.out(value);
    values.length = 0;
  }
}
