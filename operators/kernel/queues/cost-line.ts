import { amountOf } from '../limits/limit.js';
import type { Amounts } from '../limits/usage.js';
import type { GrantedLease, KeyFairnessRule, KeyLine, LeaseShare } from './keyed-line.js';
import { KeyedLine } from './keyed-line.js';
import type { KeyTurn, Waiter } from './queue.js';
import type { HeapNode } from './turn-heap.js';
import { TurnHeap } from './turn-heap.js';

/** Idle keys that are ahead of the virtual time and are remembered however few keys are active. */
const MOST_IDLE = 100;

/** The keys of a lane share it by what their jobs cost: the amount of this unit, or 1 for a job that takes none of it. */
export const costLines = (unit: string): KeyFairnessRule => ({
  keyLines<E extends Waiter<E>>(lanes: number) {
    const lines = Array.from({ length: lanes }, () => new CostLine<E>());
    const granted = (lease: object, lane: number, key: unknown): void => {
      (lease as GrantedLease).share = (lines[lane] as CostLine<E>).charge(lease as GrantedLease, key, unit);
    };
    return { lines, granted };
  },
});

/** What one key has used, in virtual time. */
class KeyAccount<E extends Waiter<E>> implements HeapNode {
  slot = -1;
  order = 0;
  /** What waits under the key; undefined while nothing does. */
  line: KeyLine<E> | undefined = undefined;
  /** Leases granted and not released. */
  running = 0;
  /** Counts how often the key has become active after it was idle. */
  period = 0;
  /** Its finish time when it last became active. */
  before: number;
  /** What its jobs have cost since then. */
  used = 0;

  constructor(
    readonly key: unknown,
    /** The virtual time when it last became active. */
    public since: number,
  ) {
    this.before = since;
  }

  /** Its finish time: when all of its jobs so far have been served. The next job of the key starts then. */
  get tag(): number {
    return Math.max(this.since, this.before) + this.used;
  }

  get isIdle(): boolean {
    return this.line === undefined && this.running === 0;
  }

  /** The key is active again, and starts at this time or, if it is ahead, at its finish time. */
  begin(time: number): void {
    this.before = this.tag;
    this.since = time;
    this.used = 0;
    this.period++;
  }
}

/**
 * What waits in a lane that keys share by cost: the next key is the one whose jobs have cost least so far, and under one key the oldest job goes first.
 * Entries that came back go before all of them.
 *
 * This is start-time fair queueing. Each key has a finish time, the sum of what its jobs have cost. The key with the least finish time is next, and its job
 * starts at that time. The virtual time is the start of the last job. A key that was idle starts at the virtual time, so it saves up no credit. While two
 * keys have jobs waiting, their costs differ by the largest job of each at most.
 *
 * Three things differ from the paper. A cost is an estimate, and its correction moves the finish time of the key; the virtual time therefore is never later
 * than the finish time of a waiting key. The virtual time stays where it is when no job is left, because a rate may still be in debt then. And it advances
 * when too many idle keys are ahead of it: these can be forgotten, and new keys do not pass over a waiting one for ever.
 *
 * Source: Goyal, Vin and Cheng, Start-time Fair Queuing (1996).
 */
class CostLine<E extends Waiter<E>> extends KeyedLine<E> {
  /** Of all keys that have something waiting or under way, or are ahead of the virtual time. */
  private readonly accounts = new Map<unknown, KeyAccount<E>>();
  /** Of those that have something waiting, by their finish time. */
  private readonly waiting = new TurnHeap<KeyAccount<E>>();
  /** Turns so far. Of keys with equal times the one goes first that has waited longest for its turn. */
  private taken = 0;
  /** The job that has left the queue to be granted. */
  private turn: unknown = undefined;
  /** When the last job started. */
  private started = 0;
  /** The virtual time is this at least. */
  private floor = 0;
  private sweepAt = 2 * MOST_IDLE;

  constructor() {
    super(true);
  }

  override get first(): E | undefined {
    return this.returned.first ?? this.waiting.first?.line?.first;
  }

  override turns(most: number): readonly KeyTurn[] {
    const turns: KeyTurn[] = [];
    if (most > 0) {
      for (const { key } of this.inOrder(false)) {
        turns.push({ key, size: this.accountOf(key).line?.size ?? 0 });
        if (turns.length === most) break;
      }
    }
    return turns;
  }

  override push(entry: E): void {
    super.push(entry);
    const account = this.accountOf(entry.key);
    if (account.line) return;
    account.begin(this.time);
    account.line = this.lineOf(entry);
    account.order = ++this.taken;
    this.waiting.push(account);
  }

  override remove(entry: E, hasTurn: boolean): void {
    const isReturned = this.cameBack.has(entry);
    super.remove(entry, hasTurn);
    if (isReturned) return;
    const account = this.accountOf(entry.key);
    if (hasTurn) {
      this.started = account.tag;
      account.order = ++this.taken;
      // The cost of a lease is reported when it is granted.
      if (!entry.charge) account.used += positive(entry.weight);
    }
    if (account.line?.size === 0) {
      account.line = undefined;
      this.waiting.remove(account);
    }
    if (hasTurn && entry.charge) this.turn = entry;
    // Its cost comes next, so it is not forgotten yet.
    if (account.line || this.turn !== entry) this.changed(account);
  }

  override *inTurn(): Generator<E, undefined> {
    if (!this.isReturned()) yield* this.inOrder(true);
    return undefined;
  }

  /** A job of the key was granted: its cost counts from now on. */
  charge(lease: GrantedLease, key: unknown, unit: string): LeaseShare {
    const account = this.accountOf(key);
    const cost = positive(amountOf(lease.charge, unit));
    const hasWaited = this.turn === lease;
    this.turn = undefined;
    if (!hasWaited && !account.line) {
      account.begin(this.time);
      this.started = account.tag;
    }
    account.running++;
    account.used += cost;
    if (account.line) this.waiting.moved(account);
    return new CostShare(this, account, cost, unit);
  }

  /** A job of the key has cost so much more, or less, than was known. The job was granted in this period. Answers whether another job is next now. */
  correct(account: KeyAccount<E>, period: number, difference: number): boolean {
    const { first } = this;
    const current = this.accounts.get(account.key);
    if (current && current !== account) {
      // The key was forgotten and has come back. What it was ahead before does not count any more, but what it owes does.
      current.before += Math.max(0, difference);
      this.changed(current);
    } else {
      if (period === account.period) account.used += difference;
      else account.before += difference;
      if (!current && account.tag > this.time) this.remember(account);
      this.changed(account);
    }
    return this.first !== first;
  }

  /** A lease of the key was released. */
  released(account: KeyAccount<E>): void {
    account.running--;
    this.changed(account);
  }

  private get time(): number {
    return Math.max(this.floor, Math.min(this.started, this.waiting.first?.tag ?? Infinity));
  }

  private accountOf(key: unknown): KeyAccount<E> {
    const known = this.accounts.get(key);
    if (known) return known;
    const account = new KeyAccount<E>(key, this.time);
    this.remember(account);
    return account;
  }

  private remember(account: KeyAccount<E>): void {
    if (this.accounts.size >= this.sweepAt) this.sweep();
    this.accounts.set(account.key, account);
  }

  /** Puts the key in its place, or forgets it. */
  private changed(account: KeyAccount<E>): void {
    if (account.line) this.waiting.moved(account);
    else if (account.isIdle && account.tag <= this.time) this.accounts.delete(account.key);
  }

  /** Forgets idle keys. Where more of them are ahead of the virtual time than keys are active, it advances past those that are ahead least. */
  private sweep(): void {
    for (const account of this.accounts.values()) this.changed(account);
    const idle = [...this.accounts.values()].filter(({ isIdle }) => isIdle).sort((one, other) => one.tag - other.tag);
    const excess = idle.length - Math.max(MOST_IDLE, this.accounts.size - idle.length);
    if (excess > 0) {
      this.floor = Math.max(this.floor, (idle[excess - 1] as KeyAccount<E>).tag);
      for (const account of idle) this.changed(account);
    }
    this.sweepAt = 2 * Math.max(MOST_IDLE, this.accounts.size);
  }

  /**
   * The first entry of each key in the order of their turns; with `goesOn` also the entries behind it, as if each cost what it weighs. Reads only as many keys
   * as it yields.
   */
  private *inOrder(goesOn: boolean): Generator<E, undefined> {
    const open = new TurnHeap<Candidate<E>>();
    let { taken } = this;
    const look = (at: number): void => {
      const account = this.waiting.at(at);
      if (account) open.push({ tag: account.tag, order: account.order, slot: -1, at, entry: account.line?.first as E });
    };
    look(0);
    for (let candidate = open.first; candidate; candidate = open.first) {
      const { at, entry, tag } = candidate;
      open.remove(candidate);
      if (at >= 0) {
        look(2 * at + 1);
        look(2 * at + 2);
      }
      if (goesOn && entry.next) open.push({ tag: tag + positive(entry.weight), order: ++taken, slot: -1, at: -1, entry: entry.next });
      yield entry;
    }
    return undefined;
  }
}

/** An entry that may go next. */
interface Candidate<E> extends HeapNode {
  readonly entry: E;
  /** Index of its key in the heap; -1 for an entry behind the first of its key. */
  readonly at: number;
}

/** What a lease counts for its key. */
class CostShare<E extends Waiter<E>> implements LeaseShare {
  private readonly period: number;

  constructor(
    private readonly line: CostLine<E>,
    private readonly account: KeyAccount<E>,
    private cost: number,
    private readonly unit: string,
  ) {
    this.period = account.period;
  }

  settled(used: Amounts): boolean {
    const { unit } = this;
    // Sums must stay numbers.
    return Object.hasOwn(used, unit) && this.costs(positive(Math.min(used[unit] as number, Number.MAX_SAFE_INTEGER)));
  }

  released(isUnused: boolean): void {
    if (isUnused) this.costs(0);
    this.line.released(this.account);
  }

  private costs(cost: number): boolean {
    const difference = cost - this.cost;
    this.cost = cost;
    return difference !== 0 && this.line.correct(this.account, this.period, difference);
  }
}

function positive(amount: number): number {
  return amount > 0 ? amount : 1;
}
