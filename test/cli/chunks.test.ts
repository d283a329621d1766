import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Chunk, chunkText } from '../../src/cli/chunks.js';
import { estimateTokens } from '../../src/tokenizers/estimate.js';

const MAX_TOKENS = 60;

function chunk(text: string, file = 'page.md', maxTokens = MAX_TOKENS): Chunk[] {
  return [...chunkText(file, text, { maxTokens })];
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
  {
    weight: 1,
    arbitrary: fc.constantFrom('# Title', '## Part two', '```js', '```', '~~~', 'Title', '=====', '   ', '\t', '    indented()'),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 400 }).map((text) => text.replaceAll(/[\r\n]/g, '')) },
);
const documents = fc.tuple(fc.array(line, { maxLength: 60 }), fc.constantFrom('\n', '\r\n', '\r')).map(([lines, end]) => lines.join(end));
const files = fc.constantFrom('page.md', 'notes.txt', 'code.ts');

describe('chunkText', () => {
  it('covers every non-blank line exactly once, in order', () => {
    fc.assert(
      fc.property(documents, files, (text, file) => {
        expect(
          chunk(text, file)
            .map((c) => ink(c.text))
            .join(''),
        ).toBe(ink(text));
      }),
    );
  });

  it('keeps every chunk within the cap, never blank, with the hash of its text', () => {
    fc.assert(
      fc.property(documents, files, fc.integer({ min: 16, max: 200 }), (text, file, maxTokens) => {
        for (const c of chunk(text, file, maxTokens)) {
          expect(estimateTokens(c.text)).toBeLessThanOrEqual(maxTokens);
          expect(c.text.trim()).not.toBe('');
          expect(c.sha256).toBe(createHash('sha256').update(c.text).digest('hex'));
          expect(c.file).toBe(file);
        }
      }),
    );
  });

  it('gives the same chunks for the same text', () => {
    fc.assert(
      fc.property(documents, files, (text, file) => {
        expect(chunk(text, file)).toEqual(chunk(text, file));
      }),
    );
  });

  it('names the lines a chunk comes from', () => {
    fc.assert(
      fc.property(documents, files, (text, file) => {
        const lines = text.split(/\r\n|[\n\r]/);
        let lastLine = 1;
        for (const c of chunk(text, file)) {
          expect(c.startLine).toBeGreaterThanOrEqual(lastLine);
          expect(c.endLine).toBeGreaterThanOrEqual(c.startLine);
          expect(ink(lines.slice(c.startLine - 1, c.endLine).join(''))).toContain(ink(c.text));
          lastLine = c.endLine;
        }
      }),
    );
  });

  it('never splits a surrogate pair', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 100, max: 400 }), (shift, count) => {
        for (const c of chunk(`${'a'.repeat(shift)}${'😀'.repeat(count)}`)) expect(c.text).not.toMatch(/\p{Surrogate}/u);
      }),
    );
  });

  it.each(['', '\n\n\n', '   \t \n \r\n'])('makes nothing of %j', (text) => {
    expect(chunk(text)).toEqual([]);
  });

  it('keeps a heading with the text below it, also when that starts a new chunk', () => {
    const chunks = chunk(`${words(40)}\n\n## Usage\n\n${words(18, 'usage')}`);
    expect(chunks.map((c) => c.text.startsWith('## Usage'))).toEqual([false, true]);
    expect(chunks[1]).toMatchObject({ startLine: 3, endLine: 5 });
  });

  it('reads an underlined line as a heading', () => {
    const chunks = chunk(`${words(40)}\n\nUsage\n=====\n\n${words(18, 'usage')}`);
    expect(chunks.map((c) => c.text.startsWith('Usage\n=====\n\nusage'))).toEqual([false, true]);
  });

  it('carries a heading over even when its text has to be cut', () => {
    const chunks = chunk(`## Usage\n${'word '.repeat(200)}`);
    expect(chunks.length).toBeGreaterThan(3);
    expect(chunks[0]?.text).toMatch(/^## Usage\nword/);
  });

  it('reads a `#` line as a heading in Markdown only', () => {
    const text = `${words(20)}\n\n# comment\n\n${words(10)}`;
    expect(chunk(text, 'page.md')).toHaveLength(2);
    expect(chunk(text, 'code.py')).toHaveLength(1);
  });

  it('leaves a code fence in one piece when it fits, blank lines and `#` lines included', () => {
    const fence = '```sh\n# install\n\nnpm ci\n\n# run\nnpm test\n```';
    const chunks = chunk(`${words(40)}\n\n${fence}\n\n${words(40)}`);
    expect(chunks.filter((c) => c.text.includes(fence))).toHaveLength(1);
  });

  it('cuts a code fence that does not fit between its lines', () => {
    const code = Array.from({ length: 60 }, (_, i) => `const value${String(i)} = compute(${String(i)});`);
    const lines = chunk(['```js', ...code, '```'].join('\n')).flatMap((c) => c.text.split('\n'));
    expect(lines).toEqual(['```js', ...code, '```']);
  });

  it('is not confused by a fence that is never closed, or by code marks inside a line', () => {
    expect(chunk('```js\na();\n\nb();')).toHaveLength(1);
    const inline = chunk(`\`\`\`not a fence\`\`\`\n\n# Title\n\n${words(50)}`);
    expect(inline.at(-1)?.text).toContain('# Title');
  });

  it('cuts a line that is too long after a space', () => {
    for (const c of chunk('word '.repeat(300)).slice(0, -1)) expect(c.text).toMatch(/ $/);
  });

  it('walks one endless line without ever looking at all of it more than a few times', () => {
    let looked = 0;
    const countTokens = (text: string): number => {
      looked += text.length;
      return estimateTokens(text);
    };
    const length = 2_000_000;
    const chunks = [...chunkText('data.txt', 'x'.repeat(length), { maxTokens: 200, countTokens })];
    expect(chunks.reduce((sum, c) => sum + c.text.length, 0)).toBe(length);
    expect(looked).toBeLessThan(7 * length);
  });

  it('cuts a line of 5 MB', { timeout: 60_000 }, () => {
    const length = 5_000_000;
    let covered = 0;
    for (const c of chunkText('data.txt', 'x'.repeat(length))) covered += c.text.length;
    expect(covered).toBe(length);
  });

  it('starts before it has read everything', () => {
    const first = chunkText('data.txt', `${words(500)}\n`.repeat(1000)).next();
    expect(first.done).toBe(false);
  });
});
