import { createGptTokenCounter, GPT_TOKEN_COUNTER_DEFAULTS, type GptTokenCounterOptions } from 'sluice/tokenizers/gpt';

const options: GptTokenCounterOptions = { encoding: GPT_TOKEN_COUNTER_DEFAULTS.encoding };

export async function count(text: string): Promise<number> {
  const counter = await createGptTokenCounter(options);
  same<(text: string) => number>()(counter);
  return counter(text);
}
