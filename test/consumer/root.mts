import { type Observable, of } from 'rxjs';
import { type AssembleToolCallsOptions, assembleToolCalls, type CallRecord, type ChatChunk, type ChatCompletion, type ChatMessage, type ChatRequest, type ChatUsage, chatCompletions, createModelCaller, type EndpointOptions, type FlowEvent, presets, type Collected, type ModelCacheOptions, type ModelCallAllOptions, type ModelCallMode, type ModelEntry, type FixAnswerOptions, type AnswerStorage, type ModelCaller, type ModelCallerOptions, type ModelCallerRules, type ModelCallerSnapshot, type ModelCallOptions, type ModelClient, type ModelContext, type ModelHedgeOptions, type ModelStream, type ClientEmbedderOptions, createEmbedder, type EmbedCall, createTokenEstimator, type Embedder, type EmbedderOptions, type EmbedderRules, type EmbedderSnapshot, type EmbedOptions, estimateTokens, ProviderError, type Settled, type TokenEstimatorOptions, createToolRunner, defineTool, fromChatToolCalls, type GuardContext, type GuardedCall, type ChatToolCall, type ToolDefinitions, type ToolJsonSchema, type ToToolDefinitionsOptions, type RunToolsOptions, type SchemaAnswer, type Tool, type ToolCall, type ToolContext, type ToolError, type ToolErrorCode, type ToolFailure, type ToolGuard, type ToolIssue, type ToolLoad, type ToolOutput, type ToolResult, type ToolRun, type ToolRunner, type ToolRunnerOptions, type ToolRunnerSnapshot, type ToolSchema, type ToolSuccess, type ToolSummary, type ToolProtocol, type ToolResultMessages, type ToToolResultsOptions, toToolDefinitions, toToolResults } from 'sluice';
import { type AttemptMetrics, type CallMetrics, type CallRecord as Recorded, logLine, type CallRecordJson, type CallStatus, callRecordToJson, type CallWindow, type CollectedMetrics, type FlowWindow, type LogFields, logFields, type MetricsWindow, createMetrics, type Distribution, type FailureCount, type FlowMetrics, type Gauges, type LimiterGauges, type Metrics, type MetricsOptions, type MetricsSnapshot, type Observed, type FlowTotals } from 'sluice/metrics';
import { batch } from 'sluice/operators';
import { type Settled as OperatorSettled, batch as sameBatch } from 'sluice/operators';

const margin: TokenEstimatorOptions = { safetyMargin: 1.2 };
const options: EmbedderOptions = {
  baseUrl: 'http://127.0.0.1/v1',
  model: 'small',
  maxTokens: 250_000,
  countTokens: createTokenEstimator(margin),
};
const embedder: Embedder = createEmbedder(options);
const embedCall: EmbedCall = async (texts) => texts.map((text) => [text.length]);
const embedderRules: EmbedderRules = { maxSize: 8 };
const ownClient: ClientEmbedderOptions = { ...embedderRules, call: embedCall };
same<Embedder>()(createEmbedder(ownClient));
const load: EmbedOptions = { lane: 'interactive' };
same<Observable<Float32Array>>()(embedder.embed('text', load));
same<Observable<Settled<string, Float32Array>>>()(embedder.embedFrom(['one', 'two']));
const snapshot: EmbedderSnapshot = embedder.snapshot();
const totals: FlowTotals = snapshot;
same<number>()(totals.calls + snapshot.queued + estimateTokens('text'));

const error: Error = new ProviderError(429, new Headers(), 'slow down', 'rate_limit', undefined, undefined);
export const status: number | undefined = error instanceof ProviderError ? error.status : undefined;

// The root entry and `sluice/operators` hand out the same operators and types.
same<typeof sameBatch>()(batch);
same<Observable<number[]>>()(of(1).pipe(batch({ maxSize: 2 })));
export const settled: OperatorSettled<string, number> | undefined = undefined as Settled<string, number> | undefined;

// A runner of tools: every name of it, as a user imports them.
const tool = defineTool({
  name: 'length',
  description: 'Length of a text.',
  parameters: { safeParse: (input: unknown) => ({ success: true, data: String(input) }) as const },
  execute: (text) => text.length,
});
same<Tool<string, number>>()(tool);
const guard: ToolGuard = (call: GuardedCall, context: GuardContext): ToolOutput<boolean | string> => call.id !== '' && context.attempt < 3;
const runnerOptions: ToolRunnerOptions = { tools: [tool], guard, timeoutMs: 30_000 };
const runner: ToolRunner = createToolRunner(runnerOptions);
const runOptions: RunToolsOptions = { deadlineMs: 1000 };
const wanted: ChatToolCall = { id: 'a', function: { name: 'length', arguments: '"text"' } };
const toolCalls: ToolCall[] = fromChatToolCalls([wanted]);
same<Observable<ToolResult>>()(runner.run(toolCalls, runOptions));
same<Promise<ToolRun>>()(runner.runAllAsync(toolCalls));
const toolLoad: ToolLoad = (runner.snapshot() satisfies ToolRunnerSnapshot).tools['length'] ?? { queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
export const told = (result: ToolSuccess | ToolFailure, run: ToolRun): unknown[] => {
  const summary: ToolSummary = run.summary;
  const error: ToolError | undefined = result.is_error ? result.error : undefined;
  const code: ToolErrorCode | undefined = error?.code;
  const issue: ToolIssue | undefined = error?.issues?.[0];
  return [summary.total, code, issue?.path, toolLoad.queued];
};
const assembling: AssembleToolCallsOptions = { maxArgumentChars: 1000 };
same<Observable<ToolCall>>()(of({ choices: [] }).pipe(assembleToolCalls(assembling)));
const custom: ToToolResultsOptions = { customTools: ['shell'] };
same<ToolResultMessages['responses'][]>()(toToolResults([], 'responses', custom));
const defining: ToToolDefinitionsOptions = { schemaOf: ({ name }) => ({ type: 'object', title: name }) satisfies ToolJsonSchema };
same<ToolDefinitions['chat'][]>()(toToolDefinitions(runner.tools, 'chat', defining));
export const answers = (results: ToolResult[], protocol: ToolProtocol) => toToolResults(results, protocol);
export const schema: ToolSchema<string> = { '~standard': { validate: (input: unknown): SchemaAnswer<string> => ({ value: String(input) }) } };
export const inside = (context: ToolContext): Observable<ToolRun> => context.run([]);

// A caller of models and its metrics: every name of them.
const metricsOptions: MetricsOptions = { windowMs: 60_000 };
const metrics: Metrics = createMetrics(metricsOptions);
const hedge: ModelHedgeOptions = { maxHedges: 1, maxShare: 0.1 };
const rules: ModelCallerRules<string, string, never, number> = { hedge, parse: (text) => text.length, onRecord: metrics.record };
const callerOptions: ModelCallerOptions<string, string, never, number> = {
  ...rules,
  call: (text: string, { signal }: ModelContext) => Promise.resolve(signal.aborted ? '' : text),
};
const models: ModelCaller<string, number, never> = createModelCaller(callerOptions);
const callOptions: ModelCallOptions = { lane: 'user' };
const allOptions: ModelCallAllOptions<'all'> = { mode: 'all' };
same<Observable<number>>()(models.call('text', callOptions));
same<Observable<Record<'one' | 'two', number>>>()(models.callAll({ one: 'a', two: 'b' }, allOptions));
const mode: ModelCallMode = 'collect';
same<Observable<Collected<'one' | 'two', number>>>()(models.callAll({ one: 'a', two: 'b' }, { mode, key: 'tenant' }));
const fixAnswer: FixAnswerOptions<string, string> = { rounds: 2, ask: (request, answer, fault) => `${request} ${answer} ${String(fault)}` };
const store: AnswerStorage<number> = new Map<string, ModelEntry<number>>();
const cache: ModelCacheOptions<string, number> = { key: (text) => text, ttlMs: 60_000, storage: store, timeoutMs: 100 };
createModelCaller({ ...callerOptions, fixAnswer, cache }).forget('text');
const watched: Observed = models;
same<Observable<FlowEvent>>()(metrics.events);
metrics.observe('models', watched)();
const endpoint: EndpointOptions = { baseUrl: 'http://127.0.0.1/v1', model: 'small' };
const client: ModelClient<ChatRequest, ChatCompletion, ChatChunk> = chatCompletions(endpoint);
const chat: ModelCaller<ChatRequest, ChatCompletion, ChatChunk> = createModelCaller({ ...presets.modelCaller.production, call: client });
const message: ChatMessage = { role: 'user', content: 'hello' };
export const usage = (answer: ChatCompletion): ChatUsage | null | undefined => answer.usage;
export const streamed: ModelStream<string> = of('text');
export const chunks: Observable<ChatChunk> = chat.stream({ messages: [message] });
export const numbersOf = ({ flow, calls, observed, queued }: MetricsSnapshot, { executing }: ModelCallerSnapshot): number => {
  const flowing: FlowMetrics = flow;
  const called: CallMetrics & AttemptMetrics = calls;
  const failure: FailureCount | undefined = called.byCode['HTTP_429'];
  const latency: Distribution = called.latencyMs;
  const limiter: LimiterGauges | undefined = observed['models'];
  const gauges: Gauges | undefined = limiter;
  return flowing.calls + latency.p95 + (failure?.rate ?? 0) + (gauges?.heldByRate ?? 0) + queued + executing;
};
export const lastMinute = ({ window }: MetricsSnapshot): number => {
  const shown: MetricsWindow | undefined = window;
  const collected: CollectedMetrics<FlowWindow, CallWindow> | undefined = shown;
  return (collected?.flow.perSecond.calls ?? 0) + (collected?.calls.perSecond.failures ?? 0);
};
export const logged = (event: FlowEvent, record: CallRecord): readonly [LogFields, string] => [logFields(event), logLine(record)];
export const line = (record: Recorded): CallRecordJson & { readonly status: CallStatus } => callRecordToJson(record);
