import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import fc from 'fast-check';
import { countTokens as countPlainly } from 'gpt-tokenizer/encoding/cl100k_base';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { FlowConfigError } from '../../operators/index.js';
import { createTokenEstimator, estimateTokens } from '../../src/tokenizers/estimate.js';
import type { GptTokenCounterOptions } from '../../src/tokenizers/gpt.js';
import { createGptTokenCounter } from '../../src/tokenizers/gpt.js';
import { sized } from '../support/deep.js';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const letter = fc.constantFrom(...Array.from(LETTERS));
const word = fc.oneof(
  fc.constantFrom('the', 'batch', 'createLimiter', 'HTTPServer', '42', '2026', '->', '()', '日本語', 'déjà', 'слово', '한국어', '👍', '\n'),
  fc.string({ unit: letter, maxLength: 30 }),
);
/** Text as it comes: words of many kinds with something between them, or any string at all. */
const text = fc.oneof(
  fc.array(fc.tuple(word, fc.constantFrom(' ', ' ', ', ', '\n    ', '')), { maxLength: 60 }).map((parts) => parts.flat().join('')),
  fc.string({ unit: 'binary', maxLength: 200 }),
);

function isHigh(code: number | undefined): boolean {
  return code !== undefined && code >= 0xd800 && code < 0xdc00;
}

/** How often a character of a text is looked at meanwhile. */
function looksAt(run: () => void): number {
  let looks = 0;
  const original = Object.getOwnPropertyDescriptor(String.prototype, 'charCodeAt')!;
  const charCodeAt = original.value as (this: string, at: number) => number;
  Object.defineProperty(String.prototype, 'charCodeAt', {
    ...original,
    value: function (this: string, at: number): number {
      looks++;
      return charCodeAt.call(this, at);
    },
  });
  try {
    run();
  } finally {
    Object.defineProperty(String.prototype, 'charCodeAt', original);
  }
  return looks;
}

describe('estimateTokens', () => {
  it('is 0 for the empty text, and a whole number of at least 1 for any text with something in it', () => {
    expect(estimateTokens('')).toBe(0);
    fc.assert(
      fc.property(text, (each) => {
        const tokens = estimateTokens(each);
        expect(Number.isSafeInteger(tokens)).toBe(true);
        expect(tokens).toBeGreaterThanOrEqual(each.trim() === '' ? 0 : 1);
      }),
    );
  });

  it('never counts more than three tokens for a code unit, and one', () => {
    fc.assert(
      fc.property(text, (each) => {
        expect(estimateTokens(each)).toBeLessThanOrEqual(3 * each.length + 1);
      }),
    );
  });

  it('does not care where a text is cut, but for a few tokens at the cut', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        fc.pre(!isHigh(a.codePointAt(a.length - 1)));
        expect(Math.abs(estimateTokens(a + b) - estimateTokens(a) - estimateTokens(b))).toBeLessThanOrEqual(9);
      }),
      { numRuns: sized(100, 1000) },
    );
  });

  it('never shrinks by more than a token or two when the text grows', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(estimateTokens(a + b)).toBeGreaterThanOrEqual(estimateTokens(a) - 2);
      }),
      { numRuns: sized(100, 1000) },
    );
  });

  it('grows with the length of a run, whatever it is made of', () => {
    for (const unit of ['a', 'A', '7', '-', 'é', 'ж', 'あ', '語', '👍']) {
      const counts = Array.from({ length: 200 }, (_, i) => estimateTokens(unit.repeat(i + 1)));
      expect(counts).toEqual(counts.toSorted((a, b) => a - b));
      // A row of signs is the cheapest: 64 dashes are one token.
      expect(counts[199]).toBeGreaterThan(4);
    }
  });

  it('looks at each character a few times at most, in the longest runs and in the shortest', () => {
    for (const unit of ['a', 'A', 'aA', 'Aa', ' ', '-', '語', 'a1']) {
      const long = unit.repeat(1_000_000 / unit.length);
      const looks = looksAt(() => {
        expect(estimateTokens(long)).toBeGreaterThan(0);
      });
      expect(looks).toBeGreaterThanOrEqual(long.length);
      // Where a run ends, its last character and the one behind it are looked at again.
      expect(looks).toBeLessThanOrEqual(4 * long.length);
    }
  });

  it.each([
    ['prose', 'Agents push events; models and tools accept calls one slot, one token budget and one rate limit at a time. '.repeat(5)],
    [
      'code',
      'export function batch<T>(options: BatchOptions<T> = {}): OperatorFunction<T, T[]> {\n  const settings = readOptions(options);\n  return source;\n}\n'.repeat(
        5,
      ),
    ],
    ['JSON', '{ "name": "sluice", "version": "0.1.0", "keywords": ["rxjs", "batching"], "private": false, "size": 12345 }\n'.repeat(5)],
    ['Chinese', '每个代理都会推送事件，而模型和工具一次只能接受一个调用。'.repeat(10)],
    ['Japanese', 'エージェントはイベントを送り、モデルは一度に一つの呼び出しだけを受け付けます。'.repeat(10)],
    ['Russian', 'Агенты отправляют события, а модели принимают вызовы по одному за раз. '.repeat(10)],
  ])('is within a quarter of the exact count: %s', (_kind, sample) => {
    const exact = countPlainly(sample);
    expect(Math.abs(estimateTokens(sample) / exact - 1)).toBeLessThan(0.25);
  });
});

describe('createTokenEstimator', () => {
  it('adds 15 % by default, and rounds up', () => {
    const sample = 'one two three four five six seven eight nine ten';
    expect(estimateTokens(sample)).toBe(13);
    expect(createTokenEstimator()(sample)).toBe(15);
    expect(createTokenEstimator()('')).toBe(0);
  });

  it('refuses an option it does not know', () => {
    expect(() => createTokenEstimator({ modal: 'gpt-4o' } as never)).toThrow(
      /createTokenEstimator: unknown option `modal`. Did you mean `model`/,
    );
  });
});

describe('createGptTokenCounter', () => {
  let count: (text: string) => number;

  beforeAll(async () => {
    count = await createGptTokenCounter();
  });

  it('counts exactly what the vocabulary counts, as long as no run is longer than 256', () => {
    fc.assert(
      fc.property(text, (each) => {
        expect(count(each)).toBe(countPlainly(each, { disallowedSpecial: new Set() }));
      }),
    );
    expect(count('')).toBe(0);
    expect(count('a'.repeat(256))).toBe(32);
  });

  it('counts special tokens as the text they are', () => {
    expect(() => countPlainly('<|endoftext|>')).toThrow();
    expect(count('<|endoftext|>')).toBe(7);
    expect(count('before <|endoftext|> after')).toBeGreaterThan(7);
  });

  it.each([
    ['equal letters', 'a'],
    ['equal signs', '-'],
    ['blanks', ' '],
    ['line ends', '\n'],
    ['ideographs', '語'],
    ['emoji', '👍'],
    ['the alphabet', LETTERS],
  ])('hands the vocabulary 200,000 %s in pieces of 256 at most, because a piece costs the square of its length', async (_name, unit) => {
    const long = unit.repeat(200_000 / unit.length);
    const pieces: string[] = [];
    vi.doMock('gpt-tokenizer/encoding/cl100k_base', () => ({
      countTokens: (piece: string) => {
        pieces.push(piece);
        return 1;
      },
    }));
    vi.resetModules();
    try {
      const { createGptTokenCounter: mocked } = await import('../../src/tokenizers/gpt.js');
      expect((await mocked())(long)).toBe(pieces.length);
    } finally {
      vi.doUnmock('gpt-tokenizer/encoding/cl100k_base');
    }
    expect(pieces.join('')).toBe(long);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThanOrEqual(256);
    expect(count(long)).toBeGreaterThan(500);
  });

  it('is off by at most one token for each cut of a long run', () => {
    for (const unit of ['ab', '語学', '👍🏽', '=-']) {
      const long = `before ${unit.repeat(2000)} after`;
      const cuts = (unit.length * 2000) / 256;
      expect(Math.abs(count(long) - countPlainly(long))).toBeLessThanOrEqual(2 * cuts);
    }
  });

  it('cuts no emoji in two', () => {
    // After one letter of its own kind the cut falls in the middle of a pair.
    const odd = `☎${'👍'.repeat(1000)}`;
    expect(count(odd)).toBe(countPlainly(odd));
  });

  it('counts with the vocabulary of the model, and with that which is asked for', async () => {
    const chinese = '每个代理都会推送事件';
    const counts = async (options: GptTokenCounterOptions): Promise<number> => (await createGptTokenCounter(options))(chinese);
    const newer = await counts({ encoding: 'o200k_base' });
    expect(count(chinese)).toBeGreaterThan(newer);
    expect(await counts({ encoding: 'cl100k_base' })).toBe(count(chinese));
    expect(await counts({ model: 'text-embedding-3-small' })).toBe(count(chinese));
    expect(await counts({ model: 'gpt-4o' })).toBe(newer);
    await expect(counts({ model: 'gpt-4o', encoding: 'o200k_base' })).rejects.toThrow(/`model` cannot be combined with `encoding`/);
  });

  it('refuses an unknown vocabulary and an unknown option', async () => {
    await expect(createGptTokenCounter({ encoding: 'p50k' as never })).rejects.toThrow(FlowConfigError);
    await expect(createGptTokenCounter({ vocabulary: 'x' } as never)).rejects.toThrow(/unknown option `vocabulary`/);
  });

  it.each(['esm', 'cjs'] as const)('names the package that is missing, as %s', async (format) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-'));
    try {
      const file = join(folder, format === 'esm' ? 'gpt.mjs' : 'gpt.cjs');
      const entryPoints = [resolve(import.meta.dirname, '../../src/tokenizers/gpt.ts')];
      await build({
        entryPoints,
        outfile: file,
        format,
        bundle: true,
        platform: 'neutral',
        target: 'es2022',
        external: ['gpt-tokenizer/*'],
        logLevel: 'error',
      });
      const program = join(folder, `main.${format === 'esm' ? 'mjs' : 'cjs'}`);
      const load =
        format === 'esm' ? `import { createGptTokenCounter } from '${file}'` : `const { createGptTokenCounter } = require('${file}')`;
      writeFileSync(
        program,
        `${load};\ncreateGptTokenCounter().catch((error) => console.log(error.code, error.message, error.cause instanceof Error));`,
      );
      expect(execFileSync(process.execPath, [program], { encoding: 'utf8' }).trim()).toBe(
        'FLOW_CONFIG_INVALID createGptTokenCounter: could not load the optional package `gpt-tokenizer`; install it beside sluice: npm install gpt-tokenizer true',
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
