import type { LaneSet } from './lane-set.js';

/** How lanes share turns, with one number for each lane where the discipline needs one; lane 0 is the most urgent. */
export type LaneFairness =
  | { readonly kind: 'strict'; readonly floors: readonly number[] }
  | { readonly kind: 'wdrr'; readonly weights: readonly number[] }
  | { readonly kind: 'roundRobin' | 'fifo'; readonly lanes: number };

/** Lets a discipline fill a batch, lane by lane. */
export interface Filler {
  /** Takes up to so many of the lane's next entries; fewer when it runs out of them or one does not fit. */
  fill(lane: number, most: number): number;
  /** False when the lane has nothing more for this batch. */
  isOpen(lane: number): boolean;
  /** What this batch has of the lane so far. */
  taken(lane: number): number;
  /** When the lane's next candidate came; Infinity when there is none. */
  nextStamp(lane: number): number;
}

/** Who goes next. Told what happens to the lanes, and asked; the entries themselves are none of its business. */
export interface Discipline {
  /** The lane whose turn it is, or -1 when all are empty. The same until something happens. */
  lead(): number;
  /** Whether a newcomer in this lane may be served at once, past everybody who waits. */
  goesFirst(lane: number): boolean;
  /** Shares out the places of a batch, starting with the lane whose turn it is. */
  fill(places: number, filler: Filler): void;
  /** Books what a lane had of the turn that is ending; `total` is what all had. Called after it was taken. */
  debit(lane: number, taken: number, total: number): void;
  /** A turn has ended. */
  turn(): void;
  /** The lane was empty and is not any more. */
  filled(lane: number): void;
  /** The lane has become empty. */
  emptied(lane: number): void;
}

/** What disciplines may know about the lanes. */
export interface Waiting {
  readonly nonEmpty: LaneSet;
  /** Live entries of the lane. */
  count(lane: number): number;
}
