import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOtel } from '../../src/adapters/otel.js';
import { publishEvent, publishRecord } from '../../src/diagnostics.js';
import type { FlowEvent } from '../../src/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import { logFields } from '../../src/metrics/log-fields.js';
import { sized } from '../support/deep.js';
import type { Plant, Told } from './plants.js';
import { plants, subjects } from './plants.js';

/** Everything that a run makes visible, as text. */
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
  subscribe('sluice:event', heard);
  subscribe('sluice:record', heard);
  let events = 0;
  try {
    await subject(plant, {
      onEvent: (event) => {
        events++;
        shown.push(event, JSON.stringify(logFields(event)));
        for (const take of [otel.sink, metrics.sink, publishEvent]) take(event);
      },
      onRecord: (record) => {
        shown.push(record, JSON.stringify(logFields(record)));
        for (const take of [otel.record, metrics.record, publishRecord]) take(record);
      },
    });
    await reader.forceFlush();
  } finally {
    unsubscribe('sluice:event', heard);
    unsubscribe('sluice:record', heard);
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
      { numRuns: sized(2, 30), endOnFailure: true },
    );
    expect(told).toBeGreaterThan(0);
  });
});

it('unknown fields of an event and overlong labels are dropped', async () => {
  const [plant] = fc.sample(plants, 1);
  if (plant === undefined) throw new Error('there is no plant');
  const beside = { prompt: plant.secret, headers: plant.error.cause } as object;
  const event: FlowEvent = { type: 'accepted', operator: 'batchMap', lane: 'default', queued: 1, ...beside };
  expect(JSON.stringify(logFields(event))).toBe('{"event":"accepted","operator":"batchMap","lane":"default","queued":1}');
  const heard: unknown[] = [];
  const hear = (message: unknown): void => void heard.push(message);
  subscribe('sluice:event', hear);
  publishEvent(event);
  unsubscribe('sluice:event', hear);
  expect(heard).toEqual([{ type: 'accepted', operator: 'batchMap', lane: 'default', queued: 1 }]);
  const metrics = createMetrics();
  metrics.sink({ ...event, operator: `${'x'.repeat(200)}${plant.secret}` });
  expect(Object.keys(metrics.snapshot().operators)).toEqual(['other']);
});

it('nothing is published without a subscriber', () => {
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
