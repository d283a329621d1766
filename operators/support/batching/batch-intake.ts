import type { OrderedPlace } from '../../kernel/queues/reorder-buffer.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask, partsOf, weightOf, whenToClose } from '../../options/ask.js';
import { ItemTooHeavyError, OverflowError } from '../../options/errors.js';
import { LongQueue } from '../../shell/long-queue.js';
import type { EngineConfig } from './batch-options.js';
import type { BatchOutbox } from './batch-outbox.js';
import type { BatchQueue } from './batch-queue.js';
import type { Boundaries } from './boundaries.js';
import type { Job } from './job.js';
import { ACCEPTED, DONE, totalWeight, WAITING, Whole } from './job.js';

/** What a call may weigh at this moment. */
export interface Loads {
  /** What a batch aims at. */
  readonly aim: number;
  /** Above this nothing travels, not even alone. */
  readonly heaviest: number;
}

/** Turns what comes in into jobs, asking your callbacks about each item, and queues them, or drops what there is no room for. */
export class BatchIntake<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #queue: BatchQueue<T, R>;
  readonly #outbox: BatchOutbox<T, R>;
  readonly #boundaries: Boundaries;
  readonly #loads: Loads;
  /** False for whoever pulls: that was done while there was room, and what was on its way when repairs came back is still taken. */
  readonly #isBounded: boolean;
  readonly #long: LongQueue | undefined;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  readonly isUniform: boolean;
  readonly #lastLane: number;
  #accepted = 0;
  #refusal: { readonly error: unknown } | undefined;
  /** An item was too much, and the host does not know yet. */
  #overflow: { readonly error: unknown } | undefined;

  constructor(
    config: EngineConfig<T>,
    queue: BatchQueue<T, R>,
    outbox: BatchOutbox<T, R>,
    boundaries: Boundaries,
    loads: Loads,
    isBounded: boolean,
  ) {
    this.#config = config;
    this.#queue = queue;
    this.#outbox = outbox;
    this.#boundaries = boundaries;
    this.#loads = loads;
    this.#isBounded = isBounded;
    if (isBounded && config.maxQueued === Infinity) this.#long = new LongQueue(config.operator, config.onEvent);
    const { order, id, lane, weigh, closeWhen, itemDeadlineMs, table } = config;
    this.#lastLane = table.at(undefined);
    this.isUniform =
      order === 'completion' &&
      (id ?? lane ?? weigh ?? closeWhen) === undefined &&
      itemDeadlineMs === Infinity &&
      Math.min(loads.aim, loads.heaviest) >= 1;
  }

  /** Items accepted so far; the index of the next. */
  get accepted(): number {
    return this.#accepted;
  }

  /** False once everything is refused. */
  get isOpen(): boolean {
    return this.#refusal === undefined;
  }

  /** Rejects everything from now on. */
  refuseAll(error: unknown): void {
    this.#refusal = { error };
  }

  /** What was too much, if the operator fails because of it. */
  takeOverflow(): { readonly error: unknown } | undefined {
    const overflow = this.#overflow;
    this.#overflow = undefined;
    return overflow;
  }

  /** Moves what waits of an item to a more urgent lane. */
  hurry(job: Job<T, R>, lane: number): void {
    for (const part of job.whole?.parts ?? [job]) this.#move(part, lane);
  }

  /** Says of a new item what is to be known of it. Never throws: what is wrong with it is its `fault`. */
  accept(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined, now: number): void {
    if (this.isUniform && laneName === undefined && deadlineMs === undefined) {
      this.#stamp(job, now);
      return;
    }
    // What `key` sends in its turn is accepted before the item, and has its place before it; meanwhile the item is no new one.
    job.index = this.#accepted;
    const place = this.#placeOf(job);
    job.index = this.#accepted++;
    job.acceptedAt = now;
    if (job.fault === undefined) this.#describe(job, laneName, deadlineMs);
    if (place) {
      job.place = place;
      place.item = job;
    }
    job.state = ACCEPTED;
  }

  /** Accepts and queues an item that is like all others, and for which there is room. */
  join(job: Job<T, R>, now: number): void {
    this.#stamp(job, now);
    job.state = WAITING;
    this.#queue.add(job);
  }

  #stamp(job: Job<T, R>, now: number): void {
    job.index = this.#accepted++;
    job.acceptedAt = now;
    job.lane = this.#lastLane;
    job.weight = 1;
    job.state = ACCEPTED;
  }

  /** Queues an item, or all its parts, between the boundaries `closeWhen` put around it; false when it has its result already. */
  enter(item: Job<T, R>): boolean {
    if (item.isPlain && this.#refusal === undefined) {
      this.#enqueue(item);
      return item.state === WAITING;
    }
    const { whole, fault, closes, lane, index } = item;
    const refusal = this.#refusal ?? fault;
    if (closes === 'before') this.#boundaries.close(lane, index);
    if (refusal) this.#refuse(item, refusal.error);
    else if (whole === undefined) this.#enqueue(item);
    else {
      item.state = WAITING;
      for (const part of whole.parts) this.#enqueue(part);
    }
    if (closes === 'after') this.#boundaries.close(lane, index + 1);
    return item.state === WAITING;
  }

  #refuse(item: Job<T, R>, error: unknown): void {
    const { operator } = this.#config;
    const oversize = item.fault?.oversize;
    if (oversize === 'drop') this.#config.onEvent?.({ type: 'dropped', operator, lane: this.#laneName(item), policy: 'oversize' });
    if (oversize === 'error') this.#overflow = { error };
    this.#outbox.reject(item, error);
  }

  #enqueue(job: Job<T, R>): void {
    // The whole was rejected because another of its parts was.
    if (job.whole?.job.state === DONE) job.state = DONE;
    else if (this.#makeRoom(job)) this.#add(job);
  }

  #add(job: Job<T, R>): void {
    job.state = WAITING;
    job.stretch = this.#boundaries.stretch(job.lane);
    this.#queue.add(job);
    this.#long?.grew(this.#queue.queued, this.#laneName(job));
  }

  /** Applies the overflow policy for one more item; false when the newcomer is the one to go. The host is told by the loop. */
  #makeRoom(job: Job<T, R>): boolean {
    if (!this.#isBounded || this.#queue.hasRoom(job.lane, this.#outbox.held)) return true;
    const losers = this.#queue.losers(job);
    const { operator } = this.#config;
    const error = new OverflowError(operator, losers.limit, losers.policy);
    for (const loser of losers.jobs) {
      this.#config.onEvent?.({ type: 'dropped', operator, lane: this.#laneName(loser), policy: losers.policy });
      if (loser !== job) this.#queue.remove(loser);
      this.#outbox.reject(loser, error);
    }
    if (losers.policy === 'error') this.#overflow = { error };
    return !losers.jobs.includes(job);
  }

  #move(job: Job<T, R>, lane: number): void {
    if (job.state !== WAITING || job.group || lane >= job.lane) return;
    this.#queue.move(job, lane, this.#boundaries.stretch(lane));
  }

  #laneName({ lane }: Job<T, R>): string {
    return this.#config.table.lanes[lane]?.name ?? '';
  }

  /** Its place in the order of acceptance; none for an item whose `key` fails. */
  #placeOf(job: Job<T, R>): OrderedPlace<Job<T, R>> | undefined {
    const { operator, order, key } = this.#config;
    if (order === 'input') return this.#outbox.enter(job.input);
    if (order !== 'perKey' || key === undefined) return undefined;
    try {
      return this.#outbox.enter(ask(operator, 'key', key, job.input));
    } catch (error) {
      job.spoil(error, this.#lastLane);
      return undefined;
    }
  }

  #describe(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { operator, id } = this.#config;
    try {
      if (id) job.name = ask(operator, 'id', id, job.input);
      this.#measure(job, laneName, deadlineMs);
    } catch (error) {
      job.spoil(error, this.#lastLane);
    }
  }

  #measure(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { operator, table, lane: laneOf, weigh, itemDeadlineMs, closeWhen } = this.#config;
    const { input, acceptedAt } = job;
    const named = laneName ?? (laneOf && ask(operator, 'lane', laneOf, input));
    job.weight = weightOf(operator, weigh, input);
    const waitMs = deadlineMs ?? (typeof itemDeadlineMs === 'function' ? this.#waitMs(itemDeadlineMs, input) : itemDeadlineMs);
    job.lane = table.at(named);
    job.deadlineAt = acceptedAt + waitMs;
    const { aim, heaviest } = this.#loads;
    if (job.weight > aim || job.weight > heaviest) this.#fit(job, aim, heaviest);
    if (closeWhen && job.fault === undefined) job.closes = whenToClose(operator, closeWhen, input, this.#openBatch(job));
  }

  #waitMs(itemDeadlineMs: (item: T) => number, input: T): number {
    const { operator } = this.#config;
    const waitMs = ask(operator, 'itemDeadlineMs', itemDeadlineMs, input);
    if (isAmount(waitMs)) return waitMs;
    throw unusable(operator, 'itemDeadlineMs', 'a number of ms >= 0', waitMs);
  }

  /** Does with an item that no batch has room for what `oversize` says. */
  #fit(job: Job<T, R>, aim: number, heaviest: number): void {
    const { operator, maxWeight, oversize } = this.#config;
    const { weight } = job;
    if (oversize === 'split' && weight > aim) {
      job.whole = this.#cut(job, heaviest);
    } else if (weight > maxWeight && (oversize === 'drop' || oversize === 'error' || oversize === 'reject')) {
      const error = new ItemTooHeavyError(operator, weight, Math.min(maxWeight, heaviest));
      job.fault = oversize === 'reject' ? { error } : { error, oversize };
    } else if (weight > heaviest) {
      job.fault = { error: new ItemTooHeavyError(operator, weight, heaviest) };
    }
  }

  /** Parts are never cut again: one that is still too heavy travels alone. */
  #cut(job: Job<T, R>, heaviest: number): Whole<T, R> | undefined {
    const { operator, splitItem, weigh, id } = this.#config;
    if (splitItem === undefined) return undefined;
    const parts = partsOf(operator, splitItem, job.input).map((part, i) => {
      const weight = weightOf(operator, weigh, part);
      if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
      return job.part(part, weight, id ? ask(operator, 'id', id, part) : `${job.id}.${String(i)}`);
    });
    return new Whole(job, parts);
  }

  /** The items the job would join. Looked up only when asked for. */
  #openBatch({ lane, weight: itemWeight }: Job<T, R>) {
    const stretch = this.#boundaries.stretch(lane);
    const jobs = (): Job<T, R>[] => this.#queue.stretch(lane, stretch);
    return {
      itemWeight,
      get items() {
        return jobs().map(({ input }) => input);
      },
      get weight() {
        return totalWeight(jobs());
      },
    };
  }
}
