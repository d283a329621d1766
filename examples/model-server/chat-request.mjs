// @ts-check
import { ApiError, invalidValue, typeName } from './api-error.mjs';
import { bodyFields, checkModel } from './request-body.mjs';

const ROLES = ['system', 'developer', 'user', 'assistant'];

/** No token stands for more. A text that is too long by this measure is not counted, which would take seconds. */
const MOST_CHARACTERS_PER_TOKEN = 64;

/** What changes an answer and is not done here is refused, unless its value says "as usual". */
const UNSUPPORTED = {
  n: (/** @type {unknown} */ value) => value === 1,
  tools: isEmptyList,
  functions: isEmptyList,
  logprobs: (/** @type {unknown} */ value) => value === false,
  response_format: (/** @type {any} */ value) => value.type === 'text',
};

/**
 * @typedef {object} ChatChecks
 * @property {import('./types.d.mts').ChatRuntime} runtime
 * @property {import('./faults.mjs').Faults} faults
 * @property {number} maxCompletionTokens
 *
 * @typedef {object} ChatRequest
 * @property {number} messages how many
 * @property {readonly number[]} prompt tokens
 * @property {number} maxTokens
 * @property {number} temperature
 * @property {number | undefined} topP
 * @property {number | undefined} seed
 * @property {readonly string[]} stop
 * @property {boolean} stream
 * @property {boolean} includeUsage
 */

/**
 * Checks the whole request before the model sees any of it.
 *
 * @param {unknown} body
 * @param {ChatChecks} checks
 * @returns {ChatRequest}
 */
export function readChatRequest(body, { runtime, faults, maxCompletionTokens }) {
  const fields = withoutNulls(bodyFields(body));
  checkModel(fields['model'], runtime.model);
  for (const [name, isUsual] of Object.entries(UNSUPPORTED)) {
    const value = fields[name];
    if (value !== undefined && !isUsual(value)) throw invalidValue(name, 'this server does not support it.', 'unsupported_parameter');
  }
  const stream = flag('stream', fields['stream']);
  const options = fields['stream_options'];
  if (options !== undefined && !stream) throw invalidValue('stream_options', "only allowed when 'stream' is true.");
  const includeUsage = options !== undefined && flag('stream_options.include_usage', bodyFields(options)['include_usage']);
  const temperature = number('temperature', fields['temperature'], 0, 2) ?? 0;
  const topP = number('top_p', fields['top_p'], 0, 1);
  const seed = whole('seed', fields['seed'], Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  const stop = readStop(fields['stop']);
  const asked = readMaxTokens(fields, maxCompletionTokens);

  const messages = readMessages(fields['messages'], faults);
  const characters = messages.reduce((sum, { content }) => sum + content.length, 0);
  if (characters > runtime.contextTokens * MOST_CHARACTERS_PER_TOKEN) throw tooLong(runtime, `your messages have ${characters} characters`);
  const prompt = runtime.encode(messages);
  const room = runtime.contextTokens - prompt.length;
  if ((asked ?? 1) > room) {
    const requested =
      asked === undefined
        ? `your messages resulted in ${prompt.length} tokens`
        : `you requested ${prompt.length + asked} tokens (${prompt.length} in the messages, ${asked} in the completion)`;
    throw tooLong(runtime, requested);
  }
  const maxTokens = asked ?? Math.min(maxCompletionTokens, room);
  return { messages: messages.length, prompt, maxTokens, temperature, topP, seed, stop, stream, includeUsage };
}

/**
 * @param {import('./types.d.mts').ChatRuntime} runtime
 * @param {string} problem
 */
function tooLong({ contextTokens }, problem) {
  const message = `This model's maximum context length is ${contextTokens} tokens. However, ${problem}.`;
  return new ApiError(400, message, { param: 'messages', code: 'context_length_exceeded' });
}

/**
 * @param {unknown} given
 * @param {import('./faults.mjs').Faults} faults
 */
function readMessages(given, faults) {
  if (given === undefined) throw invalidValue('messages', 'the messages are missing.', 'missing_required_parameter');
  if (!Array.isArray(given)) throw invalidValue('messages', `expected an array of messages, got ${typeName(given)}.`);
  if (given.length === 0) throw invalidValue('messages', 'expected at least one message, got an empty array.', 'empty_array');
  return given.map((message, index) => {
    const param = `messages[${index}]`;
    if (typeof message !== 'object' || message === null) throw invalidValue(param, `expected an object, got ${typeName(message)}.`);
    if (!ROLES.includes(message.role)) throw invalidValue(`${param}.role`, `expected one of ${ROLES.join(', ')}.`);
    const content = readContent(message.content, `${param}.content`);
    if (faults.isPoison(content)) {
      faults.counts.poison++;
      throw invalidValue(faults.blame ? `${param}.content` : 'messages', 'a text could not be processed.', 'unprocessable_text');
    }
    return { role: message.role === 'developer' ? 'system' : message.role, content };
  });
}

/**
 * @param {unknown} content a text, or parts of one
 * @param {string} param
 * @returns {string}
 */
function readContent(content, param) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalidValue(param, `expected a string or an array of text parts, got ${typeName(content)}.`);
  const texts = content.map((part, index) => {
    if (part?.type === 'text' && typeof part.text === 'string') return part.text;
    throw invalidValue(`${param}[${index}]`, "expected a part of type 'text', this model reads nothing else.");
  });
  return texts.join('');
}

/**
 * @param {Record<string, unknown>} fields
 * @param {number} most
 */
function readMaxTokens(fields, most) {
  const [newName, oldName] = ['max_completion_tokens', 'max_tokens'];
  if (fields[newName] !== undefined && fields[oldName] !== undefined) {
    throw invalidValue(oldName, `it and '${newName}' cannot both be set.`);
  }
  const name = fields[newName] === undefined ? oldName : newName;
  return whole(name, fields[name], 1, most);
}

/**
 * @param {unknown} stop
 * @returns {string[]}
 */
function readStop(stop) {
  if (stop === undefined) return [];
  const list = Array.isArray(stop) ? stop : [stop];
  if (list.length <= 4 && list.every((text) => typeof text === 'string' && text !== '')) return list;
  throw invalidValue('stop', 'expected a text or up to four of them, none empty.');
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function flag(name, value) {
  if (value !== undefined && typeof value !== 'boolean') throw invalidValue(name, `expected true or false, got ${typeName(value)}.`);
  return value === true;
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {number} from
 * @param {number} to
 */
function whole(name, value, from, to) {
  if (value === undefined || Number.isInteger(value)) return number(name, value, from, to);
  throw invalidValue(name, `expected a whole number from ${from} to ${to}.`);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {number} from
 * @param {number} to
 */
function number(name, value, from, to) {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= from && value <= to) return value;
  throw invalidValue(name, `expected a number from ${from} to ${to}${typeof value === 'number' ? `, got ${value}` : ''}.`);
}

/** @param {Record<string, unknown>} fields */
function withoutNulls(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** @param {unknown} value */
function isEmptyList(value) {
  return Array.isArray(value) && value.length === 0;
}
