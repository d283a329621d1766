/** What a lane may claim; the fairness decides whether share or floor counts. */
export interface LaneClaim {
  /** Its part in proportion to the other lanes'. */
  readonly share: number;
  /** The part of the places that is kept for it; undefined for the default of the fairness. */
  readonly floor: number | undefined;
  /** False when no other lane may fill up a batch that it leads. @defaultValue true */
  readonly piggyback?: boolean | undefined;
}

/**
 * How lanes share turns. Made by `strictWithFloor()`, `weighted()` and `roundRobin()`.
 * @stable
 */
export interface Fairness {
  create(...args: never[]): object;
}

/** Internal side of `Fairness`: creates the scheduling state of one queue. */
export interface FairnessRule extends Fairness {
  /**
   * Refuses lanes it cannot serve, when they are declared.
   *
   * @param fail - throws the error of the option it is given
   */
  check?(lanes: readonly LaneClaim[], fail: (option: string, expected: string, value: unknown) => never): void;
  /**
   * @param places - places in one turn: 1 when turns are single grants, the batch size when they are batches
   * @param counts - how many wait in each lane, always up to date
   */
  create(lanes: readonly LaneClaim[], places: number, counts: readonly number[]): Discipline;
}

/**
 * Chooses the lane that goes next; called only while something waits. It sees how many wait in each lane and is told of turns, but never sees the
 * entries. Lane 0 is the most urgent.
 */
export interface Discipline {
  /** The lane whose turn it is, which is not empty. The same until something happens. */
  lead(): number;
  /** Whether a newcomer in this lane may be served at once, before all waiting entries. */
  goesFirst(lane: number): boolean;
  /** Shares out the places of a batch, starting with the lane whose turn it is. */
  fill(places: number, batch: Filler): void;
  /** A turn has ended in which each lane was given so many places, `total` in all. What was given is not waiting any more. */
  ended(given: readonly number[], total: number): void;
  /** The lane was empty and is not any more. */
  filled(lane: number): void;
}

/** A batch that is being put together. */
export interface Filler {
  /** Takes up to so many of the lane's next entries; fewer when it runs out of them or one does not fit. */
  fill(lane: number, most: number): number;
  /** False when the lane has nothing more for this batch. */
  isOpen(lane: number): boolean;
  /** What the batch has of the lane so far. */
  given(lane: number): number;
}
