import type { Linked } from '../kernel/queues/line.js';
import { Chain } from '../kernel/queues/line.js';

/** Somebody who asked for the next item. */
class Asked<T> implements Linked<Asked<T>> {
  previous: Asked<T> | undefined = undefined;
  next: Asked<T> | undefined = undefined;

  constructor(
    readonly by: unknown,
    readonly answer: (result: IteratorResult<T, undefined>) => void,
  ) {}
}

/** Those who have asked for an item there is none of yet, in the order they asked. */
export class Readers<T> {
  readonly #asked = new Chain<Asked<T>>();

  ask(by: unknown): Promise<IteratorResult<T, undefined>> {
    return new Promise((resolve) => {
      this.#asked.push(new Asked(by, resolve));
    });
  }

  /** False when nobody has asked. */
  give(value: T): boolean {
    const { first } = this.#asked;
    if (first === undefined) return false;
    this.#end(first, { done: false, value });
    return true;
  }

  /** There will be no items for this one, or for anybody. */
  end(by?: unknown): void {
    for (let asked = this.#asked.first; asked; ) {
      const { next } = asked;
      if (by === undefined || asked.by === by) this.#end(asked, { done: true, value: undefined });
      asked = next;
    }
  }

  #end(asked: Asked<T>, result: IteratorResult<T, undefined>): void {
    this.#asked.remove(asked);
    asked.answer(result);
  }
}
