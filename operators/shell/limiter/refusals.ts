import type { Gate } from '../../kernel/limiter/gate.js';
import type { Charge } from '../../kernel/limits/limit.js';
import type { Refusal } from '../../kernel/waiting/bounds.js';
import { RateLimitError } from '../../options/errors.js';
import { deadlinePassed, overflowed } from '../../options/waiting-errors.js';
import type { Above } from './above.js';
import { NAME } from './settings.js';
import type { Lease, Ticket } from './ticket.js';

/** A limiter whose jobs may be refused. */
interface RefusingLimiter {
  readonly gate: Gate<Ticket, Lease>;
  readonly above: Above<RefusingLimiter> | undefined;
  now(): number;
  /** The ticket whose turn it is; a bidder has been asked for its bid. */
  next(): Ticket | undefined;
  refuse(ticket: Ticket, error: unknown): void;
  enqueue(ticket: Ticket, waitMs: number): void;
  withdraw(ticket: Ticket): void;
  tellDropped(ticket: Ticket, policy: string): void;
  grantNow(): void;
}

/** A limit in the way of a job, and for how long. */
interface Obstacle {
  readonly limit: string | undefined;
  readonly waitMs: number;
}

/** The queue is full: drops others for this ticket, by the overflow policy of its lane, or refuses this one. */
export function makeRoom(limiter: RefusingLimiter, ticket: Ticket, waitMs: number, full: Refusal): void {
  const evicted = limiter.gate.evictable(ticket.lane, full);
  for (const victim of evicted) limiter.withdraw(victim);
  const hasRoom = evicted.length > 0;
  if (hasRoom) limiter.enqueue(ticket, waitMs);
  // Only now that the new ticket is in the queue: the callbacks may ask for another lease.
  for (const victim of hasRoom ? evicted : [ticket]) {
    limiter.tellDropped(victim, full.policy);
    victim.refused(overflowed(NAME, full));
  }
  if (hasRoom) limiter.grantNow();
}

/** Refuses the tickets whose deadline is over, and releases the leases whose grace is over. */
export function endLate(limiter: RefusingLimiter): void {
  const { gate } = limiter;
  for (let late = gate.late(); late; late = gate.late()) {
    const { job: ticket, sinceMs } = late;
    const { charge, deadlineMs, lane } = ticket;
    // The next one may cost less.
    const { limit = 'concurrency', waitMs } = obstacle(limiter, charge, lane);
    const reason = new RateLimitError(NAME, limit, waitMs);
    limiter.refuse(ticket, deadlineMs === undefined ? reason : deadlinePassed(NAME, deadlineMs, sinceMs + deadlineMs, reason));
  }
  for (const lease of gate.lapsed()) lease.release('cancelled');
}

/** What is in the way of a job, here and above: because of its own cost, or that of the ticket whose turn it is. */
function obstacle(limiter: RefusingLimiter, own: Charge, lane: number): Obstacle {
  limiter.now();
  const { above, gate } = limiter;
  const next = limiter.next();
  const first = next === undefined || gate.passes(lane) ? { charge: own, lane } : next;
  const at = Math.max(gate.payableAt(own, lane), gate.payableAt(first.charge, first.lane));
  const limit = gate.blockedBy(first.charge, first.lane);
  const waitMs = at - gate.time;
  const higher = above && obstacle(above.parent, own, above.laneOf(lane));
  return { limit: limit ?? higher?.limit, waitMs: Math.max(waitMs, higher?.waitMs ?? 0) };
}
