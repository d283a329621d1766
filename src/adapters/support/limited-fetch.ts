import { check } from '../../../operators/build.js';
import { keepOrigin } from '../../pipelines/keep-origin.js';
import { markLimited } from '../../pipelines/limited.js';
import type { HttpRequest, HttpRules } from './http-call.js';
import { httpCaller, isRepeatable, jsonIn } from './http-call.js';

/** @stable */
export interface LimitFetchOptions extends HttpRules {
  /** What sends the requests. @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
}

/** `data:`, `blob:` and the like. A URL without a scheme belongs to a page. */
const OTHER_SCHEME = /^\s*(?!https?:)[a-z][a-z\d+.-]*:/i;

/** A `fetch` under the rules of an adapter, over the one in the options, or another one. */
export function limitedFetch(adapter: string, options: LimitFetchOptions, other: typeof fetch | undefined): typeof fetch {
  const call = httpCaller(adapter, options, ['fetch']);
  const base = keepOrigin(check.requiredFunction(adapter, 'fetch', check.orDefault(options.fetch, other)) as typeof fetch);

  return markLimited(async (input, given) => {
    // A Request given as options says all in getters, which a copy of it would lose.
    const isWhole = given instanceof Request;
    const init: RequestInit = isWhole ? {} : (given ?? {});
    const request = isWhole ? new Request(input, given) : input instanceof Request ? input : undefined;
    const url = request?.url ?? (input as string | URL).toString();
    // What is no question to a server takes nothing: clients try out `fetch` with `data:,` and never read the answer.
    if (OTHER_SCHEME.test(url)) return base(input, given);
    // With null it has none, whatever the Request says.
    const signal = init.signal === undefined ? request?.signal : init.signal;
    const body = init.body ?? (request?.body ? await textOf(request, signal) : undefined);
    const described: HttpRequest = {
      url,
      method: init.method ?? request?.method ?? 'GET',
      headers: new Headers(init.headers ?? request?.headers),
      json: jsonIn(body),
    };
    return call({
      ...described,
      signal,
      isRepeatable: isRepeatable(body),
      send: (ending) => base(request?.clone() ?? input, { ...init, signal: ending }),
    });
  });
}

/** The body of a request that can be sent all the same; one that comes slowly is not waited for after an abort. */
function textOf(request: Request, signal: AbortSignal | null | undefined): Promise<string> {
  const body = request.clone().body as ReadableStream<Uint8Array<ArrayBuffer>>;
  return new Response(body.pipeThrough(new TransformStream(), signal ? { signal } : {})).text();
}
