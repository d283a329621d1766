import { Backlog } from './line.js';

/** A place in a line. What stands in it may be replaced as long as the place is open. */
class Place<T> {
  item: T | undefined = undefined;
  /** Whether its item goes out in its turn; undefined while the place is open. */
  isReady: boolean | undefined = undefined;
  /** What it adds to `held` while it is ready and waits. */
  counts = 0;

  constructor(
    readonly key: unknown,
    readonly line: Backlog<Place<T>>,
  ) {}
}

export type OrderedPlace<T> = Place<T>;

/**
 * Hands out in the order of entering what gets ready in any order: one line per key, each with its own order. O(1) per item on
 * average; a line that is empty is forgotten.
 */
export class ReorderBuffer<T> {
  readonly #lines = new Map<unknown, Backlog<Place<T>>>();
  readonly #out: (item: T) => void;
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
    let line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, (line = new Backlog()));
    const place = new Place<T>(key, line);
    line.push(place);
    return place;
  }

  /** What stands in the place is ready: it goes out now, or as soon as everything before it has. */
  ready(place: Place<T>, counts = true): void {
    this.#close(place, true, Number(counts));
  }

  /** Frees a place: nobody waits for it any more. */
  leave(place: Place<T>): void {
    this.#close(place, false, 0);
  }

  /** Empties all lines. Places in them may still be closed, which does nothing. */
  clear(): void {
    this.#lines.clear();
    this.#held = 0;
  }

  #close(place: Place<T>, isReady: boolean, counts: number): void {
    const { line, key } = place;
    // The line of a place from before `clear` is not the one of its key any more.
    if (place.isReady !== undefined || this.#lines.get(key) !== line) return;
    place.isReady = isReady;
    place.counts = counts;
    this.#held += counts;
    for (let head = line.peek(); head?.isReady !== undefined; head = line.peek()) {
      line.shift();
      this.#held -= head.counts;
      if (head.isReady) this.#out(head.item as T);
    }
    if (line.length === 0) this.#lines.delete(key);
  }
}
