import type { BudgetCall, BudgetLimitSnapshot, SavedBudget } from './budget-types.js';
import { usdOf } from './prices.js';

type Unit = BudgetLimitSnapshot['unit'];
type Saved = SavedBudget['limits'][number];

/** What a call costs, in whole numbers: billionths of a USD, and tokens. */
export type Amounts = Readonly<Record<Unit, number>>;

/** A limit in whole numbers. */
export interface MeterRule {
  readonly key: string | undefined;
  readonly model: string | undefined;
  readonly unit: Unit;
  readonly windowMs: number;
  readonly limit: number;
}

/** One window of a limit. A call that ends when the window is over is still one of this window. */
export class Window {
  charged = 0;
  /** Of that: by calls under way. */
  inFlight = 0;
  hasWarned = false;
  /** Undefined until the first call. */
  startedAt: number | undefined;

  constructor(readonly meter: Meter) {}

  get spent(): number {
    return this.charged - this.inFlight;
  }

  get endsAt(): number {
    return this.startedAt === undefined ? Infinity : this.startedAt + this.meter.rule.windowMs;
  }

  /** @param reserved - the share of what is left of the window that is kept for other calls */
  hasRoomFor(amounts: Amounts, reserved: number, now: number): boolean {
    return this.#fits(this.charged, amounts, reserved, now);
  }

  /** Whether it had room if all calls under way cost nothing. */
  mayHaveRoomFor(amounts: Amounts, reserved: number, now: number): boolean {
    return this.#fits(this.spent, amounts, reserved, now);
  }

  #fits(charged: number, amounts: Amounts, reserved: number, now: number): boolean {
    const { unit, limit, windowMs } = this.meter.rule;
    const toCome = this.startedAt === undefined || windowMs === Infinity ? 1 : Math.max(0, this.endsAt - now) / windowMs;
    return charged + amounts[unit] <= limit * (1 - reserved * toCome);
  }

  /** Charges a call that begins. */
  take(amounts: Amounts, now: number): void {
    this.startedAt ??= now;
    this.inFlight += amounts[this.meter.rule.unit];
    this.charged += amounts[this.meter.rule.unit];
  }

  /** A call is over. */
  land(reserved: Amounts): void {
    this.inFlight -= reserved[this.meter.rule.unit];
  }

  /** A call costs more or less than was charged; answers how much. */
  correct(from: Amounts, to: Amounts): number {
    const { unit } = this.meter.rule;
    const more = to[unit] - from[unit];
    this.charged += more;
    return more;
  }
}

/** A limit and the window that is open. */
export class Meter {
  #window = new Window(this);

  constructor(
    readonly rule: MeterRule,
    /** Among the limits of the options, from 0. */
    readonly position: number,
  ) {}

  isAbout({ key, model }: BudgetCall): boolean {
    const { rule } = this;
    return (rule.key === undefined || rule.key === key) && (rule.model === undefined || rule.model === model);
  }

  at(now: number): Window {
    if (now >= this.#window.endsAt) this.#window = new Window(this);
    const window = this.#window;
    // A clock that was put back must not make the window longer.
    if (window.startedAt !== undefined && window.startedAt > now) window.startedAt = now;
    return window;
  }

  /** An amount as it is reported. */
  shown(amount: number): number {
    return this.rule.unit === 'usd' ? usdOf(amount) : amount;
  }

  snapshot(window: Window): BudgetLimitSnapshot {
    const { limit } = this.rule;
    const { spent, inFlight, charged, endsAt } = window;
    return {
      ...this.rule,
      limit: this.shown(limit),
      spent: this.shown(spent),
      inFlight: this.shown(inFlight),
      left: this.shown(Math.max(0, limit - charged)),
      resetsAt: endsAt,
    };
  }

  /** Nothing until the first call. */
  save(now: number): readonly Saved[] {
    const { key, model, unit, windowMs } = this.rule;
    const { startedAt, charged } = this.at(now);
    if (startedAt === undefined) return [];
    // Plain JSON: what is not there is left out, and it cannot say Infinity.
    const about = { ...(key !== undefined && { key }), ...(model !== undefined && { model }), ...(windowMs !== Infinity && { windowMs }) };
    return [{ ...about, unit, startedAt, charged }];
  }

  /** Goes on where the saved limit was, when it is this one; its amount may be another. */
  restore({ key, model, unit, windowMs = Infinity, startedAt, charged }: Saved): void {
    const { rule } = this;
    if (key !== rule.key || model !== rule.model || unit !== rule.unit || windowMs !== rule.windowMs) return;
    this.#window.startedAt = startedAt;
    this.#window.charged = charged;
  }
}
