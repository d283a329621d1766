import type { SchedulerLike, Subscriber, Subscription } from 'rxjs';
import { defaultIfEmpty, defer, map, Observable, retry, take, tap, throwError, timeout, timer } from 'rxjs';
import { captureContext } from '#async-context';
import type {
  Credit,
  CreditCorrection,
  CreditLimit,
  CreditQuestion,
  CreditStore,
  CreditWait,
  WorkResult,
} from '../../../operators/index.js';
import { resultOf } from './reserving.js';

/** A store that has not answered after so long does not answer. */
const ANSWER_MS = 2000;
/** Pauses before the next try while a store is down. */
const FIRST_BACKOFF_MS = 50;
const MOST_BACKOFF_MS = 500;
/** A store forgets owners that are silent. */
const ASK_AGAIN_MS = 500;
/** Corrections are collected for so long. */
const CORRECT_AFTER_MS = 100;
/** For so long a question is asked again that a call has left: it may have been granted, and then goes back. Later it is asked before the next call. */
const RECOVER_MS = 10_000;
/** How long corrections are sent to a store that does not answer. After that they are sent as soon as it answers. */
const CORRECT_MS = 60_000;
/** Credit is spent at once: it need not be good for long. */
const GUARD_MS = 20;
/** The window of a limit that never begins anew. */
const FOREVER_MS = 1e15;
/** Amounts are whole; what a store answers may be sums of fractions. */
const ROUNDING = 1e-3;

/** One limit of a budget, in whole numbers. */
export interface ShareLimit {
  /** The same in all processes. */
  readonly key: string;
  readonly amount: number;
  readonly windowMs: number;
}

/** What a call takes of one limit. */
export interface ShareCost {
  /** Of the limit. */
  readonly position: number;
  readonly cost: number;
  /** What the call leaves to more urgent ones. */
  readonly kept: number;
}

/** Events of a store, and the errors of its calls. */
export interface ShareListener {
  storeDown(): void;
  storeUp(): void;
  /** So much is left of a limit. */
  heard(position: number, left: number): void;
  /** The error of a call for which these limits have no room for so long. */
  refused(full: readonly ShareCost[], waitMs: number): Error;
}

/** A call that waits for its answer. */
interface Asked {
  readonly costs: readonly ShareCost[];
  readonly answer: (credit: number) => void;
  readonly fail: (error: Error) => void;
  isOver: boolean;
  /** Asked again after corrections. */
  isSecond: boolean;
}

/** A question that has no answer yet. The call that it was asked for may have left since; a question that asks for nothing has none. */
interface OpenQuestion {
  readonly question: CreditQuestion;
  readonly asked: Asked | undefined;
}

/** The limits of a budget at a store: takes what each call costs, one question at a time, and tells what it has cost in the end. */
export class BudgetShare {
  readonly #store: CreditStore;
  readonly #about: { readonly scope: string; readonly owner: string; readonly guardMs: number };
  readonly #limits: readonly CreditLimit[];
  readonly #scheduler: SchedulerLike;
  readonly #listener: ShareListener;
  readonly #waiting: Asked[] = [];
  #number = 0;
  /** Stays open when the store does not answer: it may have been granted, so it is asked again before any other. */
  #open: OpenQuestion | undefined;
  #isAsking = false;
  #isPausing = false;
  #isDown = false;
  #unsent = new Map<number, CreditCorrection & { readonly amounts: number[] }>();
  /** What the store may not have heard: told again under the same number, so that it is booked once. */
  #unheard: { readonly number: number; readonly corrections: readonly CreditCorrection[] } | undefined;
  #corrected = 0;
  #isCorrecting = false;
  #correctTimer: Subscription | undefined;
  /** A question waits for the corrections. */
  #asksAfterwards = false;

  constructor(store: CreditStore, scope: string, limits: readonly ShareLimit[], scheduler: SchedulerLike, listener: ShareListener) {
    this.#store = store;
    this.#about = { scope, owner: randomPart() + randomPart(), guardMs: GUARD_MS };
    this.#limits = limits.map(({ amount, key, windowMs }, column) => ({
      ...{ key, column, amount: Math.max(1, amount), fromLane: 0 },
      ...(windowMs === Infinity ? { windowMs: FOREVER_MS, endsInMs: FOREVER_MS } : { windowMs }),
    }));
    this.#scheduler = scheduler;
    this.#listener = listener;
  }

  /** Emits the credit that has paid for a call. Fails when there is no room. */
  take(costs: readonly ShareCost[]): Observable<number> {
    return new Observable((subscriber) => {
      const asked = askedBy(subscriber, costs);
      this.#waiting.push(asked);
      subscriber.add(() => {
        this.#over(asked);
      });
      this.#askNext();
    });
  }

  /** A call that was paid with this credit has cost so much more of a limit or, below 0, less. */
  correct(credit: number, position: number, delta: number): void {
    const correction = this.#unsent.get(credit) ?? { credit, lane: 0, amounts: this.#limits.map(() => 0) };
    correction.amounts[position] = (correction.amounts[position] as number) + delta;
    this.#unsent.set(credit, correction);
    this.#correctLater();
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  #askNext(): void {
    if (this.#isAsking || this.#isPausing) return;
    const [asked] = this.#waiting;
    if (asked) this.#open ??= { question: this.#question(asked.costs), asked };
    if (this.#open) this.#ask(this.#open);
  }

  #question(costs: readonly ShareCost[]): CreditQuestion {
    const least = this.#limits.map(() => 0);
    for (const { cost, position } of costs) least[position] = cost;
    const limits = costs.map(({ kept, position }) => {
      const limit = this.#limits[position] as CreditLimit;
      return { ...limit, amount: Math.max(1, limit.amount - kept) };
    });
    return { ...this.#about, number: ++this.#number, limits, lane: 0, floors: [0], least, most: least, epoch: 0 };
  }

  #ask(open: OpenQuestion): void {
    const { question } = open;
    this.#isAsking = true;
    const askedAt = this.#scheduler.now();
    const isWanted = (): boolean => this.#waiting.length > 0 || (open.asked !== undefined && this.#scheduler.now() < askedAt + RECOVER_MS);
    this.#answered(() => checked(this.#store.ask(question), question), isWanted).subscribe({
      next: (answer) => {
        // A listener that reserves waits for its turn.
        this.#tellLeft(answer, question);
        this.#isAsking = false;
        this.#open = undefined;
        if (open.asked) this.#end(open.asked, answer);
        this.#askNext();
      },
      error: () => {
        this.#isAsking = false;
      },
    });
  }

  #end(asked: Asked, answer: Credit | CreditWait): void {
    const { costs } = asked;
    if ('credit' in answer) {
      if (asked.isOver) for (const { cost, position } of costs) this.correct(answer.credit, position, -cost);
      else asked.answer(answer.credit);
      return;
    }
    if (asked.isOver) return;
    const full = costs.filter(({ cost, position }) => (answer.left[position] as number) < cost - ROUNDING);
    // There is room, but not yet: calls of other processes are first, or a state was lost.
    if (full.length === 0) this.#askAfter(Math.min(answer.waitMs, ASK_AGAIN_MS));
    else if (!asked.isSecond && (this.#unheard || this.#unsent.size > 0)) this.#askAgain(asked);
    else this.#refuse(asked, full, answer.waitMs);
  }

  #refuse(asked: Asked, full: readonly ShareCost[], waitMs: number): void {
    const { costs } = asked;
    this.#over(asked);
    // Other processes would let it go first as long as it seems to wait.
    if (this.#waiting.length === 0)
      this.#open = { question: this.#question(costs.map((each) => ({ ...each, cost: 0 }))), asked: undefined };
    asked.fail(this.#listener.refused(full, waitMs));
  }

  #over(asked: Asked): void {
    asked.isOver = true;
    const at = this.#waiting.indexOf(asked);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  #askAfter(ms: number): void {
    this.#isPausing = true;
    this.#scheduler.schedule(() => {
      this.#isPausing = false;
      this.#askNext();
    }, ms);
  }

  /** What calls of this process have given back may be what is missing: it is reported to the store first. */
  #askAgain(asked: Asked): void {
    asked.isSecond = true;
    this.#isPausing = this.#asksAfterwards = true;
    if (!this.#isCorrecting) this.#correct();
  }

  #tellLeft({ left }: Credit | CreditWait, { limits }: CreditQuestion): void {
    for (const { amount, column } of limits) {
      const kept = (this.#limits[column] as CreditLimit).amount - amount;
      this.#listener.heard(column, (left[column] as number) + kept);
    }
  }

  // ---- corrections -----------------------------------------------------------------------------------------------------

  #correctLater(): void {
    if (this.#isCorrecting || this.#correctTimer) return;
    this.#correctTimer = this.#scheduler.schedule(() => {
      this.#correct();
    }, CORRECT_AFTER_MS);
  }

  #correct(): void {
    this.#correctTimer?.unsubscribe();
    this.#correctTimer = undefined;
    this.#isCorrecting = true;
    if (!this.#unheard) {
      this.#unheard = { number: ++this.#corrected, corrections: [...this.#unsent.values()] };
      this.#unsent = new Map();
    }
    const { corrections, number } = this.#unheard;
    const told = { ...this.#about, number, corrections, limits: this.#limits };
    const sentAt = this.#scheduler.now();
    this.#answered(
      () => resultOf<unknown>(this.#store.correct(told)).pipe(defaultIfEmpty(undefined)),
      () => this.#scheduler.now() < sentAt + CORRECT_MS,
    ).subscribe({
      next: () => {
        this.#unheard = undefined;
        this.#correctionsEnded();
      },
      error: () => {
        this.#correctionsEnded();
      },
    });
  }

  /** The store has heard the corrections, or does not answer. */
  #correctionsEnded(): void {
    this.#isCorrecting = false;
    if (this.#unsent.size > 0 && !this.#isDown) this.#correctLater();
    if (!this.#asksAfterwards) return;
    this.#isPausing = this.#asksAfterwards = false;
    this.#askNext();
  }

  // ---- the store is there, or not --------------------------------------------------------------------------------------

  /** The answer of the store, asked for again as long as that is worth it. */
  #answered<A>(ask: () => Observable<A>, isWorthIt: () => boolean): Observable<A> {
    return defer(ask).pipe(
      take(1),
      timeout({ first: ANSWER_MS, scheduler: this.#scheduler }),
      tap(() => {
        this.#found();
      }),
      retry({
        delay: (error, tries) => {
          this.#lost();
          if (!isWorthIt()) return throwError(() => error as Error);
          return timer(Math.min(MOST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (tries - 1)), this.#scheduler);
        },
      }),
    );
  }

  #found(): void {
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#listener.storeUp();
    if (this.#unheard || this.#unsent.size > 0) this.#correctLater();
  }

  #lost(): void {
    if (this.#isDown) return;
    this.#isDown = true;
    this.#listener.storeDown();
  }
}

/** It is answered in the context of its call, not of the one whose answer came before. */
function askedBy(subscriber: Subscriber<number>, costs: readonly ShareCost[]): Asked {
  const context = captureContext();
  return {
    costs,
    isOver: false,
    isSecond: false,
    answer: (credit) => {
      context.run((paid: number) => {
        subscriber.next(paid);
        subscriber.complete();
      }, credit);
    },
    fail: (error) => {
      context.run((cause: Error) => {
        subscriber.error(cause);
      }, error);
    },
  };
}

/** What a store answers comes from outside. */
function checked(answer: WorkResult<Credit | CreditWait>, { least }: CreditQuestion): Observable<Credit | CreditWait> {
  return resultOf(answer).pipe(
    defaultIfEmpty(undefined),
    map((told) => {
      const { amounts = [], credit, left, waitMs } = Object(told) as Partial<Credit & CreditWait>;
      const isWhole = (): boolean => least.every((cost, position) => Math.abs((amounts[position] as number) - cost) < ROUNDING);
      const isAnswer = Number.isFinite(credit) ? isWhole() : (waitMs as number) > 0;
      if (Array.isArray(left) && isAnswer) return told as Credit | CreditWait;
      throw new TypeError('not an answer of a store of credit');
    }),
  );
}

function randomPart(): string {
  return Math.random().toString(36).slice(2, 12);
}
