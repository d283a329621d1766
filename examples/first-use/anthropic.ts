import Anthropic from '@anthropic-ai/sdk';
import { createAccount, createBudget, withJob } from 'sluice';
import { limitAnthropic } from 'sluice/anthropic';

const budget = createBudget({ limits: [{ usd: 5 }], prices: { 'claude-haiku-4-5': { inputUsdPerMillion: 1, outputUsdPerMillion: 5 } } });
const client = limitAnthropic(new Anthropic(), { limiter: createAccount({ concurrency: 4, budget }) });
const ask = (lane: string, content: string) =>
  withJob({ lane }, () => client.messages.create({ model: 'claude-haiku-4-5', max_tokens: 200, messages: [{ role: 'user', content }] }));
for (const { content } of await Promise.all([ask('background', 'Summarize the log.'), ask('user', 'What is 2 + 2?')])) console.log(content);
