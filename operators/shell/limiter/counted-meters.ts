import type { CreditLimit } from '../../kernel/credit/credit.js';
import { creditLimits } from '../../kernel/credit/credit-limits.js';
import type { Gate } from '../../kernel/limiter/gate.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { amountOf, SLOTS } from '../../kernel/limits/limit.js';
import type { CreditMeter } from './credit-meter.js';
import type { LimiterSettings } from './settings.js';
import type { Lease, Ticket } from './ticket.js';

/** The meters of a limiter that are paid with credit. Those of rates that are limited now count: `setLimits` may lift one. */
export class CountedMeters {
  private readonly all: CreditMeter[] = [];
  /** Those that limits were sent of last. */
  private lately: readonly CreditMeter[] = [];

  constructor(
    private readonly units: readonly string[],
    private readonly limiter: { readonly settings: LimiterSettings; readonly gate: Gate<Ticket, Lease> },
  ) {}

  add(meter: CreditMeter): void {
    this.all.push(meter);
  }

  /** Whether a limit was lifted, or is one again, since limits were sent last. */
  get haveChanged(): boolean {
    const { counted, lately } = this;
    return counted.length !== lately.length || counted.some((meter, i) => meter !== lately[i]);
  }

  isCounted(column: number): boolean {
    return this.counted.some((meter) => meter.column === column);
  }

  /** Whether it is the one of several rates of a unit that pays. */
  isFirst(meter: CreditMeter): boolean {
    return this.counted.find(({ column }) => column === meter.column) === meter;
  }

  /** What a job will pay of each unit, as far as there is a limit of it. */
  costsOf(charge: Charge): number[] {
    return this.units.map((unit, column) => (this.isCounted(column) ? this.bounded(column, amountOf(charge, unit)) : 0));
  }

  /** A cost as far as it is paid: of an estimate that is beyond all reason, less. */
  bounded(column: number, cost: number): number {
    const { rates } = this.limiter.gate;
    return rates
      ? Math.min(
          cost,
          rates.least(this.units[column] as string, ({ heaviest }) => heaviest),
        )
      : cost;
  }

  /** The limits of all rates, which are sent now. */
  limits(): CreditLimit[] {
    this.lately = this.counted;
    return this.lately.flatMap((meter) => this.limitsOf(meter));
  }

  limitsOf({ amount, capacity, column, rate }: CreditMeter): CreditLimit[] {
    const { queue, scheduler } = this.limiter.settings;
    // A lane cannot keep part of a slot.
    const reserve = rate.unit === SLOTS ? undefined : queue.reserve;
    return creditLimits(rate, { amount, burst: capacity, column, reserve, now: scheduler.now() });
  }

  private get counted(): readonly CreditMeter[] {
    const { rates } = this.limiter.gate;
    return this.all.filter((each) => rates?.all.some(({ meter }) => meter === each));
  }
}
