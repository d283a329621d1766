import { check } from '../../../operators/build.js';
import { createAccount, FlowConfigError } from '../../../operators/index.js';
import type { AnyStage, BatchRules, StageRules, StagesOptions } from '../../pipelines/stages/stages-types.js';
import type { Config, StageConfig } from './schema.js';

const NAME = 'stagesOptions';

/**
 * What one stage of a configuration does: a function, which is its `work`, or an object with `work` or `steps` and whatever else a stage takes (`cost`,
 * `local`, …), which goes before the configuration.
 * @beta
 */
export type ConfiguredWork<Doc> = NonNullable<AnyStage<Doc>['work']> | Unnamed<AnyStage<Doc>>;

type Unnamed<S> = S extends unknown ? Omit<S, 'name'> : never;

/**
 * The two arguments of `createStages`.
 * @beta
 */
export interface ConfiguredStages<Doc> {
  readonly stages: readonly AnyStage<Doc>[];
  readonly options: StagesOptions<Doc>;
}

/**
 * What a configuration says to `createStages`, with code in place of prompts: `stages` with their order, `concurrency`, `scope`, times, `allowPartialFailure`
 * and retries, and `options` with `batches`, `lane`, `name` and a `limiter`, an account with the `limits`. A stage with `answer: list` or a `chunk` expands;
 * one with a `chunk` is local.
 *
 * Times and `retry` of `model` apply to stages that say none. `prompt`, `system` and the other texts of a stage, `budget` and `prices` are for the
 * calls that `work` makes: take them from the configuration. With a priority, a document is an object and its field a number; 0 where it is none.
 *
 * @beta
 * @param config - `value` of `parseConfig`
 * @param work - what each stage does, by its name
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when the configuration has no stages, a stage has no work, or there is work for no stage.
 * @example
 * ```ts
 * import { createStages } from 'sluice';
 * import { parseConfig, stagesOptions } from 'sluice/edge';
 *
 * const parsed = parseConfig('limits: { concurrency: 4 }\nstages: [{ name: ask, answer: list }, { name: reply, concurrency: 2 }]');
 * if ('problems' in parsed) throw new Error(parsed.problems[0]?.message);
 * const { stages, options } = stagesOptions<string>(parsed.value, {
 *   ask: async (paper: string) => [`what is ${paper}?`, `why ${paper}?`],
 *   reply: async (question: string) => question.length,
 * });
 * const seen: unknown[] = [];
 * await createStages(stages, options).run(['tea']).forEach((result) => {
 *   if (result.type === 'item' && result.status === 'fulfilled') seen.push(result.value);
 * });
 * seen; // => [12, 8]
 * ```
 */
export function stagesOptions<Doc = unknown>(config: Config, work: Readonly<Record<string, ConfiguredWork<Doc>>>): ConfiguredStages<Doc> {
  checkArguments(config, work);
  const { stages, limits, batches, lane, name, model } = Object(config) as Config;
  if (stages === undefined) throw new FlowConfigError(NAME, 'config.stages', 'a list of at least one stage', stages);
  check.onlyKnown(
    NAME,
    work,
    stages.map((stage) => stage.name),
    'work',
    'work.',
  );
  return {
    stages: stages.map((stage) => ({ ...rulesOf(stage, model), ...workOf(stage.name, work) }) as AnyStage<Doc>),
    options: {
      ...(limits && { limiter: createAccount(limits) }),
      ...(lane !== undefined && { lane }),
      ...(name !== undefined && { name }),
      ...(batches && { batches: batchRules<Doc>(batches, (document, field) => (Object(document) as Record<string, unknown>)[field]) }),
    },
  };
}

/** What is easily given in place of a configuration, or left out. */
function checkArguments(config: unknown, work: unknown): void {
  const refuse = (problem: string, repair: string): never => {
    throw check.misused(NAME, 'config', problem, repair);
  };
  if (typeof config === 'string')
    refuse(
      '`config` is a text',
      'Read the file, and pass `value` of what `parseConfig(text)` answers: `stagesOptions(parsed.value, work)`.',
    );
  if (Object.hasOwn(Object(config) as object, 'value')) refuse('`config` is the whole answer of `parseConfig`', 'Pass its `value`.');
  if (Object.hasOwn(Object(config) as object, 'problems'))
    refuse('`config` has problems', 'Correct what `problems` of the answer of `parseConfig` say, and pass its `value`.');
  if (work === undefined)
    throw check.misused(NAME, 'work', 'there is no `work`', 'Pass an object that has a function for each stage, by its name.');
}

function workOf<Doc>(name: string, all: Readonly<Record<string, ConfiguredWork<Doc>>>): object {
  const work = Object.hasOwn(all, name) ? all[name] : undefined;
  if (work === undefined) throw check.misused(NAME, `work.${name}`, `the stage \`${name}\` has no work`, `Add \`${name}\` to \`work\`.`);
  if (typeof work === 'function') return { work };
  if (typeof work !== 'object') check.requiredFunction(NAME, `work.${name}`, work);
  return work;
}

function rulesOf(stage: StageConfig, model: Config['model'] = {}): Partial<StageRules> {
  const { name, concurrency, scope, allowPartialFailure, answer, chunk } = stage;
  const isLocal = chunk !== undefined;
  const { timeoutMs = model.timeoutMs, deadlineMs = model.deadlineMs } = stage;
  return {
    name,
    expands: isLocal || answer === 'list',
    ...(concurrency !== undefined && { concurrency }),
    ...(scope !== undefined && { scope }),
    ...(allowPartialFailure !== undefined && { allowPartialFailure }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(isLocal && { local: true, retry: false }),
    ...(!isLocal && timeoutMs !== undefined && { timeoutMs }),
    ...(!isLocal && model.retry !== undefined && { retry: model.retry }),
  };
}

/** `batches` of a configuration as `createStages` takes them. @param fieldOf finds the priority in a document */
export function batchRules<Doc>(
  { concurrency, scheduling, priority, maxQueued }: NonNullable<Config['batches']>,
  fieldOf: (document: Doc, field: string) => unknown,
): BatchRules<Doc> {
  return {
    ...(concurrency !== undefined && { concurrency }),
    ...(scheduling !== undefined && { scheduling }),
    ...(priority !== undefined && { priority: (document) => Number(fieldOf(document, priority)) || 0 }),
    ...(maxQueued !== undefined && { maxQueued }),
  };
}
