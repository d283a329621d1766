import type { ReserveRule } from './limit.js';

/** What lanes keep of every rate; undefined where no lane keeps anything from one below it. How a rate keeps it, the rate knows. */
export function reserveOf(reserves: readonly number[]): ReserveRule | undefined {
  // No lane is below the last.
  const shares = reserves.map((share, lane) => (lane === reserves.length - 1 ? 0 : share));
  const share = shares.reduce((sum, each) => sum + each, 0);
  return share === 0 ? undefined : { shares, share };
}
