import type { Clock } from './clock.js';
import type { Item } from './plan.js';

/** A source that is pulled: an Iterable when everything is there at once, else an AsyncIterable in virtual time. */
export class Supply {
  readonly #items: Item[] = [];
  #over = false;
  #error: unknown;
  #wake: (() => void) | undefined;

  put(item: Item): void {
    this.#items.push(item);
    this.#wake?.();
  }

  end(error?: unknown): void {
    this.#over = true;
    this.#error = error;
    this.#wake?.();
  }

  open(clock: Clock, offered: (item: Item) => void, pulling: () => void, slow: boolean): AsyncIterable<Item> {
    const next = (): Later<IteratorResult<Item>> =>
      new Later((resolve, reject) => {
        const look = (): void => {
          this.#wake = undefined;
          const item = this.#items.shift();
          if (item !== undefined) {
            offered(item);
            resolve({ done: false, value: item });
          } else if (this.#error !== undefined) {
            reject(this.#error);
          } else if (this.#over) {
            resolve({ done: true, value: undefined });
          } else {
            this.#wake = slow
              ? () => {
                  this.#wake = undefined;
                  clock.schedule(look, 1);
                }
              : look;
          }
        };
        pulling();
        look();
      });
    return { [Symbol.asyncIterator]: () => ({ next: next as unknown as () => Promise<IteratorResult<Item>> }) };
  }
}

/** What of a promise `batchMapFrom` uses, settled in virtual time instead of in a microtask. */
class Later<V> {
  constructor(readonly run: (resolve: (value: V) => void, reject: (error: unknown) => void) => void) {}

  then(resolve: (value: V) => void, reject: (error: unknown) => void): void {
    this.run(resolve, reject);
  }
}
