import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../src/index.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import type { InspectorSource, Recording } from '../../src/inspector/index.js';
import { importRecording } from '../../src/inspector/index.js';
import { RecordingError, replay } from '../../src/inspector/recording.js';
import { connectSource } from '../../src/inspector/source.js';
import { Timeline } from '../../src/inspector/timeline.js';
import { sized } from '../support/deep.js';

const number = fc.oneof(
  { arbitrary: fc.integer({ min: 0, max: 6 }), weight: 6 },
  { arbitrary: fc.constantFrom(-1, 0.5, 1e9, 1e308, -1e308, Infinity), weight: 1 },
);
const text = fc.constantFrom('a', 'b', 'user', '', '__proto__', 'toString');
const fields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  ...{
    operator: text,
    lane: text,
    batchId: text,
    policy: text,
    class: text,
    state: text,
    reason: fc.constantFrom('size', 'retry', 'split'),
  },
  ...{ queued: number, size: number, weight: number, waitMs: number, attempt: number, splitDepth: number, executing: number },
  ...{ latencyMs: number, delayMs: number, parts: number, depth: number, blamed: number, round: number, totalMs: number, count: number },
  ...{ attempts: number, pauseMs: number, openMs: number, deadlineMs: number, afterMs: number },
};
const stamps = {
  ...{ instance: text, parentBatchId: text, at: number, seq: number },
  seqs: fc.array(number, { maxLength: 5 }),
};
const NEEDS: Readonly<Record<string, string>> = {
  accepted: 'lane queued',
  batchFormed: 'lane reason size weight waitMs batchId',
  attemptStarted: 'lane batchId size attempt weight splitDepth executing',
  attemptEnded: 'lane batchId size attempt latencyMs',
  settled: 'lane attempts totalMs',
  split: 'lane size parts depth batchId',
  blamed: 'lane size blamed round batchId',
  cancelled: 'lane count',
  retryScheduled: 'lane class size attempt delayMs',
  dropped: 'lane policy',
  expired: 'lane deadlineMs',
  swallowed: 'lane',
  throttled: 'pauseMs',
  breakerChanged: 'state openMs',
  hedged: 'lane attempt afterMs',
  drained: '',
};
/** Events that are in order one by one, and make no sense together. */
const events = fc.array(
  fc.oneof(
    ...Object.entries(NEEDS).map(([type, names]) => {
      const outcome =
        type === 'settled' ? fc.constantFrom('fulfilled', 'rejected') : fc.constantFrom('ok', 'cancelled', 'throttled', 'fatal');
      const needed = Object.fromEntries(['operator', ...names.split(' ').filter(Boolean)].map((name) => [name, fields[name]!]));
      const all: Record<string, fc.Arbitrary<unknown>> = { type: fc.constant(type), outcome, ...needed, ...stamps };
      const made: fc.Arbitrary<unknown> = fc.record(all, { requiredKeys: ['type', 'outcome', ...Object.keys(needed)] });
      return made as fc.Arbitrary<FlowEvent>;
    }),
  ),
  { maxLength: 60 },
);

describe('whatever is told', () => {
  it('is taken, exported and opened again', () => {
    fc.assert(
      fc.property(events, (told) => {
        const model = new FlowModel();
        for (const event of told) model.add(event);
        expect(model.events.length).toBe(told.length);
        const again = replay(importRecording(exportRecording(model)));
        expect(again.counters.accepted).toBe(model.counters.accepted);
        expect(model.slots.filter(Boolean).length).toBe(model.counters.executing);
        expect(model.counters.waiting).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: sized(60, 5000) },
    );
  });

  it('is played from its beginning to its end, whatever is asked for in between', () => {
    const moves = fc.array(fc.oneof(fc.double(), fc.integer({ min: -10, max: 10 })));
    fc.assert(
      fc.property(events, moves, (told, asked) => {
        const timeline = new Timeline(recordingOf(told));
        let model = new FlowModel();
        timeline.playInto(model);
        for (const ms of asked) {
          if (!timeline.seek(ms)) timeline.playInto((model = new FlowModel()));
          expect(timeline.positionMs).toBeGreaterThanOrEqual(0);
        }
        let steps = 0;
        while (timeline.step() && steps <= told.length) steps++;
        expect([steps <= told.length, timeline.isOver]).toEqual([true, true]);
        expect(model.counters.accepted).toBe(told.filter(({ type }) => type === 'accepted').length);
      }),
      { numRuns: sized(30, 3000) },
    );
  });
});

it('opens nothing that is broken, however it is, and says so', () => {
  const whole = exportRecording(replayed(5));
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.nat(whole.length - 1), fc.anything(), (from, length, thing) => {
      const texts = [whole.slice(0, from), whole.slice(0, from) + whole.slice(from + 1 + (length % 9)), String(JSON.stringify(thing))];
      for (const given of [...texts, `{"format":"sluice-recording","version":1,"events":${texts[2]!}}`]) {
        try {
          replay(importRecording(given));
        } catch (error) {
          expect(error).toBeInstanceOf(RecordingError);
        }
      }
    }),
    { numRuns: sized(60, 5000) },
  );
});

it('an item that is sent again without end leaves a tree of a hundred levels, and all its calls are counted', () => {
  const model = replayed(5000);
  const [tree] = model.trees;
  expect(tree?.calls).toBe(5000);
  let levels = 0;
  let known = 0;
  for (let batch = tree; batch; batch = batch.children.at(-1)) {
    levels++;
    known += batch.children.length;
  }
  expect([levels, known]).toEqual([101, 199]);
  expect(exportRecording(model).length).toBeLessThan(1_000_000);
});

it('knows the newest of many subscriptions that all have something open', () => {
  const model = new FlowModel();
  const event = { operator: 'batchMap', lane: 'user', seq: 0 } as const;
  for (let i = 0; i < 300; i++) model.add({ ...event, type: 'accepted', instance: String(i), queued: 0 });
  for (let i = 0; i < 300; i++)
    model.add({ ...event, type: 'settled', instance: String(i), outcome: 'fulfilled', attempts: 1, totalMs: 1 });
  expect(model.counters).toMatchObject({ accepted: 300, settled: 300, waiting: 0 });
});

it('tells a batch of any size by its numbers', () => {
  const model = new FlowModel();
  const seqs = Array.from({ length: 200_000 }, (_, i) => i);
  const told = { operator: 'batchMap', lane: 'user', batchId: 'b', size: seqs.length, weight: 1, seqs } as const;
  model.add({ ...told, type: 'batchFormed', reason: 'size', waitMs: 0 });
  model.add({ ...told, type: 'attemptStarted', attempt: 1, splitDepth: 0, executing: 1 });
  expect(model.slots[0]?.label).toBe('#0 +199999');
});

describe('a source', () => {
  const stream = (): { source: InspectorSource; tell: (event: FlowEvent) => void } => {
    const listeners = new Set<(event: FlowEvent) => void>();
    const subscribe = ({ next }: { next: (event: FlowEvent) => void }): { unsubscribe: () => void } => {
      listeners.add(next);
      return { unsubscribe: () => void listeners.delete(next) };
    };
    return {
      source: { subscribe },
      tell: (event) => {
        for (const next of listeners) next(event);
      },
    };
  };
  const accepted: FlowEvent = { type: 'accepted', operator: 'x', lane: 'user', queued: 0, seq: 1 };

  it('that closes, and does not say any more how it is, is heard all the same', () => {
    const { source, tell } = stream();
    let isClosed = false;
    const snapshot = (): object => {
      if (isClosed) throw new Error('closed');
      return { executing: 2 };
    };
    const model = new FlowModel();
    const connection = connectSource([{ snapshot, events: source as never }], model);
    expect(model.limits[0]?.executing).toBe(2);
    isClosed = true;
    connection.look();
    tell(accepted);
    connection.look();
    expect(model.counters.accepted).toBe(1);
  });

  it('is shown by two at a time, each by itself', () => {
    const { source, tell } = stream();
    const models = [new FlowModel(), new FlowModel()] as const;
    const [one] = models.map((model) => connectSource(source, model));
    tell(accepted);
    one?.leave();
    tell({ ...accepted, seq: 2 });
    expect(models.map(({ counters }) => counters.accepted)).toEqual([1, 2]);
  });
});

/** As it comes from a file. */
function recordingOf(told: readonly FlowEvent[]): Recording {
  const { sums: _sums, ...nothing } = JSON.parse(exportRecording(new FlowModel())) as Recording;
  return importRecording(JSON.stringify({ ...nothing, events: told }));
}

/** One item, and a call that fails again and again. */
function replayed(attempts: number): FlowModel {
  const model = new FlowModel();
  const item = { operator: 'batchMap', lane: 'user', instance: 'a' } as const;
  const call = { ...item, batchId: 'b', size: 1, weight: 1 } as const;
  model.add({ ...item, type: 'accepted', queued: 0, seq: 0 });
  for (let attempt = 1; attempt <= attempts; attempt++) {
    model.add({ ...call, type: 'attemptStarted', attempt, splitDepth: 0, executing: 1, seq: 0 });
    model.add({ ...call, type: 'attemptEnded', attempt, outcome: 'transient', latencyMs: 1 });
  }
  return model;
}
