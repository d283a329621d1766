import { BatchPlan } from './batch-plan.js';
import type { Discipline, Fairness, FairnessRule, LaneClaim } from './discipline.js';
import type { KeyFairnessRule } from './keyed-line.js';
import { KeyedLine } from './keyed-line.js';
import type { GrantQueue, KeyTurn, Queue, Waiter } from './queue.js';

/**
 * Lanes side by side, each a line of its own; the fairness chooses the next lane. Lanes are declared one by one, so there are few of
 * them, and a turn looks at each. For many that are alike there are the keys of a lane: a turn costs the same however many of them there are.
 */
export class LanesQueue<E extends Waiter<E>> implements Queue<E> {
  size = 0;
  readonly granted: GrantQueue<E>['granted'];
  private readonly lines: readonly KeyedLine<E>[];
  /** Entries waiting in each lane. */
  private readonly counts: number[];
  private readonly discipline: Discipline;
  /** What each lane is given by a turn; zeros in between. */
  private readonly given: number[];
  /** The lane whose turn it is, since it was asked for; undefined when something has happened. */
  private leading: number | undefined = undefined;

  /**
   * @param places - places in one turn: 1 when turns are single grants, the batch size when they are batches
   * @param isKeyed - whether the keys of a lane share it
   * @param keys - how they share it; undefined when they take turns
   */
  constructor(
    private readonly lanes: readonly LaneClaim[],
    fairness: Fairness,
    places: number,
    isKeyed: boolean,
    keys?: KeyFairnessRule,
  ) {
    const made = keys?.keyLines<E>(lanes.length);
    this.granted = made?.granted;
    this.lines = made?.lines ?? lanes.map(() => new KeyedLine<E>(isKeyed));
    this.counts = lanes.map(() => 0);
    this.given = lanes.map(() => 0);
    this.discipline = (fairness as FairnessRule).create(lanes, places === Infinity ? 1 : places, this.counts);
  }

  count(lane: number): number {
    return this.counts[lane] as number;
  }

  push(entry: E): void {
    this.line(entry.lane).push(entry);
    this.added(entry.lane);
  }

  pushReturned(entry: E): void {
    this.line(entry.lane).pushReturned(entry);
    this.added(entry.lane);
  }

  remove(entry: E, hasTurn = false): void {
    const { lane } = entry;
    this.line(lane).remove(entry, hasTurn);
    this.size--;
    (this.counts[lane] as number) -= 1;
    this.leading = undefined;
  }

  lead(): number {
    return this.size === 0 ? -1 : (this.leading ??= this.discipline.lead());
  }

  goesFirst(lane: number): boolean {
    return this.size === 0 || this.discipline.goesFirst(lane);
  }

  head(lane: number): E | undefined {
    return this.line(lane).first;
  }

  isReturned(lane: number): boolean {
    return this.line(lane).isReturned();
  }

  takeHead(lane: number, taken?: number, entry = this.head(lane) as E): E {
    this.remove(entry, true);
    this.turn(lane, taken);
    return entry;
  }

  turn(lane: number, taken = 1): void {
    // An empty queue owes no lane a turn.
    if (this.size === 0) return;
    this.given[lane] = taken;
    this.ended(taken);
  }

  plan(lane: number, places: number, budget: number): E[] {
    const plan = new BatchPlan<E>(
      this.lines.map((line) => line.inTurn()),
      budget,
    );
    const isAlone = this.counts[lane] === this.size || (this.lanes[lane] as LaneClaim).piggyback === false;
    const got = plan.fill(lane, isAlone ? places : 1);
    if (!isAlone) this.discipline.fill(places - got, plan);
    return plan.entries;
  }

  takeAll(entries: readonly E[]): void {
    for (const entry of entries) {
      (this.given[entry.lane] as number) += 1;
      this.remove(entry, true);
    }
    this.ended(entries.length);
  }

  after(lane: number): number {
    return this.lines.findIndex((line, next) => next > lane && line.oldest() !== undefined);
  }

  oldest(lane: number): E | undefined {
    return this.line(lane).oldest();
  }

  newest(lane: number): E | undefined {
    return this.line(lane).newest();
  }

  each(lane: number, visit: (entry: E) => boolean): void {
    this.line(lane).visit(visit);
  }

  headOf(lane: number, key: unknown): E | undefined {
    return this.line(lane).firstOf(key);
  }

  turns(lane: number, most: number): readonly KeyTurn[] {
    return this.line(lane).turns(most);
  }

  private ended(total: number): void {
    this.discipline.ended(this.given, total);
    this.given.fill(0);
    this.leading = undefined;
  }

  private added(lane: number): void {
    this.size++;
    this.leading = undefined;
    if (this.counts[lane] === 0) this.discipline.filled(lane);
    (this.counts[lane] as number) += 1;
  }

  private line(lane: number): KeyedLine<E> {
    return this.lines[lane] as KeyedLine<E>;
  }
}
