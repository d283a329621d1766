/** What a job takes from a limiter. Amounts are finite and >= 0. */
export interface Charge {
  /** Calls at a time that it counts for. */
  readonly slots: number;
  readonly requests: number;
  /** Input and output together. */
  readonly tokens: number;
  /** Of input and output tokens, where they are told apart, and of units of your own. */
  readonly others?: Readonly<Record<string, number>> | undefined;
}

/** Units of tokens. */
export type TokenUnit = 'tokens' | 'inputTokens' | 'outputTokens';
const TOKEN_UNITS: ReadonlySet<string> = /* @__PURE__ */ new Set<TokenUnit>(['tokens', 'inputTokens', 'outputTokens']);

export function isTokenUnit(unit: string): unit is TokenUnit {
  return TOKEN_UNITS.has(unit);
}

/** The unit of slots that several processes share: a job takes them until its end. */
export const SLOTS = 'slots';

/** What a charge takes of a unit. Of input and output, the one that is left out is the rest of the tokens; tokens that say neither are input. */
export function amountOf({ slots, requests, tokens, others }: Charge, unit: string): number {
  if (unit === 'requests') return requests;
  if (unit === 'tokens') return tokens;
  if (unit === SLOTS) return slots;
  // A unit may have the name of what every object has, which is no number.
  const given: unknown = others?.[unit];
  if (typeof given === 'number') return given;
  if (unit === 'inputTokens') return Math.max(0, tokens - (others?.['outputTokens'] ?? 0));
  if (unit === 'outputTokens') return Math.max(0, tokens - (others?.['inputTokens'] ?? tokens));
  return 0;
}

/** What most jobs take. */
export const ONE_REQUEST: Charge = { slots: 1, requests: 1, tokens: 0 };

/**
 * How a rate is counted: what may still be spent, and when more will be there. Where lanes have a reserve, that depends on the lane of the job: `lane` is
 * its position, 0 for the most urgent and Infinity for one below all reserves; without it the most urgent lane is meant.
 */
export interface Meter {
  /** Set where what was paid is known elsewhere: several processes share the rate. */
  readonly isShared?: true;
  /** Most that can be saved up. */
  readonly capacity: number;
  /** What may be spent now; negative in debt. Without a lane: all that is left, reserves less debt. */
  level(now: number, lane?: number): number;
  /** When the cost can be paid if nothing else is paid before; `now` when it can be already. */
  payableAt(cost: number, now: number, lane?: number): number;
  /** When all of it can be spent again if nothing is paid before; `now` when it can be already. */
  fullAt(now: number): number;
  /** Pays without asking. A negative cost is a refund. */
  pay(cost: number, now: number, lane?: number): void;
  /** Changes what was paid then. */
  correct(delta: number, paidAt: number, now: number, lane?: number): void;
  /** @param isLearned - it was learned from responses, and not configured */
  resize(perMinute: number, capacity: number, now: number, isLearned?: boolean): void;
  /** What {@link load} needs to continue from here later. */
  save(now: number): readonly number[];
  load(saved: readonly number[], elapsedMs: number, now: number): void;

  // Of meters that keep reserves.
  /** Most that this lane can save up. */
  capacityOf?(lane: number): number;
  /** The part that is spent of what lanes without a reserve can save up. */
  loadOf?(now: number): number;
  /** Takes away what is left beyond so much, from the lowest lanes first. */
  lower?(most: number, now: number): void;
}

/** Reserves of lanes: how the rates of a limiter keep them. */
export interface ReserveRule {
  /** Share of each rate that lanes below this one may not take, by lane; they add up to less than 1. */
  readonly shares: readonly number[];
  /** Their sum. */
  readonly share: number;
}

/** What tells rates apart: two of one unit and window are the same, unless they are counted in different ways. */
export function isSameRate(one: RateKey, other: RateKey): boolean {
  return one.unit === other.unit && one.windowMs === other.windowMs && one.isStrict === other.isStrict;
}

/** What a rate is known by. */
export type RateKey = Pick<RateSpec, 'unit' | 'windowMs' | 'isStrict'>;

/** An amount of something per window, and how it is counted. */
export interface RateSpec {
  /** `'requests'`, `'tokens'`, `'inputTokens'`, `'outputTokens'`, or a unit of your own that jobs name in their `cost`. */
  readonly unit: string;
  /** Most in one window, >= 0; Infinity for no limit but a learned one. */
  readonly amount: number;
  readonly windowMs: number;
  /** Most that can be saved up and spent at once; undefined for what comes in within `burstMs`. Neither says anything of a strict rate. */
  readonly burst?: number | undefined;
  readonly burstMs: number;
  /** In place of `burstMs` where the limit was not declared but learned, from responses that also tell what is left of it. @defaultValue `burstMs` */
  readonly learnedBurstMs?: number | undefined;
  /** Whether the amount is never exceeded in any window, so that a whole window's worth may be spent at once. */
  readonly isStrict: boolean;
  /** Whether a job that costs more than can be saved up may go into debt. */
  readonly borrows: boolean;
  /** When a window ends that contains a time, where windows begin and end at fixed times. */
  readonly endOf?: ((at: number) => number) | undefined;
  meter(perMinute: number, capacity: number, now: number): Meter;
  /** The same where lanes keep shares of the rate. */
  reservedMeter(shares: readonly number[], perMinute: number, capacity: number, now: number): Meter;
}
