import type { Config, ConfigFile, ConfigLimits, StageConfig } from './schema.js';

/** What the file says, in one way: rates per minute, `concurrency` by level as `batches`, `stages` and `limits`, and lengths of lists as expected items. */
export function normalised({ $schema: _, concurrency, ...file }: ConfigFile): Config {
  const { limits, stages, ...rest } = concurrency === undefined ? file : { ...file, ...byLevels(concurrency, file.stages) };
  return { ...rest, ...(stages && { stages: withLengths(stages) }), ...(limits && { limits: perMinute(limits) }) };
}

function perMinute({ requestsPerSecond, ...limits }: NonNullable<ConfigFile['limits']>): ConfigLimits {
  return requestsPerSecond === undefined ? limits : { ...limits, requestsPerMinute: requestsPerSecond * 60 };
}

/** Puts `listLength` into its prompt, and into what later stages expect unless they say it themselves. */
function withLengths(stages: readonly StageConfig[]): StageConfig[] {
  /** Items of a document in the stage; undefined where a list before it has no stated length. */
  let items: number | undefined = 1;
  let isStated = false;
  return stages.map((given) => {
    const { prompt, expect, listLength } = given;
    const own: number | undefined = expect?.itemsPerDocument ?? items;
    const isExpected = isStated && own !== undefined && expect?.itemsPerDocument === undefined;
    const stage: StageConfig = {
      ...given,
      ...(prompt !== undefined && listLength !== undefined && { prompt: filled(prompt, 'listLength', listLength) }),
      ...(isExpected && { expect: { ...expect, itemsPerDocument: own } }),
    };
    isStated ||= listLength !== undefined;
    const isList = given.answer === 'list' || given.chunk !== undefined;
    if (!isList) items = own;
    else items = own === undefined || listLength === undefined ? undefined : own * listLength;
    return stage;
  });
}

function byLevels(levels: NonNullable<ConfigFile['concurrency']>, given: readonly StageConfig[] = []): ConfigFile {
  const { batch_level: batch, stage_level: stage = {}, request_level: request } = levels;
  const byName = stagesOf(stage);
  const joined = given.length === 0 ? byName : given.map((own) => ({ ...byName.find(({ name }) => name === own.name), ...own }));
  const stages = withQuestions(joined, batch?.questions_per_batch);
  return {
    ...(batch && {
      batches: {
        ...(batch.max_concurrent_batches !== undefined && { concurrency: batch.max_concurrent_batches }),
        ...(batch.scheduling !== undefined && { scheduling: batch.scheduling === 'round_robin' ? 'roundRobin' : batch.scheduling }),
        ...(batch.priority !== undefined && { priority: batch.priority }),
      },
    }),
    ...(stages.length > 0 && { stages }),
    ...(request && {
      limits: {
        ...(request.max_concurrent_requests !== undefined && { concurrency: request.max_concurrent_requests }),
        ...(request.rate_limit && { requestsPerSecond: request.rate_limit.requests_per_second }),
        ...(request.rate_limit?.burst_size !== undefined && { burst: request.rate_limit.burst_size }),
      },
    }),
  };
}

function stagesOf(stages: NonNullable<NonNullable<ConfigFile['concurrency']>['stage_level']>): StageConfig[] {
  return Object.entries(stages).map(([name, { concurrency, timeout, allow_partial_failure, batch_mode }]) => ({
    name,
    ...(concurrency !== undefined && { concurrency, scope: 'perBatch' }),
    ...(timeout !== undefined && { timeoutMs: timeout * 1000 }),
    ...(allow_partial_failure !== undefined && { allowPartialFailure: allow_partial_failure }),
    ...(batch_mode === true && { answer: 'list' }),
  }));
}

/** The stage that makes a list makes so many items; where none does, documents come with so many. */
function withQuestions(stages: readonly StageConfig[], questions: number | undefined): StageConfig[] {
  if (questions === undefined) return [...stages];
  const makes = stages.findIndex(({ answer }) => answer === 'list');
  return stages.map((stage, i) => ({
    ...(i === makes && { listLength: questions }),
    ...stage,
    ...(stage.prompt !== undefined && { prompt: filled(stage.prompt, 'questions_per_batch', questions) }),
    ...(makes === -1 && { expect: { itemsPerDocument: questions, ...stage.expect } }),
  }));
}

function filled(prompt: string, placeholder: string, value: number): string {
  return prompt.replaceAll(/\{\{([^{}]*)\}\}/g, (all, name: string) => (name.trim() === placeholder ? String(value) : all));
}
