import { get } from 'node:http';
import type { Context } from '@opentelemetry/api';
import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { concat, from, lastValueFrom, NEVER, of, throwError, timer } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { virtualTime } from '../../marbles/virtual.js';
import { bulkheadMap, createLimiter, divideAndConquer, perMinute, retryFailed } from '../../operators/index.js';
import type { OtelOptions } from '../../src/adapters/otel.js';
import { createOtel, GEN_AI_NAMES } from '../../src/adapters/otel.js';
import type { CallRecord, FlowEvent } from '../../src/index.js';
import { batchMap, callAll, createAccount, createModelCaller, createToolRunner, defineTool } from '../../src/index.js';

function traced(options: OtelOptions = {}) {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const tracer = provider.getTracer('test');
  return { tracer, spans: () => exporter.getFinishedSpans(), ...createOtel({ tracer, meter: false, ...options }) };
}

function measured(options: OtelOptions = {}) {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const read = async () => {
    await reader.forceFlush();
    const metrics =
      exporter
        .getMetrics()
        .at(-1)
        ?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
    await provider.shutdown();
    return new Map(metrics.map(({ descriptor, dataPoints }) => [descriptor.name, { unit: descriptor.unit, points: dataPoints }] as const));
  };
  return { read, ...createOtel({ meter: provider.getMeter('test'), tracer: false, ...options }) };
}

const idOf = (span: ReadableSpan): string => span.spanContext().spanId;
const msOf = ([seconds, ns]: readonly [number, number]): number => seconds * 1000 + ns / 1e6;
const busy = Object.assign(new Error('busy'), { status: 503 });

const record: CallRecord = {
  ...{ traceId: '3f5d6c1c3f5d6c1c0000000000000001', spanId: '00f067aa0ba902b7', name: 'count', lane: 'user', model: 'gpt', attempt: 1 },
  ...{ latencyMs: 2000, queuedMs: 500, status: 'success', errorCode: null, promptTokens: 850, completionTokens: 120 },
  ...{ key: null, cacheReadTokens: null, cacheWriteTokens: null, reasoningTokens: null, costUsd: null, isEstimated: false },
};

describe('spans of batches', () => {
  it('have a child for their call, and what is made of a failed one stands below it', () => {
    virtualTime(({ flush }) => {
      const { sink, spans } = traced();
      const work = (items: readonly number[]) =>
        concat(timer(10), items.includes(3) ? throwError(() => Object.assign(new Error('bad'), { status: 400 })) : of(items));
      from([1, 2, 3, 4])
        .pipe(
          batchMap((items: readonly number[]) => work(items) as never, {
            maxSize: 4,
            repair: divideAndConquer(),
            onEvent: sink,
            name: 'docs',
          }),
        )
        .subscribe();
      flush();
      const made = spans();
      const batches = made.filter(({ name }) => name === 'flow.batch');
      const roots = batches.filter(({ parentSpanContext }) => parentSpanContext === undefined);
      expect(roots).toHaveLength(1);
      expect(roots[0]?.attributes).toMatchObject({
        'flow.operator': 'batchMap',
        'flow.name': 'docs',
        'flow.size': 4,
        'flow.outcome': 'itemFault',
      });
      expect(batches.length).toBeGreaterThan(3);
      const known = new Set(batches.map(idOf));
      for (const span of made) {
        expect(span.spanContext().traceId).toBe(roots[0]?.spanContext().traceId);
        if (span !== roots[0]) expect(known).toContain(span.parentSpanContext?.spanId);
      }
      const attempts = made.filter(({ name }) => name === 'flow.attempt');
      expect(attempts).toHaveLength(batches.length);
      // Parts lie behind what they are made of.
      for (const batch of batches) {
        const parent = batches.find((one) => idOf(one) === batch.parentSpanContext?.spanId);
        if (parent) expect(msOf(batch.startTime)).toBeGreaterThanOrEqual(msOf(parent.endTime));
      }
      const [first] = attempts.filter(({ parentSpanContext }) => parentSpanContext?.spanId === (roots[0] && idOf(roots[0])));
      expect([msOf(first?.startTime ?? [0, 0]), msOf(first?.endTime ?? [0, 0])]).toEqual([0, 10]);
    });
  });

  it('do not exist for batches that were never sent, and single items have one for each call', () => {
    virtualTime(({ flush }) => {
      const { sink, spans } = traced();
      from([1, 2, 3])
        .pipe(bulkheadMap((item: number) => timer(item), { onEvent: sink }))
        .subscribe();
      flush();
      expect(spans().map(({ name, startTime, endTime }) => [name, msOf(endTime) - msOf(startTime)])).toEqual([
        ['flow.attempt', 1],
        ['flow.attempt', 2],
        ['flow.attempt', 3],
      ]);
    });
  });

  it('are forgotten beyond the bound', () => {
    const { sink, spans } = traced({ maxOpen: 2 });
    const call = { operator: 'batchMap', instance: '1', lane: 'default', size: 1, attempt: 1 } as const;
    const started = (batchId: string): FlowEvent => ({ type: 'attemptStarted', ...call, batchId, weight: 1, splitDepth: 0, executing: 1 });
    for (const id of ['a', 'b', 'c']) sink(started(id));
    for (const batchId of ['a', 'b', 'c']) sink({ type: 'attemptEnded', ...call, batchId, outcome: 'ok', latencyMs: 1 });
    expect(spans()).toHaveLength(2);
  });
});

describe('spans of model calls', () => {
  it('have every attempt with its record, in the trace that the records name', async () => {
    const { sink, record: onRecord, spans } = traced();
    const records: CallRecord[] = [];
    let sent = 0;
    const models = createModelCaller({
      call: (question: string, { settle }) => {
        if (sent++ === 0) return throwError(() => busy);
        settle({ inputTokens: 7, outputTokens: 3 });
        return of(question);
      },
      model: 'gpt',
      retry: { delayMs: 0 },
      onEvent: sink,
      onRecord: (one) => {
        records.push(one);
        onRecord(one);
      },
      limiter: createAccount({ concurrency: 1 }),
    });
    await lastValueFrom(callAll(models, { first: 'a', second: 'b' }));
    await models.drain();
    const calls = spans().filter(({ name }) => name === 'flow.call');
    const attempts = spans().filter(({ name }) => name === 'flow.model gpt');
    expect([calls.length, attempts.length, spans().length]).toEqual([2, 3, 5]);
    for (const span of spans()) expect(span.spanContext().traceId).toBe(records[0]?.traceId);
    for (const span of attempts) expect(calls.map(idOf)).toContain(span.parentSpanContext?.spanId);
    // Both calls of the group are below one span.
    expect(new Set(calls.map(({ parentSpanContext }) => parentSpanContext?.spanId)).size).toBe(1);
    const failed = attempts.filter(({ status }) => status.code === 2);
    expect(failed.map(({ attributes }) => attributes['error.type'])).toEqual(['HTTP_503']);
    const good = attempts.find(({ status, attributes }) => status.code !== 2 && attributes['flow.call_name'] === 'second');
    expect(good?.attributes).toMatchObject({
      'flow.model': 'gpt',
      'flow.input_tokens': 7,
      'flow.output_tokens': 3,
      'flow.attempt_number': 1,
    });
  });

  it('are made of records alone, and of events alone', async () => {
    const alone = traced();
    alone.record(record);
    const [span] = alone.spans();
    expect(span?.spanContext().traceId).toBe(record.traceId);
    expect(msOf(span?.duration ?? [0, 0])).toBe(2000);
    const { sink, spans } = traced();
    const models = createModelCaller({ call: (question: string) => Promise.resolve(question), onEvent: sink });
    await models.callAsync('why');
    await models.drain();
    expect(spans().map(({ name }) => name)).toEqual(['flow.call', 'flow.attempt']);
  });

  it('of a call that is left have an end as well, and it is no error', async () => {
    const { sink, record: onRecord, spans } = traced();
    const models = createModelCaller({ call: () => NEVER, onEvent: sink, onRecord, limiter: createAccount({ concurrency: 4 }) });
    models.call('why').subscribe().unsubscribe();
    await models.drain();
    expect(spans().map(({ name, status, attributes }) => [name, status.code, attributes['flow.outcome']])).toEqual([
      ['flow.call', 0, 'cancelled'],
      ['flow.model default', 0, 'cancelled'],
    ]);
  });

  it('of tools have their retries', async () => {
    const { sink, spans } = traced();
    let sent = 0;
    const flaky = defineTool({
      ...{ name: 'flaky', description: 'fails once', idempotent: true, retry: { delayMs: 0 }, parameters: z.object({}) },
      execute: () => (sent++ === 0 ? Promise.reject(busy) : Promise.resolve('done')),
    });
    const tools = createToolRunner({ tools: [flaky], onEvent: sink, name: 'files' });
    await tools.runAllAsync([{ id: 'x', name: 'flaky', input: {} }]);
    expect(spans().map(({ name, attributes }) => [name, attributes['flow.lane'], attributes['flow.name']])).toEqual([
      ['flow.call', 'flaky', 'files'],
      ['flow.attempt', 'flaky', 'files'],
      ['flow.attempt', 'flaky', 'files'],
    ]);
  });
});

describe('below an active span', () => {
  beforeAll(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  afterAll(() => {
    context.disable();
  });

  it('stand calls and batches that begin in it', async () => {
    const { sink, record: onRecord, spans, tracer } = traced();
    const models = createModelCaller({
      call: (question: string) => Promise.resolve(question),
      onEvent: sink,
      onRecord,
      limiter: createAccount({ concurrency: 4 }),
    });
    const parent = tracer.startSpan('request', {}, ROOT_CONTEXT);
    const inside: Context = trace.setSpan(ROOT_CONTEXT, parent);
    await context.with(inside, () => models.callAsync('why'));
    await context.with(inside, () =>
      from([1, 2])
        .pipe(batchMap(async (items) => items, { onEvent: sink, repair: retryFailed() }))
        .forEach(() => undefined),
    );
    await models.drain();
    const roots = spans().filter(({ name }) => name === 'flow.call' || name === 'flow.batch');
    expect(roots.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
      parent.spanContext().spanId,
      parent.spanContext().spanId,
    ]);
  });
});

describe('measurements', () => {
  it('have own names, and those of the conventions when they are asked for', async () => {
    const own = measured();
    own.record(record);
    own.record({ ...record, status: 'error', errorCode: 'HTTP_429', promptTokens: null, completionTokens: null });
    const metrics = await own.read();
    const durations = metrics.get('flow.model.duration');
    expect(durations?.unit).toBe('s');
    expect(durations?.points.map(({ attributes, value }) => [attributes, (value as { sum: number }).sum])).toEqual([
      [{ 'flow.lane': 'user', 'flow.model': 'gpt' }, 2],
      [{ 'flow.lane': 'user', 'flow.model': 'gpt', 'error.type': 'HTTP_429' }, 2],
    ]);
    expect([...metrics.keys()].filter((name) => name.startsWith('gen_ai'))).toEqual([]);

    const modelAttributes = { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'openai' };
    const theirs = measured({ names: { ...GEN_AI_NAMES, modelDuration: 'gen_ai.client.inference.duration' }, modelAttributes });
    theirs.record(record);
    const renamed = await theirs.read();
    expect(renamed.get('gen_ai.client.inference.duration')?.points[0]?.attributes).toEqual({
      ...modelAttributes,
      'flow.lane': 'user',
      'gen_ai.request.model': 'gpt',
    });
    const tokens = renamed.get('gen_ai.client.token.usage')?.points ?? [];
    expect(tokens.map(({ attributes, value }) => [attributes['gen_ai.token.type'], (value as { sum: number }).sum])).toEqual([
      ['input', 850],
      ['output', 120],
    ]);
  });

  it('count what events tell', async () => {
    const { sink, read } = measured();
    let isBusy = true;
    const work = (items: readonly number[]) => {
      const answer = isBusy ? Promise.reject(busy) : Promise.resolve(items);
      isBusy = false;
      return answer;
    };
    await from([1, 2, 3, 4])
      .pipe(batchMap(work, { maxSize: 2, concurrency: 1, repair: retryFailed({ delayMs: 0 }), onEvent: sink, name: 'docs' }))
      .forEach(() => undefined);
    const metrics = await read();
    const about = { 'flow.operator': 'batchMap', 'flow.name': 'docs', 'flow.lane': 'default' };
    const shown = (name: string) =>
      metrics
        .get(name)
        ?.points.map(({ attributes, value }) => [attributes, typeof value === 'number' ? value : (value as { count: number }).count]);
    expect(shown('flow.items')).toEqual([[{ ...about, 'flow.outcome': 'accepted' }, 4]]);
    expect(shown('flow.retries')).toEqual([[{ ...about, 'flow.reason': 'transient' }, 1]]);
    expect(shown('flow.item.duration')).toEqual([[{ ...about, 'flow.outcome': 'fulfilled' }, 4]]);
    expect(
      new Map(
        shown('flow.attempt.duration')?.map(([attributes, count]) => [
          (attributes as typeof about & { 'flow.outcome': string })['flow.outcome'],
          count,
        ]),
      ),
    ).toEqual(
      new Map([
        ['transient', 1],
        ['ok', 2],
      ]),
    );
  });

  it('show what is observed while it is observed, and no limit where there is none', async () => {
    const { observe, read } = measured();
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60)] });
    limiter.tryAcquire();
    const waiting = limiter.acquire().subscribe();
    observe('account', limiter);
    const stop = observe('other', createLimiter());
    stop();
    expect(() => observe('account', limiter)).toThrow('name');
    const metrics = await read();
    const shown = (name: string) => metrics.get(name)?.points.map(({ attributes, value }) => [attributes['flow.observed'], value]) ?? [];
    expect([shown('flow.queued'), shown('flow.executing'), shown('flow.tokens_left')]).toEqual([[['account', 1]], [['account', 1]], []]);
    expect(shown('flow.requests_left')).toHaveLength(1);
    waiting.unsubscribe();
    limiter.close();
  });

  it('have no more labels than they may', async () => {
    const { sink, record: add, read } = measured({ maxLabels: 3 });
    for (let i = 0; i < 100; i++) {
      add({ ...record, model: `model ${i}`, lane: 'x'.repeat(201), status: 'error', errorCode: `E${i}` });
      sink({ type: 'accepted', operator: 'batchMap', instance: `name ${i}`, lane: `lane ${i}`, queued: 1 });
    }
    const metrics = await read();
    const values = (metric: string, label: string) => new Set(metrics.get(metric)?.points.map(({ attributes }) => attributes[label]));
    expect([...values('flow.model.wait', 'flow.model')]).toEqual(['model 0', 'model 1', 'model 2', 'other']);
    expect([...values('flow.model.wait', 'flow.lane')]).toEqual(['other']);
    expect([...values('flow.items', 'flow.name')]).toEqual(['name 0', 'name 1', 'name 2', 'other']);
    expect([...values('flow.items', 'flow.lane')]).toEqual(['lane 0', 'lane 1', 'lane 2', 'other']);
  });

  it('are read by Prometheus', async () => {
    const exporter = new PrometheusExporter({ host: '127.0.0.1', port: 0, preventServerStart: true });
    const provider = new MeterProvider({ readers: [exporter] });
    const { record: add, observe } = createOtel({ meter: provider.getMeter('test'), tracer: false });
    add(record);
    observe('account', { snapshot: () => ({ queued: 3 }) });
    await exporter.startServer();
    try {
      const { _server: server } = exporter as unknown as { _server: { address(): { port: number } } };
      const text = await new Promise<string>((resolve, reject) => {
        get({ host: '127.0.0.1', port: server.address().port, path: '/metrics', agent: false }, (response) => {
          let body = '';
          response.on('data', (chunk: Buffer) => (body += chunk.toString()));
          response.on('end', () => {
            resolve(body);
          });
        }).on('error', reject);
      });
      expect(text).toMatch(/^flow_model_duration_count\{.*flow_model="gpt".*\} 1$/m);
      expect(text).toMatch(/^flow_model_tokens_sum\{.*flow_token_type="input".*\} 850$/m);
      expect(text).toMatch(/^flow_queued\{.*flow_observed="account".*\} 3$/m);
    } finally {
      await provider.shutdown();
    }
  });
});

it('without an SDK there is nothing to see, and nothing breaks', async () => {
  const otel = createOtel();
  const stop = otel.observe('account', createLimiter());
  const models = createModelCaller({
    call: (question: string) => Promise.resolve(question),
    onEvent: otel.sink,
    onRecord: otel.record,
    limiter: createAccount({ concurrency: 4 }),
  });
  expect(await models.callAsync('why')).toBe('why');
  stop();
});
