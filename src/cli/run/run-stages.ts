import { defer, NEVER, type Observable, switchMap, tap } from 'rxjs';
import { isFlowError } from '../../../operators/errors.js';
import { isAmount, retryRule } from '../../../operators/toolkit.js';
import type { ResponseLike, Usage } from '../../../operators/types.js';
import { type CallFacts, Entry, endOf } from '../../account/entry.js';
import type { Ledger } from '../../account/ledger.js';
import { providerAt, providers } from '../../account/providers.js';
import { readUsage } from '../../account/read-usage.js';
import type { CallRecord } from '../../metrics/call-record.js';
import type { BudgetPort } from '../../pipelines/budget/budget-types.js';
import type { ModelCaller } from '../../pipelines/create-model-caller.js';
import { createModelCaller } from '../../pipelines/create-model-caller.js';
import { type ChatCompletion, type ChatRequest, estimateChat, requestChat } from '../../pipelines/models/chat-api.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import type { AnyStage, RequestContext, StageItem, StageRules } from '../../pipelines/stages/stages-types.js';
import { estimatorFor } from '../../tokenizers/estimate.js';
import { chunkText } from '../chunks.js';
import { evidence } from '../provider.js';
import { type AnswerKind, readAnswer, textOf } from './answer.js';
import type { Row } from './row.js';
import type { PlannedStage, RunPlan } from './run-plan.js';

/** A row on its way. */
export interface RunDocument extends Row {
  readonly documentId: string;
  /** In an earlier run, and is taken up again. */
  readonly hasFailed: boolean;
  readonly startedAtMs: number;
}

/** What a stage asks of the run it belongs to. */
export interface StageHost {
  /** Whether nothing new may be sent. */
  readonly isStopping: boolean;
  /** Emits once, when another request may go out: no more may be paid twice after a crash than may be under way. */
  room(): Observable<unknown>;
  /** A request goes out. */
  sent(item: StageItem<RunDocument>): void;
  /** It has failed, and may be tried again. */
  failed(item: StageItem<RunDocument>): void;
  /** It will not be tried again. @returns whether the run stops because of that, and the item is to wait for its end */
  gaveUp(item: StageItem<RunDocument>, model: string, error: unknown): boolean;
  /** An item has become several. */
  expanded(items: number): void;
}

export interface CallOptions {
  /** Of the account that grants the permits. */
  readonly ledger: Ledger;
  readonly budget: BudgetPort | undefined;
  readonly onRecord: (record: CallRecord) => void;
  /** An answer that does not say what it took. */
  readonly onEstimate: () => void;
}

/** A request, and the permit it goes with. */
interface PermittedRequest {
  readonly body: ChatRequest;
  readonly permit: RequestContext;
  readonly facts: CallFacts;
}

export type RunCaller = ModelCaller<PermittedRequest, ChatCompletion, never>;

/** Makes the calls: one attempt each, under the permit that a stage has taken. */
export function openCaller({ endpoint }: RunPlan, { ledger, budget, onRecord, onEstimate }: CallOptions): RunCaller {
  return createModelCaller<PermittedRequest, ChatCompletion>({
    call: async ({ body, permit, facts }, context) => {
      const { signal, traceId, spanId } = context;
      const { attempt } = permit;
      const entry = new Entry(ledger, facts, { traceId, spanId, attempt, queuedMs: 0 }, permit.settle, () => Date.now());
      const observe = (response: ResponseLike): void => {
        entry.observe(response);
        permit.observe(response);
      };
      try {
        const completion = await requestChat(endpoint, body, { signal, observe });
        const counted = countedIn(completion);
        if (counted === undefined) onEstimate();
        const usage = counted ?? estimateOf(body, completion, endpoint.model);
        context.settle(usage);
        entry.report(usage);
        entry.answered();
        return completion;
      } catch (error) {
        if (signal.aborted) entry.left();
        else entry.failed(error, endOf(error, 'transient'));
        throw error;
      }
    },
    model: ({ body }) => body.model ?? 'default',
    estimateTokens: ({ body }) => estimateChat(body, endpoint.model),
    retry: false,
    concurrency: Infinity,
    maxQueued: Infinity,
    timeoutMs: Infinity,
    onRecord,
    ...(budget && { budget }),
  });
}

/** No call takes so many tokens: what says so cannot count. */
const MOST_TOKENS = 1_000_000_000;

/** What the provider says that a call took; undefined when that is not all. */
function countedIn(completion: ChatCompletion): Usage | undefined {
  const usage = readUsage(completion);
  return isCount(usage?.inputTokens) && isCount(usage.outputTokens) ? usage : undefined;
}

function isCount(tokens: unknown): tokens is number {
  return isAmount(tokens) && tokens < MOST_TOKENS;
}

/** What it took by the length of its texts. */
function estimateOf(
  body: ChatRequest,
  completion: ChatCompletion,
  model: string | undefined,
): Required<Pick<Usage, 'inputTokens' | 'outputTokens'>> {
  return {
    inputTokens: estimateChat(body, model).inputTokens,
    outputTokens: estimatorFor(body.model ?? model)(contentOf(completion) ?? ''),
  };
}

/** The stages of a plan, as `createStages` takes them. */
export function stagesOf(
  { stages, config, endpoint }: RunPlan,
  caller: RunCaller,
  ledger: Ledger,
  host: StageHost,
): AnyStage<RunDocument>[] {
  const provider = ledger.provider ?? providerAt(endpoint.url) ?? providers.other;
  const factsOf = (stage: string, body: ChatRequest): CallFacts => {
    const { model = endpoint.model } = body;
    const { inputTokens, outputTokens: maxOutputTokens } = estimateChat(body, model);
    const tokens = { inputTokens, maxOutputTokens };
    const estimate = () => ledger.estimate(provider, model, tokens);
    return { name: stage, model, lane: '', key: undefined, provider, tokens, charged: estimate(), estimate };
  };
  return stages.map((stage) =>
    stage.chunk === undefined ? asking(stage, config.model ?? {}, caller, factsOf, host) : chunking(stage, stage.chunk, host),
  );
}

/** What any stage may say. */
function rulesOf({ name, concurrency, scope, deadlineMs, allowPartialFailure }: PlannedStage): StageRules<unknown> {
  return {
    name,
    ...(concurrency !== undefined && { concurrency }),
    ...(scope !== undefined && { scope }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(allowPartialFailure !== undefined && { allowPartialFailure }),
  };
}

/** What the placeholders of a prompt may name: fields of the row, and what came of earlier stages. */
export function scopeOf(fields: Readonly<Record<string, unknown>>, earlier: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { ...fields, ...earlier };
}

/** The parts of a text. */
export function partsOf(field: string, maxTokens: number | undefined, scope: Readonly<Record<string, unknown>>): string[] {
  const text = new PromptTemplate(`{{${field}}}`).fill(scope);
  return [...chunkText(text, maxTokens === undefined ? {} : { maxTokens })];
}

/** The request that a stage makes of a prompt. */
export function requestOf(stage: PlannedStage, model: RunPlan['config']['model'] = {}, prompt: string): ChatRequest {
  const system = stage.system ?? model.system;
  const temperature = stage.temperature ?? model.temperature;
  const maxTokens = stage.maxTokens ?? model.maxTokens;
  const messages = [...(system === undefined ? [] : [{ role: 'system', content: system }]), { role: 'user', content: prompt }];
  return {
    ...(stage.model !== undefined && { model: stage.model }),
    messages,
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    ...model.options,
  };
}

function chunking(
  stage: PlannedStage,
  chunk: { readonly field: string; readonly maxTokens?: number },
  host: StageHost,
): AnyStage<RunDocument> {
  return {
    ...rulesOf(stage),
    local: true,
    expands: true,
    retry: false,
    work: (_item: unknown, { document, earlier }) => {
      const parts = partsOf(chunk.field, chunk.maxTokens, scopeOf(document.fields, earlier));
      host.expanded(parts.length);
      return parts;
    },
  };
}

function asking(
  stage: PlannedStage,
  model: NonNullable<RunPlan['config']['model']>,
  caller: RunCaller,
  factsOf: (stage: string, body: ChatRequest) => CallFacts,
  host: StageHost,
): AnyStage<RunDocument> {
  const { answer = 'text', accept = model.accept } = stage;
  const template = new PromptTemplate(stage.prompt ?? '');
  const timeoutMs = stage.timeoutMs ?? model.timeoutMs;
  const retry = retryRule('sluice run', model.retry, Infinity);
  return {
    ...(model.deadlineMs !== undefined && { deadlineMs: model.deadlineMs }),
    ...rulesOf(stage),
    expands: answer === 'list',
    ...(timeoutMs !== undefined && { timeoutMs }),
    retry: retry ?? false,
    steps: async (_item: unknown, context) => {
      const body = requestOf(stage, model, template.fill(scopeOf(context.document.fields, context.earlier)));
      const facts = factsOf(stage.name, body);
      let completion: ChatCompletion;
      const request = (permit: RequestContext): Observable<ChatCompletion> => send(caller, { body, permit, facts }, context, host);
      try {
        completion = await context.requestAsync(request, { requests: 1, ...facts.charged });
      } catch (error) {
        const refused = isFlowError(error, 'FLOW_RETRY_SHARE') ? error : undefined;
        if (host.gaveUp(context, body.model ?? '', refused ? refused.cause : error)) return new Promise<never>(() => undefined);
        if (refused === undefined) throw error;
        throw new Error(`not tried again, for \`model.retry.maxShare\` had no room: ${evidence(refused.cause).message}`, { cause: error });
      }
      const value = readAnswer(answer, textOf(completion, accept));
      if (Array.isArray(value) && answer === ('list' satisfies AnswerKind)) host.expanded(value.length);
      return value;
    },
  };
}

function send(caller: RunCaller, request: PermittedRequest, item: StageItem<RunDocument>, host: StageHost): Observable<ChatCompletion> {
  const { permit } = request;
  const call = defer(() => {
    // What is not sent waits for the end of the run, so that nothing of its document is given up.
    if (host.isStopping) return NEVER;
    host.sent(item);
    return caller.call(request, { name: item.stage, signal: permit.signal });
  });
  return host.room().pipe(
    switchMap(() => call),
    tap({
      error: () => {
        host.failed(item);
      },
    }),
  );
}

function contentOf({ choices }: ChatCompletion): string | undefined {
  const content: unknown = (choices as ChatCompletion['choices'] | undefined)?.[0]?.message.content;
  return typeof content === 'string' ? content : undefined;
}
