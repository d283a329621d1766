/**
 * What one operator knows of the refusals ("too many requests") of its backend: how many there were in a row, which makes its pauses grow, and until
 * when it sends nothing.
 *
 * All attempts that were under way when a pause began belong to one refusal: a burst of sixteen makes one step, not sixteen. A success takes a step
 * back.
 */
export class Refusals {
  #inARow = 0;
  #since = -Infinity;
  #until = -Infinity;

  /** When the pause of the operator is over, on its clock. */
  get until(): number {
    return this.#until;
  }

  /** An attempt was refused. Answers how many refusals in a row that makes. */
  refused(sentAt: number, now: number): number {
    if (this.#inARow === 0 || sentAt >= this.#since) {
      this.#inARow += 1;
      this.#since = now;
    }
    return this.#inARow;
  }

  /** An attempt has succeeded. */
  answered(sentAt: number): void {
    if (this.#inARow > 0 && sentAt >= this.#since) this.#inARow -= 1;
  }

  /** Nothing is sent until then; a shorter pause never ends a longer one. */
  pause(until: number): void {
    this.#until = Math.max(this.#until, until);
    this.#since = Math.max(this.#since, Math.min(until, this.#until));
  }
}
