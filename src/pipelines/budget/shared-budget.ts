import { map, type Observable, of, Subject, throwError } from 'rxjs';
import { teller } from '../../../operators/build.js';
import type { CreditStore } from '../../../operators/index.js';
import { BudgetExceededError } from '../../../operators/index.js';
import type { readOptions } from './budget-options.js';
import { NAME } from './budget-options.js';
import { BudgetShare, type ShareCost } from './budget-share.js';
import type { BudgetCall, BudgetLimitSnapshot, BudgetSnapshot, Reservation, SharedBudget } from './budget-types.js';
import { Charge } from './charge.js';
import type { MeterRule } from './meter.js';
import { Meter, Window } from './meter.js';
import { ALL, type PricedCall, PricedCalls } from './priced-calls.js';

/** What the store last reported as left of a limit, and which events were emitted for it. */
interface Known {
  left: number;
  hasWarned: boolean;
}

/** A budget whose limits are kept in a store: what any process spends, all have spent. */
export class FlowSharedBudget implements SharedBudget {
  readonly #config: ReturnType<typeof readOptions>;
  readonly #calls: PricedCalls;
  readonly #share: BudgetShare;
  /** What calls of this process have spent: of each limit, and in all. */
  readonly #limits: readonly Meter[];
  readonly #usd = new Meter({ ...ALL, unit: 'usd' }, -1);
  readonly #tokens = new Meter({ ...ALL, unit: 'tokens' }, -1);
  readonly #known: readonly Known[];
  readonly #tell: ReturnType<typeof teller>;
  /** Emits when a call of this process is over. */
  readonly #freed = new Subject<void>();
  #isFreeing = false;
  #executing = 0;

  constructor(config: ReturnType<typeof readOptions>, store: CreditStore) {
    const { limits, name = 'budget', prices, scheduler } = config;
    this.#config = config;
    this.#limits = limits.map((rule, position) => new Meter({ ...rule, windowMs: Infinity }, position));
    this.#known = limits.map(({ limit }) => ({ left: limit, hasWarned: false }));
    this.#calls = new PricedCalls(prices, this.#limits);
    this.#tell = teller(NAME, { ...config, name }, () => scheduler.now());
    const keys = limits.map(keyOf);
    // One that is there twice counts for itself.
    const ownKey = (key: string, i: number): string => (keys.indexOf(key) === i ? key : `${key}${String(i)}`);
    const shared = limits.map(({ limit, windowMs }, i) => ({ key: ownKey(keys[i] as string, i), amount: limit, windowMs }));
    this.#share = new BudgetShare(store, `budget ${name}`, shared, scheduler, {
      storeDown: () => this.#tell?.({ type: 'storeDown' }),
      storeUp: () => this.#tell?.({ type: 'storeUp' }),
      heard: (position, left) => {
        this.#heard(position, left);
      },
      refused: (full, waitMs) => this.#refusal(full, waitMs),
    });
  }

  reserve(call: BudgetCall): Observable<Reservation> {
    const priced = this.#calls.of(call);
    const { amounts, asked, limits } = priced;
    const costs = limits.map(({ position, rule: { limit, unit } }) => ({ position, cost: amounts[unit], kept: asked.reserved * limit }));
    const dear = costs.filter(({ cost, kept, position }) => cost > this.#limitAt(position).limit - kept);
    if (dear.length > 0) return throwError(() => this.#refusal(dear, Infinity));
    // What no limit is about needs no store.
    const credits = costs.length > 0 ? this.#share.take(costs) : of(0);
    return credits.pipe(map((credit) => this.#reserved(priced, credit)));
  }

  snapshot(): BudgetSnapshot {
    const now = this.#config.scheduler.now();
    const of = (meter: Meter): BudgetLimitSnapshot => meter.snapshot(meter.at(now));
    const [usd, tokens] = [of(this.#usd), of(this.#tokens)];
    return {
      executing: this.#executing,
      ...{ spentUsd: usd.spent, spentTokens: tokens.spent, inFlightUsd: usd.inFlight, inFlightTokens: tokens.inFlight },
      limits: this.#limits.map((meter, i) => ({
        ...of(meter),
        windowMs: this.#limitAt(i).windowMs,
        left: meter.shown(Math.max(0, (this.#known[i] as Known).left)),
      })),
    };
  }

  #reserved(priced: PricedCall, credit: number): Reservation {
    const { asked, limits, price } = priced;
    const now = this.#config.scheduler.now();
    // A window for this call alone tells what the store has not heard.
    const own = limits.map((limit) => new Window(limit));
    const all = [...limits, this.#usd, this.#tokens].map((meter) => meter.at(now));
    const account = {
      ended: () => {
        this.#executing--;
      },
      changed: () => {
        for (const [i, window] of own.entries()) {
          const delta = window.charged - (told[i] as number);
          if (delta !== 0) this.#share.correct(credit, window.meter.position, delta);
          told[i] = window.charged;
        }
        this.#free();
      },
      rose: () => undefined,
    };
    const charge = new Charge(account, [...own, ...all], price, asked, now);
    const told = own.map(({ charged }) => charged);
    this.#executing++;
    return this.#calls.reservation(priced, charge);
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

  /** Whether calls of this process that are under way may give back what is missing. Of those of other processes it is not known. */
  #mayGetRoom({ cost, kept, position }: ShareCost): boolean {
    const { inFlight } = (this.#limits[position] as Meter).at(this.#config.scheduler.now());
    const { left } = this.#known[position] as Known;
    return inFlight > 0 && cost + kept <= Math.max(0, left) + inFlight;
  }

  #limitAt(position: number): MeterRule {
    return this.#config.limits[position] as MeterRule;
  }

  #heard(position: number, left: number): void {
    const known = this.#known[position] as Known;
    const meter = this.#limits[position] as Meter;
    const { limit, unit } = meter.rule;
    const before = known.left;
    known.left = left;
    const shown = meter.shown(limit);
    const hasReached = limit - left >= limit * this.#config.warnAt;
    const isNews = hasReached && !known.hasWarned;
    known.hasWarned = hasReached;
    if (isNews) this.#tell?.({ type: 'budgetLow', position, unit, spent: meter.shown(limit - left), limit: shown });
    if (left < Math.min(0, before)) this.#tell?.({ type: 'budgetOverrun', position, unit, limit: shown, over: meter.shown(-left) });
  }

  /** Of the limit that keeps the call waiting longest: one that never begins anew, if there is one. */
  #refusal(full: readonly ShareCost[], waitMs: number): BudgetExceededError {
    const endless = full.find((each) => this.#limitAt(each.position).windowMs === Infinity);
    const position = endless?.position ?? Math.min(...full.map((each) => each.position));
    const { key, limit, model, unit, windowMs } = this.#limitAt(position);
    const resetsInMs = windowMs === Infinity ? Infinity : waitMs;
    const meter = this.#limits[position] as Meter;
    const { cost } = full.find((each) => each.position === position) as ShareCost;
    const left = Math.max(0, (this.#known[position] as Known).left);
    return new BudgetExceededError(NAME, {
      ...{ key, model, unit, limit: meter.shown(limit), left: meter.shown(left), asked: meter.shown(cost) },
      ...{ resetsAt: this.#config.scheduler.now() + resetsInMs, resetsInMs },
      ...(full.every((each) => this.#mayGetRoom(each)) && { freed: this.#freed }),
    });
  }
}

/** The same in all processes. */
function keyOf({ key, model, unit, windowMs }: MeterRule): string {
  return JSON.stringify([unit, windowMs === Infinity ? null : windowMs, key ?? null, model ?? null]);
}
