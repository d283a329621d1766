import { createLimiter } from './create-limiter.js';
import { fromHeaders } from './from-headers.js';
import type { LaneOptions } from './lanes.js';
import { lanes } from './lanes.js';
import { FlowConfigError } from './options/errors.js';
import type { Limiter, LimiterJob, LimiterOptions, RateRule } from './options/limiter.js';
import { finitePositive, flag, limit, onlyKnown, optional, orDefault, ratio } from './options/options.js';
import { perMinute } from './rates.js';
import { LIMITER_CHECKS } from './shell/limiter/settings.js';

/** What an account allows, as plain data. */
export interface AccountOptions extends Omit<LimiterOptions, 'rates' | 'queue' | 'learn'> {
  /** Requests per minute; with 0 nothing passes. @defaultValue Infinity, or what responses report */
  readonly requestsPerMinute?: number;
  /** Tokens per minute, of what is sent and of what comes back; with 0 nothing passes. @defaultValue Infinity, or what responses report */
  readonly tokensPerMinute?: number;
  /** Requests that may be saved up and sent at once, > 0. @defaultValue what comes in within `burstSeconds` */
  readonly burst?: number;
  /** Seconds of rate that may be saved up and spent at once, 0.001 to 86400. @defaultValue 2 */
  readonly burstSeconds?: number;
  /**
   * Names of lanes, or what `lanes` takes, most urgent first. When there are several and none says a `reserve`, the first has one of 0.05.
   * ['P0', 'P1', 'P2']
   */
  readonly lanes?: readonly (string | LaneOptions)[];
  /** Whether responses set the rates; with `false` they only make the pauses they ask for. @defaultValue true */
  readonly learn?: boolean;
}

const NAME = 'createAccount';
const OWN: readonly string[] = ['requestsPerMinute', 'tokensPerMinute', 'burst', 'burstSeconds', 'lanes'];
/** Share of the rates for the first lane. With a `headroom` of 0.9 and a burst of 2 s no minute has more than 0.98 of the amount. */
const RESERVE = 0.05;
const LANES: readonly string[] = ['P0', 'P1', 'P2'];

/**
 * A limiter with everything in it, for one account at a provider: slots, requests and tokens per minute, lanes P0 (somebody waits), P1 and P2,
 * and rates learned from the headers of responses. What pipelines make from plain data. Inside a lane, jobs with different `key`s take turns.
 *
 * It is `createLimiter` with values: take that one for other windows, other units, or a smaller bundle.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createAccount } from 'sluice/operators';
 *
 * const account = createAccount({ concurrency: 8, requestsPerMinute: 600, tokensPerMinute: 200_000 });
 * const answer = await account.runAsync(() => Promise.resolve('hello'), { lane: 'P0', cost: { tokens: 12 } });
 * answer; // => 'hello'
 * ```
 */
export function createAccount(options: AccountOptions = {}): Limiter {
  // Those of the limiter, but for what it is told here.
  onlyKnown(NAME, options, [...OWN, ...Object.keys(LIMITER_CHECKS).filter((name) => name !== 'rates' && name !== 'queue')]);
  const { requestsPerMinute, tokensPerMinute, burst, burstSeconds = 2, lanes: given = LANES, learn = true, ...common } = options;
  if (!Array.isArray(given) || given.length === 0) throw new FlowConfigError(NAME, 'lanes', 'a list of names or lanes, not empty', given);
  const savings = { burstMs: 1000 * ratio(NAME, 'burstSeconds', burstSeconds, 0.001, 86_400) };
  const rate = (unit: 'requests' | 'tokens', amount: number | undefined, saved: object): RateRule => ({
    ...perMinute(unit, limit(NAME, `${unit}PerMinute`, orDefault(amount, Infinity))),
    ...saved,
  });
  return createLimiter({
    ...common,
    rates: [
      rate('requests', requestsPerMinute, { ...savings, burst: optional(finitePositive)(NAME, 'burst', burst) }),
      rate('tokens', tokensPerMinute, savings),
    ],
    queue: lanes(lanesOf(given), { key: keyOf }),
    learn: fromHeaders({ rates: flag(NAME, 'learn', learn) }),
  });
}

/** Lanes of which the first has a reserve, unless they say themselves which have one. */
function lanesOf(given: readonly (string | LaneOptions)[]): readonly LaneOptions[] {
  const all = given.map((lane) => (typeof lane === 'string' ? { name: lane } : lane));
  const [first, ...lower] = all;
  const saysNothing = lower.length > 0 && all.every((lane) => (Object(lane) as LaneOptions).reserve === undefined);
  return saysNothing && typeof first === 'object' ? [{ ...first, reserve: RESERVE }, ...lower] : all;
}

/** Whoever asks for much delays nobody else in the lane. */
function keyOf({ key }: LimiterJob): unknown {
  return key;
}
