import type { LanguageModelMiddleware } from 'ai';
import { APICallError } from 'ai';

type Model = Parameters<NonNullable<LanguageModelMiddleware['wrapGenerate']>>[0]['model'];

interface Message {
  readonly content: readonly { readonly text: string }[];
  readonly usage?: Readonly<Record<'input_tokens' | 'cache_read_input_tokens' | 'cache_creation_input_tokens' | 'output_tokens', number>>;
}

/** A model of the AI SDK over Anthropic's Messages API, for whole answers to one text. */
export function messagesModel(modelId: string, url: string, fetch: typeof globalThis.fetch): Model {
  return {
    specificationVersion: 'v4',
    provider: 'anthropic.messages',
    modelId,
    supportedUrls: {},
    doGenerate: async ({ prompt, maxOutputTokens, abortSignal }) => {
      const body = { model: modelId, max_tokens: maxOutputTokens, messages: prompt };
      const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal: abortSignal ?? null });
      const responseHeaders = Object.fromEntries(response.headers);
      const text = await response.text();
      if (!response.ok) {
        const { status: statusCode } = response;
        throw new APICallError({ message: text, url, requestBodyValues: body, statusCode, responseHeaders, responseBody: text });
      }
      const { content, usage } = JSON.parse(text) as Message;
      const [read, written, rest] = [usage?.cache_read_input_tokens, usage?.cache_creation_input_tokens, usage?.input_tokens];
      return {
        content: content.map((part) => ({ type: 'text', text: part.text })),
        finishReason: { unified: 'stop', raw: 'end_turn' },
        usage: {
          inputTokens: { total: usage && (rest ?? 0) + (read ?? 0) + (written ?? 0), noCache: rest, cacheRead: read, cacheWrite: written },
          outputTokens: { total: usage?.output_tokens, text: usage?.output_tokens, reasoning: undefined },
        },
        warnings: [],
        response: { headers: responseHeaders },
      };
    },
    doStream: () => Promise.reject(new Error('whole answers only')),
  };
}
