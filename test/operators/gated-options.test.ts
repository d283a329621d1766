import { NEVER, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
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
import type { GateOptions } from '../../operators/shell/batch/batch-options.js';
import { show } from '../support/misuse.js';

const work = (items: readonly string[]) => of(items);

/** What looks odd and has a meaning. */
const accepted: readonly GateOptions<string, string>[] = [
  { maxSize: Infinity },
  { maxWeight: 1.5 },
  { maxWeight: Infinity },
  {
    oversize: splitItem(
      (text: string) => Array.from(text),
      (results: readonly string[]) => results.join(''),
    ),
  },
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
  { repair: [robust(), [], divideAndConquer({ parts: Infinity })] },
  { repair: retryFailed({ delayMs: 0, maxMs: 0, maxShare: 0.1, maxAttempts: Infinity }) },
  { repair: divideAndConquer({ parts: Infinity, maxCalls: 1 }) },
  { repair: divideAndConquer({ parts: Infinity }) },
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
      `${operator}: the limiter has no lane \`soon\`. Use its lanes: urgent, later.`,
    );
    expect(create({ limiter, queue: lanes([{ name: 'later' }]) })).toBeDefined();
  });

  it('shows no more of a wrong value than its beginning', () => {
    const key = `sk-${'0123456789'.repeat(10)}`;
    expect(() => create({ overflow: key, queue: key })).toThrow(/got `sk-.{37}` \(string\)$|: unknown option `overflow`/);
    expect(() => create({ limiter: { key } })).toThrow(/got an object of type Object$/);
  });
});

describe('a value', () => {
  it.each<[() => unknown, string]>([
    [() => lanes([]), 'lanes: expected `lanes` to be a list of at least one lane'],
    [() => lanes([null as never]), 'lanes: expected `lanes[0]` to be an object, got `null`'],
    [() => lanes([{ name: '' }]), 'lanes: expected `lanes[0].name` to be a non-empty string'],
    [() => lanes([{ name: 'a' }, { name: 'a' }]), 'lanes: two lanes are called `a`. Rename one of them.'],
    [() => lanes([{ name: 'a', flor: 0.1 } as never]), 'lanes: unknown option `lanes[0].flor`. Did you mean `lanes[0].floor`?'],
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
    [() => lanes([{ name: 'a' }], { order: 1 } as never), 'lanes: unknown option `order`'],
    [() => strictWithFloor(1.5), 'strictWithFloor: expected `floor` to be a number from 0 to 1'],
    [() => retryFailed({ maxTries: 3 } as never), 'retryFailed: unknown option `maxTries`'],
    [() => retryFailed({ maxAttempts: 0 }), 'retryFailed: expected `maxAttempts` to be a whole number >= 1'],
    [() => retryFailed({ jitter: 'some' as never }), 'retryFailed: expected `jitter` to be one of'],
    [() => divideAndConquer({ factor: 3 } as never), 'divideAndConquer: unknown option `factor`'],
    [() => divideAndConquer({ parts: 1 }), 'divideAndConquer: expected `parts` to be a whole number >= 2'],
    [() => divideAndConquer({ maxCalls: 0 }), 'divideAndConquer: expected `maxCalls` to be a whole number >= 1'],
    [() => divideAndConquer({ strategy: 'sequential' as never }), 'divideAndConquer: expected `strategy` to be sequentialSearch()'],
    [() => divideAndConquer({ strategy: sequentialSearch(), parts: 2 }), 'divideAndConquer: `parts` cannot be combined with `strategy`'],
    [() => robust({ split: {} } as never), 'robust: unknown option `split`'],
    [() => robust({ divide: { parts: 0 } }), 'divideAndConquer: expected `parts` to be a whole number >= 2'],
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
