import { type Observable, of } from 'rxjs';
import {
  assembleToolCalls,
  type CallRecord,
  type ChatChunk,
  type ChatCompletion,
  type ModelClient,
  type ChatMessage,
  type ChatRequest,
  chatCompletions,
  createModelCaller,
  type EndpointOptions,
  type FlowEvent,
  presets,
  type ModelCacheOptions,
  type ModelCallAllOptions,
  type FixAnswerOptions,
  type AnswerStorage,
  type ModelCaller,
  type ModelCallerOptions,
  type ModelCallerSnapshot,
  type ModelCallOptions,
  type ModelContext,
  type ModelStream,
  createEmbedder,
  embeddings,
  type EmbedCall,
  createTokenEstimator,
  type Embedder,
  type EmbedderOptions,
  type EmbedderSnapshot,
  type EmbedOptions,
  estimateTokens,
  ProviderError,
  type Settled,
  type TokenEstimatorOptions,
  createToolRunner,
  defineTool,
  fromChatToolCalls,
  type RunToolsOptions,
  type Tool,
  type ToolCall,
  type ToolContext,
  type ToolError,
  type ToolGuard,
  type ToolResult,
  type ToolRun,
  type ToolRunner,
  type ToolRunnerOptions,
  type ToolRunnerSnapshot,
  type ToolSchema,
  type ToolProtocol,
  toToolDefinitions,
  toToolResults,
} from 'sluice';
import {
  type CallRecord as Recorded,
  type LogFields,
  logFields,
  createMetrics,
  type Metrics,
  type MetricsOptions,
  type MetricsSnapshot,
} from 'sluice/metrics';
import { batch } from 'sluice/operators';
import { type Settled as OperatorSettled, batch as sameBatch } from 'sluice/operators';

const estimating: TokenEstimatorOptions = { model: 'small' };
const options: EmbedderOptions = {
  call: embeddings({ baseUrl: 'http://127.0.0.1/v1', model: 'small' }),
  maxTokens: 250_000,
  countTokens: createTokenEstimator(estimating),
};
const embedder: Embedder = createEmbedder(options);
const embedCall: EmbedCall = async (texts) => texts.map((text) => [text.length]);
const embedderRules = { maxSize: 8 };
const ownClient = { ...embedderRules, call: embedCall };
same<Embedder>()(createEmbedder(ownClient));
const load: EmbedOptions = { lane: 'interactive' };
same<Observable<Float32Array>>()(embedder.embed('text', load));
same<Observable<Settled<string, Float32Array>>>()(embedder.embedFrom(['one', 'two']));
const snapshot: EmbedderSnapshot = embedder.snapshot();
const totals = snapshot;
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
const runOptions: RunToolsOptions = { deadlineMs: 1000 };
const wanted = { id: 'a', function: { name: 'length', arguments: '"text"' } };
const toolCalls: ToolCall[] = fromChatToolCalls([wanted]);
same<Observable<ToolCall>>()(of({ choices: [] }).pipe(assembleToolCalls()));
const custom = ['shell'];
export const answers = (results: ToolResult[], protocol: ToolProtocol) => toToolResults(results, protocol);
export const inside = (context: ToolContext): Observable<ToolRun> => context.run([]);

// A caller of models and its metrics: every name of them.
const metricsOptions: MetricsOptions = { windowMs: 60_000 };
const metrics: Metrics = createMetrics(metricsOptions);
const hedge = { maxAttempts: 2, maxShare: 0.1 };
const callOptions: ModelCallOptions = { lane: 'user' };
const allOptions: ModelCallAllOptions<'propagate'> = { errors: 'propagate' };
const mode = 'collect';
const fixAnswer: FixAnswerOptions<string, string> = { rounds: 2, ask: (request, answer, fault) => `${request} ${answer} ${String(fault)}` };
same<Observable<FlowEvent>>()(metrics.events);
const endpoint: EndpointOptions = { baseUrl: 'http://127.0.0.1/v1', model: 'small' };
const client: ModelClient<ChatRequest, ChatCompletion, ChatChunk> = chatCompletions(endpoint);
const chat = createModelCaller({ ...presets.modelCaller.production, call: client });
const message: ChatMessage = { role: 'user', content: 'hello' };
export const streamed: ModelStream<string> = of('text');
export const chunks = chat.stream({ messages: [message] });
export const numbersOf = ({ flow, calls, observed, queued }: MetricsSnapshot, { executing }: ModelCallerSnapshot): number => {
  const flowing = flow;
  const called = calls;
  const failure = called.byCode['HTTP_429'];
  const latency = called.latencyMs;
  const limiter = observed['models'];
  const gauges = limiter;
  return flowing.calls + latency.p95 + (failure?.rate ?? 0) + (gauges?.heldByRate ?? 0) + queued + executing;
};
export const lastMinute = ({ window }: MetricsSnapshot): number => {
  const shown = window;
  const collected = shown;
  return (collected?.flow.perSecond.calls ?? 0) + (collected?.calls.perSecond.failures ?? 0);
};
