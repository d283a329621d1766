import type { SchedulerLike, Subscriber } from 'rxjs';
import { EMPTY } from 'rxjs';
import { captureContext } from '#async-context';
import { isAmount, unusable } from '../../options/answers.js';
import { ask, verdictOf } from '../../options/ask.js';
import type { FlowSink } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { Classify, ErrorClass, Verdict, WorkResult } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import type { Lease, Limiter, LimiterJob } from '../limiting/limiter-types.js';
import type { HedgeStats } from './hedge-stats.js';
import { StoppableWork } from './stoppable-work.js';

const NAME = 'hedge';

/** What one attempt of a hedged call is told. */
export interface HedgeContext {
  /** Aborts when another attempt has won, a fatal error has ended the call, or nobody wants the result any more; not once it has answered. */
  readonly signal: AbortSignal;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
}

export type HedgeAttempt<R> = (attempt: number, context: HedgeContext) => WorkResult<R>;

export interface HedgeSettings<R> {
  readonly attempt: HedgeAttempt<R>;
  readonly delayMs: () => number;
  readonly maxHedges: number;
  readonly stats: HedgeStats;
  readonly limiter: Limiter | undefined;
  readonly job: LimiterJob | undefined;
  readonly budget: number;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly onEvent: FlowSink | undefined;
}

/** After these errors another attempt would fare no better, or do harm. */
const NO_MORE: ReadonlySet<ErrorClass> = new Set<ErrorClass>(['throttled', 'tooLarge', 'contract', 'cancelled']);

/** One hedged call. Attempts are started by one loop, so that work which fails at once does not recurse. */
export class Hedger<R> {
  readonly #settings: HedgeSettings<R>;
  readonly #to: Subscriber<R>;
  readonly #alarm: Alarm;
  /** Of whoever made the call: attempts begin in timers, and in calls of others that give a permit back. */
  readonly #context = captureContext();
  readonly #endCall: () => void;
  readonly #attempts: Attempt<R>[] = [];
  #running = 0;
  /** Whether another attempt may be started at all. */
  #mayHedge = true;
  /** Whether one is to be started now. */
  #due = true;
  #busy = false;
  #winner: Attempt<R> | undefined;

  constructor(settings: HedgeSettings<R>, to: Subscriber<R>) {
    this.#settings = settings;
    this.#to = to;
    this.#endCall = settings.stats.begin();
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#due = true;
      this.run();
    });
  }

  /** Starts what is due, and fails when nothing is left to wait for. */
  run(): void {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#due && this.#mayHedge && !this.#to.closed) this.#start();
    } catch (error) {
      this.#end(error);
    }
    this.#busy = false;
    if (this.#running === 0 && this.#winner === undefined && !this.#to.closed) this.#fail();
  }

  stop(): void {
    this.#endCall();
    this.#giveUp();
  }

  #giveUp(): void {
    this.#mayHedge = false;
    this.#alarm.clear();
    this.#cancelAllBut(undefined);
  }

  /** The attempt's work begins: the next one's time runs from here, not from when it joined the queue of the limiter. */
  began(attempt: Attempt<R>): void {
    attempt.startedAt = this.#alarm.now();
    if (!this.#mayHedge) return;
    if (attempt.patienceMs === 0) this.#due = true;
    else this.#alarm.set(attempt.startedAt + attempt.patienceMs);
    // A grant may come when the loop is long over.
    this.run();
  }

  value(attempt: Attempt<R>, value: R): void {
    this.#commit(attempt);
    this.#to.next(value);
  }

  done(attempt: Attempt<R>): void {
    // Over first: whoever hears of the losers may leave, and there is nothing of this one to give up.
    this.#over(attempt);
    this.#commit(attempt);
    this.#to.complete();
  }

  failed(attempt: Attempt<R>, error: unknown): void {
    this.#over(attempt);
    if (attempt === this.#winner) {
      this.#end(error);
      return;
    }
    const wasSent = attempt.startedAt !== undefined;
    if (!wasSent && attempt.index > 0) {
      // The limiter has no room for a hedge. That says nothing about the call.
      this.#mayHedge = false;
    } else {
      attempt.failure = { error };
      if (!this.#goesOnAfter(error)) return;
    }
    this.#alarm.clear();
    this.run();
  }

  /** Over before its consumer hears of the error: no permit that is freed there starts an attempt any more. */
  #end(error: unknown): void {
    this.#giveUp();
    this.#to.error(error);
  }

  /** False when the call has been ended by this error. */
  #goesOnAfter(error: unknown): boolean {
    let verdict: Verdict;
    try {
      verdict = verdictOf(NAME, this.#settings.classify, error, { size: 1, attempt: 1, aborted: false });
    } catch (thrown) {
      this.#end(thrown);
      return false;
    }
    // Another attempt has won while the classifier was asked, or nobody waits any more.
    if (this.#winner !== undefined || this.#to.closed) return false;
    if (verdict.class === 'fatal') {
      this.#end(error);
      return false;
    }
    const { retryAfterMs } = verdict;
    if (verdict.class === 'throttled' && retryAfterMs) this.#settings.limiter?.penalize(retryAfterMs);
    if (NO_MORE.has(verdict.class)) this.#mayHedge = false;
    else this.#due = true;
    return true;
  }

  /** @throws CallbackError of `delayMs` */
  #start(): void {
    const { limiter, job, attempt: work, maxHedges, stats, budget, onEvent } = this.#settings;
    this.#due = false;
    const index = this.#attempts.length;
    const patienceMs = index < maxHedges ? this.#delayMs() : Infinity;
    // The rule for the delay may have made the consumer leave.
    if (this.#to.closed) return;
    const attempt = new Attempt<R>(this, index, patienceMs);
    this.#mayHedge = index < maxHedges;
    const [first] = this.#attempts;
    if (first !== undefined && !stats.tryHedge(budget)) {
      this.#mayHedge = false;
      return;
    }
    this.#attempts.push(attempt);
    this.#running += 1;
    if (first !== undefined) {
      const now = this.#alarm.now();
      const afterMs = now - (first.startedAt ?? now);
      onEvent?.({ type: 'hedged', operator: NAME, lane: DEFAULT_LANE, attempt: index, afterMs });
      // A listener may have made the consumer leave, or another attempt answer.
      if (attempt.over) return;
    }
    const begin = (context: HedgeContext): WorkResult<R> => {
      if (!attempt.over) this.began(attempt);
      // The permit came while it was being given up, or the rule for the next delay has made the consumer leave.
      return attempt.over ? EMPTY : work(index, context);
    };
    this.#context.run(() => {
      attempt.start(() => (limiter ? limiter.run(begin, job) : begin(attempt)));
    }, undefined);
  }

  #delayMs(): number {
    const delayMs: unknown = ask(NAME, 'delayMs', this.#settings.delayMs);
    if (isAmount(delayMs)) return delayMs;
    throw unusable(NAME, 'delayMs', 'a number >= 0', delayMs);
  }

  /** The first to say something has won. */
  #commit(winner: Attempt<R>): void {
    if (this.#winner !== undefined) return;
    this.#winner = winner;
    this.#mayHedge = false;
    this.#alarm.clear();
    const now = this.#alarm.now();
    for (const attempt of this.#attempts.slice(0, winner.index + 1)) {
      // An older attempt that is still silent would have taken at least as long: leaving it out would make the delay ever shorter.
      if ((attempt === winner || !attempt.over) && attempt.startedAt !== undefined) this.#settings.stats.record(now - attempt.startedAt);
    }
    this.#cancelAllBut(winner);
  }

  #cancelAllBut(kept: Attempt<R> | undefined): void {
    const losers = this.#attempts.filter((attempt) => attempt !== kept && !attempt.over);
    for (const attempt of losers) this.#over(attempt);
    // Whoever leaves with an answer gives nothing up.
    const count = losers.filter((attempt) => !attempt.isAnswered).length;
    if (count > 0) this.#settings.onEvent?.({ type: 'cancelled', operator: NAME, lane: DEFAULT_LANE, count });
    for (const attempt of losers) attempt.cancel();
  }

  /** Once for each attempt. */
  #over(attempt: Attempt<R>): void {
    attempt.over = true;
    this.#running -= 1;
    if (attempt.index > 0) this.#settings.stats.endHedge();
  }

  #fail(): void {
    const errors = this.#attempts.flatMap(({ failure }) => (failure === undefined ? [] : [failure.error]));
    this.#end(withOthers(errors));
  }
}

/** The first error as it is, with all of them as `errors` when there are more and it can carry them. */
function withOthers(errors: readonly unknown[]): unknown {
  const [first] = errors;
  if (errors.length > 1 && typeof first === 'object' && first !== null && Object.isExtensible(first) && !('errors' in first)) {
    Object.defineProperty(first, 'errors', { value: errors, configurable: true });
  }
  return first;
}

/** One attempt: what its work is told, and what hears of its end. */
class Attempt<R> extends StoppableWork<R> implements HedgeContext {
  readonly lease = undefined;
  /** Undefined until the work begins. */
  startedAt: number | undefined;
  failure: { readonly error: unknown } | undefined;
  over = false;

  constructor(
    readonly hedger: Hedger<R>,
    readonly index: number,
    /** How long it may be silent before the next one is started, in ms. */
    readonly patienceMs: number,
  ) {
    super();
  }

  said(value: R): void {
    if (!this.over) this.hedger.value(this, value);
  }

  done(): void {
    if (!this.over) this.hedger.done(this);
  }

  failed(error: unknown): void {
    if (!this.over) this.hedger.failed(this, error);
  }
}
