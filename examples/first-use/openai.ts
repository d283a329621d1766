import OpenAI from 'openai';
import { createAccount, createBudget, withJob } from 'sluice';
import { limitOpenAI } from 'sluice/openai';

const budget = createBudget({ limits: [{ usd: 5 }], prices: { 'gpt-5-mini': { inputUsdPerMillion: 0.25, outputUsdPerMillion: 2 } } });
const client = limitOpenAI(new OpenAI(), { limiter: createAccount({ concurrency: 4, budget }) });
const ask = (lane: string, input: string) => withJob({ lane }, () => client.responses.create({ model: 'gpt-5-mini', input }));
for (const { output_text } of await Promise.all([ask('background', 'Summarize the log.'), ask('user', 'What is 2 + 2?')]))
  console.log(output_text);
