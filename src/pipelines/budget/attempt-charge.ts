import type { Usage } from '../../../operators/index.js';
import type { Reservation } from './budget-types.js';
import { wasFree } from './was-free.js';

/** What one attempt is charged with: its usage where that is reported, also late; else an amount that follows from its end. */
export class AttemptCharge {
  readonly #reservation: Reservation;
  #usage: Usage | undefined;
  #isOver = false;

  constructor(reservation: Reservation) {
    this.#reservation = reservation;
  }

  used(usage: Usage): void {
    this.#usage = { ...this.#usage, ...usage };
    if (this.#isOver) this.#reservation.settle(this.#usage);
  }

  /** Has ended, or was left. */
  readonly over = (): void => {
    this.#isOver = true;
    this.#reservation.settle(this.#usage);
  };

  readonly failed = (error: unknown): void => {
    if (this.#usage === undefined && wasFree(error)) this.#reservation.release();
    else this.over();
  };
}
