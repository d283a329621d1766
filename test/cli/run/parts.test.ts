import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { partsOf } from '../../../src/cli/run/parts.js';
import { estimateTokens } from '../../../src/tokenizers/estimate.js';

const parts = (text: string, rules: Omit<Parameters<typeof partsOf>[0], 'field'>): string[] =>
  partsOf({ field: 'text', ...rules }, { text });
const wordsOf = (texts: readonly string[]): string[] => texts.flatMap((text) => text.split(/\s+/)).filter((word) => word !== '');
const numbered = (count: number): string => Array.from({ length: count }, (_, i) => `word${String(i)}`).join(' ');

describe('parts of a text', () => {
  it.each<[string, string, readonly string[]]>([
    ['at each separator', 'one\n---\ntwo\n---\nthree', ['one', 'two', 'three']],
    ['without blank ones', '\n---\none\n---\n \n---\n', ['one']],
    ['of which each keeps its paragraphs', 'one\n\nmore\n---\ntwo', ['one\n\nmore', 'two']],
    ['with other ends of lines', 'one\r\n---\r\ntwo\r\nmore', ['one', 'two\nmore']],
    ['of a text without one', ' one ', ['one']],
    ['of a blank text', ' \n', []],
  ])('are split %s', (_what, text, expected) => {
    expect(parts(text, { separator: '\n---\n' })).toEqual(expected);
  });

  it('are as long as they are without `maxTokens`, and cut where they are longer with it', () => {
    const text = `short\n\nbut of two paragraphs#${numbered(100)}`;
    expect(parts(text, { separator: '#' })).toHaveLength(2);
    const [first, ...rest] = parts(text, { separator: '#', maxTokens: 40 });
    expect(first).toBe('short\n\nbut of two paragraphs');
    expect(rest.length).toBeGreaterThan(2);
    for (const part of rest) expect(estimateTokens(part)).toBeLessThanOrEqual(40);
    expect(wordsOf(rest)).toEqual(numbered(100).split(' '));
  });

  it('repeat the end of the part before, inside one separator only', () => {
    const text = `${numbered(60)}#other`;
    const cut = parts(text, { separator: '#', maxTokens: 40, overlapTokens: 10 });
    expect(cut.at(-1)).toBe('other');
    for (const [i, part] of cut.slice(0, -1).entries()) {
      expect(estimateTokens(part)).toBeLessThanOrEqual(41);
      if (i === 0) continue;
      const [repeated = '', ...own] = part.split('\n');
      expect(repeated).not.toBe('');
      expect(estimateTokens(repeated)).toBeLessThanOrEqual(10);
      expect(cut[i - 1]?.endsWith(repeated) || cut[i - 1]?.trimEnd().endsWith(repeated)).toBe(true);
      expect(own.join('')).not.toBe('');
    }
  });

  it('leave no word out, whatever the rules', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('alpha', 'beta', 'γάμμα', '漢字', '#', '\n', '\n\n', ' '), { maxLength: 200 }),
        fc.option(fc.constantFrom('#', '\n'), { nil: undefined }),
        fc.integer({ min: 20, max: 60 }),
        fc.constantFrom(0, 5, 10),
        (pieces, separator, maxTokens, overlapTokens) => {
          const text = pieces.join(' ');
          const rules = { maxTokens, overlapTokens, ...(separator !== undefined && { separator }) };
          const found = new Set(wordsOf(parts(text, rules)));
          const wanted = wordsOf(separator === undefined ? [text] : text.split(separator));
          for (const word of wanted) expect(found.has(word)).toBe(true);
        },
      ),
    );
  });
});
