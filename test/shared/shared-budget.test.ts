import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  delay,
  firstValueFrom,
  identity,
  map,
  mergeMap,
  type Observable,
  of,
  type Subscription,
  throwError,
  VirtualTimeScheduler,
} from 'rxjs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import type { CreditStore } from '../../operators/index.js';
import { BudgetExceededError, FlowConfigError, memoryStore } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { BudgetLimit, Reservation, SharedBudget } from '../../src/index.js';
import { createAccount, createBudget, createEmbedder, createModelCaller, createToolRunner } from '../../src/index.js';
import { localStore } from '../../src/shared/local-store.js';
import { redisStore } from '../../src/shared/redis-store.js';
import { sized } from '../support/deep.js';
import { testFolder } from './support/processes.js';
import { RedisServer } from './support/redis-server.js';

const TOKENS: readonly BudgetLimit[] = [{ tokens: 1000 }];

/** A store that answers later, or not, as it is told. */
function between(inner: CreditStore, change: <A>(answer: () => A, what: 'ask' | 'correct') => A | Observable<A>): CreditStore {
  return {
    ask: (question) => change(() => inner.ask(question), 'ask') as never,
    correct: (corrections) => change(() => inner.correct(corrections), 'correct') as never,
    hold: (scope, ms) => inner.hold(scope, ms),
  };
}

function world(limits = TOKENS, count = 2, wrap: (inner: CreditStore) => CreditStore = (inner) => inner) {
  const scheduler = new VirtualTimeScheduler();
  const inner = memoryStore({ scheduler });
  const events: string[] = [];
  const onEvent = ({ type }: { readonly type: string }): void => void events.push(type);
  const make = (): SharedBudget => createBudget({ limits, store: wrap(inner), scheduler, onEvent });
  const budgets = Array.from({ length: count }, make);
  const pass = (ms: number): void => {
    scheduler.maxFrames = scheduler.now() + ms;
    scheduler.flush();
    scheduler.frame = scheduler.maxFrames;
  };
  return { budgets: budgets as [SharedBudget, SharedBudget], events, inner, make, pass, scheduler };
}

/** What came of a reservation, which may come later. */
interface Asked {
  reservation?: Reservation;
  error?: unknown;
  readonly subscription: Subscription;
}

function ask(budget: SharedBudget, inputTokens: number, over: object = {}): Asked {
  const asked = {} as Asked;
  const subscription = budget.reserve({ model: 'm', inputTokens, ...over }).subscribe({
    next: (reservation) => (asked.reservation = reservation),
    error: (error: unknown) => (asked.error = error),
  });
  return Object.assign(asked, { subscription });
}

describe('budgets on one store', () => {
  it('spend together, and refuse what all of them have no room for', () => {
    const { budgets } = world();
    const [one, other] = budgets;
    expect(ask(one, 600).reservation).toBeDefined();
    const refused = ask(other, 500).error as BudgetExceededError;
    expect(refused).toBeInstanceOf(BudgetExceededError);
    expect(refused).toMatchObject({ unit: 'tokens', limit: 1000, resetsInMs: Infinity });
    expect(ask(other, 400).reservation).toBeDefined();
    expect(ask(one, 1).error).toBeInstanceOf(BudgetExceededError);
    expect(one.snapshot()).toMatchObject({ executing: 1, inFlightTokens: 600, limits: [{ left: 0, inFlight: 600, limit: 1000 }] });
  });

  it('give back what a call has cost less, and what was never sent', () => {
    const { budgets, pass } = world();
    const [one, other] = budgets;
    const [small, unsent] = [ask(one, 600), ask(one, 400)];
    small.reservation?.settle({ inputTokens: 100, outputTokens: 0 });
    unsent.reservation?.release();
    expect(ask(other, 900).error).toBeDefined();
    pass(200);
    expect(ask(other, 901).error).toBeDefined();
    expect(ask(other, 900).reservation).toBeDefined();
    expect(one.snapshot()).toMatchObject({ executing: 0, spentTokens: 100, limits: [{ spent: 100 }] });
  });

  it('charge what a call has cost more, and tell that', () => {
    const { budgets, events, pass } = world();
    const [one, other] = budgets;
    ask(one, 900).reservation?.settle({ inputTokens: 1200, outputTokens: 0 });
    pass(200);
    expect(ask(other, 1).error).toBeInstanceOf(BudgetExceededError);
    expect(events).toEqual(['budgetLow', 'budgetLow', 'budgetOverrun']);
    expect(other.snapshot().limits[0]?.left).toBe(0);
  });

  it('have windows that slide: no span of one costs more than the limit', () => {
    const { budgets, pass } = world([{ tokens: 1000, windowMs: 60_000 }]);
    const [one, other] = budgets;
    ask(one, 700);
    pass(30_000);
    ask(other, 300);
    pass(29_000);
    const refused = ask(other, 100).error as BudgetExceededError;
    expect(refused.resetsInMs).toBeGreaterThan(900);
    expect(refused.resetsInMs).toBeLessThan(1500);
    pass(refused.resetsInMs);
    expect(ask(other, 700).reservation).toBeDefined();
    expect(ask(one, 1).error).toBeDefined();
  });

  it('hold limits of keys and models apart, and budgets of another name', () => {
    const { inner, scheduler } = world();
    const limits = [{ key: 'acme', tokens: 10 }, { model: 'm', tokens: 20 }, { tokens: 25 }];
    const budget = (name?: string) => createBudget({ limits, store: inner, scheduler, ...(name !== undefined && { name }) });
    expect(ask(budget(), 10, { key: 'acme' }).reservation).toBeDefined();
    expect(ask(budget(), 1, { key: 'acme' }).error).toMatchObject({ limit: 10 });
    expect(ask(budget(), 11).error).toMatchObject({ limit: 20 });
    expect(ask(budget(), 10).reservation).toBeDefined();
    expect(ask(budget(), 6, { model: 'n' }).error).toMatchObject({ limit: 25 });
    expect(ask(budget('other'), 20).reservation).toBeDefined();
  });

  it('leave to more urgent calls what these keep, and never ask for what is dearer than all', () => {
    const { budgets } = world();
    const [one] = budgets;
    expect(ask(one, 1001).error).toBeInstanceOf(BudgetExceededError);
    expect(ask(one, 901, { reserved: 0.1 }).error).toBeInstanceOf(BudgetExceededError);
    ask(one, 850);
    expect(ask(one, 100, { reserved: 0.1 }).error).toBeDefined();
    expect(ask(one, 100).reservation).toBeDefined();
  });

  it('do not hold others back with what was refused', () => {
    const { budgets } = world();
    const [one, other] = budgets;
    ask(one, 500);
    expect(ask(one, 900).error).toBeDefined();
    expect(ask(other, 500).reservation).toBeDefined();
  });

  it('need no store for what no limit is about', () => {
    const store = between(memoryStore(), () => throwError(() => new Error('down')));
    const budget = createBudget({ limits: [{ key: 'acme', tokens: 10 }], store });
    const call = ask(budget, 7, { key: 'other' });
    call.reservation?.settle({ inputTokens: 5, outputTokens: 0 });
    expect(budget.snapshot()).toMatchObject({ executing: 0, spentTokens: 5, limits: [{ spent: 0, left: 10 }] });
  });

  it('charge a limit that is there twice for itself', () => {
    const { budgets } = world([{ tokens: 100 }, { tokens: 50 }]);
    const asked = [40, 11, 10, 1].map((tokens) => ask(budgets[0], tokens).reservation !== undefined);
    expect(asked).toEqual([true, false, true, false]);
  });

  it('let a listener reserve, and tell it once', () => {
    const { inner, scheduler } = world();
    const told: string[] = [];
    const inside: Asked[] = [];
    const budget: SharedBudget = createBudget({
      limits: TOKENS,
      store: inner,
      scheduler,
      warnAt: 0.5,
      onEvent: ({ type }) => {
        told.push(type);
        inside.push(ask(budget, 100));
      },
    });
    const outside = ask(budget, 600);
    expect([outside.reservation, inside[0]?.reservation]).not.toContain(undefined);
    expect(told).toEqual(['budgetLow']);
    expect(budget.snapshot().limits[0]?.left).toBe(300);
  });

  it('answer each call in its own context', () => {
    const scheduler = new VirtualTimeScheduler();
    const storage = new AsyncLocalStorage<string>();
    const inner = memoryStore({ scheduler });
    const store = between(inner, (answer) => of(answer()).pipe(delay(5, scheduler)));
    const budget = createBudget({ limits: TOKENS, store, scheduler });
    const seen: unknown[] = [];
    for (const name of ['first', 'second'])
      storage.run(name, () => budget.reserve({ model: 'm', inputTokens: 1 }).subscribe(() => seen.push([name, storage.getStore()])));
    scheduler.flush();
    expect(seen).toEqual([
      ['first', 'first'],
      ['second', 'second'],
    ]);
  });
});

describe('a store that answers late, or not', () => {
  it('charges nothing for a call that has left before its answer', () => {
    const scheduled = world(TOKENS, 2, (inner) => between(inner, (answer) => of(answer()).pipe(delay(50, scheduled.scheduler))));
    const { budgets, pass } = scheduled;
    const [one, other] = budgets;
    const left = ask(one, 1000);
    pass(10);
    left.subscription.unsubscribe();
    pass(300);
    expect(left.reservation).toBeUndefined();
    const next = ask(other, 1000);
    pass(100);
    expect(next.reservation).toBeDefined();
  });

  it('is asked again under the same number: an answer that was lost charges once', () => {
    let lost = 2;
    const scheduled = world(TOKENS, 2, (inner) =>
      between(inner, (answer, what) => {
        const given = answer();
        return what === 'ask' && lost-- > 0 ? throwError(() => new Error('lost')) : given;
      }),
    );
    const { budgets, events, pass } = scheduled;
    const asked = ask(budgets[0], 600);
    expect(asked.reservation).toBeUndefined();
    pass(1000);
    expect(asked.reservation).toBeDefined();
    expect(ask(budgets[1], 400).reservation).toBeDefined();
    expect(events.filter((type) => type.startsWith('store'))).toEqual(['storeDown', 'storeUp']);
  });

  it('keeps calls waiting, and hears of what was spent meanwhile', () => {
    let isDown = false;
    const scheduled = world(TOKENS, 2, (inner) => between(inner, (answer) => (isDown ? throwError(() => new Error('down')) : answer())));
    const { budgets, inner, pass } = scheduled;
    const [one, other] = budgets;
    const first = ask(one, 1000);
    isDown = true;
    first.reservation?.settle({ inputTokens: 10, outputTokens: 0 });
    pass(60_000);
    const waiting = ask(other, 900);
    pass(60_000);
    expect(waiting).toMatchObject({ subscription: { closed: false } });
    isDown = false;
    // It tells what it has to tell before a call of its own is refused.
    const next = ask(one, 50);
    pass(1000);
    expect([next.reservation, waiting.reservation]).not.toContain(undefined);
    expect(ask(one, 41).error).toBeInstanceOf(BudgetExceededError);
    expect(ask(one, 40).reservation).toBeDefined();
    expect(inner.save().scopes.map(([name]) => name)).toEqual(['budget budget']);
  });

  it('gives back what was granted to a call that left, though the answer was lost and no other call comes', () => {
    let lost = 1;
    const scheduled = world(TOKENS, 2, (inner) =>
      between(inner, (answer, what) => {
        const given = answer();
        const isLost = what === 'ask' && lost-- > 0;
        return of(given).pipe(delay(50, scheduled.scheduler), isLost ? mergeMap(() => throwError(() => new Error('lost'))) : identity);
      }),
    );
    const { budgets, pass } = scheduled;
    const left = ask(budgets[0], 700);
    pass(20);
    left.subscription.unsubscribe();
    pass(1000);
    const next = ask(budgets[1], 1000);
    pass(1000);
    expect(next.reservation).toBeDefined();
  });

  it('hears of what was spent when it is back after a while, though no other call comes', () => {
    let isDown = false;
    const scheduled = world(TOKENS, 2, (inner) => between(inner, (answer) => (isDown ? throwError(() => new Error('down')) : answer())));
    const { budgets, pass } = scheduled;
    const first = ask(budgets[0], 700);
    isDown = true;
    first.reservation?.settle({ inputTokens: 100, outputTokens: 0 });
    pass(30_000);
    isDown = false;
    pass(1000);
    expect(ask(budgets[1], 900).reservation).toBeDefined();
  });

  it.each([
    { credit: 1, amounts: [], left: [0] },
    { credit: 1, amounts: [NaN], left: [0] },
    { credit: 1, amounts: [1e9], left: [0] },
    { waitMs: NaN, left: [0] },
    { waitMs: 5 },
    undefined,
  ])('is asked again when it answers %j', (nonsense) => {
    let asked = 0;
    const scheduled = world(TOKENS, 1, (inner) =>
      between(inner, (answer, what) => (what === 'ask' && asked++ === 0 ? (nonsense as never) : answer())),
    );
    const call = ask(scheduled.budgets[0], 700);
    expect(call.reservation).toBeUndefined();
    scheduled.pass(200);
    expect([call.reservation !== undefined, asked]).toEqual([true, 2]);
  });

  it('leaves no timer when nothing waits for it', () => {
    const scheduled = world(TOKENS, 1, (inner) => between(inner, () => throwError(() => new Error('down'))));
    const { budgets, scheduler } = scheduled;
    const asked = ask(budgets[0], 10);
    scheduled.pass(3000);
    asked.subscription.unsubscribe();
    scheduler.maxFrames = Infinity;
    scheduler.flush();
    expect(scheduler.actions).toHaveLength(0);
  });

  it('loses and doubles nothing, whatever is lost on the way', () => {
    const step = fc.record({
      budget: fc.nat(2),
      tokens: fc.integer({ min: 1, max: 400 }),
      used: fc.double({ min: 0, max: 1, noNaN: true }),
      end: fc.constantFrom('settle', 'release', 'leave'),
      afterMs: fc.nat(300),
      holdsMs: fc.nat(500),
    });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 30 }),
        fc.array(fc.constantFrom('ok', 'late', 'lost', 'refused'), { minLength: 1 }),
        (steps, fates) => {
          let turn = 0;
          const scheduled = world(TOKENS, 3, (inner) =>
            between(inner, (answer) => {
              const fate = turn > 200 ? 'ok' : fates[turn++ % fates.length];
              if (fate === 'refused') return throwError(() => new Error('down'));
              const given = answer();
              if (fate === 'lost') return throwError(() => new Error('lost'));
              return fate === 'late' ? of(given).pipe(delay(40, scheduled.scheduler)) : given;
            }),
          );
          const { budgets, pass, scheduler } = scheduled;
          let spent = 0;
          let inFlight = 0;
          for (const { afterMs, budget, end, holdsMs, tokens, used } of steps) {
            pass(afterMs);
            const subscription = (budgets as readonly SharedBudget[])[budget]!.reserve({ model: 'm', inputTokens: tokens }).subscribe({
              next: (reservation) => {
                inFlight += tokens;
                expect(spent + inFlight).toBeLessThanOrEqual(1000);
                scheduler.schedule(() => {
                  inFlight -= tokens;
                  if (end === 'release') reservation.release();
                  else reservation.settle({ inputTokens: Math.floor(tokens * used), outputTokens: 0 });
                  spent += end === 'release' ? 0 : Math.floor(tokens * used);
                }, holdsMs);
              },
              error: (error: unknown) => {
                expect(error).toBeInstanceOf(BudgetExceededError);
              },
            });
            if (end === 'leave')
              scheduler.schedule(() => {
                subscription.unsubscribe();
              }, holdsMs);
          }
          turn = 1000;
          pass(20_000);
          // What was told to nothing is told with the next question.
          for (const each of budgets) ask(each, 0);
          pass(20_000);
          for (const each of budgets) ask(each, 0);
          pass(1000);
          expect(inFlight).toBe(0);
          // The two calls of nothing just now.
          for (const each of budgets) expect(each.snapshot()).toMatchObject({ executing: 2, limits: [{ left: 1000 - spent }] });
        },
      ),
      { numRuns: sized(300, 20_000) },
    );
  });
});

describe('a shared budget', () => {
  const spentOf = (budget: SharedBudget): number => budget.snapshot().limits[0]!.limit - budget.snapshot().limits[0]!.left;

  function late(limits: readonly BudgetLimit[]) {
    const inner = memoryStore();
    const store = between(inner, (answer) => of(answer()).pipe(delay(2)));
    return [createBudget({ limits, store }), createBudget({ limits, store })] as const;
  }

  it('is charged by model callers, fetches, embedders and tools', async () => {
    const [budget, other] = late([{ tokens: 10_000 }]);
    const limiter = createAccount({ concurrency: 4, budget, headroom: 1 });
    const caller = createModelCaller({
      limiter,
      call: { send: async () => 'answer', cost: () => ({ inputTokens: 100, outputTokens: 50 }), model: () => 'm' },
    });
    expect(await caller.callAsync('question')).toBe('answer');
    const usage = { usage: { prompt_tokens: 200, completion_tokens: 20 } };
    const limited = limitFetch({ limiter, fetch: async () => Response.json(usage) });
    await (
      await limited('https://host/v1/chat/completions', {
        method: 'POST',
        body: JSON.stringify({ model: 'm', max_tokens: 99, messages: [] }),
      })
    ).json();
    await new Promise((resolve) => setTimeout(resolve, 250));
    await firstValueFrom(other.reserve({ model: 'm' }));
    expect(spentOf(other)).toBeGreaterThanOrEqual(220);
    const look = {
      ...{ name: 'look', description: 'Looks.', parameters: z.object({}) },
      ...{ execute: () => 'seen', cost: () => ({ inputTokens: 8_000, outputTokens: 0 }) },
    };
    const tools = createToolRunner({ budget: other, tools: [look] });
    const calls = ['1', '2'].map((id) => ({ id, name: 'look', input: {} }));
    const { results } = await tools.runAllAsync(calls);
    expect(results.map((result) => /budget_exceeded|seen/.exec(JSON.stringify(result))?.[0]).sort()).toEqual(['budget_exceeded', 'seen']);
    const embedder = createEmbedder({ limiter, call: async (texts: readonly string[]) => texts.map(() => [1]), model: 'm' });
    await expect(embedder.embedAsync('word '.repeat(3000))).rejects.toThrow(BudgetExceededError);
  });

  it('gives the permit back when it refuses, and when the call leaves while it is asked', async () => {
    const [budget] = late([{ tokens: 100 }]);
    const limiter = createAccount({ concurrency: 1, budget });
    const call = { send: async () => 'answer', cost: () => ({ inputTokens: 80, outputTokens: 0 }), model: () => 'm' };
    const caller = createModelCaller({ limiter, call });
    const controller = new AbortController();
    const left = caller.callAsync('a', { signal: controller.signal });
    controller.abort();
    await expect(left).rejects.toThrow();
    expect(await caller.callAsync('b')).toBe('answer');
    await expect(caller.callAsync('c')).rejects.toThrow(BudgetExceededError);
    await expect(caller.callAsync('d')).rejects.toThrow(BudgetExceededError);
    expect(limiter.snapshot().executing).toBe(0);
  });

  it('is waited for while calls of two accounts may give back what is missing, and refuses when none can', () => {
    const scheduler = new VirtualTimeScheduler();
    const budget = createBudget({ limits: [{ tokens: 1000 }], store: memoryStore({ scheduler }), scheduler });
    const ends: string[] = [];
    const call = {
      send: (request: string, { settle }: { settle: (usage: object) => void }) =>
        of(request).pipe(
          delay(20, scheduler),
          map((answer) => {
            settle({ inputTokens: 5, outputTokens: 5 });
            return answer;
          }),
        ),
      ...{ cost: () => ({ inputTokens: 0, outputTokens: 100 }), model: () => 'm' },
    };
    for (const account of ['one', 'other']) {
      const models = createModelCaller({ limiter: createAccount({ concurrency: 20, budget, scheduler }), call, scheduler, retry: false });
      for (let i = 0; i < 60; i++)
        models.call(account).subscribe({
          next: () => ends.push('answered'),
          error: (error: unknown) => ends.push(error instanceof BudgetExceededError ? 'refused' : String(error)),
        });
    }
    scheduler.flush();
    expect(ends).toHaveLength(120);
    // After 91 calls of 10 tokens another one of 100 has no room.
    expect(ends.filter((end) => end === 'answered')).toHaveLength(91);
    expect(new Set(ends)).toEqual(new Set(['answered', 'refused']));
    expect(budget.snapshot()).toMatchObject({ executing: 0, spentTokens: 910 });
  });

  it('does not take the time of an attempt while it is asked', async () => {
    const inner = memoryStore();
    const store = between(inner, (answer) => of(answer()).pipe(delay(150)));
    const limiter = createAccount({ budget: createBudget({ limits: [{ tokens: 100 }], store }) });
    const call = { send: async () => 'answer', cost: () => ({ inputTokens: 80, outputTokens: 0 }), model: () => 'm' };
    const caller = createModelCaller({ limiter, call, timeoutMs: 60, retry: false });
    expect(await caller.callAsync('a')).toBe('answer');
  });

  it('stands beside a budget of its own, and neither is charged when the other refuses', async () => {
    const [shared] = late([{ tokens: 100 }]);
    const own = createBudget({ limits: [{ tokens: 1000 }] });
    const limiter = createAccount({ concurrency: 1, budget: own });
    const call = { send: async () => 'answer', cost: () => ({ inputTokens: 80, outputTokens: 0 }), model: () => 'm' };
    const caller = createModelCaller({ limiter, budget: shared, call });
    expect(await caller.callAsync('a')).toBe('answer');
    await expect(caller.callAsync('b')).rejects.toThrow(BudgetExceededError);
    expect(own.snapshot()).toMatchObject({ executing: 0, spentTokens: 80 });
  });

  it('is held by all that use one Redis, for ever and in windows', async () => {
    const server = await RedisServer.start();
    onTestFinished(() => server.stop());
    const budget = () =>
      createBudget({ limits: [{ tokens: 30 }, { tokens: 20, windowMs: 3_600_000 }], store: redisStore(server.connect(), { name: 'any' }) });
    const budgets = [budget(), budget(), budget()];
    const asked = Array.from({ length: 60 }, (_, i) =>
      firstValueFrom((budgets[i % 3] as SharedBudget).reserve({ model: 'm', inputTokens: 1 })),
    );
    const ends = await Promise.allSettled(asked);
    const granted = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    expect(granted).toHaveLength(20);
    for (const reservation of granted.slice(0, 15)) reservation.release();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const more = await Promise.allSettled(
      Array.from({ length: 30 }, () => firstValueFrom(budget().reserve({ model: 'm', inputTokens: 1 }))),
    );
    expect(more.filter(({ status }) => status === 'fulfilled')).toHaveLength(15);
  });

  it('is held by all stores of a machine that name the same', async () => {
    const folder = join(testFolder(), 'stores');
    const budget = () => createBudget({ limits: [{ tokens: 20 }], store: localStore({ name: 'any', folder }) });
    const budgets = [budget(), budget(), budget()];
    const asked = Array.from({ length: 60 }, (_, i) =>
      firstValueFrom((budgets[i % 3] as SharedBudget).reserve({ model: 'm', inputTokens: 1 })),
    );
    const ends = await Promise.allSettled(asked);
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
    for (const each of ends) if (each.status === 'rejected') expect(each.reason).toBeInstanceOf(BudgetExceededError);
  });

  it.each([
    ['a store without `ask`', { store: { correct: () => undefined } }, /expected `store` to be a store such as memoryStore/],
    ['a storage besides', { store: memoryStore(), storage: { load: () => undefined, save: () => undefined } }, /`storage`/],
    ['`enforce: false`', { store: memoryStore(), enforce: false }, /`store` is enforced/],
  ])('refuses %s', (_, options, message) => {
    expect(() => createBudget(options as never)).toThrow(FlowConfigError);
    expect(() => createBudget(options as never)).toThrow(message);
  });
});
