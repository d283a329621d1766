import { from, lastValueFrom, map, of, throwError, timer, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { batchMap, createAccount, lanes, robust, switchLatest } from '../../operators/index.js';
import { faultOf } from '../../src/inspector/event-fault.js';
import { readEvent } from '../../src/inspector/read-event.js';

/** An event of each type, with every field that its type has. */
const lane = 'user';
const common = { operator: 'batchMap', at: 12.5, instance: 'mine', seq: 3, seqs: [3, 5], parentBatchId: 'b1' } as const;
const EVENTS: { readonly [T in FlowEvent['type']]: Extract<FlowEvent, { type: T }> } = {
  accepted: { ...common, type: 'accepted', lane, queued: 1 },
  dropped: { ...common, type: 'dropped', lane, policy: 'dropOldest' },
  pressure: { ...common, type: 'pressure', lane, high: true, queued: 2 },
  queueLong: { ...common, type: 'queueLong', lane, queued: 10_000 },
  expired: { ...common, type: 'expired', lane, deadlineMs: 100 },
  batchFormed: { ...common, type: 'batchFormed', lane, batchId: 'b2', reason: 'size', size: 4, weight: 4, waitMs: 3 },
  attemptStarted: {
    ...common,
    type: 'attemptStarted',
    lane,
    batchId: 'b2',
    size: 4,
    weight: 4,
    attempt: 1,
    splitDepth: 0,
    executing: 1,
  },
  attemptEnded: { ...common, type: 'attemptEnded', lane, batchId: 'b2', size: 4, attempt: 1, outcome: 'ok', latencyMs: 20 },
  retryScheduled: { ...common, type: 'retryScheduled', lane, batchId: 'b2', class: 'throttled', size: 4, attempt: 2, delayMs: 50 },
  split: { ...common, type: 'split', lane, batchId: 'b2', size: 4, parts: 4, depth: 1 },
  blamed: { ...common, type: 'blamed', lane, batchId: 'b2', size: 4, blamed: 1, round: 1 },
  settled: { ...common, type: 'settled', lane, outcome: 'fulfilled', attempts: 1, totalMs: 24 },
  cancelled: { ...common, type: 'cancelled', lane, count: 2 },
  abandoned: { ...common, type: 'abandoned', lane },
  documentStarted: { ...common, type: 'documentStarted', executing: 3, queued: 7 },
  documentEnded: { ...common, type: 'documentEnded', outcome: 'rejected', totalMs: 900, items: 20, failed: 20 },
  itemEnded: { ...common, type: 'itemEnded', lane, outcome: 'fulfilled' },
  gapSkipped: { ...common, type: 'gapSkipped', lane, missing: 1, held: 2 },
  swallowed: { ...common, type: 'swallowed', lane },
  hedged: { ...common, type: 'hedged', lane, attempt: 2, afterMs: 30 },
  cached: { ...common, type: 'cached', lane, outcome: 'hit' },
  storeFailed: { ...common, type: 'storeFailed', action: 'get' },
  throttled: { ...common, type: 'throttled', pauseMs: 1000 },
  hintClamped: { ...common, type: 'hintClamped', askedMs: 172_800_000, pauseMs: 86_400_000 },
  usageClamped: { ...common, type: 'usageClamped', unit: 'tokens', reported: 1e12, charged: 1000 },
  costClamped: { ...common, type: 'costClamped', unit: 'outputTokens', cost: 1e9, charged: 1000 },
  chargedOnArrival: { ...common, type: 'chargedOnArrival', model: 'claude' },
  wouldWait: { ...common, type: 'wouldWait', lane, limitedBy: 'requestsPerMinute', waitMs: 500, queued: 3 },
  limitChanged: { ...common, type: 'limitChanged', concurrency: 8 },
  storeDown: { ...common, type: 'storeDown' },
  storeUp: { ...common, type: 'storeUp' },
  budgetLow: { ...common, type: 'budgetLow', position: 0, unit: 'usd', spent: 4, limit: 5 },
  budgetOverrun: { ...common, type: 'budgetOverrun', position: 1, unit: 'tokens', limit: 1000, over: 20 },
  breakerChanged: { ...common, type: 'breakerChanged', state: 'open', openMs: 30_000 },
  drained: { ...common, type: 'drained' },
};

const STAMPS = ['at', 'instance', 'seq', 'seqs', 'parentBatchId'];
const isOptional = (field: string, type: string): boolean => STAMPS.includes(field) || (field === 'batchId' && !type.startsWith('attempt'));
const overJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe.each(Object.entries(EVENTS))('an event `%s`', (type, event) => {
  it('comes back as it was told, also without its stamp', () => {
    expect(readEvent(overJson(event))).toEqual(event);
    const bare = Object.fromEntries(Object.entries(event).filter(([field]) => !isOptional(field, type)));
    expect(readEvent(overJson(bare))).toEqual(bare);
  });

  it('leaves out whatever else stands in it', () => {
    const told = { ...event, prompt: 'secret', headers: { authorization: 'secret' }, __proto__: { lane: 'secret' } };
    expect(JSON.stringify(readEvent(told))).not.toContain('secret');
    expect(readEvent(JSON.parse(JSON.stringify(event).replace('{', '{"__proto__":{"lane":"secret"},')) as unknown)).toEqual(event);
  });

  it('is invalid without one of its fields, or with a field of another type, and the fault names the field', () => {
    for (const [field, value] of Object.entries(event).filter(([field]) => !isOptional(field, type))) {
      const { [field]: _, ...rest } = { ...event } as Readonly<Record<string, unknown>>;
      const other = { ...rest, [field]: typeof value === 'string' ? 7 : 'seven' };
      expect([readEvent(rest), readEvent(other)], field).toEqual([undefined, undefined]);
      for (const told of [rest, other]) expect(faultOf(told)).toContain(`\`${field}\``);
    }
  });
});

it.each([
  null,
  undefined,
  0,
  'accepted',
  [],
  {},
  { type: 7 },
  { type: ['drained'], operator: 'x' },
  { type: 'toString', operator: 'x' },
  { type: '__proto__', operator: 'x' },
])('takes %j for no event', (value) => {
  expect(readEvent(value)).toBeUndefined();
  expect(faultOf(value)).toMatch(/^(it |no event )/);
});

it('cuts long names', () => {
  const long = 'n'.repeat(10_000);
  const cut = `${'n'.repeat(199)}…`;
  expect(readEvent({ ...EVENTS.accepted, lane: long, operator: long, instance: long })).toEqual({
    ...EVENTS.accepted,
    lane: cut,
    operator: cut,
    instance: cut,
  });
  expect(readEvent({ ...EVENTS.accepted, lane: 'n'.repeat(200) })).toMatchObject({ lane: 'n'.repeat(200) });
});

it('reads Infinity, which JSON writes as null', () => {
  expect(readEvent(overJson({ ...EVENTS.limitChanged, concurrency: Infinity }))).toEqual({ ...EVENTS.limitChanged, concurrency: Infinity });
  expect(readEvent(overJson({ ...EVENTS.drained, at: Infinity, seq: NaN }))).toEqual({ operator: 'batchMap', type: 'drained', ...without });
});
const without = { instance: 'mine', seqs: [3, 5], parentBatchId: 'b1' };

it('reads every event that operators tell of a run with lanes, a limiter, retries, splits and cancellation', async () => {
  const told: FlowEvent[] = [];
  const onEvent = (event: FlowEvent): void => void told.push(event);
  const limiter = createAccount({ concurrency: 2, requestsPerMinute: 6000, tokensPerMinute: 60_000, onEvent });
  let calls = 0;
  const work = (items: readonly number[]) => {
    if (++calls === 2) return throwError(() => Object.assign(new Error('slow down'), { status: 429 }));
    if (items.includes(13)) return throwError(() => Object.assign(new Error('refused'), { status: 400 }));
    return of([...items]);
  };
  const queue = lanes<number>([{ name: 'user' }, { name: 'normal' }, { name: 'background' }], {
    by: (item) => ['user', 'normal', 'background'][item % 3] ?? 'background',
  });
  await lastValueFrom(
    from(Array.from({ length: 40 }, (_, i) => i)).pipe(
      batchMap(work, { limiter, queue, maxSize: 8, repair: robust(), onEvent }),
      toArray(),
    ),
  );
  await lastValueFrom(of('a', 'b').pipe(switchLatest((text) => timer(1).pipe(map(() => text)), { onEvent })));
  expect(new Set(told.map(({ type }) => type)).size).toBeGreaterThanOrEqual(8);
  for (const event of told) expect(readEvent(overJson(event))).toEqual(event);
});
