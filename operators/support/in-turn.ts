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
    if (!this.begin()) {
      this.later(command);
      return;
    }
    this.#try(command);
    this.end();
  }

  /** Takes the turn, for whoever would rather not make a function of what it does once an item; false while something else is done. */
  begin(): boolean {
    if (this.#busy) return false;
    this.#busy = true;
    return true;
  }

  later(command: () => void): void {
    this.#later.push(command);
  }

  /** Gives the turn back, after everything that was asked for meanwhile. */
  end(): void {
    while (this.#later.length > 0) {
      const commands = this.#later;
      this.#later = [];
      for (const command of commands) this.#try(command);
    }
    this.#busy = false;
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
