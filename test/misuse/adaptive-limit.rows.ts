import { adaptiveLimit, createLimiter } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'algorithm, initial, min, max, backoffRatio, dropOn, classify';
const words = "one of 'throttled', 'timeout', 'overloaded', 'transient'";
const rule = (): number => 4;

export const rows: MisuseTable = {
  operator: 'adaptiveLimit',
  create: (options) => adaptiveLimit(createLimiter(), options),
  calls: {
    limiter: (value) => adaptiveLimit(value),
    'dropOn[0]': (value) => adaptiveLimit(createLimiter(), { dropOn: [value] }),
  },
  rows: [
    ...badly('limiter', 'a limiter made by createLimiter', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], () => 4),
    ...badly('algorithm', "'aimd' or a function", 'vegas', 5, null, {}, true),
    ...badly('initial', 'a whole number from 1 to 64', NaN, 0, -1, 1.5, 65, Infinity, '4', null),
    { option: 'initial', value: 20, expected: 'a whole number from 1 to 10', besides: { max: 10 } },
    { option: 'initial', value: 4, expected: 'a whole number from 8 to 64', besides: { min: 8 } },
    ...badly('min', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null),
    ...badly('min', 'a whole number from 1 to 64', 65, Infinity),
    { option: 'min', value: Infinity, expected: 'a whole number from 1 to Infinity', besides: { max: Infinity } },
    ...badly('max', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null),
    ...badly('backoffRatio', 'a number from 0.1 to 0.99', NaN, 0, 0.05, 1, 1.5, -1, Infinity, '0.5', null),
    { option: 'backoffRatio', value: 0.5, expected: "absent without `algorithm` 'aimd'", besides: { algorithm: rule } },
    ...badly('dropOn', 'a list of at least one class', [], 'throttled', 5, null, {}),
    ...badly('dropOn[0]', words, 'cancelled', 'itemFault', 429, null, undefined),
    ...badly('classify', 'a function', 'fatal', null, {}, 5),
    ...badly('onEvent', `absent (known options: ${known})`, () => undefined),
  ],
};
