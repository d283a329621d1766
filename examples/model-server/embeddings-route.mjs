// @ts-check
import { overloaded } from './api-error.mjs';
import { admit, ClientLeftError, reportLimits } from './call.mjs';
import { DIMENSIONS, MODEL_ID, readEmbeddingsRequest } from './embeddings-request.mjs';

/**
 * `POST /v1/embeddings`
 *
 * @param {import('./routes.mjs').App} app
 * @param {unknown} body
 * @param {import('node:http').ServerResponse} res
 * @param {import('./call.mjs').Call} call
 */
export async function embed(app, body, res, call) {
  const { limiter, pool, counters, faults } = app;
  reportLimits(res, limiter);
  const { tokenLists, tokens, encodingFormat } = await readEmbeddingsRequest(body, app.checks);
  call.inputs = tokenLists.length;
  call.tokens = tokens;
  const number = await admit(app, limiter, res, call, tokens);
  if (pool.queued + tokenLists.length > app.options.maxQueuedTexts) throw overloaded();
  const onDropped = (/** @type {number} */ texts) => {
    counters.aborted.texts += texts;
  };
  if (faults.cuts(number)) {
    await pool.embed(tokenLists.slice(0, Math.ceil(tokenLists.length / 2)), call.signal, onDropped);
    faults.note('cut', call);
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

/** @param {import('./routes.mjs').App} app */
export function describeModel({ checks, loadedAt, runtime }) {
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
