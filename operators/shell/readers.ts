import { Backlog } from '../kernel/queues/backlog.js';

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
    this.#requests.keep((asked) => {
      const stays = by !== undefined && asked.by !== by;
      if (!stays) asked.answer({ done: true, value: undefined });
      return stays;
    });
  }
}
