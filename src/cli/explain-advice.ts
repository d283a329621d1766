import type { Config, StageConfig } from '../edge/config/schema.js';
import type { Spelling } from '../edge/config/spelling.js';
import { STAGES_DEFAULTS } from '../pipelines/defaults.js';
import type { Throughput, ThroughputPlan } from '../pipelines/throughput.js';
import { formatRate } from './format.js';

/** What to change when something is seen in a run. */
export interface Advice {
  readonly seen: string;
  readonly change: string;
}

/** Stages that are told of, the slowest first. */
const MOST_STAGES = 4;

/** What to change in this configuration, with its own names and numbers. */
export function adviceOn(config: Config, plan: ThroughputPlan, explained: Throughput, spelled: (setting: string) => Spelling): Advice[] {
  const { limits = {}, batches, stages } = config;
  const named = (setting: string, value?: number): string => {
    const { name, factor, unit } = spelled(setting);
    return `\`${name}\`${value === undefined || value === Infinity ? '' : ` (${formatRate(value / factor)}${unit})`}`;
  };
  const { raise, levels } = explained;
  const after = raise && !raise.isStep && raise.next !== raise.setting ? levels.find(({ setting }) => setting === raise.next) : undefined;
  const idle = raise
    ? `raise ${named(raise.setting, raise.from)}, the bottleneck${after ? `, then ${named(after.setting, after.limit)}` : ''}`
    : 'no limit is in the way: make the calls shorter, or fewer in a row';
  const rate = limits.requestsPerMinute;
  const { burst } = limits;
  const isOne = (batches?.concurrency ?? STAGES_DEFAULTS.documents) === 1;
  const memory = isOne
    ? `${named('batches.concurrency', 1)} is the least: cut documents into smaller ones`
    : `lower ${named('batches.concurrency', batches?.concurrency ?? STAGES_DEFAULTS.documents)}${batches?.maxQueued === undefined ? '' : `, and \`batches.maxQueued\` (${formatRate(batches.maxQueued)})`}`;
  const saved = burst === undefined ? '' : `; where the account takes more at once, raise ${named('limits.burst', burst)}`;
  return [
    { seen: 'CPU and network idle, few results', change: idle },
    ...(stages ? [{ seen: 'much memory in use', change: memory }] : []),
    {
      seen: 'refusals for the rate (429)',
      change:
        rate === undefined
          ? `set ${named('limits.requestsPerMinute')} to what the account allows`
          : `lower ${named('limits.requestsPerMinute', rate)}${saved}`,
    },
    ...slowest(stages ?? [], plan).map((stage) => ({
      seen: `\`${stage.name}\` takes long, or times out`,
      change: longer(stage, config, named),
    })),
  ];
}

function slowest(stages: readonly StageConfig[], plan: ThroughputPlan): StageConfig[] {
  const seconds = (stage: StageConfig): number => plan.stages.find(({ name }) => name === stage.name)?.secondsPerCall ?? 0;
  return stages
    .filter(({ chunk }) => chunk === undefined)
    .sort((one, other) => seconds(other) - seconds(one))
    .slice(0, MOST_STAGES);
}

function longer({ name, timeoutMs, model }: StageConfig, config: Config, named: (setting: string, value?: number) => string): string {
  const ofModel = timeoutMs === undefined ? config.model?.timeoutMs : undefined;
  const setting =
    ofModel === undefined ? named(`stages.${name}.timeoutMs`, timeoutMs ?? STAGES_DEFAULTS.timeoutMs) : named('model.timeoutMs', ofModel);
  return `raise ${setting}, or name a faster model in \`${model === undefined && config.model?.model !== undefined ? 'model.model' : `stages.${name}.model`}\``;
}
