import type { Attributes, Histogram, Meter } from '@opentelemetry/api';
import type { FlowEvent } from '../../../operators/index.js';
import type { CallRecord } from '../../metrics/call-record.js';
import { nameOf } from '../../metrics/collected.js';
import type { Observed } from '../../metrics/gauges.js';
import { gaugesOf } from '../../metrics/gauges.js';
import { Labels } from '../../metrics/labels.js';
import type { OtelNames } from './names.js';

/** In seconds, and in tokens, as the conventions for generative AI have them. */
const SECONDS: readonly number[] = Array.from({ length: 14 }, (_, i) => 0.01 * 2 ** i);
const TOKENS: readonly number[] = Array.from({ length: 14 }, (_, i) => 4 ** i);
const SIZES: readonly number[] = Array.from({ length: 13 }, (_, i) => 2 ** i);

const GAUGES = {
  queued: 'Accepted and not on its way',
  heldByRate: 'Waiting for requests or tokens per minute, or for the end of a pause',
  heldBySlot: 'Waiting for nothing but a slot',
  executing: 'On its way',
  requestsLeft: 'Requests that could be sent at once',
  tokensLeft: 'Tokens that could be spent at once',
} as const;

/** Turns events and records into measurements. Labels come from closed sets, or are bounded. */
export class Instruments {
  readonly #meter: Meter;
  readonly #names: OtelNames;
  readonly #modelAttributes: Attributes;
  readonly #add: Readonly<Record<'items' | 'retries' | 'splits' | 'hedges', (attributes: Attributes) => void>>;
  readonly #seconds: Readonly<Record<'itemDuration' | 'batchWait' | 'attemptDuration' | 'modelDuration' | 'modelWait', Histogram>>;
  readonly #batchSize: Histogram;
  readonly #modelTokens: Histogram;
  readonly #observed = new Map<string, Observed>();
  /** What may stand in a label, of each kind. */
  readonly #labels: Readonly<Record<'operator' | 'instance' | 'lane' | 'model' | 'errorType', Labels<string>>>;

  constructor(meter: Meter, names: OtelNames, modelAttributes: Attributes, maxLabels: number) {
    this.#meter = meter;
    this.#names = names;
    this.#modelAttributes = modelAttributes;
    const counter = (name: string, unit: string, description: string) => {
      const made = meter.createCounter(name, { unit, description });
      return (attributes: Attributes): void => {
        made.add(1, attributes);
      };
    };
    const histogram = (name: string, unit: string, description: string, boundaries: readonly number[]): Histogram =>
      meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: [...boundaries] } });
    const seconds = (name: string, description: string): Histogram => histogram(name, 's', description, SECONDS);
    this.#add = {
      items: counter(names.items, '{item}', 'Items accepted, dropped, expired and cancelled'),
      retries: counter(names.retries, '{retry}', 'Calls to be sent again'),
      splits: counter(names.splits, '{split}', 'Batches cut up, or cleared of what their error named'),
      hedges: counter(names.hedges, '{hedge}', 'Second attempts beside a silent one'),
    };
    this.#seconds = {
      itemDuration: seconds(names.itemDuration, 'From acceptance to the result'),
      batchWait: seconds(names.batchWait, 'How long the oldest item of a batch has waited'),
      attemptDuration: seconds(names.attemptDuration, 'From sending a call to its end'),
      modelDuration: seconds(names.modelDuration, 'From sending a call of a model to its end'),
      modelWait: seconds(names.modelWait, 'How long a call of a model has waited for its permit'),
    };
    this.#batchSize = histogram(names.batchSize, '{item}', 'Items in a batch', SIZES);
    this.#modelTokens = histogram(names.modelTokens, '{token}', 'Tokens of a call of a model', TOKENS);
    const labels = (): Labels<string> => new Labels(maxLabels, (label) => label);
    this.#labels = { operator: labels(), instance: labels(), lane: labels(), model: labels(), errorType: labels() };
    this.#observeAll();
  }

  add(event: FlowEvent): void {
    const { lane, reason, outcome } = this.#names;
    const about: Attributes = { [this.#names.operator]: this.#labels.operator.of(event.operator) };
    const name = nameOf(event);
    if (name !== undefined) about[this.#names.instance] = this.#labels.instance.of(name);
    if ('lane' in event) about[lane] = this.#labels.lane.of(event.lane);
    switch (event.type) {
      case 'accepted':
      case 'dropped':
      case 'expired':
      case 'cancelled':
        this.#add.items({ ...about, [outcome]: event.type });
        return;
      case 'settled':
        this.#seconds.itemDuration.record(event.totalMs / 1000, { ...about, [outcome]: event.outcome });
        return;
      case 'batchFormed':
        this.#batchSize.record(event.size, { ...about, [reason]: event.reason });
        this.#seconds.batchWait.record(event.waitMs / 1000, { ...about, [reason]: event.reason });
        return;
      case 'attemptEnded':
        this.#seconds.attemptDuration.record(event.latencyMs / 1000, { ...about, [outcome]: event.outcome });
        return;
      case 'retryScheduled':
        this.#add.retries({ ...about, [reason]: event.class });
        return;
      case 'split':
      case 'blamed':
        this.#add.splits({ ...about, [reason]: event.type });
        return;
      case 'hedged':
        this.#add.hedges(about);
        return;
      default:
    }
  }

  record({ lane, model, errorCode, latencyMs, queuedMs, promptTokens, completionTokens }: CallRecord): void {
    const names = this.#names;
    const about: Attributes = {
      ...this.#modelAttributes,
      [names.lane]: this.#labels.lane.of(lane),
      [names.model]: this.#labels.model.of(model),
    };
    const failed: Attributes = errorCode === null ? {} : { [names.errorType]: this.#labels.errorType.of(errorCode) };
    this.#seconds.modelDuration.record(latencyMs / 1000, { ...about, ...failed });
    this.#seconds.modelWait.record(queuedMs / 1000, about);
    if (promptTokens !== null) this.#modelTokens.record(promptTokens, { ...about, [names.tokenType]: 'input' });
    if (completionTokens !== null) this.#modelTokens.record(completionTokens, { ...about, [names.tokenType]: 'output' });
  }

  observe(name: string, observed: Observed): () => void {
    this.#observed.set(name, observed);
    return () => {
      if (this.#observed.get(name) === observed) this.#observed.delete(name);
    };
  }

  has(name: string): boolean {
    return this.#observed.has(name);
  }

  /** Registers the gauges that are read when metrics are collected. */
  #observeAll(): void {
    const gauges = (Object.keys(GAUGES) as (keyof typeof GAUGES)[]).map((field) => ({
      field,
      gauge: this.#meter.createObservableGauge(this.#names[field], { description: GAUGES[field] }),
    }));
    this.#meter.addBatchObservableCallback(
      (result) => {
        for (const [name, observed] of this.#observed) {
          const now = gaugesOf(observed);
          for (const { field, gauge } of gauges) {
            // No limit is no number.
            if (now[field] !== Infinity) result.observe(gauge, now[field], { [this.#names.observed]: name });
          }
        }
      },
      gauges.map(({ gauge }) => gauge),
    );
  }
}
