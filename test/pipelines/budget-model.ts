import type { VirtualTimeScheduler } from 'rxjs';
import { isFlowError } from '../../operators/index.js';
import type {
  Budget,
  BudgetCall,
  BudgetLimit,
  BudgetLimitSnapshot,
  BudgetStorage,
  ModelPrices,
  Reservation,
  SavedBudget,
} from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';

/** A store as a file is one: what is kept is text. */
export class TextStore implements BudgetStorage {
  text: string | undefined;
  saves = 0;
  onSaved: (saves: number) => void = () => undefined;

  load(): SavedBudget | undefined {
    return this.text === undefined ? undefined : (JSON.parse(this.text) as SavedBudget);
  }

  save(saved: SavedBudget): void {
    this.text = JSON.stringify(saved);
    this.onSaved(++this.saves);
  }
}

/** Prices with odd decimals, of which floats make sums that are no sums. */
export const PRICES: ModelPrices = {
  small: { inputUsdPerMillion: 0.07, outputUsdPerMillion: 0.3 },
  large: { inputUsdPerMillion: 2.5, outputUsdPerMillion: 10.1, usdPerCall: 0.0003 },
  odd: { inputUsdPerMillion: 0.0125, outputUsdPerMillion: 0.1373 },
  reading: { inputUsdPerMillion: 0.13 },
};

/** The price of a call in billionths of a USD, by whole numbers alone: prices as they are written, not as floats have them. */
export function exactCost(model: string, inputTokens: number, outputTokens: number, tokens = 0): bigint {
  const { inputUsdPerMillion = 0, outputUsdPerMillion = 0, usdPerCall = 0 } = PRICES[model] ?? {};
  const [input, output] = [scaled(inputUsdPerMillion, 6), scaled(outputUsdPerMillion, 6)];
  const ofTokens = BigInt(inputTokens) * input + BigInt(outputTokens) * output + BigInt(tokens) * (input > output ? input : output);
  return (ofTokens + 999n) / 1000n + scaled(usdPerCall, 9);
}

function scaled(value: number, decimals: number): bigint {
  const [whole = '0', part = ''] = String(value).split('.');
  return BigInt(whole + part.padEnd(decimals, '0'));
}

/** Tokens of a call: of the prompt, of the answer, of either. */
interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly tokens: number;
}

interface Entry {
  readonly model: string;
  readonly key: unknown;
  /** The window of each limit that it began in. */
  readonly windows: readonly number[];
  readonly estimate: Tokens;
  /** What is known of it. */
  used: { readonly inputTokens?: number; readonly outputTokens?: number };
  state: 'inFlight' | 'spent' | 'released';
}

type Call = Pick<BudgetCall, 'model' | 'key'> & Tokens;

/** A budget that keeps every call it was ever asked about, and adds them all up each time. */
export class PlainBudget {
  entries: Entry[] = [];
  /** When the window of each limit began, and how many it has had. */
  #windows: readonly Start[];
  #saved: readonly Start[];

  constructor(readonly limits: readonly BudgetLimit[]) {
    this.#windows = limits.map(() => ({ at: undefined, count: 0 }));
    this.#saved = this.#windows;
  }

  /** Positions of the limits without room. */
  full(call: Call, now: number): number[] {
    return this.limits.flatMap((limit, i) => {
      if (!isAbout(limit, call)) return [];
      const { charged } = this.sums(i, now);
      return charged + amountOf(limit, call.model, call) > limitOf(limit) ? [i] : [];
    });
  }

  add({ model, key, ...estimate }: Call, now: number): Entry {
    this.#look(now);
    this.#windows = this.#windows.map((start, i) =>
      isAbout(this.limits[i]!, { model, key }) && start.at === undefined ? { ...start, at: now } : start,
    );
    const windows = this.#windows.map(({ count }) => count);
    const entry: Entry = { model, key, windows, estimate, used: {}, state: 'inFlight' };
    this.entries.push(entry);
    return entry;
  }

  sums(position: number, now: number): { readonly charged: bigint; readonly inFlight: bigint } {
    this.#look(now);
    const limit = this.limits[position]!;
    let charged = 0n;
    let inFlight = 0n;
    for (const entry of this.entries) {
      const isInWindow = entry.windows[position] === this.#windows[position]!.count;
      if (entry.state === 'released' || !isInWindow || !isAbout(limit, entry)) continue;
      charged += amountOf(limit, entry.model, spentBy(entry));
      if (entry.state === 'inFlight') inFlight += amountOf(limit, entry.model, entry.estimate);
    }
    return { charged, inFlight };
  }

  /** When the window of a limit ends. */
  endsAt(position: number, now: number): number {
    this.#look(now);
    return (this.#windows[position]!.at ?? Infinity) + (this.limits[position]!.windowMs ?? Infinity);
  }

  /** What is written down. */
  save(now: number): void {
    this.#look(now);
    this.#saved = this.#windows;
  }

  /** The process is gone: what was under way is charged for good. */
  crash(): void {
    this.#windows = this.#saved;
    for (const entry of this.entries) if (entry.state === 'inFlight') entry.state = 'spent';
  }

  /** What is over is forgotten, and what has begun has begun now at the latest, wherever the clock is. */
  #look(now: number): void {
    this.#windows = this.#windows.map(({ at, count }, i) => {
      if (at === undefined) return { at, count };
      return now >= at + (this.limits[i]!.windowMs ?? Infinity) ? { at: undefined, count: count + 1 } : { at: Math.min(at, now), count };
    });
  }
}

interface Start {
  readonly at: number | undefined;
  readonly count: number;
}

function isAbout(limit: BudgetLimit, { key, model }: Pick<BudgetCall, 'key' | 'model'>): boolean {
  return (limit.key === undefined || limit.key === key) && (limit.model === undefined || limit.model === model);
}

function limitOf({ usd, tokens }: BudgetLimit): bigint {
  return usd === undefined ? BigInt(tokens ?? 0) : scaled(usd, 9);
}

function amountOf(limit: BudgetLimit, model: string, { inputTokens, outputTokens, tokens }: Tokens): bigint {
  return limit.usd === undefined ? BigInt(inputTokens + outputTokens + tokens) : exactCost(model, inputTokens, outputTokens, tokens);
}

/** What is known in place of what was guessed, and the rest as it was guessed. */
function spentBy({ estimate, used }: Entry): Tokens {
  const { inputTokens = estimate.inputTokens, outputTokens = estimate.outputTokens } = used;
  if (used.inputTokens !== undefined && used.outputTokens !== undefined) return { inputTokens, outputTokens, tokens: 0 };
  const known = (used.inputTokens ?? 0) + (used.outputTokens ?? 0);
  return { inputTokens, outputTokens, tokens: Math.max(estimate.tokens - known, 0) };
}

/** Amounts of a snapshot as whole numbers; a USD is shown as a float, which is exact to more than its billionths. */
export function whole({ unit }: BudgetLimitSnapshot, amount: number): bigint {
  return BigInt(unit === 'usd' ? Math.round(amount * 1e9) : amount);
}

/** What callers in a load do. */
export interface LoadPlan {
  readonly limits: readonly BudgetLimit[];
  readonly callers: number;
  readonly scheduler: VirtualTimeScheduler;
  readonly random: () => number;
  /** Makes the estimate of a call that will use so much. */
  readonly estimate: (used: { readonly inputTokens: number; readonly outputTokens: number }) => {
    readonly inputTokens: number;
    readonly outputTokens: number;
  };
  /** Part of the calls that fail in a way that says nothing of their usage. @defaultValue 0 */
  readonly failures?: number;
}

/** Callers that call until nothing has room and nothing is under way, and a provider that writes down what it has really done. */
export class Load {
  readonly store = new TextStore();
  readonly plan: LoadPlan;
  budget: Budget;
  /** Billionths of a USD that the provider has billed. */
  billed = 0n;
  sent = 0;
  refused = 0;
  /** Reports of calls above a limit, in billionths. */
  readonly overruns: bigint[] = [];
  /** Most that calls under way at a time cost beyond their estimates. */
  mostShortfall = 0n;
  #shortfall = 0n;
  #generation = 0;

  constructor(plan: LoadPlan) {
    this.plan = plan;
    this.budget = this.#start();
  }

  #start(): Budget {
    const { limits, scheduler } = this.plan;
    return createBudget({
      limits,
      prices: PRICES,
      storage: this.store,
      scheduler,
      onEvent: (event) => {
        if (event.type === 'budgetOverrun' && event.unit === 'usd') this.overruns.push(BigInt(Math.round(event.over * 1e9)));
      },
    });
  }

  begin(): void {
    for (let i = 0; i < this.plan.callers; i++) this.#next(this.#generation);
  }

  /** The process dies. The calls under way no longer report here, but the provider makes them. A new process takes over. */
  readonly crash = (): void => {
    this.#generation++;
    this.budget = this.#start();
    this.begin();
  };

  #later(ms: number, work: () => void): void {
    this.plan.scheduler.schedule(() => {
      work();
    }, ms);
  }

  #next(generation: number): void {
    if (generation !== this.#generation) return;
    const { random, estimate } = this.plan;
    const models = Object.keys(PRICES);
    const model = models[Math.floor(random() * models.length)]!;
    const used = { inputTokens: 1 + Math.floor(random() * 2000), outputTokens: Math.floor(random() * 500) };
    const guess = estimate(used);
    let reservation: Reservation;
    try {
      reservation = this.budget.reserve({ model, ...guess });
    } catch (error) {
      if (!isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) throw error;
      this.refused++;
      // What is under way may need less than it was charged with.
      if (this.budget.snapshot().executing > 0)
        this.#later(5 + random() * 20, () => {
          this.#next(generation);
        });
      return;
    }
    this.#send(generation, reservation, model, used, guess);
  }

  #send(
    generation: number,
    reservation: Reservation,
    model: string,
    used: { readonly inputTokens: number; readonly outputTokens: number },
    guess: { readonly inputTokens: number; readonly outputTokens: number },
  ): void {
    const { random, failures = 0 } = this.plan;
    this.sent++;
    const cost = exactCost(model, used.inputTokens, used.outputTokens);
    const short = cost - exactCost(model, guess.inputTokens, guess.outputTokens);
    if (short > 0n) this.#shortfall += short;
    if (this.#shortfall > this.mostShortfall) this.mostShortfall = this.#shortfall;
    const fails = random() < failures;
    this.#later(1 + random() * 50, () => {
      this.billed += cost;
      if (short > 0n) this.#shortfall -= short;
      if (generation !== this.#generation) return;
      reservation.settle(fails ? undefined : used);
      this.#next(generation);
    });
  }
}
