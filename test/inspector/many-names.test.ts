import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { importRecording } from '../../src/inspector/index.js';
import { RecordingError, replay } from '../../src/inspector/recording.js';

const N = 20_000;

/** Each event with a name of its own. */
const shapes: readonly (readonly [string, (i: number) => FlowEvent])[] = [
  ['a lane each', (i) => ({ type: 'accepted', operator: 'o', lane: `l${i}`, queued: 1, seq: i, at: i })],
  ['an instance each', (i) => ({ type: 'accepted', operator: 'o', instance: `i${i}`, lane: 'user', queued: 1, seq: 0, at: i })],
  ['an operator each', (i) => ({ type: 'accepted', operator: `o${i}`, lane: 'user', queued: 1, seq: 0, at: i })],
  [
    'a call each, none of which ends',
    (i) => ({
      type: 'attemptStarted',
      operator: 'o',
      lane: 'user',
      size: 1,
      batchId: `b${i}`,
      attempt: 1,
      weight: 1,
      splitDepth: 0,
      executing: i,
      at: i,
    }),
  ],
  [
    'a call each in an instance of its own',
    (i) => ({
      type: 'attemptStarted',
      operator: 'o',
      instance: `i${i}`,
      lane: 'user',
      size: 1,
      batchId: 'b',
      attempt: 1,
      weight: 1,
      splitDepth: 0,
      executing: i,
      at: i,
    }),
  ],
];

/** Of the processor's time. */
function msOf(work: () => void): number {
  const from = process.cpuUsage();
  work();
  return process.cpuUsage(from).user / 1000;
}

describe.each(shapes)('%s', (_, eventOf) => {
  const modelOf = (events: number): FlowModel => {
    const model = new FlowModel();
    for (let i = 0; i < events; i++) model.add(eventOf(i));
    return model;
  };

  it('takes time in proportion to the events', () => {
    modelOf(N / 4);
    const once = Math.min(...[1, 2, 3].map(() => msOf(() => modelOf(N / 4))));
    const four = Math.min(...[1, 2, 3].map(() => msOf(() => modelOf(N))));
    // Its square would be sixteen times as long.
    expect(four).toBeLessThan(10 * once + 50);
  });

  it('counts the same, also when the recording is opened again', () => {
    const model = modelOf(3000);
    const again = replay(importRecording(exportRecording(model)));
    const { accepted, waiting, calls, lost } = model.counters;
    expect([accepted, lost]).toEqual([eventOf(0).type === 'accepted' ? 3000 : 0, 0]);
    expect(again.counters).toMatchObject({ accepted, waiting, calls, lost });
  });
});

it('an item whose instance was forgotten is settled all the same', () => {
  const model = new FlowModel();
  for (let i = 0; i < 1000; i++) model.add({ type: 'accepted', operator: 'o', instance: `i${i}`, lane: 'user', queued: 1, seq: 0, at: i });
  expect(model.counters.waiting).toBe(1000);
  for (let i = 0; i < 1000; i++)
    model.add({
      type: 'settled',
      operator: 'o',
      instance: `i${i}`,
      lane: 'user',
      outcome: 'fulfilled',
      attempts: 1,
      totalMs: 1,
      seq: 0,
      at: 2000,
    });
  expect(model.counters).toMatchObject({ waiting: 0, settled: 1000, lost: 0 });
});

it('line and paragraph separators in names come through', () => {
  const lane = 'a\u2028b\u2029c';
  const event = { type: 'accepted', operator: 'o', lane, queued: 1, seq: 0, at: 1 } as const;
  expect(importRecording(JSON.stringify(event)).events).toEqual([event]);
  const model = new FlowModel();
  model.add(event);
  expect(replay(importRecording(exportRecording(model))).lanes[0]?.name).toBe(lane);
});

it('what is deep is no event, and takes nothing with it', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  expect(() => importRecording(deep)).toThrow(RecordingError);
  expect(() => importRecording(`{"format":"sluice-recording","version":2,"events":${deep},"samples":[]}`)).toThrow(RecordingError);
});
