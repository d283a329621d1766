import { firstValueFrom, NEVER, of, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createLimiter, perMinute } from '../../operators/index.js';
import type { FlowEvent } from '../../src/index.js';
import { createAgentTurn, createModelCaller } from '../../src/index.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { defineInspector, importRecording, recorded } from '../../src/inspector/index.js';
import { RecordingError, replay } from '../../src/inspector/recording.js';
import { connectSource } from '../../src/inspector/source.js';
import { createMetrics } from '../../src/metrics/index.js';

const SECRET = 'sk-planted';
const accepted = (seq: number): FlowEvent => ({
  type: 'accepted',
  operator: 'batchMap',
  instance: 'a',
  lane: 'normal',
  queued: 0,
  seq,
  at: seq,
});
const settled = (seq: number): FlowEvent => ({
  ...{ type: 'settled', operator: 'batchMap', instance: 'a', lane: 'normal', seq, at: seq },
  ...{ outcome: 'fulfilled', attempts: 1, totalMs: 5 },
});

describe('a source', () => {
  it('of events is left, and its end is no matter', () => {
    const events = new Subject<FlowEvent>();
    const model = new FlowModel();
    let changes = 0;
    const { leave } = connectSource(events, model, () => changes++);
    events.next(accepted(0));
    leave();
    events.next(accepted(1));
    expect([model.counters.accepted, changes, events.observed]).toEqual([1, 1, false]);
    const failing = new Subject<FlowEvent>();
    connectSource(failing, model);
    failing.error(new Error('gone'));
    expect(model.counters.accepted).toBe(1);
  });

  it('that is a limiter shows what is left of it and what it holds', async () => {
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 600)] });
    const model = new FlowModel();
    const connection = connectSource(limiter, model);
    const lease = await firstValueFrom(limiter.acquire({ cost: { tokens: 1 } }));
    const waiting = limiter.acquire({ cost: { tokens: 1 } }).subscribe();
    connection.look();
    const [view] = model.limits;
    expect(view).toMatchObject({ name: 'limiter', executing: 1, concurrency: 1, queued: 1, heldBySlot: 1, heldByRate: 0 });
    const tokens = view?.rates.find(({ unit }) => unit === 'tokens');
    expect(tokens?.left).toBeLessThan(600);
    expect(tokens?.level).toBeLessThanOrEqual(1);
    waiting.unsubscribe();
    lease.release();
  });

  it('that is metrics shows events, what they observe, and tokens', () => {
    const metrics = createMetrics();
    metrics.observe('provider', createLimiter({ concurrency: 3 }));
    const model = new FlowModel();
    const connection = connectSource(metrics, model);
    metrics.sink(accepted(0));
    metrics.record({
      ...{ traceId: 't', spanId: 's', name: 'call', lane: 'user', model: 'm', attempt: 1, latencyMs: 1, queuedMs: 0 },
      ...{ status: 'success', errorCode: null, promptTokens: 30, completionTokens: 12 },
      ...{ key: null, cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null, costUsd: null, isEstimated: false },
    });
    connection.look();
    expect([model.counters.accepted, model.counters.tokens, model.limits[0]?.name]).toEqual([1, 42, 'provider']);
  });

  it('that is a pipeline shows its events and its numbers', async () => {
    const models = createModelCaller({ call: () => NEVER, concurrency: 2 });
    const model = new FlowModel();
    const connection = connectSource([models], model);
    const call = models.call('question', { lane: 'user' }).subscribe();
    connection.look();
    expect([model.counters.accepted, model.counters.executing, model.limits[0]?.executing]).toEqual([1, 1, 1]);
    call.unsubscribe();
    expect([model.counters.cancelled, model.counters.executing]).toEqual([1, 0]);
    await models.drain();
    expect(model.counters.lost).toBe(0);
  });

  it('that is the turns of an agent shows turns, and nothing of what is said', async () => {
    const turns = createAgentTurn({ model: () => of(SECRET) });
    const model = new FlowModel();
    connectSource(turns, model);
    await turns.ask(SECRET).forEach(() => undefined);
    expect(model.counters).toMatchObject({ accepted: 1, fulfilled: 1, calls: 1, executing: 0 });
    expect(exportRecording(model)).not.toContain(SECRET);
  });

  it('goes on from a recording in front of it', () => {
    const first = new FlowModel();
    for (let i = 0; i < 3000; i++) first.add(accepted(i));
    const events = new Subject<FlowEvent>();
    const model = new FlowModel();
    connectSource([recorded(importRecording(exportRecording(first))), events], model);
    for (let i = 0; i < 3000; i++) events.next(settled(i));
    events.next({ type: 'drained', operator: 'batchMap', instance: 'a' });
    expect(model.counters).toMatchObject({ accepted: 3000, settled: 3000, waiting: 0, lost: 0 });
  });
});

it('keeps its bounds, and counts beyond them', () => {
  const model = new FlowModel();
  for (let i = 0; i < 25_000; i++) model.add(accepted(i));
  expect([model.counters.waiting, model.events.length, model.laneParts[0]?.waiting.size]).toEqual([25_000, 2000, 20_000]);
  for (let i = 0; i < 25_000; i++) model.add(settled(i));
  model.add({ type: 'drained', operator: 'batchMap', instance: 'a' });
  expect(model.counters).toMatchObject({ accepted: 25_000, settled: 25_000, waiting: 0, lost: 0 });
  expect(model.history.length).toBe(2000);
});

it('counts items of `swallowed` events as lost', () => {
  const model = new FlowModel();
  for (let i = 0; i < 3; i++) model.add(accepted(i));
  model.add({ type: 'swallowed', operator: 'batchMap', instance: 'a', lane: 'normal', seqs: [0, 2] });
  expect(model.counters).toMatchObject({ lost: 2, waiting: 1 });
});

it('keeps numbers and names of an event, and nothing that stands beside them', () => {
  const model = new FlowModel();
  model.add(Object.assign({}, accepted(0), { prompt: SECRET, item: { text: SECRET } }));
  model.add({ type: SECRET, operator: 'x' } as unknown as FlowEvent);
  model.add(undefined as unknown as FlowEvent);
  expect([model.counters.accepted, model.events.length]).toEqual([1, 1]);
  expect(exportRecording(model)).not.toContain(SECRET);
});

it.each([
  ['', 'expected a recording, or lines of JSON with an event each'],
  ['{"format":"else"}', "expected `format` to be 'sluice-recording'"],
  ['{"format":"sluice-recording","version":1}', 'expected `version` to be 2: another version of sluice wrote it; open it with that one'],
  ['{"format":"sluice-recording","version":2,"events":1}', 'expected `events` to be an array'],
  [
    '{"format":"sluice-recording","version":2,"events":[{"type":"accepted"}],"samples":[]}',
    'event 1 is no event: its `operator` is no text; export the recording again, or take this out of it',
  ],
  [`${JSON.stringify(accepted(0))}\nnot json`, 'line 2 is no event: it is no JSON; export the recording again, or take this out of it'],
])('%j is no recording: %s', (text, why) => {
  expect(() => importRecording(text)).toThrow(why);
  try {
    importRecording(text);
  } catch (error) {
    expect(error).toBeInstanceOf(RecordingError);
    expect(error).toMatchObject({ code: 'RECORDING_INVALID' });
  }
});

it.each([undefined, null, 7, {}, [], new Uint8Array(2)])('refuses %j, which is no text', (given) => {
  expect(() => importRecording(given as never)).toThrow(/^importRecording: expected `text` to be a text, got /);
});

it('opens what begins with the mark of the byte order', () => {
  const model = new FlowModel();
  model.add(accepted(0));
  for (const text of [exportRecording(model), JSON.stringify(accepted(0)), `${JSON.stringify(accepted(0))}\r\n`])
    expect(importRecording(`\uFEFF${text}`).events).toMatchObject([{ type: 'accepted' }]);
});

it('opens lines with an event each', () => {
  expect(replay(importRecording(`${JSON.stringify(accepted(0))}\n\n${JSON.stringify(settled(0))}\n`)).counters.settled).toBe(1);
});

it('is nothing on a server', () => {
  expect(() => {
    defineInspector();
  }).not.toThrow();
});
