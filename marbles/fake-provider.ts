import type { SchedulerLike } from 'rxjs';
import { asyncScheduler, map, Observable } from 'rxjs';
import { SlidingWindow } from '../operators/kernel/limits/sliding-window.js';
import { TokenBucket } from '../operators/kernel/limits/token-bucket.js';
import { FlowConfigError } from '../operators/options/errors.js';
import {
  check,
  count,
  durationMs,
  flag,
  misused,
  oneOf,
  onlyKnown,
  orDefault,
  positive,
  ratio,
  requiredFunction,
} from '../operators/options/options.js';
import type { WorkerCall } from './call-log.js';
import { CallLog } from './call-log.js';
import type { FakeContext } from './fake-call.js';
import { FakeProviderError } from './fake-call.js';
import type { ProviderOptions, ProviderSimulation } from './providers/types.js';
import { seededRandom } from './random.js';

export type { FakeContext } from './fake-call.js';
export { FakeProviderError } from './fake-call.js';

/** @stable */
export interface FakeProviderOptions<T, R> {
  /** Makes the answer for one item. */
  readonly answer: (item: T) => R;
  /** Requests per minute; more are answered 429 with `retry-after`. > 0. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Tokens per minute, > 0. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
  /**
   * How both are counted: in buckets that fill all the time, or by a log of the last `burstSeconds`, in which each call stays for exactly that long.
   * @defaultValue 'bucket'
   */
  readonly discipline?: 'bucket' | 'sliding';
  /**
   * Whose headers tell of both limits, on every response: `x-ratelimit-*` with durations or `anthropic-ratelimit-*` with dates. Each response is
   * then shown to `observe` of the call's context, if it has one, when the call ends. @defaultValue none
   */
  readonly rateHeaders?: 'openai' | 'anthropic';
  /** How many seconds' worth of both can be spent at once, > 0. @defaultValue 60 */
  readonly burstSeconds?: number;
  /** Tokens of an item. @defaultValue a quarter of the characters of a text, 1 for anything else */
  readonly tokensOf?: (item: T) => number;
  /**
   * Time an answer takes: `base` for the call and `perItem` for each of its items, in ms. Refusals take `base`. Or a function of the items, asked once
   * for each call, and with none for a refusal. @defaultValue 0
   */
  readonly latencyMs?: number | FakeLatency | ((items: readonly T[]) => number);
  /** Ids of items that fail every call they are in with 400. @defaultValue none */
  readonly poisoned?: readonly string[];
  /** What `poisoned` means by an id. @defaultValue the item's `id` if it has one, else the item as text */
  readonly idOf?: (item: T) => string;
  /** Whether that 400 says which input it was (`input[2]`). @defaultValue true */
  readonly namesPoison?: boolean;
  /** Most items in a call; more are answered 400. @defaultValue Infinity */
  readonly maxItems?: number;
  /** Most tokens in a call; more are answered 400 with both numbers. @defaultValue Infinity */
  readonly maxTokens?: number;
  /** How often calls go wrong by chance. @defaultValue never */
  readonly errorRate?: FakeErrorRate;
  /** How many times as long a slow call takes, >= 1. @defaultValue 10 */
  readonly slowFactor?: number;
  /** The same seed draws the same errors. @defaultValue 1 */
  readonly seed?: number;
  /** Most calls that `calls` remembers, the newest: for runs without an end. >= 1. @defaultValue Infinity */
  readonly maxCalls?: number;
  /** Clock and timers; virtual inside `virtualTime`, a spec or `TestScheduler.run`. @defaultValue asyncScheduler */
  readonly scheduler?: SchedulerLike;
}

export interface FakeLatency {
  readonly base: number;
  readonly perItem: number;
}

/** Chances from 0 to 1, at most 1 together. */
export interface FakeErrorRate {
  /** 429 with `retry-after`, although no limit was broken. */
  readonly throttled?: number;
  /** 503. */
  readonly overloaded?: number;
  /** The connection breaks halfway (`ECONNRESET`). */
  readonly cut?: number;
  /** The right answer, after `slowFactor` times the latency. */
  readonly slow?: number;
}

/** What the provider decided about a call when it came in. */
export type FakeFate = 'answered' | 'slow' | 'throttled' | 'overloaded' | 'cut' | 'poisoned' | 'tooLarge';

/** @stable */
export interface FakeProviderCall<T> extends WorkerCall<readonly T[]> {
  readonly fate: FakeFate;
  readonly tokens: number;
}

/** @stable */
export interface FakeProvider<T, R> {
  /** Makes one call: the work of `batchMap`, `batchMapFrom`, `createBatcher`. Every subscription is a call of its own. */
  readonly work: (items: readonly T[], context?: FakeContext) => Observable<R[]>;
  /** The same for a single item: the work of operators without batches. */
  readonly workOne: (item: T, context?: FakeContext) => Observable<R>;
  /** Every call so far, in the order they came in; the last `maxCalls` of them. */
  readonly calls: readonly FakeProviderCall<T>[];
  /** Calls under way. */
  readonly inFlight: number;
  /** Most calls that were ever under way at once. */
  readonly maxInFlight: number;
  /** Calls answered 429. */
  readonly refused: number;
}

export const FAKE_PROVIDER_DEFAULTS = {
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  discipline: 'bucket',
  burstSeconds: 60,
  latencyMs: 0,
  poisoned: [],
  namesPoison: true,
  maxItems: Infinity,
  maxTokens: Infinity,
  errorRate: {},
  slowFactor: 10,
  seed: 1,
  maxCalls: Infinity,
} as const;

const NAME = 'fakeProvider';
const CHANCES = ['throttled', 'overloaded', 'cut', 'slow'] as const;

/**
 * A stand-in for a model provider, for tests of whatever calls one: rate limits with `retry-after`, latency that grows with the
 * batch, poisoned items, and failures by chance that are the same in every run. It works in virtual time (no promise is involved) and in
 * real time, stops when its subscriber leaves or its signal aborts, and counts what it saw.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { batchMap, classifyError, robust } from 'sluice/operators';
 * import { fakeProvider, virtualTime } from 'sluice/marbles';
 * import { of } from 'rxjs';
 *
 * const provider = fakeProvider({ answer: (text: string) => text.length, latencyMs: { base: 40, perItem: 5 }, poisoned: ['bad'] });
 * const seen = virtualTime(({ flush, now }) => {
 *   const lines: string[] = [];
 *   of('to', 'bad', 'three').pipe(batchMap(provider.work, { repair: robust(), classify: classifyError })).subscribe(({ input, status }) => lines.push(`${input} ${status} at ${now()} ms`));
 *   flush();
 *   return lines;
 * });
 * seen; // => ['bad rejected at 40 ms', 'to fulfilled at 90 ms', 'three fulfilled at 90 ms']
 * provider.calls.map(({ input, fate }) => `${input.join()} ${fate}`); // => ['to,bad,three poisoned', 'to,three answered']
 * ```
 * @see {@link createWorker} when every call should go as a marble string says.
 */
export function fakeProvider(options: ProviderOptions): ProviderSimulation;
export function fakeProvider<T, R>(options: FakeProviderOptions<T, R>): FakeProvider<T, R>;
export function fakeProvider<T, R>(options: FakeProviderOptions<T, R> | ProviderOptions): FakeProvider<T, R> | ProviderSimulation {
  return 'provider' in options ? presetOf(options.provider).open(options) : simpleProvider(options);
}

const presetOf = check<ProviderOptions['provider']>(
  'the value of `anthropic`, `openai`, `azure` or `gemini`',
  (value: unknown) => typeof value === 'object' && value !== null && 'open' in value && typeof value.open === 'function',
).bind(undefined, NAME, 'provider');

function simpleProvider<T, R>(options: FakeProviderOptions<T, R>): FakeProvider<T, R> {
  const checked = checkedOptions(options);
  const { answer, scheduler, latencyOf, slowFactor } = checked;
  const fateOf = judge(checked);
  const log = new CallLog<readonly T[], FakeProviderCall<T>>(() => scheduler.now(), checked.maxCalls);
  let refused = 0;

  const work: FakeProvider<T, R>['work'] = (items, context) =>
    new Observable((subscriber) => {
      const { fate, tokens, error, headers } = fateOf(items, scheduler.now());
      if (fate === 'throttled') refused += 1;
      const signal = context?.signal;
      const end = log.open(
        subscriber,
        signal,
        (opened) => ({ ...opened, fate, tokens }),
        [...items],
        () => {
          subscriber.error(signal?.reason);
        },
      );
      // A signal that had aborted before the call has ended it by now.
      if (subscriber.closed) return;
      const share = { answered: 1, slow: slowFactor, cut: 0.5 }[fate as string];
      const afterMs = share === undefined ? latencyOf([]) : share * latencyOf(items);
      subscriber.add(
        scheduler.schedule(() => {
          const status = error === undefined ? 200 : error.status;
          if (headers && status !== undefined) context?.observe?.({ status, headers });
          if (error !== undefined) {
            end('failed');
            subscriber.error(error);
            return;
          }
          const results = items.map((item) => answer(item));
          end('ok');
          subscriber.next(results);
          subscriber.complete();
        }, afterMs),
      );
    });

  return {
    work,
    workOne: (item, context) => work([item], context).pipe(map(([result]) => result as R)),
    calls: log.calls,
    get inFlight() {
      return log.running;
    },
    get maxInFlight() {
      return log.peak;
    },
    get refused() {
      return refused;
    },
  };
}

interface Judgement {
  readonly fate: FakeFate;
  readonly tokens: number;
  readonly error?: FakeProviderError;
  /** Of the response, when it tells of the limits. */
  readonly headers?: FakeHeaders | undefined;
}

type FakeHeaders = Readonly<Record<string, string>>;

type Checked<T, R> = ReturnType<typeof checkedOptions<T, R>>;

/** Decides about each call as it comes in: chance first, as a broken gateway would, then size, limits and content. */
function judge<T, R>(options: Checked<T, R>): (items: readonly T[], now: number) => Judgement {
  const { burstSeconds, requestsPerMinute, tokensPerMinute, maxItems, maxTokens, poisoned, namesPoison, errorRate } = options;
  const random = seededRandom(options.seed);
  const capacity = (perMinute: number): number => (perMinute * burstSeconds) / 60;
  const Meter = options.discipline === 'sliding' ? SlidingWindow : TokenBucket;
  let limits: { readonly requests: Meter; readonly tokens: Meter } | undefined;

  const byChance = (): (typeof CHANCES)[number] | undefined => {
    let draw = random();
    return CHANCES.find((kind) => {
      draw -= errorRate[kind] ?? 0;
      return draw < 0;
    });
  };

  const judgeOne = (items: readonly T[], now: number): Judgement => {
    const tokens = items.reduce((sum, item) => sum + options.tokensOf(item), 0);
    const judged = (fate: FakeFate, message: string, ...rest: Rest): Judgement => ({
      fate,
      tokens,
      error: new FakeProviderError(message, ...rest),
    });
    const accident = byChance();
    if (accident === 'throttled') return judged('throttled', 'slow down', 429, retryAfter(1000));
    if (accident === 'overloaded') return judged('overloaded', 'the provider is overloaded', 503);
    if (accident === 'cut') return judged('cut', 'the connection was cut', undefined, {}, 'ECONNRESET');
    if (items.length > maxItems)
      return judged('tooLarge', `at most ${String(maxItems)} inputs in a request`, 400, {}, 'array_above_max_length');
    if (tokens > maxTokens) {
      return judged('tooLarge', `maximum context length is ${String(maxTokens)} tokens, however you requested ${String(tokens)}`, 400);
    }
    if (tokens > capacity(tokensPerMinute)) {
      return judged('tooLarge', `request too large: limit ${String(capacity(tokensPerMinute))}, requested ${String(tokens)}`, 429);
    }
    limits ??= {
      requests: new Meter(requestsPerMinute, Math.max(1, capacity(requestsPerMinute)), now),
      tokens: new Meter(tokensPerMinute, capacity(tokensPerMinute), now),
    };
    const waitMs = Math.max(limits.requests.payableAt(1, now), limits.tokens.payableAt(tokens, now)) - now;
    if (waitMs > 0) return judged('throttled', 'rate limit reached', 429, retryAfter(waitMs));
    limits.requests.pay(1, now);
    limits.tokens.pay(tokens, now);
    const bad = items.findIndex((item) => poisoned.has(options.idOf(item)));
    if (bad !== -1) return judged('poisoned', namesPoison ? `input[${String(bad)}] is invalid` : 'one of the inputs is invalid', 400);
    return { fate: accident ?? 'answered', tokens };
  };

  return (items, now) => {
    const judgement = judgeOne(items, now);
    const { error } = judgement;
    if (options.rateHeaders === undefined) return judgement;
    const headers = { ...error?.headers, ...(limits && rateHeaders(options.rateHeaders, limits, now)) };
    return error === undefined
      ? { ...judgement, headers }
      : { ...judgement, headers, error: new FakeProviderError(error.message, error.status, headers, error.code) };
  };
}

type Meter = SlidingWindow | TokenBucket;

/** Limit, rest and reset of everything that is limited, as real providers write them. A reset is the time until all of it is there again. */
function rateHeaders(spelling: 'openai' | 'anthropic', limits: Readonly<Record<'requests' | 'tokens', Meter>>, now: number): FakeHeaders {
  const headers: Record<string, string> = {};
  for (const [unit, meter] of Object.entries(limits)) {
    if (meter.capacity === Infinity) continue;
    const resetMs = meter.payableAt(meter.capacity, now) - now;
    const told = {
      limit: String(Math.round(meter.capacity)),
      remaining: String(Math.max(0, Math.floor(meter.level(now)))),
      reset: spelling === 'openai' ? duration(resetMs) : new Date(Math.ceil((now + resetMs) / 1000) * 1000).toISOString(),
    };
    for (const [field, value] of Object.entries(told))
      headers[spelling === 'openai' ? `x-ratelimit-${field}-${unit}` : `anthropic-ratelimit-${unit}-${field}`] = value;
  }
  return headers;
}

/** `12ms`, `1.5s`, `6m0s`. */
function duration(ms: number): string {
  if (ms < 1000) return `${String(Math.ceil(ms))}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${String(Math.ceil(ms - 60_000 * minutes) / 1000)}s`;
  return minutes === 0 ? seconds : `${String(minutes)}m${seconds}`;
}

type Rest = [status?: number | undefined, headers?: Readonly<Record<string, string>>, code?: string];

function retryAfter(waitMs: number): Readonly<Record<string, string>> {
  return { 'retry-after': String(Math.ceil(waitMs / 1000)), 'retry-after-ms': String(Math.ceil(waitMs)) };
}

function checkedOptions<T, R>(options: FakeProviderOptions<T, R>) {
  onlyKnown(NAME, options, [...Object.keys(FAKE_PROVIDER_DEFAULTS), 'answer', 'rateHeaders', 'tokensOf', 'idOf', 'scheduler']);
  const given = <K extends keyof typeof FAKE_PROVIDER_DEFAULTS>(name: K) => orDefault(options[name], FAKE_PROVIDER_DEFAULTS[name]);
  const slowFactor = positive(NAME, 'slowFactor', given('slowFactor'));
  if (slowFactor < 1) throw new FlowConfigError(NAME, 'slowFactor', 'a number >= 1', slowFactor);
  const { seed = FAKE_PROVIDER_DEFAULTS.seed, scheduler = asyncScheduler } = options;
  if (!Number.isSafeInteger(seed)) throw new FlowConfigError(NAME, 'seed', 'a whole number', seed);
  const poisoned: unknown = given('poisoned');
  if (!Array.isArray(poisoned)) throw new FlowConfigError(NAME, 'poisoned', 'a list of ids', poisoned);
  return {
    answer: requiredFunction(NAME, 'answer', options.answer),
    rateHeaders: options.rateHeaders === undefined ? undefined : oneOf('openai', 'anthropic')(NAME, 'rateHeaders', options.rateHeaders),
    requestsPerMinute: positive(NAME, 'requestsPerMinute', given('requestsPerMinute')),
    tokensPerMinute: positive(NAME, 'tokensPerMinute', given('tokensPerMinute')),
    discipline: oneOf('bucket', 'sliding')(NAME, 'discipline', given('discipline')),
    burstSeconds: positive(NAME, 'burstSeconds', given('burstSeconds')),
    tokensOf: requiredFunction(NAME, 'tokensOf', orDefault(options.tokensOf, quarterOfText)),
    latencyOf: checkedLatency(orDefault(options.latencyMs, FAKE_PROVIDER_DEFAULTS.latencyMs)),
    maxCalls: count(NAME, 'maxCalls', given('maxCalls')),
    poisoned: new Set(poisoned as readonly string[]),
    idOf: requiredFunction(NAME, 'idOf', orDefault(options.idOf, idOrText)),
    namesPoison: flag(NAME, 'namesPoison', given('namesPoison')),
    maxItems: count(NAME, 'maxItems', given('maxItems')),
    maxTokens: positive(NAME, 'maxTokens', given('maxTokens')),
    errorRate: checkedChances(orDefault(options.errorRate, FAKE_PROVIDER_DEFAULTS.errorRate)),
    slowFactor,
    seed,
    scheduler,
  };
}

function checkedLatency<T>(latencyMs: NonNullable<FakeProviderOptions<T, unknown>['latencyMs']>): (items: readonly T[]) => number {
  if (typeof latencyMs === 'function') return latencyMs;
  if (typeof latencyMs !== 'object') {
    durationMs(NAME, 'latencyMs', latencyMs);
    return () => latencyMs;
  }
  onlyKnown(NAME, latencyMs, ['base', 'perItem'], 'latencyMs', 'latencyMs.');
  const base = durationMs(NAME, 'latencyMs.base', latencyMs.base);
  const perItem = durationMs(NAME, 'latencyMs.perItem', latencyMs.perItem);
  return (items) => base + perItem * items.length;
}

function checkedChances(rate: FakeErrorRate): FakeErrorRate {
  onlyKnown(NAME, rate, CHANCES, 'errorRate', 'errorRate.');
  const sum = CHANCES.reduce((total, kind) => total + ratio(NAME, `errorRate.${kind}`, orDefault(rate[kind], 0)), 0);
  if (sum > 1 + Number.EPSILON)
    throw misused(NAME, 'errorRate', `the chances in \`errorRate\` add up to ${String(sum)}`, 'Lower them to at most 1 in total.');
  return rate;
}

function quarterOfText(item: unknown): number {
  return typeof item === 'string' ? Math.ceil(item.length / 4) : 1;
}

function idOrText(item: unknown): string {
  return String(typeof item === 'object' && item !== null && 'id' in item ? item.id : item);
}
