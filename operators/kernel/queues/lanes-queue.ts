import { BatchPlan } from './batch-plan.js';
import type { Discipline, Fairness, FairnessRule, LaneClaim } from './discipline.js';
import { KeyedLine } from './keyed-line.js';
import { Line } from './line.js';
import type { KeyTurn, Plan, Queue, Waiter } from './queue.js';

/**
 * Lanes side by side, each a line of its own; whose turn it is, is for the discipline to say. Lanes are declared one by one, so there are few of
 * them, and a turn looks at each. For many that are alike there are the keys of a lane: a turn costs the same however many of them there are.
 */
export class LanesQueue<E extends Waiter<E>> implements Queue<E> {
  size = 0;
  private readonly lines: readonly (Line<E> | KeyedLine<E>)[];
  /** Entries waiting in each lane. */
  private readonly counts: number[];
  private readonly discipline: Discipline;
  /** What the lanes have of a turn that is one lane's. */
  private readonly alone: number[];
  private planned: BatchPlan<E> | undefined = undefined;

  /**
   * @param places - places in one turn: 1 when turns are single grants, the batch size when they are batches
   * @param isKeyed - whether the keys of a lane share it
   */
  constructor(
    private readonly lanes: readonly LaneClaim[],
    fairness: Fairness,
    places: number,
    isKeyed: boolean,
  ) {
    this.lines = lanes.map(() => (isKeyed ? new KeyedLine<E>() : new Line<E>()));
    this.counts = lanes.map(() => 0);
    this.alone = lanes.map(() => 0);
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

  remove(entry: E): void {
    this.line(entry.lane).remove(entry);
    this.removed(entry.lane);
  }

  lead(): number {
    return this.size === 0 ? -1 : this.discipline.lead();
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
    this.take(entry);
    this.turn(lane, taken);
    return entry;
  }

  turn(lane: number, taken = 1): void {
    // With nobody left to go without, nothing is owed.
    if (this.size === 0) return;
    this.alone[lane] = taken;
    this.discipline.ended(this.alone, taken);
    this.alone[lane] = 0;
  }

  plan(lane: number, places: number, budget: number): Plan<E> {
    const plan = new BatchPlan(this.lines, budget);
    this.planned = plan;
    const isAlone = this.counts[lane] === this.size || (this.lanes[lane] as LaneClaim).piggyback === false;
    const got = plan.fill(lane, isAlone ? places : 1);
    if (!isAlone) this.discipline.fill(places - got, plan);
    return plan;
  }

  takePlanned(): void {
    const { entries, taken } = this.planned as BatchPlan<E>;
    this.planned = undefined;
    for (const entry of entries) this.take(entry);
    this.discipline.ended(taken, entries.length);
  }

  after(lane: number): number {
    for (let next = lane + 1; next < this.lines.length; next++) if (this.line(next).oldest() !== undefined) return next;
    return -1;
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
    return (this.lines[lane] as KeyedLine<E>).firstOf(key);
  }

  turns(lane: number, most: number): readonly KeyTurn[] {
    return (this.lines[lane] as KeyedLine<E>).turns(most);
  }

  private take(entry: E): void {
    this.line(entry.lane).take(entry);
    this.removed(entry.lane);
  }

  private added(lane: number): void {
    const before = this.count(lane);
    this.size++;
    this.counts[lane] = before + 1;
    if (before === 0) this.discipline.filled(lane);
  }

  private removed(lane: number): void {
    this.size--;
    this.counts[lane] = this.count(lane) - 1;
  }

  /** Both kinds are used alike. */
  private line(lane: number): Line<E> {
    return this.lines[lane] as Line<E>;
  }
}
