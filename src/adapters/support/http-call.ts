import { isFlowError } from '../../../operators/index.js';
import { AnswerReader } from '../../account/answer-reader.js';
import { providerAt } from '../../account/providers.js';
import { boundedText, REFUSAL_BOUNDS } from '../../pipelines/bounded-text.js';
import { closing } from '../../pipelines/connection.js';
import { lessonOf, refusalOf } from '../../pipelines/provider-error.js';
import type { RequestFacts } from './call-job.js';
import { callOptionsOf } from './call-job.js';
import type { EnteredAttempt } from './entered-attempt.js';
import type { Over } from './held-call.js';
import { heldCall } from './held-call.js';
import type { ConnectionRules } from './held-rules.js';
import { heldRules } from './held-rules.js';
import { readAhead } from './read-ahead.js';
import { hasPrompt, requestUsage } from './token-counts.js';

/**
 * A request as `job` sees it.
 * @stable
 */
export interface HttpRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  /** The body, when it is JSON; undefined when there is none, or another one. */
  readonly json: unknown;
}

/**
 * What surrounds each HTTP request.
 * @stable
 */
export type HttpRules = ConnectionRules<HttpRequest>;

/** One request to be sent, as often as it takes. */
export interface Sending extends HttpRequest {
  readonly signal: AbortSignal | null | undefined;
  /** Sends it once more. */
  send(signal: AbortSignal): Promise<Response>;
  /** Whether that is possible: a body that is a stream can be sent once. */
  readonly isRepeatable: boolean;
}

/** The header by which servers tell the clients of OpenAI and Anthropic whether to retry, and its value here: the clients must not retry themselves. */
const MAY_RETRY = 'x-should-retry';

/**
 * What sends requests under the rules: the answer comes when the server's headers do, its permit goes back when its body has ended, failed
 * or was cancelled. A refusal (400 and above) that is not tried again, or no more, is the answer as the server gave it.
 */
export function httpCaller(adapter: string, options: HttpRules, others: readonly string[] = []): (request: Sending) => Promise<Response> {
  const rules = {
    repeated: heldRules(adapter, options, others),
    once: heldRules(adapter, { ...options, retry: false }, others),
  };
  const optionsOf = callOptionsOf<HttpRequest>(adapter, options, factsOf);

  return async (request) => {
    const refusals = new Map<unknown, Response>();
    const held = request.isRepeatable ? rules.repeated : rules.once;
    try {
      return await heldCall<Response>(held, optionsOf(request, request.signal), {
        open: async ({ signal, observe }) => {
          const response = await request.send(signal);
          if (response.status !== 429) observe(response);
          if (response.status < 400) return response;
          // The status says what is to be done, also when the rest of the refusal breaks off or never ends.
          const { text, isWhole } = await boundedText(response, { ...REFUSAL_BOUNDS, scheduler: held.scheduler });
          if (!isWhole) await closing(held.scheduler, held.closeGraceMs);
          const error = refusalOf(response, text);
          const lesson = response.status === 429 ? lessonOf(response, error) : undefined;
          if (lesson) observe(lesson);
          refusals.set(error, withBody(response, text));
          throw error;
        },
        follow: followBody,
        discard: (response) => void response.body?.cancel().catch(() => undefined),
      });
    } catch (error) {
      const refusal = refusals.get(isFlowError(error, 'FLOW_RETRY_SHARE') ? error.cause : error);
      if (refusal === undefined) throw error;
      if (options.retry !== false) refusal.headers.set(MAY_RETRY, 'false');
      return refusal;
    }
  };
}

/** Questions of OpenAI, Anthropic and Google about how many tokens something would be, and work that counts in limits of its own. */
const ELSEWHERE = /(?:\/(?:count_tokens|input_tokens|batches|files|fine_tuning)|:(?:countTokens|batchGenerateContent))(?:[/?#]|$)/;
/** Models that take no JSON. */
const MEDIA = /\/(?:audio|images)\//;

/** Undefined of what no model answers now: what is looked up, counted, cancelled or put off may speak of tokens that are not spent here. */
function factsOf({ method, url, json }: HttpRequest): RequestFacts | undefined {
  if (method.toUpperCase() !== 'POST' || ELSEWHERE.test(url) || !(hasPrompt(json) || MEDIA.test(url))) return undefined;
  const { inputTokens, outputTokens } = requestUsage(json);
  const { model } = Object(json) as { readonly model?: unknown };
  const tokens = { inputTokens, maxOutputTokens: outputTokens };
  return { model: typeof model === 'string' && model !== '' ? model : modelIn(url), tokens, provider: providerAt(url) };
}

/** Google and Azure name it in the address. */
function modelIn(url: string): string | undefined {
  return /\/(?:models|deployments)\/([^/:?#]{1,200})/.exec(url)?.[1];
}

/** Whether a body can be sent more than once: what is a stream cannot. */
export function isRepeatable(body: unknown): boolean {
  return !(body instanceof ReadableStream || Symbol.asyncIterator in (Object(body) as object));
}

/** What is in a body that is JSON text. */
export function jsonIn(body: unknown): unknown {
  if (typeof body !== 'string') return undefined;
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return undefined;
  }
}

/** Bytes of a body that are read ahead of its reader: most answers of a model as a whole. */
const BYTES_AHEAD = 1_048_576;

/** The response, whose permit is held until its body is over, and paid for as the body says. */
export function followBody(
  response: Response,
  over: Over,
  { follow, settle, whole }: Pick<EnteredAttempt, 'follow' | 'settle' | 'whole'>,
): Response {
  // Not every platform has bodies that are web streams, and not every client reads one that is said to be empty.
  if (typeof response.body?.getReader !== 'function' || response.headers.get('content-length') === '0') {
    over.ended();
    return response;
  }
  const reader = new AnswerReader();
  follow(reader);
  const settled = (): void => {
    if (reader.usage) settle(reader.usage);
    whole();
  };
  const ended = (): void => {
    settled();
    over.ended();
  };
  const soon = (cut: () => void): void => {
    settled();
    over.soon(cut);
  };
  return withBody(
    response,
    readAhead(
      response.body,
      { ...over, ended, soon },
      {
        most: BYTES_AHEAD,
        sizeOf: (bytes) => bytes.byteLength,
        look: (bytes) => {
          reader.read(bytes);
        },
        isWhole: () => reader.isDone,
      },
    ),
  );
}

const FIELDS = ['status', 'statusText', 'ok', 'url', 'redirected', 'type'] as const;

/** The same response with a body that can be read. */
function withBody(response: Response, body: ReadableStream<Uint8Array> | string): Response {
  return alike(response, newResponse(response, body));
}

function newResponse(response: Response, body: ReadableStream<Uint8Array> | string): Response {
  try {
    return new Response(body, response);
  } catch {
    // Servers say what the constructor does not take: a status of 999, a reason in Chinese.
    return new Response(body, { headers: response.headers });
  }
}

/** What the constructor has no argument for is written over, also in copies of the copy. */
function alike(response: Response, copy: Response): Response {
  for (const name of FIELDS) Object.defineProperty(copy, name, { value: response[name] });
  const clone = copy.clone.bind(copy);
  return Object.defineProperty(copy, 'clone', { value: () => alike(response, clone()) });
}
