// Requests and answers of OpenAI's API, which Azure shares: https://developers.openai.com/api/reference, as of October 2026.
import type { Failure, Generated, IncomingRequest, ModelQuestion, Route, Wording } from './rules.js';
import { estimateOf, fieldsOf, numberIn, serverEvent, textsIn } from './rules.js';

const ENDPOINTS = ['chat/completions', 'responses', 'embeddings', 'completions'];

/** What a request of an endpoint asks; `path` is what follows the version or the deployment. */
export function openAIRoute(path: string, { id, number, method, body, tokensOf }: IncomingRequest, deployment?: string): Route {
  const fields = fieldsOf(body);
  if (method === 'POST' && ENDPOINTS.includes(path)) {
    const model = deployment ?? fields['model'];
    if (typeof model !== 'string') return { kind: 'bad', failure: openAIError(400, 'you must provide a model parameter', null) };
    const texts = textsIn(body);
    const question = {
      ...{
        id,
        number,
        body,
        model,
        text: texts.at(-1) ?? '',
        endpoint: path,
        generates: path !== 'embeddings',
        estimate: estimateOf(texts),
      },
      inputTokens: texts.reduce((sum, text) => sum + tokensOf(text), 0),
      maxOutputTokens: numberIn(fields, 'max_completion_tokens', 'max_output_tokens', 'max_tokens'),
      streamed: fields['stream'] === true && path !== 'embeddings',
      flex: fields['service_tier'] === 'flex',
      choices: Math.max(numberIn(fields, 'n') ?? 1, numberIn(fields, 'best_of') ?? 1),
    };
    return { kind: 'model', question };
  }
  // "Batch API usage […] will not consume tokens from your standard rate limits": https://developers.openai.com/api/docs/guides/batch
  if (/^(?:batches|files|models|fine_tuning)(?:\/|$)/.test(path) || path.startsWith('responses/')) {
    return { kind: 'free', body: freeBody(method, path, number) };
  }
  return { kind: 'bad', failure: openAIError(404, `Invalid URL (${method} /v1/${path})`, null) };
}

function freeBody(method: string, path: string, number: number): unknown {
  const [what = '', name] = path.split('/');
  if (method === 'GET' && name === undefined) return { object: 'list', data: [], has_more: false };
  if (what === 'batches') {
    const status = path.endsWith('/cancel') ? 'cancelling' : 'validating';
    return {
      ...{ id: name ?? `batch_${String(number)}`, object: 'batch', endpoint: '/v1/chat/completions', status, completion_window: '24h' },
      ...{ input_file_id: 'file-1', created_at: 0, request_counts: { total: 0, completed: 0, failed: 0 } },
    };
  }
  if (what === 'files') {
    return {
      id: name ?? `file-${String(number)}`,
      object: 'file',
      bytes: 0,
      created_at: 0,
      filename: 'batch.jsonl',
      purpose: 'batch',
      status: 'processed',
    };
  }
  if (what === 'responses') {
    // The usage of a response that was made before: nothing of it was made now.
    const usage = { input_tokens: 4000, output_tokens: 90_000, total_tokens: 94_000 };
    return { id: name, object: 'response', created_at: 0, status: 'cancelled', model: '', output: [], usage };
  }
  return { id: name ?? what, object: what, created: 0, owned_by: 'openai' };
}

export function openAIError(status: number, message: string, code: string | null, type = 'invalid_request_error'): Failure {
  return { status, body: { error: { message, type, param: null, code } } };
}

/** "Flex processing may sometimes lack sufficient resources, resulting in a 429 Resource Unavailable": …/guides/flex-processing, October 2026. */
export function flexBusy(): Failure {
  return openAIError(429, 'Resource Unavailable', 'resource_unavailable', 'resource_unavailable');
}

/** …/guides/error-codes, and reports since 2023: the status of a rate limit, no hint. */
export function insufficientQuota(): Failure {
  const message =
    'You exceeded your current quota, please check your plan and billing details. For more information on this error, ' +
    'read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.';
  return openAIError(429, message, 'insufficient_quota', 'insufficient_quota');
}

/** `retry-after` in seconds and `retry-after-ms`. */
export function retryAfter(hintMs: number | undefined): Readonly<Record<string, string>> {
  if (hintMs === undefined) return {};
  return { 'retry-after': String(Math.ceil(hintMs / 1000)), 'retry-after-ms': String(Math.ceil(hintMs)) };
}

export function openAIWording(question: ModelQuestion, generated: Generated): Wording {
  if (question.endpoint === 'responses') return responses(question, generated);
  if (question.endpoint === 'embeddings') return embeddings(question, generated);
  return chat(question, generated);
}

function chat(question: ModelQuestion, generated: Generated): Wording {
  const { inputTokens, model, number, endpoint } = question;
  const { text, outputTokens, reasoningTokens, cacheReadTokens, finish } = generated;
  const usage = generated.usage && {
    usage: {
      prompt_tokens: inputTokens,
      completion_tokens: outputTokens,
      total_tokens: inputTokens + outputTokens,
      prompt_tokens_details: { cached_tokens: cacheReadTokens, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: reasoningTokens,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    },
  };
  const same = { id: `chatcmpl-${String(number)}`, created: 0, model, service_tier: 'default' };
  const finished = { index: 0, logprobs: null, finish_reason: finish };
  const isChat = endpoint === 'chat/completions';
  const options = fieldsOf(fieldsOf(question.body)['stream_options']);
  // "`include_usage`: an additional chunk will be streamed before `[DONE]`; all other chunks include `usage` with a null value."
  const wantsUsage = options['include_usage'] === true && usage !== false;
  const chunk = (choices: unknown, rest: object = {}): string =>
    serverEvent({
      ...same,
      object: isChat ? 'chat.completion.chunk' : 'text_completion',
      choices,
      ...(wantsUsage && { usage: null }),
      ...rest,
    });
  const delta = (part: object): string => chunk([{ index: 0, delta: part, logprobs: null, finish_reason: null }]);
  return {
    whole: () => ({
      ...same,
      object: isChat ? 'chat.completion' : 'text_completion',
      choices: [
        isChat ? { ...finished, message: { role: 'assistant', content: text, refusal: null, annotations: [] } } : { ...finished, text },
      ],
      ...usage,
    }),
    opening: () => (isChat ? delta({ role: 'assistant', content: '', refusal: null }) : ''),
    piece: (part) => (isChat ? delta({ content: part }) : chunk([{ index: 0, text: part, logprobs: null, finish_reason: null }])),
    closing: () =>
      chunk([isChat ? { ...finished, delta: {} } : { ...finished, text: '' }]) +
      (wantsUsage ? chunk([], usage) : '') +
      serverEvent('[DONE]'),
  };
}

function responses(question: ModelQuestion, generated: Generated): Wording {
  const { inputTokens, model, number } = question;
  const { text, outputTokens, reasoningTokens, cacheReadTokens, finish } = generated;
  const usage = {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: cacheReadTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  };
  const part = (written: string): object => ({ type: 'output_text', text: written, annotations: [], logprobs: [] });
  const item = (status: string, content: unknown): object => ({
    id: `msg_${String(number)}`,
    type: 'message',
    status,
    role: 'assistant',
    content,
  });
  const response = (status: string, output: unknown, rest: object): object => ({
    ...{
      id: `resp_${String(number)}`,
      object: 'response',
      created_at: 0,
      status,
      error: null,
      incomplete_details: null,
      instructions: null,
    },
    ...{
      metadata: {},
      model,
      output,
      parallel_tool_calls: true,
      temperature: 1,
      tool_choice: 'auto',
      tools: [],
      top_p: 1,
      service_tier: 'default',
    },
    ...rest,
  });
  const ended = finish === 'length' ? 'incomplete' : 'completed';
  const whole = (): object =>
    response(ended, [item('completed', [part(text)])], {
      ...(finish === 'length' && { incomplete_details: { reason: 'max_output_tokens' } }),
      ...(generated.usage && { usage }),
    });
  let sequence = 0;
  const event = (type: string, rest: object): string => serverEvent({ type, sequence_number: sequence++, ...rest }, type);
  const place = { item_id: `msg_${String(number)}`, output_index: 0, content_index: 0 };
  return {
    whole,
    opening: () =>
      event('response.created', { response: response('in_progress', [], { usage: null }) }) +
      event('response.output_item.added', { output_index: 0, item: item('in_progress', []) }) +
      event('response.content_part.added', { ...place, part: part('') }),
    piece: (written) => event('response.output_text.delta', { ...place, delta: written, logprobs: [] }),
    closing: () =>
      event('response.output_text.done', { ...place, text, logprobs: [] }) +
      event('response.content_part.done', { ...place, part: part(text) }) +
      event('response.output_item.done', { output_index: 0, item: item('completed', [part(text)]) }) +
      event(`response.${ended}`, { response: whole() }),
  };
}

function embeddings({ body, model, inputTokens }: ModelQuestion, generated: Generated): Wording {
  const { input, encoding_format: encoding } = fieldsOf(body);
  const inputs = Array.isArray(input) ? input : [input];
  // Two numbers, 0.5 and 0.25: base64 of their 8 bytes as float32 in little endian.
  const vector = encoding === 'base64' ? 'AAAAPwAAgD4=' : [0.5, 0.25];
  return {
    whole: () => ({
      object: 'list',
      data: inputs.map((_, index) => ({ object: 'embedding', index, embedding: vector })),
      model,
      ...(generated.usage && { usage: { prompt_tokens: inputTokens, total_tokens: inputTokens } }),
    }),
    opening: () => '',
    piece: () => '',
    closing: () => '',
  };
}
