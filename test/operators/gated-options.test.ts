import { NEVER, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { show } from '../support/misuse.js';
import type { GatedBatchOptions } from '../today.js';
import { batchMap, batchMapFrom, createBatcher, createLimiter } from '../today.js';

const work = (items: readonly string[]) => of(items);
const operators = [
  { operator: 'batchMap', create: (options: object) => batchMap(work, options) },
  { operator: 'batchMapFrom', create: (options: object) => batchMapFrom(['a'], work, options) },
  { operator: 'createBatcher', create: (options: object) => createBatcher(work, options) },
];

/** What looks odd and has a meaning. */
const accepted: readonly GatedBatchOptions<string, string>[] = [
  { maxSize: Infinity },
  { maxWeight: 1.5 },
  { maxWeight: Infinity },
  { hardMaxWeight: 0.5 },
  { hardMaxWeight: Infinity },
  { oversize: 'split', splitItem: (text) => Array.from(text), joinResults: (results) => results.join('') },
  { splitItem: (text) => Array.from(text) },
  { order: 'input' },
  { order: 'perKey', key: (text) => text[0] },
  { key: (text) => text[0] },
  { closeWhen: () => 'after' },
  { flush: [1] },
  { concurrency: Infinity },
  { concurrency: of(1) },
  { window: { kind: 'fixed', ms: 0 } },
  { window: { kind: 'fixed', ms: 1.5 } },
  { window: { kind: 'fixed', ms: Infinity } },
  { window: { kind: 'graded', maxMs: Infinity } },
  { maxQueued: Infinity },
  { overflow: undefined as never },
  { lanes: [{ name: 'only' }] },
  { lanes: [{ name: 'a', maxWaitMs: 0, floor: 0 }] },
  { lanes: [{ name: 'a', maxWaitMs: Infinity, floor: 0.99, piggyback: false }] },
  { retry: false },
  { retry: {} },
  { retry: { initialMs: 0, maxMs: 0, factor: 0.5, budget: 0.1, maxAttempts: Infinity } },
  { split: false },
  { split: {} },
  { split: { factor: Infinity, maxDepth: 0, maxBlameRounds: 0, maxCalls: 1 } },
  { attemptTimeoutMs: 0.5 },
  { attemptTimeoutMs: Infinity },
  { itemDeadlineMs: 0 },
  { itemDeadlineMs: Infinity },
  { itemDeadlineMs: () => 5 },
];

describe.each(operators)('$operator', ({ operator, create }) => {
  it.each(accepted.map((options) => ({ options, title: Object.entries(options).map(([name, value]) => `${name}: ${show(value)}`) })))(
    'accepts $title',
    ({ options }) => {
      const { overflow: _overflow, ...rest } = options;
      expect(create(operator === 'batchMapFrom' ? rest : options)).toBeDefined();
    },
  );

  it('names a misspelt field of a group', () => {
    expect(() => create({ retry: { maxTries: 3 } })).toThrow(`${operator}: expected \`retry.maxTries\` to be absent`);
    expect(() => create({ split: { parts: 3 } })).toThrow(`${operator}: expected \`split.parts\` to be absent`);
    expect(() => create({ lanes: [{ name: 'a', flor: 0.1 }] })).toThrow(`${operator}: expected \`lanes[0].flor\` to be absent`);
  });

  it('refuses floors that leave the first lane nothing', () => {
    const lanes = [{ name: 'a' }, { name: 'b', floor: 0.5 }, { name: 'c', floor: 0.5 }];
    expect(() => create({ lanes })).toThrow(`${operator}: expected \`lanes\` to be lanes whose floors add up to less than 1, got \`1\``);
  });

  it('refuses a lane that the shared limiter does not have', () => {
    const limiter = createLimiter({ lanes: [{ name: 'urgent' }, { name: 'later' }] });
    expect(() => create({ limiter, lanes: [{ name: 'urgent' }, { name: 'soon' }] })).toThrow(
      `${operator}: expected \`lanes\` to be lanes the limiter has (urgent,later), got 'soon'`,
    );
    expect(create({ limiter, lanes: [{ name: 'later' }] })).toBeDefined();
  });

  it('shows no more of a wrong value than its beginning', () => {
    const key = `sk-${'0123456789'.repeat(10)}`;
    expect(() => create({ burst: key })).toThrow(/got 'sk-.{37}…'/);
    expect(() => create({ limiter: { key } })).toThrow(/got an object of type Object$/);
  });
});

describe('the bound of a lane', () => {
  const lanes = [
    { name: 'never queued', maxQueued: 0 },
    { name: 'a', maxQueued: Infinity, overflow: 'latest' as const },
  ];

  it('may be nothing or everything', () => {
    expect(batchMap(work, { lanes })).toBeDefined();
    expect(createBatcher(work, { lanes })).toBeDefined();
  });

  it('has no place where nothing is pulled that there is no room for', () => {
    expect(() => batchMapFrom(['a'], work, { lanes })).toThrow(
      'batchMapFrom: expected `lanes` to be lanes without `maxQueued` and `overflow`',
    );
  });
});

describe('what is not an option', () => {
  it.each([undefined, null, 5, 'work', {}, of(['a'])])('%o is no work function', (value) => {
    expect(() => batchMap(value as never)).toThrow('batchMap: expected `work` to be a function');
    expect(() => batchMapFrom(['a'], value as never)).toThrow('batchMapFrom: expected `work` to be a function');
    expect(() => createBatcher(value as never)).toThrow('createBatcher: expected `work` to be a function');
  });

  it.each([undefined, null, 5, true, {}, () => ['a'], NEVER, Promise.resolve(['a'])])('%o is nothing to pull from', (input) => {
    expect(() => batchMapFrom(input as never, work)).toThrow(
      'batchMapFrom: expected `input` to be an Iterable, an AsyncIterable or a ReadableStream',
    );
  });
});
