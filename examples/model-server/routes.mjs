// @ts-check
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { ApiError, internalError, retryAfter } from './api-error.mjs';
import { checkModel, DIMENSIONS, MODEL_ID, readEmbeddingsRequest } from './embeddings-request.mjs';

/** A body this many times too large is not even read to its end. */
const READ_AT_MOST_TIMES = 16;

/**
 * @typedef {import('node:http').IncomingMessage} IncomingMessage
 * @typedef {import('node:http').ServerResponse} ServerResponse
 * @typedef {import('./types.d.mts').Fault} Fault
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
 * @property {import('./rate-limiter.mjs').RateLimiter} limiter
 * @property {import('./worker-pool.mjs').WorkerPool} pool
 * @property {Counters} counters
 * @property {import('./types.d.mts').RuntimeName} runtime
 * @property {number} loadedAt seconds since 1970
 *
 * @typedef {object} Call what one request leaves in the log
 * @property {string} requestId
 * @property {AbortSignal} signal aborts when the client leaves
 * @property {number} inputs
 * @property {number} tokens
 * @property {Fault[]} faults
 */

/** The connection is gone; there is nobody to answer. */
class ClientLeftError extends Error {}

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
    send(res, 200, reply);
  } catch (error) {
    if (!call.signal.aborted && !(error instanceof ClientLeftError)) {
      if (!(error instanceof ApiError)) app.options.log({ type: 'internalError', requestId: call.requestId, error });
      const refusal = error instanceof ApiError ? error : internalError();
      errorCode = refusal.body.error.code ?? undefined;
      send(res, refusal.status, refusal.body, refusal.headers);
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
 * @returns {Promise<unknown>} the JSON to answer with
 */
async function route(app, req, res, path, call) {
  const model = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
  const known = path === '/v1/embeddings' || path === '/v1/models' || model !== undefined;
  if (!known) throw new ApiError(404, `Invalid URL (${req.method} ${path})`);
  const allowed = path === '/v1/embeddings' ? 'POST' : 'GET';
  if (req.method !== allowed) {
    throw new ApiError(405, `Not allowed to ${req.method} on ${path}.`, { code: 'method_not_allowed', headers: { allow: allowed } });
  }
  checkKey(app.options.apiKey, req.headers.authorization);

  if (path === '/v1/embeddings') {
    app.counters.requests++;
    return embed(app, await readJson(req, app.options.maxBodyBytes), res, call);
  }
  const card = describeModel(app);
  if (model === undefined) return { object: 'list', data: [card] };
  checkModel(decode(model));
  return card;
}

/**
 * @param {App} app
 * @param {unknown} body
 * @param {ServerResponse} res
 * @param {Call} call
 */
async function embed(app, body, res, call) {
  const { limiter, pool, counters } = app;
  const { faults } = app.checks;
  const reportLimits = () => setHeaders(res, limiter.headers(performance.now()));
  reportLimits();
  const { tokenLists, tokens, encodingFormat } = await readEmbeddingsRequest(body, app.checks);
  call.signal.throwIfAborted();
  call.inputs = tokenLists.length;
  call.tokens = tokens;
  const note = (/** @type {Fault} */ fault) => {
    call.faults.push(fault);
    faults.counts[fault]++;
  };

  const number = counters.valid++;
  const refusal = faults.refusal(number);
  // A request that is refused costs nothing; one that the server fails on has been charged.
  const tooMuch = refusal?.fault === 'rate429' ? undefined : limiter.charge(tokens, performance.now());
  reportLimits();
  if (tooMuch) throw tooMuch;
  if (refusal) {
    note(refusal.fault);
    throw refusal.error;
  }
  const delayMs = faults.delayMs(number);
  if (delayMs > 0) {
    note('slow');
    await setTimeout(delayMs, undefined, { signal: call.signal });
  }
  if (pool.queued + tokenLists.length > app.options.maxQueuedTexts) {
    const details = { type: 'server_error', code: 'overloaded', headers: retryAfter(1000) };
    throw new ApiError(503, 'The engine is currently overloaded, please try again later.', details);
  }
  const onDropped = (/** @type {number} */ texts) => {
    counters.aborted.texts += texts;
  };
  if (faults.cuts(number)) {
    await pool.embed(tokenLists.slice(0, Math.ceil(tokenLists.length / 2)), call.signal, onDropped);
    note('cut');
    res.socket?.destroy();
    throw new ClientLeftError();
  }
  const vectors = await pool.embed(tokenLists, call.signal, onDropped);
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: encodeVector(vector, encodingFormat) })),
    model: MODEL_ID,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/**
 * @param {Float32Array} vector
 * @param {'float' | 'base64'} format base64 is of little-endian 32-bit floats
 */
function encodeVector(vector, format) {
  if (format === 'float') return Array.from(vector);
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64');
}

/** @param {App} app */
function describeModel({ checks, loadedAt, runtime }) {
  return {
    id: MODEL_ID,
    object: 'model',
    created: loadedAt,
    owned_by: 'sentence-transformers',
    dimensions: DIMENSIONS,
    max_input_tokens: checks.maxTokensPerInput,
    runtime,
  };
}

/**
 * @param {string | undefined} expected
 * @param {string | undefined} header
 */
function checkKey(expected, header) {
  if (expected === undefined) return;
  const given = /^Bearer +(.+)$/i.exec(header ?? '')?.[1];
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

/**
 * @param {ServerResponse} res
 * @param {Record<string, string>} headers
 */
function setHeaders(res, headers) {
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

/** @param {string} part of a URL */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
