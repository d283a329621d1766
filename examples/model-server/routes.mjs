// @ts-check
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { ApiError, internalError } from './api-error.mjs';
import { ClientLeftError, setHeaders } from './call.mjs';
import { whyNoChat } from './chat-model.mjs';
import { complete, describeChatModel } from './chat-route.mjs';
import { describeModel, embed } from './embeddings-route.mjs';
import { checkModel } from './request-body.mjs';

/** A body this many times too large is not even read to its end. */
const READ_AT_MOST_TIMES = 16;

/**
 * @typedef {import('node:http').IncomingMessage} IncomingMessage
 * @typedef {import('node:http').ServerResponse} ServerResponse
 * @typedef {import('./call.mjs').Call} Call
 *
 * @typedef {object} Counters
 * @property {number} requests
 * @property {number} valid
 * @property {Record<string, number>} statuses
 * @property {{ requests: number, texts: number }} aborted
 *
 * @typedef {object} App
 * @property {import('./types.d.mts').CheckedOptions} options
 * @property {import('./embeddings-request.mjs').Checks} checks
 * @property {import('./faults.mjs').Faults} faults
 * @property {import('./rate-limiter.mjs').RateLimiter} limiter
 * @property {import('./worker-pool.mjs').WorkerPool} pool
 * @property {import('./chat-route.mjs').Chat | undefined} chat
 * @property {Counters} counters
 * @property {string} runtime
 * @property {number} loadedAt seconds since 1970
 */

/**
 * @param {App} app
 * @param {IncomingMessage} req
 * @param {ServerResponse} res
 */
export async function answer(app, req, res) {
  const startedAt = performance.now();
  const left = new AbortController();
  /** @type {Call} */
  const call = { requestId: `req_${randomUUID().replaceAll('-', '')}`, signal: left.signal, inputs: 0, tokens: 0, faults: [] };
  const path = String((req.url ?? '/').split('?', 1)[0]);
  res.setHeader('x-request-id', call.requestId);
  res.on('close', () => {
    if (!res.writableFinished) left.abort(new ClientLeftError());
  });

  /** @type {string | undefined} */
  let errorCode;
  try {
    const reply = await route(app, req, res, path, call);
    call.signal.throwIfAborted();
    if (reply !== undefined) send(res, 200, reply);
  } catch (error) {
    if (!call.signal.aborted && !(error instanceof ClientLeftError)) {
      if (!(error instanceof ApiError)) app.options.log({ type: 'internalError', requestId: call.requestId, error });
      const refusal = error instanceof ApiError ? error : internalError();
      errorCode = refusal.body.error.code ?? undefined;
      // A stream that has begun can only say so in one more event.
      if (res.headersSent) res.end(`data: ${JSON.stringify(refusal.body)}\n\n`);
      else send(res, refusal.status, refusal.body, refusal.headers);
    } else if (!call.faults.includes('cut')) {
      app.counters.aborted.requests++;
    }
  }
  const status = res.headersSent ? res.statusCode : undefined;
  if (status !== undefined) app.counters.statuses[status] = (app.counters.statuses[status] ?? 0) + 1;
  const { requestId, inputs, tokens, faults } = call;
  const durationMs = performance.now() - startedAt;
  app.options.log({ type: 'request', requestId, method: req.method ?? '', path, status, errorCode, inputs, tokens, durationMs, faults });
}

/**
 * @param {App} app
 * @param {IncomingMessage} req
 * @param {ServerResponse} res
 * @param {string} path
 * @param {Call} call
 * @returns {Promise<unknown>} the JSON to answer with; `undefined` when the answer was streamed
 */
async function route(app, req, res, path, call) {
  checkAsker(req);
  const model = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
  const isPost = path === '/v1/embeddings' || path === '/v1/chat/completions';
  const isKnown = isPost || path === '/v1/models' || model !== undefined;
  if (!isKnown) throw new ApiError(404, `Invalid URL (${req.method} ${path})`);
  const allowed = isPost ? 'POST' : 'GET';
  if (req.method !== allowed) {
    throw new ApiError(405, `Not allowed to ${req.method} on ${path}.`, { code: 'method_not_allowed', headers: { allow: allowed } });
  }
  checkKey(app.options.apiKey, req.headers.authorization);

  if (isPost) {
    app.counters.requests++;
    const body = await readJson(req, app.options.maxBodyBytes);
    if (path === '/v1/embeddings') return embed(app, body, res, call);
    // Not a 5xx: to try again does not help.
    if (app.chat === undefined) throw new ApiError(404, whyNoChat(), { code: 'chat_not_available' });
    return complete(app, app.chat, body, res, call);
  }
  const cards = [describeModel(app), ...(app.chat === undefined ? [] : [describeChatModel(app.chat, app.loadedAt)])];
  if (model === undefined) return { object: 'list', data: cards };
  const id = decode(model);
  checkModel(id, ...cards.map((card) => card.id));
  return cards.find((card) => card.id === id);
}

/**
 * A page of another site must not ask: neither under a name that it lets point here, nor from its own address.
 *
 * @param {IncomingMessage} req
 */
function checkAsker({ headers, socket }) {
  const hosts = ['127.0.0.1', 'localhost'].map((name) => `${name}:${socket.localPort}`);
  if (!hosts.includes(headers.host ?? '')) throw new ApiError(403, 'This server answers to 127.0.0.1 and localhost only.');
  if (headers.origin !== undefined && !hosts.some((host) => headers.origin === `http://${host}`))
    throw new ApiError(403, 'This server does not answer pages of other sites.');
}

/**
 * @param {string | undefined} expected
 * @param {string | undefined} header
 */
function checkKey(expected, header) {
  if (expected === undefined) return;
  const given = /^Bearer +(.+)$/is.exec(header ?? '')?.[1];
  if (given === undefined) {
    throw new ApiError(401, "You didn't provide an API key. Send it in an Authorization header: `Authorization: Bearer YOUR_KEY`.");
  }
  const hash = (/** @type {string} */ key) => createHash('sha256').update(key).digest();
  if (!timingSafeEqual(hash(given), hash(expected))) throw new ApiError(401, 'Incorrect API key provided.', { code: 'invalid_api_key' });
}

/**
 * A body that is too large is read on and thrown away, because a client that is still sending does not see an early answer.
 *
 * @param {IncomingMessage} req
 * @param {number} maxBytes
 * @returns {Promise<unknown>}
 */
async function readJson(req, maxBytes) {
  const chunks = [];
  let bytes = 0;
  try {
    for await (const chunk of req) {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      if (bytes > maxBytes * READ_AT_MOST_TIMES) req.socket.destroy();
    }
  } catch (cause) {
    throw new ClientLeftError('the body ended early', { cause });
  }
  if (bytes > maxBytes) {
    throw new ApiError(413, `Request body too large: at most ${maxBytes} bytes.`, {
      code: 'request_too_large',
    });
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    // The parser's message quotes the body, so it stays here.
    throw new ApiError(400, 'We could not parse the JSON body of your request.', { code: 'invalid_json' });
  }
}

/**
 * @param {ServerResponse} res
 * @param {number} status
 * @param {unknown} body
 * @param {Record<string, string>} [headers]
 */
function send(res, status, body, headers = {}) {
  const text = JSON.stringify(body);
  setHeaders(res, { ...headers, 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) });
  res.writeHead(status).end(text);
}

/** @param {string} part of a URL */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
