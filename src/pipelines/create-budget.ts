import { defer, filter, type Observable, of, race, Subject, timer } from 'rxjs';
import { check, teller } from '../../operators/build.js';
import { BudgetExceededError, FlowConfigError } from '../../operators/index.js';
import { checkedSave, NAME, readOptions } from './budget/budget-options.js';
import type {
  Budget,
  BudgetCall,
  BudgetLimitSnapshot,
  BudgetOptions,
  BudgetSnapshot,
  Reservation,
  SavedBudget,
  SharedBudget,
  SharedBudgetOptions,
} from './budget/budget-types.js';
import type { Account } from './budget/charge.js';
import { Charge } from './budget/charge.js';
import type { Window } from './budget/meter.js';
import { Meter } from './budget/meter.js';
import { ALL, type PricedCall, PricedCalls } from './budget/priced-calls.js';
import { FlowSharedBudget } from './budget/shared-budget.js';

export type * from './budget/budget-types.js';

/**
 * What may be spent, in USD or in tokens: of all calls, of one key, of one model, for ever or in windows. Give it as `budget` to `createAccount`, whose
 * clients, adapters and pipelines share it; only without an account to `createModelCaller`, `createEmbedder` and `createToolRunner`. Every attempt is charged
 * with its estimate before it is sent, and with its usage when it is over. An estimate needs the longest answer (`max_tokens`): without it, the prompt alone.
 *
 * - **Lets a call go when** every limit that is about it has room for its estimate, those under way included: one synchronous step, so that any
 *   number of callers at a time cannot overshoot.
 * - **Charges** the usage in place of the estimate when the call is over; the estimate where the usage is not known; nothing when it was never sent.
 * - **Of the prompt cache** reads and writes have prices of their own.
 * - **Never above a limit** when estimates are upper bounds. When calls cost more, by what those under way cost more: told as `budgetOverrun`.
 * - **Counts** in whole billionths of a USD, each call rounded up: sums do not drift.
 * - **Begins anew** `windowMs` after the first call of a window. A call is one of the window that it began in.
 * - **After a crash** what was reserved is still charged, with a `storage`.
 * - **Of several processes**, with a `store`: what one spends, all have spent. `reserve` then answers with an Observable; everything that takes a `budget`
 *   waits for it. A window slides then: no span of `windowMs` costs more than the limit. What calls cost less goes back to the store after 100 ms, or
 *   before a call of the same process is refused; what a process that died had reserved stays charged. The store must remember as long as the limit lasts.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, and what the `storage` throws.
 * @example
 * ```ts
 * import { createBudget, isFlowError } from 'sluice';
 *
 * const prices = { small: { inputUsdPerMillion: 0.5, outputUsdPerMillion: 1.5 } };
 * const budget = createBudget({ limits: [{ usd: 1 }, { key: 'acme', tokens: 2_000, windowMs: 60_000 }], prices });
 * const call = budget.reserve({ model: 'small', key: 'acme', inputTokens: 500, outputTokens: 1_000 });
 * call.settle({ inputTokens: 480, outputTokens: 20 });
 * budget.snapshot().spentUsd; // => 0.00027
 * try {
 *   budget.reserve({ model: 'small', key: 'acme', inputTokens: 1_501 });
 * } catch (error) {
 *   isFlowError(error, 'FLOW_BUDGET_EXCEEDED') && [error.unit, error.limit]; // => ['tokens', 2000]
 * }
 * ```
 */
export function createBudget(options?: BudgetOptions): Budget;
export function createBudget(options: SharedBudgetOptions): SharedBudget;
export function createBudget(options: BudgetOptions | SharedBudgetOptions = {}): Budget | SharedBudget {
  const config = readOptions(options);
  return config.store ? new FlowSharedBudget(config, config.store) : new FlowBudget(config);
}

class FlowBudget implements Budget, Account {
  readonly #config: ReturnType<typeof readOptions>;
  readonly #limits: readonly Meter[];
  readonly #usd = new Meter({ ...ALL, unit: 'usd' }, -1);
  readonly #tokens = new Meter({ ...ALL, unit: 'tokens' }, -1);
  readonly #calls: PricedCalls;
  readonly #tell: ReturnType<typeof teller>;
  /** Emits when less may be charged than before. */
  readonly #freed = new Subject<void>();
  #isFreeing = false;
  #executing = 0;

  constructor(config: ReturnType<typeof readOptions>) {
    this.#config = config;
    const { limits, prices, storage } = config;
    this.#limits = limits.map((rule, position) => new Meter(rule, position));
    this.#calls = new PricedCalls(prices, this.#limits);
    this.#tell = teller(NAME, this.#config, () => this.#now());
    for (const saved of checkedSave(storage?.load())) for (const limit of this.#limits) limit.restore(saved);
  }

  reserve(call: BudgetCall): Reservation {
    const priced = this.#calls.of(call);
    const { asked, price } = priced;
    const now = this.#now();
    const { full, isHeld, windows } = looked(priced, now);
    if (full.length > 0) {
      const refusal = this.#refusal(priced, full, isHeld, now);
      if (this.#config.enforce) throw refusal;
    }
    const charge = new Charge(this, [...windows, this.#usd.at(now), this.#tokens.at(now)], price, asked, now);
    this.#executing++;
    for (const window of full) this.rose(window);
    try {
      this.#save();
    } catch (error) {
      charge.release();
      throw error;
    }
    return this.#calls.reservation(priced, charge);
  }

  snapshot(): BudgetSnapshot {
    const now = this.#now();
    const of = (meter: Meter): BudgetLimitSnapshot => meter.snapshot(meter.at(now));
    const usd = of(this.#usd);
    const tokens = of(this.#tokens);
    return {
      executing: this.#executing,
      spentUsd: usd.spent,
      spentTokens: tokens.spent,
      inFlightUsd: usd.inFlight,
      inFlightTokens: tokens.inFlight,
      limits: this.#limits.map(of),
    };
  }

  // ---- what charges tell --------------------------------------------------------------------------------------------

  ended(): void {
    this.#executing--;
  }

  changed(windows: readonly Window[]): void {
    this.#changed(windows);
    this.#free();
  }

  #changed(windows: readonly Window[]): void {
    try {
      this.#save();
    } catch {
      // The last save has the estimate, and the next call is not let go without one.
    }
    const now = this.#now();
    for (const window of windows) {
      const { rule } = window.meter;
      if (now < window.endsAt && window.spent >= rule.limit * this.#config.warnAt) this.#warn(window);
    }
  }

  rose({ charged, meter }: Window): void {
    const { unit, limit } = meter.rule;
    if (charged <= limit) return;
    const over = meter.shown(charged - limit);
    this.#tell?.({ type: 'budgetOverrun', position: meter.position, unit, limit: meter.shown(limit), over });
  }

  /** A little later: what the answer ends is gone by then, and asks no more. */
  #free(): void {
    if (this.#isFreeing || !this.#freed.observed) return;
    this.#isFreeing = true;
    this.#config.scheduler.schedule(() => {
      this.#isFreeing = false;
      this.#freed.next();
    });
  }

  // ---- limits -------------------------------------------------------------------------------------------------------

  /**
   * Of the limit that keeps the call waiting longest.
   *
   * @param isHeld - only calls under way are in the way
   */
  #refusal(priced: PricedCall, full: readonly Window[], isHeld: boolean, now: number): BudgetExceededError {
    const { amounts } = priced;
    // A call that costs more than all of a limit never has room.
    const resetOf = ({ endsAt, meter: { rule } }: Window): number => (amounts[rule.unit] > rule.limit ? Infinity : endsAt);
    // Who waits for room looks at what the limit is about: a call of one key must not wait where those of others could go.
    const narrow = isHeld ? full.find(({ meter: { rule } }) => rule.key !== undefined || rule.model !== undefined) : undefined;
    const last = narrow ?? full.reduce((one, other) => (resetOf(other) > resetOf(one) ? other : one));
    if (!isHeld) for (const window of full) if (amounts[window.meter.rule.unit] <= window.meter.rule.limit) this.#warn(window);
    const { meter } = last;
    const { key, model, unit, limit } = meter.rule;
    const resetsAt = resetOf(last);
    return new BudgetExceededError(NAME, {
      ...{
        key,
        model,
        unit,
        limit: meter.shown(limit),
        left: meter.shown(Math.max(0, limit - last.charged)),
        asked: meter.shown(amounts[unit]),
      },
      ...{ resetsAt, resetsInMs: resetsAt - now },
      ...(isHeld && { freed: this.#freedFor(priced, resetsAt) }),
    });
  }

  /**
   * Emits once calls that are over leave the call room, or none can come any more, or the window is over: at once where that has happened since. A call that
   * would be refused again waits on, in its place before later ones.
   */
  #freedFor(priced: PricedCall, resetsAt: number): Observable<unknown> {
    return defer(() => {
      const isWorthIt = (): boolean => !looked(priced, this.#now()).isHeld;
      if (isWorthIt()) return of(undefined);
      const freed = this.#freed.pipe(filter(isWorthIt));
      return resetsAt === Infinity ? freed : race(freed, timer(resetsAt - this.#now(), this.#config.scheduler));
    });
  }

  #warn(window: Window): void {
    if (window.hasWarned) return;
    window.hasWarned = true;
    const { unit, spent, limit } = window.meter.snapshot(window);
    this.#tell?.({ type: 'budgetLow', position: window.meter.position, unit, spent, limit });
  }

  #now(): number {
    return this.#config.scheduler.now();
  }

  #save(): void {
    const storage = this.#config.storage as { save(saved: SavedBudget): unknown } | undefined;
    if (storage === undefined) return;
    const now = this.#now();
    const saving = storage.save({ limits: this.#limits.flatMap((limit) => limit.save(now)) });
    if (!check.isPromise(saving)) return;
    saving.then(undefined, () => undefined);
    throw new FlowConfigError(NAME, 'storage.save', 'a function that has saved when it returns', saving);
  }
}

/** What a call finds in its limits: the windows, those of them without room, and whether only calls under way are in the way. */
function looked({ amounts, asked, limits }: PricedCall, now: number) {
  const windows = limits.map((limit) => limit.at(now));
  const full = windows.filter((window) => !window.hasRoomFor(amounts, asked.reserved, now));
  return { windows, full, isHeld: full.length > 0 && full.every((window) => window.mayHaveRoomFor(amounts, asked.reserved, now)) };
}
