/* eslint-disable @typescript-eslint/no-deprecated -- what both majors of the AI SDK have */
import type { ServerResponse } from 'node:http';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI } from '@langchain/openai';
import { streamText } from 'ai';
import { streamText as streamText6 } from 'ai6';
import OpenAI from 'openai';
import { createOpenAICompatible as createOpenAICompatible2 } from 'openai-compatible2';
import OpenAI6 from 'openai6';
import type { Limiter } from '../../../operators/index.js';
import { limitLanguageModel } from '../../../src/adapters/ai-sdk.js';
import { limitAnthropic } from '../../../src/adapters/anthropic.js';
import { limitFetch } from '../../../src/adapters/fetch.js';
import { limitOpenAI } from '../../../src/adapters/openai.js';

/** A question for one stream. */
export interface Question {
  readonly limiter: Limiter;
  /** Of the server, without a version. */
  readonly url: string;
  readonly text: string;
  readonly signal?: AbortSignal;
  /** The time limit of the adapter. */
  readonly timeoutMs?: number;
}

/** A stream as its client gives it. */
export interface Answer {
  values(): AsyncIterable<unknown>;
  web(): ReadableStream<unknown>;
  /** The last word of the answer, after which some stop reading. */
  isLast(value: unknown): boolean;
  /** How its SDK sends it on, when it has a way. */
  send?(response: ServerResponse): void;
}

export type Ask = (question: Question) => Promise<Answer>;

const messages = (text: string) => [{ role: 'user' as const, content: text }];
const rules = ({ limiter, timeoutMs }: Question) => ({ limiter, retry: false as const, ...(timeoutMs !== undefined && { timeoutMs }) });
const withSignal = ({ signal }: Question) => (signal ? { signal } : {});

/** What the clients of OpenAI and Anthropic give, all versions. */
interface SdkStream extends AsyncIterable<unknown> {
  toReadableStream(): ReadableStream<unknown>;
}

const sdkAnswer = (stream: SdkStream, isLast: Answer['isLast']): Answer => ({
  values: () => stream,
  web: () => stream.toReadableStream(),
  isLast,
});

const finishOf = (value: unknown): unknown =>
  (value as { readonly choices?: readonly { readonly finish_reason?: unknown }[] }).choices?.[0]?.finish_reason ?? null;
const typeOf = (value: unknown): unknown => (value as { readonly type?: unknown }).type;

const openai =
  (make: (url: string) => OpenAI): Ask =>
  async (question) => {
    const client = limitOpenAI(make(`${question.url}/v1`), rules(question));
    const asked = { model: 'm', stream: true, messages: messages(question.text) } as const;
    const stream = await client.chat.completions.create(asked, withSignal(question));
    return sdkAnswer(stream, (value) => finishOf(value) !== null);
  };

interface AiSdk {
  readonly streamText: typeof streamText;
  readonly createOpenAICompatible: typeof createOpenAICompatible;
}

const aiSdk =
  (sdk: AiSdk): Ask =>
  (question) => {
    const provider = sdk.createOpenAICompatible({ name: 'p', baseURL: `${question.url}/v1`, apiKey: 'k' });
    const model = limitLanguageModel(provider('m'), rules(question));
    const { signal } = question;
    const result = sdk.streamText({
      model,
      prompt: question.text,
      maxRetries: 0,
      onError: () => undefined,
      ...(signal && { abortSignal: signal }),
    });
    return Promise.resolve({
      values: () => result.fullStream,
      web: () => result.textStream,
      isLast: (value) => typeOf(value) === 'finish',
      send: (response) => {
        void result.pipeUIMessageStreamToResponse(response);
      },
    });
  };

export const CLIENTS: Readonly<Record<string, Ask>> = {
  limitFetch: async (question) => {
    const body = JSON.stringify({ model: 'm', stream: true, messages: messages(question.text) });
    const limited = limitFetch(rules(question));
    const response = await limited(`${question.url}/v1/chat/completions`, { method: 'POST', body, ...withSignal(question) });
    const stream = response.body as ReadableStream<Uint8Array>;
    return {
      values: () => stream,
      web: () => stream,
      isLast: (value) => new TextDecoder().decode(value as Uint8Array).includes('[DONE]'),
    };
  },
  'OpenAI 7': openai((baseURL) => new OpenAI({ apiKey: 'k', baseURL })),
  'OpenAI 6': openai((baseURL) => new OpenAI6({ apiKey: 'k', baseURL }) as unknown as OpenAI),
  Anthropic: async (question) => {
    const client = limitAnthropic(new Anthropic({ apiKey: 'k', baseURL: question.url }), rules(question));
    const asked = { model: 'm', max_tokens: 9, stream: true, messages: messages(question.text) } as const;
    const stream = await client.messages.create(asked, withSignal(question));
    return sdkAnswer(stream, (value) => typeOf(value) === 'message_stop');
  },
  'AI SDK 7': aiSdk({ streamText, createOpenAICompatible }),
  'AI SDK 6': aiSdk({
    streamText: streamText6,
    createOpenAICompatible: createOpenAICompatible2,
  } as unknown as AiSdk),
  LangChain: async (question) => {
    const fetch = limitFetch(rules(question));
    const configuration = { baseURL: `${question.url}/v1`, fetch };
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, configuration });
    const stream = await model.stream(question.text, withSignal(question));
    return {
      values: () => stream,
      web: () => stream,
      send: (response) => {
        void (async () => {
          for await (const { content } of stream) {
            if (response.destroyed) break;
            response.write(`${JSON.stringify(content)}\n`);
          }
          response.end();
        })();
      },
      isLast: (value) => (value as { response_metadata?: { finish_reason?: unknown } }).response_metadata?.finish_reason !== undefined,
    };
  },
};
