import { describe, expect, it } from 'vitest';
import {
  childOf,
  createAccount,
  createLimiter,
  FlowConfigError,
  keyedLimiter,
  perMinute,
  slidingWindow,
  tokenBucket,
} from '../../operators/index.js';
import { parseConfig } from '../../src/edge/index.js';

const RATES = {
  perMinute: (amount: number) => perMinute('tokens', amount),
  per: (amount: number) => tokenBucket({ unit: 'requests', amount, windowMs: 1000 }),
  strict: (amount: number) => slidingWindow({ unit: 'usd', amount, windowMs: 1000 }),
} as const;

/** Whatever is given a rate when it is made, with the name of the option. */
const MADE: readonly (readonly [string, string, (amount: number) => unknown])[] = [
  ['createAccount', 'requestsPerMinute', (amount) => createAccount({ requestsPerMinute: amount })],
  ['createAccount', 'tokensPerMinute', (amount) => createAccount({ tokensPerMinute: amount })],
  ...Object.entries(RATES).flatMap(([name, rate]) => {
    const rates = (amount: number) => ({ rates: [perMinute('other', 5), rate(amount)] });
    return [
      [`createLimiter, ${name}`, 'amount', (amount: number) => createLimiter(rates(amount))],
      [`childOf, ${name}`, 'amount', (amount: number) => childOf(createLimiter(), rates(amount))],
      [`keyedLimiter, ${name}`, 'amount', (amount: number) => keyedLimiter(rates(amount))],
    ] as const;
  }),
];

describe('a rate that is given at creation', () => {
  it.each(MADE)('%s: `%s` of 0, or anything but a number, is rejected with a sentence that says what to do', (_, option, make) => {
    for (const amount of [0, Number(''), -0, NaN, Number('6o'), -1]) {
      const error = ((): unknown => {
        try {
          return make(amount);
        } catch (thrown) {
          return thrown;
        }
      })();
      expect(error).toBeInstanceOf(FlowConfigError);
      expect((error as Error).message).toMatch(new RegExp(`\`(?:rates\\[1\\]\\.)?${option}\` to be a number >=? ?0`));
      if (amount === 0) expect((error as Error).message).toContain('to stop all calls, use `pause()`');
    }
    expect(() => make(0.5)).not.toThrow();
    expect(() => make(Infinity)).not.toThrow();
  });

  it.each(Object.entries(RATES))('may become 0 later: %s', (_, rate) => {
    const limiter = createLimiter({ rates: [rate(5)] });
    limiter.setLimits({ rates: [rate(0)] });
    expect(limiter.tryAcquire({ cost: { [rate === RATES.strict ? 'usd' : 'tokens']: 1 } })).toBeUndefined();
  });

  it.each(['requestsPerMinute', 'tokensPerMinute'])('is refused in a config: `%s`', (name) => {
    const result = parseConfig({ limits: { [name]: 0 } });
    expect(JSON.stringify(result)).toContain(name);
  });
});
