import { describe, expect, it } from 'vitest';
import { createAccount, createLimiter, lanes, perMinute, slidingWindow, tokenBucket } from '../operators/index.js';
import { optionSites, optionsOf, type Site, said } from './support/option-sites.js';

/** Options that are numbers, by their names. */
const NUMBER =
  /(?:Ms|PerMinute|PerDay|Seconds|Tokens|Keys|Queued|Attempts|Size|Chars|Held|Weight|Calls|Depth|Share|oncurrency|^usd|^tokens|^burst|^headroom|^warnAt|^reserve)$/;

/** Names that are numbers elsewhere. */
const OTHERS: readonly string[] = ['countTokens', 'estimateTokens', 'unsetMaxTokens', 'failedTokensKept', 'toolConcurrency'];

/** What stands in a program instead of a number: an environment variable that is not set, one that was not converted, and slips. */
const SENSELESS = [NaN, -1, '600', null];

async function problems(site: Site): Promise<string[]> {
  const { known } = await optionsOf(site);
  const found: string[] = [];
  for (const name of known.filter((each) => NUMBER.test(each) && !OTHERS.includes(each))) {
    for (const value of SENSELESS) {
      const message = await said(site.give, { [name]: value });
      const isNamed = message.includes(`: expected \`${site.within}${name}\` to be `);
      const isTold = !Number.isNaN(value) || message.endsWith('got NaN (is the environment variable set?)');
      if (!isNamed || !isTold) found.push(`${name}: ${String(value)}: ${message}`);
    }
  }
  return found;
}

// What `defineTool` is given, `createToolRunner` checks.
const sites = (await optionSites()).filter(({ operator }) => operator !== 'defineTool');

describe('a limit that makes no sense', () => {
  it.each(sites)('is refused by $operator, within `$within`', async (site) => {
    expect(await problems(site)).toEqual([]);
  });

  it.each([
    [
      '0',
      () => createAccount({ tokensPerMinute: 0 }),
      'createAccount: expected `tokensPerMinute` to be a number > 0 or Infinity (to stop all calls, use `pause()`), got `0` (number)',
    ],
    ['an unset variable', () => createAccount({ tokensPerMinute: Number(undefined) }), 'got NaN (is the environment variable set?)'],
    ['a text', () => createAccount({ tokensPerMinute: '600' as never }), 'got `600` (string)'],
    ['0', () => createLimiter({ rates: [perMinute('tokens', 0)] }), 'createLimiter: expected `rates[0].amount` to be a number > 0'],
    [
      'NaN',
      () => perMinute('tokens', NaN),
      'perMinute: expected `amount` to be a number >= 0 or Infinity, got NaN (is the environment variable set?)',
    ],
    [
      'an endless window',
      () => tokenBucket({ unit: 'tokens', amount: 1, windowMs: Infinity }),
      'tokenBucket: expected `windowMs` to be a finite number > 0',
    ],
    [
      'a window of 0',
      () => slidingWindow({ unit: 'tokens', amount: 1, windowMs: 0 }),
      'slidingWindow: expected `windowMs` to be a number > 0',
    ],
    ['an endless burst', () => perMinute('tokens', 5, { burst: Infinity }), 'perMinute: expected `burst` to be a finite number > 0'],
    [
      'a reserve of all',
      () => lanes([{ name: 'a', reserve: 1 }]),
      'lanes: expected `lanes[0].reserve` to be a number from 0 to less than 1',
    ],
  ])('says what is wrong with %s: %#', (_, make, message) => {
    expect(make).toThrow(message);
  });

  it('is not an option that is undefined', () => {
    expect(createAccount({ tokensPerMinute: undefined as never }).snapshot().tokensPerMinute).toBe(Infinity);
  });
});
