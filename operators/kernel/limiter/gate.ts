import type { Charge } from '../limits/limit.js';
import type { GrantQueue, GrantQueueRule, LaneRule, Waiter } from '../queues/queue.js';
import type { Bounds, Refusal } from '../waiting/bounds.js';
import { boundsOf, evictable, mayNotWait, mayRefuse, refusal } from '../waiting/bounds.js';
import { Deadlines, LongMark } from '../waiting/deadlines.js';
import type { Paid, Rates } from './rates.js';

/**
 * What is known of a permit. It is `new` until it waits or is granted, `left` when it left the queue, `abandoned` while its work was cancelled and still
 * runs, and `over` when it was released.
 */
export type PermitState = 'new' | 'waiting' | 'left' | 'granted' | 'abandoned' | 'over';

/** The right to what was charged for it. */
export interface GatePermit extends Paid {
  state: PermitState;
  /** Would not have been granted yet, if limits were enforced. */
  wouldWait?: true;
}

/** A request for a permit; once granted, the permit itself. */
export interface GateJob<J> extends GatePermit, Waiter<J> {
  charge: Charge;
  lane: number;
  index?: number;
  id?: string | number;
  /** Longest wait in ms; undefined without a deadline, or when it may not wait at all. */
  deadlineMs?: number;
  /** Bidders say what they want when their turn comes. They do not count towards the bounds. */
  readonly isBidder?: true;
}

/** What the options of a limiter say about its gate. */
export interface GateRules {
  readonly concurrency: number;
  readonly queue: GrantQueueRule<never>;
  readonly maxQueued: Bounds['maxQueued'];
  readonly overflow: Bounds['overflow'];
  readonly enforce: boolean;
  readonly abortGraceMs: number;
}

/** What holds a job back, and for how long. */
export interface Obstacle {
  readonly limitedBy: string;
  readonly waitMs: number;
}

/**
 * Decides for one limiter: which job may wait, whose turn it is, what may pass, what a grant takes and a release gives back, when a deadline, a pause or a
 * grace ends. It knows the time that it was told last. It makes no calls, and knows nothing of the limiters above and below.
 *
 * - A job that asks: `admits` (it may go at once), else `refusal` and `evictable`, then `enter`.
 * - A round: `first` has its turn, `candidate` goes in its place where lanes have reserves, `lets` says whether it may go; then `leave` and `take`.
 * - A permit: `take`, maybe `abandon`, `free`.
 * - The time: `late` and `lapsed` answer what is over, `endsAt` and `goesAt` when to look again.
 */
export class Gate<J extends GateJob<J>, P extends GatePermit = J> {
  readonly rules: GateRules;
  readonly queue: GrantQueue<J>;
  /** Its permits take capacity of this gate as well. */
  readonly above: Gate<J, P> | undefined;
  /** Waiting jobs that have one. Gates that share them have no two jobs with the same id. */
  byId = new Map<string | number, J>();
  /** Limits that depend on the time; made for the first of them. */
  rates: Rates | undefined = undefined;
  /** The time as it was told last. Before the first time it is never in the future, whatever a clock shows. */
  time = -Infinity;
  /** Slots in total, and slots in use. */
  slots: number;
  executing = 0;
  /** Permits granted and not released. */
  leases = 0;
  isPaused = false;
  /** Waiting jobs, in total and by lane. */
  waiting = 0;
  private readonly inLane: number[];
  /** Permits that would not be out yet if limits were enforced. */
  private excess = 0;
  private pausedUntil = -Infinity;
  /** Whether a bound may keep a job from waiting. */
  readonly isBounded: boolean;
  private readonly bounds: Bounds;
  private readonly long = new LongMark();
  private deadlines: Deadlines<J> | undefined = undefined;
  /** Permits of cancelled work that still runs, and when each loses its slot. All get the same grace, so the first is the first to lose it. */
  private readonly abandoned = new Map<P, number>();
  private arrivals = 0;

  constructor(rules: GateRules, above?: Gate<J, P>) {
    this.rules = rules;
    this.bounds = boundsOf({ ...rules, lanes: rules.queue.lanes });
    this.isBounded = mayRefuse(this.bounds);
    this.above = above;
    this.queue = rules.queue.create<J>(1);
    this.inLane = rules.queue.lanes.map(() => 0);
    this.slots = rules.concurrency;
  }

  // ---- waiting -------------------------------------------------------------------------------------------------------

  /** Whether nothing may wait in the lane: what cannot go at once is refused. */
  mayNotWait(lane: number): boolean {
    return mayNotWait(this.bounds, lane);
  }

  /** Why one more may not wait in the lane; undefined when it may. */
  refusal(lane: number): Refusal | undefined {
    return refusal(this.bounds, this.waiting, lane, this.inLane[lane]);
  }

  /** The jobs that go for a newcomer in the lane; the newcomer goes when there are none. Some may have been let in above the bound, and go as well. */
  evictable(lane: number, refused: Refusal): readonly J[] {
    return evictable(this.queue, lane, this.bounds, refused, refused.excess, isJob);
  }

  /** The job waits now, for so long at most. Answers whether the queue has just become long. */
  enter(job: J, waitMs: number): boolean {
    job.state = 'waiting';
    if (this.rules.queue.keyOf) job.index = this.arrivals++;
    this.queue.push(job);
    if (job.isBidder) return false;
    if (job.id !== undefined) this.byId.set(job.id, job);
    this.waiting++;
    (this.inLane[job.lane] as number) += 1;
    if (waitMs < Infinity) {
      if (waitMs > 0) job.deadlineMs = waitMs;
      (this.deadlines ??= new Deadlines<J>(isGone)).add(this.time + waitMs, job);
    }
    return this.long.isReachedAt(this.waiting);
  }

  /** The job no longer waits: from the head of its lane when it had its turn, else from wherever it is. */
  leave(job: J, hadTurn = false): void {
    if (hadTurn) this.queue.takeHead(job.lane, 1, job);
    else this.queue.remove(job);
    job.state = 'left';
    if (job.isBidder) return;
    if (job.id !== undefined) this.byId.delete(job.id);
    this.waiting--;
    (this.inLane[job.lane] as number) -= 1;
  }

  /** Everything that waits, the most urgent lane first. */
  all(): J[] {
    const all: J[] = [];
    const add = (job: J): true => {
      all.push(job);
      return true;
    };
    for (const lane of this.inLane.keys()) this.queue.each(lane, add);
    return all;
  }

  nameOf(lane: number): string {
    return (this.rules.queue.lanes[lane] as LaneRule).name;
  }

  // ---- whose turn it is ----------------------------------------------------------------------------------------------

  /** The job whose turn it is. */
  get first(): J | undefined {
    const { queue } = this;
    return queue.size === 0 ? undefined : queue.head(queue.lead());
  }

  /** The job whose turn it is in a lane, first of those with this key. */
  firstIn(lane: number, key: unknown): J | undefined {
    const { queue, rules } = this;
    return (rules.queue.keyOf && queue.headOf?.(lane, key)) ?? queue.head(lane);
  }

  /** Whether a job that has not waited may go: there is capacity, and no waiting job goes first. */
  admits(charge: Charge, lane: number): boolean {
    const { first, queue, rules } = this;
    if (this.blockedBy(charge, lane) !== undefined) return false;
    if (!first || !rules.enforce || queue.goesFirst(lane)) return true;
    return this.passes(lane) && this.candidate(first).lane > lane && passableAt(this, charge, lane) <= this.time;
  }

  /** A job that has not waited goes: waiting lanes get their share of turns all the same. */
  overtake(permit: P, lane: number): void {
    const { queue } = this;
    if (queue.size === 0) return;
    if (!queue.goesFirst(lane)) permit.passes = true;
    queue.turn(lane);
  }

  /** The job to be granted in this turn: the one whose turn it is, or the first of the most urgent lane where reserves let that go before it. */
  candidate(leader: J): J {
    const { queue } = this;
    let lane = 0;
    while (lane < leader.lane && queue.count(lane) === 0) lane++;
    return lane < leader.lane && isPassable(this, leader) ? (queue.head(lane) as J) : leader;
  }

  /** Whether limits let the candidate go now. */
  lets(candidate: J, leader: J): boolean {
    const { charge, lane } = candidate;
    return this.blockedBy(charge, lane) === undefined && (candidate === leader || passableAt(this, charge, lane) <= this.time);
  }

  /** Whether a lane goes past the job whose turn it is. */
  passes(lane: number): boolean {
    const { first } = this;
    return first !== undefined && first.lane > lane && isPassable(this, first);
  }

  // ---- capacity ------------------------------------------------------------------------------------------------------

  hasSlots({ slots }: Charge, enforce = this.rules.enforce): boolean {
    return this.executing + slots <= this.slots || slots === 0 || this.executing === 0 || !enforce;
  }

  /** The limit that is in the way of a job. */
  blockedBy(charge: Charge, lane: number, enforce = this.rules.enforce): string | undefined {
    if (!this.hasSlots(charge, enforce)) return 'concurrency';
    if (this.isPaused || (enforce && this.time < this.pausedUntil)) return 'pause';
    return enforce ? this.rates?.blockedBy(charge, lane, this.time) : undefined;
  }

  /** When only a slot can be in the way any more. */
  payableAt(charge: Charge, lane: number, enforce = this.rules.enforce): number {
    const { rates, time } = this;
    if (this.isPaused) return Infinity;
    return enforce ? Math.max(this.pausedUntil, rates?.payableAt(charge, lane, time) ?? time) : time;
  }

  /** Takes slots and rates for a permit. Answers what would have held it back, where limits are not enforced. */
  take(permit: P, lane: number, key: unknown): (Obstacle & { readonly queued: number }) | undefined {
    const { charge } = permit;
    const held = this.rules.enforce ? undefined : wouldWait(this, charge, lane);
    if (held) {
      permit.wouldWait = true;
      this.excess++;
    }
    permit.state = 'granted';
    this.leases++;
    this.executing += charge.slots;
    this.rates?.take(permit, this.time);
    this.queue.granted?.(permit, lane, key);
    return held && { ...held, queued: this.excess };
  }

  /** The work under a permit was cancelled and still runs: the permit keeps its slots for the grace. Answers whether that is news. */
  abandon(permit: P): boolean {
    if (permit.state === 'abandoned') return false;
    permit.state = 'abandoned';
    this.abandoned.set(permit, this.time + this.rules.abortGraceMs);
    return true;
  }

  /** The permit gives its slots back. Answers whether it was abandoned. */
  free(permit: P): boolean {
    const wasAbandoned = this.abandoned.size > 0 && this.abandoned.delete(permit);
    permit.state = 'over';
    this.leases--;
    if (permit.wouldWait) this.excess--;
    this.executing -= permit.charge.slots;
    this.rates?.credit?.freed(permit);
    return wasAbandoned;
  }

  // ---- time ----------------------------------------------------------------------------------------------------------

  /** Whether a grant depends on the time; if not, the loop need not read the clock. */
  get isTimed(): boolean {
    return this.rates?.isTimed === true || this.pausedUntil !== -Infinity || this.isPaused;
  }

  /** Whether a deadline or a grace is running. */
  get hasEnds(): boolean {
    return (this.deadlines?.size ?? 0) + this.abandoned.size > 0;
  }

  /** When the next deadline or grace is over; Infinity when none is running. */
  get endsAt(): number {
    const [graceEndsAt = Infinity] = this.abandoned.values();
    return Math.min(this.deadlines?.nextAt ?? Infinity, graceEndsAt);
  }

  /** A waiting job whose deadline is over, and since when; asked again until there is none. The job is to leave. */
  late(): { readonly job: J; readonly sinceMs: number } | undefined {
    const { deadlines, time } = this;
    const deadlineAt = deadlines?.nextAt ?? Infinity;
    const job = deadlines?.takeLate(time);
    return job && { job, sinceMs: time - deadlineAt };
  }

  /** Abandoned permits whose grace is over by then. They are to be freed. */
  lapsed(by = this.time): readonly P[] {
    const lapsed: P[] = [];
    for (const [permit, until] of this.abandoned) {
      if (until > by) break;
      lapsed.push(permit);
    }
    return lapsed;
  }

  /**
   * When the job whose turn it is can go, or one that passes it, as far as rates and pauses say. A job that can be paid here and has a place in the queue
   * above goes when the limiter above says so.
   */
  goesAt(next: J, places?: { has(lane: number): boolean }): number {
    const at = ({ charge, lane }: J): number => {
      const payableAt = this.payableAt(charge, lane);
      return payableAt <= this.time && places?.has(lane) ? Infinity : payableAt;
    };
    const candidate = this.candidate(next);
    const { charge, lane } = candidate;
    // One that needs more slots than are free goes when a permit is released.
    return Math.min(at(next), this.hasSlots(charge) ? Math.max(at(candidate), passableAt(this, charge, lane)) : Infinity);
  }

  /** How much longer nothing is granted, in ms. */
  get pausedForMs(): number {
    return this.isPaused ? Infinity : this.penaltyMs;
  }

  /** How much longer the pause of `penalize` lasts, in ms. */
  get penaltyMs(): number {
    return this.pausedUntil === -Infinity ? 0 : Math.max(0, this.pausedUntil - this.time);
  }

  /** Grants nothing for so long. A shorter pause never ends a longer one; one of 0 does. Answers whether anything changed. */
  penalize(pauseMs: number): boolean {
    const { time } = this;
    if (pauseMs > 0 ? time + pauseMs <= this.pausedUntil : time >= this.pausedUntil) return false;
    this.pausedUntil = pauseMs > 0 ? time + pauseMs : -Infinity;
    if (pauseMs === 0) this.rates?.learner?.resumed(time);
    return true;
  }

  // ---- what is told of it --------------------------------------------------------------------------------------------

  /** The part of the capacity that is in use, 0 to 1; 1 in a pause. */
  get load(): number {
    const slots = Math.min(1, this.executing / this.slots);
    return Math.max(this.pausedForMs > 0 ? 1 : slots, this.rates?.load(this.time) ?? 0);
  }

  /** In how many ms there is nothing left to remember: everything spent has come back, and no pause of `penalize` is left. */
  get forgetsInMs(): number {
    const { rates, time } = this;
    return Math.max(this.penaltyMs, rates?.isTimed ? rates.fullAt(time) - time : 0);
  }
}

type AnyGate = Pick<Gate<never, never>, 'blockedBy' | 'payableAt' | 'rates' | 'rules' | 'time'>;

/** What would hold a job back if limits were enforced; undefined when nothing would. */
function wouldWait(gate: AnyGate, charge: Charge, lane: number): Obstacle | undefined {
  const { rates, time } = gate;
  const tooHeavyFor = rates?.tooHeavyFor(charge, lane);
  if (tooHeavyFor) return { limitedBy: tooHeavyFor.name, waitMs: Infinity };
  const limitedBy = gate.blockedBy(charge, lane, true);
  return limitedBy === undefined ? undefined : { limitedBy, waitMs: gate.payableAt(charge, lane, true) - time };
}

/** Whether a job, whose turn it is, waits for a rate, and for nothing else, so that more urgent lanes may use their reserves. */
function isPassable(gate: AnyGate, { charge, lane }: { readonly charge: Charge; readonly lane: number }): boolean {
  if (lane === 0 || gate.rules.queue.reserve === undefined) return false;
  const limit = gate.blockedBy(charge, lane);
  return limit !== undefined && limit !== 'concurrency' && limit !== 'pause';
}

/** When the reserve of a lane can pay for a job that goes before the one whose turn it is. */
function passableAt({ rates, time }: AnyGate, charge: Charge, lane: number): number {
  return rates?.passableAt(charge, lane, time) ?? time;
}

function isGone({ state }: { readonly state: PermitState }): boolean {
  return state !== 'waiting';
}

function isJob({ isBidder }: { readonly isBidder?: true }): boolean {
  return !isBidder;
}
