import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import type { FillLimits } from '../../kernel/queues/lane-queue.js';
import { LaneQueue } from '../../kernel/queues/lane-queue.js';
import type { Lane, LaneTable } from '../../options/lanes.js';
import type { Overflow } from '../../options/types.js';
import type { Job } from './job.js';
import { DONE, Group, WAITING } from './job.js';

type Entry<T, R> = Job<T, R> | Group<T, R>;

/** Fresh items chosen for a batch, not taken yet. */
export interface Plan<T, R> {
  readonly jobs: readonly Job<T, R>[];
  readonly weight: number;
}

const NOTHING: Readonly<Plan<never, never>> = { jobs: [], weight: 0 };

/** Everything an engine has accepted and not on its way: fresh items in lanes, groups ready to go again, groups in backoff. */
export class BatchQueue<T, R> {
  readonly #table: LaneTable;
  readonly #maxSize: number;
  readonly #maxQueued: number;
  readonly #lanes: LaneQueue<Entry<T, R>>;
  /** Items waiting in each lane, members of groups included. */
  readonly #laneQueued: Int32Array;
  readonly #deadlines = new DeadlineHeap<Job<T, R>>();
  readonly #backoff = new DeadlineHeap<Group<T, R>>();
  /** What waits for another group's call to end. */
  readonly #held = new Set<Group<T, R>>();
  /** The batch planned last. */
  #planned: Plan<T, R> = NOTHING;
  /** Whether it is the first of a lane and nothing else, so that it can be taken in one piece. */
  #isFront = false;
  #queued = 0;
  #fresh = 0;
  #freshWeight = 0;
  #readyGroups = 0;
  /** Length at which settled jobs are swept out of the deadlines. */
  #sweepAt = 1024;

  constructor(table: LaneTable, maxSize: number, maxQueued: number) {
    this.#table = table;
    this.#maxSize = maxSize;
    this.#maxQueued = maxQueued;
    this.#lanes = new LaneQueue(table.fairness, maxSize === Infinity ? 1 : maxSize, isLive);
    this.#laneQueued = new Int32Array(table.lanes.length);
  }

  get queued(): number {
    return this.#queued;
  }

  get fresh(): number {
    return this.#fresh;
  }

  get freshWeight(): number {
    return this.#freshWeight;
  }

  get room(): number {
    return this.#maxQueued - this.#queued;
  }

  get backingOff(): number {
    return this.#backoff.length;
  }

  get hasReadyGroups(): boolean {
    return this.#readyGroups > 0;
  }

  /** The lane whose turn it is, or -1. */
  get lead(): number {
    return this.#lanes.lead();
  }

  /** Whether a full batch of fresh items is there. */
  isFull(aim: number): boolean {
    return this.#fresh >= this.#maxSize || this.#freshWeight >= aim;
  }

  /** How many more items of weight 1 in the last lane neither fill a batch nor leave no room for one more. */
  spare(aim: number): number {
    const last = this.#table.lanes.length - 1;
    const places = Math.min(this.#maxSize - this.#fresh, this.#maxQueued - this.#queued);
    return Math.min(places, aim - this.#freshWeight, this.#lane(last).maxQueued - (this.#laneQueued[last] as number)) - 1;
  }

  add(job: Job<T, R>): void {
    this.#lanes.push(job.lane, job);
    this.#count(job.lane, 1);
    this.#fresh++;
    this.#freshWeight += job.weight;
    if (job.deadlineAt === Infinity) return;
    this.#deadlines.push(job.deadlineAt, job);
    if (this.#deadlines.length < this.#sweepAt) return;
    this.#deadlines.keep((other) => other.state !== DONE);
    this.#sweepAt = Math.max(1024, 2 * this.#deadlines.length);
  }

  /** Moves a fresh item to the end of another lane. */
  move(job: Job<T, R>, lane: number, stretch: number): void {
    const from = job.lane;
    job.lane = lane;
    job.stretch = stretch;
    this.#lanes.left(from);
    this.#count(from, -1);
    this.#lanes.push(lane, job);
    this.#count(lane, 1);
  }

  /** Puts a group at the front of its lane. */
  addReady(group: Group<T, R>): void {
    for (const job of group.jobs) this.#count(job.lane, 1);
    this.#ready(group);
  }

  /** Keeps a group until its backoff is over. */
  addBackoff(group: Group<T, R>, until: number): void {
    for (const job of group.jobs) this.#count(job.lane, 1);
    this.#backoff.push(until, group);
  }

  /** Keeps a group until `letGo`. */
  hold(group: Group<T, R>): void {
    for (const job of group.jobs) this.#count(job.lane, 1);
    this.#held.add(group);
  }

  letGo(group: Group<T, R>): void {
    this.#held.delete(group);
    this.#disband(group);
  }

  /** Puts groups whose backoff is over at the front of their lanes. */
  wake(now: number): void {
    while (this.#backoff.peekAt() <= now) this.#ready(this.#backoff.pop() as Group<T, R>);
  }

  /** Takes out a waiting job that was given up. */
  remove(job: Job<T, R>): void {
    const { group } = job;
    job.state = DONE;
    if (group === undefined) {
      this.#lanes.left(job.lane);
      this.#removedFresh(job.lane, 1, job.weight);
      return;
    }
    job.group = undefined;
    this.#count(job.lane, -1);
    if (--group.live > 0) return;
    if (group.ready) {
      this.#readyGroups--;
      this.#lanes.left(group.lane);
    } else if (!this.#held.delete(group)) {
      this.#backoff.keep((waiting) => waiting.live > 0);
    }
  }

  /** Takes everything out: waiting jobs in the order in which they would have left. */
  removeAll(): Job<T, R>[] {
    const jobs: Job<T, R>[] = [];
    for (let lane = this.#lanes.first(); lane !== -1; lane = this.#lanes.first()) {
      const group = this.groupOf(lane);
      if (group) jobs.push(...this.takeGroup(lane, group));
      else jobs.push(this.#shift(lane));
    }
    for (let group = this.#backoff.pop(); group; group = this.#backoff.pop()) jobs.push(...this.#disband(group));
    for (const group of this.#held) jobs.push(...this.#disband(group));
    this.#held.clear();
    for (const job of jobs) job.state = DONE;
    return jobs;
  }

  /** What goes next in the lane, if that is a group. */
  groupOf(lane: number): Group<T, R> | undefined {
    const entry = this.#lanes.peek(lane);
    return entry instanceof Group ? entry : undefined;
  }

  takeGroup(lane: number, group: Group<T, R>): Job<T, R>[] {
    this.#lanes.shift(lane);
    this.#readyGroups--;
    // A group is a batch of its own: it takes its lane's whole turn.
    this.#lanes.turn(lane, group.live);
    return this.#disband(group);
  }

  /** Chooses the fresh items of the next batch: the lead lane's head first, then by turns those of all lanes that may ride along. */
  plan(lead: number, budget: number): Plan<T, R> {
    const limits = { places: this.#maxSize, rides: this.#lane(lead).piggyback };
    const front = this.#front(lead, this.#lanes.front(lead, limits), budget);
    this.#isFront = front !== undefined;
    return (this.#planned = front ?? this.#choose(lead, limits, budget));
  }

  /** The first so many fresh items of a lane, if no boundary is among them and their weight is within the budget. */
  #front(lane: number, size: number, budget: number): Plan<T, R> | undefined {
    if (size === 0) return undefined;
    const jobs: Job<T, R>[] = [];
    let weight = 0;
    for (let i = 0; i < size; i++) {
      const job = this.#lanes.freshAt(lane, i) as Job<T, R>;
      weight += job.weight;
      if (job.stretch !== (jobs[0] ?? job).stretch || weight > budget) return undefined;
      jobs.push(job);
    }
    return { jobs, weight };
  }

  #choose(lead: number, limits: FillLimits, budget: number): Plan<T, R> {
    const jobs: Job<T, R>[] = [];
    const heads: Job<T, R>[] = [];
    let weight = 0;
    this.#lanes.plan(lead, limits, (entry, lane) => {
      const job = entry as Job<T, R>;
      // The first that is asked about is the lane's head. No batch crosses a boundary.
      const head = (heads[lane] ??= job);
      if (job.stretch !== head.stretch) return false;
      if (jobs.length > 0 && weight + job.weight > budget) return false;
      jobs.push(job);
      weight += job.weight;
      return true;
    });
    return { jobs, weight };
  }

  /** Takes what was planned last; nothing may have happened in between. */
  take(): void {
    const { jobs, weight } = this.#planned;
    if (this.#isFront) {
      const { lane } = jobs[0] as Job<T, R>;
      this.#removedFresh(lane, jobs.length, weight);
      this.#lanes.takeFront(lane, jobs.length);
    } else {
      this.#takeEach(jobs);
    }
    this.#planned = NOTHING;
  }

  #takeEach(jobs: readonly Job<T, R>[]): void {
    // Each is the head of its lane when it is its turn: nothing is passed over.
    for (const { lane } of jobs) this.#shift(lane);
    this.#lanes.turnPlanned();
  }

  /** The oldest fresh item of each lane that has one. */
  heads(visit: (head: Job<T, R>, lane: Lane) => void): void {
    const { nonEmpty } = this.#lanes;
    for (let lane = nonEmpty.first(); lane !== -1; lane = nonEmpty.after(lane)) {
      const head = this.head(lane);
      if (head) visit(head, this.#lane(lane));
    }
  }

  head(lane: number): Job<T, R> | undefined {
    return this.#lanes.peekFresh(lane) as Job<T, R> | undefined;
  }

  /** Jobs whose deadline has passed, wherever they are. */
  takeExpired(now: number): Job<T, R> | undefined {
    while (this.#deadlines.peekAt() <= now) {
      const job = this.#deadlines.pop() as Job<T, R>;
      if (job.state !== DONE) return job;
    }
    return undefined;
  }

  /** When the next deadline or the end of a backoff comes; Infinity when none does. */
  nextWakeAt(): number {
    while (this.#deadlines.peek()?.state === DONE) this.#deadlines.pop();
    return Math.min(this.#deadlines.peekAt(), this.#backoff.peekAt());
  }

  /** The fresh items of one stretch of a lane. */
  stretch(lane: number, stretch: number): Job<T, R>[] {
    const jobs: Job<T, R>[] = [];
    this.#lanes.scanFresh(lane, (entry) => {
      const job = entry as Job<T, R>;
      if (job.stretch === stretch) jobs.push(job);
      return true;
    });
    return jobs;
  }

  /** Whether one more item fits. What is held elsewhere takes up room as well. */
  hasRoom(lane: number, held: number): boolean {
    return !this.#isLaneFull(lane) && this.#queued + held < this.#maxQueued;
  }

  #isLaneFull(lane: number): boolean {
    return (this.#laneQueued[lane] as number) >= this.#lane(lane).maxQueued;
  }

  /** Who has to go so that one more item fits. The newcomer itself may be the one. */
  losers(newcomer: Job<T, R>): { readonly jobs: readonly Job<T, R>[]; readonly policy: Overflow; readonly limit: number } {
    const lane = this.#lane(newcomer.lane);
    const laneFull = this.#isLaneFull(newcomer.lane);
    const lowest = this.#lanes.last();
    const found: (Entry<T, R> | undefined)[] = [];
    if (lane.overflow === 'dropOldest') found.push(this.#lanes.peekFresh(newcomer.lane));
    else if (lane.overflow === 'latest') this.#lanes.scanFresh(newcomer.lane, (entry) => found.push(entry) > 0);
    else if (lane.overflow === 'dropLowest' && lowest > newcomer.lane && !laneFull) found.push(this.#lanes.newestFresh(lowest));
    const jobs = found.filter((entry): entry is Job<T, R> => entry !== undefined);
    return { jobs: jobs.length > 0 ? jobs : [newcomer], policy: lane.overflow, limit: Math.min(this.#maxQueued, lane.maxQueued) };
  }

  #ready(group: Group<T, R>): void {
    group.ready = true;
    this.#readyGroups++;
    this.#lanes.pushReturned(group.lane, group);
  }

  #disband(group: Group<T, R>): Job<T, R>[] {
    const jobs = group.members;
    for (const job of jobs) {
      job.group = undefined;
      this.#count(job.lane, -1);
    }
    return jobs;
  }

  #shift(lane: number): Job<T, R> {
    const job = this.#lanes.shift(lane) as Job<T, R>;
    this.#removedFresh(job.lane, 1, job.weight);
    return job;
  }

  #removedFresh(lane: number, size: number, weight: number): void {
    this.#count(lane, -size);
    this.#fresh -= size;
    // Sums of fractions drift: an empty queue weighs nothing.
    this.#freshWeight = this.#fresh === 0 ? 0 : this.#freshWeight - weight;
  }

  #count(lane: number, change: number): void {
    this.#queued += change;
    (this.#laneQueued[lane] as number) += change;
  }

  #lane(lane: number): Lane {
    return this.#table.lanes[lane] as Lane;
  }
}

/** An item that was moved is also where it was. */
function isLive<T, R>(entry: Entry<T, R>, lane: number): boolean {
  return entry instanceof Group ? entry.live > 0 : entry.state === WAITING && entry.group === undefined && entry.lane === lane;
}
