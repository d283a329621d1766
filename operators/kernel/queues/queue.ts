import type { ReserveRule } from '../limits/limit.js';

/**
 * What a bounded queue does with one item too many.
 * @stable
 */
export type Overflow = 'error' | 'dropOldest' | 'dropNewest' | 'dropLowest' | 'latest';

/** What waits in a queue: an item, a returned batch, or a job that wants a lease. It is in one queue at most, once. */
export interface Waiter<E> {
  /** Its neighbours in the queue; the queue's own. */
  previous: E | undefined;
  next: E | undefined;
  /** Position of its lane, 0 for the most urgent. Changed only while it is in no queue. */
  lane: number;
  readonly weight: number;
  /** Those of a lane with equal keys share one turn; read only by a queue whose rule has `keyOf`. */
  readonly key?: unknown;
  /** Order of arrival; read only where keys share a lane. */
  readonly index?: number;
  /** What a limiter charges for it. Without one, its cost is its weight; read only where keys share a lane by cost. */
  readonly charge?: object;
}

/** Whose turn it is among all that wait, where a turn is one grant. */
export interface GrantQueue<E extends Waiter<E>> {
  /** Entries in all lanes. */
  readonly size: number;
  /** Entries in one lane. */
  count(lane: number): number;

  /** Adds a fresh entry at the end of its lane. */
  push(entry: E): void;
  /** Takes an entry out from wherever it is; books no turn. */
  remove(entry: E): void;

  /** The lane whose turn it is; -1 when all are empty. The same until something happens. */
  lead(): number;
  /** Whether a newcomer in this lane may be served at once, before all waiting entries. */
  goesFirst(lane: number): boolean;
  /** The next entry of the lane. */
  head(lane: number): E | undefined;
  /** Takes the head out, or this entry, which is the head of its key, and books one whole turn, of which it had so many places. */
  takeHead(lane: number, taken?: number, entry?: E): E;
  /** Books a turn for one that never waited. */
  turn(lane: number, taken?: number): void;

  /** The fresh entry of the lane that came last. */
  newest(lane: number): E | undefined;
  /** Fresh entries of the lane, oldest first, until `visit` answers false. */
  each(lane: number, visit: (entry: E) => boolean): void;

  // Of one whose rule has `keyOf`.
  /** The next entry of the lane with this key. */
  headOf?(lane: number, key: unknown): E | undefined;
  /** Keys under which something waits in the lane, in the order of their turns, so many at most. */
  turns?(lane: number, most: number): readonly KeyTurn[];
  /** Where keys share a lane by cost: a lease was granted, after waiting or at once. Gives the lease its `share`. */
  readonly granted?: ((lease: object, lane: number, key: unknown) => void) | undefined;
}

/** The same where a turn is a batch, of which a part may come back. One is made for each machine, with as many places to a turn as a batch has items. */
export interface Queue<E extends Waiter<E>> extends GrantQueue<E> {
  /** Puts an entry that comes back ahead of everything fresh in its lane, behind what came back earlier. */
  pushReturned(entry: E): void;
  /** Whether the head of the lane came back: it travels alone. */
  isReturned(lane: number): boolean;

  /**
   * Chooses fresh entries for a batch led by this lane, and by turns those of others that may ride along: its head whatever it weighs, the others
   * while the sum is within the budget. One that does not fit ends its lane for this batch.
   */
  plan(lane: number, places: number, budget: number): E[];
  /** Takes what was planned, as one turn; nothing may have happened in between. */
  takeAll(entries: readonly E[]): void;

  /** The next lane with anything fresh in it, behind this one; begin with -1, which is also the answer at the end. */
  after(lane: number): number;
  /** The fresh entry of the lane that came first. */
  oldest(lane: number): E | undefined;
}

/** A key, and how many wait under it. */
export interface KeyTurn {
  readonly key: unknown;
  readonly size: number;
}

/** What is said of one lane. */
export interface LaneRule {
  readonly name: string;
  /** Longest the lane's oldest item is held for company while a permit is free, in ms; undefined is what the operator says. */
  readonly maxWaitMs?: number | undefined;
  /** Most that wait in it; undefined when only the operator has a bound. */
  readonly maxQueued?: number | undefined;
  /** What happens at a bound; undefined is what the operator says. */
  readonly overflow?: Overflow | undefined;
  /** Share of the turns kept for it; undefined is the default of the fairness. */
  readonly floor?: number | undefined;
}

/**
 * The value of a `queue` option: one line for all, or what `lanes()` makes. Shared by all subscriptions of an operator.
 * @stable
 */
export interface QueueRule<in T> {
  /** The lanes, most urgent first; one without a name of its own when none were declared. */
  readonly lanes: readonly LaneRule[];
  /** Whether they were declared: only then a limiter is asked for a place in the lane of the same name. */
  readonly isDeclared: boolean;
  /** Name of an item's lane; without it the last lane. */
  readonly laneOf?: ((item: T) => string) | undefined;
  /** Key of an item, which shares its lane fairly with the other keys. */
  readonly keyOf?: ((item: T) => unknown) | undefined;
  /** What lanes keep of a limiter's rates from the lanes below them; undefined where none does. */
  readonly reserve?: ReserveRule | undefined;
  /** Position of a lane; without a name that of the last, least urgent one. -1 when it is not declared; without declared lanes every name is the one lane. */
  at(name: string | undefined): number;
  /** The error for a lane name that is not declared; only where lanes are. */
  unknown?(operator: string, name: string): unknown;
  /** A new, empty queue. */
  create<E extends Waiter<E>>(places: number): Queue<E>;
}

/**
 * The same for turns of one grant.
 * @beta
 */
export interface GrantQueueRule<in T> extends Omit<QueueRule<T>, 'create'> {
  create<E extends Waiter<E>>(places: number): GrantQueue<E>;
}
