import { afterEach, describe, expect, it } from 'vitest';
import { type FakeProvider, type FakeProviderOptions, hashVector, startFakeProvider } from '../support/fake-provider.js';

let provider: FakeProvider;

afterEach(() => provider.close());

async function post(input: string | string[], more: object = {}): Promise<{ status: number; retryAfter: string | null; body: unknown }> {
  const response = await fetch(`${provider.baseUrl}/embeddings`, { method: 'POST', body: JSON.stringify({ model: 'm', input, ...more }) });
  return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.json() };
}

async function start(options: FakeProviderOptions): Promise<void> {
  provider = await startFakeProvider(options);
}

describe('the fake provider', () => {
  it('answers equal texts with equal, normalised vectors, as numbers or as base64', async () => {
    await start({ dimensions: 4 });
    const numbers = await post(['a cat', 'a cat']);
    const vector = [...hashVector('a cat', 4)];
    expect(Math.hypot(...vector)).toBeCloseTo(1);
    expect(numbers).toMatchObject({
      status: 200,
      body: {
        model: 'm',
        data: [
          { index: 0, embedding: vector },
          { index: 1, embedding: vector },
        ],
      },
    });
    const encoded = Buffer.from(hashVector('a cat', 4).buffer).toString('base64');
    expect(await post('a cat', { encoding_format: 'base64' })).toMatchObject({
      body: { data: [{ index: 0, embedding: encoded }], usage: { total_tokens: 2 } },
    });
    expect(provider.calls.map((call) => call.inputs)).toEqual([['a cat', 'a cat'], ['a cat']]);
  });

  it('refuses what is above its limits', async () => {
    await start({ maxInputs: 2, requestsPerWindow: 2, tokensPerWindow: 100 });
    expect(await post(['a', 'b', 'c'])).toMatchObject({
      status: 400,
      body: { error: { message: 'at most 2 inputs are allowed in one request' } },
    });
    expect((await post('x'.repeat(400))).status).toBe(429);
    expect((await post('a')).status).toBe(200);
    const third = await post('a');
    expect(third.status).toBe(429);
    expect(Number(third.retryAfter)).toBeGreaterThan(50);
  });

  it('does what its script says', async () => {
    await start({ answer: ({ index }) => (index === 0 ? { status: 503, message: 'later', retryAfterSeconds: 3 } : 'cut') });
    expect(await post('a')).toEqual({ status: 503, retryAfter: '3', body: { error: { message: 'later', type: 'fake_error' } } });
    await expect(post('a')).rejects.toThrow('fetch failed');
  });

  it('has one route', async () => {
    await start({});
    expect((await fetch(`${provider.baseUrl}/models`)).status).toBe(404);
  });
});
