import { seededRandom } from '../../marbles/random.js';

const WORDS = 'the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not'.split(
  ' ',
);

/** How this provider counts: a token a word. */
export const countTokens = (text: string): number => text.split(' ').length;

/** The provider refuses every text with this word in it, and does not say which text it was. */
export const REFUSED = 'forbidden';

/** 5,000 texts of 20 to 100 tokens, 301,190 tokens in all, ten of them refused; the same in every run. */
export function makeTexts(): string[] {
  const [lengths, words, places] = [seededRandom(13_774), seededRandom(1), seededRandom(2)];
  const texts = Array.from({ length: 5000 }, () =>
    Array.from({ length: 20 + Math.floor(lengths() * 81) }, () => WORDS[Math.floor(words() * WORDS.length)]),
  );
  const refused = new Set<number>();
  while (refused.size < 10) refused.add(Math.floor(places() * texts.length));
  return texts.map((text, i) => (refused.has(i) ? text.with(0, REFUSED) : text).join(' '));
}

/** Seconds that a job cannot take less than: what the burst does not pay for comes in at the rate. */
export function leastSeconds(tokens: number, rate: { readonly tokensPerSecond: number; readonly burstSeconds: number }): number {
  return tokens / rate.tokensPerSecond - rate.burstSeconds;
}
