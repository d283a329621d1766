/** What the processes of a test are told, as JSON. */

/** Where limits are kept. Add a kind here and to `storeOf` in `child.ts`. */
export type StorePlan =
  | { readonly kind: 'local'; readonly name: string; readonly folder: string }
  /** `path` is the socket of the server. */
  | { readonly kind: 'redis'; readonly name: string; readonly path: string };

export interface RatePlan {
  /** A bucket comes in evenly; of a window, everything may be spent at once. */
  readonly kind: 'bucket' | 'window';
  readonly unit: string;
  readonly amount: number;
  readonly windowMs: number;
  readonly burst?: number;
}

/** A process with one limiter. It keeps so many jobs waiting; each takes a permit, tells the provider, and gives the permit back. */
export interface LimiterPlan {
  readonly store: StorePlan;
  readonly rates: readonly RatePlan[];
  readonly guardMs?: number;
  readonly leastShare?: number;
  readonly lanes?: readonly string[];
  /** Share of each rate that the first lane keeps. */
  readonly reserve?: number;
  /** Lane of its jobs. */
  readonly lane?: string;
  /** Jobs that wait at any time; 0 for one that only holds the limiter. */
  readonly waiting: number;
  /** A new job comes only so long after the one before, in ms. Default: at once. */
  readonly everyMs?: number;
  /** Stops after so many jobs. Default: never. */
  readonly jobs?: number;
  /** What a job costs. Where it is a pair, a whole number between the two. */
  readonly cost: Readonly<Record<string, number | readonly [least: number, most: number]>>;
  /** Calls cost only so much of what was estimated, from this part to all of it, and say so when they end. */
  readonly settlesFrom?: number;
  /** Address of a provider. */
  readonly provider?: string;
}

/** One call that has arrived at the provider. Times are in ms, on the clock that all processes of the machine share. */
export interface Arrival {
  readonly at: number;
  /** When the permit was granted. */
  readonly sentAt: number;
  /** How long the job waited for its permit. */
  readonly waitedMs: number;
  readonly pid: number;
  readonly lane: string | undefined;
  readonly cost: Readonly<Record<string, number>>;
}

export type ToChild = { readonly type: 'start' | 'report' } | { readonly type: 'block'; readonly ms: number };

export type FromChild =
  | { readonly type: 'ready' | 'done' }
  | { readonly type: 'listening'; readonly address: string }
  | { readonly type: 'event'; readonly event: string; readonly at: number }
  | { readonly type: 'arrivals'; readonly arrivals: readonly Arrival[] };

/** Milliseconds on a clock that does not jump and that all processes of the machine share. */
export function machineTime(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
