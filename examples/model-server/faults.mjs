// @ts-check
import { createHash } from 'node:crypto';
import { ApiError, internalError, overloaded, retryAfter } from './api-error.mjs';

/** What each draw is for: the same request draws another number for each. */
const DRAW = { refusal: 1, kind: 2, slow: 3, cut: 4 };

const SERVER_ERRORS = [internalError(), new ApiError(502, 'Bad gateway.', { type: 'server_error', code: 'bad_gateway' }), overloaded({})];

/**
 * Decides what goes wrong. A decision depends on the seed and the request's number alone, not on time or on other decisions.
 */
export class Faults {
  #options;
  #poison;
  #crashes = 0;

  /** @type {Record<import('./types.d.mts').Fault, number>} */
  counts = { rate429: 0, rate5xx: 0, slow: 0, cut: 0, poison: 0, crash: 0 };

  /** @param {Required<import('./types.d.mts').FaultOptions>} options */
  constructor(options) {
    this.#options = options;
    this.#poison = new Set(options.poisonSha256);
  }

  /**
   * Counts a fault, and leaves it in the log of its request.
   *
   * @param {import('./types.d.mts').Fault} fault
   * @param {import('./call.mjs').Call} call
   */
  note(fault, call) {
    call.faults.push(fault);
    this.counts[fault]++;
  }

  /**
   * @param {number} request number of the valid request, from 0
   * @returns {{ fault: 'rate429' | 'rate5xx', error: ApiError } | undefined}
   */
  refusal(request) {
    const { seed, rate429, rate5xx, retryAfterMs } = this.#options;
    const drawn = draw(seed, request, DRAW.refusal);
    if (drawn < rate429) {
      const details = { type: 'requests', code: 'rate_limit_exceeded', headers: retryAfter(retryAfterMs) };
      return {
        fault: 'rate429',
        error: new ApiError(429, `Rate limit reached. Please try again in ${Math.ceil(retryAfterMs)}ms.`, details),
      };
    }
    if (drawn >= rate429 + rate5xx) return undefined;
    const kind = Math.floor(draw(seed, request, DRAW.kind) * SERVER_ERRORS.length);
    return { fault: 'rate5xx', error: /** @type {ApiError} */ (SERVER_ERRORS[kind]) };
  }

  /**
   * @param {number} request
   * @returns {number} how long it is held back
   */
  delayMs(request) {
    const { seed, slowRate, slowMs } = this.#options;
    return draw(seed, request, DRAW.slow) < slowRate ? slowMs : 0;
  }

  /**
   * Whether this request's socket is destroyed half-way.
   *
   * @param {number} request
   */
  cuts(request) {
    const { seed, cutSockets, cutEvery } = this.#options;
    const group = Math.floor(request / cutEvery);
    return group < cutSockets && Math.floor(draw(seed, group, DRAW.cut) * cutEvery) === request % cutEvery;
  }

  /** Whether the next text takes its worker down. */
  takesWorkerDown() {
    if (this.#crashes >= this.#options.crashWorkers) return false;
    this.#crashes++;
    this.counts.crash++;
    return true;
  }

  /** @param {string} text */
  isPoison(text) {
    return this.#poison.size > 0 && this.#poison.has(createHash('sha256').update(text, 'utf8').digest('hex'));
  }

  /** Whether the refusal of a poisoned text names its index. */
  get blame() {
    return this.#options.blame;
  }
}

/**
 * A counter-based random number in [0, 1): the numbers go in, the same number comes out, in any order of asking.
 *
 * @param {...number} numbers
 */
function draw(...numbers) {
  let hash = 0x2545_f491;
  for (const number of numbers) hash = mix(hash ^ mix(Math.imul(number + 1, 0x9e37_79b1)));
  return hash / 0x1_0000_0000;
}

/**
 * Spreads every input bit over all 32.
 *
 * @param {number} bits
 */
function mix(bits) {
  let hash = bits >>> 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb_352d);
  hash = Math.imul(hash ^ (hash >>> 15), 0x846c_a68b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
