import { Observable } from 'rxjs';
import { ItemTooHeavyError } from '../../../operators/errors.js';
import type { PermitSource } from '../../../operators/policy.js';
import type { Bidder, Cost, Lease, Limiter, LimiterJob, Place, ResponseLike, Usage } from '../../../operators/types.js';
import type { StagesConfig } from './stages-options.js';
import { NAME } from './stages-options.js';

/** Most places in the queue of the limiter: a pipeline takes its turns among everybody else's, so with few it would get few of them. */
const MOST_PLACES = 32;

/** Whose requests these are, as far as their order is concerned. */
export interface Claimant {
  /** Counts up, in the order in which documents were read. */
  readonly order: number;
  /** A higher one goes first, where that is asked for. */
  readonly priority: number;
  /** When it last had a permit, counted in permits; 0 before the first. */
  turn: number;
  /** Its own slots in a stage where each document has its own. */
  slotsOf(stage: GateLevel): Limiter | undefined;
}

/** A request of an item. */
export interface Claim {
  readonly claimant: Claimant;
  /** The item has had a permit, so that its next steps go before what has not been begun. */
  readonly hasBegun: boolean;
  /** It has one now. */
  begun(): void;
  /** The answer is there. Frees what it held once that has been told: what follows from it may go before others then. */
  answered(free: () => void): void;
}

/** A request that waits for its slot and its permit. */
class Waiting {
  readonly rank: Rank;

  constructor(
    readonly stage: GateLevel,
    readonly claim: Claim,
    readonly cost: Cost,
    readonly granted: (lease: Lease) => void,
    readonly refused: (error: unknown) => void,
  ) {
    this.rank = claim.hasBegun ? stage.begun : stage.fresh;
  }
}

/** Requests that are alike but for their document, each document's in the order they came. */
export type Rank = Map<Claimant, Set<Waiting>>;

/** What the gate knows and counts of a stage. */
export class GateLevel {
  /** Requests that wait: of items that have had a permit before, and of all others. */
  readonly begun: Rank = new Map();
  readonly fresh: Rank = new Map();
  waiting = 0;
  /** Requests under way. */
  executing = 0;

  /** @param slots - those that all documents share; undefined when there are none, or each document has its own */
  constructor(
    readonly isLocal: boolean,
    readonly slots: Limiter | undefined,
  ) {}
}

/**
 * Where requests of all stages wait, for a slot of their stage and a permit of the limiter together. Nothing is held while they wait: the limiter
 * is asked for places, and who goes is decided when the turn has come. The latest stage goes first, in it what has been begun, and then
 * the document that the scheduling says.
 */
export class Gate {
  readonly #limiter: Limiter;
  readonly #lane: string | undefined;
  readonly #scheduling: StagesConfig['scheduling'];
  /** The last one first. */
  readonly #stages: readonly GateLevel[];
  readonly #places = new Set<Bid>();
  #turns = 0;
  #isServing = false;
  #again = false;
  #isGivingUp = false;

  constructor(limiter: Limiter, { lane, scheduling }: Pick<StagesConfig, 'lane' | 'scheduling'>, stages: readonly GateLevel[]) {
    this.#limiter = limiter;
    this.#lane = lane;
    this.#scheduling = scheduling;
    this.#stages = stages.toReversed();
  }

  /** Where the attempts of a stage get their permits; the `key` of a job is its {@link Claim}. */
  permitsOf(stage: GateLevel): PermitSource {
    return {
      acquire: ({ key, cost = {} }: LimiterJob = {}) =>
        new Observable<Lease>((subscriber) => {
          const claim = key as Claim;
          const error = stage.isLocal ? undefined : this.#tooHeavy(cost);
          if (error) {
            subscriber.error(error);
            return;
          }
          const granted = (lease: Lease): void => {
            claim.begun();
            // Whoever was told may have made the consumer leave.
            if (subscriber.closed) lease.release('unused');
            subscriber.next(lease);
            subscriber.complete();
          };
          const waiting = new Waiting(stage, claim, cost, granted, (refusal) => {
            subscriber.error(refusal);
          });
          subscriber.add(() => {
            // Whoever leaves is often the first of many, who are not to begin meanwhile.
            if (this.#remove(waiting)) this.#giveUpPlaces();
          });
          this.#add(waiting);
          this.serve();
        }),
      penalize: (pauseMs) => {
        if (!stage.isLocal) this.#limiter.penalize(pauseMs);
      },
    };
  }

  /** How many requests of a stage could go, as far as its slots are concerned. */
  eligible(stage: GateLevel): number {
    let eligible = 0;
    for (const rank of [stage.begun, stage.fresh]) {
      for (const [claimant, waiting] of rank) eligible += Math.min(waiting.size, freeIn(claimant.slotsOf(stage)));
    }
    return Math.min(eligible, freeIn(stage.slots));
  }

  /** Lets go what needs no permit, and sees to it that there are as many places as requests that could go. */
  serve(): void {
    this.#again = true;
    if (this.#isServing || this.#isGivingUp) return;
    this.#isServing = true;
    try {
      while (this.#again) {
        this.#again = false;
        for (let local = this.#next(true); local; local = this.#next(true)) this.#grant(local, undefined);
        for (let missing = this.#wanted() - this.#places.size; missing > 0; missing--) this.#enlist();
      }
    } finally {
      this.#isServing = false;
    }
  }

  /** Gives up many requests at once: none of them goes where another was. */
  together(giveUp: () => void): void {
    const isInside = this.#isGivingUp;
    this.#isGivingUp = true;
    giveUp();
    this.#isGivingUp = isInside;
    this.serve();
  }

  // ---- what a place is asked --------------------------------------------------------------------------------------

  /** Whose turn it is; undefined when no slot is free for anybody, and then the place is gone. */
  offer(bid: Bid): Waiting | undefined {
    const next = this.#next(false);
    if (next === undefined) this.#places.delete(bid);
    return next;
  }

  accept(bid: Bid, waiting: Waiting, lease: Lease): void {
    this.#places.delete(bid);
    this.#grant(waiting, lease);
    this.serve();
  }

  refuse(bid: Bid, error: unknown): void {
    this.#places.delete(bid);
    const next = this.#next(false);
    if (next === undefined) return;
    this.#remove(next);
    next.refused(error);
    this.serve();
  }

  // ---- who waits --------------------------------------------------------------------------------------------------

  #wanted(): number {
    let wanted = 0;
    for (const stage of this.#stages) if (!stage.isLocal && stage.waiting > 0) wanted += this.eligible(stage);
    return Math.min(wanted, MOST_PLACES);
  }

  #enlist(): void {
    const bid = new Bid(this);
    this.#places.add(bid);
    const place = this.#limiter.enlist(bid, this.#lane);
    if (this.#places.has(bid)) bid.place = place;
    // Granted or refused at once.
    else this.#again = true;
  }

  #giveUpPlaces(): void {
    const surplus = this.#places.size - this.#wanted();
    if (surplus <= 0) return;
    for (const bid of [...this.#places].slice(-surplus)) {
      this.#places.delete(bid);
      bid.place?.withdraw();
    }
  }

  #next(isLocal: boolean): Waiting | undefined {
    if (this.#isGivingUp) return undefined;
    for (const stage of this.#stages) {
      if (stage.isLocal !== isLocal || stage.waiting === 0 || freeIn(stage.slots) <= 0) continue;
      const next = this.#first(stage.begun, stage) ?? this.#first(stage.fresh, stage);
      if (next) return next;
    }
    return undefined;
  }

  #first(rank: Rank, stage: GateLevel): Waiting | undefined {
    let first: Claimant | undefined;
    for (const claimant of rank.keys()) {
      const isBetter = first === undefined || this.#goesBefore(claimant, first);
      if (isBetter && freeIn(claimant.slotsOf(stage)) > 0) first = claimant;
    }
    return first && (rank.get(first) as Set<Waiting>).values().next().value;
  }

  #goesBefore(a: Claimant, b: Claimant): boolean {
    if (this.#scheduling === 'priority' && a.priority !== b.priority) return a.priority > b.priority;
    if (this.#scheduling === 'roundRobin' && a.turn !== b.turn) return a.turn < b.turn;
    return a.order < b.order;
  }

  #grant(waiting: Waiting, lease: Lease | undefined): void {
    const { stage, claim } = waiting;
    const { claimant } = claim;
    this.#remove(waiting);
    if (lease) claimant.turn = ++this.#turns;
    const slots = [stage.slots, claimant.slotsOf(stage)].flatMap((limiter) => limiter?.tryAcquire() ?? []);
    stage.executing++;
    waiting.granted(new StageLease(stage, claim, slots, lease));
  }

  #add(waiting: Waiting): void {
    const { rank, stage, claim } = waiting;
    const others = rank.get(claim.claimant);
    if (others) others.add(waiting);
    else rank.set(claim.claimant, new Set([waiting]));
    stage.waiting++;
  }

  /** False when it waits no more. */
  #remove(waiting: Waiting): boolean {
    const { rank, stage, claim } = waiting;
    const others = rank.get(claim.claimant);
    if (others?.delete(waiting) !== true) return false;
    if (others.size === 0) rank.delete(claim.claimant);
    stage.waiting--;
    return true;
  }

  /** A bid that nobody could ever pay would wait for ever. */
  #tooHeavy({ inputTokens = 0, outputTokens = 0, tokens = inputTokens + outputTokens, requests = 1 }: Cost): ItemTooHeavyError | undefined {
    const { tokenCapacity, requestCapacity, borrows } = this.#limiter;
    if (tokens > tokenCapacity && !borrows) return new ItemTooHeavyError(NAME, tokens, tokenCapacity);
    if (requests > requestCapacity && !borrows) return new ItemTooHeavyError(NAME, requests, requestCapacity);
    return undefined;
  }
}

/** A place in the queue of the limiter, which decides late for whom it is. */
class Bid implements Bidder {
  requests = 1;
  units: Record<string, number> | undefined = undefined;
  place: Place | undefined = undefined;
  readonly #gate: Gate;
  #offered: Waiting | undefined;

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  bid(): number | undefined {
    this.#offered = this.#gate.offer(this);
    if (this.#offered === undefined) return undefined;
    const { requests = 1, slots = 1, ...others } = this.#offered.cost;
    const { inputTokens = 0, outputTokens = 0, tokens = inputTokens + outputTokens, ...own } = others;
    this.requests = requests;
    const isPlain = slots === 1 && inputTokens + outputTokens === 0 && Object.keys(own).length === 0;
    this.units = isPlain ? undefined : { slots, ...others, tokens };
    return tokens;
  }

  granted(lease: Lease): void {
    this.#gate.accept(this, this.#offered as Waiting, lease);
  }

  refused(error: unknown): void {
    this.#gate.refuse(this, error);
  }
}

/** A slot of the stage and a permit of the limiter, which come and go together. */
class StageLease implements Lease {
  readonly #stage: GateLevel;
  readonly #claim: Claim;
  /** Those of the stage first: whoever gets the permit next needs one. */
  readonly #leases: readonly Lease[];
  #isOver = false;

  constructor(stage: GateLevel, claim: Claim, slots: readonly Lease[], lease: Lease | undefined) {
    this.#stage = stage;
    this.#claim = claim;
    this.#leases = lease ? [...slots, lease] : slots;
  }

  release(outcome: Parameters<Lease['release']>[0] = 'ok', error?: unknown): void {
    this.#end();
    const free = (): void => {
      for (const lease of this.#leases) lease.release(outcome, error);
    };
    if (outcome === 'ok') this.#claim.answered(free);
    else free();
  }

  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void {
    this.#end();
    for (const lease of this.#leases) lease.releaseAfter(work, error);
  }

  settle(usage: Usage): void {
    this.#leases.at(-1)?.settle(usage);
  }

  observe(response: ResponseLike): void {
    this.#leases.at(-1)?.observe(response);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stage.executing--;
  }
}

function freeIn(slots: Limiter | undefined): number {
  return slots ? slots.concurrency - slots.executing : Infinity;
}
