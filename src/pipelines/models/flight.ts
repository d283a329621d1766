import type { Observable, Subscriber } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { isFlowError } from '../../../operators/errors.js';
import { Call } from '../../../operators/toolkit.js';
import type { WorkResult } from '../../../operators/types.js';
import type { Inquiry } from './inquiry.js';
import type { AnswerStorage, ModelEntry } from './model-types.js';
import { NAME } from './name.js';
import type { StoreHost } from './store-step.js';
import { StoreStep } from './store-step.js';

/** Somebody who asks: what is done for him is his own inquiry, until he shares that of another. */
export interface Asker {
  inquiry: Inquiry;
}

/** An asker on the way to his answer. */
export interface Member<P> {
  readonly asker: Asker;
  readonly lane: string;
  /** When he is cut off, on the caller's clock. */
  readonly endsAt: number;
  /** Makes the call, when it is his. */
  readonly make: (inquiry: Inquiry) => Observable<P>;
  readonly to: Subscriber<P>;
  /** A call of his is made in it. */
  readonly context: AsyncContext;
}

/** What a flight needs of the cache it belongs to. */
export interface FlightHost<P> extends StoreHost {
  readonly store: AnswerStorage<P>;
  readonly ttlMs: number;
  isMoreUrgent(lane: string, than: string): boolean;
  hit(lane: string): void;
  over(flight: Flight<P>): void;
  /** Once more for somebody whose time is not up. */
  join(key: string, member: Member<P>): void;
}

/** Making the call. */
class CallStep<P> extends Call<P> {
  constructor(
    readonly work: () => WorkResult<P>,
    readonly done: (value: P, isEmpty: boolean) => void,
    readonly failed: (error: unknown) => void,
  ) {
    super();
  }
}

/** One answer for all who ask for a key at the same time: looked up, or else called for, then stored. It is given up with the last who waits. */
export class Flight<P> {
  readonly key: string;
  readonly inquiry: Inquiry;
  /** The answer, while it is being stored. */
  entry: ModelEntry<P> | undefined = undefined;
  isLookingUp = true;
  isOver = false;
  /** The answer is for those who wait, and nobody later. */
  isForgotten = false;
  readonly #host: FlightHost<P>;
  readonly #members = new Set<Member<P>>();
  /** Whose call it is. */
  #first: Member<P>;
  #step: { stop(): void } | undefined = undefined;

  constructor(host: FlightHost<P>, key: string, first: Member<P>) {
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
    const lookUp = new StoreStep<unknown>(
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

  add(member: Member<P>): void {
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

  /** Nobody waits for it any more. */
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
    // Whoever was told of the store's fault may have left.
    if (this.isOver) return;
    this.isLookingUp = false;
    this.#step?.stop();
    const step = new CallStep<P>(
      () => this.#first.make(this.inquiry),
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
    step.begin(this.#first.context);
  }

  #answered(value: P): void {
    const { store, ttlMs, scheduler } = this.#host;
    const entry = { value, expiresAt: ttlMs === Infinity ? null : scheduler.now() + ttlMs };
    const members = this.#take();
    if (this.isForgotten) this.stop();
    else {
      this.entry = entry;
      const stored = (): void => {
        this.stop();
      };
      const storing = new StoreStep<unknown>(this.#host, 'set', () => store.set(this.key, entry), stored, stored);
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

  #end(tell: (to: Subscriber<P>) => void): void {
    const members = this.#take();
    this.stop();
    for (const { to } of members) tell(to);
  }

  #take(): readonly Member<P>[] {
    const members = [...this.#members];
    this.#members.clear();
    return members;
  }

  /** What a store has given back: maybe by way of JSON, maybe from an older version. */
  #usable(entry: unknown): ModelEntry<P> | undefined {
    if (typeof entry !== 'object' || entry === null || !('value' in entry)) return undefined;
    const { expiresAt } = entry as ModelEntry<P>;
    return expiresAt === null || expiresAt > this.#host.scheduler.now() ? (entry as ModelEntry<P>) : undefined;
  }
}

function answer<P>(to: Subscriber<P>, value: P): void {
  to.next(value);
  to.complete();
}
