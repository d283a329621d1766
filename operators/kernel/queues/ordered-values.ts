import { Backlog } from './line.js';

/** An item in its line, and its values that are held. */
interface Speaker<V> {
  readonly key: unknown;
  readonly line: Backlog<Speaker<V>>;
  readonly values: V[];
  isStarted: boolean;
  isOver: boolean;
}

/**
 * Puts the values of items in the order in which the items came: one line for all of them, or several. Values of the first item of a line go out at once;
 * those of the others are held until all items before them are over.
 */
export class OrderedValues<V> {
  /** Values held back. */
  held = 0;
  private readonly speakers = new Map<number, Speaker<V>>();
  private readonly lines = new Map<unknown, Backlog<Speaker<V>>>();
  /** Values whose turn has come. */
  private readonly due = new Backlog<V>();
  private isHandingOut = false;

  /** @param out may call anything here: what comes of it goes out behind what is due */
  constructor(private readonly out: (value: V) => void) {}

  /** Gives an item its place at the end of a line. */
  enter(index: number, key: unknown): void {
    let line = this.lines.get(key);
    if (line === undefined) this.lines.set(key, (line = new Backlog()));
    const speaker = { key, line, values: [], isStarted: false, isOver: false };
    line.push(speaker);
    this.speakers.set(index, speaker);
  }

  started(index: number): void {
    this.speaker(index).isStarted = true;
  }

  /** Whether what this item's line waits for is under way. */
  isHeadStarted(index: number): boolean {
    return (this.speaker(index).line.peek() as Speaker<V>).isStarted;
  }

  push(index: number, value: V): void {
    const speaker = this.speaker(index);
    speaker.values.push(value);
    this.held++;
    this.handOut(speaker);
  }

  /** Nothing more will come of this item. */
  close(index: number): void {
    const speaker = this.speaker(index);
    speaker.isOver = true;
    this.speakers.delete(index);
    this.handOut(speaker);
  }

  clear(): void {
    this.speakers.clear();
    this.lines.clear();
    this.due.clear();
    this.held = 0;
  }

  private speaker(index: number): Speaker<V> {
    return this.speakers.get(index) as Speaker<V>;
  }

  private handOut({ key, line }: Speaker<V>): void {
    for (let head = line.peek(); head; head = line.peek()) {
      this.held -= head.values.length;
      for (const value of head.values) this.due.push(value);
      head.values.length = 0;
      if (!head.isOver) break;
      line.shift();
    }
    if (line.length === 0) this.lines.delete(key);
    if (this.isHandingOut) return;
    this.isHandingOut = true;
    while (this.due.length > 0) this.out(this.due.shift() as V);
    this.isHandingOut = false;
  }
}
