import type { MonoTypeOperatorFunction } from 'rxjs';
import { Observable } from 'rxjs';
import type { Charge } from './kernel/limits/limit.js';
import { ONE_REQUEST } from './kernel/limits/limit.js';
import { Backlog } from './kernel/queues/line.js';
import type { Refusal } from './kernel/waiting/bounds.js';
import { boundsOf, pushEvicting, refusal } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { RATE_LIMIT } from './options/defaults.js';
import { CallbackError, FlowConfigError, ItemTooHeavyError, isFlowError } from './options/errors.js';
import type { FlowSink, Note } from './options/events.js';
import { listener } from './options/events.js';
import type { Cost, Lease, Limiter } from './options/limiter.js';
import { laneOption, requiredLimiter } from './options/limiter-option.js';
import { callback, checked, countFromZero, oneOf, unchecked } from './options/options.js';
import type { Bidder, Place } from './options/permits.js';
import type { Overflow } from './options/types.js';
import { overflowed } from './options/waiting-errors.js';
import { asked } from './shell/calls/asked.js';
import { laneAt } from './shell/calls/describe-item.js';
import { Gate } from './shell/gates/gate.js';
import type { FlowLimiter } from './shell/limiter/limiter.js';
import { chargeOf } from './shell/limiter/settings.js';

/** @stable */
export interface RateLimitOptions<T> {
  /** Lane of all items in the limiter. @defaultValue the limiter's last lane */
  readonly lane?: string;
  /** Most items waiting; with 0 an item is emitted at once or not at all. A function is called for each item. @defaultValue 1000 */
  readonly maxQueued?: number | (() => number);
  /**
   * What happens when one item too many has to wait: `'error'` errors the stream, `'dropOldest'` makes room for it, `'dropNewest'` drops
   * it, and `'latest'` drops all that waits in its favour. A function is asked each time. @defaultValue 'error'
   */
  readonly overflow?: Exclude<Overflow, 'dropLowest'> | (() => Exclude<Overflow, 'dropLowest'>);
  /** Called with every item that is dropped for want of room, and why. @defaultValue none */
  readonly onDrop?: (item: T, policy: 'dropOldest' | 'dropNewest' | 'latest') => void;
  /**
   * What an error of the source does to what waits: `'flush'` hands it on as the limiter admits it and errors then, `'abort'` drops it
   * and errors at once. @defaultValue 'abort'
   */
  readonly onSourceError?: 'flush' | 'abort';
  /** Listener for dropped items (`dropped`) and items that still waited when the stream was unsubscribed from (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

const NAME = 'rateLimit';

/**
 * Hands on each item when the limiter admits it, in order.
 *
 * ```text marbles/rateLimit
 * source  -abc-------d--|
 *         limiter = createLimiter({ rates: [perMinute('requests', 15000, { burst: 1 })] }), rateLimit(limiter)
 * result  -a---b---c---d|
 * ```
 *
 * - **Emits when** the limiter grants a permit for the oldest item: at once when nothing is in the way. The permit is given back as soon as
 *   the consumer has returned, so a slot is held only while an item is handed on.
 * - **Holds at most** `maxQueued` items. Together they have one place in the limiter's queue, among the waiting jobs of other callers.
 * - **Drops** what `overflow` says; every dropped item is reported to `onDrop` and as an event.
 * - **Completes when** the source has completed and nothing waits any more.
 * - **Errors when** the source errors (with `onSourceError: 'flush'` after the waiting items); with `OverflowError` when there is no room under
 *   `overflow: 'error'`; with `ItemTooHeavyError` when an item can never be paid and the limiter does not lend; with `CallbackError` when `cost` or
 *   `onDrop` throws or returns something unusable; and with `ClosedError` when the limiter is closed or cleared.
 * - **On unsubscribe** waiting items are dropped, and the place in the limiter's queue is freed. Nothing was charged for it.
 *
 * @stable
 * @param limiter - Made by {@link createLimiter}, and shared by all calls that use up the same limits.
 * @param cost - What an item takes, or how to tell: asked once for each item, when its turn comes. One request and no tokens by default.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the limiter is none, or the cost or an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { createLimiter, perMinute, rateLimit } from 'sluice/operators';
 *
 * const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
 * const seen: string[] = [];
 * const subscription = of('to be', 'or not to be', 'that')
 *   .pipe(rateLimit(limiter, (text) => ({ tokens: 10 * text.length })))
 *   .subscribe((text) => seen.push(text));
 * seen; // => ['to be']
 * limiter.snapshot().heldByRate; // => 1
 * subscription.unsubscribe();
 * ```
 * @see {@link bulkheadMap} and {@link batchMap} with a `limiter` when items are calls: they hold the permit while the call runs.
 */
export function rateLimit<T>(
  limiter: Limiter,
  cost: Cost | ((item: T) => Cost) = {},
  options: RateLimitOptions<T> = {},
): MonoTypeOperatorFunction<T> {
  const settings = readSettings(limiter, cost, options);
  return (source) =>
    new Observable((subscriber) => {
      new Queue(settings, subscriber).listen(source);
    });
}

type Settings<T> = ReturnType<typeof readSettings<T>>;

function readSettings<T>(limiter: Limiter, cost: Cost | ((item: T) => Cost), options: RateLimitOptions<T>) {
  const settings = checked(NAME, options, RATE_LIMIT, {
    lane: unchecked,
    maxQueued: asked(countFromZero, RATE_LIMIT.maxQueued),
    overflow: asked(oneOf('error', 'dropOldest', 'dropNewest', 'latest'), 'error'),
    onDrop: callback,
    onSourceError: oneOf('flush', 'abort'),
    onEvent: listener,
  });
  requiredLimiter(NAME, 'limiter', limiter);
  const lane = laneOption(NAME, 'lane', settings.lane, limiter);
  // It is one of ours.
  const own = limiter as unknown as FlowLimiter;
  const { onEvent } = settings;
  const tell =
    onEvent &&
    ((note: Note): void => {
      onEvent({ ...note, operator: NAME });
    });
  const position = laneAt(NAME, own.settings.queue, lane);
  const bounds = boundsOf(settings);
  return {
    ...settings,
    operator: NAME,
    tell,
    bounds,
    limiter: own,
    lane,
    position,
    cost: typeof cost === 'function' ? cost : chargeIn(own, cost),
  };
}

/** @throws FlowConfigError */
function chargeIn(limiter: FlowLimiter, cost: Cost): Charge {
  if ((cost as unknown) === undefined) throw new FlowConfigError(NAME, 'cost', 'an object', cost);
  return chargeOf(NAME, cost, (unit) => limiter.counts(unit), '');
}

/** What waits in one subscription, and its place in the limiter's queue. */
class Queue<T> extends Gate<T, T, Settings<T>> implements Bidder {
  readonly #queued = new Backlog<T>();
  /** How many were taken out of it. */
  #gone = 0;
  /** What the oldest costs, once it was asked for. */
  #charge: Charge | undefined;
  /** Whether it has a place in the limiter's queue, or is being given one. */
  #isWaiting = false;
  /** The last it had. */
  #place: Place | undefined;
  /** The permit of the oldest item. */
  #lease: Lease | undefined;

  get length(): number {
    return this.#queued.length;
  }

  push(item: T): void {
    this.#queued.push(item);
  }

  shift(): T {
    this.#gone++;
    this.#charge = undefined;
    return this.#queued.shift() as T;
  }

  override next(item: T): void {
    // Where nothing may wait.
    const refused = this.length === 0 ? refusal(this.settings.bounds, 0) : undefined;
    super.next(item);
    if (this.isEmitting || this.length === 0 || refused === undefined) return;
    // It was not admitted at once.
    const turnedAway = this.shift();
    this.clear();
    this.#overflow(turnedAway, refused);
  }

  override error(error: unknown): void {
    if (this.settings.onSourceError === 'abort') this.to.error(error);
    else super.error(error);
  }

  /** @throws OverflowError, or CallbackError when `onDrop` throws */
  protected add(item: T): void {
    const refused = refusal(this.settings.bounds, this.length);
    // Where nothing may wait, it waits until the limiter has been asked.
    if (refused === undefined || (this.length === 0 && !this.isEmitting)) this.push(item);
    else this.#overflow(item, refused);
  }

  protected isOpen(): boolean {
    if (!this.#lease && !this.#isWaiting) this.#request();
    return this.#lease !== undefined;
  }

  protected handOn(): void {
    const lease = this.#lease;
    this.#lease = undefined;
    this.to.next(this.shift());
    lease?.release();
  }

  protected clear(): void {
    this.#queued.clear();
    this.#isWaiting = false;
    this.#place?.withdraw();
    this.#lease?.release('unused');
  }

  // ---- what the limiter asks and says -------------------------------------------------------------------------------

  get requests(): number {
    return (this.#charge ?? ONE_REQUEST).requests;
  }

  get units(): Readonly<Record<string, number>> | undefined {
    const { slots, others, tokens } = this.#charge ?? ONE_REQUEST;
    return others || slots !== 1 ? { ...others, slots, tokens } : undefined;
  }

  /** @throws CallbackError, ItemTooHeavyError */
  bid(): number | undefined {
    const charge = this.#price();
    if (!charge) return undefined;
    const refusal = this.settings.limiter.grants.refusal(charge, this.settings.position);
    if (isFlowError(refusal, 'FLOW_ITEM_TOO_HEAVY')) throw new ItemTooHeavyError(NAME, refusal.weight, refusal.maxWeight, refusal.unit);
    return charge.tokens;
  }

  granted(lease: Lease): void {
    this.#isWaiting = false;
    this.#lease = lease;
    this.drain();
  }

  refused(error: unknown): void {
    // The limiter wraps what `bid` throws.
    this.to.error(isFlowError(error, 'FLOW_CALLBACK') ? error.cause : error);
  }

  /** Asks for a permit for the oldest item. Takes a place in the queue only when the item has to wait. @throws CallbackError */
  #request(): void {
    const { lane, limiter, position } = this.settings;
    const charge = this.#price();
    if (!charge) return;
    this.#lease = limiter.grants.tryGrant(charge, position);
    if (this.#lease) return;
    this.#isWaiting = true;
    this.#place = limiter.enlist(this, lane);
    // The consumer may have left before there was a place to leave.
    if (this.to.closed) this.#place.withdraw();
  }

  /** What the oldest item costs; undefined when the consumer has left. @throws CallbackError */
  #price(): Charge | undefined {
    const { cost, limiter } = this.settings;
    while (!this.#charge && this.length > 0 && !this.to.closed) {
      const before = this.#gone;
      const charge = typeof cost === 'function' ? askedCost(limiter, cost, this.#queued.peek() as T) : cost;
      // What `cost` sends in may push it out.
      if (before === this.#gone) this.#charge = charge;
    }
    return this.to.closed ? undefined : this.#charge;
  }

  /** Takes the item in place of others, or drops it. @throws OverflowError, or CallbackError when `onDrop` throws */
  #overflow(item: T, refused: Refusal): void {
    const { cost } = this.settings;
    if (refused.policy === 'error') throw overflowed(NAME, refused);
    this.drop(pushEvicting(this, item, refused), refused.policy);
    if (this.#isWaiting && typeof cost === 'function' && !this.#charge) this.#place?.poke();
  }
}

/** @throws CallbackError */
function askedCost<T>(limiter: FlowLimiter, cost: (item: T) => Cost, item: T): Charge {
  const answer = ask(NAME, 'cost', cost, item);
  try {
    return chargeIn(limiter, answer);
  } catch {
    throw new CallbackError(
      NAME,
      'cost',
      'must return `requests`, `tokens` and units that the limiter counts, each left out or a finite number >= 0',
    );
  }
}
