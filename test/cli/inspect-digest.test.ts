import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import type { Part } from '../../src/cli/inspect/digest.js';
import { Digest, MAX_CALLS } from '../../src/cli/inspect/digest.js';
import { recordedRun } from '../support/recorded-run.js';

function digestOf(events: Iterable<FlowEvent>): Digest {
  const digest = new Digest();
  for (const event of events) digest.add(event);
  return digest;
}

/** `calls` calls of one item, one after the other, a ms apart; every third is refused. */
function* manyCalls(calls: number): Generator<FlowEvent, void, undefined> {
  for (let i = 0; i < calls; i++) {
    const call = { operator: 'batchMap', instance: '1', lane: 'user', batchId: `b${String(i)}`, size: 2, attempt: 1 } as const;
    yield { ...call, type: 'attemptStarted', weight: 2, splitDepth: 0, executing: 1, at: 1000 + i };
    yield { ...call, type: 'attemptEnded', outcome: i % 3 === 2 ? 'throttled' : 'ok', latencyMs: 1, at: 1001 + i };
    yield {
      type: 'settled',
      operator: 'batchMap',
      instance: '1',
      lane: 'user',
      outcome: 'fulfilled',
      attempts: 1,
      totalMs: 1,
      at: 1001 + i,
    };
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
const partsOf = (part: Part): readonly Part[] => [part, ...part.parts.flatMap(partsOf)];

describe.each([
  ['a smooth run', { items: 200 }],
  ['429s', { items: 300, throttledEvery: 4 }],
  ['poison', { items: 120, poisoned: [7, 63, 64] }],
  ['both', { items: 400, throttledEvery: 5, poisoned: [1, 399] }],
] as const)('of %s', (_what, options) => {
  const events = recordedRun(options);
  const digest = digestOf(events);
  const started = events.filter(({ type }) => type === 'attemptStarted');

  it('tells every call once, with its time', () => {
    expect(digest.each).toHaveLength(started.length);
    expect(digest.calls).toBe(started.length);
    const ended = events.filter((event) => event.type === 'attemptEnded');
    expect(sum(digest.each!.map(({ startMs, endMs }) => endMs - startMs))).toBeCloseTo(sum(ended.map(({ latencyMs }) => latencyMs)));
    expect(digest.isAggregated).toBe(false);
  });

  it('has all calls and results in its slices of time, at most sixty', () => {
    expect(digest.buckets.length).toBeLessThanOrEqual(60);
    expect(sum(digest.buckets.map(({ calls }) => calls))).toBe(started.length);
    expect(sum(digest.buckets.map(({ items }) => items))).toBe(sum(started.map((event) => ('size' in event ? event.size : 0))));
    expect(sum(digest.buckets.map(({ settled }) => settled))).toBe(options.items);
    expect(sum(digest.buckets.flatMap(({ outcomes }) => Object.values(outcomes)))).toBe(started.length);
  });

  it('has the calls that repeat or divide another in the tree of that one', () => {
    const children = started.filter(({ parentBatchId }) => parentBatchId !== undefined);
    const inTrees = digest.trees.flatMap(({ root }) => partsOf(root));
    for (const { calls, root } of digest.trees) expect(sum(partsOf(root).map(({ outcomes }) => outcomes.length))).toBe(calls);
    expect(inTrees.length > 0).toBe(children.length > 0);
    if (digest.trees.length < 20) expect(inTrees.length - digest.trees.length).toBe(new Set(children.map(({ batchId }) => batchId)).size);
  });
});

it('keeps each call up to ten thousand of them, and slices of time beyond', () => {
  expect(digestOf(manyCalls(MAX_CALLS)).each).toHaveLength(10_000);
  const digest = digestOf(manyCalls(MAX_CALLS + 1));
  expect(digest.each).toBeUndefined();
  expect(digest.calls).toBe(10_001);
  expect(sum(digest.buckets.map(({ calls }) => calls))).toBe(10_001);
  expect(sum(digest.buckets.map(({ outcomes }) => outcomes.throttled ?? 0))).toBe(3333);
});

it('keeps calls that have not ended, as under way', () => {
  const digest = digestOf([...manyCalls(3)].slice(0, -2));
  expect(digest.each!.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'running']);
});

it.each([
  ['stands still for a while', [0, 0, 0, 5]],
  ['is set back', [100, 200, 50, 300]],
  ['jumps ahead by a year', [0, 10, 3e10, 3e10 + 5]],
  ['is in microseconds since 1970', [1.7e15, 1.7e15 + 1000]],
])('counts everything of a clock that %s', (_what, times) => {
  const calls = [...manyCalls(times.length)].map((event, i) => ({ ...event, at: times[Math.floor(i / 3)]! }));
  const digest = digestOf(calls);
  expect(digest.buckets.length).toBeLessThanOrEqual(60);
  expect(sum(digest.buckets.map(({ calls: some }) => some))).toBe(times.length);
  for (const { startMs, endMs } of digest.each!) expect(endMs).toBeGreaterThanOrEqual(startMs);
  expect(digest.durationMs).toBe(Math.max(...times) - times[0]!);
});

it('shows the largest trees of a run with thousands of them', () => {
  const events = Array.from({ length: 5000 }, (_, i): FlowEvent[] => {
    const call = {
      type: 'attemptStarted',
      operator: 'batchMap',
      instance: '1',
      lane: 'user',
      weight: 1,
      attempt: 1,
      executing: 1,
      at: i,
    } as const;
    const parts = i === 17 ? 40 : 1;
    return [
      { ...call, batchId: `b${String(i)}`, size: 50, splitDepth: 0 },
      ...Array.from({ length: parts }, (__, j) => ({
        ...call,
        batchId: `b${String(i)}.${String(j)}`,
        parentBatchId: `b${String(i)}`,
        size: 1,
        splitDepth: 1,
      })),
    ];
  }).flat();
  const { trees } = digestOf(events);
  expect(trees).toHaveLength(20);
  expect(trees[0]).toMatchObject({ calls: 41, root: { size: 50 } });
  expect(trees[0]!.root.parts).toHaveLength(40);
});
