import {
  createAccount,
  chatCompletions,
  createModelCaller,
  createStages,
  explainThroughput,
  presets,
  type Throughput,
  type ThroughputPlan,
} from 'sluice';
import {
  type Config,
  type ConfigNotice,
  type ConfigProblem,
  type ConfiguredCaller,
  type ConfiguredEndpoint,
  type ConfiguredStages,
  type ConfiguredWork,
  chatCompletionsOptions,
  modelCallerOptions,
  type ParseConfigOptions,
  type ParsedConfig,
  type PlannedConfig,
  parseConfig,
  planOf,
  stagesOptions,
} from 'sluice/edge';

const env = { CALLS: '4', NOTHING: undefined };
const options: ParseConfigOptions = { env, format: 'yaml' };
const parsed: ParsedConfig = parseConfig('limits: {}', options);
export const problems: readonly ConfigProblem[] = 'problems' in parsed ? parsed.problems : [];
export const notices: readonly ConfigNotice[] = 'value' in parsed ? (parsed.notices ?? []) : [];
const config: Config = 'value' in parsed ? parsed.value : {};
const limits = config.limits ?? {};
const caller: ConfiguredCaller = modelCallerOptions(config.model);
const endpoint: ConfiguredEndpoint = chatCompletionsOptions(config.model);
const call = chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm', ...endpoint });
createModelCaller({ ...caller, call, limiter: createAccount(limits) });
createAccount(presets.paper.production.limits);

const stage = { name: 'ask', prompt: '{{text}}', expect: { itemsPerDocument: 20 } };
const file = { limits: { requestsPerSecond: 5, burst: 10 }, stages: [stage] };

const load = { documents: 100 };
const planned: PlannedConfig = planOf(config, load);
const stages = [{ name: 'ask', scope: 'perBatch', secondsPerCall: 2 }];
const account = { concurrency: 4, lanes: ['user'] };

const asking: ConfiguredWork<string> = async (paper: string, { attempt, document }) => [`${document} ${attempt}`];
const counting: ConfiguredWork<string> = { steps: (text: string, { request }) => request(() => text.length), cost: { tokens: 5 } };
const configured: ConfiguredStages<string> = stagesOptions<string>(config, { ask: asking, count: counting });
createStages(configured.stages, configured.options).run(['tea']).subscribe();
