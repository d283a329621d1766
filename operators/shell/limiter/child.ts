import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { ResponseLike } from '../../options/types.js';
import { FlowLimiter } from './limiter.js';
import type { LimiterCapacity } from './limiter-capacity.js';
import type { LimiterSettings } from './settings.js';
import type { Lease } from './ticket.js';
import { Ticket, WAIT } from './ticket.js';

/**
 * Most places that a child takes in one lane of its parent's queue. With fewer it would get fewer turns there. With more, taking them again after
 * its own rate has run out would cost more.
 */
const MAX_PLACES = 32;

/**
 * A limiter with a parent. A lease is granted by both or by neither: while its own limits let a job go, it has a place in the parent's queue. A place
 * takes no permit. Which ticket is granted is decided when its turn comes, and only if the child's own limits allow it then.
 */
export class ChildLimiter extends FlowLimiter {
  override readonly parent: FlowLimiter;
  /** If the parent has declared no lanes, all places are in its only one. */
  private readonly sharesLanes: boolean;
  /** Where keys share the parent's lanes, each key has places of its own. */
  private readonly isByKey: boolean;
  /** Places taken, by lane of the parent. */
  private readonly places: readonly Bag<PlaceTicket>[];
  /** Places taken since the start; numbers them. */
  private taken = 0;

  constructor(limiter: FlowLimiter, settings: LimiterSettings) {
    super(settings);
    const { keyOf, lanes } = settings.queue;
    this.parent = limiter;
    this.sharesLanes = limiter.settings.queue.isDeclared;
    this.isByKey = this.sharesLanes && keyOf !== undefined;
    this.places = Array.from({ length: this.sharesLanes ? lanes.length : 1 }, () => new Bag());
  }

  override get load(): number {
    return Math.max(super.load, this.parent.load);
  }

  override get placesAbove(): number {
    return this.places.reduce((sum, { size }) => sum + size, 0);
  }

  override minOf(of: (limiter: LimiterCapacity) => number): number {
    return Math.min(of(this), this.parent.minOf(of));
  }

  override canGrant(charge: Charge, lane: number): boolean {
    return super.canGrant(charge, lane) && this.parent.canGrant(this.clamp(charge), this.parentLane(lane));
  }

  override refusal(charge: Charge, lane: number): Error | undefined {
    return super.refusal(charge, lane) ?? this.parent.refusal(charge, this.parentLane(lane));
  }

  override obstacle(own: Charge, lane: number): { readonly limit: string | undefined; readonly waitMs: number } {
    const [here, above] = [super.obstacle(own, lane), this.parent.obstacle(own, this.parentLane(lane))];
    return { limit: here.limit ?? above.limit, waitMs: Math.max(here.waitMs, above.waitMs) };
  }

  /** Also called when something comes free in the parent. */
  override watch(listener: () => void): () => void {
    const [stop, stopAbove] = [super.watch(listener), this.parent.watch(listener)];
    return () => {
      stop();
      stopAbove();
    };
  }

  /** Without a learner of its own the parent learns. */
  override learn(response: ResponseLike, lease?: Lease, sentAt?: number): boolean {
    return super.learn(response, lease, sentAt) || this.parent.learn(response, lease?.parent, sentAt);
  }

  // ---- what the parent is told ----------------------------------------------------------------------------------------

  /** Something waits or runs here: for all limiters above. */
  private markBusy(): void {
    if (this.parent.children.has(this)) return;
    this.parent.children.add(this);
    for (let at = this.parent; at.parent; at = at.parent) at.parent.children.add(at);
  }

  protected override enqueue(ticket: Ticket, waitMs: number): void {
    this.markBusy();
    super.enqueue(ticket, waitMs);
  }

  protected override book(lease: Lease, above: Lease | undefined): void {
    this.markBusy();
    super.book(lease, above);
  }

  protected override takeAbove(charge: Charge, lane: number, key: unknown): Lease | typeof WAIT {
    const above = this.parent.tryGrant(this.clamp(charge), this.parentLane(lane), this.isByKey ? key : undefined);
    if (above) return above;
    this.fill();
    this.parent.flush();
    return WAIT;
  }

  override admitPlace(ticket: Ticket): void {
    super.admitPlace(ticket);
    this.fill();
  }

  /** Also takes out the place of the ticket: another ticket would overtake others with it. */
  protected override withdraw(ticket: Ticket): void {
    const place = this.placeOf(ticket);
    super.withdraw(ticket);
    // Only now: the parent may ask which ticket is next here.
    place?.withdraw();
    this.fill();
  }

  // What a place here has bid may be out of date.
  override grantLater(): void {
    super.grantLater();
    this.parent.grantLater();
  }

  override grantNow(): void {
    super.grantNow();
    this.parent.grantNow();
  }

  /** If this limiter could pay now and the ticket has a place in the parent's queue, the parent decides when. */
  protected override grantsAt(ticket: Ticket): number {
    const at = super.grantsAt(ticket);
    return at > this.time || this.placesIn(ticket.lane).size === 0 ? at : Infinity;
  }

  protected override get isQuiet(): boolean {
    return false;
  }

  protected override changed(): void {
    const { parent } = this;
    if (this.queue.size === 0) {
      for (const { items } of this.places) for (const place of [...items]) place.withdraw();
    }
    if (!this.isBusy && parent.children.delete(this)) parent.arm();
    for (let at: FlowLimiter | undefined = parent; at; at = at.parent) at.tellChanged();
    super.changed();
  }

  // ---- places in the parent's queue -----------------------------------------------------------------------------------

  /** Takes places for the waiting tickets; none while a limit here is in the way. The caller makes the parent grant what it can. */
  private fill(): void {
    const { queue } = this;
    if (this.isTimed) this.now();
    const next = this.first;
    if (next === undefined) return;
    let lowest = Infinity;
    if (this.blockedBy(next.charge, next.lane) !== undefined) {
      const passing = this.passing(next);
      if (!passing || !this.canPass(passing)) return;
      lowest = passing.lane;
    }
    const most = Math.min(MAX_PLACES, Math.max(1, this.slots - this.executing));
    for (const [lane, places] of this.places.entries()) {
      if (lane > lowest) break;
      if (this.isByKey) this.fillByKey(lane, places, most);
      else this.addPlaces(lane, places, Math.min(most, this.sharesLanes ? queue.count(lane) : queue.size) - places.size);
    }
  }

  /** The keys get their places in the order of their turns. */
  private fillByKey(lane: number, places: Bag<PlaceTicket>, most: number): void {
    const turns = this.queue.turns?.(lane, most) ?? [];
    const each = Math.ceil(most / turns.length);
    const taken = new Map<unknown, number>();
    for (const { key } of places.items) taken.set(key, (taken.get(key) ?? 0) + 1);
    for (const { key, size } of turns) this.addPlaces(lane, places, Math.min(each, size) - (taken.get(key) ?? 0), key);
  }

  private addPlaces(lane: number, places: Bag<PlaceTicket>, missing: number, key?: unknown): void {
    for (let left = missing; left > 0; left--) {
      const ticket = new PlaceTicket(this.parent, lane, this, places, this.taken++);
      if (key !== undefined) ticket.key = key;
      places.add(ticket);
      this.parent.admitPlace(ticket);
    }
  }

  /** The places of a lane stand for the first tickets in it, in their order. A ticket further back has none. */
  private placeOf(ticket: Ticket): PlaceTicket | undefined {
    const { lane, key } = ticket;
    const { queue, settings } = this;
    const { items } = this.placesIn(lane);
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

  private placesIn(lane: number): Bag<PlaceTicket> {
    return this.places[this.parentLane(lane)] as Bag<PlaceTicket>;
  }

  private parentLane(lane: number): number {
    return this.sharesLanes ? lane : 0;
  }

  /**
   * The ticket whose turn it would be in a lane of the parent, first of those with this key; undefined when there is none, or when a limit of the
   * child is in the way.
   */
  offer(lane: number, key: unknown): Ticket | undefined {
    if (this.isAborting) return undefined;
    if (this.isTimed) this.now();
    // The ticket whose turn it is here must not be overtaken.
    const first = this.next();
    const ticket = this.sharesLanes ? this.next(lane, key) : first;
    const held = [first, ticket].find((each) => each && this.blockedBy(each.charge, each.lane) !== undefined);
    if (held === undefined) return ticket;
    const passing = first && this.offerPassing(first, this.sharesLanes ? ticket : undefined);
    if (passing) return passing;
    // The place is given up. A freed slot takes a new one; for a rate the timer has to.
    if (this.blockedBy(held.charge, held.lane) !== 'concurrency') this.clock.setBy(this.wakesFor(held));
    return undefined;
  }

  /** A job that may go from its reserve before the one whose turn it is: this one, if any is offered already. */
  private offerPassing(leader: Ticket, offered: Ticket | undefined): Ticket | undefined {
    let passing = this.passing(leader);
    // Where keys share the lane, the place says whose turn it is in the parent.
    if (offered) passing = passing?.lane === offered.lane ? offered : undefined;
    else while (passing && !this.askBid(passing)) passing = this.passing(leader);
    return passing && this.canPass(passing) ? passing : undefined;
  }

  /** When to look again: the job in the way can be paid, or a more urgent one from its reserve. */
  private wakesFor(held: Ticket): number {
    const at = this.payableAt(held.charge, held.lane);
    const passing = this.passing(held);
    if (!passing) return at;
    const { charge, lane } = passing;
    return Math.min(at, Math.max(this.payableAt(charge, lane), this.passableAt(charge, lane)));
  }

  /** The parent has granted what was offered just before. */
  accept(ticket: Ticket, parentLease: Lease): void {
    if (this.passes(ticket.lane)) ticket.passes = true;
    this.dequeue(ticket, true);
    this.loop(() => {
      this.grant(ticket, parentLease);
    });
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

  override bid(): Charge | undefined {
    this.offered = this.child.offer(this.lane, this.key);
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
