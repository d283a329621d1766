import { NEVER, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { BatcherOptions, GateOptions } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  createBatcher,
  createLimiter,
  divideAndConquer,
  fixed,
  graded,
  inputOrder,
  lanes,
  natural,
  oneByOne,
  orderPerKey,
  retryFailed,
  robust,
  splitItem,
} from '../../operators/index.js';
import { show } from '../support/misuse.js';

const work = (items: readonly string[]) => of(items);
const operators = [{ operator: 'createBatcher', create: (options: object) => createBatcher(work, options) }];

/** What looks odd and has a meaning. */
const acceptedByLoads: readonly BatcherOptions<string, string>[] = [
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

const accepted: readonly GateOptions<string, string>[] = [
  { maxSize: Infinity },
  { maxWeight: 1.5 },
  { maxWeight: Infinity },
  { oversize: splitItem({ into: (text: string) => Array.from(text), join: (results: readonly string[]) => results.join('') }) },
  { order: inputOrder() },
  { order: orderPerKey((text: string) => text[0]) },
  { closeWhen: () => 'after' },
  { flush: [1] },
  { concurrency: Infinity },
  { concurrency: of(1) },
  { window: natural() },
  { window: fixed(0) },
  { window: fixed(1.5) },
  { window: fixed(Infinity) },
  { window: graded(Infinity) },
  { maxQueued: Infinity },
  { queue: lanes([{ name: 'only' }]) },
  { queue: lanes([{ name: 'a', maxWaitMs: 0, floor: 0 }]) },
  { repair: [] },
  { repair: [robust(), [], oneByOne()] },
  { repair: retryFailed({ initialMs: 0, maxMs: 0, factor: 0.5, budget: 0.1, maxAttempts: Infinity }) },
  { repair: divideAndConquer({ factor: Infinity, maxDepth: 0, maxBlameRounds: 0, maxCalls: 1 }) },
  { repair: oneByOne() },
  { timeoutMs: 0.5 },
  { timeoutMs: Infinity },
  { deadlineMs: 0 },
  { deadlineMs: Infinity },
  { deadlineMs: () => 5 },
  { name: 'embeddings' },
];

describe.each(['batchMap', 'batchMapFrom'] as const)('%s', (operator) => {
  const create = (options: object): unknown => (operator === 'batchMap' ? batchMap(work, options) : batchMapFrom(['a'], work, options));

  it.each(accepted.map((options) => ({ options, title: Object.entries(options).map(([name, value]) => `${name}: ${show(value)}`) })))(
    'accepts $title',
    ({ options }) => {
      expect(create(options)).toBeDefined();
    },
  );

  it('takes undefined for what is left out', () => {
    for (const [name] of accepted.flatMap((options) => Object.entries(options))) expect(create({ [name]: undefined })).toBeDefined();
  });

  it('refuses a lane that the shared limiter does not have', () => {
    const limiter = createLimiter({ lanes: [{ name: 'urgent' }, { name: 'later' }] });
    expect(() => create({ limiter, queue: lanes([{ name: 'urgent' }, { name: 'soon' }]) })).toThrow(
      `${operator}: expected \`queue\` to be lanes the limiter has (urgent,later), got 'soon'`,
    );
    expect(create({ limiter, queue: lanes([{ name: 'later' }]) })).toBeDefined();
  });

  it('shows no more of a wrong value than its beginning', () => {
    const key = `sk-${'0123456789'.repeat(10)}`;
    expect(() => create({ overflow: key, queue: key })).toThrow(/got (a string|'sk-.{37}…')/);
    expect(() => create({ limiter: { key } })).toThrow(/got an object of type Object$/);
  });
});

describe.each(operators)('$operator', ({ operator, create }) => {
  it.each(
    acceptedByLoads.map((options) => ({ options, title: Object.entries(options).map(([name, value]) => `${name}: ${show(value)}`) })),
  )('accepts $title', ({ options }) => {
    expect(create(options)).toBeDefined();
  });

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
  const list = [
    { name: 'never queued', maxQueued: 0 },
    { name: 'a', maxQueued: Infinity, overflow: 'latest' as const },
  ];
  const queue = lanes(list);

  it('may be nothing or everything', () => {
    expect(batchMap(work, { queue })).toBeDefined();
    expect(createBatcher(work, { lanes: list })).toBeDefined();
  });

  it('has no place where nothing is pulled that there is no room for', () => {
    expect(() => batchMapFrom(['a'], work, { queue })).toThrow(
      'batchMapFrom: expected `queue` to be lanes without `maxQueued` and `overflow`',
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
