import {
  createAccount,
  chatCompletions,
  createModelCaller,
  explainThroughput,
  presets,
  type RequestLimits,
  type StageLoad,
  type Throughput,
  type ThroughputLevel,
  type ThroughputPlan,
  type ThroughputRaise,
} from 'sluice';
import {
  type Config,
  type ConfigFile,
  type ConfigLimits,
  type ConfigProblem,
  type ConfiguredCaller,
  type ConfiguredEndpoint,
  chatCompletionsOptions,
  configJsonSchema,
  configSchema,
  type Env,
  limitsSchema,
  modelCallerOptions,
  type ParseConfigOptions,
  type ParsedConfig,
  type PlannedConfig,
  parseConfig,
  planOf,
  type StageConfig,
  type StatedLoad,
  stagesSchema,
} from 'sluice/edge';

const env: Env = { CALLS: '4', NOTHING: undefined };
const options: ParseConfigOptions = { env, format: 'yaml' };
const parsed: ParsedConfig = parseConfig('limits: {}', options);
export const problems: readonly ConfigProblem[] = 'problems' in parsed ? parsed.problems : [];
const config: Config = 'value' in parsed ? parsed.value : {};
const limits: ConfigLimits = config.limits ?? {};
const caller: ConfiguredCaller = modelCallerOptions(config.model);
const endpoint: ConfiguredEndpoint = chatCompletionsOptions(config.model);
const call = chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm', ...endpoint });
createModelCaller({ ...caller, call, limiter: createAccount(limits) });
createAccount(presets.paper.production.limits);

const stage: StageConfig = { name: 'ask', prompt: '{{text}}', expect: { itemsPerDocument: 20 } };
const file: ConfigFile = { limits: { requestsPerSecond: 5, burst: 10 }, stages: [stage] };
export const schemas = [configSchema.safeParse(file).success, limitsSchema, stagesSchema, configJsonSchema()['title']];

const load: StatedLoad = { documents: 100 };
const planned: PlannedConfig = planOf(config, load);
const stages: readonly StageLoad[] = [{ name: 'ask', scope: 'perBatch', secondsPerCall: 2 }];
const account: RequestLimits = { concurrency: 4, lanes: ['user'] };
const plan: ThroughputPlan = { ...planned.plan, stages, limits: account };
const explained: Throughput = explainThroughput(plan);
const { bottleneck, raise }: { readonly bottleneck: ThroughputLevel; readonly raise?: ThroughputRaise } = explained;
export const advice: string = raise ? `${raise.setting}: ${raise.to}` : bottleneck.setting;
