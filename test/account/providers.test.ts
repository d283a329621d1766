import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExpectedOutput } from '../../src/account/expected-output.js';
import type { ProviderRules } from '../../src/account/providers.js';
import { COLUMNS, providerAt, providers, unitsAfter, unitsBefore, unitsWithoutAnswer } from '../../src/account/providers.js';

const usage = { inputTokens: 1000, cacheReadTokens: 400, outputTokens: 50 };
const request = { inputTokens: 900, maxOutputTokens: 500 };

/** An answer shorter than was expected. */
const short = { ...usage, outputTokens: 10 };

/**
 * What each provider counts of one call, as input, output and both: an estimate of 900 and at most 500, 40 expected; an answer of 1000, 400 of them cached,
 * and 50, or 10, or 10 where all 500 counted on arrival; an estimate of 9. And the input of a call that was refused, or failed.
 */
const TABLE: Readonly<Record<keyof typeof providers, readonly (readonly number[])[]>> = {
  anthropic: [[900, 40, 940], [600, 50, 650], [600, 10, 610], [600, 10, 610], [9, 40, 49], [0], [900]],
  openai: [[900, 500, 1400], [1000, 500, 1500], [1000, 500, 1500], [1000, 500, 1500], [9, 500, 509], [0], [900]],
  azure: [[900, 500, 1400], [1000, 500, 1500], [1000, 500, 1500], [1000, 500, 1500], [9, 500, 509], [0], [900]],
  gemini: [[900, 40, 900], [1000, 50, 1000], [1000, 10, 1000], [1000, 10, 1000], [9, 40, 9], [0], [900]],
  groq: [[900, 40, 940], [600, 50, 650], [600, 10, 610], [600, 10, 610], [9, 40, 49], [0], [900]],
  cerebras: [[900, 500, 1400], [1000, 50, 1050], [1000, 10, 1010], [1000, 10, 1010], [9, 500, 509], [0], [900]],
  bedrock: [[900, 500, 1400], [600, 50, 650], [600, 10, 610], [600, 10, 610], [9, 500, 509], [0], [900]],
  other: [[900, 40, 940], [1000, 50, 1050], [1000, 10, 1010], [1000, 10, 1010], [9, 40, 49], [0], [900]],
};

function countedBy(rules: ProviderRules): readonly (readonly number[])[] {
  const charged = unitsBefore(rules, request, 40);
  return [
    Object.values(charged) as number[],
    ...[usage, short].map((told) => Object.values(unitsAfter(rules, told, charged)) as number[]),
    // An account that sees it in the headers changes over.
    Object.values(unitsAfter({ ...rules, outputCharged: 'onArrival' }, short, { ...charged, outputTokens: 500 })) as number[],
    Object.values(unitsBefore(rules, { ...request, inputTokens: 9 }, 40)) as number[],
    ...(['refused', 'failed'] as const).map((end) => [unitsWithoutAnswer(rules, end, charged).inputTokens]),
  ];
}

describe('what the rates of a provider count', () => {
  it.each(Object.entries(TABLE))('%s', (name, counted) => {
    const rules: ProviderRules = providers[name as keyof typeof providers];
    expect(rules.name).toBe(name);
    expect(countedBy(rules)).toEqual(counted);
  });

  const changes = Object.entries(providers).flatMap(([name, rules]: [string, ProviderRules]) =>
    Object.entries(COLUMNS).flatMap(([field, values]) =>
      values
        .filter((value) => value !== rules[field as keyof ProviderRules])
        .map((value) => [name, field, value, { ...rules, [field]: value }] as const),
    ),
  );
  it.each(changes)('is another for %s when its `%s` is `%s`: a changed row does not go unseen', (name, _field, _value, changed) => {
    expect(countedBy(changed)).not.toEqual(TABLE[name as keyof typeof TABLE]);
  });

  it('counts the larger of the two where the provider does', () => {
    const rules: ProviderRules = { ...providers.openai, tokensCharged: 'larger' };
    expect(unitsBefore(rules, request, 40)).toEqual({ inputTokens: 900, outputTokens: 500, tokens: 900 });
    expect(unitsBefore(rules, { ...request, inputTokens: 9 }, 40).tokens).toBe(500);
  });

  it('keeps what was charged of a unit that the usage does not tell', () => {
    const charged = unitsBefore(providers.anthropic, request, 40);
    expect(unitsAfter(providers.anthropic, { outputTokens: 7 }, charged)).toEqual({ inputTokens: 900, outputTokens: 7, tokens: 907 });
    expect(unitsAfter(providers.anthropic, { inputTokens: 7 }, charged)).toEqual({ inputTokens: 7, outputTokens: 40, tokens: 47 });
    expect(unitsAfter(providers.anthropic, { inputTokens: 7, cacheReadTokens: 9 }, charged).inputTokens).toBe(0);
  });

  it.each([
    ['https://api.anthropic.com/v1/messages', 'anthropic'],
    ['https://api.openai.com/v1/chat/completions', 'openai'],
    ['https://mine.openai.azure.com/openai/deployments/x', 'azure'],
    ['https://generativelanguage.googleapis.com/v1beta/models/x:generateContent', 'gemini'],
    ['https://api.groq.com/openai/v1', 'groq'],
    ['https://api.cerebras.ai/v1', 'cerebras'],
    ['https://bedrock-runtime.eu-west-1.amazonaws.com/model', 'bedrock'],
    ['https://api.openai.com.example.org/v1', undefined],
    ['https://notgroq.com/v1', undefined],
    ['http://127.0.0.1:8080/v1', undefined],
    ['/v1/chat', undefined],
  ])('%s', (url, name) => {
    expect(providerAt(url)?.name).toBe(name);
  });
});

describe('expected output', () => {
  it('is a share of max_tokens until an answer is known, and never above it', () => {
    const expected = new ExpectedOutput();
    expect(expected.of('m', 8000)).toBe(2000);
    expect(expected.of('m', 1500)).toBe(1000);
    expect(expected.of('m', 400)).toBe(400);
    expect(expected.of('m', undefined)).toBe(0);
    expected.learn('m', 500);
    expect(expected.of('m', 32_000)).toBe(550);
    expect(expected.of('m', undefined)).toBe(550);
    expect(expected.of('m', 60)).toBe(60);
    expect(expected.of('another', 8000)).toBe(2000);
  });

  it('holds what most answers have after ten of them, within twice their mean', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 300, max: 700 }), { minLength: 10, maxLength: 200 }), (answers) => {
        const expected = new ExpectedOutput();
        for (const tokens of answers) expected.learn('m', tokens);
        const next = expected.of('m', 32_000);
        expect(next).toBeGreaterThanOrEqual(330);
        expect(next).toBeLessThanOrEqual(1.1 * 700 + 400);
      }),
    );
  });

  it('follows a model whose answers become longer', () => {
    const expected = new ExpectedOutput();
    for (let i = 0; i < 50; i++) expected.learn('m', 100);
    for (let i = 0; i < 30; i++) expected.learn('m', 1000);
    expect(expected.of('m', 32_000)).toBeGreaterThan(900);
  });

  it('remembers a hundred models, those used last', () => {
    const expected = new ExpectedOutput();
    for (let i = 0; i < 101; i++) {
      expected.learn(`m${String(i)}`, 500);
      expected.learn('kept', 500);
    }
    expect(expected.of('m0', 8000)).toBe(2000);
    expect(expected.of('kept', 4000)).toBe(550);
    expect(expected.of('m100', 4000)).toBe(550);
  });
});
