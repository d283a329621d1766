import type { SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { DeadlineError } from '../../../operators/errors.js';
import { Alarm, ask, unusable } from '../../../operators/toolkit.js';
import type { FlowEvent } from '../../../operators/types.js';
import type { Asker, FlightHost, Member } from './flight.js';
import { Flight } from './flight.js';
import type { AnswerStorage } from './model-types.js';
import { NAME } from './name.js';
import type { StoreAction } from './store-step.js';
import { StoreStep } from './store-step.js';

/** The `cache` option, checked and with its defaults. */
export interface CacheRules<Q, P> {
  readonly key: (request: Q) => string | undefined;
  readonly ttlMs: number;
  readonly store: AnswerStorage<P>;
  readonly timeoutMs: number;
}

/** What a cache needs of the caller it belongs to. */
export interface CacheHost {
  readonly scheduler: SchedulerLike;
  now(): number;
  /** Longest anybody may wait for an answer, in ms. */
  readonly patienceMs: number;
  /** Whether calls of the one lane go before those of the other. */
  isMoreUrgent(lane: string, than: string): boolean;
  tell(event: FlowEvent): void;
  /** Something is over. */
  rested(): void;
}

/** Answers that are known or on their way: requests of equal keys share one. Errors are not kept. */
export class AnswerCache<Q, P> implements FlightHost<P> {
  readonly scheduler: SchedulerLike;
  readonly store: AnswerStorage<P>;
  readonly ttlMs: number;
  readonly timeoutMs: number;
  readonly #keyOf: (request: Q) => string | undefined;
  readonly #host: CacheHost;
  /** What the next one who asks for a key may share. */
  readonly #flights = new Map<string, Flight<P>>();
  /** What else is under way: flights that were forgotten, and the store being told to forget. */
  readonly #others = new Set<{ stop(): void }>();

  constructor({ key, ttlMs, store, timeoutMs }: CacheRules<Q, P>, host: CacheHost) {
    this.#keyOf = key;
    this.ttlMs = ttlMs;
    this.store = store;
    this.timeoutMs = timeoutMs;
    this.#host = host;
    this.scheduler = host.scheduler;
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
    throw unusable(NAME, 'cache.key', 'a string or undefined', key);
  }

  /** The answer of the key: what the store has, that of a call under way, or else that of a call of his own. */
  answer(key: string, asker: Asker, make: Member<P>['make']): Observable<P> {
    return new Observable((to) => {
      const { patienceMs } = this.#host;
      const { lane, endsAt } = asker.inquiry;
      const startedAt = this.#host.now();
      this.join(key, { asker, lane, endsAt: Math.min(endsAt, startedAt + patienceMs), make, to, context: captureContext() });
      if (patienceMs === Infinity || to.closed) return;
      const alarm = new Alarm(this.scheduler, () => {
        to.error(new DeadlineError(NAME, patienceMs, this.#host.now() - startedAt));
      });
      to.add(() => {
        alarm.clear();
      });
      alarm.set(alarm.now() + patienceMs);
    });
  }

  /** Whoever waits has the answer that is under way; the next one who asks has a call made. */
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
    const telling = new StoreStep<unknown>(this, 'delete', () => this.store.delete(key), over, over);
    this.#others.add(telling);
    telling.start();
  }

  /** Whatever the store is still doing. */
  close(): void {
    for (const each of [...this.#flights.values(), ...this.#others]) each.stop();
    this.#others.clear();
  }

  // ---- what flights need of it ----------------------------------------------------------------------------------------

  join(key: string, member: Member<P>): void {
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
    // Whoever was told may have left, or made the others leave.
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
    this.#host.tell({ type: 'storeFailed', operator: NAME, action });
  }

  over(flight: Flight<P>): void {
    if (this.#flights.get(flight.key) === flight) this.#flights.delete(flight.key);
    this.#others.delete(flight);
    this.#host.rested();
  }

  #told(outcome: 'hit' | 'shared', lane: string): void {
    this.#host.tell({ type: 'cached', operator: NAME, lane, outcome });
  }
}
