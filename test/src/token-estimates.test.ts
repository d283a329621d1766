import { countTokens as cl100k } from 'gpt-tokenizer/encoding/cl100k_base';
import { countTokens as o200k } from 'gpt-tokenizer/encoding/o200k_base';
import { modelToEncodingMap } from 'gpt-tokenizer/mapping';
import { describe, expect, it } from 'vitest';
import { encodingOf } from '../../src/tokenizers/encoding-of.js';
import { createTokenEstimator, estimatorOf } from '../../src/tokenizers/estimate.js';
import { sized } from '../support/deep.js';
import { SCRIPTS, translatedTexts } from '../support/translated-texts.js';

const PLAIN = { disallowedSpecial: new Set<string>() };

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

describe.each([
  ['cl100k_base', cl100k],
  ['o200k_base', o200k],
] as const)('an estimate of %s', (encoding, countTokens) => {
  const estimate = estimatorOf(encoding);
  const ratioOf = (text: string): number => estimate(text) / countTokens(text, PLAIN);

  it.each([200, 1000])('of %i characters is 85 to 160 percent of the count in any script, of code and of data', (size) => {
    const texts = translatedTexts(size, sized(12, 100));
    const ratios = new Map(Array.from(texts, ([name, pieces]) => [name, pieces.map(ratioOf)]));
    for (const [name, each] of ratios) {
      if (each.length === 0) continue;
      expect(mean(each), name).toBeGreaterThanOrEqual(0.85);
      expect(mean(each), name).toBeLessThanOrEqual(1.6);
    }
    const all = Array.from(ratios.values()).flat();
    expect(all.length).toBeGreaterThan(300);
    expect(all.filter((ratio) => ratio < 0.85 || ratio > 1.6).length / all.length).toBeLessThanOrEqual(0.01);
    const read = Array.from(texts.values()).flat().join('');
    for (const [script, letter] of Object.entries(SCRIPTS)) if (size === 200) expect(letter.test(read), script).toBe(true);
  });
});

describe('the encoding of a model', () => {
  it('is that which gpt-tokenizer knows it by', () => {
    const known = Object.entries(modelToEncodingMap).flatMap(([model, encoding]) =>
      /^(?:cl100k|o200k)/.test(encoding) ? [[model, encoding.slice(0, 4)]] : [],
    );
    expect(known.length).toBeGreaterThan(20);
    expect(known.map(([model = '']) => [model, encodingOf(model).slice(0, 4)])).toEqual(known);
  });

  it.each([
    ['openai/gpt-4o', 'o200k_base'],
    ['ft:gpt-4o-mini-2024-07-18:acme::abc', 'o200k_base'],
    ['us.openai.gpt-oss-120b-1:0', 'o200k_base'],
    ['GPT-5.1', 'o200k_base'],
    ['gpt-35-turbo', 'cl100k_base'],
    ['gpt-4-turbo', 'cl100k_base'],
    ['text-embedding-3-large', 'cl100k_base'],
    ['azure/text-embedding-ada-002', 'cl100k_base'],
    ['claude-opus-4-1', 'cl100k_base'],
    ['gemini-2.5-pro', 'cl100k_base'],
    ['llama-o1', 'cl100k_base'],
    ['proto3', 'cl100k_base'],
    ['', 'cl100k_base'],
    [undefined, 'cl100k_base'],
    [5, 'cl100k_base'],
  ])('of %s is %s', (model, encoding) => {
    expect(encodingOf(model)).toBe(encoding);
  });

  it('is what an estimator takes', () => {
    const text = 'დამოუკიდებლად '.repeat(20);
    expect(createTokenEstimator({ model: 'gpt-4o' })(text)).toBe(estimatorOf('o200k_base')(text));
    expect(createTokenEstimator()(text)).toBeGreaterThan(3 * createTokenEstimator({ model: 'gpt-4o' })(text));
    expect(() => createTokenEstimator({ model: '' })).toThrow(/`model`/);
  });
});
