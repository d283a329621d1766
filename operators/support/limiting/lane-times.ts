/** The lane that stands for all of them. */
export const ALL = -1;

/** Until when something holds for lanes. Few have a time at all, of however many there are. */
export class LaneTimes {
  readonly #until = new Map<number, number>();

  get isEmpty(): boolean {
    return this.#until.size === 0;
  }

  /** Answers whether that is later than what holds for the lane already. */
  extend(lane: number, until: number): boolean {
    if (until <= this.until(lane)) return false;
    this.#until.set(lane, until);
    return true;
  }

  /** -Infinity when nothing holds for the lane. */
  until(lane: number): number {
    return this.#until.get(lane) ?? -Infinity;
  }

  /** Answers whether something held for the lane. */
  delete(lane: number): boolean {
    return this.#until.delete(lane);
  }

  /** The first time that comes; Infinity when there is none. */
  get next(): number {
    return Math.min(...this.#until.values());
  }

  /** Forgets what is over, and answers for which lanes that is. */
  takeOver(now: number): number[] {
    const lanes = [...this.#until].flatMap(([lane, until]) => (until <= now ? lane : []));
    for (const lane of lanes) this.#until.delete(lane);
    return lanes;
  }
}
