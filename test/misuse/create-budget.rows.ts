import type { BudgetOptions } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const prices = { small: { inputUsdPerMillion: 1 } };
const priceFields = [
  ...['inputUsdPerMillion', 'cacheReadUsdPerMillion', 'cacheWriteUsdPerMillion', 'cacheWrite1hUsdPerMillion'],
  ...['outputUsdPerMillion', 'usdPerCall', 'maxOutputTokens'],
];
const tokenFields = ['inputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'cacheWrite1hTokens', 'outputTokens', 'tokens'];
const ofLimit =
  (field: string, besides: object = { tokens: 5 }) =>
  (value: never) =>
    createBudget({ prices, limits: [{ ...besides, [field]: value }] });
const ofPrice = (field: string) => (value: never) => createBudget({ prices: { small: { [field]: value } } });
const ofCall = (field: string) => (value: never) => createBudget().reserve({ model: 'small', [field]: value });

const amount = 'a finite number >= 0';
const notAmount = [NaN, -1, Infinity, '5', null, true, {}];
const saved = { unit: 'usd', startedAt: 0, charged: 5 };

export const rows: MisuseTable = {
  operator: 'createBudget',
  create: (options: never) => createBudget(options),
  calls: {
    'limits[0]': (value: never) => createBudget({ limits: [value] }),
    'limits[0].key': ofLimit('key'),
    'limits[0].model': ofLimit('model'),
    'limits[0].usd': ofLimit('usd', {}),
    'limits[0].tokens': ofLimit('tokens', {}),
    'both.limits[0].tokens': ofLimit('tokens', { usd: 5 }),
    'limits[0].windowMs': ofLimit('windowMs'),
    'limits[0].window': ofLimit('window'),
    'none.prices': () => createBudget({ limits: [{ usd: 5 }] }),
    "prices['small']": (value: never) => createBudget({ prices: { small: value } }),
    "none.prices['large']": () => createBudget({ prices, limits: [{ usd: 5, model: 'large' }] }),
    "call.prices['large']": () => createBudget({ prices, limits: [{ usd: 5 }] }).reserve({ model: 'large' }),
    ...Object.fromEntries([...priceFields, 'usd'].map((field) => [`prices['small'].${field}`, ofPrice(field)])),
    'reserve.call': (call: never) => createBudget().reserve(call),
    ...Object.fromEntries(['model', ...tokenFields, 'reserved', 'cost'].map((field) => [`reserve.call.${field}`, ofCall(field)])),
  } satisfies Record<string, (value: never) => unknown>,
  rows: [
    ...badly('limits', 'an array', null, 5, 'usd', {}, { usd: 5 } satisfies NonNullable<BudgetOptions['limits']>[number]),
    ...badly('limits[0]', 'an object', null, undefined, 5, 'usd'),
    ...badly('limits[0].key', 'a non-empty string', '', 5, null, {}),
    ...badly('limits[0].model', 'a non-empty string', '', 5, null, {}),
    ...badly('limits[0].usd', amount, ...notAmount),
    ...wrong('limits[0].usd', '`limits[0]` has neither `usd` nor `tokens`', 'Add one of them.', undefined),
    ...badly('limits[0].tokens', 'a whole number >= 0', NaN, -1, 1.5, Infinity, '5', null),
    ...wrong('both.limits[0].tokens', '`{option}` cannot be combined with `usd`', 'Make two limits of it.', 5),
    ...badly('limits[0].windowMs', 'a number > 0 or Infinity', NaN, 0, -1, '5', null, {}),
    ...misspelt('limits[0].window', 'limits[0].windowMs', 5),
    ...badly('prices', 'an object', null, 5, 'cheap'),
    ...wrong('none.prices', '`limits[0].usd` needs `prices`', 'Add the price of each model.', undefined),
    ...badly("prices['small']", 'an object', null, undefined, 5, 'cheap'),
    ...wrong("none.prices['large']", '`prices` does not list `large`, and a limit in USD applies to it', 'Add its price.', undefined),
    ...wrong("call.prices['large']", '`prices` does not list `large`, and a limit in USD applies to it', 'Add its price.', undefined),
    ...priceFields.flatMap((field) => badly(`prices['small'].${field}`, amount, ...notAmount)),
    ...unknown("prices['small'].usd", priceFields.join(', '), 5),
    ...badly('enforce', 'true or false', 1, 'yes', null),
    ...badly('warnAt', 'a number from 0 to 1', NaN, -0.1, 1.1, Infinity, '0.5', null),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('store', 'a store such as memoryStore(), with `ask`, `correct` and `hold`', null, 5, 'redis', {}, { ask: () => undefined }),
    ...badly('storage', 'an object with `load` and `save`', null, 5, 'file', {}, { load: () => undefined }),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}),
    ...misspelt('limit', 'limits', 5),
    ...badly('reserve.call', 'an object', null, undefined, 5, 'small'),
    ...badly('reserve.call.model', 'a non-empty string', '', null, 5, undefined),
    ...tokenFields.flatMap((field) => badly(`reserve.call.${field}`, amount, ...notAmount)),
    ...badly('reserve.call.reserved', 'a number from 0 to 1', NaN, -0.1, 1.1, '0.5', null),
    ...unknown('reserve.call.cost', `model, key, reserved, ${tokenFields.join(', ')}`, 5),
  ],
};

/** What no budget has saved; the store is refused with what it holds. */
export const notSaved: readonly unknown[] = [
  null,
  5,
  [5],
  [null],
  [{ ...saved, unit: 'eur' }],
  [{ ...saved, charged: -1 }],
  [{ ...saved, charged: '5' }],
  [{ ...saved, charged: 0.5 }],
  [{ ...saved, charged: 1e300 }],
  [{ ...saved, startedAt: null }],
  [{ ...saved, windowMs: null }],
];
