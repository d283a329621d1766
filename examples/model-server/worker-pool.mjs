// @ts-check
import { FairQueue } from './fair-queue.mjs';

/**
 * @typedef {import('./types.d.mts').InferenceThread} Thread
 *
 * @typedef {object} Request
 * @property {(Float32Array | undefined)[]} vectors
 * @property {number} missing
 * @property {boolean} settled
 * @property {(vectors: Float32Array[]) => void} resolve
 * @property {(error: unknown) => void} reject
 *
 * @typedef {{ request: Request, index: number, tokenIds: Int32Array, attempts: number }} Job
 * @typedef {{ id: number, thread: Thread | undefined, ready: boolean, job: Job | undefined }} Slot
 *
 * @typedef {object} PoolOptions
 * @property {number} size
 * @property {() => Thread} startThread
 * @property {(entry: import('./types.d.mts').LogEntry) => void} log
 * @property {() => boolean} takesWorkerDown asked once per text that starts
 */

const MOST_ATTEMPTS = 2;

/** Runs texts on a fixed number of worker threads, one text per thread at a time, fairly between requests. */
export class WorkerPool {
  /** @type {FairQueue<Request, Job>} */
  #queue = new FairQueue();
  /** @type {Slot[]} */
  #slots = [];
  #closed = false;
  #options;

  restarts = 0;
  embedded = { texts: 0, tokens: 0 };

  /** @param {PoolOptions} options */
  constructor(options) {
    this.#options = options;
  }

  get queued() {
    return this.#queue.size;
  }

  get busy() {
    return this.#slots.filter((slot) => slot.job !== undefined).length;
  }

  /** Starts the threads; resolves when each has loaded the model. */
  async start() {
    this.#slots = Array.from({ length: this.#options.size }, (_, id) => ({ id, thread: undefined, ready: false, job: undefined }));
    await Promise.all(this.#slots.map((slot) => this.#spawn(slot)));
  }

  /**
   * Turns token lists into vectors, in the same order. When `signal` aborts, what has not started is dropped, `onDropped` learns how
   * many, and the promise rejects.
   *
   * @param {Int32Array[]} tokenLists at least one
   * @param {AbortSignal} signal
   * @param {(texts: number) => void} onDropped
   * @returns {Promise<Float32Array[]>}
   */
  async embed(tokenLists, signal, onDropped) {
    signal.throwIfAborted();
    if (this.#slots.length === 0) throw new Error('no inference worker is left');
    /** @type {(() => void) | undefined} */
    let leave;
    try {
      return await new Promise((resolve, reject) => {
        /** @type {Request} */
        const request = { vectors: [], missing: tokenLists.length, settled: false, resolve, reject };
        leave = () => {
          onDropped(this.#queue.drop(request));
          this.#fail(request, signal.reason);
        };
        signal.addEventListener('abort', leave, { once: true });
        this.#queue.add(
          request,
          tokenLists.map((tokenIds, index) => ({ request, index, tokenIds, attempts: 0 })),
        );
        this.#dispatch();
      });
    } finally {
      if (leave) signal.removeEventListener('abort', leave);
    }
  }

  async close() {
    this.#closed = true;
    await Promise.all(this.#slots.map((slot) => slot.thread?.terminate()));
  }

  #dispatch() {
    for (const slot of this.#slots) {
      if (!slot.ready || slot.job !== undefined) continue;
      const job = this.#queue.take();
      if (job === undefined) return;
      job.attempts++;
      slot.job = job;
      slot.thread?.postMessage({ tokenIds: job.tokenIds, crash: this.#options.takesWorkerDown() });
    }
  }

  /**
   * @param {Slot} slot
   * @returns {Promise<void>}
   */
  #spawn(slot) {
    return new Promise((resolve, reject) => {
      const thread = this.#options.startThread();
      /** @type {unknown} */
      let cause;
      slot.thread = thread;
      thread.on('message', (message) => {
        if ('vector' in message) {
          this.#finish(slot, message.vector);
        } else {
          slot.ready = true;
          resolve();
        }
        this.#dispatch();
      });
      thread.on('error', (error) => {
        cause = error;
      });
      thread.on('exit', (code) => {
        const error = new Error(`inference worker ${slot.id} ended with code ${code}`, { cause });
        slot.thread = undefined;
        if (!slot.ready) {
          reject(error);
          return;
        }
        slot.ready = false;
        if (!this.#closed) this.#recover(slot, error);
      });
    });
  }

  /**
   * @param {Slot} slot
   * @param {Float32Array} vector
   */
  #finish(slot, vector) {
    const { request, index, tokenIds } = /** @type {Job} */ (slot.job);
    slot.job = undefined;
    this.embedded.texts++;
    this.embedded.tokens += tokenIds.length;
    request.vectors[index] = vector;
    request.missing--;
    if (request.missing > 0 || request.settled) return;
    request.settled = true;
    request.resolve(/** @type {Float32Array[]} */ (request.vectors));
  }

  /**
   * The text gets one more chance, because the crash may have had nothing to do with it.
   *
   * @param {Slot} slot
   * @param {Error} error
   */
  #recover(slot, error) {
    const job = slot.job;
    slot.job = undefined;
    if (job !== undefined && !job.request.settled) {
      if (job.attempts < MOST_ATTEMPTS) this.#queue.putBack(job.request, job);
      else this.#fail(job.request, error);
    }
    this.restarts++;
    this.#options.log({ type: 'workerCrashed', worker: slot.id, reason: describe(error) });
    this.#dispatch();
    this.#spawn(slot).catch((/** @type {Error} */ lost) => {
      if (this.#closed) return;
      this.#slots = this.#slots.filter((other) => other !== slot);
      this.#options.log({ type: 'workerLost', worker: slot.id, reason: describe(lost) });
      if (this.#slots.length > 0) return;
      for (let waiting = this.#queue.take(); waiting !== undefined; waiting = this.#queue.take()) this.#fail(waiting.request, lost);
    });
  }

  /**
   * @param {Request} request
   * @param {unknown} error
   */
  #fail(request, error) {
    if (request.settled) return;
    request.settled = true;
    this.#queue.drop(request);
    request.reject(error);
  }
}

/** @param {Error} error */
function describe(error) {
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
