// @ts-check
import { setImmediate } from 'node:timers/promises';
import { ApiError, invalidValue, typeName } from './api-error.mjs';
import { bodyFields, checkModel } from './request-body.mjs';

export const MODEL_ID = 'all-MiniLM-L6-v2';
export const DIMENSIONS = 384;

/** Counting tokens runs on the thread that answers every request, so it yields to other requests this often. */
const BREATHE_AFTER_MS = 10;

/**
 * @typedef {object} Checks
 * @property {(text: string) => readonly number[]} encode text to token ids, `[CLS]` and `[SEP]` included
 * @property {import('./faults.mjs').Faults} faults
 * @property {number} maxTokensPerInput
 * @property {number} maxInputs
 * @property {number} maxTokensPerRequest
 *
 * @typedef {{ tokenLists: Int32Array[], tokens: number, encodingFormat: 'float' | 'base64' }} EmbeddingsRequest
 */

/**
 * Checks the whole request before any text is worked on. The first bad text refuses all of them.
 *
 * @param {unknown} body
 * @param {Checks} checks
 * @returns {Promise<EmbeddingsRequest>}
 */
export async function readEmbeddingsRequest(body, checks) {
  const { model, input, encoding_format: encodingFormat = 'float', dimensions } = bodyFields(body);
  checkModel(model, MODEL_ID);
  if (encodingFormat !== 'float' && encodingFormat !== 'base64') {
    throw invalidValue('encoding_format', "expected 'float' or 'base64'.");
  }
  if (dimensions !== undefined && dimensions !== DIMENSIONS) {
    throw invalidValue('dimensions', `this model has ${DIMENSIONS} dimensions, they cannot be changed.`);
  }
  const texts = checkTexts(input, checks.maxInputs);
  const tokenLists = await tokenise(texts, checks);
  const tokens = tokenLists.reduce((sum, list) => sum + list.length, 0);
  if (tokens > checks.maxTokensPerRequest) {
    const code = 'max_tokens_per_request';
    throw new ApiError(400, `Requested ${tokens} tokens, max ${checks.maxTokensPerRequest} tokens per request`, { type: code, code });
  }
  return { tokenLists, tokens, encodingFormat };
}

/**
 * @param {unknown} input
 * @param {number} maxInputs
 * @returns {{ text: string, param: string }[]}
 */
function checkTexts(input, maxInputs) {
  if (typeof input === 'string') return [checkText(input, 'input')];
  if (!Array.isArray(input)) throw invalidValue('input', `expected a string or an array of strings, got ${typeName(input)}.`);
  if (input.length === 0) throw invalidValue('input', 'expected an array with at least one text, got an empty array.', 'empty_array');
  if (isTokenArray(input) || input.some(isTokenArray)) {
    throw invalidValue('input', 'token arrays are not supported, send the texts themselves.', 'token_arrays_not_supported');
  }
  if (input.length > maxInputs) {
    const problem = `array too long, expected at most ${maxInputs} texts, got ${input.length}.`;
    throw invalidValue('input', problem, 'array_above_max_length');
  }
  return input.map((text, index) => checkText(text, `input[${index}]`));
}

/**
 * @param {unknown} text
 * @param {string} param
 */
function checkText(text, param) {
  if (typeof text !== 'string') throw invalidValue(param, `expected a string, got ${typeName(text)}.`);
  if (text === '') throw invalidValue(param, 'the text is empty.', 'empty_string');
  return { text, param };
}

/**
 * @param {{ text: string, param: string }[]} texts
 * @param {Checks} checks
 */
async function tokenise(texts, { encode, faults, maxTokensPerInput }) {
  const tokenLists = [];
  let breathedAt = performance.now();
  for (const { text, param } of texts) {
    const tokenIds = encode(text);
    if (tokenIds.length > maxTokensPerInput) {
      const problem = `maximum context length is ${maxTokensPerInput} tokens, however this text has ${tokenIds.length} tokens.`;
      throw invalidValue(param, problem, 'context_length_exceeded');
    }
    if (faults.isPoison(text)) {
      faults.counts.poison++;
      throw invalidValue(faults.blame ? param : 'input', 'a text could not be processed.', 'unprocessable_text');
    }
    tokenLists.push(Int32Array.from(tokenIds));
    if (performance.now() - breathedAt > BREATHE_AFTER_MS) {
      await setImmediate();
      breathedAt = performance.now();
    }
  }
  return tokenLists;
}

/** @param {unknown} value */
function isTokenArray(value) {
  return Array.isArray(value) && typeof value[0] === 'number';
}
