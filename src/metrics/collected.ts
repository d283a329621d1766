import type { FlowEvent } from '../../operators/index.js';
import type { CallRecord } from './call-record.js';
import type { CallMetrics } from './call-stats.js';
import { CallStats } from './call-stats.js';
import type { FlowMetrics } from './flow-stats.js';
import { FlowStats } from './flow-stats.js';
import { Labels } from './labels.js';

/** What was told, all together and by label. */
export interface CollectedMetrics<F = FlowMetrics, C = CallMetrics> {
  /** What the events say, of all operators together. */
  readonly flow: F;
  /** The same by operator. */
  readonly operators: Readonly<Record<string, F>>;
  /** The same of what has a `name`, by both: `batchMap/titles`. */
  readonly instances: Readonly<Record<string, F>>;
  /** What the records of model calls say. */
  readonly calls: C;
  /** The same by lane, and by model. */
  readonly lanes: Readonly<Record<string, C>>;
  readonly models: Readonly<Record<string, C>>;
}

/** An instance without a name of its own has a number. */
const NUMBER = /^\d*$/;

/** The name of the instance that emitted an event; undefined when it has none. */
export function nameOf({ instance = '' }: FlowEvent): string | undefined {
  return NUMBER.test(instance) ? undefined : instance;
}

/** All that was told in some time. */
export class Collected {
  readonly #flow: FlowStats;
  readonly #operators: Labels<FlowStats>;
  readonly #instances: Labels<FlowStats>;
  readonly #calls: CallStats;
  readonly #lanes: Labels<CallStats>;
  readonly #models: Labels<CallStats>;

  constructor(maxLabels: number, maxBatchSize: number) {
    const newFlow = (): FlowStats => new FlowStats(maxBatchSize);
    const newCalls = (): CallStats => new CallStats(maxLabels);
    this.#flow = newFlow();
    this.#operators = new Labels(maxLabels, newFlow);
    this.#instances = new Labels(maxLabels, newFlow);
    this.#calls = newCalls();
    this.#lanes = new Labels(maxLabels, newCalls);
    this.#models = new Labels(maxLabels, newCalls);
  }

  add(event: FlowEvent): void {
    this.#flow.add(event);
    this.#operators.of(event.operator).add(event);
    const name = nameOf(event);
    if (name !== undefined) this.#instances.of(`${event.operator}/${name}`).add(event);
  }

  record(record: CallRecord): void {
    this.#calls.add(record);
    this.#lanes.of(record.lane).add(record);
    this.#models.of(record.model).add(record);
  }

  /** Takes the calls that are under way where another one ended. */
  goOnFrom(before: Collected): void {
    this.#flow.goOnFrom(before.#flow);
    goOn(this.#operators, before.#operators);
    goOn(this.#instances, before.#instances);
  }

  /** Takes all that another one was told. */
  merge(other: Collected): void {
    this.#flow.merge(other.#flow);
    this.#calls.merge(other.#calls);
    for (const [label, stats] of other.#operators) this.#operators.of(label).merge(stats);
    for (const [label, stats] of other.#instances) this.#instances.of(label).merge(stats);
    for (const [label, stats] of other.#lanes) this.#lanes.of(label).merge(stats);
    for (const [label, stats] of other.#models) this.#models.of(label).merge(stats);
  }

  /** @param flow, calls - what is shown of each */
  show<F, C>(flow: (metrics: FlowMetrics) => F, calls: (metrics: CallMetrics) => C): CollectedMetrics<F, C> {
    const flowOf = (stats: FlowStats): F => flow(stats.snapshot());
    const callsOf = (stats: CallStats): C => calls(stats.snapshot());
    return {
      flow: flowOf(this.#flow),
      operators: this.#operators.record(flowOf),
      instances: this.#instances.record(flowOf),
      calls: callsOf(this.#calls),
      lanes: this.#lanes.record(callsOf),
      models: this.#models.record(callsOf),
    };
  }

  snapshot(): CollectedMetrics {
    return this.show(asItIs, asItIs);
  }
}

function goOn(labels: Labels<FlowStats>, before: Labels<FlowStats>): void {
  for (const [label, stats] of before) if (stats.executing > 0) labels.of(label).goOnFrom(stats);
}

function asItIs<M>(metrics: M): M {
  return metrics;
}
