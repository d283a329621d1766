import type { Gate } from '../../kernel/limiter/gate.js';
import type { TreeGate } from '../../kernel/limiter/tree.js';
import { leastOf, leftOf, payable } from '../../kernel/limiter/tree.js';
import type { Rate } from '../../kernel/limits/rate.js';
import type { LimiterSnapshot, SavedLimits } from '../../options/limiter.js';
import type { Lease, Ticket } from './ticket.js';

/** What a gate shows, which knows the time here and above. */
export function snapshotOf(gate: Gate<Ticket, Lease>): LimiterSnapshot {
  const { executing, first, rates, time } = gate;
  const queued = gate.queue.size;
  const pausedForMs = -leastOf(gate, (each) => -each.pausedForMs);
  // How many would be granted if there were slots, here and above. In a pause none is.
  const isFull = first && pausedForMs === 0 && leastOf(gate, (each) => Number(each.hasSlots(first.charge))) === 0;
  const heldBySlot = isFull ? payable(gate, gate.all()) : 0;
  return {
    concurrency: leastOf(gate, ({ slots }) => slots),
    executing,
    queued,
    heldByRate: queued - heldBySlot,
    heldBySlot,
    requests: leftOf(gate, 'requests'),
    tokens: leftOf(gate, 'tokens'),
    pausedForMs,
    requestsPerMinute: leastRate(gate, 'requests', perMinute),
    tokensPerMinute: leastRate(gate, 'tokens', perMinute),
    rates: rates?.levels(time) ?? [],
  };
}

/** Most that can be granted at once of a unit without going into debt. */
export function capacityOf(gate: TreeGate, unit: string): number {
  return leastRate(gate, unit, ({ capacity }) => capacity);
}

function leastRate(gate: TreeGate, unit: string, of: (rate: Rate) => number): number {
  return leastOf(gate, ({ rates }) => rates?.least(unit, of) ?? Infinity);
}

function perMinute(rate: Rate): number {
  return rate.perMinute;
}

/** What a gate that knows the time needs to continue, maybe in another process. */
export function savedFrom({ penaltyMs, rates, time }: Gate<Ticket, Lease>, at: number): SavedLimits {
  // JSON has no Infinity.
  return { at, pausedForMs: penaltyMs === Infinity ? -1 : penaltyMs, rates: rates?.save(time) ?? [] };
}

export function restoreTo(gate: Gate<Ticket, Lease>, { at, pausedForMs, rates }: SavedLimits, now: number): void {
  const elapsedMs = Math.max(0, now - at);
  const pauseMs = pausedForMs < 0 ? Infinity : pausedForMs - elapsedMs;
  gate.rates?.restore(rates, elapsedMs, gate.time);
  if (pauseMs > 0) gate.penalize(pauseMs);
}
