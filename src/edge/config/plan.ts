import { STAGES_DEFAULTS } from '../../pipelines/defaults.js';
import type { StageLoad, ThroughputPlan } from '../../pipelines/throughput.js';
import type { Config, StageConfig } from './schema.js';

/** A load that is stated beside a configuration, and goes before what `expect` says there. */
export interface StatedLoad {
  readonly documents?: number;
  /** Of the stages behind the one that makes items of a document; of all when none does. */
  readonly itemsPerDocument?: number;
  readonly secondsPerCall?: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
}

/** What is assumed of a load when nothing is said. */
export const EXPECT_DEFAULTS = {
  documents: 1000,
  itemsPerDocument: 10,
  secondsPerCall: 5,
  inputTokens: 1000,
  outputTokens: 300,
} as const;

/** @beta */
export interface PlannedConfig {
  readonly plan: ThroughputPlan;
  /** What nobody has said, as `expect.documents = 1000`. */
  readonly assumed: readonly string[];
}

/**
 * A configuration as `explainThroughput` takes it. A configuration without stages is one call for each document.
 *
 * @beta
 * @example
 * ```ts
 * import { explainThroughput } from 'sluice';
 * import { planOf } from 'sluice/edge';
 *
 * const { plan, assumed } = planOf({ limits: { concurrency: 8 } }, { documents: 400, secondsPerCall: 2 });
 * explainThroughput(plan).makespanMs; // => 100_000
 * assumed; // => ['expect.inputTokens = 1000', 'expect.outputTokens = 300']
 * ```
 */
export function planOf(config: Config, stated: StatedLoad = {}): PlannedConfig {
  const { limits = {}, batches, expect = {} } = config;
  const assumed = new Set<string>();
  const assume = (name: keyof StatedLoad): number => {
    assumed.add(`expect.${name} = ${String(EXPECT_DEFAULTS[name])}`);
    return EXPECT_DEFAULTS[name];
  };
  const { stages = [{ name: 'calls' }] } = config;
  const splits = stages.map(({ answer, chunk }) => answer === 'list' || chunk !== undefined);
  const first = splits.indexOf(true);
  const loadOf = (stage: StageConfig, i: number): StageLoad => {
    const own = stage.expect ?? {};
    const perCall = (name: 'secondsPerCall' | 'inputTokens' | 'outputTokens'): number =>
      stated[name] ?? own[name] ?? expect[name] ?? assume(name);
    const isMany = first !== -1 && i > first;
    const items = (isMany || first === -1 ? stated.itemsPerDocument : undefined) ?? own.itemsPerDocument;
    return {
      name: stage.name,
      ...(stage.concurrency !== undefined && { concurrency: stage.concurrency }),
      ...(stage.scope !== undefined && { scope: stage.scope }),
      itemsPerDocument: items ?? (isMany ? assume('itemsPerDocument') : 1),
      ...(stage.chunk
        ? { callsPerItem: 0 }
        : {
            ...(own.callsPerItem !== undefined && { callsPerItem: own.callsPerItem }),
            secondsPerCall: perCall('secondsPerCall'),
            tokensPerCall: perCall('inputTokens') + perCall('outputTokens'),
          }),
    };
  };
  const plan: ThroughputPlan = {
    documents: stated.documents ?? expect.documents ?? assume('documents'),
    ...(config.stages && { batches: { concurrency: batches?.concurrency ?? STAGES_DEFAULTS.documents } }),
    stages: stages.map(loadOf),
    limits,
  };
  return { plan, assumed: [...assumed] };
}
