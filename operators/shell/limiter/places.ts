import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { Above } from './above.js';
import { NONE } from './above.js';
import type { Lease } from './lease.js';
import type { Pump } from './pump.js';
import { Ticket } from './ticket.js';
import type { WaitingRoom } from './waiting-room.js';

/**
 * Most places in one lane. A child takes its turns among everybody else's, so with few places it would get few of them; but
 * all are given up when its own rate runs out, and must be cheap to take again.
 */
const MOST = 32;

/**
 * What a limiter has of the one above it: leases when they are free, or else places in its queue. A place holds nothing: what goes is decided
 * when the turn comes, and only if the limits of the one below let it go then. So a permit is taken of both or of none.
 */
export class Places implements Above<Pump> {
  readonly pump: Pump;
  private readonly child: Pump;
  private readonly sharesLanes: boolean;
  /** By the lanes of the limiter above. */
  private readonly waiting: Bag<PlaceTicket>[];

  constructor(pump: Pump, child: Pump) {
    this.pump = pump;
    this.child = child;
    this.sharesLanes = child.settings.sharesLanes;
    this.waiting = Array.from({ length: this.sharesLanes ? child.settings.queue.lanes.length : 1 }, () => new Bag());
  }

  get size(): number {
    return this.waiting.reduce((sum, { size }) => sum + size, 0);
  }

  take(charge: Charge, lane: number): Lease | typeof NONE {
    return this.pump.tryGrant(charge, this.laneAbove(lane)) ?? NONE;
  }

  goesAtOnce(charge: Charge, lane: number): boolean {
    return this.pump.goesAtOnce(charge, this.laneAbove(lane));
  }

  has(lane: number): boolean {
    return this.waiting[this.laneAbove(lane)]?.size !== 0;
  }

  seek(room: WaitingRoom, most: number): void {
    for (const [lane, places] of this.waiting.entries()) {
      const wanted = Math.min(most, this.sharesLanes ? room.count(lane) : room.size, MOST);
      for (let missing = wanted - places.size; missing > 0; missing--) {
        const ticket = new PlaceTicket(lane, this.child, places);
        places.add(ticket);
        this.pump.admitPlace(ticket);
      }
    }
  }

  withdraw(): void {
    for (const places of this.waiting) {
      for (const ticket of [...places.items]) {
        places.delete(ticket);
        this.pump.leave(ticket);
      }
    }
  }

  enter(): void {
    const { below } = this.pump;
    if (below?.has(this.child)) return;
    if (below) below.add(this.child);
    else this.pump.below = new Set([this.child]);
    this.pump.above?.enter();
  }

  leave(): void {
    if (this.pump.below?.delete(this.child)) this.pump.rest();
  }

  /** Without lanes to share there is one above. */
  private laneAbove(lane: number): number {
    return this.sharesLanes ? lane : 0;
  }
}

/** One of them. */
class PlaceTicket extends Ticket implements Slotted {
  slot = -1;
  private readonly child: Pump;
  private readonly all: Bag<PlaceTicket>;
  /** Who was offered last. */
  private offered: Ticket | undefined = undefined;

  constructor(lane: number, child: Pump, all: Bag<PlaceTicket>) {
    super(lane, ONE_REQUEST);
    this.child = child;
    this.all = all;
  }

  override get isJob(): boolean {
    return false;
  }

  override get isPlace(): boolean {
    return true;
  }

  override bid(affordable: number): Charge | undefined {
    this.offered = this.child.offer(this.child.settings.sharesLanes ? this.lane : undefined, affordable);
    if (this.offered === undefined) {
      this.all.delete(this);
      return undefined;
    }
    this.charge = this.offered.charge;
    return this.charge;
  }

  granted(lease: Lease): void {
    this.all.delete(this);
    this.child.accept(this.offered as Ticket, lease);
  }

  refused(): void {
    this.all.delete(this);
  }
}
