import type { Charge } from '../limits/limit.js';
import type { Rates } from './rates.js';

/** A gate, as part of a tree: a permit takes capacity of its gate and of all gates above. */
export interface TreeGate {
  readonly above: TreeGate | undefined;
  readonly rules: { readonly enforce: boolean };
  readonly rates: Rates | undefined;
  readonly slots: number;
  readonly time: number;
}

/** The lowest value over a gate and those above it. */
export function leastOf<G extends { readonly above: G | undefined }>(gate: G, of: (each: G) => number): number {
  let least = Infinity;
  for (let at: G | undefined = gate; at; at = at.above) least = Math.min(least, of(at));
  return least;
}

/** What could be spent at once of a unit, by a lane or in all; for a bidder only as far as limits are enforced. */
export function leftOf(gate: TreeGate, unit: string, lane?: number, isBid = false): number {
  return leastOf(gate, ({ rates, rules, time }) => (rates && (!isBid || rules.enforce) ? rates.left(unit, time, lane) : Infinity));
}

/** A job that wants more slots than there are takes all of them. */
export function clamped(gate: TreeGate, charge: Charge): Charge {
  const most = charge.slots > 1 ? leastOf(gate, ({ slots }) => slots) : Infinity;
  return charge.slots > most ? { ...charge, slots: most } : charge;
}

/** The units of all rates. */
export function unitsOf(gate: TreeGate | undefined): readonly string[] {
  return gate ? [...(gate.rates?.all.map(({ rule }) => rule.unit) ?? []), ...unitsOf(gate.above)] : [];
}

/** How many of these waiting jobs only wait for a slot: those that rates could pay for one after the other. */
export function payable(gate: TreeGate, jobs: Parameters<Rates['payable']>[0]): number {
  let rates: Rates | undefined;
  for (let at: TreeGate | undefined = gate; at && !rates; at = at.above) rates = at.rates;
  return rates?.payable(jobs, unitsOf(gate), (unit, lane) => leftOf(gate, unit, lane)) ?? jobs.length;
}
