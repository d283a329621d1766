import { NEVER, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { GateOptions } from '../../operators/index.js';
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
  orderPerKey,
  retryFailed,
  robust,
  sequentialSearch,
  splitItem,
  strictWithFloor,
} from '../../operators/index.js';
import { show } from '../support/misuse.js';

const work = (items: readonly string[]) => of(items);

/** What looks odd and has a meaning. */
const accepted: readonly GateOptions<string, string>[] = [
  { maxSize: Infinity },
  { maxWeight: 1.5 },
  { maxWeight: Infinity },
  { oversize: splitItem({ into: (text: string) => Array.from(text), join: (results: readonly string[]) => results.join('') }) },
  { order: inputOrder() },
  { order: orderPerKey((text: string) => text[0]) },
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
  { repair: [robust(), [], divideAndConquer({ factor: Infinity })] },
  { repair: retryFailed({ initialMs: 0, maxMs: 0, factor: 0.5, maxShare: 0.1, maxAttempts: Infinity }) },
  { repair: divideAndConquer({ factor: Infinity, maxDepth: 0, maxBlameRounds: 0, maxCalls: 1 }) },
  { repair: divideAndConquer({ factor: Infinity }) },
  { timeoutMs: 0.5 },
  { timeoutMs: Infinity },
  { deadlineMs: 0 },
  { deadlineMs: Infinity },
  { deadlineMs: () => 5 },
  { name: 'embeddings' },
];

const forms: Readonly<Record<string, (options: object) => unknown>> = {
  batchMap: (options) => batchMap(work, options),
  batchMapFrom: (options) => batchMapFrom(['a'], work, options),
  createBatcher: (options) => createBatcher(work, options),
};

describe.each(Object.entries(forms))('%s', (operator, create) => {
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
    const limiter = createLimiter({ queue: lanes([{ name: 'urgent' }, { name: 'later' }]) });
    expect(() => create({ limiter, queue: lanes([{ name: 'urgent' }, { name: 'soon' }]) })).toThrow(
      `${operator}: expected \`queue\` to be lanes the limiter has (urgent,later), got \`soon\``,
    );
    expect(create({ limiter, queue: lanes([{ name: 'later' }]) })).toBeDefined();
  });

  it('shows no more of a wrong value than its beginning', () => {
    const key = `sk-${'0123456789'.repeat(10)}`;
    expect(() => create({ overflow: key, queue: key })).toThrow(/got (a string|`sk-.{37}` \(string\))$/);
    expect(() => create({ limiter: { key } })).toThrow(/got an object of type Object$/);
  });
});

describe('a value', () => {
  it.each<[() => unknown, string]>([
    [() => lanes([]), 'lanes: expected `lanes` to be a list of at least one lane'],
    [() => lanes([null as never]), 'lanes: expected `lanes[0]` to be an object, got `null`'],
    [() => lanes([{ name: '' }]), 'lanes: expected `lanes[0].name` to be a non-empty string'],
    [() => lanes([{ name: 'a' }, { name: 'a' }]), 'lanes: expected `lanes[1].name` to be unique'],
    [() => lanes([{ name: 'a', flor: 0.1 } as never]), 'lanes: expected `lanes[0].flor` to be absent'],
    [() => lanes([{ name: 'a', maxWaitMs: -1 }]), 'lanes: expected `lanes[0].maxWaitMs` to be a number of milliseconds >= 0'],
    [() => lanes([{ name: 'a', maxQueued: 1.5 }]), 'lanes: expected `lanes[0].maxQueued` to be a whole number >= 0'],
    [() => lanes([{ name: 'a', overflow: 'block' as never }]), 'lanes: expected `lanes[0].overflow` to be one of'],
    [() => lanes([{ name: 'a', share: Infinity }]), 'lanes: expected `lanes[0].share` to be a finite number > 0'],
    [() => lanes([{ name: 'a', floor: 2 }]), 'lanes: expected `lanes[0].floor` to be a number from 0 to 1'],
    [() => lanes([{ name: 'a', piggyback: 0 as never }]), 'lanes: expected `lanes[0].piggyback` to be true or false'],
    [
      () => lanes([{ name: 'a' }, { name: 'b', floor: 0.5 }, { name: 'c', floor: 0.5 }]),
      'lanes: expected `lanes` to be lanes whose floors add up to less than 1, got `1`',
    ],
    [() => lanes([{ name: 'a' }], { by: 'a' as never }), 'lanes: expected `by` to be a function'],
    [() => lanes([{ name: 'a' }], { key: 5 as never }), 'lanes: expected `key` to be a function'],
    [() => lanes([{ name: 'a' }], { fairness: 'strict' as never }), 'lanes: expected `fairness` to be strictWithFloor()'],
    [() => lanes([{ name: 'a' }], { order: 1 } as never), 'lanes: expected `order` to be absent'],
    [() => strictWithFloor(1.5), 'strictWithFloor: expected `floor` to be a number from 0 to 1'],
    [() => retryFailed({ maxTries: 3 } as never), 'retryFailed: expected `maxTries` to be absent'],
    [() => retryFailed({ maxAttempts: 0 }), 'retryFailed: expected `maxAttempts` to be a whole number >= 1'],
    [() => retryFailed({ jitter: 'some' as never }), 'retryFailed: expected `jitter` to be one of'],
    [() => divideAndConquer({ parts: 3 } as never), 'divideAndConquer: expected `parts` to be absent'],
    [() => divideAndConquer({ factor: 1 }), 'divideAndConquer: expected `factor` to be a whole number >= 2'],
    [() => divideAndConquer({ maxCalls: 0 }), 'divideAndConquer: expected `maxCalls` to be a whole number >= 1'],
    [() => divideAndConquer({ maxDepth: -1 }), 'divideAndConquer: expected `maxDepth` to be a whole number >= 0'],
    [() => divideAndConquer({ maxBlameRounds: NaN }), 'divideAndConquer: expected `maxBlameRounds` to be a whole number >= 0'],
    [() => divideAndConquer({ strategy: 'sequential' as never }), 'divideAndConquer: expected `strategy` to be sequentialSearch()'],
    [
      () => divideAndConquer({ strategy: sequentialSearch(), factor: 2 }),
      'divideAndConquer: expected `factor` to be absent beside `strategy`',
    ],
    [() => sequentialSearch({ confirm: 1 as never }), 'sequentialSearch: expected `confirm` to be true or false'],
    [() => robust({ split: {} } as never), 'robust: expected `split` to be absent'],
    [() => robust({ divide: { factor: 0 } }), 'divideAndConquer: expected `factor` to be a whole number >= 2'],
  ])('that is wrong is refused where it is made: %s', (make, message) => {
    expect(make).toThrow(message);
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
    expect(createBatcher(work, { queue })).toBeDefined();
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
