import type { Charge } from '../../kernel/limits/limit.js';
import type { Lease, Ticket } from './ticket.js';

/** What a limiter asks of its place under another one. Lanes are those of the limiter below. */
export interface Above<L> {
  readonly parent: L;
  /** Whether a pause of this limiter is one of the parent, because both stand for the same account. */
  readonly pausesParent: boolean;
  /** Places taken in the queue of the parent: each stands for a job that waits here. */
  readonly size: number;
  /** Whether a job of this lane has a place there. */
  has(lane: number): boolean;
  laneOf(lane: number): number;
  refusal(charge: Charge, lane: number): Error | undefined;
  canGrant(charge: Charge, lane: number): boolean;
  /** A lease of the parent, if there is one now. */
  tryGrant(charge: Charge, lane: number, key: unknown): Lease | undefined;
  /** Something waits or runs here: for all limiters above. */
  markBusy(): void;
  /** Takes places for the waiting tickets, as far as limits here allow. */
  fill(): void;
  /** Where the ticket has a place, answers what gives it up. */
  placeOf(ticket: Ticket): { withdraw(): void } | undefined;
  /** Something may have begun or ended to wait or run. */
  changed(): void;
}
