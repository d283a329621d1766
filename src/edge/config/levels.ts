import type { Config, ConfigFile, ConfigLimits, StageConfig } from './schema.js';

/** What the file says, in one way: rates per minute, and `concurrency` by level as `batches`, `stages` and `limits`. */
export function normalised({ $schema: _, concurrency, ...file }: ConfigFile): Config {
  const { limits, ...rest } = concurrency === undefined ? file : { ...file, ...byLevels(concurrency, file.stages) };
  return { ...rest, ...(limits && { limits: perMinute(limits) }) };
}

function perMinute({ requestsPerSecond, ...limits }: NonNullable<ConfigFile['limits']>): ConfigLimits {
  return requestsPerSecond === undefined ? limits : { ...limits, requestsPerMinute: requestsPerSecond * 60 };
}

function byLevels(levels: NonNullable<ConfigFile['concurrency']>, given: readonly StageConfig[] = []): ConfigFile {
  const { batch_level: batch, stage_level: stage = {}, request_level: request } = levels;
  const stages = stagesOf(stage, batch?.questions_per_batch);
  const joined = given.length === 0 ? stages : given.map((own) => ({ ...stages.find(({ name }) => name === own.name), ...own }));
  return {
    ...(batch && {
      batches: {
        ...(batch.max_concurrent_batches !== undefined && { concurrency: batch.max_concurrent_batches }),
        ...(batch.scheduling !== undefined && { scheduling: batch.scheduling === 'round_robin' ? 'roundRobin' : batch.scheduling }),
      },
    }),
    ...(joined.length > 0 && { stages: joined }),
    ...(request && {
      limits: {
        ...(request.max_concurrent_requests !== undefined && { concurrency: request.max_concurrent_requests }),
        ...(request.rate_limit && { requestsPerSecond: request.rate_limit.requests_per_second }),
        ...(request.rate_limit?.burst_size !== undefined && { burst: request.rate_limit.burst_size }),
      },
    }),
  };
}

function stagesOf(
  stages: NonNullable<NonNullable<ConfigFile['concurrency']>['stage_level']>,
  questions: number | undefined,
): StageConfig[] {
  const all = Object.entries(stages);
  const first = all.findIndex(([, { batch_mode }]) => batch_mode === true);
  return all.map(([name, { concurrency, timeout, allow_partial_failure, batch_mode }], i) => ({
    name,
    ...(concurrency !== undefined && { concurrency, scope: 'perBatch' }),
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
    ...(allow_partial_failure !== undefined && { allowPartialFailure: allow_partial_failure }),
    ...(batch_mode === true && { answer: 'list' }),
    ...(questions !== undefined && i > first && { expect: { itemsPerDocument: questions } }),
  }));
}
