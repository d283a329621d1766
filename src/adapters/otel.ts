import type { Attributes, Meter, Tracer } from '@opentelemetry/api';
import { metrics, trace } from '@opentelemetry/api';
import { check } from '../../operators/build.js';
import type { FlowSink } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import { readEvent } from '../inspector/read-event.js';
import type { CallRecord } from '../metrics/call-record.js';
import type { Observed } from '../metrics/gauges.js';
import { Instruments } from './otel/instruments.js';
import type { OtelNames } from './otel/names.js';
import { FLOW_NAMES } from './otel/names.js';
import { Spans } from './otel/spans.js';

export type { CallRecord } from '../metrics/call-record.js';
export { GEN_AI_NAMES } from './otel/names.js';

/** @beta */
export interface OtelOptions {
  /** Makes the spans; `false` for none. @defaultValue that of the global provider, named `sluice` */
  readonly tracer?: Tracer | false;
  /** Makes the instruments; `false` for none. @defaultValue that of the global provider, named `sluice` */
  readonly meter?: Meter | false;
  /** Other names for some of {@link FLOW_NAMES}: `GEN_AI_NAMES`, or a table of yours. @defaultValue none */
  readonly names?: Partial<OtelNames>;
  /** Attributes of all spans and measurements of model calls, for example `gen_ai.provider.name`. @defaultValue none */
  readonly modelAttributes?: Attributes;
  /** Most values of one label (operators, names, lanes, models, codes); what comes after them is counted as `other`. @defaultValue 50 */
  readonly maxLabels?: number;
  /** Most calls and batches under way that are remembered for their spans. @defaultValue 10000 */
  readonly maxOpen?: number;
}

/**
 * The three ways in of `createMetrics`.
 * @beta
 */
export interface Otel {
  /** Takes events: give it as `onEvent`. */
  readonly sink: FlowSink;
  /** Takes records of model calls: give it as `onRecord`. */
  readonly record: (record: CallRecord) => void;
  /**
   * Shows a limiter or a pipeline as gauges, under a name; the returned function stops that. Its numbers are read only when metrics are collected.
   */
  observe(name: string, observed: Observed): () => void;
}

/** What {@link createOtel} does when an option is left out. */
const OTEL_DEFAULTS = { maxLabels: 50, maxOpen: 10_000 } as const;

const NAME = 'createOtel';

/**
 * Tells OpenTelemetry what operators and pipelines do: a span for each call and each batch with its attempts below it, repeats and parts below
 * what they come from; counters, histograms and gauges.
 *
 * - **Parents** are `parentBatchId`, else the span that is active when a call is accepted or a batch formed. Without one, spans of model calls are
 *   in the trace that their records name.
 * - **Emits** the spans of a call or a batch when it is over.
 * - **Holds at most** `maxOpen` calls and batches under way and 1,000 that were parents, and `maxLabels` values of each label.
 * - **Never** carries an item, a prompt, an answer, a key or the message of an error: attributes are numbers, and words that operators, lanes, models and
 *   calls are named with.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { InMemorySpanExporter, SimpleSpanProcessor, BasicTracerProvider } from '@opentelemetry/sdk-trace-base';
 * import { createAccount, createModelCaller } from 'sluice';
 * import { createOtel } from 'sluice/otel';
 *
 * const exporter = new InMemorySpanExporter();
 * const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
 * const otel = createOtel({ tracer: provider.getTracer('app') });
 * const limiter = createAccount({ onRecord: otel.record });
 * const models = createModelCaller({ call: async (question: string) => question, model: 'm', limiter, onEvent: otel.sink });
 * await models.callAsync('why?');
 * await models.drain();
 * exporter.getFinishedSpans().map(({ name }) => name); // => ['flow.call', 'flow.model m']
 * ```
 * @see `createMetrics` for the same numbers as a snapshot, without OpenTelemetry.
 */
export function createOtel(options: OtelOptions = {}): Otel {
  const given = check.options(
    NAME,
    options,
    { ...OTEL_DEFAULTS, names: {}, modelAttributes: {} },
    {
      tracer: check.unchecked,
      meter: check.unchecked,
      names: tableOf,
      modelAttributes: plain,
      maxLabels: check.count,
      maxOpen: check.count,
    },
  );
  const { modelAttributes, maxLabels, maxOpen } = given;
  const names: OtelNames = { ...FLOW_NAMES, ...given.names };
  const tracer = check.orDefault(given.tracer, trace.getTracer('sluice'));
  const meter = check.orDefault(given.meter, metrics.getMeter('sluice'));
  const spans = tracer === false ? undefined : new Spans(checkedTracer(tracer), names, modelAttributes, maxOpen);
  const instruments = meter === false ? undefined : new Instruments(checkedMeter(meter), names, modelAttributes, maxLabels);
  return {
    sink: (told) => {
      const event = readEvent(told);
      if (!event) return;
      instruments?.add(event);
      spans?.add(event);
    },
    record: (record) => {
      instruments?.record(record);
      spans?.record(record);
    },
    observe: (name, observed) => {
      check.nonEmpty(NAME, 'name', name);
      if (instruments?.has(name)) throw check.misused(NAME, 'name', `\`${name}\` is observed already`, 'Choose another `name`.');
      check.requiredFunction(NAME, 'observed.snapshot', (observed as Partial<Observed> | null | undefined)?.snapshot);
      return instruments?.observe(name, observed) ?? (() => undefined);
    },
  };
}

function checkedTracer(tracer: Tracer): Tracer {
  check.requiredFunction(NAME, 'tracer.startSpan', (Object(tracer) as Partial<Tracer>).startSpan);
  return tracer;
}

function checkedMeter(meter: Meter): Meter {
  check.requiredFunction(NAME, 'meter.createHistogram', (Object(meter) as Partial<Meter>).createHistogram);
  return meter;
}

function tableOf(operator: string, option: string, names: Partial<OtelNames>): Partial<OtelNames> {
  check.onlyKnown(operator, plain(operator, option, names), Object.keys(FLOW_NAMES), option, `${option}.`);
  for (const [key, name] of Object.entries(names)) check.nonEmpty(operator, `${option}.${key}`, name);
  return names;
}

function plain<O extends object>(operator: string, option: string, value: O): O {
  if (Object.prototype.toString.call(value) === '[object Object]') return value;
  throw new FlowConfigError(operator, option, 'an object', value);
}
