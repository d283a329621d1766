import { createAccount } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const RATES = ['requestsPerMinute', 'tokensPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute', 'requestsPerDay', 'tokensPerDay'];
const AMOUNT = 'a number > 0 or Infinity (to stop all calls, use `pause()`)';
const ZONE = "the name of a time zone, such as 'America/Los_Angeles'";

/** Options, and those of `dayStartsAt` and of one of `models` under dotted names. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  if (typeof options !== 'object' || (options as unknown) === null) return createAccount(options);
  const models: unknown[] = [{ model: 'large' }, { model: 'small' }];
  const rest: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(options)) {
    const [, at, field] = /^models\[(\d)\](?:\.(.+))?$/.exec(path) ?? [];
    const [, ofDay] = /^dayStartsAt\.(.+)$/.exec(path) ?? [];
    if (at !== undefined) {
      models[Number(at)] = field === undefined ? value : { ...(models[Number(at)] as object), [field]: value };
      rest['models'] = models;
    } else if (ofDay === undefined) rest[path] = value;
    else rest['dayStartsAt'] = { [ofDay]: value };
  }
  return createAccount(rest);
};

export const rows: MisuseTable = {
  operator: 'createAccount',
  create,
  rows: [
    ...[...RATES, ...RATES.map((rate) => `models[0].${rate}`)].flatMap((rate) => badly(rate, AMOUNT, 0, -1, NaN, '60', null)),
    ...badly('dayStartsAt', 'an object', 5, 'UTC', null),
    ...badly('dayStartsAt.timeZone', ZONE, '', 'Moon/Tranquility', 5, null),
    ...badly('dayStartsAt.hour', 'a whole number from 0 to 23', -1, 24, 0.5, NaN, '0', null),
    ...unknown('dayStartsAt.minute', 'timeZone, hour', 30),
    ...badly('models', 'a list of objects such as { model, requestsPerMinute }', 5, {}, 'large', null),
    ...badly('models[0]', 'an object', NaN, 0, 'large', null, undefined),
    ...badly('models[0].model', 'a non-empty string', '', 5, NaN, null, undefined, {}),
    ...badly('models[0].model', 'a name, or a list of at least one name', []),
    ...wrong('models[1].model', '`models` names `large` twice', 'Merge the two entries.', 'large'),
    ...badly('models[0].concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...unknown('models[0].burst', `model, concurrency, ${RATES.join(', ')}`, 5),
    ...wrong('rates', 'unknown option `{option}`', 'Use `requestsPerMinute` or `tokensPerMinute`, or `createLimiter`.', []),
    ...wrong('budget', 'unknown option `{option}`', 'Use `createAccount` of `sluice`.', {}),
    ...badly('burst', 'a finite number > 0', 0, -1, NaN, Infinity, '2', null),
    ...badly('burstSeconds', 'a number from 0.001 to 86400', 0, -1, NaN, Infinity, '2', null),
    ...badly('store', 'a store such as memoryStore(), or sharedStore(store) of your own', 'redis', 5, NaN, null, {}, () => undefined),
    ...badly('keyFairness', 'byCost()', 'byCost', NaN, 0, true, null, {}, () => undefined),
    ...badly('lanes', 'a list of at least one lane or name', 'user', 5, null, {}),
  ],
};
