import { createGptTokenCounter, type GptTokenCounterOptions } from 'sluice/tokenizers/gpt';

const options: GptTokenCounterOptions = { encoding: 'cl100k_base' };

export async function count(text: string): Promise<number> {
  const counter = await createGptTokenCounter(options);
  same<(text: string) => number>()(counter);
  return counter(text);
}
