import Anthropic from '@anthropic-ai/sdk';
import { createModelCaller } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type AnthropicChat,
  type AnthropicChatRequest,
  anthropicChat,
  createAnthropicMiddleware,
  type HttpRequest,
  type HttpRules,
  limitAnthropic,
} from 'sluice/anthropic';

const limiter = createLimiter({ concurrency: 2 });
const rules = { limiter };
const httpRules: HttpRules = { ...rules, job: ({ url }: HttpRequest) => ({ cost: { tokens: url.length } }) };
const client = new Anthropic({ apiKey: 'none', middleware: [createAnthropicMiddleware(httpRules)] });
same<Anthropic>()(limitAnthropic(new Anthropic({ apiKey: 'none' }), httpRules));

const chat: AnthropicChat = anthropicChat(client);
const request: AnthropicChatRequest = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] };
export const message: Promise<Anthropic.Message> = createModelCaller({ call: chat, limiter }).callAsync(request);
