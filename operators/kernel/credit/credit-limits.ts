import type { ReserveRule } from '../limits/limit.js';
import type { CreditLimit } from './credit.js';

/** Most of a rate that may be spent at once where the rate does not say: what two questions of a lane without urgency ask for. */
const BURST = 0.02;

/** What is said of a rate that is shared. */
export interface SharedRate {
  readonly unit: string;
  readonly windowMs: number;
  readonly isStrict: boolean;
  readonly burst?: number | undefined;
  /** When a window ends that contains a time, where windows begin and end at fixed times. */
  readonly endOf?: ((at: number) => number) | undefined;
}

/** How much of it there is now. */
interface Extent {
  /** Most in one window. */
  readonly amount: number;
  /** Most that the rate saves up. */
  readonly burst: number;
  readonly column: number;
  readonly reserve: ReserveRule | undefined;
  readonly now: number;
}

/** The limits of a rate at a store: one for all lanes, and one for the lanes below each reserve, which leaves that out. */
export function creditLimits(rate: SharedRate, { amount, burst, column, reserve, now }: Extent): CreditLimit[] {
  const { endOf, isStrict, unit, windowMs } = rate;
  const isPaced = !isStrict;
  const atOnce = rate.burst === undefined ? Math.min(burst, Math.max(1, amount * BURST)) : burst;
  const endsInMs = endOf && endOf(now) - now;
  const kind = endOf ? 'calendar' : isPaced ? 'bucket' : 'window';
  const name = `${unit}/${String(windowMs)}/${kind}`;
  const limit = (fromLane: number, part: number, kept: number): CreditLimit => ({
    ...{ key: `${name}/${String(fromLane)}`, column, amount: amount * part, windowMs, fromLane, endsInMs },
    burst: isPaced ? atOnce * part + kept * amount : undefined,
  });
  const { shares = [], share = 0 } = reserve ?? {};
  const limits = [limit(0, 1, share)];
  let above = 0;
  for (const [lane, each] of shares.entries()) {
    if (each === 0) continue;
    above += each;
    limits.push(limit(lane + 1, 1 - above, share - above));
  }
  return limits;
}
