import { Backlog } from '../../kernel/queues/line.js';

/** A request for the next item. */
interface ReadRequest<T> {
  readonly by: unknown;
  readonly answer: (result: IteratorResult<T, undefined>) => void;
  readonly refuse: (error: unknown) => void;
}

/** Requests for items that have not come yet, in their order. */
export class Readers<T> {
  readonly #requests = new Backlog<ReadRequest<T>>();

  ask(by?: unknown): Promise<IteratorResult<T, undefined>> {
    return new Promise((answer, refuse) => {
      this.#requests.push({ by, answer, refuse });
    });
  }

  /** False when no reader waits. */
  give(value: T): boolean {
    const first = this.#requests.shift();
    first?.answer({ done: false, value });
    return first !== undefined;
  }

  /** The same with an error, which is for one of them only. */
  fail(error: unknown): boolean {
    const first = this.#requests.shift();
    first?.refuse(error);
    return first !== undefined;
  }

  /** Ends the requests of this reader, or without an argument of all readers. */
  end(by?: unknown): void {
    for (let left = this.#requests.length; left > 0; left--) {
      const asked = this.#requests.shift() as ReadRequest<T>;
      if (by === undefined || by === asked.by) asked.answer({ done: true, value: undefined });
      else this.#requests.push(asked);
    }
  }
}

/** The answer to a reader at the end. */
export function over(): Promise<IteratorReturnResult<undefined>> {
  return Promise.resolve({ done: true, value: undefined });
}
