import type { Subscriber } from 'rxjs';

/**
 * Does one thing at a time, for one subscription: what is asked for meanwhile (by a consumer that feeds its own source) is done
 * afterwards, in a loop, so that it cannot overflow the stack. Nothing is done after the end; a throw is the subscription's error.
 */
export class InTurn {
  readonly #to: Subscriber<unknown>;
  #later: (() => void)[] = [];
  #busy = false;

  constructor(to: Subscriber<unknown>) {
    this.#to = to;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  do(command: () => void): void {
    if (this.#busy) {
      this.#later.push(command);
      return;
    }
    this.#busy = true;
    this.#try(command);
    if (this.#later.length > 0) this.#catchUp();
    this.#busy = false;
  }

  /** The same for what is done with every item: a function is made of it only when it has to wait. `accept` must not throw. */
  take<T>(accept: (item: T, at: number) => void, item: T, at = 0): void {
    if (this.#busy) {
      this.#later.push(() => {
        accept(item, at);
      });
      return;
    }
    this.#busy = true;
    accept(item, at);
    if (this.#later.length > 0) this.#catchUp();
    this.#busy = false;
  }

  /** What was asked for meanwhile. */
  #catchUp(): void {
    while (this.#later.length > 0) {
      const commands = this.#later;
      this.#later = [];
      for (const command of commands) this.#try(command);
    }
  }

  #try(command: () => void): void {
    if (this.#to.closed) return;
    try {
      command();
    } catch (error) {
      this.#to.error(error);
    }
  }
}
