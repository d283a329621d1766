/** As many as `fetch` follows by itself. */
const MOST_REDIRECTS = 20;
const REDIRECTS: ReadonlySet<number> = /* @__PURE__ */ new Set([301, 302, 303, 307, 308]);
/** Headers that do not identify the caller: a request without other headers and without a body may go to any origin. */
const HARMLESS: ReadonlySet<string> = /* @__PURE__ */ new Set([
  'accept',
  'accept-language',
  'cache-control',
  'last-event-id',
  'range',
  'user-agent',
]);

/**
 * A `fetch` whose requests stay with the origin they were sent to, together with their keys and prompts. A redirect to the same origin, or from
 * `http:` to `https:` on the same host, is followed; 307 and 308 repeat method and body. A redirect to another origin rejects with a `TypeError`
 * that names both. A page does not learn where a redirect goes, so there every redirect rejects.
 *
 * Not for requests with a `redirect` of their own, nor for a GET without a header that could be a key.
 */
export function keepOrigin(base: typeof fetch): typeof fetch {
  return async (input, init) => {
    const request = input instanceof Request ? input : undefined;
    if (init?.redirect !== undefined || (request !== undefined && request.redirect !== 'follow') || !carriesSomething(request, init))
      return base(input, init);
    let body = init?.body ?? undefined;
    // A `Request` is read when it is sent.
    const spare = body === undefined && request?.body ? request.clone() : undefined;
    let response = await base(input, { ...init, redirect: 'manual' });
    let method = (init?.method ?? request?.method ?? 'GET').toUpperCase();
    const headers = new Headers(init?.headers ?? request?.headers);
    let from = absolute(request?.url ?? (input as string | URL).toString());
    for (let redirects = 1; ; redirects++) {
      const { status, type } = Object(response) as Partial<Response>;
      if (type === 'opaqueredirect')
        throw new TypeError(`\`${from.origin}\` redirects, and a browser hides the target: the redirect was not followed`);
      const location = REDIRECTS.has(status ?? 0) ? response.headers.get('location') : null;
      if (location === null) return response;
      response.body?.cancel().catch(() => undefined);
      const to = targetOf(location, from);
      if (redirects > MOST_REDIRECTS) throw new TypeError(`\`${from.origin}\` redirects without end`);
      if (changesToGet(status as number, method)) {
        method = 'GET';
        body = undefined;
        for (const name of [...headers.keys()]) if (name.startsWith('content-')) headers.delete(name);
      } else if (spare !== undefined) body ??= await spare.arrayBuffer();
      if (isOnce(body)) throw new TypeError(`\`${from.origin}\` redirects, and a stream body cannot be sent again`);
      const signal = init?.signal === undefined ? request?.signal : init.signal;
      response = await base(to.href, {
        ...(request && { credentials: request.credentials, mode: request.mode, cache: request.cache }),
        ...init,
        ...{ method, headers, redirect: 'manual' },
        ...(signal !== undefined && { signal }),
        body: body ?? null,
      });
      from = to;
    }
  };
}

function carriesSomething(request: Request | undefined, init: RequestInit | undefined): boolean {
  const method = (init?.method ?? request?.method ?? 'GET').toUpperCase();
  if (method !== 'GET' && method !== 'HEAD') return true;
  return [...new Headers(init?.headers ?? request?.headers).keys()].some((name) => !HARMLESS.has(name));
}

/** As it stands in a page, an address may have no origin. */
function absolute(url: string): URL {
  return new URL(url, (globalThis as { readonly location?: { readonly href: string } }).location?.href);
}

/** @throws TypeError when it is another origin, or no address. Paths and queries may be secret. */
function targetOf(location: string, from: URL): URL {
  const to = URL.canParse(location, from) ? new URL(location, from) : undefined;
  if (to === undefined) throw new TypeError(`\`${from.origin}\` redirects to an invalid address`);
  const isUpgrade = from.protocol === 'http:' && to.protocol === 'https:' && from.hostname === to.hostname && from.port === to.port;
  if (to.origin === from.origin && to.origin !== 'null') return to;
  if (isUpgrade) return to;
  const target = to.origin === 'null' ? to.protocol : to.origin;
  throw new TypeError(`\`${from.origin}\` redirects to \`${target}\`: the redirect was not followed. If that address is right, use it`);
}

function changesToGet(status: number, method: string): boolean {
  if (status === 303) return method !== 'GET' && method !== 'HEAD';
  return (status === 301 || status === 302) && method === 'POST';
}

function isOnce(body: unknown): boolean {
  return body instanceof ReadableStream || Symbol.asyncIterator in (Object(body) as object);
}
