// @ts-check
import { setTimeout } from 'node:timers/promises';

/**
 * @typedef {import('node:http').ServerResponse} ServerResponse
 * @typedef {import('./types.d.mts').Fault} Fault
 * @typedef {import('./rate-limiter.mjs').RateLimiter} RateLimiter
 *
 * @typedef {object} Call what one request leaves in the log
 * @property {string} requestId
 * @property {AbortSignal} signal aborts when the client leaves
 * @property {number} inputs
 * @property {number} tokens
 * @property {Fault[]} faults
 */

/** The client closed the connection, so no answer can be sent. */
export class ClientLeftError extends Error {}

/**
 * @param {ServerResponse} res
 * @param {Record<string, string>} headers
 */
export function setHeaders(res, headers) {
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

/**
 * @param {ServerResponse} res
 * @param {RateLimiter} limiter
 */
export function reportLimits(res, limiter) {
  setHeaders(res, limiter.headers(performance.now()));
}

/**
 * Charges a valid request, or refuses it; holds it back when that is its fault.
 *
 * @param {import('./routes.mjs').App} app
 * @param {RateLimiter} limiter
 * @param {ServerResponse} res
 * @param {Call} call
 * @param {number} tokens to charge
 * @returns {Promise<number>} the number of the request, which decides its faults
 */
export async function admit({ counters, faults }, limiter, res, call, tokens) {
  call.signal.throwIfAborted();
  const number = counters.valid++;
  const refusal = faults.refusal(number);
  // A request that is refused costs nothing; one that the server fails on has been charged.
  const tooMuch = refusal?.fault === 'rate429' ? undefined : limiter.charge(tokens, performance.now());
  reportLimits(res, limiter);
  if (tooMuch) throw tooMuch;
  if (refusal) {
    faults.note(refusal.fault, call);
    throw refusal.error;
  }
  const delayMs = faults.delayMs(number);
  if (delayMs > 0) {
    faults.note('slow', call);
    await setTimeout(delayMs, undefined, { signal: call.signal });
  }
  return number;
}
