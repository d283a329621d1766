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

/** Reads whatever has some of these numbers: the snapshot of a limiter or a pipeline, what metrics observe, or a line of a recording. */
export function sampleOf(at: number, name: string, given: unknown): LimitSample {
  const from = Object(given) as Readonly<Record<string, unknown>>;
  const number = (field: string, without: number): number => numberOr(from[field], without);
  const told = Array.isArray(from['rates']) ? from['rates'].map(rateOf) : ratesOf(from);
  // What has no limit cannot be short.
  const rates = told.filter(({ left }) => left < Infinity).slice(0, 20);
  return {
    ...{
      at,
      name: name.slice(0, 200),
      executing: number('executing', 0),
      concurrency: number('concurrency', Infinity),
      queued: number('queued', 0),
    },
    ...{ heldBySlot: number('heldBySlot', 0), heldByRate: number('heldByRate', 0), pausedForMs: number('pausedForMs', 0), rates },
  };
}

function rateOf(given: unknown): RateLevel {
  const { unit, windowMs, amount, left } = Object(given) as Partial<Record<keyof RateLevel, unknown>>;
  return {
    unit: typeof unit === 'string' ? unit.slice(0, 40) : 'requests',
    windowMs: typeof windowMs === 'number' ? windowMs : undefined,
    amount: typeof amount === 'number' ? amount : undefined,
    left: numberOr(left, 0),
  };
}

/** Of what metrics observe. */
function ratesOf(from: Readonly<Record<string, unknown>>): RateLevel[] {
  return ['requests', 'tokens'].flatMap((unit) => {
    const left = from[`${unit}Left`];
    return typeof left === 'number' ? [{ unit, left }] : [];
  });
}

function numberOr(value: unknown, without: number): number {
  // JSON has no other word for it.
  if (value === null) return Infinity;
  return typeof value === 'number' && !Number.isNaN(value) ? value : without;
}

/** What was last heard of each limiter, and the most that each rate had. */
export class Limits {
  readonly #samples = new Map<string, LimitSample>();
  readonly #most = new Map<string, number>();

  add(sample: LimitSample): void {
    if (this.#samples.size >= 20 && !this.#samples.has(sample.name)) return;
    this.#samples.set(sample.name, sample);
    for (const rate of sample.rates) {
      const key = keyOf(sample, rate);
      this.#most.set(key, Math.max(this.#most.get(key) ?? 0, rate.left));
    }
  }

  get views(): LimitView[] {
    return [...this.#samples.values()].map((sample) => ({
      ...sample,
      rates: sample.rates.map((rate) => ({ ...rate, level: rate.left / (this.#most.get(keyOf(sample, rate)) || 1) })),
    }));
  }
}

function keyOf({ name }: LimitSample, { unit, windowMs }: RateLevel): string {
  return `${name}/${unit}/${String(windowMs)}`;
}
