import { createHash } from 'node:crypto';
import { dirname, resolve } from 'node:path';
import { variable } from '../../edge/config/env.js';
import type { ConfigProblem } from '../../edge/config/problems.js';
import type { Config, StageConfig } from '../../edge/config/schema.js';
import type { ModelPrice } from '../../pipelines/create-budget.js';
import { type Endpoint, endpointOf } from '../../pipelines/endpoint.js';
import { type ChatRequest, estimateChat } from '../../pipelines/models/chat-api.js';
import { CliError, EXIT } from '../exit.js';
import { type Host, pathOf } from '../host.js';
import { apiKeyFrom } from '../options.js';
import { type Shown, shownOf } from '../secrets.js';
import type { InputOptions } from './open-rows.js';
import { type RunPaths, runPaths, shownCache } from './run-files.js';

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
  /** Stands for what is asked: answers to other questions are of no use. */
  readonly work: string;
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
export function refusalOf(config: Config, maxUsd?: number): Omit<ConfigProblem, 'line' | 'column'> | undefined {
  const { stages = [], model, budget } = config;
  for (const [i, { name }] of stages.entries()) {
    const path = `stages[${String(i)}].name`;
    const message = `\`${path}\`: \`${name}\` is a field of every output line. Rename the stage.`;
    if (TAKEN.has(name)) return { path, expected: 'Rename the stage.', got: `\`${name}\` is a field of every output line`, message };
  }
  const [path, limit] = maxUsd === undefined ? ['budget.usd', budget?.usd] : ['--max-usd', maxUsd];
  const models = stages.flatMap((stage) => (stage.prompt === undefined ? [] : [stage.model ?? model?.model]));
  const unpriced = models.find((name) => name !== undefined && priceOfModel(config, name) === undefined);
  if (limit !== undefined && unpriced !== undefined) {
    const message = `\`${path}\` needs the price of the model \`${unpriced}\`. Add it to \`prices\` in the configuration.`;
    return { path, expected: 'Add it to `prices`.', got: `no price of the model \`${unpriced}\``, message };
  }
  return limit === undefined && budget?.tokens === undefined
    ? undefined
    : unboundedStage(config, limit === undefined ? 'budget.tokens' : path);
}

/** The first stage whose answers may have any length, so that no limit could be kept. */
function unboundedStage(config: Config, limit: string): Omit<ConfigProblem, 'line' | 'column'> | undefined {
  const { stages = [], model } = config;
  for (const [i, stage] of stages.entries()) {
    const name = stage.model ?? model?.model;
    if (stage.prompt === undefined || name === undefined) continue;
    const { maxOutputTokens, outputUsdPerMillion = 0 } = priceOfModel(config, name) ?? {};
    if (maxOutputTokens !== undefined || (limit !== 'budget.tokens' && outputUsdPerMillion === 0)) continue;
    const body = { messages: [], max_tokens: stage.maxTokens ?? model?.maxTokens, ...model?.options };
    if (estimateChat(body as ChatRequest).outputTokens !== undefined) continue;
    const path = `stages[${String(i)}].maxTokens`;
    const expected = `Add \`maxTokens\` to the stage \`${stage.name}\` or to \`model\`, or \`maxOutputTokens\` to the price of \`${name}\`.`;
    const message = `\`${limit}\` needs the longest answer of the stage \`${stage.name}\`. ${expected}`;
    return { path, expected, got: 'answers of any length', message };
  }
  return undefined;
}

/**
 * Looks whether a configuration has all that a run needs, and fills in where files are: relative to the configuration.
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
  const { model = {}, input, output } = config;
  const missing = (path: string, hint = ''): CliError => new CliError(EXIT.usage, `\`${file}\`: a run needs \`${path}\`${hint}`);
  if (config.stages === undefined) throw missing('stages');
  if (input === undefined) throw missing('input.path');
  if (output === undefined) throw missing('output.path');
  const stages = config.stages.map((stage, i): PlannedStage => {
    const at = `stages.${String(i)}`;
    if (stage.chunk !== undefined) return stage;
    const name = stage.model ?? model.model;
    if (stage.prompt === undefined) throw missing(`${at}.prompt`, ' or `chunk`');
    if (name === undefined) throw missing('model.model');
    return { ...stage, model: name };
  });
  const baseUrl = model.baseUrl ?? env['SLUICE_BASE_URL'];
  if (baseUrl === undefined) throw missing('model.baseUrl', ' (or SLUICE_BASE_URL)');
  const apiKey = model.apiKeyEnv === undefined ? apiKeyFrom(env) : variable(env, model.apiKeyEnv);
  if (model.apiKeyEnv !== undefined && apiKey === undefined)
    throw new CliError(EXIT.usage, `\`${file}\`: \`model.apiKeyEnv\` names ${model.apiKeyEnv}, which is not set`);
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
    work: workOf(config, stages),
  };
}

/** Everything that makes an answer another one; not where the server is, nor how fast it may be asked. */
function workOf({ model }: Config, stages: readonly PlannedStage[]): string {
  const asked = stages.map(({ name, prompt, chunk, answer, system, model: own, temperature, maxTokens, gleaning }) => {
    if (chunk !== undefined) return [name, chunk];
    const options = { temperature: temperature ?? model?.temperature, maxTokens: maxTokens ?? model?.maxTokens, ...model?.options };
    // `fixAnswer` may come later, as `accept` may: for what has failed.
    return [name, prompt, answer ?? 'text', system ?? model?.system ?? '', own, options, ...(gleaning ? [gleaning] : [])];
  });
  return createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 16);
}
