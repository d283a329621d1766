import { seededRandom } from '../../marbles/random.js';

/** What the account allows in a minute. */
export const LIMITS = { requestsPerMinute: 60, tokensPerMinute: 60_000 } as const;
const MINUTE_MS = 60_000;

/** A request that was let go. */
export interface Granted {
  readonly atMs: number;
  readonly tokens: number;
}

/** Token costs of 200 requests, 100 to 2,900 each. */
export function requestCosts(): readonly number[] {
  const random = seededRandom(1);
  return Array.from({ length: 200 }, () => 100 + Math.floor(random() * 2801));
}

/** When all but the first come in. */
export const FEEDS: Readonly<Record<string, number>> = { 'all at 0 s': 0, 'one at 0 s, the others at 55 s': 55_000 };

/** The fullest minute, as a share of what a minute allows. */
export function worstWindow(granted: readonly Granted[]): { readonly requests: number; readonly tokens: number } {
  const windows = granted.map(({ atMs: end }) => granted.filter(({ atMs }) => atMs <= end && atMs + MINUTE_MS > end));
  return {
    requests: Math.max(...windows.map((window) => window.length)) / LIMITS.requestsPerMinute,
    tokens: Math.max(...windows.map((window) => sum(window.map(({ tokens }) => tokens)))) / LIMITS.tokensPerMinute,
  };
}

/** When the last of them can go at the earliest, if no minute may have more than this share of what it allows. */
export function slidingBoundMs(costs: readonly number[], restAtMs: number, share: number): number {
  const rest = sum(costs) - (restAtMs > 0 ? costs[0]! : 0);
  return restAtMs + (Math.ceil(rest / (share * LIMITS.tokensPerMinute)) - 1) * MINUTE_MS;
}

/** The same at a steady rate that may be saved up for so long. */
export function bucketBoundMs(costs: readonly number[], restAtMs: number, share: number, burstSeconds: number): number {
  const rest = sum(costs) - (restAtMs > 0 ? costs[0]! : 0);
  const perMs = (share * LIMITS.tokensPerMinute) / MINUTE_MS;
  return restAtMs + rest / perMs - burstSeconds * 1000;
}

function sum(amounts: readonly number[]): number {
  return amounts.reduce((total, amount) => total + amount, 0);
}
