import { cut } from './read-event.js';

/** One rate of a limiter at one moment. */
export interface RateLevel {
  readonly unit: string;
  /** Undefined where it is not told. */
  readonly windowMs?: number | undefined;
  readonly amount?: number | undefined;
  /** What could be spent at once; negative in debt. */
  readonly left: number;
}

/** Numbers of a limiter or a pipeline at one moment. */
export interface LimitSample {
  readonly at: number;
  readonly name: string;
  readonly executing: number;
  /** Infinity where there is no limit, or none is known. */
  readonly concurrency: number;
  readonly queued: number;
  readonly heldBySlot: number;
  readonly heldByRate: number;
  readonly pausedForMs: number;
  readonly rates: readonly RateLevel[];
}

/** The same, to draw. */
export interface LimitView extends LimitSample {
  /** With how full each is: 1 is full, 0 is empty, negative is debt. */
  readonly rates: readonly (RateLevel & { readonly level: number })[];
}

/** Reads whatever has some of these numbers: the snapshot of a limiter or a pipeline, what metrics observe, or a sample. */
export function sampleOf(at: number, name: string, given: object): LimitSample {
  const from = given as Readonly<Record<string, unknown>>;
  const { executing, concurrency, queued, heldBySlot, heldByRate, pausedForMs } = from;
  // Of what metrics observe.
  const gauges = ['requests', 'tokens'].map((unit) => ({ unit, left: from[`${unit}Left`] }));
  const rates = (Array.isArray(from['rates']) ? from['rates'] : gauges) as readonly Readonly<Record<string, unknown>>[];
  return {
    ...{ at, name: cut(name), executing: number(executing, 0), concurrency: number(concurrency, Infinity), queued: number(queued, 0) },
    ...{ heldBySlot: number(heldBySlot, 0), heldByRate: number(heldByRate, 0), pausedForMs: number(pausedForMs, 0) },
    rates: rates.flatMap(({ unit, windowMs, amount, left }) =>
      // What has no limit cannot be short.
      Number.isFinite(left)
        ? { unit: cut(String(unit)), windowMs: number(windowMs, undefined), amount: number(amount, undefined), left: left as number }
        : [],
    ),
  };
}

function number<W>(value: unknown, without: W): number | W {
  return typeof value === 'number' ? value : without;
}

/** What was last heard of each limiter; a rate is full with the most that it ever had. */
export class Limits {
  readonly views = new Map<string, LimitView>();
  readonly #most = new Map<string, number>();

  add(sample: LimitSample): void {
    const { views } = this;
    if (views.size >= 20 && !views.has(sample.name)) return;
    const rates = sample.rates.map((rate) => {
      const key = `${sample.name}/${rate.unit}/${rate.windowMs}`;
      const most = Math.max(this.#most.get(key) ?? 0, rate.left);
      this.#most.set(key, most);
      return { ...rate, level: rate.left / (most || 1) };
    });
    views.set(sample.name, { ...sample, rates });
  }
}
