import type { Pipe } from './pipe.js';
import type { Item } from './work.js';

/** The input of a `batchMapFrom`: items that are put in are pulled out, as an async iterator does. */
export class Pull {
  readonly #waiting: Item[] = [];
  #wake: (() => void) | undefined;
  #isClosed = false;

  constructor(readonly pipe: Pipe) {
    pipe.put = (item) => {
      this.#waiting.push(item);
      this.#wake?.();
    };
    pipe.putEnd = () => this.#wake?.();
  }

  open(): AsyncIterable<Item> {
    return { [Symbol.asyncIterator]: () => this.#read() };
  }

  #read(): AsyncIterator<Item> {
    const { pipe } = this;
    return {
      next: async () => {
        if (pipe.life !== 'open') pipe.world.problem(`${pipe.name} pulls when it is ${pipe.life}`);
        pipe.world.at('pull', pipe.index);
        for (;;) {
          const item = this.#waiting.shift();
          if (item !== undefined) {
            if (pipe.life === 'open') pipe.accept(item);
            return { done: false, value: item };
          }
          if (this.#isClosed || pipe.source !== 'open') break;
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (pipe.sourceError !== undefined) throw pipe.sourceError;
        return { done: true, value: undefined };
      },
      return: () => {
        this.#isClosed = true;
        pipe.world.at('return', pipe.index);
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }
}
