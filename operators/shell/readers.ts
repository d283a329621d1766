import { Backlog } from '../kernel/queues/line.js';

/** A request for the next item. */
interface ReadRequest<T> {
  readonly by: unknown;
  readonly answer: (result: IteratorResult<T, undefined>) => void;
}

/** Requests for items that have not come yet, in their order. */
export class Readers<T> {
  readonly #requests = new Backlog<ReadRequest<T>>();

  ask(by: unknown): Promise<IteratorResult<T, undefined>> {
    return new Promise((answer) => {
      this.#requests.push({ by, answer });
    });
  }

  /** False when nobody has asked. */
  give(value: T): boolean {
    const first = this.#requests.shift();
    first?.answer({ done: false, value });
    return first !== undefined;
  }

  /** There will be no items for this one, or for anybody. */
  end(by?: unknown): void {
    for (let left = this.#requests.length; left > 0; left--) {
      const asked = this.#requests.shift() as ReadRequest<T>;
      if (by !== undefined && asked.by !== by) this.#requests.push(asked);
      else asked.answer({ done: true, value: undefined });
    }
  }
}
