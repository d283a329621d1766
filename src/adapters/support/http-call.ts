import { ask } from '../../../operators/support/ask.js';
import { FlowConfigError } from '../../../operators/support/errors.js';
import { laneOption } from '../../../operators/support/limiting/limiter-option.js';
import type { Cost } from '../../../operators/support/limiting/limiter-types.js';
import { callback } from '../../../operators/support/options.js';
import type { PolicyContext } from '../../../operators/support/policing/attempt.js';
import { refusalOf } from '../../pipelines/provider-error.js';
import type { CallRules } from './call-rules.js';
import { callPolicy } from './call-rules.js';
import type { Over } from './held-call.js';
import { followed, heldCall } from './held-call.js';
import { requestTokens, UsageReader } from './token-counts.js';

/** A request as `lane` and `cost` see it. */
export interface HttpRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  /** The body, when it is JSON; undefined when there is none, or another one. */
  readonly json: unknown;
}

/** What surrounds each HTTP request. */
export interface HttpRules extends CallRules {
  /** Lane of the limiter, or how to tell it from the request. @defaultValue the last, least urgent one */
  readonly lane?: string | ((request: HttpRequest) => string);
  /**
   * What a request takes from the limiter. @defaultValue one request, and the tokens of its prompts (estimated, 15 % more to be safe)
   * with those of the longest answer it allows
   */
  readonly cost?: (request: HttpRequest) => Cost;
}

/** One request to be sent, as often as it takes. */
export interface Sending extends HttpRequest {
  readonly signal: AbortSignal | null | undefined;
  /** Sends it once more. */
  send(signal: AbortSignal): Promise<Response>;
  /** Whether that is possible: a body that is a stream can be sent once. */
  readonly isRepeatable: boolean;
}

/** Told by the clients of OpenAI and Anthropic that trying again is not for them to do. */
const NO_RETRY = 'x-should-retry';

/**
 * What sends requests under the rules: the answer comes when the server's headers do, its permit goes back when its body has ended, failed
 * or was cancelled. A refusal (400 and above) that is not tried again, or no more, is the answer as the server gave it.
 */
export function httpCaller(adapter: string, options: HttpRules, others: readonly string[] = []): (request: Sending) => Promise<Response> {
  const names = ['lane', 'cost', ...others];
  const policies = { repeated: callPolicy(adapter, options, names), once: callPolicy(adapter, { ...options, retry: false }, names) };
  const { limiter, lane, cost, retry } = options;
  for (const name of ['lane', 'cost'] as const) {
    if (limiter === undefined && options[name] !== undefined)
      throw new FlowConfigError(adapter, name, 'absent without a `limiter`', options[name]);
  }
  const laneOf = typeof lane === 'function' ? lane : laneOption(adapter, lane, limiter);
  const costOf = callback(adapter, 'cost', cost) ?? estimated;

  return async (request) => {
    const refusals = new Map<unknown, Response>();
    const job = limiter && {
      ...(laneOf !== undefined && { lane: typeof laneOf === 'function' ? ask(adapter, 'lane', laneOf, request) : laneOf }),
      cost: ask(adapter, 'cost', costOf, request),
    };
    const policy = request.isRepeatable ? policies.repeated : policies.once;
    try {
      return await heldCall<Response>(
        policy,
        { ...(job && { job }), ...(request.signal && { signal: request.signal }) },
        {
          open: async ({ signal, observe }) => {
            const response = await request.send(signal);
            observe(response);
            if (response.status < 400) return response;
            const text = await response.text();
            const error = refusalOf(response, text);
            refusals.set(error, withBody(response, text));
            throw error;
          },
          follow: followBody,
          discard: (response) => void response.body?.cancel(),
        },
      );
    } catch (error) {
      const refusal = refusals.get(error);
      if (refusal === undefined) throw error;
      if (retry !== false) refusal.headers.set(NO_RETRY, 'false');
      return refusal;
    }
  };
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

function estimated({ json }: HttpRequest): Cost {
  return { tokens: requestTokens(json) };
}

/** The response, whose permit is held until its body is over, and paid for as the body says. */
function followBody(response: Response, over: Over, { reconcile }: PolicyContext): Response {
  if (response.body === null) {
    over.ended();
    return response;
  }
  const reader = new UsageReader();
  const ended = (): void => {
    if (reader.usage) reconcile(reader.usage);
    over.ended();
  };
  return withBody(
    response,
    followed(response.body, { ...over, ended }, (bytes) => {
      reader.read(bytes);
    }),
  );
}

/** The same response with a body that can be read: what it has no constructor argument for is written over. */
function withBody(response: Response, body: ReadableStream<Uint8Array> | string): Response {
  const copy = new Response(body, response);
  for (const name of ['url', 'redirected', 'type'] as const) Object.defineProperty(copy, name, { value: response[name] });
  return copy;
}
