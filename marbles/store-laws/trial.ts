import type { ObservableInput } from 'rxjs';
import { from, race, take, timer } from 'rxjs';
import { isCredit } from '../../operators/kernel/credit/credit.js';
import type {
  Credit,
  CreditCorrection,
  CreditLimit,
  CreditQuestion,
  CreditStore,
  CreditWait,
} from '../../operators/options/credit-store.js';
import type { WorkResult } from '../../operators/options/types.js';
import { LawBrokenError } from '../laws.js';
import { Arrivals } from './arrivals.js';

/**
 * A store that is tested, and how its time passes.
 * @beta
 */
export interface StoreUnderTest {
  readonly store: CreditStore;
  /** Lets so many ms pass on the clock of the store. @defaultValue real time passes */
  advance?(ms: number): void | PromiseLike<void>;
  /** Ends the store as a crash does, and returns the one that continues with its state. @defaultValue restarts are not tested */
  restart?(): CreditStore | PromiseLike<CreditStore>;
  /** Called when a schedule is over. */
  close?(): void | PromiseLike<void>;
}

/** A limiter asks again after so long at the latest, in ms. */
const ASK_AGAIN_MS = 500;
/** A store that has not answered after so long does not answer, in ms. */
const ANSWER_MS = 5000;
/** Longer names are shown in part. */
const LONG_NAME = 40;
/** Most steps that an error shows. */
const MOST_STEPS = 40;
/** In real time, a limiter spends credit only in this part of the guard. */
const REAL_GUARD_PART = 0.8;

/** What a law says in a question; the trial knows the rest. */
export type Asks = Pick<CreditQuestion, 'least'> & Partial<CreditQuestion>;

/** How a question was answered, and when. */
export interface Asked {
  readonly question: CreditQuestion;
  readonly answer: Credit | CreditWait;
  readonly sentAt: number;
  readonly heardAt: number;
  /** The credit; undefined for a wait. */
  readonly credit: Credit | undefined;
}

/** One schedule of one law: says things to a new store, writes them down, and compares. */
export class Trial {
  private readonly steps: string[] = [];
  private virtualMs = 0;
  private readonly startedAt = performance.now();
  private readonly numbers = new Map<string, number>();
  private readonly arrivals: Arrivals;

  constructor(
    private readonly subject: { readonly name: string; readonly law: string; readonly seed: number },
    private readonly tested: StoreUnderTest,
    readonly windowMs: number,
    readonly guardMs: number,
    readonly random: () => number,
    private store: CreditStore = tested.store,
  ) {
    this.arrivals = new Arrivals(this.isVirtual ? 1 : REAL_GUARD_PART);
  }

  get isVirtual(): boolean {
    return this.tested.advance !== undefined;
  }

  get canRestart(): boolean {
    return this.tested.restart !== undefined;
  }

  /** Milliseconds since the start. */
  now(): number {
    return this.isVirtual ? this.virtualMs : performance.now() - this.startedAt;
  }

  /** A whole number from `least` to `most`. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1));
  }

  one<V>(values: readonly V[]): V {
    return values[this.whole(0, values.length - 1)] as V;
  }

  /** A limit of which a whole window may be spent at once, unless it has a `burst`. */
  limit(of: Partial<CreditLimit> & Pick<CreditLimit, 'amount'>): CreditLimit {
    const { burst, column = 0, endsInMs, fromLane = 0, windowMs = this.windowMs } = of;
    const kind = endsInMs === undefined ? (burst === undefined ? 'window' : 'bucket') : 'calendar';
    return { key: `unit${String(column)}/${String(windowMs)}/${kind}/${String(fromLane)}`, column, fromLane, windowMs, ...of };
  }

  // ---- steps -----------------------------------------------------------------------------------------------------------

  async wait(ms: number): Promise<void> {
    if (ms <= 0) return;
    this.note(`${String(round(ms))} ms pass`);
    await this.pass(ms);
  }

  /**
   * Asks; the number is the owner's next one.
   *
   * @param cause - what it means when too much is granted
   */
  async ask(asks: Asks, cause?: string): Promise<Asked> {
    const question = this.question(asks);
    return this.put(question, this.note(asked(question)), cause);
  }

  /** Asks all at the same time. */
  async askAll(all: readonly Asks[]): Promise<readonly Asked[]> {
    const questions = all.map((asks) => this.question(asks));
    const step = this.note(`at the same time: ${questions.map(asked).join('; ')}`);
    return Promise.all(questions.map((question) => this.put(question, step)));
  }

  /** Asks as often as the store says until there is credit, or for so long. Undefined when there was none. */
  async askUntil(asks: Asks, forMs: number): Promise<Asked | undefined> {
    const until = this.now() + forMs;
    for (;;) {
      const one = await this.ask(asks);
      if (one.credit) return one;
      if (this.now() >= until) return undefined;
      await this.wait(pauseOf(one));
    }
  }

  /** Tells corrections under the owner's next number, or under one that was told before. */
  async correct(of: {
    readonly owner: string;
    readonly limits: readonly CreditLimit[];
    readonly corrections: readonly CreditCorrection[];
    readonly scope?: string;
    readonly number?: number;
    readonly guardMs?: number;
  }): Promise<number> {
    const { corrections, limits, owner, scope = 'account', guardMs = this.guardMs } = of;
    const key = JSON.stringify(['corrections', scope, owner]);
    const last = this.numbers.get(key) ?? 0;
    const number = of.number ?? last + 1;
    this.numbers.set(key, Math.max(last, number));
    const what = corrections.map(({ amounts, credit }) => `${String(credit)} by [${amounts.map(round).join(', ')}]`).join(', ');
    this.note(`${inScope(scope, owner)} corrects (${String(number)}) ${what}`);
    // Booked before: less is left when the store has heard of it.
    if (number > last) this.arrivals.correct(scope, corrections);
    await this.answerOf(this.store.correct({ scope, owner, number, limits, guardMs, corrections }), 'a correction');
    return number;
  }

  async hold(ms: number, scope = 'account'): Promise<{ readonly sentAt: number; readonly heardAt: number }> {
    this.note(`a hold of ${String(round(ms))} ms in ${nameOf(scope)}`);
    const sentAt = this.now();
    await this.answerOf(this.store.hold(scope, ms), 'a hold');
    return { sentAt, heardAt: this.now() };
  }

  async restart(): Promise<void> {
    this.note('the store restarts');
    this.store = (await this.tested.restart?.()) ?? this.store;
  }

  /** Lets everything pass that a store may do after a start: nothing was granted, and whole windows may be spent. */
  async warmUp(limits: readonly CreditLimit[], scope?: string): Promise<void> {
    const least = new Array<number>(1 + Math.max(...limits.map(({ column }) => column))).fill(0);
    await this.ask({ owner: 'first', limits, least, ...(scope !== undefined && { scope }) });
    await this.wait(3 * (this.windowMs + this.guardMs) + 100);
  }

  // ---- verdicts --------------------------------------------------------------------------------------------------------

  demand(condition: boolean, problem: string): void {
    if (!condition) this.fail(problem);
  }

  fail(problem: string, cause?: unknown): never {
    const { law, name, seed } = this.subject;
    const hidden = Math.max(0, this.steps.length - MOST_STEPS);
    const shown = this.steps.slice(hidden).map((step, i) => `  ${String(hidden + i + 1)}. ${step}`);
    const before = hidden === 0 ? [] : [`  … ${String(hidden)} steps before`];
    const where = `step ${String(this.steps.length)}, seed ${String(seed)}: ${problem}`;
    throw new LawBrokenError(name, law, [where, 'Schedule:', ...before, ...shown].join('\n'), cause);
  }

  // ---- inside ----------------------------------------------------------------------------------------------------------

  private question(asks: Asks): CreditQuestion {
    const { owner = 'a', scope = 'account' } = asks;
    const key = JSON.stringify([scope, owner]);
    const last = this.numbers.get(key) ?? 0;
    const { number = last + 1 } = asks;
    this.numbers.set(key, Math.max(last, number));
    return { limits: [], guardMs: this.guardMs, lane: 0, floors: [0], most: asks.least, epoch: 0, ...asks, scope, owner, number };
  }

  private async put(question: CreditQuestion, step: number, cause?: string): Promise<Asked> {
    const sentAt = this.now();
    const answer = await this.answerOf(this.store.ask(question), 'a question');
    const heardAt = this.now();
    const said = this.steps[step] as string;
    const { amounts, left, waitMs } = Object(answer) as Partial<Credit & CreditWait>;
    this.steps[step] = `${said} -> ${amounts ? `[${amounts.map(round).join(', ')}]` : `wait ${String(round(waitMs as number))} ms`}`;
    this.demand(Array.isArray(left), `the answer is no credit and no wait: ${JSON.stringify(answer)}`);
    if (!isCredit(answer)) {
      this.demand(answer.waitMs > 0, `a wait of ${String(answer.waitMs)} ms`);
      return { question, answer, sentAt, heardAt, credit: undefined };
    }
    const isFirst = !this.known.has(numberOf(question));
    this.known.add(numberOf(question));
    const faults = isFirst ? this.arrivals.add({ question, credit: answer, sentAt, heardAt }) : [];
    if (faults.length > 0) this.fail([...(cause === undefined ? [] : [cause]), ...faults].join('; '));
    return { question, answer, sentAt, heardAt, credit: answer };
  }

  /** Questions that were answered with credit. */
  private readonly known = new Set<string>();

  private note(step: string): number {
    this.steps.push(`at ${String(round(this.now()))} ms ${step}`);
    return this.steps.length - 1;
  }

  private async pass(ms: number): Promise<void> {
    if (this.isVirtual) {
      this.virtualMs += ms;
      await this.tested.advance?.(ms);
    } else await firstOf(timer(ms));
  }

  /** An answer that comes at once, later, or in virtual time. */
  private async answerOf<A>(given: WorkResult<A>, what: string): Promise<A> {
    if (!isLater(given)) return given as A;
    const outcome = new Outcome<A>(given as ObservableInput<A>);
    if (!this.isVirtual) await firstOf(race(outcome.settled, timer(ANSWER_MS)));
    for (let ms = 0; this.isVirtual && ms < ANSWER_MS; ms++) {
      // A promise takes no time of the clock.
      for (let turn = 0; turn < 5 && !outcome.isSettled; turn++) await Promise.resolve();
      if (outcome.isSettled) break;
      await this.pass(1);
    }
    if (!outcome.isSettled) this.fail(`${what} has no answer after ${String(ANSWER_MS)} ms`);
    try {
      return await outcome.settled;
    } catch (error) {
      return this.fail(`${what} failed: ${String(error)}`, error);
    }
  }
}

/** An answer that may come later. */
class Outcome<A> {
  isSettled = false;
  readonly settled: Promise<A>;

  constructor(input: ObservableInput<A>) {
    this.settled = firstOf(input).finally(() => {
      this.isSettled = true;
    });
    // Read when it has settled.
    this.settled.catch(() => undefined);
  }
}

/** When a limiter would ask again. */
export function pauseOf({ answer }: Asked): number {
  return 'waitMs' in answer ? Math.min(answer.waitMs, ASK_AGAIN_MS) : 0;
}

function numberOf({ number, owner, scope }: CreditQuestion): string {
  return JSON.stringify([scope, owner, number]);
}

function asked({ epoch, lane, least, lessons, limits, most, number, owner, scope }: CreditQuestion): string {
  const amounts = least.map((need, column) => `${String(round(need))}..${String(round(most[column] as number))}`).join(', ');
  const learned = lessons === undefined ? '' : `, has learned ${JSON.stringify(lessons)}`;
  const known = epoch === 0 ? '' : `, epoch ${String(epoch)}`;
  const of = limits.map(({ amount, key }) => `${String(round(amount))} ${key}`).join(' + ');
  return `${inScope(scope, owner)} asks (${String(number)}) for [${amounts}] of ${of}, lane ${String(lane)}${known}${learned}`;
}

function inScope(scope: string, owner: string): string {
  return scope === 'account' ? nameOf(owner) : `${nameOf(owner)} in ${nameOf(scope)}`;
}

/** A name as it is shown. */
export function nameOf(name: string): string {
  return JSON.stringify(name.length > LONG_NAME ? `${name.slice(0, LONG_NAME)}…` : name);
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

function isLater(given: unknown): boolean {
  const { subscribe, then } = Object(given) as { readonly subscribe?: unknown; readonly then?: unknown };
  return typeof subscribe === 'function' || typeof then === 'function';
}

/** The first value, also of a stream that has none. */
function firstOf<V>(input: ObservableInput<V>): Promise<V> {
  return new Promise((resolve, reject) => {
    let value: V | undefined;
    from(input)
      .pipe(take(1))
      .subscribe({
        next: (first) => (value = first),
        error: reject,
        complete: () => {
          resolve(value as V);
        },
      });
  });
}
