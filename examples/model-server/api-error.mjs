// @ts-check

/** A refusal in OpenAI's shape: `{ error: { message, type, param, code } }`. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {{ type?: string, param?: string | null, code?: string | null, headers?: Record<string, string> }} [details]
   */
  constructor(status, message, { type = 'invalid_request_error', param = null, code = null, headers = {} } = {}) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.headers = headers;
    this.body = { error: { message, type, param, code } };
  }
}

/**
 * A refusal of one value of the request body.
 *
 * @param {string} param `input`, `input[3]`, `model` …
 * @param {string} problem
 * @param {string} [code]
 */
export function invalidValue(param, problem, code = 'invalid_value') {
  return new ApiError(400, `'$.${param}' is invalid: ${problem}`, { param, code });
}

/**
 * The two spellings of "come back later", for whole seconds and for milliseconds.
 *
 * @param {number} waitMs
 * @returns {Record<string, string>}
 */
export function retryAfter(waitMs) {
  return { 'retry-after': String(Math.ceil(waitMs / 1000)), 'retry-after-ms': String(Math.ceil(waitMs)) };
}

/**
 * More waits already than may.
 *
 * @param {Record<string, string>} [headers]
 */
export function overloaded(headers = retryAfter(1000)) {
  return new ApiError(503, 'The engine is currently overloaded, please try again later.', {
    type: 'server_error',
    code: 'overloaded',
    headers,
  });
}

/**
 * What a refusal says that came instead of a text or a list.
 *
 * @param {unknown} value
 */
export function typeName(value) {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : typeof value;
}

/** What the client sees of a fault of ours; the log has the rest. */
export function internalError() {
  return new ApiError(500, 'The server had an error while processing your request. Sorry about that!', { type: 'server_error' });
}
