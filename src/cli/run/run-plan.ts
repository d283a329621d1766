import { createHash } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import { variable } from '../../edge/config/env.js';
import { withoutOperation } from '../../edge/config/patterns.js';
import type { Config, StageConfig } from '../../edge/config/schema.js';
import type { ModelPrice } from '../../pipelines/create-budget.js';
import { type Endpoint, endpointOf } from '../../pipelines/endpoint.js';
import { type ChatRequest, estimateChat } from '../../pipelines/models/chat-api.js';
import { CliError, EXIT } from '../exit.js';
import { type Host, pathOf } from '../host.js';
import { apiKeyFrom } from '../options.js';
import { type Shown, shownOf } from '../secrets.js';
import type { InputOptions } from './open-rows.js';
import { placeholdersOf } from './placeholders.js';
import { type RunPaths, runPaths, shownCache } from './run-files.js';
import { type RunProblem, runProblem } from './run-problem.js';

/** A stage that asks the `model` it names, or cuts a text. */
export type PlannedStage = StageConfig;

/** What is to be run, with nothing left out that a run needs. */
export interface RunPlan {
  readonly config: Config;
  readonly stages: readonly PlannedStage[];
  /** Each request names its own model. */
  readonly endpoint: Endpoint;
  readonly shown: Shown;
  readonly input: InputOptions;
  /** Absolute. */
  readonly paths: RunPaths;
  /** What the user calls the output. */
  readonly shownOutput: string;
  /** What the user calls the file of failures. */
  readonly shownFailures: string;
  /** Stands for all that is asked. */
  readonly work: string;
  /** Of each stage, what its answers are answers to: others are of no use. */
  readonly stageKeys: readonly StageKey[];
}

/** All that a run writes. */
export function pathsOf(paths: RunPaths): string[] {
  return Object.values({ ...paths } as Record<string, string>);
}

/** What calls of a model cost; undefined where nothing is said of it. */
export function priceOfModel({ prices = {} }: Config, model = ''): ModelPrice | undefined {
  return Object.hasOwn(prices, model) ? prices[model] : undefined;
}

/** What an output line has beside the stages. */
const TAKEN: ReadonlySet<string> = new Set(['id', 'row', 'item']);

/**
 * What no run takes of a configuration, whatever else it needs: a name that is taken, a limit in USD for a model without a price, and a limit for answers
 * of any length.
 *
 * @param maxUsd in place of `budget.usd`.
 */
export function refusalsOf(config: Config, maxUsd?: number): RunProblem[] {
  const { stages = [], model, budget } = config;
  const taken = stages.flatMap(({ name }, i) =>
    TAKEN.has(name) ? [runProblem(`stages[${String(i)}].name`, `\`${name}\` is a field of every output line`, 'Rename the stage.')] : [],
  );
  const [path, limit] = maxUsd === undefined ? ['budget.usd', budget?.usd] : ['--max-usd', maxUsd];
  if (limit === undefined) return budget?.tokens === undefined ? taken : [...taken, ...unboundedStages(config, 'budget.tokens')];
  const models = new Set(stages.flatMap((stage) => (stage.prompt === undefined ? [] : (stage.model ?? model?.model ?? []))));
  const unpriced = [...models].filter((name) => priceOfModel(config, name) === undefined);
  return [
    ...taken,
    ...unpriced.map((name) => {
      const message = `\`${path}\` needs the price of the model \`${name}\`. Add it to \`prices\` in the configuration.`;
      return runProblem(path, `no price of the model \`${name}\``, 'Add it to `prices`.', message);
    }),
    ...[...models].flatMap((name) => halfPriced(config, name, path)),
    ...(unpriced.length > 0 ? [] : unboundedStages(config, path)),
  ];
}

/** A price that leaves out a part of what a call costs, which would count as free. */
function halfPriced(config: Config, model: string, limit: string): RunProblem[] {
  const price = priceOfModel(config, model);
  if (price === undefined || price.usdPerCall !== undefined) return [];
  const missing = (['inputUsdPerMillion', 'outputUsdPerMillion'] as const).find((field) => price[field] === undefined);
  if (missing === undefined) return [];
  const repair = `Add it to \`prices\`; 0 if it costs nothing.`;
  const message = `\`${limit}\` needs \`${missing}\` of the model \`${model}\`. ${repair}`;
  return [runProblem(`prices.${model}.${missing}`, 'nothing', repair, message)];
}

/** Stages whose answers may have any length, so that no limit could be kept. */
function unboundedStages(config: Config, limit: string): RunProblem[] {
  const { stages = [], model } = config;
  return stages.flatMap((stage, i) => {
    const name = stage.model ?? model?.model;
    if (stage.prompt === undefined || name === undefined) return [];
    const { maxOutputTokens, outputUsdPerMillion = 0 } = priceOfModel(config, name) ?? {};
    if (maxOutputTokens !== undefined || (limit !== 'budget.tokens' && outputUsdPerMillion === 0)) return [];
    const body = { messages: [], max_tokens: stage.maxTokens ?? model?.maxTokens, ...model?.options };
    if (estimateChat(body as ChatRequest).outputTokens !== undefined) return [];
    const expected = `Add \`maxTokens\` to the stage \`${stage.name}\` or to \`model\`, or \`maxOutputTokens\` to the price of \`${name}\`.`;
    const message = `\`${limit}\` needs the longest answer of the stage \`${stage.name}\`. ${expected}`;
    return [runProblem(`stages[${String(i)}].maxTokens`, 'answers of any length', expected, message)];
  });
}

/** Names of variables that cannot be a key written in their place: words in capitals. */
const SHOWN_VARIABLE = /^[A-Z][A-Z0-9]{0,19}(_[A-Z0-9]{1,20})+$/;

/** What a configuration and the environment lack for a run. */
export function lacksOf({ model = {}, stages, input, output }: Config, env: Host['env']): RunProblem[] {
  const lacks: RunProblem[] = [];
  const needs = (path: string, hint = ''): void => {
    lacks.push(runProblem(path, 'nothing', 'Add it.', `a run needs \`${path}\`${hint}`));
  };
  if (stages === undefined) needs('stages');
  for (const [i, { prompt, chunk }] of (stages ?? []).entries())
    if (prompt === undefined && chunk === undefined) needs(`stages[${String(i)}].prompt`, ' or `chunk`');
  if (stages?.some((stage) => stage.prompt !== undefined && (stage.model ?? model.model) === undefined)) needs('model.model');
  if (input === undefined) needs('input.path');
  if (output === undefined) needs('output.path');
  const baseUrl = model.baseUrl ?? env['SLUICE_BASE_URL'];
  if (baseUrl === undefined) needs('model.baseUrl', ' (or SLUICE_BASE_URL)');
  else if (withoutOperation(baseUrl) !== undefined)
    lacks.push(
      runProblem(
        'model.baseUrl',
        'the path of a request',
        'End it before that.',
        'SLUICE_BASE_URL ends in the path of a request, which is added to it. End it before `/chat/completions` or `/embeddings`.',
      ),
    );
  const { apiKeyEnv } = model;
  if (apiKeyEnv !== undefined && variable(env, apiKeyEnv) === undefined)
    lacks.push(
      runProblem(
        'model.apiKeyEnv',
        'not set',
        'Set it.',
        SHOWN_VARIABLE.test(apiKeyEnv)
          ? `\`model.apiKeyEnv\`: the environment variable \`${apiKeyEnv}\` is not set. Set it.`
          : '`model.apiKeyEnv`: no environment variable has this name. Write the name of the variable that holds the key, not the key itself.',
      ),
    );
  return lacks;
}

/**
 * Fills in where files are: relative to the configuration.
 *
 * @param file path of the configuration.
 * @param own what else the command writes; never taken for input.
 * @param secrets what variables of the environment have put into it, and nobody may see.
 * @throws CliError, FlowConfigError (exit code 2) naming what is missing, or cannot be used.
 */
export function planRun(
  config: Config,
  file: string,
  host: Pick<Host, 'cwd' | 'env'>,
  own: readonly string[] = [],
  secrets: readonly string[] = [],
): RunPlan {
  const { env } = host;
  const [lack] = lacksOf(config, env);
  if (lack !== undefined) throw new CliError(EXIT.usage, lack.message);
  const { model = {}, input, output } = config as Config & Required<Pick<Config, 'input' | 'output'>>;
  const stages = (config.stages ?? []).map((stage): PlannedStage => {
    const name = stage.model ?? model.model;
    return stage.chunk !== undefined || name === undefined ? stage : { ...stage, model: name };
  });
  const baseUrl = model.baseUrl ?? env['SLUICE_BASE_URL'] ?? '';
  const apiKey = model.apiKeyEnv === undefined ? apiKeyFrom(env) : variable(env, model.apiKeyEnv);
  const sent = { baseUrl, ...(apiKey !== undefined && { apiKey }), ...(model.headers && { headers: model.headers }) };
  const folder = dirname(pathOf(host, file));
  const paths = runPaths(output, folder, shownCache(config));
  const exclude = new Set([...pathsOf(paths), ...[file, ...own].map((name) => pathOf(host, name))]);
  return {
    config,
    stages,
    endpoint: endpointOf('sluice run', '/chat/completions', { ...sent, model: 'default' }),
    shown: shownOf(sent, secrets),
    input: { path: resolve(folder, input.path), shown: input.path, format: input.format, id: input.id, exclude },
    paths,
    shownOutput: output.path,
    shownFailures: output.failures ?? `${output.path}.failures.jsonl`,
    ...workOf(config, stages),
  };
}

/** What an answer of a stage is an answer to. */
export interface StageKey {
  readonly name: string;
  /** Equal for what asks the same of the same: of the stage itself, and of the stages that its items are made of. */
  readonly key: string;
  /** Whether its answers are those of a model. */
  readonly asks: boolean;
}

/** Everything that makes an answer another one; not where the server is, nor how fast it may be asked. */
function workOf({ model }: Config, stages: readonly PlannedStage[]): Pick<RunPlan, 'work' | 'stageKeys'> {
  const asked = stages.map(({ name, prompt, chunk, answer, system, model: own, temperature, maxTokens, gleaning }) => {
    if (chunk !== undefined) return [name, chunk];
    const options = { temperature: temperature ?? model?.temperature, maxTokens: maxTokens ?? model?.maxTokens, ...model?.options };
    // `fixAnswer` may come later, as `accept` may: for what has failed.
    return [name, prompt, answer ?? 'text', system ?? model?.system ?? '', own, options, ...(gleaning ? [gleaning] : [])];
  });
  const stageKeys: StageKey[] = [];
  for (const [i, stage] of stages.entries()) {
    const inputs = inputsOf(stage, stages.slice(0, i));
    const key = digestOf([asked[i], stageKeys.flatMap(({ name, key }) => (inputs.has(name) ? [key] : []))]);
    stageKeys.push({ name: stage.name, key, asks: stage.prompt !== undefined });
  }
  return { work: digestOf(asked), stageKeys };
}

/** Stages before, whose answers a stage names, and those that make several items of one: what an item is depends on them. */
function inputsOf(stage: PlannedStage, earlier: readonly PlannedStage[]): ReadonlySet<string> {
  const named = new Set(placeholdersOf(stage).map(([first]) => first));
  return new Set(earlier.flatMap(({ name, chunk, answer }) => (named.has(name) || chunk !== undefined || answer === 'list' ? [name] : [])));
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
}
