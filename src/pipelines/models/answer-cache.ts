import QuickLRU from 'quick-lru';
import type { SchedulerLike } from 'rxjs';
import { defer, Observable } from 'rxjs';
import { captureContext } from '#async-context';
import type { teller } from '../../../operators/build.js';
import { ask, check } from '../../../operators/build.js';
import type { Policy } from '../../../operators/index.js';
import { FlowConfigError, policy } from '../../../operators/index.js';
import type { StoreAction } from './cache-step.js';
import { storeStep } from './cache-step.js';
import type { AnswerStorage, ModelCacheOptions, ModelEntry } from './cache-types.js';
import type { Asker, FlightHost, Member } from './flight.js';
import { Flight } from './flight.js';
import { NAME } from './name.js';

/** What a cache needs of the caller it belongs to. */
export interface CacheHost {
  readonly scheduler: SchedulerLike;
  now(): number;
  /** Longest that a caller may wait for an answer, in ms. */
  readonly patienceMs: number;
  /** Whether calls of the one lane go before those of the other. */
  isMoreUrgent(lane: string, than: string): boolean;
  readonly tell: NonNullable<ReturnType<typeof teller>>;
  /** Something is over. */
  rested(): void;
}

/**
 * The value of `cache` of `createModelCaller`.
 * @beta
 */
export interface AnswerCaching<Q> {
  /** The answers of one model caller. */
  open(host: CacheHost): Answers<Q>;
}

/** What a model caller needs of its cache. */
export interface Answers<Q> {
  /** Requests that wait for the store. */
  readonly lookingUp: number;
  readonly isBusy: boolean;
  keyOf(request: Q): string | undefined;
  answer<P>(key: string, asker: Asker, make: (inquiry: Asker['inquiry']) => Observable<P>): Observable<P>;
  forget(key: string): void;
  close(): void;
}

/** Answers that a cache in memory keeps at least; it keeps twice as many at most. */
const ENTRIES = 1000;

/**
 * Answers for requests that were asked before, or are being asked: requests of equal keys share one. Errors are not kept.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { answerCache, createModelCaller } from 'sluice';
 *
 * let sent = 0;
 * const models = createModelCaller({ call: async (question: string) => `${++sent}: ${question}`, cache: answerCache({ key: (question: string) => question }) });
 * [await models.callAsync('why?'), await models.callAsync('why?')]; // => ['1: why?', '1: why?']
 * ```
 */
export function answerCache<Q, P>(options: ModelCacheOptions<Q, P>): AnswerCaching<Q> {
  const rules = check.options(
    'answerCache',
    options,
    { ttlMs: Infinity, timeoutMs: 1000 },
    { key: check.requiredFunction, ttlMs: check.positive, timeoutMs: check.positive, storage: storageOption<P> },
  ) as unknown as CacheRules<Q>;
  return { open: (host) => new AnswerCache<Q>(rules, host) };
}

function storageOption<P>(
  operator: string,
  option: string,
  storage: AnswerStorage<P> = new QuickLRU<string, ModelEntry<P>>({ maxSize: ENTRIES }),
): AnswerStorage<P> {
  const { get, set, delete: forget } = Object(storage) as Partial<AnswerStorage<P>>;
  if ([get, set, forget].every((method) => typeof method === 'function')) return storage;
  throw new FlowConfigError(operator, option, 'an object with `get`, `set` and `delete`', storage);
}

interface CacheRules<Q> {
  readonly key: (request: Q) => string | undefined;
  readonly ttlMs: number;
  readonly storage: AnswerStorage<unknown>;
  readonly timeoutMs: number;
}

class AnswerCache<Q> implements Answers<Q>, FlightHost {
  readonly scheduler: SchedulerLike;
  readonly store: AnswerStorage<unknown>;
  readonly ttlMs: number;
  readonly asking: Policy;
  readonly #keyOf: (request: Q) => string | undefined;
  readonly #host: CacheHost;
  /** Around each caller: its deadline. */
  readonly #limited: Policy;
  /** What the next caller that asks for a key may share. */
  readonly #flights = new Map<string, Flight>();
  /** What else is under way: flights that were forgotten, and the store being told to forget. */
  readonly #others = new Set<{ stop(): void }>();

  constructor({ key, ttlMs, storage, timeoutMs }: CacheRules<Q>, host: CacheHost) {
    this.#keyOf = key;
    this.ttlMs = ttlMs;
    this.store = storage;
    this.#host = host;
    this.scheduler = host.scheduler;
    this.asking = policy({ operator: NAME, timeoutMs, scheduler: host.scheduler });
    this.#limited = policy({ operator: NAME, timeoutMs: Infinity, scheduler: host.scheduler });
  }

  get isBusy(): boolean {
    return this.#flights.size + this.#others.size > 0;
  }

  /** Requests that wait for the store. */
  get lookingUp(): number {
    return [...this.#flights.values()].filter(({ isLookingUp }) => isLookingUp).length;
  }

  /** @throws CallbackError */
  keyOf(request: Q): string | undefined {
    const key: unknown = ask(NAME, 'cache.key', this.#keyOf, request);
    if (key === undefined || typeof key === 'string') return key;
    throw check.unusable(NAME, 'cache.key', 'a string or undefined', key);
  }

  /** The answer of the key: what the store has, that of a call under way, or else that of a call of its own. */
  answer<P>(key: string, asker: Asker, make: (inquiry: Asker['inquiry']) => Observable<P>): Observable<P> {
    return defer(() => {
      const { lane, endsAt: asked } = asker.inquiry;
      const startedAt = this.#host.now();
      const endsAt = Math.min(asked, startedAt + this.#host.patienceMs);
      const context = captureContext();
      const joined = new Observable<unknown>((to) => {
        this.join(key, { asker, lane, endsAt, make, to, context });
      });
      return endsAt === Infinity ? joined : this.#limited(() => joined, { deadlineMs: endsAt - startedAt });
    }) as Observable<P>;
  }

  /** Waiting callers get the answer that is under way; the next request makes a call. */
  forget(key: string): void {
    const flight = this.#flights.get(key);
    if (flight) {
      flight.isForgotten = true;
      this.#flights.delete(key);
      this.#others.add(flight);
    }
    const over = (): void => {
      this.#others.delete(telling);
      this.#host.rested();
    };
    const telling = storeStep<unknown>(this, 'delete', () => this.store.delete(key), over, over);
    this.#others.add(telling);
    telling.start();
  }

  /** Whatever the store is still doing. */
  close(): void {
    for (const each of [...this.#flights.values(), ...this.#others]) each.stop();
    this.#others.clear();
  }

  // ---- what flights need of it ----------------------------------------------------------------------------------------

  join(key: string, member: Member): void {
    const { asker, lane, to } = member;
    const known = this.#flights.get(key);
    if (known === undefined) {
      const flight = new Flight(this, key, member);
      this.#flights.set(key, flight);
      flight.start();
      return;
    }
    asker.inquiry = known.inquiry;
    this.#told(known.entry ? 'hit' : 'shared', lane);
    // A listener may have made this caller or the others leave.
    if (to.closed) return;
    if (known.isOver) this.join(key, member);
    else known.add(member);
  }

  isMoreUrgent(lane: string, than: string): boolean {
    return this.#host.isMoreUrgent(lane, than);
  }

  hit(lane: string): void {
    this.#told('hit', lane);
  }

  storeFailed(action: StoreAction): void {
    this.#host.tell({ type: 'storeFailed', action });
  }

  over(flight: Flight): void {
    if (this.#flights.get(flight.key) === flight) this.#flights.delete(flight.key);
    this.#others.delete(flight);
    this.#host.rested();
  }

  #told(outcome: 'hit' | 'shared', lane: string): void {
    this.#host.tell({ type: 'cached', lane, outcome });
  }
}
