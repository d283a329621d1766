import { Ring } from '../kernel/queues/ring.js';

/** Somebody who asked for the next item. */
interface Asked<T> {
  readonly by: unknown;
  readonly answer: (result: IteratorResult<T, undefined>) => void;
}

/** Those who have asked for an item there is none of yet, in the order they asked. */
export class Readers<T> {
  readonly #asked = new Ring<Asked<T>>();

  ask(by: unknown): Promise<IteratorResult<T, undefined>> {
    return new Promise((answer) => {
      this.#asked.push({ by, answer });
    });
  }

  /** False when nobody has asked. */
  give(value: T): boolean {
    const first = this.#asked.shift();
    first?.answer({ done: false, value });
    return first !== undefined;
  }

  /** There will be no items for this one, or for anybody. */
  end(by?: unknown): void {
    this.#asked.keep((asked) => {
      const stays = by !== undefined && asked.by !== by;
      if (!stays) asked.answer({ done: true, value: undefined });
      return stays;
    });
  }
}
