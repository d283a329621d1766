/**
 * One limit that a store of credit keeps: most of a unit in any window. It travels with each question, so that a store needs no set-up.
 * @beta
 */
export interface CreditLimit {
  /** Tells it from the other limits of the scope: the unit, the window and the lane. */
  readonly key: string;
  /** Position, in the amounts of the question, of what it counts. */
  readonly column: number;
  /** Most in any window, > 0. */
  readonly amount: number;
  /** Length of the window in ms, > 0. */
  readonly windowMs: number;
  /** Most at once, of a limit that comes in evenly; undefined for one of which a whole window may be spent at once. */
  readonly burst?: number | undefined;
  /** In how many ms the window ends, of one that begins and ends at fixed times, such as a day of the calendar; `windowMs` is then its usual length. */
  readonly endsInMs?: number | undefined;
  /** The first lane that it holds for: what the lanes above take is not counted. */
  readonly fromLane: number;
}

/**
 * A question for credit. All amounts are lists with one number for each unit.
 * @beta
 */
export interface CreditQuestion {
  /** What the limits are of, an account or one of its models: credit of one scope has nothing to do with that of another. */
  readonly scope: string;
  /** The limiter or budget that asks; a random name, so that no two processes share it. */
  readonly owner: string;
  /** Grows with each question of the owner. The same number gets the same answer, so that a lost answer costs nothing. */
  readonly number: number;
  /** The limits, the same in each question of an owner but for what it has learned. */
  readonly limits: readonly CreditLimit[];
  /** How long credit is good for, in ms. */
  readonly guardMs: number;
  /** Position of the lane that leads, 0 for the most urgent. */
  readonly lane: number;
  /** By lane, the share of what is granted that it is owed while it waits. */
  readonly floors: readonly number[];
  /** Less is no use. */
  readonly least: readonly number[];
  /** What waits, as far as it could begin soon. */
  readonly most: readonly number[];
  /** How many lessons the owner has heard of; see `lessons`. */
  readonly epoch: number;
  /** By the key of a limit, what the owner has learned since: its amount. Ignored when another has learned something meanwhile. */
  readonly lessons?: Readonly<Record<string, number>> | undefined;
}

/**
 * What a store says in any case.
 * @beta
 */
interface CreditNews {
  /** By unit, what the store has left for this lane. */
  readonly left: readonly number[];
  /** How much longer nothing is granted at all, in ms: a pause that any process has asked for. */
  readonly holdMs: number;
  /** How many lessons the store has heard. */
  readonly epoch: number;
  /** By the key of a limit, the amount that was learned last, by whatever owner. */
  readonly lessons: Readonly<Record<string, number>>;
}

/**
 * Credit: it may be spent by whatever job is first by then.
 * @beta
 */
export interface Credit extends CreditNews {
  /** Names it in corrections. */
  readonly credit: number;
  readonly amounts: readonly number[];
}

/**
 * No credit yet.
 * @beta
 */
export interface CreditWait extends CreditNews {
  /** When there may be some, in ms, if no other process is faster. */
  readonly waitMs: number;
}

/**
 * What a credit has cost more or, below 0, less.
 * @beta
 */
export interface CreditCorrection {
  /** The credit that it was paid with. */
  readonly credit: number;
  /** The lane that had asked for it. */
  readonly lane: number;
  readonly amounts: readonly number[];
}

/**
 * Corrections of one owner. The same number is booked once.
 * @beta
 */
export interface CreditCorrections {
  readonly scope: string;
  readonly owner: string;
  /** Grows with each of the owner's corrections. */
  readonly number: number;
  readonly limits: readonly CreditLimit[];
  readonly guardMs: number;
  readonly corrections: readonly CreditCorrection[];
}

export function isCredit(answer: Credit | CreditWait): answer is Credit {
  return 'credit' in answer;
}

/** Least length of a part of a window, in ms. */
const LEAST_PART_MS = 20;

/** Parts of a window: more are more exact, and cost more memory. */
const MOST_PARTS = 500;

/** Length of the parts by which a window is counted, in ms. */
export function partMs(windowMs: number): number {
  return Math.max(LEAST_PART_MS, Math.ceil(windowMs / MOST_PARTS));
}

/**
 * In how many parts, the present one included, the amount must not be exceeded: those of the window, and those between the grant of a credit and the
 * latest arrival of what was paid with it. So no window at the provider, wherever it begins, has more.
 */
export function partsOf({ windowMs }: { readonly windowMs: number }, guardMs: number): number {
  const part = partMs(windowMs);
  return Math.ceil(windowMs / part) + Math.ceil(guardMs / part) + 1;
}
