// @ts-check
import { overloaded } from './api-error.mjs';
import { admit, ClientLeftError, reportLimits } from './call.mjs';
import { readChatRequest } from './chat-request.mjs';

/**
 * @typedef {import('./types.d.mts').ChatRuntime} ChatRuntime
 * @typedef {import('./types.d.mts').ChatAnswer} ChatAnswer
 *
 * @typedef {object} Chat
 * @property {ChatRuntime} runtime
 * @property {import('./types.d.mts').CheckedChatOptions} options
 * @property {import('./rate-limiter.mjs').RateLimiter} limiter
 * @property {import('./seats.mjs').Seats} seats one per sequence
 * @property {{ texts: number, promptTokens: number, completionTokens: number }} answered
 */

/**
 * `POST /v1/chat/completions`
 *
 * @param {import('./routes.mjs').App} app
 * @param {Chat} chat
 * @param {unknown} body
 * @param {import('node:http').ServerResponse} res
 * @param {import('./call.mjs').Call} call
 * @returns {Promise<unknown>} the JSON to answer with; `undefined` when the answer was streamed
 */
export async function complete(app, chat, body, res, call) {
  const { runtime, limiter, options, seats } = chat;
  const { faults } = app;
  reportLimits(res, limiter);
  const request = readChatRequest(body, { runtime, faults, maxCompletionTokens: options.maxCompletionTokens });
  call.inputs = request.messages;
  call.tokens = request.prompt.length;
  // The longest answer that may come: how long it will be is not known yet.
  const number = await admit(app, limiter, res, call, request.prompt.length + request.maxTokens);
  if (seats.busy === options.sequences && seats.queued >= options.maxQueuedChats) throw overloaded();

  const cut = faults.cuts(number);
  const maxTokens = cut ? Math.ceil(request.maxTokens / 2) : request.maxTokens;
  const reply = request.stream ? streamed(res, request.includeUsage) : whole();
  const card = { id: `chatcmpl-${call.requestId}`, created: Math.floor(Date.now() / 1000), model: runtime.model };
  const leave = await seats.take(call.signal);
  /** @type {ChatAnswer} */
  let answer;
  try {
    const onText = (/** @type {string} */ text) => reply.add(card, text);
    answer = await runtime.generate(request.prompt, { ...request, maxTokens, signal: call.signal, onText });
  } finally {
    leave();
  }
  call.signal.throwIfAborted();
  if (cut) {
    faults.note('cut', call);
    res.socket?.destroy();
    throw new ClientLeftError();
  }
  chat.answered.texts++;
  chat.answered.promptTokens += request.prompt.length;
  chat.answered.completionTokens += answer.tokens;
  return reply.end(card, answer, usageOf(request.prompt.length, answer.tokens));
}

/**
 * @typedef {{ id: string, created: number, model: string }} Card
 * @typedef {ReturnType<typeof usageOf>} Usage
 *
 * @typedef {object} Reply
 * @property {(card: Card, text: string) => void} add
 * @property {(card: Card, answer: ChatAnswer, usage: Usage) => unknown} end
 */

/** @returns {Reply} */
function whole() {
  let content = '';
  return {
    add: (_card, text) => {
      content += text;
    },
    end: (card, { finishReason }, usage) => {
      const message = { role: 'assistant', content, refusal: null };
      return { ...card, object: 'chat.completion', choices: [choice({ message }, finishReason)], usage };
    },
  };
}

/**
 * Nothing is sent before the first text, so what goes wrong until then is answered with its own status.
 *
 * @param {import('node:http').ServerResponse} res
 * @param {boolean} includeUsage
 * @returns {Reply}
 */
function streamed(res, includeUsage) {
  const send = (/** @type {Card} */ card, /** @type {unknown[]} */ choices, /** @type {Usage | null} */ usage = null) => {
    const chunk = { ...card, object: 'chat.completion.chunk', choices, ...(includeUsage && { usage }) };
    res.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const begin = (/** @type {Card} */ card) => {
    if (res.headersSent) return;
    res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
    send(card, [choice({ delta: { role: 'assistant', content: '' } }, null)]);
  };
  return {
    add: (card, content) => {
      begin(card);
      send(card, [choice({ delta: { content } }, null)]);
    },
    end: (card, { finishReason }, usage) => {
      begin(card);
      send(card, [choice({ delta: {} }, finishReason)]);
      if (includeUsage) send(card, [], usage);
      res.end('data: [DONE]\n\n');
      return undefined;
    },
  };
}

/**
 * @param {object} content
 * @param {ChatAnswer['finishReason'] | null} finishReason
 */
function choice(content, finishReason) {
  return { index: 0, ...content, logprobs: null, finish_reason: finishReason };
}

/**
 * @param {number} prompt
 * @param {number} completion
 */
function usageOf(prompt, completion) {
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/**
 * @param {Chat} chat
 * @param {number} loadedAt
 */
export function describeChatModel({ runtime }, loadedAt) {
  const { model, owner, contextTokens, name } = runtime;
  return { id: model, object: 'model', created: loadedAt, owned_by: owner, context_window: contextTokens, runtime: name };
}
