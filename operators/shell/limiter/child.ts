import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { ResponseLike } from '../../options/types.js';
import type { GrantLoop } from './grant-loop.js';
import { FlowLimiter } from './limiter.js';
import type { LimiterSettings } from './settings.js';
import type { Lease, ParentLimiter, ParentLink } from './ticket.js';
import { Ticket, WAIT } from './ticket.js';

/**
 * Most places that a child takes in one lane of its parent's queue. With fewer it would get fewer turns there. With more, taking them again after
 * its own rate has run out would cost more.
 */
const MAX_PLACES = 32;

/** A limiter with a parent. A lease is granted by both or by neither. */
export class ChildLimiter extends FlowLimiter {
  override readonly parent: Places;

  constructor(limiter: FlowLimiter, settings: LimiterSettings) {
    super(settings);
    this.parent = new Places(limiter, this);
  }

  override get load(): number {
    return Math.max(super.load, this.parent.limiter.load);
  }

  override minOf(of: (limiter: GrantLoop) => number): number {
    return Math.min(of(this), this.parent.limiter.minOf(of));
  }

  override canGrant(charge: Charge, lane: number): boolean {
    return super.canGrant(charge, lane) && this.parent.limiter.canGrant(this.clamp(charge), this.parent.parentLane(lane));
  }

  override refusal(charge: Charge): Error | undefined {
    return super.refusal(charge) ?? this.parent.limiter.refusal(charge);
  }

  override obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    const [here, above] = [super.obstacle(own), this.parent.limiter.obstacle(own)];
    return { limit: here.limit ?? above.limit, waitMs: Math.max(here.waitMs, above.waitMs) };
  }

  /** Also called when something comes free in the parent. */
  override watch(listener: () => void): () => void {
    const [stop, stopAbove] = [super.watch(listener), this.parent.limiter.watch(listener)];
    return () => {
      stop();
      stopAbove();
    };
  }

  /** Without a learner of its own the parent learns. */
  override learn(response: ResponseLike, lease?: Lease, sentAt?: number): boolean {
    return super.learn(response, lease, sentAt) || this.parent.limiter.learn(response, lease?.parent, sentAt);
  }

  /**
   * The ticket whose turn it would be in a lane of the parent, first of those with this key; undefined when there is none, or when a limit of the
   * child is in the way.
   */
  offer(lane: number | undefined, affordable: number, key: unknown): Ticket | undefined {
    if (this.isAborting) return undefined;
    if (this.isTimed) this.now();
    // The ticket whose turn it is here must not be overtaken.
    const first = this.next(undefined, affordable);
    const ticket = lane === undefined ? first : this.next(lane, affordable, key);
    const held = [first, ticket].find((each) => each && this.blockedBy(each.charge) !== undefined);
    if (held === undefined) return ticket;
    // The place is given up. A freed slot takes a new one; for a rate the timer has to.
    if (this.blockedBy(held.charge) !== 'concurrency') this.clock.setBy(this.payableAt(held.charge));
    return undefined;
  }

  /** The parent has granted what was offered just before. */
  accept(ticket: Ticket, parentLease: Lease): void {
    this.dequeue(ticket, true);
    if (!this.isGranting) this.loop(ticket, parentLease);
    else {
      this.grant(ticket, parentLease);
      // The loop that is running goes round again.
      this.loop();
    }
  }
}

/**
 * What a child gets from its parent: leases when they are free, else places in the parent's queue. A place takes no permit: which ticket is granted
 * is decided when its turn comes, and only if the child's own limits allow it then. So a lease is taken from both or from neither.
 */
class Places implements ParentLink {
  readonly limiter: FlowLimiter;
  readonly sharesLanes: boolean;
  /** Each key has places of its own. */
  private readonly isByKey: boolean;
  private readonly child: ChildLimiter;
  /** Places taken, by lane of the parent. */
  private readonly lanes: readonly Bag<PlaceTicket>[];
  /** Places taken since the start; numbers them. */
  private taken = 0;

  constructor(limiter: FlowLimiter, child: ChildLimiter) {
    this.limiter = limiter;
    this.child = child;
    const { queue } = child.settings;
    // If the parent has declared no lanes, all places are in its only one.
    this.sharesLanes = limiter.settings.queue.isDeclared;
    this.isByKey = this.sharesLanes && queue.keyOf !== undefined;
    this.lanes = Array.from({ length: this.sharesLanes ? queue.lanes.length : 1 }, () => new Bag());
  }

  get size(): number {
    return this.lanes.reduce((sum, { size }) => sum + size, 0);
  }

  get affordable(): number {
    return this.limiter.minOf(({ rates }) => rates?.left('tokens') ?? Infinity);
  }

  take(charge: Charge, lane: number): Lease | typeof WAIT {
    return this.limiter.tryGrant(this.child.clamp(charge), this.parentLane(lane)) ?? WAIT;
  }

  has(lane: number): boolean {
    return this.lanes[this.parentLane(lane)]?.size !== 0;
  }

  fill(most: number): void {
    const { queue } = this.child;
    const atMost = Math.min(most, MAX_PLACES);
    for (const [lane, places] of this.lanes.entries()) {
      if (this.isByKey) this.fillByKey(lane, places, atMost);
      else this.addPlaces(lane, places, Math.min(atMost, this.sharesLanes ? queue.count(lane) : queue.size) - places.size);
    }
  }

  /** Where keys share the parent's lane, each key gets places of its own there, in the order of the keys' turns. */
  private fillByKey(lane: number, places: Bag<PlaceTicket>, most: number): void {
    const turns = this.child.queue.turns?.(lane, most) ?? [];
    const each = Math.ceil(most / turns.length);
    const taken = new Map<unknown, number>();
    for (const { key } of places.items) taken.set(key, (taken.get(key) ?? 0) + 1);
    for (const { key, size } of turns) this.addPlaces(lane, places, Math.min(each, size) - (taken.get(key) ?? 0), key);
  }

  private addPlaces(lane: number, places: Bag<PlaceTicket>, missing: number, key?: unknown): void {
    for (let left = missing; left > 0; left--) {
      const ticket = new PlaceTicket(this.limiter, lane, this.child, places, this.taken++);
      if (key !== undefined) ticket.key = key;
      places.add(ticket);
      this.limiter.admitPlace(ticket);
    }
  }

  markBusy(): void {
    const { children, parent } = this.limiter;
    if (children.has(this.child)) return;
    children.add(this.child);
    parent?.markBusy();
  }

  /** The places of a lane stand for the first tickets in it, in their order. A ticket further back has none. */
  placeOf(ticket: Ticket): PlaceTicket | undefined {
    const { lane, key } = ticket;
    const { queue, settings } = this.child;
    const { items } = this.lanes[this.parentLane(lane)] as Bag<PlaceTicket>;
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
    const own = this.isByKey ? items.filter((place) => place.key === key) : [...items];
    return isFound ? own.sort((one, other) => one.order - other.order)[before] : undefined;
  }

  update(): void {
    const { limiter, child } = this;
    if (child.queue.size === 0) {
      for (const places of this.lanes) {
        for (const place of [...places.items]) place.withdraw();
      }
    }
    if (!child.isBusy && limiter.children.delete(child)) limiter.arm();
    for (let at: ParentLimiter | undefined = limiter; at; at = at.parent?.limiter) at.changes?.emit();
  }

  /** The parent has one lane, unless it shares its lanes. */
  parentLane(lane: number): number {
    return this.sharesLanes ? lane : 0;
  }
}

/** A place in the parent's queue. */
class PlaceTicket extends Ticket implements Slotted {
  override readonly isPlace = true;
  slot = -1;
  private readonly child: ChildLimiter;
  private readonly all: Bag<PlaceTicket>;
  /** The ticket of the child that was offered last. */
  private offered: Ticket | undefined = undefined;

  constructor(
    limiter: FlowLimiter,
    lane: number,
    child: ChildLimiter,
    all: Bag<PlaceTicket>,
    /** How many places were taken before it. */
    readonly order: number,
  ) {
    super(limiter, ONE_REQUEST);
    this.lane = lane;
    this.child = child;
    this.all = all;
  }

  override bid(affordable: number): Charge | undefined {
    this.offered = this.child.offer(this.child.parent.sharesLanes ? this.lane : undefined, affordable, this.key);
    if (this.offered === undefined) {
      this.all.delete(this);
      return undefined;
    }
    this.charge = this.child.clamp(this.offered.charge);
    return this.charge;
  }

  begin(): void {
    this.all.delete(this);
    this.child.accept(this.offered as Ticket, this);
  }

  refused(): void {
    this.all.delete(this);
  }

  /** Gives up the place: its job has left. */
  withdraw(): void {
    this.all.delete(this);
    this.limiter.leave(this);
  }
}
