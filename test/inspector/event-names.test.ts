import { lastValueFrom, NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { hedging, policy } from '../../operators/index.js';
import type { CallRecord, FlowEvent } from '../../src/index.js';
import { callAll, createAccount, createBatcher, createModelCaller, createToolRunner, defineTool } from '../../src/index.js';
import { createMetrics } from '../../src/metrics/index.js';

type Told = Extract<FlowEvent, { readonly lane: string }>;

/** The calls that are told of, each with what is told of it. */
function byCall(events: readonly FlowEvent[]): Map<string, string[]> {
  const calls = new Map<string, string[]>();
  for (const event of events as readonly Told[]) {
    if (event.batchId === undefined) continue;
    const name = `${event.instance} ${event.batchId}`;
    calls.set(name, [...(calls.get(name) ?? []), event.type]);
  }
  return calls;
}

const busy = Object.assign(new Error('busy'), { status: 503 });
const lasting = ['accepted', 'attemptStarted', 'attemptEnded', 'retryScheduled', 'attemptStarted', 'attemptEnded', 'settled'];

describe('events of calls', () => {
  it('of a model caller name the call from its beginning to its end, in a group and in a hedge as well', async () => {
    const events: FlowEvent[] = [];
    let sent = 0;
    const call = (question: string): Promise<string> => (sent++ === 0 ? Promise.reject(busy) : Promise.resolve(question));
    const models = createModelCaller({ call, retry: { delayMs: 0 }, onEvent: (event) => events.push(event), concurrency: 1 });
    await lastValueFrom(callAll(models, { first: 'a', second: 'b' }));
    await models.drain();
    expect([...byCall(events).values()].sort((a, b) => b.length - a.length)).toEqual([
      lasting,
      ['accepted', 'attemptStarted', 'attemptEnded', 'settled'],
    ]);
    expect(new Set(events.filter(({ operator }) => operator === 'createModelCaller').map(({ instance }) => instance)).size).toBe(1);
    expect(events.every(({ at }) => typeof at === 'number')).toBe(true);
  });

  it('of a hedged call name it as well', async () => {
    const events: FlowEvent[] = [];
    let sent = 0;
    const call = async (question: string): Promise<string> => (sent++ === 0 ? new Promise<never>(() => undefined) : question);
    const models = createModelCaller({ call, hedge: hedging({ delayMs: 1 }), onEvent: (event) => events.push(event) });
    await models.callAsync('a', { lane: 'user' });
    expect([...byCall(events).values()]).toEqual([
      ['accepted', 'attemptStarted', 'hedged', 'attemptStarted', 'attemptEnded', 'attemptEnded', 'settled'],
    ]);
  });

  it('of a tool runner name the call from its beginning to its end', async () => {
    const events: FlowEvent[] = [];
    let sent = 0;
    const flaky = defineTool({
      name: 'flaky',
      description: 'fails once',
      idempotent: true,
      retry: { delayMs: 0 },
      parameters: z.object({}),
      execute: () => (sent++ === 0 ? Promise.reject(busy) : Promise.resolve('done')),
    });
    const tools = createToolRunner({ tools: [flaky], onEvent: (event) => events.push(event) });
    await tools.runAllAsync([
      { id: 'x', name: 'flaky', input: {} },
      { id: 'y', name: 'unknown', input: {} },
    ]);
    await tools.drain();
    expect([...byCall(events).values()].sort((a, b) => b.length - a.length)).toEqual([lasting, ['accepted', 'settled']]);
    expect(events.every(({ at, instance }) => typeof at === 'number' && instance !== undefined)).toBe(true);
  });

  it('of attempts to call a model name the record that tells of them', async () => {
    const events: FlowEvent[] = [];
    const records: CallRecord[] = [];
    let sent = 0;
    const models = createModelCaller({
      name: 'answers',
      call: (question: string) => (sent++ === 0 ? Promise.reject(busy) : Promise.resolve(question)),
      retry: { delayMs: 0 },
      onEvent: (event) => events.push(event),
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    await lastValueFrom(callAll(models, { first: 'a', second: 'b' }));
    const named = records.map(({ traceId, spanId, attempt }) => ({ traceId, spanId, attempt }));
    expect(named).toHaveLength(3);
    for (const type of ['attemptStarted', 'attemptEnded'] as const) {
      const told = events.flatMap((event) =>
        event.type === type ? [{ traceId: event.traceId, spanId: event.spanId, attempt: event.attempt }] : [],
      );
      expect(new Set(told)).toEqual(new Set(named));
    }
    expect(new Set(events.map(({ instance }) => instance))).toContain('answers');
  });

  it('of a tool runner have the name it was given', async () => {
    const names = new Set<unknown>();
    const tools = createToolRunner({ tools: [], name: 'files', onEvent: ({ instance }) => names.add(instance) });
    await tools.runAllAsync([{ id: 'x', name: 'unknown', input: {} }]);
    expect([...names]).toEqual(['files']);
  });

  it('of a policy name it when it is left', () => {
    const events: FlowEvent[] = [];
    policy({ onEvent: (event) => events.push(event) })(() => NEVER)
      .subscribe()
      .unsubscribe();
    expect([...byCall(events).values()]).toEqual([['accepted', 'attemptStarted', 'attemptEnded', 'cancelled']]);
  });

  it('of a load that leaves name the item', async () => {
    const events: FlowEvent[] = [];
    const batcher = createBatcher((items: readonly number[]) => Promise.resolve(items), { onEvent: (event) => events.push(event) });
    const leaving = new AbortController();
    const left = batcher.loadAsync(1, { signal: leaving.signal });
    const stays = batcher.loadAsync(2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await stays;
    expect(events.flatMap((event) => (event.type === 'cancelled' ? [event.seq] : []))).toEqual([0]);
  });
});

it('metrics hand on what they are told', () => {
  const metrics = createMetrics();
  const heard: FlowEvent[] = [];
  const leave = metrics.events.subscribe((event) => heard.push(event));
  const event: FlowEvent = { type: 'drained', operator: 'batchMap' };
  metrics.sink(event);
  leave.unsubscribe();
  metrics.sink(event);
  expect(heard).toEqual([event]);
});
