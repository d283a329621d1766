import { clamped } from '../../kernel/limiter/tree.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { ONE_REQUEST } from '../../kernel/limits/limit.js';
import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { Above } from './above.js';
import type { GrantLoop } from './grant-loop.js';
import type { Lease } from './ticket.js';
import { Ticket } from './ticket.js';

/**
 * Most places that a child takes in one lane of its parent's queue. With fewer it would get fewer turns there. With more, taking them again after
 * its own rate has run out would cost more.
 */
const MAX_PLACES = 32;

/**
 * The places of a limiter in the queue of its parent. A lease is granted by both or by neither: while its own limits let a job go, it has a place in the
 * parent's queue. A place takes no permit. Which ticket is granted is decided when its turn comes, and only if the child's own limits allow it then.
 */
export class Places implements Above<GrantLoop> {
  readonly parent: GrantLoop;
  readonly child: GrantLoop;
  readonly pausesParent: boolean;
  /** Whether each lane has its places in the lane of the same name above; else all are in one lane. */
  private readonly sharesLanes: boolean;
  /** That one. */
  private readonly laneAbove: number;
  /** Where keys share the parent's lanes, each key has places of its own. */
  private readonly isByKey: boolean;
  /** Places taken, by lane of the parent. */
  private readonly places: readonly Bag<PlaceTicket>[];
  /** Places taken since the start; numbers them. */
  private taken = 0;

  /** @param lane - where the child has a queue of its own: the lane of the parent that all its places are in */
  constructor(parent: GrantLoop, child: GrantLoop, lane?: string, pausesParent = false) {
    const { keyOf, lanes } = child.settings.queue;
    this.parent = parent;
    this.child = child;
    this.pausesParent = pausesParent;
    this.sharesLanes = parent.settings.queue.isDeclared && lane === undefined;
    this.laneAbove = lane === undefined ? 0 : parent.settings.queue.at(lane);
    this.isByKey = this.sharesLanes && keyOf !== undefined;
    this.places = Array.from({ length: this.sharesLanes ? lanes.length : 1 }, () => new Bag());
  }

  get size(): number {
    return this.places.reduce((sum, { size }) => sum + size, 0);
  }

  has(lane: number): boolean {
    return this.placesIn(lane).size > 0;
  }

  laneOf(lane: number): number {
    return this.sharesLanes ? lane : this.laneAbove;
  }

  refusal(charge: Charge, lane: number): Error | undefined {
    return this.parent.refusal(charge, this.laneOf(lane));
  }

  canGrant(charge: Charge, lane: number): boolean {
    return this.parent.canGrant(clamped(this.child.gate, charge), this.laneOf(lane));
  }

  markBusy(): void {
    const { child, parent } = this;
    if (parent.children.has(child)) return;
    parent.children.add(child);
    parent.above?.markBusy();
  }

  tryGrant(charge: Charge, lane: number, key: unknown): Lease | undefined {
    const { gate } = this.child;
    const lease = this.parent.tryGrant(clamped(gate, charge), this.laneOf(lane), this.isByKey ? key : undefined);
    // Credit that came at once may have let a job that waits here go first: it has taken what was free.
    if (lease === undefined || gate.blockedBy(charge, lane) === undefined) return lease;
    lease.release('unused');
    return undefined;
  }

  changed(): void {
    const { child, parent } = this;
    if (child.gate.queue.size === 0) {
      for (const { items } of this.places) for (const place of [...items]) place.withdraw();
    }
    if (!child.isBusy && parent.children.delete(child)) parent.arm();
    for (let at: GrantLoop | undefined = parent; at; at = at.above?.parent) at.tellChanged();
  }

  /** Takes places for the waiting tickets; none while a limit here is in the way. The caller makes the parent grant what it can. */
  fill(): void {
    const { current: gate } = this.child;
    const { first, queue } = gate;
    if (first === undefined) return;
    const next = gate.candidate(first);
    if (!gate.lets(next, first)) return;
    const lowest = next === first ? Infinity : next.lane;
    const most = Math.min(MAX_PLACES, Math.max(1, gate.slots - gate.executing));
    for (const [lane, places] of this.places.entries()) {
      if (lane > lowest) break;
      if (this.isByKey) this.fillByKey(lane, places, most);
      else this.addPlaces(lane, places, Math.min(most, this.sharesLanes ? queue.count(lane) : queue.size) - places.size);
    }
  }

  /** The keys get their places in the order of their turns. */
  private fillByKey(lane: number, places: Bag<PlaceTicket>, most: number): void {
    const turns = this.child.gate.queue.turns?.(lane, most) ?? [];
    const each = Math.ceil(most / turns.length);
    const taken = new Map<unknown, number>();
    for (const { key } of places.items) taken.set(key, (taken.get(key) ?? 0) + 1);
    for (const { key, size } of turns) this.addPlaces(lane, places, Math.min(each, size) - (taken.get(key) ?? 0), key);
  }

  private addPlaces(lane: number, places: Bag<PlaceTicket>, missing: number, key?: unknown): void {
    for (let left = missing; left > 0; left--) {
      const ticket = new PlaceTicket(this, this.laneOf(lane), places, this.taken++);
      if (key !== undefined) ticket.key = key;
      places.add(ticket);
      this.parent.enqueue(ticket, Infinity);
      this.parent.above?.fill();
    }
  }

  /** The places of a lane stand for the first tickets in it, in their order. A ticket further back has none. */
  placeOf(ticket: Ticket): PlaceTicket | undefined {
    const { lane, key } = ticket;
    const { queue, rules } = this.child.gate;
    const { items } = this.placesIn(lane);
    let before = -1;
    let isFound = false;
    if (rules.queue.keyOf) {
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
    return this.places[this.sharesLanes ? lane : 0] as Bag<PlaceTicket>;
  }

  /**
   * The ticket whose turn it would be in a lane of the parent, first of those with this key; undefined when there is none, or when a limit of the
   * child is in the way.
   */
  offer(lane: number, key: unknown): Ticket | undefined {
    const { child } = this;
    if (child.isAborting) return undefined;
    const { current: gate } = child;
    // The ticket whose turn it is here must not be overtaken.
    const first = child.next();
    const ticket = this.sharesLanes ? child.next(lane, key) : first;
    const held = [first, ticket].find((each) => each && !gate.lets(each, each));
    if (held === undefined) return ticket;
    const passing = first && this.offerPassing(first, this.sharesLanes ? ticket : undefined);
    if (passing) return passing;
    // The place is given up. A freed slot takes a new one; for a rate the timer has to.
    if (gate.hasSlots(held.charge)) child.clock.setBy(gate.goesAt(held));
    return undefined;
  }

  /** A job that may go from its reserve before the one whose turn it is: this one, if any is offered already. */
  private offerPassing(leader: Ticket, offered: Ticket | undefined): Ticket | undefined {
    const { child } = this;
    const { gate } = child;
    let passing = gate.candidate(leader);
    while (!offered && passing !== leader && !child.askBid(passing)) passing = gate.candidate(leader);
    if (passing === leader || (offered && passing.lane !== offered.lane)) return undefined;
    // Where keys share the lane, the place says whose turn it is in the parent.
    const ticket = offered ?? passing;
    return gate.lets(ticket, leader) ? ticket : undefined;
  }

  /** The parent has granted what was offered just before. */
  accept(ticket: Ticket, higher: Lease): void {
    const { child } = this;
    if (child.gate.passes(ticket.lane)) ticket.passes = true;
    child.gate.leave(ticket, true);
    child.loop(ticket, higher);
  }
}

/** A place in the parent's queue. */
class PlaceTicket extends Ticket implements Slotted {
  override readonly isBidder = true;
  override readonly isPlace = true;
  slot = -1;
  private readonly of: Places;
  private readonly all: Bag<PlaceTicket>;
  /** How many places were taken before it. */
  readonly order: number;
  /** The ticket of the child that was offered last. */
  private offered: Ticket | undefined = undefined;

  constructor(of: Places, lane: number, all: Bag<PlaceTicket>, order: number) {
    super(of.parent, ONE_REQUEST);
    this.lane = lane;
    this.of = of;
    this.all = all;
    this.order = order;
  }

  override bid(): Charge | undefined {
    this.offered = this.of.offer(this.lane, this.key);
    if (this.offered === undefined) {
      this.all.delete(this);
      return undefined;
    }
    this.charge = clamped(this.of.child.gate, this.offered.charge);
    return this.charge;
  }

  begin(): void {
    this.all.delete(this);
    this.of.accept(this.offered as Ticket, this);
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
