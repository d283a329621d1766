import { finalize, NEVER, noop, type Observable, switchMap } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { ResponseLike, Usage, WorkResult } from '../../../operators/index.js';
import { classifyError, isFlowError } from '../../../operators/index.js';
import { type CallFacts, Entry, endOf } from '../../account/entry.js';
import type { Ledger } from '../../account/ledger.js';
import { type ProviderRules, providerAt, providers } from '../../account/providers.js';
import { readUsage } from '../../account/read-usage.js';
import { withReservation } from '../../pipelines/budget/reserving.js';
import type { Endpoint } from '../../pipelines/endpoint.js';
import { type ChatCompletion, type ChatRequest, estimateChat, requestChat } from '../../pipelines/models/chat-api.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import type { AnyStage, RequestContext, StageItem, StageRules, StepsContext } from '../../pipelines/stages/stages-types.js';
import { estimatorFor } from '../../tokenizers/estimate.js';
import { exitCodeOf } from '../exit.js';
import { evidence } from '../provider.js';
import { AnswerError, type AnswerKind, contentOf, isFaultless, isOfKind, readAnswer, textOf } from './answer.js';
import type { AnswerCache, AskedAnswer } from './answer-cache.js';
import { type Ask, converse } from './conversation.js';
import { partsOf } from './parts.js';
import type { Row } from './row.js';
import { CallCost, type RunCost } from './run-cost.js';
import { isCached } from './run-files.js';
import { type PlannedStage, priceOfModel, type RunPlan } from './run-plan.js';

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
  /** Whether a budget counts what calls cost. */
  readonly isCharged: boolean;
  /** What calls have cost. */
  readonly cost: RunCost;
  /** Whether another request may go out: no more may be paid twice after a crash than may be under way. */
  readonly hasRoom: boolean;
  /** Emits once, when it may. */
  room(): Observable<unknown>;
  /** A request goes out. */
  sent(item: StageItem<RunDocument>): void;
  /** An answer that does not say how many tokens it took. */
  estimated(): void;
  /** A request has failed or was cut off, and may be made again. */
  failed(item: StageItem<RunDocument>): void;
  /** A request was answered, and the item makes another one before it has its result. */
  goesOn(item: StageItem<RunDocument>): void;
  /** It will not be made again. @returns whether the run stops because of that, and the item is to wait for its end */
  gaveUp(item: StageItem<RunDocument>, model: string, error: unknown): boolean;
  /** An answer of a stage that came, and is of no use. */
  unusable(stage: string): void;
  /** An answer has come from the cache, and costs nothing. */
  cached(): void;
  /** An item has become several. */
  expanded(items: number): void;
}

/** One request: what is sent, and what is written down about it. */
interface RunRequest {
  readonly body: ChatRequest;
  readonly facts: CallFacts;
}

/** Makes the calls: one attempt each, under the permit that a stage has taken. */
class RunCalls {
  private readonly provider: ProviderRules;

  constructor(
    private readonly endpoint: Endpoint,
    private readonly ledger: Ledger,
    private readonly host: StageHost,
    private readonly config: RunPlan['config'],
  ) {
    this.provider = ledger.provider ?? providerAt(endpoint.url) ?? providers.other;
  }

  /** What is known of a request before it is sent. */
  request(stage: string, body: ChatRequest): RunRequest {
    const { endpoint, ledger, provider } = this;
    const { model = endpoint.model } = body;
    const { inputTokens, outputTokens: maxOutputTokens } = estimateChat(body, model);
    const tokens = { inputTokens, maxOutputTokens };
    const estimate = () => ledger.estimate(provider, model, tokens);
    return { body, facts: { name: stage, model, lane: '', key: undefined, provider, tokens, charged: estimate(), estimate } };
  }

  /** Sends it, when the budget and the journal have room. */
  send(request: RunRequest, permit: RequestContext, item: StageItem<RunDocument>): WorkResult<ChatCompletion> {
    const { host, ledger } = this;
    if (!host.isCharged) return this.#whenRoom(request, permit, item, undefined);
    const { body, facts } = request;
    // No token is shorter than a byte.
    const tokens = { ...facts.tokens, inputTokens: Buffer.byteLength(JSON.stringify(body)) };
    const reserving = ledger.reserveFor({ ...facts, tokens }, noop);
    return withReservation(reserving, { pauseTimeout: permit.pauseTimeout, giveBack: undefined }, (reservation) =>
      this.#whenRoom(request, permit, item, reservation && new CallCost(reservation, priceOfModel(this.config, facts.model), host.cost)),
    );
  }

  #whenRoom(
    request: RunRequest,
    permit: RequestContext,
    item: StageItem<RunDocument>,
    cost: CallCost | undefined,
  ): WorkResult<ChatCompletion> {
    const { host } = this;
    let isSent = false;
    const sendNow = (): WorkResult<ChatCompletion> => {
      // What is not sent waits for the end of the run, so that the rest of its document stays.
      if (host.isStopping) return NEVER;
      isSent = true;
      host.sent(item);
      return this.#attempt(request, permit, item, cost);
    };
    const unsent = (): void => {
      if (!isSent) cost?.release();
    };
    if (host.hasRoom) {
      const answer = sendNow();
      if (cost) unsent();
      return answer;
    }
    return host.room().pipe(
      switchMap(() => sendNow() as Promise<ChatCompletion>),
      finalize(unsent),
    );
  }

  async #attempt(
    { body, facts }: RunRequest,
    permit: RequestContext,
    item: StageItem<RunDocument>,
    cost: CallCost | undefined,
  ): Promise<ChatCompletion> {
    const { endpoint, host, ledger } = this;
    const { attempt, signal } = permit;
    const about = { traceId: item.documentId, spanId: item.item, attempt, queuedMs: 0 };
    const entry = new Entry(ledger, facts, about, permit.settle, () => Date.now(), cost);
    try {
      const observe = (response: ResponseLike): void => {
        entry.observe(response);
        permit.observe(response);
      };
      const completion = await requestChat(endpoint, body, { signal, observe });
      const counted = countedIn(completion);
      if (counted === undefined) host.estimated();
      if (cost) cost.end = counted === undefined ? 'estimated' : 'answered';
      entry.report(counted ?? estimateOf(body, completion, facts.model));
      entry.answered();
      return completion;
    } catch (error) {
      if (signal.aborted) entry.left();
      else entry.failed(error, endOf(error, classifyError(error, { size: 1, attempt, aborted: false }).class));
      host.failed(item);
      throw error;
    }
  }
}

/** No call takes so many tokens: what says so cannot count. */
const MOST_TOKENS = 1_000_000_000;

/** What the provider says that a call took; undefined when that is not all, or cannot be: no prompt and no text is made of nothing. */
function countedIn(completion: ChatCompletion): Usage | undefined {
  const usage = readUsage(completion);
  if (!isCount(usage?.inputTokens) || !isCount(usage.outputTokens)) return undefined;
  const isNothing = usage.inputTokens === 0 || (usage.outputTokens === 0 && contentOf(completion) !== '');
  return isNothing ? undefined : usage;
}

function isCount(tokens: unknown): tokens is number {
  return check.isAmount(tokens) && tokens < MOST_TOKENS;
}

/** What it took by the length of its texts. */
function estimateOf(
  body: ChatRequest,
  completion: ChatCompletion,
  model: string | undefined,
): Required<Pick<Usage, 'inputTokens' | 'outputTokens'>> {
  return {
    inputTokens: estimateChat(body, model).inputTokens,
    outputTokens: estimatorFor(body.model ?? model)(contentOf(completion)),
  };
}

/**
 * The stages of a plan, as `createStages` takes them.
 *
 * @param ledger - of the account that grants the permits, with the budget and the records of the run
 * @param cache - of stages that ask equal requests once
 */
export function stagesOf(
  { stages, config, endpoint }: RunPlan,
  ledger: Ledger,
  host: StageHost,
  cache: AnswerCache | undefined,
): AnyStage<RunDocument>[] {
  const { model = {} } = config;
  const calls = new RunCalls(endpoint, ledger, host, config);
  return stages.map((stage) =>
    stage.chunk === undefined
      ? asking(stage, model, calls, host, isCached(stage, model) ? cache : undefined)
      : chunking(stage, stage.chunk, host),
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

function chunking(stage: PlannedStage, chunk: NonNullable<PlannedStage['chunk']>, host: StageHost): AnyStage<RunDocument> {
  return {
    ...rulesOf(stage),
    local: true,
    expands: true,
    retry: false,
    work: (_item: unknown, { document, earlier }) => {
      const parts = partsOf(chunk, scopeOf(document.fields, earlier));
      host.expanded(parts.length);
      return parts;
    },
  };
}

function asking(
  stage: PlannedStage,
  model: NonNullable<RunPlan['config']['model']>,
  calls: RunCalls,
  host: StageHost,
  cache: AnswerCache | undefined,
): AnyStage<RunDocument> {
  const { answer = 'text', accept = model.accept ?? [] } = stage;
  const template = new PromptTemplate(stage.prompt ?? '');
  const timeoutMs = stage.timeoutMs ?? model.timeoutMs;
  const retry = check.retry('sluice run', 'retry', model.retry, Infinity);
  return {
    ...(model.deadlineMs !== undefined && { deadlineMs: model.deadlineMs }),
    ...rulesOf(stage),
    expands: answer === 'list',
    ...(timeoutMs !== undefined && { timeoutMs }),
    retry: retry ?? false,
    steps: async (_item: unknown, context) => {
      const scope = scopeOf(context.document.fields, context.earlier);
      const first = requestOf(stage, model, template.fill(scope));
      let asked = 0;
      const ask: Ask = async (messages, kind, accepted) => {
        if (asked++ > 0) host.goesOn(context);
        const body = { ...first, messages };
        const send = async (): Promise<AskedAnswer> => {
          const completion = await completionOf(body, context);
          return { text: usable(() => textOf(completion, accepted)), isFaultless: isFaultless(completion) };
        };
        if (cache === undefined) return (await send()).text;
        try {
          return await cache.answer(
            body,
            (text) => isOfKind(kind, text),
            () => {
              host.cached();
            },
            send,
          );
        } catch (error) {
          // The disk is full, for example.
          if (exitCodeOf(error) !== undefined && host.gaveUp(context, body.model ?? '', error)) return new Promise<never>(() => undefined);
          throw error;
        }
      };
      const rules = { ...stage, answer, accept, read: (text: string) => usable(() => readAnswer(answer, text)) };
      const value = await converse(rules, first.messages, ask, (prompt) => new PromptTemplate(prompt).fill(scope));
      if (Array.isArray(value) && answer === ('list' satisfies AnswerKind)) host.expanded(value.length);
      return value;
    },
  };

  function usable<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (error instanceof AnswerError) host.unusable(stage.name);
      throw error;
    }
  }

  /** One request with all its attempts. Pending for good when the run stops because of it. */
  async function completionOf(body: ChatRequest, context: StepsContext<RunDocument>): Promise<ChatCompletion> {
    const request = calls.request(stage.name, body);
    try {
      return await context.requestAsync((permit) => calls.send(request, permit, context), { requests: 1, ...request.facts.charged });
    } catch (error) {
      const refused = isFlowError(error, 'FLOW_RETRY_SHARE') ? error : undefined;
      if (host.gaveUp(context, body.model ?? '', refused ? refused.cause : error)) return new Promise<never>(() => undefined);
      if (refused === undefined) throw error;
      throw new Error(`not tried again, for \`model.retry.maxShare\` had no room: ${evidence(refused.cause).message}`, { cause: error });
    }
  }
}
