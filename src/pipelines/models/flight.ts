import type { Observable, SchedulerLike, Subscriber } from 'rxjs';
import { defer } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { isFlowError } from '../../../operators/index.js';
import type { StoreHost } from './cache-step.js';
import { CacheStep, storeStep } from './cache-step.js';
import type { AnswerStorage, ModelEntry } from './cache-types.js';
import type { Inquiry } from './model-call.js';
import { NAME } from './name.js';

/** One caller. Owns its inquiry until it joins another caller's request. */
export interface Asker {
  inquiry: Inquiry;
}

/** A caller that waits for an answer. */
export interface Member {
  readonly asker: Asker;
  readonly lane: string;
  /** When it is cut off, on the model caller's clock. */
  readonly endsAt: number;
  /** Makes the call, when it is this caller's. */
  readonly make: (inquiry: Inquiry) => Observable<unknown>;
  readonly to: Subscriber<unknown>;
  /** Its call is made in this context. */
  readonly context: AsyncContext;
}

/** What a flight needs of the cache it belongs to. */
export interface FlightHost extends StoreHost {
  readonly scheduler: SchedulerLike;
  readonly store: AnswerStorage<unknown>;
  readonly ttlMs: number;
  isMoreUrgent(lane: string, than: string): boolean;
  hit(lane: string): void;
  over(flight: Flight): void;
  /** Joins again a caller whose deadline has not passed. */
  join(key: string, member: Member): void;
}

/** One answer for all callers of a key at the same time: looked up, or else fetched by a call, then stored. It is cancelled when its last caller leaves. */
export class Flight {
  readonly key: string;
  readonly inquiry: Inquiry;
  /** The answer, while it is being stored. */
  entry: ModelEntry<unknown> | undefined = undefined;
  isLookingUp = true;
  isOver = false;
  /** The answer is for the callers that wait now, not for later ones. */
  isForgotten = false;
  readonly #host: FlightHost;
  readonly #members = new Set<Member>();
  /** The caller whose call it is. */
  #first: Member;
  #step: { stop(): void } | undefined = undefined;

  constructor(host: FlightHost, key: string, first: Member) {
    this.#host = host;
    this.key = key;
    this.inquiry = first.asker.inquiry;
    this.#first = first;
  }

  start(): void {
    this.add(this.#first);
    const { store } = this.#host;
    const found = (entry: unknown): void => {
      const usable = this.#usable(entry);
      if (usable === undefined) this.#call();
      else {
        this.#host.hit(this.inquiry.lane);
        this.#end((to) => {
          answer(to, usable.value);
        });
      }
    };
    const lookUp = storeStep<unknown>(
      this.#host,
      'get',
      () => store.get(this.key),
      found,
      () => {
        this.#call();
      },
    );
    this.#step = lookUp;
    lookUp.start();
  }

  add(member: Member): void {
    const { to, lane } = member;
    if (this.entry) {
      answer(to, this.entry.value);
      return;
    }
    this.#members.add(member);
    to.add(() => {
      if (!this.#members.delete(member) || this.#members.size > 0) return;
      this.inquiry.endsAt = member.endsAt;
      this.stop();
    });
    if (!this.#host.isMoreUrgent(lane, this.inquiry.lane)) return;
    this.inquiry.lane = lane;
    // It waits in a lower lane: it is not what the more urgent one is to wait for.
    if (this.isLookingUp || this.inquiry.sent > 0) return;
    this.#first = member;
    this.#call();
  }

  /** No caller waits for it any more. */
  stop(): void {
    if (this.isOver) return;
    // Those are being answered; the store is waited for no longer.
    if (this.#members.size > 0) {
      this.isForgotten = true;
      return;
    }
    this.isOver = true;
    this.#step?.stop();
    this.#host.over(this);
  }

  #call(): void {
    // A listener that was told of the store's failure may have left.
    if (this.isOver) return;
    this.isLookingUp = false;
    this.#step?.stop();
    const step = new CacheStep(
      defer(() => this.#first.make(this.inquiry)),
      (value, isEmpty) => {
        if (isEmpty) {
          this.#end((to) => {
            to.complete();
          });
        } else this.#answered(value);
      },
      (error) => {
        this.#failed(error);
      },
    );
    this.#step = step;
    this.#first.context.run(() => {
      step.start();
    }, undefined);
  }

  #answered(value: unknown): void {
    const { store, ttlMs, scheduler } = this.#host;
    const entry = { value, expiresAt: ttlMs === Infinity ? null : scheduler.now() + ttlMs };
    const members = this.#take();
    if (this.isForgotten) this.stop();
    else {
      this.entry = entry;
      const stored = (): void => {
        this.stop();
      };
      const storing = storeStep<unknown>(this.#host, 'set', () => store.set(this.key, entry), stored, stored);
      this.#step = storing;
      storing.start();
    }
    for (const { to } of members) answer(to, value);
  }

  #failed(error: unknown): void {
    const isLate = isFlowError(error, 'FLOW_DEADLINE') && error.operator === NAME;
    const first = this.#first;
    const members = this.#take();
    this.stop();
    // The deadline was that of the one whose call it was; others may have come later.
    for (const member of members) {
      if (!isLate || member === first) member.to.error(error);
      else if (!member.to.closed) this.#host.join(this.key, member);
    }
  }

  #end(tell: (to: Subscriber<unknown>) => void): void {
    const members = this.#take();
    this.stop();
    for (const { to } of members) tell(to);
  }

  #take(): readonly Member[] {
    const members = [...this.#members];
    this.#members.clear();
    return members;
  }

  /** What a store has given back: maybe by way of JSON, maybe from an older version. */
  #usable(entry: unknown): ModelEntry<unknown> | undefined {
    if (typeof entry !== 'object' || entry === null || !('value' in entry)) return undefined;
    const { expiresAt } = entry as ModelEntry<unknown>;
    return expiresAt === null || expiresAt > this.#host.scheduler.now() ? (entry as ModelEntry<unknown>) : undefined;
  }
}

function answer(to: Subscriber<unknown>, value: unknown): void {
  to.next(value);
  to.complete();
}
