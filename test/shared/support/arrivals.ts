import type { Arrival } from './plans.js';

/** Most of a unit in any window that ends at an arrival. */
export function fullest(arrivals: readonly Arrival[], unit: string, windowMs: number, time: 'at' | 'sentAt' = 'sentAt'): number {
  const sorted = arrivals.toSorted((one, other) => one[time] - other[time]);
  let first = 0;
  let sum = 0;
  let most = 0;
  for (const arrival of sorted) {
    sum += arrival.cost[unit] ?? 0;
    for (; (sorted[first] as Arrival)[time] <= arrival[time] - windowMs; first++) sum -= (sorted[first] as Arrival).cost[unit] ?? 0;
    most = Math.max(most, sum);
  }
  return most;
}

/** What arrived of a unit between two times, as a part of what may. */
export function use(
  arrivals: readonly Arrival[],
  { unit, amount, windowMs }: { readonly unit: string; readonly amount: number; readonly windowMs: number },
  from: number,
  to: number,
): number {
  const sum = arrivals.reduce((all, { at, cost }) => (at >= from && at < to ? all + (cost[unit] ?? 0) : all), 0);
  return sum / ((amount * (to - from)) / windowMs);
}

/** Longest time without an arrival between two times, in ms. */
export function longestGap(arrivals: readonly Arrival[], from: number, to: number): number {
  const times = [from, ...arrivals.map(({ at }) => at).filter((at) => at > from && at < to), to].toSorted((one, other) => one - other);
  return times.slice(1).reduce((gap, at, i) => Math.max(gap, at - (times[i] as number)), 0);
}

/** The value that this part of all is not above. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}
