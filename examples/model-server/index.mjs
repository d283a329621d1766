// @ts-check
import { createServer } from 'node:http';
import { loadChatModel } from './chat-model.mjs';
import { MODEL_ID } from './embeddings-request.mjs';
import { loadEngine } from './engine.mjs';
import { Faults } from './faults.mjs';
import { checkOptions } from './options.mjs';
import { RateLimiter } from './rate-limiter.mjs';
import { answer } from './routes.mjs';
import { Seats } from './seats.mjs';
import { WorkerPool } from './worker-pool.mjs';

/** @typedef {import('./types.d.mts').CheckedOptions} CheckedOptions */

/** @type {typeof import('./index.d.mts').startModelServer} */
export async function startModelServer(givenOptions = {}) {
  const options = checkOptions(givenOptions);
  const engine = options.engine ?? (await loadEngine(options));
  const faults = new Faults(options.faults);
  const pool = new WorkerPool({
    size: options.workers,
    startThread: engine.startThread,
    log: options.log,
    takesWorkerDown: () => faults.takesWorkerDown(),
  });
  const chat = await openChat(options);
  const counters = { requests: 0, valid: 0, statuses: /** @type {Record<string, number>} */ ({}), aborted: { requests: 0, texts: 0 } };
  const app = {
    options,
    checks: {
      encode: engine.encode,
      faults,
      maxTokensPerInput: options.maxTokensPerInput,
      maxInputs: options.maxInputs,
      maxTokensPerRequest: options.maxTokensPerRequest,
    },
    faults,
    limiter: new RateLimiter(options, MODEL_ID),
    pool,
    chat,
    counters,
    runtime: engine.name,
    loadedAt: Math.floor(Date.now() / 1000),
  };
  const server = createServer((req, res) => void answer(app, req, res));
  try {
    // Listens before the model is loaded, so that a port in use fails first. Early requests wait.
    await listen(server, options.port);
    await pool.start();
  } catch (error) {
    await stop(server, pool, chat);
    throw error;
  }

  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}`;
  /** @type {Promise<void> | undefined} */
  let closing;
  return {
    url,
    baseUrl: `${url}/v1`,
    port,
    stats: () => ({
      runtime: engine.name,
      requests: counters.requests,
      statuses: { ...counters.statuses },
      embedded: { ...pool.embedded },
      aborted: { ...counters.aborted },
      queued: pool.queued,
      busyWorkers: pool.busy,
      workers: options.workers,
      workerRestarts: pool.restarts,
      faults: { ...faults.counts },
      chat: chat && chatStats(chat),
    }),
    close: () => (closing ??= stop(server, pool, chat)),
  };
}

/**
 * @param {CheckedOptions} options
 * @returns {Promise<import('./chat-route.mjs').Chat | undefined>}
 */
async function openChat({ chat: options, ...limits }) {
  if (options === undefined) return undefined;
  const runtime = options.runtime ?? (await loadChatModel(options));
  return {
    runtime,
    options,
    limiter: new RateLimiter(limits, runtime.model),
    seats: new Seats(options.sequences),
    answered: { texts: 0, promptTokens: 0, completionTokens: 0 },
  };
}

/** @param {import('./chat-route.mjs').Chat} chat */
function chatStats({ runtime, options, seats, answered }) {
  const { sequences } = options;
  return { runtime: runtime.name, answered: { ...answered }, queued: seats.queued, busySequences: seats.busy, sequences };
}

/**
 * @param {import('node:http').Server} server
 * @param {number} port
 * @returns {Promise<void>}
 */
function listen(server, port) {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/**
 * @param {import('node:http').Server} server
 * @param {WorkerPool} pool
 * @param {import('./chat-route.mjs').Chat | undefined} chat
 */
async function stop(server, pool, chat) {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await Promise.all([closed, pool.close()]);
  await chat?.runtime.close();
}
