import OpenAI from 'openai';
import { createEmbedder, createModelCaller } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type HttpRequest,
  type HttpRules,
  type LimitOpenAIOptions,
  limitOpenAI,
  type OpenAIChat,
  type OpenAIChatParams,
  type OpenAIChatRequest,
  type OpenAIEmbeddingsOptions,
  openAIChat,
  openAIEmbeddings,
} from 'sluice/openai';

const client = new OpenAI({ apiKey: 'none' });
const limiter = createLimiter({ concurrency: 2 });
const rules = { limiter };
const httpRules: HttpRules = { ...rules, job: ({ url }: HttpRequest) => ({ cost: { tokens: url.length } }) };
const options: LimitOpenAIOptions = { ...httpRules, fetch: globalThis.fetch };
same<OpenAI>()(limitOpenAI(client, options));

const chat: OpenAIChat<OpenAIChatParams> = openAIChat(client);
const chatOfModel: OpenAIChat<OpenAIChatRequest> = openAIChat(client, { model: 'm' });
const models = createModelCaller({ call: chatOfModel, limiter });
export const answer = async (): Promise<string | null | undefined> =>
  (await models.callAsync({ messages: [{ role: 'user', content: 'hello' }] })).choices[0]?.message.content;
export const other = createModelCaller({ call: chat });

const embeddings: OpenAIEmbeddingsOptions = { model: 'm', dimensions: 8 };
export const vector: Promise<Float32Array> = createEmbedder({ call: openAIEmbeddings(client, embeddings), limiter }).embedAsync('hello');
