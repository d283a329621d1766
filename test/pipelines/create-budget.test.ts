import fc from 'fast-check';
import { defer, of, retry, throwError, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { type BudgetExceededError, isFlowError } from '../../operators/index.js';
import type { BudgetCall, BudgetOptions, Reservation } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { notSaved } from '../misuse/create-budget.rows.js';
import { TextStore } from './budget-model.js';

const prices = { small: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 }, search: { usdPerCall: 0.01 } };

/** A budget on a clock that is set by hand. */
function on(options: BudgetOptions) {
  const scheduler = new VirtualTimeScheduler();
  const clock = { now: 1_000 };
  scheduler.now = () => clock.now;
  const events: FlowEvent[] = [];
  const budget = createBudget({
    prices,
    scheduler,
    onEvent: (event) => events.push(event),
    ...options,
  });
  const refusal = (call: BudgetCall): unknown => {
    try {
      budget.reserve(call);
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const warnings = () => events.filter(({ type }) => type === 'budgetLow');
  return { budget, clock, events, warnings, refusal, only: () => budget.snapshot().limits[0]! };
}

const tokens = (inputTokens: number, outputTokens = 0): BudgetCall => ({ model: 'small', inputTokens, outputTokens });

describe('a reservation', () => {
  it('counts while it is under way, and what it does not need is free again', () => {
    const { budget, only, refusal } = on({ limits: [{ tokens: 100 }] });
    const call = budget.reserve(tokens(40, 50));
    expect(only()).toMatchObject({ spent: 0, inFlight: 90, left: 10 });
    expect(isFlowError(refusal(tokens(11)), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    call.settle({ inputTokens: 30, outputTokens: 5 });
    expect(only()).toMatchObject({ spent: 35, inFlight: 0, left: 65 });
    expect(refusal(tokens(65))).toBeUndefined();
  });

  it('keeps its estimate of what the usage does not say', () => {
    const { budget, only } = on({ limits: [{ tokens: 1000 }] });
    budget.reserve(tokens(40, 50)).settle();
    expect(only()).toMatchObject({ spent: 90, inFlight: 0 });
    budget.reserve(tokens(40, 50)).settle({ outputTokens: 7 });
    expect(only().spent).toBe(90 + 47);
    budget.reserve(tokens(40, 50)).settle({ inputTokens: NaN, outputTokens: -5 });
    budget.reserve(tokens(40, 50)).settle({ inputTokens: Infinity, outputTokens: '5' as never });
    expect(only().spent).toBe(90 + 47 + 90 + 90);
  });

  it('costs nothing when it is released, unless it was settled', () => {
    const { budget, only } = on({ limits: [{ tokens: 100 }] });
    const never = budget.reserve(tokens(60));
    never.release();
    never.release();
    never.settle({ inputTokens: 60 });
    expect(only()).toMatchObject({ spent: 0, inFlight: 0, left: 100 });
    const sent = budget.reserve(tokens(60));
    sent.settle({ inputTokens: 20 });
    sent.release();
    sent.settle();
    expect(only()).toMatchObject({ spent: 20, inFlight: 0 });
    expect(budget.snapshot()).toMatchObject({ executing: 0, spentTokens: 20 });
  });

  it('is corrected by a usage that comes late', () => {
    const { budget, only } = on({ limits: [{ tokens: 100 }] });
    const call = budget.reserve(tokens(10, 30));
    call.settle();
    call.settle({ inputTokens: 12 });
    call.settle({ outputTokens: 3 });
    expect(only()).toMatchObject({ spent: 15, inFlight: 0 });
  });
});

describe('limits', () => {
  it('are about all calls, those of a key, those of a model, and all of them have to have room', () => {
    const { budget, refusal } = on({ limits: [{ tokens: 100 }, { key: 'acme', tokens: 50 }, { model: 'search', tokens: 20 }] });
    expect(refusal({ model: 'small', key: 'acme', inputTokens: 51 })).toMatchObject({ key: 'acme', model: undefined, limit: 50 });
    expect(refusal({ model: 'search', key: 'acme', inputTokens: 21 })).toMatchObject({ key: undefined, model: 'search', limit: 20 });
    budget.reserve({ model: 'small', key: 'beta', inputTokens: 70 });
    expect(refusal({ model: 'small', key: 'acme', inputTokens: 31 })).toMatchObject({ key: undefined, limit: 100 });
    // What was refused by one is charged to none.
    expect(budget.snapshot().limits.map(({ inFlight }) => inFlight)).toEqual([70, 0, 0]);
  });

  it('in USD need a price of the model, those in tokens do not', () => {
    const { refusal } = on({ limits: [{ usd: 1, key: 'acme' }, { tokens: 100 }] });
    expect(refusal({ model: 'large', inputTokens: 5 })).toBeUndefined();
    const error = refusal({ model: 'large', key: 'acme' });
    expect(isFlowError(error, 'FLOW_CONFIG_INVALID') && error.option).toBe("prices['large']");
    expect(refusal({ model: 'constructor', key: 'acme' })).toMatchObject({ code: 'FLOW_CONFIG_INVALID' });
  });

  it('count calls by their price as well', () => {
    const { budget, refusal, only } = on({ limits: [{ usd: 0.05 }] });
    for (let i = 0; i < 5; i++) budget.reserve({ model: 'search' }).settle();
    expect(only()).toMatchObject({ spent: 0.05, left: 0 });
    expect(refusal({ model: 'search' })).toMatchObject({ unit: 'usd', limit: 0.05 });
  });

  it('are said in the error, with the time they reset, and without the key in its words', () => {
    const { budget, clock, refusal } = on({ limits: [{ key: 'planted-secret', usd: 0.001, windowMs: 60_000 }, { tokens: 1e6 }] });
    budget.reserve({ model: 'small', key: 'planted-secret', inputTokens: 900 });
    clock.now += 20_000;
    const error = refusal({ model: 'small', key: 'planted-secret', inputTokens: 101 });
    expect(error).toMatchObject({ name: 'BudgetExceededError', operator: 'createBudget', resetsAt: 61_000, resetsInMs: 40_000 });
    expect((error as Error).message).toBe(
      'createBudget: the call may cost 0.000101 USD, and 0.0001 USD of the limit of 0.001 USD is left; the limit resets in 40 s',
    );
    // It would have none in an empty window either.
    expect(refusal({ model: 'small', key: 'planted-secret', inputTokens: 1001 })).toMatchObject({
      resetsAt: Infinity,
      resetsInMs: Infinity,
    });
  });

  it('say the one of several that resets last', () => {
    const { budget, refusal } = on({
      limits: [
        { tokens: 10, windowMs: 100 },
        { tokens: 20, windowMs: 900 },
        { tokens: 15, windowMs: 300 },
      ],
    });
    budget.reserve(tokens(10));
    expect(refusal(tokens(6))).toMatchObject({ limit: 15, resetsAt: 1_300 });
    expect(on({ limits: [{ tokens: 0 }] }).refusal(tokens(1))).toMatchObject({ limit: 0, resetsAt: Infinity });
  });

  it('begin anew with their windows, from the first call of each', () => {
    const { budget, clock, only, refusal } = on({ limits: [{ tokens: 10, windowMs: 100 }] });
    expect(only().resetsAt).toBe(Infinity);
    clock.now = 5_000;
    const late = budget.reserve(tokens(10));
    clock.now = 5_099;
    expect(refusal(tokens(1))).toMatchObject({ resetsAt: 5_100, resetsInMs: 1 });
    clock.now = 5_100;
    expect(only()).toMatchObject({ spent: 0, left: 10, resetsAt: Infinity });
    const next = budget.reserve(tokens(4));
    // A call is one of the window that it began in.
    late.settle({ inputTokens: 2 });
    expect(only()).toMatchObject({ spent: 0, inFlight: 4, resetsAt: 5_200 });
    next.settle();
    expect(only()).toMatchObject({ spent: 4, inFlight: 0 });
  });

  it('last no longer than their windows when a clock is put back', () => {
    const { budget, clock, only, refusal } = on({ limits: [{ tokens: 10, windowMs: 100 }] });
    budget.reserve(tokens(10));
    clock.now = 0;
    expect(only()).toMatchObject({ inFlight: 10, resetsAt: 100 });
    expect(refusal(tokens(1))).toMatchObject({ resetsAt: 100, resetsInMs: 100 });
    clock.now = 100;
    expect(only()).toMatchObject({ inFlight: 0, resetsAt: Infinity });
  });

  it.each([1e20, 1e300, Number.MAX_VALUE])('are right again after an absurd %d tokens', (much) => {
    const { budget, only, refusal } = on({ limits: [{ key: 'acme', tokens: 100 }] });
    const mine = budget.reserve({ ...tokens(40), key: 'acme' });
    mine.settle({ inputTokens: much, outputTokens: much });
    expect(isFlowError(refusal({ ...tokens(1), key: 'acme' }), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    mine.settle({ inputTokens: 40, outputTokens: 0 });
    expect(only()).toMatchObject({ spent: 40, left: 60 });
    expect(refusal({ ...tokens(much), key: 'acme' })).toMatchObject({ resetsAt: Infinity });
    budget.reserve(tokens(much)).settle({ inputTokens: 2, outputTokens: 0 });
    const { spentUsd, spentTokens } = budget.snapshot();
    // Above all sums there are no odd numbers.
    expect([Math.abs(spentTokens - 42) <= 1, Math.abs(spentUsd - 42e-6) < 1e-8]).toEqual([true, true]);
  });

  it('charge tokens of unknown kind at the dearer price, until their kind is known', () => {
    const dear = { small: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 }, reading: { inputUsdPerMillion: 3 } };
    const { budget, refusal } = on({ limits: [{ usd: 0.0003 }], prices: dear });
    expect(refusal({ model: 'small', tokens: 151 })).toMatchObject({ unit: 'usd' });
    const call = budget.reserve({ model: 'small', tokens: 100 });
    expect(budget.snapshot()).toMatchObject({ inFlightUsd: 0.0002, inFlightTokens: 100 });
    call.settle({ inputTokens: 80 });
    expect(budget.snapshot()).toMatchObject({ spentUsd: 0.000_12, spentTokens: 100 });
    call.settle({ outputTokens: 5 });
    expect(budget.snapshot()).toMatchObject({ spentUsd: 0.000_09, spentTokens: 85 });
    // One that has no price for answers is not free.
    expect(refusal({ model: 'reading', tokens: 100 })).toMatchObject({ unit: 'usd' });
  });

  it('are none: everything is counted all the same, in USD where there is a price', () => {
    const { budget } = on({});
    budget.reserve({ model: 'large', inputTokens: 1.2 }).settle();
    const call = budget.reserve(tokens(1000, 500));
    expect(budget.snapshot()).toEqual({
      executing: 1,
      spentUsd: 0,
      spentTokens: 2,
      inFlightUsd: 0.002,
      inFlightTokens: 1500,
      limits: [],
    });
    call.settle({ inputTokens: 1000, outputTokens: 0 });
    expect(budget.snapshot()).toMatchObject({ executing: 0, spentUsd: 0.001, spentTokens: 1002, inFlightUsd: 0 });
  });
});

describe('what is told', () => {
  it('is that a limit is nearly spent, once in each window', () => {
    const { budget, clock, events, warnings } = on({ limits: [{ tokens: 1000 }, { key: 'acme', tokens: 100, windowMs: 500 }] });
    const call = budget.reserve({ model: 'small', key: 'acme', inputTokens: 85 });
    expect(warnings()).toEqual([]);
    call.settle();
    budget.reserve({ model: 'small', key: 'acme', inputTokens: 5 }).settle();
    expect(budget.snapshot().limits[1]).toEqual({
      key: 'acme',
      model: undefined,
      unit: 'tokens',
      windowMs: 500,
      limit: 100,
      spent: 90,
      inFlight: 0,
      left: 10,
      resetsAt: 1_500,
    });
    expect(events).toEqual([
      {
        type: 'budgetLow',
        operator: 'createBudget',
        instance: expect.any(String) as string,
        at: 1_000,
        position: 1,
        unit: 'tokens',
        spent: 85,
        limit: 100,
      },
    ]);
    clock.now = 1_500;
    budget.reserve({ model: 'small', key: 'acme', inputTokens: 80 }).settle();
    expect(warnings()).toHaveLength(2);
  });

  it('is that a limit has no room, also when little is spent yet', () => {
    const { budget, warnings, refusal } = on({ limits: [{ tokens: 100 }] });
    const call = budget.reserve(tokens(60));
    expect(refusal(tokens(101))).toBeDefined();
    // It has room when the other is over.
    expect(refusal(tokens(50))).toBeDefined();
    expect(warnings()).toEqual([]);
    call.settle();
    expect(refusal(tokens(50))).toBeDefined();
    expect(refusal(tokens(50))).toBeDefined();
    expect(warnings()).toMatchObject([{ position: 0, spent: 60, limit: 100 }]);
  });

  it('is by how much calls are above a limit, as often as one costs more than estimated', () => {
    const { budget, events } = on({ limits: [{ tokens: 100 }, { usd: 1 }], warnAt: 1 });
    const calls = [budget.reserve(tokens(40)), budget.reserve(tokens(40)), budget.reserve(tokens(20))];
    calls[0]!.settle({ inputTokens: 60 });
    calls[1]!.settle({ inputTokens: 50 });
    calls[2]!.settle({ inputTokens: 10 });
    const over = events.flatMap((event) => (event.type === 'budgetOverrun' ? [[event.position, event.over]] : []));
    expect(over).toEqual([
      [0, 20],
      [0, 30],
    ]);
  });

  it('may be told to a listener that throws, or that spends', () => {
    const { budget, only } = on({
      limits: [{ tokens: 100 }],
      onEvent: ({ type }) => {
        if (type === 'budgetLow') budget.reserve(tokens(1));
        throw new Error('mine');
      },
    });
    budget.reserve(tokens(90)).settle();
    expect(only()).toMatchObject({ spent: 90, inFlight: 1 });
  });
});

describe('a store', () => {
  const limits = [{ usd: 1 }, { key: 'acme', tokens: 100, windowMs: 500 }];

  it('has what was reserved before the call goes out, and the next process goes on with it', () => {
    const store = new TextStore();
    const first = on({ limits, storage: store });
    first.budget.reserve({ model: 'small', key: 'acme', inputTokens: 40 }).settle({ inputTokens: 30 });
    first.budget.reserve({ model: 'small', key: 'acme', inputTokens: 20 });
    first.budget.reserve({ model: 'small', inputTokens: 1000 }).release();
    expect(store.load()).toEqual({
      limits: [
        { unit: 'usd', startedAt: 1000, charged: 50_000 },
        { key: 'acme', unit: 'tokens', windowMs: 500, startedAt: 1000, charged: 50 },
      ],
    });
    // The amount may be another one.
    const second = on({ limits: [limits[1]!, { usd: 2 }, { model: 'small', tokens: 5 }], storage: store });
    expect(second.budget.snapshot()).toMatchObject({
      spentUsd: 0,
      limits: [{ spent: 50, resetsAt: 1500 }, { spent: 0.00005 }, { spent: 0 }],
    });
    expect(second.refusal({ model: 'search', key: 'acme', inputTokens: 51 })).toMatchObject({ resetsAt: 1500 });
  });

  it('has nothing of a window that is over', () => {
    const store = new TextStore();
    on({ limits, storage: store }).budget.reserve({ model: 'small', key: 'acme', inputTokens: 40 });
    const { budget, clock } = on({ limits, storage: store });
    clock.now = 1_500;
    budget.reserve({ model: 'search' });
    expect(store.load()?.limits).toMatchObject([{ unit: 'usd' }]);
  });

  it('does not make a window longer when the clock was put back', () => {
    const store = new TextStore();
    store.save({ limits: [{ key: 'acme', unit: 'tokens', windowMs: 500, startedAt: 9_000, charged: 50 }] });
    expect(on({ limits: [limits[1]!], storage: store }).only()).toMatchObject({ spent: 50, resetsAt: 1_500 });
  });

  it('stops the call with its error when it cannot save, and is forgiven when the call is over', () => {
    const store = new TextStore();
    const full = new Error('no space left');
    const { budget, refusal, only } = on({ limits: [{ tokens: 100 }], storage: store });
    const call = budget.reserve(tokens(40));
    store.save = () => {
      throw full;
    };
    expect(refusal(tokens(10))).toBe(full);
    expect(budget.snapshot()).toMatchObject({ executing: 1, limits: [{ spent: 0, inFlight: 40 }] });
    call.settle({ inputTokens: 10 });
    expect(only()).toMatchObject({ spent: 10, inFlight: 0 });
    // What was reserved is still written down.
    expect(store.load()?.limits[0]?.charged).toBe(40);
  });

  it.each([
    ['later', () => Promise.resolve()],
    ['in vain', () => Promise.reject(new Error('no space left'))],
  ])('that saves %s lets no call go: whether it was written down is not known', async (_, save) => {
    const store = { load: () => undefined, save };
    const { budget, refusal } = on({ limits: [{ tokens: 100 }], storage: store });
    expect(refusal(tokens(10))).toMatchObject({ code: 'FLOW_CONFIG_INVALID', option: 'storage.save' });
    expect(budget.snapshot()).toMatchObject({ executing: 0, limits: [{ inFlight: 0, left: 100 }] });
    // Nor is there an unhandled rejection.
    await new Promise((resolve) => setTimeout(resolve));
  });

  it.each(notSaved)('is refused with what no budget has saved (%j)', (limits) => {
    const store = { load: () => ({ limits }) as never, save: () => undefined };
    expect(() => createBudget({ storage: store })).toThrow(
      'createBudget: expected `storage` to be a storage whose `load` returns what a budget has saved',
    );
  });
});

describe('the prompt cache', () => {
  const cached = { inputUsdPerMillion: 10, cacheReadUsdPerMillion: 1, cacheWriteUsdPerMillion: 12.5, outputUsdPerMillion: 0 };
  const usage = { inputTokens: 1_000_000, cacheReadTokens: 600_000, cacheWriteTokens: 300_000, outputTokens: 0 };

  it.each([
    ['at its own prices', cached, usage, 1 + 0.6 + 3.75],
    ['for an hour at twice the input', cached, { ...usage, cacheWriteTokens: 0, cacheWrite1hTokens: 300_000 }, 1 + 0.6 + 6],
    [
      'for an hour at no less than for a while',
      { ...cached, cacheWriteUsdPerMillion: 30 },
      { inputTokens: 100_000, cacheWrite1hTokens: 100_000 },
      3,
    ],
    ['without prices of its own: reads as input, writes at twice that', { inputUsdPerMillion: 10 }, usage, 1 + 6 + 6],
    ['never below 0, whatever the parts say', cached, { inputTokens: 5, cacheReadTokens: 1_000_000 }, 1],
  ])('%s', (_, price, used, usd) => {
    const { budget } = on({ prices: { m: price } });
    budget.reserve({ model: 'm', inputTokens: 1_000_000 }).settle({ outputTokens: 0, ...used });
    expect(budget.snapshot().spentUsd).toBeCloseTo(usd, 9);
  });

  it('is expected to be written again by a model that has written to it, so that the limit holds', () => {
    const { budget, refusal, only } = on({ prices: { m: cached }, limits: [{ usd: 20 }] });
    expect(refusal({ model: 'm', inputTokens: 2_000_000 })).toBeUndefined();
    const { budget: later, refusal: then } = on({ prices: { m: cached }, limits: [{ usd: 20 }] });
    later.reserve({ model: 'm', inputTokens: 0 }).settle({ inputTokens: 1, cacheWriteTokens: 1 });
    expect(isFlowError(then({ model: 'm', inputTokens: 1_700_000 }), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    expect(then({ model: 'm', inputTokens: 1_500_000 })).toBeUndefined();
    expect(then({ model: 'm', inputTokens: 1_000_000, cacheReadTokens: 1_000_000 })).toBeUndefined();
    expect(budget.snapshot().limits).toEqual([only()]);
  });
});

describe('a budget that is only watched', () => {
  it('lets everything go, and tells what it would have refused', () => {
    const { budget, events, warnings, refusal, only } = on({ limits: [{ tokens: 100 }], enforce: false });
    for (let i = 0; i < 3; i++) budget.reserve(tokens(60)).settle({ inputTokens: 60, outputTokens: 0 });
    expect(refusal(tokens(1_000))).toBeUndefined();
    expect(only()).toMatchObject({ spent: 180, inFlight: 1_000, left: 0 });
    expect(warnings()).toHaveLength(1);
    expect(events.map(({ type }) => type)).toEqual(['budgetLow', 'budgetOverrun', 'budgetOverrun', 'budgetOverrun']);
  });
});

describe('what a call leaves to others', () => {
  it('is its share of a limit for ever', () => {
    const { refusal } = on({ limits: [{ tokens: 100 }] });
    expect(isFlowError(refusal({ ...tokens(91), reserved: 0.1 }), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    expect(refusal({ ...tokens(90), reserved: 0.1 })).toBeUndefined();
    expect(refusal(tokens(10))).toBeUndefined();
  });

  it('is its share of what is left of a window, so that at its end all of it can be spent', () => {
    const { clock, refusal, budget } = on({ limits: [{ tokens: 100, windowMs: 1000 }] });
    budget.reserve(tokens(1));
    expect(isFlowError(refusal({ ...tokens(90), reserved: 0.1 }), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    clock.now += 500;
    expect(refusal({ ...tokens(94), reserved: 0.1 })).toBeUndefined();
    expect(isFlowError(refusal({ ...tokens(1), reserved: 0.1 }), 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    clock.now += 499;
    expect(refusal({ ...tokens(4), reserved: 0.1 })).toBeUndefined();
  });
});

describe('calls that wait for room', () => {
  const USED = { inputTokens: 0, outputTokens: 0 };

  /** Calls of one budget, which write down each time they ask, what they get and how they fail. */
  function waiting(limit: number) {
    const scheduler = new VirtualTimeScheduler();
    const budget = createBudget({ limits: [{ tokens: limit }], scheduler });
    const log: string[] = [];
    const got = new Map<string, Reservation>();
    const call = (name: string, inputTokens: number, then: () => void = () => undefined) => {
      const asking = defer(() => {
        log.push(`${name} asks`);
        return of(budget.reserve(tokens(inputTokens)));
      });
      return asking.pipe(retry({ delay: (error: BudgetExceededError) => error.freed ?? throwError(() => error) })).subscribe({
        next: (reservation) => {
          log.push(`${name} has room`);
          got.set(name, reservation);
          then();
        },
        error: () => log.push(`${name} is refused`),
      });
    };
    const wake = (): string[] => {
      log.length = 0;
      scheduler.flush();
      return [...log];
    };
    return { budget, call, got, log, scheduler, wake };
  }

  it('are woken once each, those that asked first before others, where they have room', () => {
    const { budget, call, wake } = waiting(1000);
    const [large, small] = [900, 100].map((amount) => budget.reserve(tokens(amount)));
    for (const [name, amount] of Object.entries({ a: 500, b: 300, c: 300, d: 200 })) call(name, amount);
    small?.settle(USED);
    expect(wake()).toEqual([]);
    large?.settle(USED);
    expect(wake()).toEqual(['a asks', 'a has room', 'b asks', 'b has room', 'd asks', 'd has room']);
  });

  it('keep their place before calls that ask while others are woken', () => {
    const { budget, call, got, wake } = waiting(100);
    const first = budget.reserve(tokens(100));
    call('a', 40, () => {
      call('late', 70);
    });
    call('b', 70);
    first.settle(USED);
    expect(wake()).toEqual(['a asks', 'a has room', 'late asks']);
    got.get('a')?.settle(USED);
    expect(wake()).toEqual(['b asks', 'b has room']);
  });

  it('are told at once of room that came before they listened', () => {
    const { budget, scheduler } = waiting(100);
    const first = budget.reserve(tokens(100));
    const refusal = (() => {
      try {
        return budget.reserve(tokens(50));
      } catch (error) {
        return error;
      }
    })() as BudgetExceededError;
    first.settle(USED);
    scheduler.flush();
    const told: unknown[] = [];
    refusal.freed?.subscribe({ next: (value) => told.push(value) });
    expect(told).toHaveLength(1);
  });

  it('are refused as soon as calls that are over leave no hope', () => {
    const { budget, call, wake } = waiting(1000);
    const first = budget.reserve(tokens(900));
    call('a', 500);
    call('b', 150);
    first.settle({ inputTokens: 800, outputTokens: 0 });
    expect(wake()).toEqual(['a asks', 'a is refused', 'b asks', 'b has room']);
  });

  it('end, all of them, whatever they ask for and use', () => {
    const drawn = fc.array(
      fc.record({ asked: fc.integer({ min: 1, max: 100 }), used: fc.integer({ min: 0, max: 100 }), leaves: fc.boolean() }),
      {
        minLength: 1,
        maxLength: 30,
      },
    );
    fc.assert(
      fc.property(drawn, fc.nat(), (calls, seed) => {
        const { budget, call, got, log, scheduler } = waiting(300);
        const left = new Set<string>();
        for (const [i, { asked, leaves }] of calls.entries()) {
          const subscription = call(String(i), asked);
          if (!leaves || got.has(String(i))) continue;
          subscription.unsubscribe();
          left.add(String(i));
        }
        for (let turn = seed; got.size > 0; turn += seed) {
          const names = [...got.keys()];
          const name = names[turn % names.length] as string;
          const { asked, used } = calls[Number(name)] as (typeof calls)[number];
          got.get(name)?.settle({ inputTokens: Math.min(asked, used), outputTokens: 0 });
          got.delete(name);
          scheduler.flush();
        }
        const ends = log.filter((line) => /room|refused/.test(line)).map((line) => line.split(' ')[0] as string);
        expect([...ends, ...left].sort()).toEqual(calls.map((_, i) => String(i)).sort());
        // Once at first, and at most once more: no call is woken in vain.
        for (const i of calls.keys()) expect(log.filter((line) => line === `${String(i)} asks`).length).toBeLessThanOrEqual(2);
        expect(budget.snapshot()).toMatchObject({ executing: 0 });
      }),
    );
  });
});
