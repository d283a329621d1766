import type { ReserveSpec } from './limit.js';
import { ReservedBucket } from './reserved-bucket.js';
import { ReservedDay } from './reserved-day.js';
import { ReservedWindow } from './reserved-window.js';

/** How rates keep the reserves of lanes; undefined where no lane keeps anything from one below it. */
export function reserveOf(reserves: readonly number[]): ReserveSpec | undefined {
  // No lane is below the last.
  const shares = reserves.map((share, lane) => (lane === reserves.length - 1 ? 0 : share));
  const share = shares.reduce((sum, each) => sum + each, 0);
  if (share === 0) return undefined;
  return {
    shares,
    share,
    meterOf: (rule, perMinute, capacity, now) => {
      const { endOf, isStrict, windowMs } = rule;
      if (endOf) return new ReservedDay(shares, windowMs, rule.meter(perMinute, capacity, now), endOf, now);
      return isStrict
        ? new ReservedWindow(shares, perMinute, capacity, now)
        : new ReservedBucket(shares, windowMs, perMinute, capacity, now);
    },
    // Nothing but reserves, each of which comes in at its share of the rate.
    passesOf: ({ windowMs }, perMinute, now) =>
      new ReservedBucket(
        shares.map((each) => each / share),
        windowMs,
        perMinute * share,
        0,
        now,
      ),
  };
}
