import { describe, expect, it } from 'vitest';
import { childOf } from '../../operators/index.js';
import { createAccount, createBudget, createEmbedder, createModelCaller } from '../../src/index.js';

const prices = { m: { inputUsdPerMillion: 1000, outputUsdPerMillion: 0 } };

function spending() {
  const budget = createBudget({ limits: [{ usd: 5 }], prices });
  const other = createBudget({ limits: [{ usd: 5 }], prices });
  const spent = (of: typeof budget) => of.snapshot().limits[0]?.spent;
  return { budget, other, spent };
}

const call = async () => ({ usage: { inputTokens: 1, outputTokens: 0 } });
const usage = ({ usage: told }: Awaited<ReturnType<typeof call>>) => told;

describe('a budget', () => {
  it('is charged once when an account and a model caller under it both have it', async () => {
    const { budget, spent } = spending();
    const models = createModelCaller({ call: { send: call, usage, model: 'm' }, budget, limiter: createAccount({ budget }) });
    await models.callAsync('hi');
    expect(spent(budget)).toBeCloseTo(0.001, 9);
  });

  it('is charged for embeddings under a limiter below as well', async () => {
    const { budget, spent } = spending();
    const embedder = createEmbedder({
      model: 'm',
      limiter: childOf(createAccount({ budget }), { concurrency: 2 }),
      call: async (texts, { settle }) => {
        settle({ inputTokens: 2 });
        return texts.map(() => [1]);
      },
    });
    await embedder.embedAsync('hi');
    expect(spent(budget)).toBeCloseTo(0.002, 9);
  });

  it('is charged beside another one of the account', async () => {
    const { budget, other, spent } = spending();
    const models = createModelCaller({ call: { send: call, usage, model: 'm' }, budget: other, limiter: createAccount({ budget }) });
    await models.callAsync('hi');
    expect([spent(budget), spent(other)].map((usd) => usd?.toFixed(6))).toEqual(['0.001000', '0.001000']);
  });
});
