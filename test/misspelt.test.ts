import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as operators from '../operators/index.js';
import { createBatcher, createLimiter, keyedLimiter } from '../operators/index.js';
import { limitFetch } from '../src/adapters/fetch.js';
import * as sluice from '../src/index.js';
import { optionSites, optionsOf, type Site, said } from './support/option-sites.js';

const call = () => of('text');
const sites = await optionSites();

/** Two letters swapped in the middle; in a name of two, or of two equal ones there, one letter too many at the end. */
function misspelt(name: string): string {
  const at = Math.floor(name.length / 2) - 1;
  const swapped = name.slice(0, at) + name.charAt(at + 1) + name.charAt(at) + name.slice(at + 2);
  return name.length < 3 || swapped === name ? `${name}${name.at(-1) ?? ''}` : swapped;
}

async function problems(site: Site): Promise<string[]> {
  const { operator, within, give } = site;
  const { known, where } = await optionsOf(site);
  const found: string[] = [];
  for (const name of known) {
    const wrong = misspelt(name);
    // Equally near to `seed`.
    if (wrong === 'seped') continue;
    const message = await said(give, { [wrong]: 1 });
    const expected = `${operator}: unknown option \`${within}${wrong}\`${where}. Did you mean \`${within}${name}\`?`;
    if (message !== expected) found.push(`${message}, instead of: ${expected}`);
  }
  return found;
}

describe('a misspelt option', () => {
  it.each(sites)('of $operator, within `$within`, is reported with the right name', async (at) => {
    expect(await problems(at)).toEqual([]);
  });
});

describe('an option of another function', () => {
  it.each<[string, (options: never) => unknown, object, string]>([
    ['createLimiter', createLimiter, { requestsPerMinute: 60 }, 'unknown option `requestsPerMinute`. Use `createAccount`, or `rates`.'],
    ['createLimiter', createLimiter, { lanes: ['user'] }, 'unknown option `lanes`. Use `createAccount`, or `queue: lanes([…])`.'],
    ['keyedLimiter', keyedLimiter, { tokensPerDay: 60 }, 'unknown option `tokensPerDay`. Use `createAccount`, or `rates`.'],
    [
      'createAccount',
      operators.createAccount,
      { rates: [] },
      'unknown option `rates`. Use `requestsPerMinute` or `tokensPerMinute`, or `createLimiter`.',
    ],
    ['createAccount', operators.createAccount, { budget: {} }, 'unknown option `budget`. Use `createAccount` of `sluice`.'],
    [
      'createBatcher',
      (options) => createBatcher(() => of([]), options),
      { tokensPerMinute: 1 },
      'unknown option `tokensPerMinute`. Use `limiter: createAccount({ … })`.',
    ],
    ['createBatcher', (options) => createBatcher(() => of([]), options), { batchSize: 1 }, 'unknown option `batchSize`. Use `maxSize`.'],
    ['limitFetch', limitFetch, { requestsPerMinute: 60 }, 'unknown option `requestsPerMinute`. Use `limiter: createAccount({ … })`.'],
    ['createModelCaller', sluice.createModelCaller, { call, stream: call }, 'unknown option `stream`. Use `call: { send, stream }`.'],
    ['createModelCaller', sluice.createModelCaller, { call, apiKey: 'sk' }, 'unknown option `apiKey`. Use `call: chatCompletions({ … })`.'],
    [
      'createModelCaller',
      sluice.createModelCaller,
      { call, requestsPerDay: 5 },
      'unknown option `requestsPerDay`. Use `limiter: createAccount({ … })`.',
    ],
  ])('is refused by %s with what takes it: %#', (operator, give, options, message) => {
    expect(() => give(options as never)).toThrow(`${operator}: ${message}`);
  });
});
