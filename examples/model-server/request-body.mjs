// @ts-check
import { ApiError } from './api-error.mjs';

/**
 * @param {unknown} body
 * @returns {Record<string, unknown>}
 */
export function bodyFields(body) {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return /** @type {Record<string, unknown>} */ (body);
  throw new ApiError(400, 'We could not parse the JSON body of your request: expected an object.');
}

/**
 * @param {unknown} model
 * @param {...string} known
 */
export function checkModel(model, ...known) {
  if (typeof model !== 'string' || model === '') throw new ApiError(400, 'you must provide a model parameter', { param: 'model' });
  if (known.includes(model)) return;
  const message = `The model \`${model}\` does not exist or you do not have access to it.`;
  throw new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}
