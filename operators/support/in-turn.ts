import type { Subscriber } from 'rxjs';
import { Ring } from '../kernel/ring.js';

/**
 * Does one thing at a time, for one subscription: what is asked for meanwhile (by a consumer that feeds its own source) is done
 * afterwards, in a loop, so that it cannot overflow the stack. Nothing is done after the end; a throw is the subscription's error.
 */
export class InTurn {
  readonly #to: Subscriber<unknown>;
  readonly #later = new Ring<() => void>();
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
    try {
      for (let next: (() => void) | undefined = command; next !== undefined && !this.#to.closed; next = this.#later.shift()) next();
    } catch (error) {
      this.#to.error(error);
    }
    this.#busy = false;
  }
}
