import { limiterBelow } from './child-of.js';
import { createLimiter } from './create-limiter.js';
import { fromHeaders } from './from-headers.js';
import type { KeyFairness } from './lanes.js';
import { keyFairnessOf, lanes } from './lanes.js';
import type { SharedOptions, SharedStore } from './options/credit-store.js';
import { BURST_SECONDS } from './options/defaults.js';
import { FlowConfigError } from './options/errors.js';
import { ACCOUNT_HINTS } from './options/hints.js';
import { namedLanes } from './options/lanes.js';
import type { ChildLimiterOptions, Limiter, LimiterJob, LimiterOptions, RateRule, SavedModel } from './options/limiter.js';
import { finitePositive, flag, madeBy, misused, nonEmpty, onlyKnown, optional, orDefault, ratio, startingRate } from './options/options.js';
import type { LaneOptions, NamedLanes } from './options/types.js';
import type { DayStart } from './per-day.js';
import { dayStartOption, perDay } from './per-day.js';
import { perMinute } from './rates.js';
import type { ModelPool } from './shell/limiter/account.js';
import { AccountLimiter } from './shell/limiter/account.js';
import { LIMITER_CHECKS, limiterSettings } from './shell/limiter/settings.js';

export type { DayStart } from './per-day.js';

/**
 * Rates of an account or of a model, as plain data: numbers > 0. `pause()` or `setLimits` lets nothing pass.
 * @stable
 */
export interface AccountRates {
  /** Requests per minute. @defaultValue Infinity, or what responses report */
  readonly requestsPerMinute?: number;
  /** Tokens per minute, of what is sent and of what comes back together. @defaultValue Infinity, or what responses report */
  readonly tokensPerMinute?: number;
  /** Tokens per minute of what is sent. @defaultValue Infinity, or what responses report */
  readonly inputTokensPerMinute?: number;
  /** Tokens per minute of what comes back. @defaultValue Infinity, or what responses report */
  readonly outputTokensPerMinute?: number;
  /** Requests per calendar day, which begins as `dayStartsAt` says. @defaultValue Infinity */
  readonly requestsPerDay?: number;
  /** Tokens per calendar day, of what is sent and of what comes back together. @defaultValue Infinity */
  readonly tokensPerDay?: number;
}

/**
 * Limits of a model inside an account, or of several models that share them.
 * @stable
 */
export interface ModelLimits extends AccountRates {
  /** Name of the model, as jobs name it, or names of several that share these limits. */
  readonly model: string | readonly string[];
  /** Most calls of it at a time. @defaultValue Infinity */
  readonly concurrency?: number;
}

/**
 * What an account allows, as plain data.
 * @stable
 */
export interface AccountOptions extends AccountRates, Omit<LimiterOptions, 'rates' | 'queue' | 'learn'> {
  /** Requests that may be saved up and sent at once, > 0. @defaultValue what comes in within `burstSeconds` */
  readonly burst?: number;
  /**
   * Seconds of rate that may be saved up and spent at once, 0.001 to 86400. @defaultValue 2; 60 of tokens whose limit is learned alone, up to what responses
   * say is left
   */
  readonly burstSeconds?: number;
  /** When the day of `requestsPerDay` and `tokensPerDay` begins. @defaultValue midnight UTC */
  readonly dayStartsAt?: DayStart;
  /**
   * Limits of models beside those of the account: a job that names such a `model` comes under both, and one whose model has none under those of the
   * account alone. A model whose limit is in the way delays no other. `maxQueued` counts for each of them. @defaultValue none
   */
  readonly models?: readonly ModelLimits[];
  /**
   * Names of lanes, or what `lanes` takes, most urgent first. A lane's `reserve` is a share of every rate that lanes below may not take, 0.05 for a first
   * lane that says nothing in an account without `burst` and `burstSeconds`. @defaultValue ['user', 'normal', 'background']
   */
  readonly lanes?: NamedLanes;
  /** How jobs with different `key`s share a lane: `byCost()` by the tokens that they use. @defaultValue they take turns, one job each */
  readonly keyFairness?: KeyFairness;
  /**
   * Where rates and pauses are kept that other processes share: `localStore(…)`, `redisStore(…)`, `memoryStore()`, or `sharedStore(…)` of a
   * store of your own. All rates of the account and of its models are shared; slots are of this process, but where the store has a `concurrency`. A first lane that says nothing then keeps a reserve of 0.02. @defaultValue none
   */
  readonly store?: SharedStore;
  /** Whether responses set the rates, of the model that was called when it has limits of its own; with `false` they only make the pauses they ask for. @defaultValue true */
  readonly learn?: boolean;
}

const NAME = 'createAccount';
const MINUTE = ['requestsPerMinute', 'tokensPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute'] as const;
const DAY = ['requestsPerDay', 'tokensPerDay'] as const;
/** Names of all options: those of a limiter, but for what plain data stands for. */
const ACCOUNT_OPTIONS = /* @__PURE__ */ (() =>
  [
    ...[...MINUTE, ...DAY, 'burst', 'burstSeconds', 'dayStartsAt', 'models', 'lanes', 'keyFairness', 'store'],
    ...['concurrency', 'headroom', 'maxQueued', 'overflow', 'learn', 'refunds', 'enforce', 'abortGraceMs', 'restore', 'random'],
    ...['onEvent', 'name', 'scheduler'],
  ] as readonly string[])();

/** That an account is given no other options than its own, and those with these names. @throws FlowConfigError */
export function accountOptions(operator: string, options: unknown, others: readonly string[] = []): void {
  onlyKnown(operator, options, [...ACCOUNT_OPTIONS, ...others], 'options', '', ACCOUNT_HINTS);
}

const LANES: readonly string[] = ['user', 'normal', 'background'];
/** Of every rate, for a first lane that says nothing itself. What is kept may be spent at once: not where the account says how much that may be. */
const FIRST_RESERVE = 0.05;
/** Where they are shared: a window is exact there, so that what is kept and not used is lost. */
const SHARED_RESERVE = 0.02;

/**
 * A limiter with everything in it, for one account at a provider: slots, requests and tokens per minute and day, limits per model, lanes `user` (a person
 * waits), `normal` and `background`, and rates learned from the headers of responses. What pipelines make from plain data. Inside a lane, jobs with different `key`s
 * take turns.
 *
 * It is `createLimiter` with values: take that one for other windows, other units, or a smaller bundle.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createAccount } from 'sluice/operators';
 *
 * const account = createAccount({ concurrency: 8, requestsPerMinute: 600, tokensPerMinute: 200_000 });
 * const answer = await account.runAsync(() => Promise.resolve('hello'), { lane: 'user', cost: { tokens: 12 } });
 * answer; // => 'hello'
 * ```
 * @example Limits per model, inside the account's.
 * ```ts
 * import { createAccount } from 'sluice/operators';
 *
 * const account = createAccount({
 *   concurrency: 8,
 *   models: [{ model: 'large', concurrency: 1 }, { model: ['small', 'tiny'], requestsPerMinute: 600 }],
 * });
 * const lease = account.tryAcquire({ model: 'large' });
 * account.tryAcquire({ model: 'large' }); // => undefined
 * account.tryAcquire({ model: 'small' })?.release();
 * lease?.release();
 * ```
 * @example Trying out limits: all calls go, and `wouldWait` reports those that the limits would have held back.
 * ```ts
 * import { createAccount } from 'sluice/operators';
 *
 * const held: string[] = [];
 * const account = createAccount({
 *   enforce: false,
 *   concurrency: 2,
 *   onEvent: (event) => event.type === 'wouldWait' && held.push(event.limitedBy),
 * });
 * const leases = [1, 2, 3].map(() => account.tryAcquire());
 * leases.includes(undefined); // => false
 * held; // => ['concurrency']
 * for (const lease of leases) lease?.release();
 * ```
 */
export function createAccount(options: AccountOptions = {}): Limiter {
  accountOptions(NAME, options);
  const { lanes: given = LANES, keyFairness, learn = true, models, burst, burstSeconds, dayStartsAt, store, ...rest } = options;
  const isRate = new Set<string>([...MINUTE, ...DAY]);
  const common = Object.fromEntries(Object.entries(rest).filter(([option]) => !isRate.has(option))) as LimiterOptions;
  const savings = {
    burstMs: 1000 * ratio(NAME, 'burstSeconds', orDefault(burstSeconds, BURST_SECONDS), 0.001, 86_400),
    // A provider that tells what is left lets it be spent.
    learnedBurstMs: burstSeconds === undefined ? 60_000 : undefined,
    burst: optional(finitePositive)(NAME, 'burst', burst),
    dayStartsAt,
  };
  const learns = flag(NAME, 'learn', learn);
  const within = madeBy<SharedStore | undefined>('share', 'a store such as memoryStore(), or sharedStore(store) of your own', undefined)(
    NAME,
    'store',
    store,
  );
  const sharedBy = (rates: readonly RateRule[], of: SharedOptions): readonly RateRule[] => within?.share(rates, of) ?? rates;
  const sharing = keyFairnessOf(NAME, 'keyFairness', keyFairness);
  const [first, ...others] = namedLanes(NAME, given);
  const isSaving = burst !== undefined || burstSeconds !== undefined;
  const reserve = within ? SHARED_RESERVE : FIRST_RESERVE;
  const rates = ratesOf(options, savings);
  const limits = sharedBy(rates, { scope: 'account' });
  // A store may share slots besides.
  if (within && !learns && !models && limits.length === rates.length && rates.every(({ amount }) => amount === Infinity))
    throw misused(NAME, 'store', 'there is no rate to share', 'Add one, such as `tokensPerMinute`, or remove `store`.');
  const account: LimiterOptions = {
    ...common,
    rates: limits,
    queue: lanes([{ ...(!isSaving && { reserve }), ...(first as LaneOptions) }, ...others], {
      key: ({ key }: LimiterJob) => key,
      operator: NAME,
      ...(sharing && { keyFairness: sharing }),
    }),
    learn: fromHeaders({ learn: learns }),
  };
  const settings = limiterSettings(account, NAME);
  if (models === undefined) return createLimiter(account);
  const { scheduler: _, restore, concurrency: __, name, ...shared } = common;
  const limitsOf = checkedModels(models, savings);
  return new AccountLimiter(settings, (limiter) =>
    limitsOf.map(({ names, concurrency, rates }): ModelPool => {
      const saved = restore?.models?.find(({ model }) => isSame(model, names));
      const own: ChildLimiterOptions = {
        ...shared,
        // The slots that a store has are those of the account.
        rates: sharedBy(rates, { scope: `model ${names.join('+')}`, concurrency: Infinity }),
        learn: fromHeaders({ learn: learns }),
        ...(concurrency !== undefined && { concurrency }),
        ...(saved && { restore: saved }),
        ...(name !== undefined && { name: `${name}/${names.join('+')}` }),
      };
      return { models: names, limiter: limiterBelow(limiter, own, NAME) };
    }),
  );
}

interface Savings {
  readonly burstMs: number;
  readonly learnedBurstMs: number | undefined;
  readonly burst: number | undefined;
  readonly dayStartsAt: DayStart | undefined;
}

/** @throws FlowConfigError */
function ratesOf(given: AccountRates, { burstMs, learnedBurstMs, burst, dayStartsAt }: Savings, within = ''): RateRule[] {
  const amountOf = (name: keyof AccountRates): number => startingRate(NAME, within + name, orDefault(given[name], Infinity));
  const rates = MINUTE.map((name): RateRule => {
    const unit = name.slice(0, -'PerMinute'.length);
    const amount = amountOf(name);
    return { ...perMinute(unit, amount), ...{ burstMs, ...(unit === 'requests' ? { burst } : { learnedBurstMs }) } };
  });
  const days = DAY.map((name) => ({ unit: name.slice(0, -'PerDay'.length), amount: amountOf(name) }));
  // Input and output apart, and days, are for accounts that have such limits.
  const isUsed = ({ unit, amount }: { readonly unit: string; readonly amount: number }): boolean =>
    unit === 'requests' || unit === 'tokens' || amount < Infinity;
  const limitedDays = days.filter(({ amount }) => amount < Infinity);
  // Checked also where nothing counts by the day.
  const start = dayStartsAt === undefined ? undefined : dayStartOption(NAME, 'dayStartsAt', dayStartsAt);
  return [...rates.filter(isUsed), ...limitedDays.map(({ unit, amount }) => perDay(unit, amount, start))];
}

interface CheckedModel {
  readonly names: readonly string[];
  readonly concurrency: number | undefined;
  readonly rates: readonly RateRule[];
}

/** @throws FlowConfigError */
function checkedModels(models: readonly ModelLimits[], savings: Savings): readonly CheckedModel[] {
  if (!Array.isArray(models)) throw new FlowConfigError(NAME, 'models', 'a list of objects such as { model, requestsPerMinute }', models);
  const known = new Set<string>();
  return Array.from(models as readonly ModelLimits[], (given, i) => {
    const within = `models[${String(i)}].`;
    onlyKnown(NAME, given, ['model', 'concurrency', ...MINUTE, ...DAY], within.slice(0, -1), within);
    const { model, concurrency } = given;
    const names: readonly string[] = Array.isArray(model) ? model : [model as string];
    if (names.length === 0) throw new FlowConfigError(NAME, `${within}model`, 'a name, or a list of at least one name', model);
    for (const name of names) {
      nonEmpty(NAME, `${within}model`, name);
      if (known.has(name)) throw misused(NAME, `${within}model`, `\`models\` names \`${name}\` twice`, 'Merge the two entries.');
      known.add(name);
    }
    return {
      names,
      concurrency: optional(LIMITER_CHECKS.concurrency)(NAME, `${within}concurrency`, concurrency),
      rates: ratesOf(given, { ...savings, burst: undefined }, within),
    };
  });
}

function isSame(saved: SavedModel['model'], names: readonly string[]): boolean {
  return Array.isArray(saved) && saved.length === names.length && names.every((name, i) => saved[i] === name);
}
