import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { from, mergeMap, NEVER, of, Subscription, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createOtel } from '../../src/adapters/otel.js';
import { CHANNELS, publishEvent, publishRecord } from '../../src/diagnostics.js';
import type { CallRecord, FlowEvent } from '../../src/index.js';
import {
  backpressure,
  batch,
  batchMap,
  bulkheadMap,
  coalesce,
  concatMapBy,
  conflateWhileBusy,
  createBatcher,
  createBreaker,
  createEmbedder,
  createIntake,
  createLimiter,
  createMetrics,
  createModelCaller,
  createStages,
  createToolRunner,
  defineTool,
  divideAndConquer,
  divideRetry,
  hedge,
  logLine,
  mergeLanes,
  policy,
  resequence,
  retryFailed,
  robust,
  switchLatest,
} from '../../src/index.js';

/** A secret that stands in everything that is somebody's own, and how the work with it goes. */
interface Plant {
  readonly secret: string;
  readonly item: Item;
  readonly items: readonly Item[];
  readonly error: Error;
  readonly fails: boolean;
  /** Work with a planted item: takes a moment, then fails or answers. */
  work<T>(given: T): Observable<T>;
}
interface Item {
  readonly id: string;
  readonly text: string;
}
interface Told {
  readonly onEvent: (event: FlowEvent) => void;
  readonly onRecord: (record: CallRecord) => void;
}

const plants = fc
  .record({
    digits: fc.integer({ min: 1, max: 0x7fffffff }),
    fails: fc.boolean(),
    status: fc.constantFrom(400, 401, 429, 500, undefined),
    passing: fc.boolean(),
  })
  .map(({ digits, fails, status, passing }): Plant => {
    const secret = `sk-Live-${digits.toString(16)}-geheim`;
    const items = [1, 2, 3].map((n) => ({ id: `${secret}-${String(n)}`, text: `the password is ${secret}` }));
    const error = Object.assign(new Error(`401 for key ${secret}`, { cause: new Error(secret) }), {
      ...{ status, code: secret, param: secret, type: secret, requestID: secret, name: `E${secret}` },
      headers: { authorization: `Bearer ${secret}`, 'x-request-id': secret },
      error: { message: secret, code: secret },
    });
    let calls = 0;
    const work = <T>(given: T): Observable<T> =>
      timer(0).pipe(mergeMap(() => (fails && !(passing && calls++ > 0) ? throwError(() => error) : of(given))));
    return { secret, items, item: items[0] as Item, error, fails, work };
  });

/** Waits for the end, whatever it is; what hangs is left. */
const over = (result: Observable<unknown>): Promise<void> =>
  new Promise((resolve) => {
    const running = new Subscription();
    const done = (): void => {
      clearTimeout(late);
      running.unsubscribe();
      resolve();
    };
    const late = setTimeout(done, 40);
    running.add(result.subscribe({ error: done, complete: done }));
  });
const quiet = (promise: Promise<unknown>): Promise<unknown> => promise.catch(() => undefined);

const retry = { maxAttempts: 2, initialMs: 1, budget: 1 } as const;
const key = (item: Item): string => item.id;

/** Whoever tells events, with secrets in all that it is given. */
const subjects: Readonly<Record<string, (plant: Plant, told: Told) => Promise<unknown>>> = {
  batch: ({ items }, { onEvent }) => over(from(items).pipe(batch({ maxSize: 2, onEvent }))),
  batchMap: ({ items, work }, { onEvent }) =>
    over(from(items).pipe(batchMap((all: readonly Item[]) => work(all), { maxSize: 2, repair: robust({ retry }), onEvent }))),
  bulkheadMap: ({ items, work }, { onEvent }) =>
    over(from(items).pipe(bulkheadMap((item: Item) => work(item), { key, perKey: 1, timeoutMs: 20, onEvent }))),
  concatMapBy: ({ items, work }, { onEvent }) => over(from(items).pipe(concatMapBy(key, (item: Item) => work(item), { onEvent }))),
  switchLatest: ({ items, work, secret }, { onEvent }) =>
    over(from(items).pipe(switchLatest((item: Item) => work(item), { key: () => secret, errors: 'settle', onEvent }))),
  mergeLanes: ({ items }, { onEvent }) => over(mergeLanes([{ name: 'P0', source: from(items) }], { maxSize: 2, onEvent })),
  backpressure: ({ items }, { onEvent }) =>
    over(from(items).pipe(backpressure({ ready: NEVER, maxQueued: 1, overflow: 'dropOldest', onEvent }))),
  coalesce: ({ items }, { onEvent }) => over(from(items).pipe(coalesce<Item>({ merge: (one) => one, maxWaitMs: 1, onEvent }))),
  conflateWhileBusy: ({ items }, { onEvent }) =>
    over(
      from(items).pipe(
        conflateWhileBusy<Item, string>({ ready: NEVER, seed: key, merge: (all, item) => all + key(item), maxWeight: 2, onEvent }),
      ),
    ),
  resequence: ({ items }, { onEvent }) =>
    over(from(items).pipe(resequence<Item>({ sequence: ({ id }) => 2 * Number(id.slice(-1)), onGap: 'skip', maxQueued: 1, onEvent }))),
  divideRetry: ({ items, work }, { onEvent }) => over(divideRetry((all: readonly Item[]) => work(all), { onEvent })(items)),
  policy: ({ item, work }, { onEvent }) => over(policy({ retry: retryFailed(retry), onEvent })(() => work(item))),
  hedge: ({ item, work }, { onEvent }) => over(hedge(() => work(item), { delayMs: 0, onEvent })),
  createBreaker: ({ error }, { onEvent }) =>
    over(createBreaker({ onEvent, opens: { inARow: 1 } }).run(() => throwError(() => Object.assign(error, { status: 500 })))),
  createBatcher: async ({ items, work, secret }, { onEvent }) => {
    const batcher = createBatcher((all: readonly Item[]) => work(all), { maxSize: 2, dedupe: key, repair: divideAndConquer(), onEvent });
    const leaving = new AbortController();
    const all = items.map((item, i) => quiet(batcher.loadAsync(item, i === 0 ? { signal: leaving.signal } : {})));
    leaving.abort(new Error(secret));
    await Promise.all(all);
    await batcher.drain();
  },
  createIntake: async ({ items }, { onEvent }) => {
    const intake = createIntake<Item>({ maxQueued: 1, onEvent });
    for (const item of items) void quiet(Promise.resolve(intake.offer(item)));
    intake.close();
  },
  createLimiter: ({ secret }, { onEvent }) => {
    const limiter = createLimiter({ concurrency: 1, onEvent });
    const held = limiter.tryAcquire();
    const waiting = limiter.acquire({}).subscribe();
    held?.observe({ status: 429, headers: new Headers({ 'retry-after-ms': '1', 'x-request-id': secret }) });
    held?.release('error', new Error(secret));
    waiting.unsubscribe();
    limiter.close();
    return Promise.resolve();
  },
  createEmbedder: async ({ items, work, secret }, { onEvent }) => {
    const embedder = createEmbedder({
      call: (texts) => work(texts.map(() => [1, 2])),
      repair: robust({ retry }),
      onEvent,
    });
    const leaving = new AbortController();
    const all = items.map(({ id }, i) => quiet(embedder.embedAsync(id, i === 0 ? { signal: leaving.signal } : {})));
    leaving.abort(secret);
    await Promise.all(all);
    await embedder.drain();
  },
  'createModelCaller, a client': async ({ item, work, secret }, { onEvent, onRecord }) => {
    const models = createModelCaller({ call: (question: string) => work(question), model: 'm', retry, onEvent, onRecord });
    const leaving = new AbortController();
    const left = quiet(models.callAsync(item.text, { signal: leaving.signal }));
    leaving.abort(new Error(secret));
    await Promise.all([left, quiet(models.callAsync(item.text))]);
    const parsed = createModelCaller({
      call: (question: string) => Promise.resolve(question),
      parse: (text) => JSON.parse(text) as unknown,
      onEvent,
      onRecord,
    });
    await quiet(parsed.callAsync(item.text));
  },
  'createModelCaller, an endpoint': async ({ item, fails, secret }, { onEvent, onRecord }) => {
    const answer = { choices: [{ index: 0, message: { role: 'assistant', content: secret }, finish_reason: 'stop' }] };
    const models = createModelCaller({
      ...{ baseUrl: `http://127.0.0.1:9/${secret}`, apiKey: secret, headers: { 'x-key': secret }, model: 'm', retry, onEvent, onRecord },
      fetch: () =>
        Promise.resolve(
          fails
            ? Response.json(
                { error: { message: secret, code: secret, type: secret } },
                { status: 500, headers: { 'x-request-id': secret } },
              )
            : Response.json(answer),
        ),
    });
    await quiet(models.callAsync({ messages: [{ role: 'user', content: item.text }] }));
  },
  createToolRunner: async ({ item, error, fails, secret }, { onEvent }) => {
    const read = defineTool({
      ...{ name: 'read', description: secret, parameters: z.object({ path: z.string() }), idempotent: true, retry },
      execute: () => (fails ? Promise.reject(error) : Promise.resolve(secret)),
    });
    const tools = createToolRunner({ tools: [read], guard: ({ id }) => (id.endsWith('denied') ? secret : true), onEvent });
    await tools.runAll([
      { id: item.id, name: 'read', input: { path: secret } },
      { id: `${secret}-bad`, name: 'read', input: { [secret]: 1 } },
      { id: `${secret}-denied`, name: 'read', input: { path: secret } },
      { id: `${secret}-unknown`, name: `${secret}-tool`, input: {} },
    ]);
  },
  createStages: async ({ items, work }, { onEvent }) => {
    const stages = createStages({ stages: [{ name: 'answer', work: (item: unknown) => work(item) }], id: key, onEvent } as never);
    await over(stages.run(items as never));
    stages.close();
  },
};

/** All that anybody could see of it, as text. */
async function seen(subject: (plant: Plant, told: Told) => Promise<unknown>, plant: Plant): Promise<{ text: string; events: number }> {
  const shown: unknown[] = [];
  const heard = (message: unknown): void => void shown.push(message);
  const spans = new InMemorySpanExporter();
  const tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }).getTracer('test');
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const otel = createOtel({ tracer, meter: provider.getMeter('test') });
  const metrics = createMetrics({ windowMs: 1000 });
  subscribe(CHANNELS.event, heard);
  subscribe(CHANNELS.record, heard);
  let events = 0;
  try {
    await subject(plant, {
      onEvent: (event) => {
        events++;
        shown.push(event, logLine(event));
        for (const take of [otel.sink, metrics.sink, publishEvent]) take(event);
      },
      onRecord: (record) => {
        shown.push(record, logLine(record));
        for (const take of [otel.record, metrics.record, publishRecord]) take(record);
      },
    });
    await reader.forceFlush();
  } finally {
    unsubscribe(CHANNELS.event, heard);
    unsubscribe(CHANNELS.record, heard);
    await provider.shutdown();
  }
  for (const { name, attributes, status, events: noted, links } of spans.getFinishedSpans())
    shown.push({ name, attributes, status, noted, links });
  for (const { scopeMetrics } of exporter.getMetrics()) shown.push(scopeMetrics);
  shown.push(metrics.snapshot());
  return { text: JSON.stringify(shown), events };
}

describe.each(Object.entries(subjects))('what %s tells', (_name, subject) => {
  it('has nothing of what it was given in it: no item, id, key, prompt, header, error or reason', async () => {
    let told = 0;
    await fc.assert(
      fc.asyncProperty(plants, async (plant) => {
        const { text, events } = await seen(subject, plant);
        told += events;
        const at = text.indexOf('geheim');
        expect(at === -1 ? '' : text.slice(Math.max(0, at - 200), at + 20)).toBe('');
      }),
      { numRuns: 6, endOnFailure: true },
    );
    expect(told).toBeGreaterThan(0);
  });
});

it('what somebody puts beside the fields of an event, or into a label too long for one, goes no further', async () => {
  const [plant] = fc.sample(plants, 1);
  if (plant === undefined) throw new Error('there is no plant');
  const beside = { prompt: plant.secret, headers: plant.error.cause } as object;
  const event: FlowEvent = { type: 'accepted', operator: 'batchMap', lane: 'default', queued: 1, ...beside };
  expect(logLine(event)).toBe('{"event":"accepted","operator":"batchMap","lane":"default","queued":1}');
  const heard: unknown[] = [];
  const hear = (message: unknown): void => void heard.push(message);
  subscribe(CHANNELS.event, hear);
  publishEvent(event);
  unsubscribe(CHANNELS.event, hear);
  expect(heard).toEqual([{ type: 'accepted', operator: 'batchMap', lane: 'default', queued: 1 }]);
  const metrics = createMetrics();
  metrics.sink({ ...event, operator: `${'x'.repeat(200)}${plant.secret}` });
  expect(Object.keys(metrics.snapshot().operators)).toEqual(['other']);
});

it('nothing is published while nobody has subscribed', () => {
  let reads = 0;
  const event = {
    operator: 'batchMap',
    get type() {
      reads++;
      return 'drained' as const;
    },
  };
  publishEvent(event);
  expect(reads).toBe(0);
});
