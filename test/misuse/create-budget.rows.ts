import type { BudgetOptions } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const prices = { small: { inputUsdPerMillion: 1 } };
const priceFields = [
  ...['inputUsdPerMillion', 'cacheReadUsdPerMillion', 'cacheWriteUsdPerMillion', 'cacheWrite1hUsdPerMillion'],
  ...['outputUsdPerMillion', 'usdPerCall'],
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
    ...badly('limits[0].usd', amount, undefined, ...notAmount),
    ...badly('limits[0].tokens', 'a whole number >= 0', NaN, -1, 1.5, Infinity, '5', null),
    ...badly('both.limits[0].tokens', 'absent beside `usd`: make it two limits', 5),
    ...badly('limits[0].windowMs', 'a number > 0 or Infinity', NaN, 0, -1, '5', null, {}),
    ...badly('limits[0].window', 'absent (known options: key, model, usd, tokens, windowMs)', 5),
    ...badly('prices', 'an object', null, 5, 'cheap'),
    ...badly('none.prices', 'given, because `limits[0]` is in USD', undefined),
    ...badly("prices['small']", 'an object', null, undefined, 5, 'cheap'),
    ...badly("none.prices['large']", 'given, because a limit in USD is about its calls', undefined),
    ...badly("call.prices['large']", 'given, because a limit in USD is about its calls', undefined),
    ...priceFields.flatMap((field) => badly(`prices['small'].${field}`, amount, ...notAmount)),
    ...badly("prices['small'].usd", `absent (known options: ${priceFields.join(', ')})`, 5),
    ...badly('enforce', 'true or false', 1, 'yes', null),
    ...badly('warnAt', 'a number from 0 to 1', NaN, -0.1, 1.1, Infinity, '0.5', null),
    ...badly('onWarn', 'a function', null, 5, 'log', {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('storage', 'an object with `load` and `save`', null, 5, 'file', {}, { load: () => undefined }),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}),
    ...badly('limit', 'absent (known options: limits, prices, enforce, warnAt, onWarn, onEvent, name, storage, scheduler)', 5),
    ...badly('reserve.call', 'an object', null, undefined, 5, 'small'),
    ...badly('reserve.call.model', 'a non-empty string', '', null, 5, undefined),
    ...tokenFields.flatMap((field) => badly(`reserve.call.${field}`, amount, ...notAmount)),
    ...badly('reserve.call.reserved', 'a number from 0 to 1', NaN, -0.1, 1.1, '0.5', null),
    ...badly('reserve.call.cost', `absent (known options: model, key, reserved, ${tokenFields.join(', ')})`, 5),
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
