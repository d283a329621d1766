import { Backlog } from './line.js';

/** A place in a line. What stands in it may be replaced as long as the place is open. */
class Place<T> {
  item: T | undefined = undefined;
  /** Whether its item goes out in its turn; undefined while the place is open. */
  isReady: boolean | undefined = undefined;
  /** What it adds to `held` while it is ready and waits. */
  counts = 0;
  key: unknown = undefined;
  /** Undefined before it has entered its line. */
  line: Backlog<Place<T>> | undefined = undefined;
  /** Reserved, and its line is not known yet. */
  isReserved = false;
}

export type OrderedPlace<T> = Place<T>;

/**
 * Hands out in the order of entering what gets ready in any order: one line per key, each with its own order. O(1) per item on
 * average; a line that is empty is forgotten.
 */
export class ReorderBuffer<T> {
  readonly #lines = new Map<unknown, Backlog<Place<T>>>();
  readonly #out: (item: T) => void;
  /** Reserved places, and those that were reserved after them: the first has no line yet. */
  readonly #late = new Backlog<Place<T>>();
  #held = 0;

  /** `out` is called with each item when its turn has come, from inside `ready` or `leave`, which it must not call. */
  constructor(out: (item: T) => void) {
    this.#out = out;
  }

  /** Items that are ready and wait for others, without those that do not count. */
  get held(): number {
    return this.#held;
  }

  /** Whom a line waits for; undefined when it is empty. */
  head(key: unknown): T | undefined {
    return this.#lines.get(key)?.peek()?.item;
  }

  /** Takes the next place in the line of `key`. */
  enter(key: unknown): Place<T> {
    const place = new Place<T>();
    place.key = key;
    this.#join(place);
    return place;
  }

  /** A place in a line that is not known yet. Whatever is reserved before {@link assign} stands behind it, in each line. */
  reserve(): Place<T> {
    const place = new Place<T>();
    place.isReserved = true;
    this.#late.push(place);
    return place;
  }

  /** The line of a reserved place is known. */
  assign(place: Place<T>, key: unknown): void {
    place.key = key;
    this.#enterLate(place);
  }

  /** What stands in the place is ready: it goes out now, or as soon as everything before it has. */
  ready(place: Place<T>, counts = true): void {
    this.#close(place, true, Number(counts));
  }

  /** Frees a place: its item has left, and no result will come. */
  leave(place: Place<T>): void {
    this.#close(place, false, 0);
    if (place.isReserved) this.#enterLate(place);
  }

  /** Empties all lines. Places in them may still be closed, which does nothing. */
  clear(): void {
    for (let place = this.#late.shift(); place; place = this.#late.shift()) place.isReady = false;
    this.#lines.clear();
    this.#held = 0;
  }

  #join(place: Place<T>): void {
    const { key } = place;
    let line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, (line = new Backlog()));
    place.line = line;
    line.push(place);
  }

  /** A place is no longer reserved: those up to the next reserved one enter their lines. */
  #enterLate(assigned: Place<T>): void {
    assigned.isReserved = false;
    for (let place = this.#late.peek(); place?.isReserved === false; place = this.#late.peek()) {
      this.#late.shift();
      // It may be ready by now, or have left.
      if (place.isReady === false) continue;
      this.#join(place);
      if (place.isReady) this.#advance(place);
    }
  }

  #close(place: Place<T>, isReady: boolean, counts: number): void {
    const { line, key } = place;
    // The line of a place from before `clear` is not the one of its key any more.
    if (place.isReady !== undefined || (line && this.#lines.get(key) !== line)) return;
    place.isReady = isReady;
    place.counts = counts;
    this.#held += counts;
    if (line) this.#advance(place);
  }

  /** Hands out what has its turn in the line of a place. */
  #advance({ key, line = new Backlog() }: Place<T>): void {
    for (let head = line.peek(); head?.isReady !== undefined; head = line.peek()) {
      line.shift();
      this.#held -= head.counts;
      if (head.isReady) this.#out(head.item as T);
    }
    if (line.length === 0) this.#lines.delete(key);
  }
}
