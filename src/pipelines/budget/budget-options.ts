import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import type {
  BudgetCall,
  BudgetLimit,
  BudgetOptions,
  BudgetPort,
  BudgetStorage,
  ModelPrice,
  ModelPrices,
  SavedBudget,
  SharedBudgetOptions,
} from './budget-types.js';
import type { MeterRule } from './meter.js';
import type { CallTokens } from './prices.js';
import { billionths } from './prices.js';

/** Whose errors and events these are. */
export const NAME = 'createBudget';

const PRICES: readonly (keyof ModelPrice)[] = [
  ...(['inputUsdPerMillion', 'cacheReadUsdPerMillion', 'cacheWriteUsdPerMillion', 'cacheWrite1hUsdPerMillion'] as const),
  ...(['outputUsdPerMillion', 'usdPerCall', 'maxOutputTokens'] as const),
];

/** What is counted of a call. */
const TOKENS = ['inputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'cacheWrite1hTokens', 'outputTokens', 'tokens'] as const;

/** By the name of the model, which may be that of something every object has. */
export type PriceList = ReadonlyMap<string, ModelPrice>;

/** `store` makes the budget a shared one. */
type AllOptions = BudgetOptions & Partial<SharedBudgetOptions>;

export function readOptions(options: BudgetOptions | SharedBudgetOptions) {
  const { limits = [], prices = {}, ...rest } = Object(options) as AllOptions;
  const read = check.options(
    NAME,
    Object(options) === options ? rest : (options as AllOptions),
    { enforce: true, warnAt: 0.8 },
    {
      limits: () => undefined,
      prices: () => undefined,
      enforce: check.flag,
      warnAt: (operator, option, value: number) => check.ratio(operator, option, value),
      onEvent: check.listener,
      name: (operator, option, value: string | undefined) => (value === undefined ? value : check.nonEmpty(operator, option, value)),
      storage: storageOption,
      store: check.optional(check.store),
      scheduler: check.scheduler,
    },
  );
  if (read.store !== undefined) {
    check.excludes(NAME, 'storage', read.storage, '`store`', 'Leave it out: the store remembers what was spent.');
    if (!read.enforce) throw check.misused(NAME, 'enforce', 'a budget with a `store` is enforced', 'Try limits out without `store`.');
  }
  const list = priceList(prices);
  return { ...read, prices: list, limits: limitRules(limits, list) };
}

/** The `budget` option of what makes calls. */
export function budgetOption(operator: string, option: string, budget: BudgetPort | undefined): BudgetPort | undefined {
  if (budget === undefined || typeof (Object(budget) as Partial<BudgetPort>).reserve === 'function') return budget;
  throw new FlowConfigError(operator, option, 'a budget made by createBudget', budget);
}

/** What is about to be called, with its tokens as whole numbers. @throws FlowConfigError */
export function checkedCall(call: BudgetCall): BudgetCall & CallTokens & { readonly reserved: number } {
  check.onlyKnown(NAME, call, ['model', 'key', 'reserved', ...TOKENS], 'call', 'call.');
  const { model, key, reserved = 0 } = call;
  const counts = Object.fromEntries(
    TOKENS.map((kind) => [kind, Math.ceil(amount(`call.${kind}`, call[kind] === undefined ? 0 : call[kind]))]),
  );
  return {
    ...(counts as Record<(typeof TOKENS)[number], number>),
    model: check.nonEmpty(NAME, 'call.model', model),
    key,
    reserved: check.ratio(NAME, 'call.reserved', reserved),
  };
}

/** @throws FlowConfigError for what no budget has saved */
export function checkedSave(saved: SavedBudget | undefined): SavedBudget['limits'] {
  if (saved === undefined) return [];
  const limits: unknown = (Object(saved) as Partial<SavedBudget>).limits;
  if (!Array.isArray(limits) || !limits.every(isSaved))
    throw new FlowConfigError(NAME, 'storage', 'a storage whose `load` returns what a budget has saved', saved);
  return limits;
}

function isSaved(value: unknown): value is SavedBudget['limits'][number] {
  const { unit, windowMs, startedAt, charged } = Object(value) as Readonly<Record<string, unknown>>;
  const isKnown = unit === 'usd' || unit === 'tokens';
  return isKnown && (windowMs === undefined || isFinite(windowMs)) && isFinite(startedAt) && isWhole(charged);
}

function isFinite(value: unknown): value is number {
  return Number.isFinite(value);
}

/** One without a price of a model that has a limit in USD could never be called. */
function limitRules(limits: readonly BudgetLimit[], prices: PriceList): readonly MeterRule[] {
  if (!Array.isArray(limits)) throw new FlowConfigError(NAME, 'limits', 'an array', limits);
  return (limits as readonly BudgetLimit[]).map((limit, i) => {
    const at = `limits[${String(i)}]`;
    check.onlyKnown(NAME, limit, ['key', 'model', 'usd', 'tokens', 'windowMs'], at, `${at}.`);
    const { key, model, usd, tokens, windowMs = Infinity } = limit;
    if (usd !== undefined) check.excludes(NAME, `${at}.tokens`, tokens, '`usd`', 'Make two limits of it.');
    const rule = {
      key: key === undefined ? key : check.nonEmpty(NAME, `${at}.key`, key),
      model: model === undefined ? model : check.nonEmpty(NAME, `${at}.model`, model),
      windowMs: check.positive(NAME, `${at}.windowMs`, windowMs),
    };
    if (tokens !== undefined) return { ...rule, unit: 'tokens', limit: wholeAmount(`${at}.tokens`, tokens) } as const;
    if (usd === undefined) throw check.misused(NAME, `${at}.usd`, `\`${at}\` has neither \`usd\` nor \`tokens\``, 'Add one of them.');
    const limitInUsd = amount(`${at}.usd`, usd);
    if (prices.size === 0) throw check.misused(NAME, 'prices', `\`${at}.usd\` needs \`prices\``, 'Add the price of each model.');
    if (model !== undefined && !prices.has(model)) throw unpriced(model);
    return { ...rule, unit: 'usd', limit: billionths(limitInUsd) } as const;
  });
}

/** A limit in USD needs a price for every model. */
export function unpriced(model: string): FlowConfigError {
  return check.misused(
    NAME,
    `prices['${model}']`,
    `\`prices\` does not list \`${model}\`, and a limit in USD applies to it`,
    'Add its price.',
  );
}

function priceList(prices: ModelPrices): PriceList {
  if (typeof prices !== 'object' || (prices as unknown) === null) throw new FlowConfigError(NAME, 'prices', 'an object', prices);
  const list = new Map<string, ModelPrice>();
  for (const [model, price] of Object.entries(prices)) {
    const at = `prices['${model}']`;
    check.onlyKnown(NAME, price, PRICES, at, `${at}.`);
    for (const [field, value] of Object.entries(price)) if (value !== undefined) amount(`${at}.${field}`, value);
    list.set(model, { ...price });
  }
  return list;
}

function storageOption(operator: string, option: string, storage: BudgetStorage | undefined): BudgetStorage | undefined {
  if (storage === undefined) return storage;
  const { load, save } = Object(storage) as Partial<BudgetStorage>;
  if (typeof load === 'function' && typeof save === 'function') return storage;
  throw new FlowConfigError(operator, option, 'an object with `load` and `save`', storage);
}

function amount(option: string, value: unknown): number {
  if (isFinite(value) && value >= 0) return value;
  throw new FlowConfigError(NAME, option, 'a finite number >= 0', value);
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function wholeAmount(option: string, value: unknown): number {
  if (isWhole(value)) return value;
  throw new FlowConfigError(NAME, option, 'a whole number >= 0', value);
}
