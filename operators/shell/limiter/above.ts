import type { Charge } from '../../kernel/limits/limit.js';
import type { Lease } from './lease.js';
import type { WaitingRoom } from './waiting-room.js';

/** The limiter above has to be waited for. */
export const NONE = 'none';

/** What a limiter has of the one above it: leases when they are free, or else places in its queue. */
export interface Above<Pump> {
  readonly pump: Pump;
  /** Places taken. */
  readonly size: number;
  /** A lease at once, or none. */
  take(charge: Charge, lane: number): Lease | typeof NONE;
  /** Whether there would be one. */
  goesAtOnce(charge: Charge, lane: number): boolean;
  /** Whether the limiter above will ask when it has something for this lane. */
  has(lane: number): boolean;
  /** Sees to it that there are places for as many as wait and could go here. They may be granted before this returns. */
  seek(room: WaitingRoom, most: number): void;
  withdraw(): void;
  /** Something waits or runs below, which the limiters above must know. */
  enter(): void;
  /** Nothing waits or runs below any more. */
  leave(): void;
}
