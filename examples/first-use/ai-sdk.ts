import { openai } from '@ai-sdk/openai';
import { generateText } from 'ai';
import { createAccount, createBudget, withJob } from 'sluice';
import { limitLanguageModel } from 'sluice/ai-sdk';

const budget = createBudget({ limits: [{ usd: 5 }], prices: { 'gpt-5-mini': { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 } } });
const model = limitLanguageModel(openai('gpt-5-mini'), { limiter: createAccount({ concurrency: 4, budget }) });
const ask = (lane: string, prompt: string) => withJob({ lane }, () => generateText({ model, prompt }));
for (const { text } of await Promise.all([ask('background', 'Summarize the log.'), ask('user', 'What is 2 + 2?')])) console.log(text);
