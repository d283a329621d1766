import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { createFetch } from '../../src/adapters/fetch.js';
import { inContext } from '../../src/adapters/support/in-context.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const user = new AsyncLocalStorage<string>();

describe('inContext', LONG, () => {
  expectNoUnhandledRejections();

  it('calls in the context of its making, each time', async () => {
    const tell = user.run('a', () => inContext((word: string) => Promise.resolve(`${word} ${String(user.getStore())}`)));
    const told = await user.run('b', async () => [await tell('first'), await tell('second')]);
    expect(told).toEqual(['first a', 'second a']);
  });

  it('makes a call that comes before the one before it has begun', async () => {
    const echo = inContext((word: string) => Promise.resolve(word));
    const told = [echo('first'), echo('second'), echo('third')];
    expect(await Promise.all(told)).toEqual(['first', 'second', 'third']);
    expect(await echo('fourth')).toBe('fourth');
  });

  it('fails as the function does, and may be called again', async () => {
    const failure = new Error('x');
    let calls = 0;
    const run = inContext(() => (++calls === 1 ? Promise.reject(failure) : Promise.resolve(calls)));
    await expect(run(undefined)).rejects.toBe(failure);
    expect(await run(undefined)).toBe(2);
    const thrown = inContext(() => {
      throw failure;
    });
    await expect(thrown(undefined)).rejects.toBe(failure);
  });

  it('makes a request that waited one of its own caller, in all its attempts', async () => {
    const seen: [url: string, user: string | undefined][] = [];
    const limited = createFetch({
      limiter: createLimiter({ concurrency: 1 }),
      retry: { initialMs: 1, jitter: 'none' },
      fetch: async (url) => {
        seen.push([url as string, user.getStore()]);
        await new Promise((done) => setTimeout(done, 5));
        return new Response('x', { status: seen.length > 3 ? 200 : 503 });
      },
    });
    await Promise.all(['a', 'b', 'c'].map((name) => user.run(name, async () => (await limited(name)).text())));
    expect(seen).toHaveLength(6);
    expect(seen.filter(([url, whose]) => url !== whose)).toEqual([]);
  });
});
