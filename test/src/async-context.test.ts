import { AsyncLocalStorage } from 'node:async_hooks';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { captureContext } from '#async-context';
import { createLimiter } from '../../operators/index.js';
import { limitEmbeddingModel } from '../../src/adapters/ai-sdk.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitMcp } from '../../src/adapters/mcp.js';
import { answerCache } from '../../src/index.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { defineTool } from '../../src/pipelines/tools/tool-types.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const user = new AsyncLocalStorage<string>();

describe('the asynchronous context', LONG, () => {
  expectNoUnhandledRejections();

  it('is that of its moment, each time, for what fails as well', async () => {
    const context = user.run('a', () => captureContext());
    const tell = (word: string) => Promise.resolve(`${word} ${String(user.getStore())}`);
    expect(await user.run('b', async () => [await context.run(tell, 'first'), await context.run(tell, 'second')])).toEqual([
      'first a',
      'second a',
    ]);
    const failure = new Error('x');
    const fails = (): never => {
      throw failure;
    };
    expect(() => context.run(fails, undefined)).toThrow(failure);
  });

  it('of a repair is that of its caller, and of a shared call that of the caller it is made for', async () => {
    const seen: string[] = [];
    const later = () => new Promise<undefined>((resolve) => setTimeout(resolve, 1, undefined));
    const models = createModelCaller({
      concurrency: 1,
      call: async (whose: string) => {
        seen.push(`${whose} by ${String(user.getStore())}`);
        await later();
        return whose;
      },
      parse: (answer) => {
        if (!answer.endsWith('!')) throw new Error('again');
        return answer;
      },
      fixAnswer: { ask: (request) => `${request}!` },
      cache: answerCache({ key: (request: string) => request, storage: { get: later, set: later, delete: later } }),
    });
    await Promise.all(['a', 'b', 'c'].flatMap((whose) => user.run(whose, () => [models.callAsync(whose), models.callAsync(whose)])));
    expect(seen.toSorted()).toEqual(['a by a', 'a! by a', 'b by b', 'b! by b', 'c by c', 'c! by c']);
    await models.drain();
  });

  it('makes a call of a model, a stream and a tool that waited one of its own caller', async () => {
    const seen: [whose: string, user: string | undefined][] = [];
    const note = async (whose: string): Promise<string> => {
      seen.push([whose, user.getStore()]);
      await new Promise((done) => setTimeout(done, 5));
      return whose;
    };
    const models = createModelCaller({
      concurrency: 1,
      call: {
        send: note,
        async *stream(whose: string) {
          yield await note(whose);
        },
      },
    });
    const echo = defineTool({
      name: 'echo',
      description: 'Notes the caller.',
      parameters: z.object({ whose: z.string() }),
      execute: (call) => note(call.whose),
    });
    const tools = createToolRunner({ tools: [echo], concurrency: 1, guard: () => Promise.resolve(true) });
    await Promise.all(
      ['a', 'b', 'c'].map((whose) =>
        user.run(whose, () =>
          Promise.all([
            models.callAsync(whose),
            lastValueFrom(models.stream(whose)),
            tools.runAllAsync([{ id: whose, name: 'echo', input: { whose } }]),
          ]),
        ),
      ),
    );
    expect(seen).toHaveLength(9);
    expect(seen.filter(([whose, store]) => whose !== store)).toEqual([]);
  });

  it('makes a tool of a server and a request for embeddings that waited one of its own caller', async () => {
    const seen: [whose: string, user: string | undefined][] = [];
    const note = async (whose: string): Promise<void> => {
      seen.push([whose, user.getStore()]);
      await new Promise((done) => setTimeout(done, 5));
    };
    const client = {
      listTools: () => Promise.resolve({ tools: [] }),
      callTool: ({ name }: { readonly name: string }) => note(name).then(() => ({ content: [] })),
    };
    const caller = limitMcp(client as never);
    const model = {
      maxEmbeddingsPerCall: 1,
      doEmbed: ({ values }: { readonly values: string[] }) => note(values[0] as string).then(() => ({ embeddings: [[1]], warnings: [] })),
    };
    const embeddings = limitEmbeddingModel(model as never, { limiter: createLimiter({ concurrency: 1 }) }) as unknown as {
      readonly doEmbed: (params: object) => Promise<unknown>;
    };
    await Promise.all(
      ['a', 'b', 'c'].map((whose) =>
        user.run(whose, () => Promise.all([caller.callToolAsync({ name: whose }), embeddings.doEmbed({ values: [whose] })])),
      ),
    );
    expect(seen).toHaveLength(6);
    expect(seen.filter(([whose, store]) => whose !== store)).toEqual([]);
  });

  it('makes a request that waited one of its own caller, in all its attempts', async () => {
    const seen: [url: string, user: string | undefined][] = [];
    const limited = limitFetch({
      limiter: createLimiter({ concurrency: 1 }),
      retry: { delayMs: 1, jitter: 'none' },
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
