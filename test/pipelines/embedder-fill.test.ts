import { countTokens as cl100k } from 'gpt-tokenizer/encoding/cl100k_base';
import { lastValueFrom, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { EmbedCall } from '../../src/pipelines/create-embedder.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { apiOf } from '../../src/pipelines/embeddings-api.js';
import { createGptTokenCounter } from '../../src/tokenizers/gpt.js';
import { piecesOf, SCRIPTS, translatedTexts } from '../support/translated-texts.js';

const LIMIT = 6000;
/** A text in each script, as a list of short ones, each of them another. */
const WRITTEN: Readonly<Record<string, string>> = {
  Latin: 'axe es',
  Cyrillic: 'TypeScript ru',
  Greek: 'axe el',
  Hebrew: 'axe he',
  Arabic: 'zod ar',
  Armenian: 'zod hy',
  Georgian: 'zod ka',
  Devanagari: 'zod hi',
  Tamil: 'zod ta',
  Thai: 'zod th',
  Hangul: 'TypeScript ko',
  Kana: 'TypeScript ja',
  Han: 'TypeScript zh-cn',
};

const NOT_PROSE = [
  'code',
  'Markdown',
  'JSON',
  'JSON of numbers',
  'CSV',
  'digits',
  'dates',
  'hex',
  'base64',
  'letters',
  'emoji',
  'emoji in prose',
];

const sources = translatedTexts(100, Infinity);

/** About `characters` of it, every text another by its number. */
function textsOf(name: string, characters: number): string[] {
  const pieces = sources.get(name) as readonly string[];
  return piecesOf(Array.from({ length: Math.ceil(characters / 100) }, (_, i) => pieces[i % pieces.length]).join(''), 120, Infinity).map(
    (text, i) => `${String(i)} ${text}`,
  );
}

/** A provider that counts exactly, says what it counted, and refuses what is over its limit. */
function provider(): { readonly call: EmbedCall; readonly sizes: number[] } {
  const sizes: number[] = [];
  const call: EmbedCall = (texts, context) => {
    const tokens = texts.reduce((sum, text) => sum + cl100k(text, { disallowedSpecial: new Set() }), 0);
    sizes.push(tokens);
    if (tokens > LIMIT) throw Object.assign(new Error('too many tokens'), { status: 400 });
    context.settle({ inputTokens: tokens });
    return Promise.resolve(texts.map(() => [1, 0]));
  };
  return { call, sizes };
}

const mean = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/** All calls but the last, which has what is left, and those that came before anything was known. */
async function fill(
  texts: readonly string[],
  countTokens?: (text: string) => number,
): Promise<{ readonly first: number[]; readonly then: number[] }> {
  const { call, sizes } = provider();
  const embedder = createEmbedder({
    call: { embed: call, ...apiOf('text-embedding-3-small') },
    maxTokens: LIMIT,
    concurrency: 1,
    ...(countTokens && { countTokens }),
  });
  const results = await lastValueFrom(embedder.embedFrom(texts, { lane: 'background' }).pipe(toArray()));
  await embedder.drain();
  expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
  const shares = sizes.map((size) => size / LIMIT);
  return { first: shares.slice(0, 6), then: shares.slice(6, -1) };
}

describe('batches of an embedder, as the provider counts them', () => {
  it('are texts in at least twelve scripts', () => {
    expect(Object.keys(WRITTEN).length).toBeGreaterThanOrEqual(12);
    for (const [script, name] of Object.entries(WRITTEN))
      expect(SCRIPTS[script as keyof typeof SCRIPTS].test(textsOf(name, 2000).join('')), script).toBe(true);
  });

  it.each(Object.entries(WRITTEN))('of texts in %s keep to the limit, and fill it', async (script, name) => {
    const { first, then } = await fill(textsOf(name, script === 'Latin' ? 500_000 : 160_000));
    expect(Math.max(...first, ...then)).toBeLessThanOrEqual(1);
    expect(mean(first)).toBeGreaterThan(0.5);
    expect(then.length).toBeGreaterThan(2);
    expect(mean(then)).toBeGreaterThanOrEqual(0.9);
  });

  it.each(NOT_PROSE)('of %s keep to the limit, and fill it', async (name) => {
    const { first, then } = await fill(textsOf(name, 300_000));
    expect(Math.max(...first, ...then)).toBeLessThanOrEqual(1);
    expect(then.length).toBeGreaterThan(2);
    expect(mean(then)).toBeGreaterThanOrEqual(0.9);
  });

  it('of texts in all of them, mixed, keep to the limit, and fill it', async () => {
    const lists = Object.values(WRITTEN).map((name) => textsOf(name, 12_000));
    const { first, then } = await fill(Array.from({ length: 100 }, (_, i) => lists.map((list) => list[i] as string)).flat());
    expect(Math.max(...first, ...then)).toBeLessThanOrEqual(1);
    expect(mean(then)).toBeGreaterThanOrEqual(0.9);
  });

  it('of texts in one language after the other keep to the limit', async () => {
    const { first, then } = await fill(Object.values(WRITTEN).flatMap((name) => textsOf(name, 30_000)));
    expect(Math.max(...first, ...then)).toBeLessThanOrEqual(1);
    expect(mean(then)).toBeGreaterThanOrEqual(0.85);
  });

  it('are full when tokens are counted exactly', async () => {
    const { first, then } = await fill(textsOf('TypeScript ru', 60_000), await createGptTokenCounter({ model: 'text-embedding-3-small' }));
    expect(Math.max(...first, ...then)).toBeLessThanOrEqual(1);
    expect(mean([...first, ...then])).toBeGreaterThanOrEqual(0.97);
  });
});
