import type { LimiterSnapshot } from '../../options/limiter.js';
import type { Pump } from './pump.js';
import type { Ticket } from './ticket.js';

/** What is said of a limiter, here and above. */
export function snapshotOf(pump: Pump): LimiterSnapshot {
  const queued = pump.room.size;
  const left = (unit: string): number => pump.least(({ rates }) => rates?.left(unit) ?? Infinity);
  const inForce = (unit: string): number => pump.least(({ rates }) => rates?.perMinute(unit) ?? Infinity);
  const [requests, tokens] = [left('requests'), left('tokens')];
  const pausedForMs = -pump.least((each) => -each.pausedForMs);
  const isFull = pump.least(({ freeSlots }) => freeSlots) <= 0;
  // How many would go at once if there were slots, here and above. Nobody goes in a pause, whatever it costs.
  const heldBySlot = isFull && pausedForMs === 0 ? pump.room.payable(requests, tokens) : 0;
  return {
    concurrency: pump.least(({ concurrency }) => concurrency),
    executing: pump.executing,
    queued,
    heldByRate: queued - heldBySlot,
    heldBySlot,
    requests,
    tokens,
    pausedForMs: Math.max(0, pausedForMs),
    requestsPerMinute: inForce('requests'),
    tokensPerMinute: inForce('tokens'),
    rates: pump.rates?.snapshots() ?? [],
  };
}

/** Refuses whoever waits now, here and below; whoever is refused may ask again. */
export function clear(pump: Pump, error: unknown): void {
  for (const [own, ticket] of everybody(pump)) if (ticket.isWaiting) own.dismiss(ticket, error);
}

function everybody(pump: Pump): (readonly [Pump, Ticket])[] {
  const own = pump.room.all().map((ticket) => [pump, ticket] as const);
  return [...own, ...[...(pump.below ?? [])].flatMap(everybody)];
}
