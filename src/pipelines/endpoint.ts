import { asyncScheduler } from 'rxjs';
import { check } from '../../operators/build.js';
import type { ResponseLike } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import { boundedText, REFUSAL_BOUNDS } from './bounded-text.js';
import { closing } from './connection.js';
import { keepOrigin } from './keep-origin.js';
import { isLimited } from './limited.js';
import { lessonOf, refusalOf } from './provider-error.js';

/**
 * Where an API of a model is, and what it wants to know with every request.
 * @beta
 */
export interface EndpointOptions {
  /** Where the API is, up to and with its version: `https://host/v1`. A query (`?api-version=…`) goes behind the path of each request. */
  readonly baseUrl: string;
  readonly model: string;
  /** Sent as a bearer token. @defaultValue none */
  readonly apiKey?: string;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
}

/** {@link EndpointOptions}, checked. */
export interface Endpoint {
  readonly url: string;
  readonly model: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
}

/** What a request has to do with the call it is made for. */
export interface RequestContext {
  readonly signal: AbortSignal;
  observe(response: ResponseLike): void;
}

/** @throws FlowConfigError naming the operator and the option */
export function endpointOf(operator: string, path: string, options: EndpointOptions): Endpoint {
  const { model, apiKey, headers = {} } = options;
  if (typeof model !== 'string' || model === '') throw new FlowConfigError(operator, 'model', 'a non-empty string', model);
  if (apiKey !== undefined && typeof (apiKey as unknown) !== 'string') throw new FlowConfigError(operator, 'apiKey', 'a string', apiKey);
  if (typeof headers !== 'object' || (headers as unknown) === null) throw new FlowConfigError(operator, 'headers', 'an object', headers);
  checkSendable(operator, 'headers', headers);
  if (isLimited(options.fetch)) throw check.misused(operator, 'fetch', '`fetch` has a limiter already', 'Pass the original `fetch`.');
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  checkSendable(operator, 'apiKey', authorization);
  return {
    url: urlOf(operator, options.baseUrl, path),
    model,
    headers: { ...headers, ...authorization },
    fetch: keepOrigin(check.callback(operator, 'fetch', options.fetch) ?? globalThis.fetch),
  };
}

/** One POST of a JSON body. @throws ProviderError when the answer is not a success */
export async function post({ url, headers, fetch }: Endpoint, body: object, context: RequestContext): Promise<Response> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: context.signal,
  });
  if (response.status !== 429) context.observe(response);
  // The status says what is to be done, also when the rest of the refusal breaks off or never ends.
  if (response.ok) return response;
  const { text, isWhole } = await boundedText(response, REFUSAL_BOUNDS);
  if (!isWhole) await closing(asyncScheduler);
  const error = refusalOf(response, text);
  const lesson = response.status === 429 ? lessonOf(response, error) : undefined;
  if (lesson) context.observe(lesson);
  throw error;
}

/** What cannot be sent, `fetch` would quote in its error: a key with a line break, for example. */
function checkSendable(operator: string, option: string, headers: Readonly<Record<string, string>>): void {
  try {
    new Headers(headers);
  } catch {
    throw check.misused(operator, option, `\`${option}\` cannot be sent as a header`, 'Remove line breaks and characters outside Latin-1.');
  }
}

/** The path goes before a query: `https://host/v1?api-version=1`. */
function urlOf(operator: string, baseUrl: string, path: string): string {
  const url = typeof baseUrl === 'string' && /^https?:\/\//.test(baseUrl) && URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (!url || url.username || url.password) {
    // Errors never show a password or a key.
    const isSecret = /[?@]/.test(baseUrl);
    const got = url ? 'one with a user or a password, which `fetch` rejects' : isSecret ? 'an invalid URL' : undefined;
    throw new FlowConfigError(operator, 'baseUrl', 'an http(s) URL such as `https://host/v1`', isSecret ? undefined : baseUrl, got);
  }
  const { pathname } = url;
  let end = pathname.length;
  while (pathname[end - 1] === '/') end -= 1;
  url.pathname = `${pathname.slice(0, end)}${path}`;
  return url.href;
}
