import type { Observable, SchedulerLike } from 'rxjs';
import { BehaviorSubject } from 'rxjs';
import { Backlog, ONE_LINE } from './kernel/queues/line.js';
import type { GrantQueue, GrantQueueRule, QueueRule } from './kernel/queues/queue.js';
import { boundsOf, refusal, room } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { CREATE_INTAKE } from './options/defaults.js';
import type { FlowSink, Note } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { checked, count, madeBy, misused, onlyKnown, unchecked } from './options/options.js';
import type { Handle } from './options/types.js';
import { overflowed } from './options/waiting-errors.js';
import { requiredSignal } from './shell/calls/abort.js';
import { laneAt } from './shell/calls/describe-item.js';
import type { Shutdown } from './shell/calls/shutdown.js';
import { ShutdownHandle } from './shell/calls/shutdown.js';
import { SignalGroups } from './shell/calls/signal-groups.js';
import { Offer } from './shell/gates/offer.js';
import { waterMarks } from './shell/gates/water-marks.js';
import { over, Readers } from './shell/streams/readers.js';
import { schedulerOption } from './shell/time/alarm.js';

/** @beta */
export interface IntakeOptions<T> {
  /** Most items inside, let in and not taken by a consumer. @defaultValue 16 */
  readonly maxQueued?: number;
  /** Items inside from which on `ready$` is false. @defaultValue 0.8 of `maxQueued` */
  readonly highWater?: number;
  /** Items inside from which down it is true again. @defaultValue 0.5 of `maxQueued` */
  readonly lowWater?: number;
  /**
   * The order in which waiting producers are let in: one line, or `lanes([...], { by })`, of which the intake reads `name`, `share`, `floor` and
   * `maxQueued` (most producers waiting in the lane). @defaultValue first come, first served
   */
  readonly queue?: QueueRule<T>;
  /** Listener for items let in (`accepted`), rejected (`dropped`) and withdrawn or cancelled (`cancelled`), for `pressure`, and for the end (`drained`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** Clock and timer of `drain({ timeoutMs })`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/** @beta */
export interface OfferOptions {
  /** One of the declared lanes. @defaultValue what the queue's `by` says, else the last lane */
  readonly lane?: string;
  /** Ends the wait when it aborts: the promise rejects with its reason, and the item is not in. */
  readonly signal?: AbortSignal;
}

/**
 * Numbers of one moment.
 * @beta
 */
export interface IntakeSnapshot {
  /** Items inside, not taken by a consumer yet. */
  readonly queued: number;
  /** Producers waiting to be let in. */
  readonly waiting: number;
}

/**
 * Items are read with `for await`, or handed to whatever reads an `AsyncIterable`. Several readers share them: each item goes to one.
 * @beta
 */
export interface Intake<T> extends Handle, AsyncIterable<T> {
  /**
   * Waits until the item is in: true. False when the intake was closed before that. Rejects with the signal's reason when it aborts,
   * with `OverflowError` when too many wait; a rejection without a handler is not reported as unhandled.
   *
   * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) or `LaneUnknownError` for options that cannot be used
   */
  offer(item: T, options?: OfferOptions): Promise<boolean>;
  /** Adds the item if there is room for it at once; false when it was not added. It never overtakes a waiting item. The lane callback of `queue` is not called. */
  tryOffer(item: T): boolean;
  /** Whether producers should send: false from `highWater` on, true again from `lowWater` down. Completes when the intake takes no more. */
  readonly ready$: Observable<boolean>;
  snapshot(): IntakeSnapshot;
}

const NAME = 'createIntake';
/** Most producers waiting to be let in: a loop that does not await its offers then fails before it fills the memory. */
const MAX_WAITING = 10_000;
const OFFER_OPTION_NAMES = ['lane', 'signal'] as const;
const NO_OPTIONS: OfferOptions = {};

/**
 * A bounded door between producers that can wait and whatever reads an async iterable: an `offer` stays pending while it is full, so
 * that a producer runs no faster than its consumer.
 *
 * ```text
 * maxQueued: 2, one consumer
 * offer a   (true)
 * offer b   (true)
 * offer c   ------(true)      waits until the consumer has taken a
 * offer D     ----(true)      the urgent lane is let in before c
 * ```
 *
 * - **Emits when** a consumer asks: items are handed out in the order they were let in, each to one consumer.
 * - **Lets in when** there is room: the most urgent lane first, but for the floors; in a lane first come, first served.
 * - **Holds at most** `maxQueued` items, and 10,000 waiting producers with one item each.
 * - **Drops** nothing in silence: a producer learns whether its item is in. `close` discards the items inside, and `drain` reports how many.
 * - **Completes when** it is drained or closed and empty: its consumers' loops end.
 * - **Errors when** too many wait (`OverflowError`) or `by` throws (`CallbackError`): always that one offer.
 * - **On unsubscribe** a consumer that leaves (`break`, `return`) takes no more items, and the intake stays open for others.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createIntake } from 'sluice/operators';
 *
 * const intake = createIntake<number>({ maxQueued: 2 });
 * const seen: number[] = [];
 * const consumer = (async () => {
 *   for await (const item of intake) seen.push(item);
 * })();
 * for (let item = 0; item < 5; item++) await intake.offer(item);
 * await intake.drain();
 * await consumer;
 * seen; // => [0, 1, 2, 3, 4]
 * await intake.offer(5); // => false
 * ```
 * @see {@link batchMapFrom} as the consumer: it reads while it has room. {@link backpressure} when the producer cannot wait.
 */
export function createIntake<T>(options: IntakeOptions<T> = {}): Intake<T> {
  return new FlowIntake(options);
}

class FlowIntake<T> extends ShutdownHandle implements Intake<T> {
  readonly ready$: Observable<boolean>;
  readonly #settings: ReturnType<typeof readOptions<T>>;
  readonly #tell: ((note: Note) => void) | undefined;
  protected override readonly shutdown: Shutdown;
  readonly #queue = new Backlog<T>();
  readonly #waiting: GrantQueue<Offer<T>>;
  readonly #readers = new Readers<T>();
  readonly #ready = new BehaviorSubject(true);
  readonly #stoppable: SignalGroups<Offer<T>>;
  #isReady = true;
  /** What `pressure` and `ready` were told last. */
  #toldReady = true;
  #isTelling = false;

  constructor(options: IntakeOptions<T>) {
    super();
    this.#settings = readOptions(options);
    const { queue, scheduler } = this.#settings;
    this.#waiting = queue.create(1);
    this.#tell = teller(NAME, this.#settings, () => scheduler.now());
    this.ready$ = this.#ready.asObservable();
    this.#stoppable = new SignalGroups((offers, reason) => {
      this.#withdraw(offers, reason);
    });
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler,
      stop: () => {
        this.#turnAway();
        if (this.#queue.length === 0) this.#end();
      },
      abort: () => {
        this.#turnAway();
        this.#giveUp();
        this.#end();
      },
    });
  }

  offer(item: T, options: OfferOptions = NO_OPTIONS): Promise<boolean> {
    if (options !== NO_OPTIONS) onlyKnown(NAME, options, OFFER_OPTION_NAMES, 'offer options');
    const { queue } = this.#settings;
    const { signal, lane } = options;
    if (signal !== undefined) requiredSignal(NAME, 'signal', signal);
    let at = lane === undefined ? undefined : laneAt(NAME, queue, lane);
    let key: unknown;
    try {
      at ??= laneAt(NAME, queue, queue.laneOf && ask(NAME, 'lane', queue.laneOf, item));
      key = queue.keyOf && ask(NAME, 'key', queue.keyOf, item);
    } catch (error) {
      return refused(error);
    }
    if (signal?.aborted) return refused(signal.reason);
    if (this.shutdown.isClosed) return Promise.resolve(false);
    if (this.#enter(item, at)) return Promise.resolve(true);
    const tooMany = refusal(this.#settings.producers, this.#waiting.size, at, this.#waiting.count(at));
    if (tooMany) {
      this.#tell?.({ type: 'dropped', lane: this.#laneName(at), policy: tooMany.policy });
      return refused(overflowed(NAME, tooMany));
    }
    const offer = new Offer(item, at, key);
    this.#waiting.push(offer);
    if (signal) offer.leaveSignal = this.#stoppable.add(signal, offer);
    return offer.promise;
  }

  tryOffer(item: T): boolean {
    return !this.shutdown.isClosed && this.#enter(item, this.#settings.queue.at(undefined));
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    let hasLeft = false;
    const reader: AsyncIterator<T, undefined> = {
      next: () => (hasLeft ? over() : this.#next(reader)),
      return: () => {
        hasLeft = true;
        this.#readers.end(reader);
        return over();
      },
    };
    return reader;
  }

  snapshot(): IntakeSnapshot {
    return { queued: this.#queue.length, waiting: this.#waiting.size };
  }

  /** False when there is no room. A waiting reader means that the queue is empty, so the item goes straight to that reader. */
  #enter(item: T, lane: number): boolean {
    if (!this.#readers.give(item)) {
      if (room(this.#settings.items, this.#queue.length) <= 0) return false;
      this.#queue.push(item);
      this.#gauge();
    }
    this.#tell?.({ type: 'accepted', lane: this.#laneName(lane), queued: this.#queue.length });
    return true;
  }

  #next(reader: unknown): Promise<IteratorResult<T, undefined>> {
    if (this.#queue.length === 0) return this.shutdown.isClosed ? over() : this.#readers.ask(reader);
    const value = this.#queue.shift() as T;
    this.shutdown.count('done');
    const offer = this.#nextOffer();
    if (offer) {
      // Answered first: a listener that is told of the accepted item may abort the signal of this offer.
      offer.answer(true);
      this.#enter(offer.item, offer.lane);
    }
    this.#gauge();
    if (this.shutdown.isClosed && this.#queue.length === 0) this.#end();
    return Promise.resolve({ done: false, value });
  }

  /** The one whose turn it is, taken out. */
  #nextOffer(): Offer<T> | undefined {
    const lane = this.#waiting.lead();
    return lane === -1 ? undefined : this.#waiting.takeHead(lane);
  }

  /** All offers leave before any listener is called, because a listener may change the queue. */
  #withdraw(offers: readonly Offer<T>[], reason: unknown): void {
    for (const offer of offers) {
      this.#waiting.remove(offer);
      offer.refuse(reason);
    }
    for (const { lane } of offers) this.#tell?.({ type: 'cancelled', lane: this.#laneName(lane), count: 1 });
  }

  /** Answers every waiting offer with false: the intake takes no more items. */
  #turnAway(): void {
    for (let offer = this.#nextOffer(); offer; offer = this.#nextOffer()) offer.answer(false);
    this.#ready.complete();
  }

  #giveUp(): void {
    const { length } = this.#queue;
    this.#queue.clear();
    this.shutdown.count('dropped', length);
    // Inside there is one queue: lanes matter at the door.
    if (length > 0) this.#tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: length });
    this.#gauge();
  }

  #end(): void {
    this.#readers.end();
    if (this.shutdown.finish()) this.#tell?.({ type: 'drained' });
  }

  /** One level at a time, so that all listeners get the levels in the same order, whatever a listener offers or takes. */
  #gauge(): void {
    const { length: queued } = this.#queue;
    const { highWater, lowWater } = this.#settings;
    if (queued >= highWater) this.#isReady = false;
    else if (queued <= lowWater) this.#isReady = true;
    if (this.#isTelling) return;
    this.#isTelling = true;
    while (this.#toldReady !== this.#isReady) {
      const isReady = (this.#toldReady = this.#isReady);
      this.#tell?.({ type: 'pressure', lane: DEFAULT_LANE, high: !isReady, queued: this.#queue.length });
      this.#ready.next(isReady);
    }
    this.#isTelling = false;
  }

  #laneName(lane: number): string {
    return this.#settings.queue.lanes[lane]?.name ?? '';
  }
}

function readOptions<T>(options: IntakeOptions<T>) {
  const settings = checked(
    NAME,
    options,
    { ...CREATE_INTAKE, queue: ONE_LINE },
    {
      maxQueued: count,
      highWater: unchecked,
      lowWater: unchecked,
      queue: madeBy<GrantQueueRule<T>>('create', 'lanes([…])'),
      ...EVENT_CHECKS,
      scheduler: schedulerOption,
    },
  );
  const queue: GrantQueueRule<T> = settings.queue;
  if (queue.lanes.some(({ overflow = 'error' }) => overflow !== 'error'))
    throw misused(
      NAME,
      'queue',
      'lanes of an intake cannot have `overflow`: it never drops waiting items',
      'Remove `overflow` from the lanes.',
    );
  const { maxQueued } = settings;
  return {
    ...settings,
    ...waterMarks(NAME, options, maxQueued),
    queue,
    items: boundsOf({ maxQueued }),
    producers: boundsOf({ maxQueued: MAX_WAITING, bound: 'maxWaiting', lanes: queue.lanes }),
  };
}

function refused(error: unknown): Promise<boolean> {
  const offer = new Offer(undefined, 0);
  offer.refuse(error);
  return offer.promise;
}
