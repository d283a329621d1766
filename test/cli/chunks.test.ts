import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunkText } from '../../src/cli/chunks.js';
import { estimateTokens } from '../../src/tokenizers/estimate.js';

const MAX_TOKENS = 60;

function chunk(text: string, maxTokens = MAX_TOKENS): string[] {
  return [...chunkText(text, { maxTokens })];
}

function words(count: number, word = 'other'): string {
  return Array.from({ length: count }, () => word).join(' ');
}

/** Everything but white space, which cutting may lose. */
function ink(text: string): string {
  return text.replaceAll(/\s+/g, '');
}

const line = fc.oneof(
  { weight: 4, arbitrary: fc.lorem({ maxCount: 12 }) },
  { weight: 2, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.constantFrom('# Title', '```', '   ', '\t', '    indented()') },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 400 }).map((text) => text.replaceAll(/[\r\n]/g, '')) },
);
const documents = fc.tuple(fc.array(line, { maxLength: 60 }), fc.constantFrom('\n', '\r\n', '\r')).map(([lines, end]) => lines.join(end));

describe('chunkText', () => {
  it('covers every non-blank line exactly once, in order', () => {
    fc.assert(
      fc.property(documents, (text) => {
        expect(chunk(text).map(ink).join('')).toBe(ink(text));
      }),
    );
  });

  it('keeps every chunk within the cap, never blank', () => {
    fc.assert(
      fc.property(documents, fc.integer({ min: 16, max: 200 }), (text, maxTokens) => {
        for (const c of chunk(text, maxTokens)) {
          expect(estimateTokens(c)).toBeLessThanOrEqual(maxTokens);
          expect(c.trim()).not.toBe('');
        }
      }),
    );
  });

  it('never splits a surrogate pair', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 100, max: 400 }), (shift, count) => {
        for (const c of chunk(`${'a'.repeat(shift)}${'😀'.repeat(count)}`)) expect(c).not.toMatch(/\p{Surrogate}/u);
      }),
    );
  });

  it.each(['', '\n\n\n', '   \t \n \r\n'])('makes nothing of %j', (text) => {
    expect(chunk(text)).toEqual([]);
  });

  it('ends at a paragraph from 60 % of the cap on, and shrinks blank lines to one', () => {
    expect(chunk(`${words(25, 'other')}\n\n\n\n${words(20, 'word')}\n\n${words(10, 'last')}`)).toEqual([
      `${words(25, 'other')}\n\n${words(20, 'word')}`,
      words(10, 'last'),
    ]);
  });

  it('cuts a paragraph that does not fit between its lines', () => {
    const code = Array.from({ length: 60 }, (_, i) => `const value${String(i)} = compute(${String(i)});`);
    const chunks = chunk(code.join('\n'));
    expect(chunks.length).toBeGreaterThan(3);
    expect(chunks.flatMap((c) => c.split('\n'))).toEqual(code);
  });

  it('cuts a line that is too long after a space', () => {
    for (const c of chunk('word '.repeat(300)).slice(0, -1)) expect(c).toMatch(/ $/);
  });

  it('walks one endless line without ever looking at all of it more than a few times', () => {
    let looked = 0;
    const countTokens = (text: string): number => {
      looked += text.length;
      return estimateTokens(text);
    };
    const length = 2_000_000;
    const chunks = [...chunkText('x'.repeat(length), { maxTokens: 200, countTokens })];
    expect(chunks.join('')).toHaveLength(length);
    expect(looked).toBeLessThan(7 * length);
  });

  it('cuts a line of 5 MB', { timeout: 60_000 }, () => {
    const length = 5_000_000;
    let covered = 0;
    for (const c of chunkText('x'.repeat(length))) covered += c.length;
    expect(covered).toBe(length);
  });

  it('starts before it has read everything', () => {
    const first = chunkText(`${words(500)}\n`.repeat(1000)).next();
    expect(first.done).toBe(false);
  });
});
