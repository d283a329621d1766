import { describe, expectTypeOf, it } from 'vitest';
import type { BudgetSnapshot, Reservation, SavedBudget } from '../../src/index.js';
import { createAccount, createBudget, createModelCaller } from '../../src/index.js';
import type { BudgetLimitSnapshot, BudgetPort } from '../../src/pipelines/budget/budget-types.js';

describe('createBudget', () => {
  const budget = createBudget({
    limits: [{ usd: 5 }, { key: 'acme', model: 'small', tokens: 1000, windowMs: 60_000 }],
    prices: { small: {} },
  });

  it('gives reservations and numbers', () => {
    expectTypeOf(budget.reserve({ model: 'small' })).toEqualTypeOf<Reservation>();
    expectTypeOf(budget.snapshot()).toEqualTypeOf<BudgetSnapshot>();
    budget.reserve({ model: 'small', key: 'acme', inputTokens: 5, outputTokens: 5 }).settle({ inputTokens: 4 });
    expectTypeOf(budget.snapshot().limits).toEqualTypeOf<readonly BudgetLimitSnapshot[]>();
    createBudget({ storage: { load: () => undefined, save: (saved) => expectTypeOf(saved).toEqualTypeOf<SavedBudget>() } });
    // @ts-expect-error which model?
    budget.reserve({ inputTokens: 5 });
    // @ts-expect-error not a limit
    createBudget({ limits: [{ eur: 5 }] });
    // @ts-expect-error a store that answers later cannot hold a call back
    createBudget({ storage: { load: () => Promise.resolve(undefined), save: () => undefined } });
  });

  it('is one of several things that calls can be charged to', () => {
    expectTypeOf(budget).toExtend<BudgetPort>();
    const mine = { reserve: ({ model }: { readonly model: string }) => ({ settle: () => void model, release: () => undefined }) };
    createModelCaller({ call: (request: string) => request, budget: mine, limiter: createAccount({ concurrency: 4 }) });
    createAccount({ budget: { reserve: (call) => budget.reserve({ ...call, key: 'acme' }) } });
    // @ts-expect-error nothing to charge to
    createModelCaller({ call: (request: string) => request, budget: {}, limiter: createAccount({ concurrency: 4 }) });
  });
});
