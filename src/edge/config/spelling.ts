import type { ConfigFile } from './schema.js';

/** How a file writes a setting. */
export interface Spelling {
  /** `limits.requestsPerSecond` */
  readonly name: string;
  /** How many units of the setting are one of this: 60 for a rate per second, 1000 for a time in seconds. */
  readonly factor: number;
  /** `/s`, `ms`; empty for a count. */
  readonly unit: string;
}

/** The name of a setting, `stages.<name>.…` of one of a stage, as this file writes it or would. */
export function spelledIn(file: ConfigFile): (setting: string) => Spelling {
  const { concurrency: levels, limits, stages = [] } = file;
  return (setting) => {
    const [, stage, key = ''] = /^stages\.(.+)\.(\w+)$/.exec(setting) ?? [];
    const levelKey = STAGE_LEVEL[key];
    const isOwn = stages.some((one) => one.name === stage && one[key as 'concurrency'] !== undefined);
    if (stage !== undefined) {
      const isLevel = levels?.stage_level !== undefined && levelKey !== undefined && !isOwn && Object.hasOwn(levels.stage_level, stage);
      return isLevel ? spelling(`concurrency.stage_level.${stage}.${levelKey[0]}`, levelKey[1]) : spelling(setting);
    }
    const level = levels && LEVELS[setting];
    if (level !== undefined) return spelling(`concurrency.${level[0]}`, level[1]);
    const isPerSecond = setting === 'limits.requestsPerMinute' && limits?.requestsPerSecond !== undefined;
    return isPerSecond ? spelling('limits.requestsPerSecond', 60) : spelling(setting);
  };
}

function spelling(name: string, factor = 1): Spelling {
  const isRate = /perMinute$/i.test(name) || factor === 60;
  const isTime = /Ms$/.test(name) || factor === 1000;
  return { name, factor, unit: isRate ? (factor === 60 ? '/s' : '/min') : isTime ? (factor === 1000 ? ' s' : ' ms') : '' };
}

const STAGE_LEVEL: Readonly<Record<string, readonly [key: string, factor: number]>> = {
  concurrency: ['concurrency', 1],
  timeoutMs: ['timeout', 1000],
};

const LEVELS: Readonly<Record<string, readonly [key: string, factor: number]>> = {
  'batches.concurrency': ['batch_level.max_concurrent_batches', 1],
  'limits.concurrency': ['request_level.max_concurrent_requests', 1],
  'limits.requestsPerMinute': ['request_level.rate_limit.requests_per_second', 60],
  'limits.burst': ['request_level.rate_limit.burst_size', 1],
};
