import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { LaneUnknownError } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createAccount, createBudget, createEmbedder, createModelCaller, createToolRunner, defineTool, withJob } from '../../src/index.js';

const answer = () => Response.json({ usage: { prompt_tokens: 2, completion_tokens: 1 } });
const body = '{"model":"m","messages":[]}';

/** What calls under an account, each made in its own way, and the lanes of the records. */
function callers() {
  const seen: string[] = [];
  const limiter = createAccount({ concurrency: 2, onRecord: ({ lane }) => seen.push(lane) });
  const limited = limitFetch({ limiter, fetch: async () => answer() });
  const models = createModelCaller({ limiter, call: async (text: string) => text });
  const embedder = createEmbedder({ limiter, call: async (texts) => texts.map(() => [1]) });
  return {
    seen,
    calls: {
      limitFetch: async () => void (await (await limited('http://host/v1/chat/completions', { method: 'POST', body })).json()),
      createModelCaller: async () => void (await models.callAsync('hi')),
      createEmbedder: async () => void (await embedder.embedAsync('hi')),
    },
  };
}

describe.each(['limitFetch', 'createModelCaller', 'createEmbedder'] as const)('the lane of withJob, for %s', (name) => {
  it('is that of the call', async () => {
    const { seen, calls } = callers();
    await withJob({ lane: 'user' }, calls[name]);
    expect(seen).toEqual(['user']);
  });

  it('throws when it is a misspelt one of the limiter, instead of sending the call last', async () => {
    const { seen, calls } = callers();
    await expect(withJob({ lane: 'User' }, async () => calls[name]())).rejects.toThrow(LaneUnknownError);
    await expect(withJob({ lane: 'backgruond' }, async () => calls[name]())).rejects.toThrow(/lane `backgruond` is not one of `user`/);
    expect(seen).toEqual([]);
  });

  it.each(['crawl', 'background-jobs', 'user-search'])(
    'is meant for another limiter when it is not one of these (%s): the call waits in the last lane',
    async (lane) => {
      const { seen, calls } = callers();
      await withJob({ lane }, calls[name]);
      expect(seen).toEqual(['background']);
    },
  );
});

describe('the job of withJob, for createToolRunner', () => {
  const read = defineTool({
    name: 'read',
    description: 'Reads.',
    parameters: z.object({}),
    execute: () => 'text',
  });
  const call = { id: 'a', name: 'read', input: {} };

  /** What starts right before the call of a runner, when calls of all three lanes were there first: one that waits in its lane. */
  async function laneOf(run: (runner: ReturnType<typeof createToolRunner>) => unknown, lane?: string) {
    const limiter = createAccount({ concurrency: 1 });
    const order: string[] = [];
    const tool = { ...read, execute: () => void order.push('tool') };
    const runner = createToolRunner({ tools: [tool], limiter, ...(lane !== undefined && { lane }) });
    const slot = await limiter.acquireAsync();
    const others = ['user', 'normal', 'background'].map((name) => limiter.runAsync(async () => order.push(name), { lane: name }));
    const ran = (async () => run(runner))();
    slot.release();
    await Promise.all([ran, ...others]);
    return order[order.indexOf('tool') - 1];
  }

  it('is the lane that its calls wait in', async () => {
    expect(await laneOf((runner) => runner.runAllAsync([call]))).toBe('background');
    expect(await laneOf((runner) => withJob({ lane: 'user' }, () => runner.runAllAsync([call])))).toBe('user');
    expect(await laneOf((runner) => withJob({ lane: 'crawl' }, () => runner.runAllAsync([call])))).toBe('background');
  });

  it('goes after the lane of the runner', async () => {
    expect(await laneOf((runner) => withJob({ lane: 'user' }, () => runner.runAllAsync([call])), 'normal')).toBe('normal');
  });

  it('throws at once when its lane is a misspelt one of the limiter', async () => {
    const ran = laneOf((runner) => withJob({ lane: 'usre' }, () => runner.runAllAsync([call])));
    await expect(ran).rejects.toThrow(LaneUnknownError);
  });

  it('is the key that a budget knows, unless the run has its own', async () => {
    const budget = createBudget({
      limits: [
        { key: 'acme', tokens: 10 },
        { key: '7', tokens: 10 },
      ],
    });
    const tool = { ...read, cost: () => ({ inputTokens: 4, outputTokens: 0 }) };
    const runner = createToolRunner({ tools: [tool], budget });
    const spent = () => budget.snapshot().limits.map((limit) => limit.spent);
    await withJob({ key: 'acme' }, () => runner.runAllAsync([call]));
    expect(spent()).toEqual([4, 0]);
    await withJob({ key: 'acme' }, () => runner.runAllAsync([call], { key: '7' }));
    expect(spent()).toEqual([4, 4]);
    await withJob({ key: 7 }, () => runner.runAllAsync([call]));
    expect(spent()).toEqual([4, 8]);
  });
});
