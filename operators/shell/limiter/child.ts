import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { ResponseLike } from '../../options/types.js';
import { FlowLimiter } from './limiter.js';
import type { Pump } from './pump.js';
import type { LimiterSettings } from './settings.js';
import type { Above, Lease, Level } from './ticket.js';
import { Ticket, WAIT } from './ticket.js';

/**
 * Most places in one lane. A child takes its turns among everybody else's, so with few places it would get few of them; but
 * all are given up when its own rate runs out, and must be cheap to take again.
 */
const MOST = 32;

/** A limiter below another one, whose leases are of both or of none. */
export class ChildLimiter extends FlowLimiter {
  override readonly above: Places;

  constructor(pump: FlowLimiter, settings: LimiterSettings) {
    super(settings);
    this.above = new Places(pump, this);
  }

  override get load(): number {
    return Math.max(super.load, this.above.pump.load);
  }

  override least(of: (limiter: Pump) => number): number {
    return Math.min(of(this), this.above.pump.least(of));
  }

  override goesAtOnce(charge: Charge, lane: number): boolean {
    return super.goesAtOnce(charge, lane) && this.above.pump.goesAtOnce(this.within(charge), this.above.laneAbove(lane));
  }

  override refusal(charge: Charge): Error | undefined {
    return super.refusal(charge) ?? this.above.pump.refusal(charge);
  }

  override obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    const [here, above] = [super.obstacle(own), this.above.pump.obstacle(own)];
    return { limit: here.limit ?? above.limit, waitMs: Math.max(here.waitMs, above.waitMs) };
  }

  /** What comes free above is news here. */
  override watch(listener: () => void): () => void {
    const [stop, stopAbove] = [super.watch(listener), this.above.pump.watch(listener)];
    return () => {
      stop();
      stopAbove();
    };
  }

  /** Who learns nothing itself teaches the one above. */
  override learn(response: ResponseLike, lease?: Lease, sentAt?: number): boolean {
    return super.learn(response, lease, sentAt) || this.above.pump.learn(response, lease?.above, sentAt);
  }

  /**
   * Whose turn it would be in a lane of the limiter above, first of all under this key, with its charge; undefined when nobody's, or when a limit
   * here is in the way.
   */
  offer(lane: number | undefined, affordable: number, key: unknown): Ticket | undefined {
    if (this.isGivingUp) return undefined;
    if (this.isTimed) this.read();
    // Nobody goes past the one whose turn it is here.
    const first = this.next(undefined, affordable);
    const ticket = lane === undefined ? first : this.next(lane, affordable, key);
    const held = [first, ticket].find((each) => each && this.blockedBy(each.charge) !== undefined);
    if (held === undefined) return ticket;
    // The place is gone. A slot that comes free takes another; when the rate can pay, only the timer knows.
    if (this.blockedBy(held.charge) !== 'concurrency') this.clock.setBy(this.payableAt(held.charge));
    return undefined;
  }

  /** The limiter above grants what was offered just before. */
  accept(ticket: Ticket, above: Lease): void {
    this.takeOut(ticket, true);
    if (!this.isPumping) this.pump(ticket, above);
    else {
      this.grant(ticket, above);
      // Comes round again.
      this.pump();
    }
  }
}

/**
 * What a limiter has of the one above it: leases when they are free, or else places in its queue. A place holds nothing: what goes is decided
 * when the turn comes, and only if the limits of the one below let it go then. So a permit is taken of both or of none.
 */
class Places implements Above {
  readonly pump: FlowLimiter;
  readonly sharesLanes: boolean;
  private readonly child: ChildLimiter;
  /** By the lanes of the limiter above. */
  private readonly waiting: readonly Bag<PlaceTicket>[];
  /** Places taken so far. */
  private taken = 0;

  constructor(pump: FlowLimiter, child: ChildLimiter) {
    this.pump = pump;
    this.child = child;
    const { queue } = child.settings;
    // With lanes of its own, or none, all that waits below is in one lane above.
    this.sharesLanes = pump.settings.queue.isDeclared;
    this.waiting = Array.from({ length: this.sharesLanes ? queue.lanes.length : 1 }, () => new Bag());
  }

  get size(): number {
    return this.waiting.reduce((sum, { size }) => sum + size, 0);
  }

  get affordable(): number {
    return this.pump.least(({ rates }) => rates?.left('tokens') ?? Infinity);
  }

  take(charge: Charge, lane: number): Lease | typeof WAIT {
    return this.pump.tryGrant(this.child.within(charge), this.laneAbove(lane)) ?? WAIT;
  }

  has(lane: number): boolean {
    return this.waiting[this.laneAbove(lane)]?.size !== 0;
  }

  seek(most: number): void {
    const { queue, settings } = this.child;
    const atMost = Math.min(most, MOST);
    for (const [lane, places] of this.waiting.entries()) {
      if (this.sharesLanes && settings.queue.keyOf) this.seekByKey(lane, places, atMost);
      else this.admit(lane, places, Math.min(atMost, this.sharesLanes ? queue.count(lane) : queue.size) - places.size);
    }
  }

  /** Where keys share the lane above, each of them that would have a turn has a place of its own there. */
  private seekByKey(lane: number, places: Bag<PlaceTicket>, most: number): void {
    const turns = this.child.queue.turns?.(lane, most) ?? [];
    const each = Math.ceil(most / turns.length);
    const taken = new Map<unknown, number>();
    for (const { key } of places.items) taken.set(key, (taken.get(key) ?? 0) + 1);
    for (const { key, size } of turns) this.admit(lane, places, Math.min(each, size) - (taken.get(key) ?? 0), key);
  }

  private admit(lane: number, places: Bag<PlaceTicket>, missing: number, key?: unknown): void {
    for (let left = missing; left > 0; left--) {
      const ticket = new PlaceTicket(this.pump, lane, this.child, places, this.taken++);
      if (key !== undefined) ticket.key = key;
      places.add(ticket);
      this.pump.admitPlace(ticket);
    }
  }

  enter(): void {
    const { below, above } = this.pump;
    if (below.has(this.child)) return;
    below.add(this.child);
    above?.enter();
  }

  /** The places of a lane are those of the first who wait in it, in their order; further back, and behind others of a key, nobody looks. */
  placeOf(ticket: Ticket): PlaceTicket | undefined {
    const { lane, key } = ticket;
    const { queue, settings } = this.child;
    const { items } = this.waiting[this.laneAbove(lane)] as Bag<PlaceTicket>;
    let before = -1;
    let isFound = false;
    if (settings.queue.keyOf) {
      before = 0;
      isFound = queue.headOf?.(lane, key) === ticket;
    } else {
      queue.each(lane, (other) => {
        before++;
        isFound = other === ticket;
        return !isFound && before < items.length;
      });
    }
    const own = items.filter((place) => place.key === undefined || place.key === key);
    return isFound ? own.sort((one, other) => one.order - other.order)[before] : undefined;
  }

  rested(): void {
    const { pump, child } = this;
    if (child.queue.size === 0) {
      for (const places of this.waiting) {
        for (const place of [...places.items]) place.withdraw();
      }
    }
    if (!child.isBusy && pump.below.delete(child)) pump.rest();
    for (let at: Level | undefined = pump; at; at = at.above?.pump) at.changes?.tell();
  }

  /** Without lanes to share there is one above. */
  laneAbove(lane: number): number {
    return this.sharesLanes ? lane : 0;
  }
}

/** One of them. */
class PlaceTicket extends Ticket implements Slotted {
  override readonly isPlace = true;
  slot = -1;
  private readonly child: ChildLimiter;
  private readonly all: Bag<PlaceTicket>;
  /** Who was offered last. */
  private offered: Ticket | undefined = undefined;

  constructor(
    pump: FlowLimiter,
    lane: number,
    child: ChildLimiter,
    all: Bag<PlaceTicket>,
    /** How many were taken before it. */
    readonly order: number,
  ) {
    super(pump, ONE_REQUEST);
    this.lane = lane;
    this.child = child;
    this.all = all;
  }

  override bid(affordable: number): Charge | undefined {
    this.offered = this.child.offer(this.child.above.sharesLanes ? this.lane : undefined, affordable, this.key);
    if (this.offered === undefined) {
      this.all.delete(this);
      return undefined;
    }
    this.charge = this.child.within(this.offered.charge);
    return this.charge;
  }

  begin(): void {
    this.all.delete(this);
    this.child.accept(this.offered as Ticket, this);
  }

  refused(): void {
    this.all.delete(this);
  }

  /** Its job has left. */
  withdraw(): void {
    this.all.delete(this);
    this.pump.leave(this);
  }
}
