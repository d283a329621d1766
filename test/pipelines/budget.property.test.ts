import fc from 'fast-check';
import { VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { isFlowError } from '../../operators/index.js';
import type { BudgetLimit, Reservation } from '../../src/pipelines/create-budget.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { sized } from '../support/deep.js';
import { repeatable } from '../traps/tools.js';
import type { LoadPlan } from './budget-model.js';
import { Load, PlainBudget, PRICES, TextStore, whole } from './budget-model.js';

const KEYS = [undefined, 'acme', 'beta'] as const;
const MODELS = Object.keys(PRICES);

const limit: fc.Arbitrary<BudgetLimit> = fc
  .record({
    key: fc.constantFrom(...KEYS),
    model: fc.constantFrom(undefined, ...MODELS),
    windowMs: fc.constantFrom(undefined, 50, 200),
    unit: fc.constantFrom('usd' as const, 'tokens' as const),
    amount: fc.integer({ min: 0, max: 40_000 }),
  })
  .map(({ key, model, windowMs, unit, amount }) => ({
    ...(key && { key }),
    ...(model && { model }),
    ...(windowMs && { windowMs }),
    ...(unit === 'usd' ? { usd: amount / 1_000_000 } : { tokens: amount }),
  }));

const usage = fc.record({ inputTokens: fc.nat(3000), outputTokens: fc.nat(1000) }, { requiredKeys: [] });
/** Of prompt and answer, or only how many in all. */
const tokens = fc
  .tuple(fc.record({ inputTokens: fc.nat(3000), outputTokens: fc.nat(1000) }), fc.nat(3000), fc.boolean())
  .map(([kinds, all, isMixed]) => (isMixed ? { inputTokens: 0, outputTokens: 0, tokens: all } : { ...kinds, tokens: 0 }));
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('reserve' as const), key: fc.constantFrom(...KEYS), model: fc.constantFrom(...MODELS), tokens }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('settle' as const), which: fc.nat(), usage: fc.option(usage, { nil: undefined }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('release' as const), which: fc.nat() }) },
  // Clocks are put back, too.
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: -300, max: 120 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const) }) },
);

describe('a budget', () => {
  it('says what adding up all calls says, to the last billionth, whatever happens to them', { timeout: 300_000 }, () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(limit, {
          minLength: 1,
          maxLength: 4,
          selector: ({ key, model, usd, windowMs }) => JSON.stringify([key, model, usd === undefined, windowMs]),
        }),
        fc.array(step, { maxLength: 60 }),
        (limits, steps) => {
          const scheduler = new VirtualTimeScheduler();
          let now = 0;
          let saves = 0;
          scheduler.now = () => now;
          const store = new TextStore();
          const start = () => createBudget({ limits, prices: PRICES, storage: store, scheduler });
          const plain = new PlainBudget(limits);
          let budget = start();
          let open: { readonly reservation: Reservation; readonly entry: ReturnType<PlainBudget['add']> }[] = [];
          for (const one of steps) {
            if (one.do === 'reserve') {
              const call = { model: one.model, key: one.key, ...one.tokens };
              const full = plain.full(call, now);
              try {
                const reservation = budget.reserve(call);
                expect(full).toEqual([]);
                open.push({ reservation, entry: plain.add(call, now) });
              } catch (error) {
                if (!isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) throw error;
                const named = limits.findIndex(
                  (each) => each.key === error.key && each.model === error.model && (each.usd ?? each.tokens) === error.limit,
                );
                expect(full).toContain(named);
              }
            } else if (one.do === 'settle' && open.length > 0) {
              // More than once, too: a usage that comes late.
              const { reservation, entry } = open[one.which % open.length]!;
              reservation.settle(one.usage);
              if (entry.state !== 'released') {
                entry.state = 'spent';
                entry.used = { ...entry.used, ...one.usage };
              }
            } else if (one.do === 'release' && open.length > 0) {
              const { reservation, entry } = open[one.which % open.length]!;
              reservation.release();
              if (entry.state === 'inFlight') entry.state = 'released';
            } else if (one.do === 'wait') {
              now += one.ms;
            } else if (one.do === 'crash') {
              budget = start();
              plain.crash();
              open = [];
            }
            if (store.saves > saves) plain.save(now);
            saves = store.saves;
            budget.snapshot().limits.forEach((shown, i) => {
              const { charged, inFlight } = plain.sums(i, now);
              expect([whole(shown, shown.spent), whole(shown, shown.inFlight)]).toEqual([charged - inFlight, inFlight]);
              expect(shown.resetsAt).toBe(plain.endsAt(i, now));
            });
          }
        },
      ),
      { numRuns: sized(30, 20_000), seed: 17 },
    );
  });
});

/** 64 callers in virtual time, until nothing has room and nothing is under way. */
function load(seed: number, plan: Partial<LoadPlan> & Pick<LoadPlan, 'estimate'>, crashAt?: number): Load {
  const scheduler = new VirtualTimeScheduler();
  const made = new Load({ limits: [{ usd: 0.1 }], callers: 64, scheduler, random: repeatable(seed), ...plan });
  made.begin();
  // Once between every two things that were ever written down.
  made.store.onSaved = (saves) => {
    if (saves === crashAt) scheduler.schedule(made.crash);
  };
  scheduler.flush();
  return made;
}

const seeds = Array.from({ length: sized(2, 60) }, (_, i) => i + 1);
const LIMIT = 100_000_000n;
const exactly = (used: { readonly inputTokens: number; readonly outputTokens: number }) => used;
const upper = ({ inputTokens, outputTokens }: { readonly inputTokens: number; readonly outputTokens: number }) => ({
  inputTokens: Math.ceil(inputTokens * 1.15),
  outputTokens: Math.max(500, outputTokens),
});
const low = ({ inputTokens }: { readonly inputTokens: number }) => ({ inputTokens: Math.floor(inputTokens * 0.7), outputTokens: 0 });

describe('64 callers at a time', () => {
  it.each(seeds)('never spend more than the limit with upper estimates, and can use nearly all of it (seed %i)', (seed) => {
    const { billed, budget, overruns, sent } = load(seed, { estimate: upper });
    expect(billed).toBeLessThanOrEqual(LIMIT);
    expect(billed * 100n).toBeGreaterThanOrEqual(LIMIT * 97n);
    expect(overruns).toEqual([]);
    // 0 drift, after all these calls.
    expect(BigInt(Math.round(budget.snapshot().spentUsd * 1e9))).toBe(billed);
    expect(budget.snapshot()).toMatchObject({ executing: 0, inFlightUsd: 0, inFlightTokens: 0 });
    expect(sent).toBeGreaterThan(64);
  });

  it.each(seeds)('spend more than the limit by what those under way were short of, at most, and it is told (seed %i)', (seed) => {
    const { billed, mostShortfall, overruns } = load(seed, { estimate: low });
    expect(billed).toBeGreaterThan(LIMIT);
    expect(billed - LIMIT).toBeLessThanOrEqual(mostShortfall);
    expect(overruns.at(-1)).toBe(billed - LIMIT);
  });

  it.each(seeds)('keep the estimates of calls with unknown usage (seed %i)', (seed) => {
    const { billed, budget } = load(seed, { estimate: upper, failures: 0.3 });
    const charged = BigInt(Math.round(budget.snapshot().spentUsd * 1e9));
    expect(charged).toBeLessThanOrEqual(LIMIT);
    expect(charged).toBeGreaterThan(billed);
  });

  it('never spend more than the limit when the process dies between any two steps, and what was reserved stays charged', () => {
    const small = { limits: [{ usd: sized(0.005, 0.05) }], estimate: exactly };
    const steps = load(1, small).store.saves;
    expect(steps).toBeGreaterThan(64);
    for (let crashAt = 1; crashAt <= steps; crashAt++) {
      for (const estimate of [exactly, upper]) {
        const { billed, budget, store } = load(1, { ...small, estimate }, crashAt);
        expect(billed).toBeLessThanOrEqual(sized(5_000_000, 50_000_000));
        const [limits] = budget.snapshot().limits;
        // Whatever the provider has billed is charged.
        expect(BigInt(Math.round((limits?.spent ?? 0) * 1e9))).toBeGreaterThanOrEqual(billed);
        expect(store.load()?.limits[0]?.charged).toBe(Math.round((limits?.spent ?? 0) * 1e9));
      }
    }
  });

  it('never spend more than the limit when processes die again and again', () => {
    for (const seed of seeds) {
      const scheduler = new VirtualTimeScheduler();
      const random = repeatable(seed);
      const made = new Load({ limits: [{ usd: 0.1 }], callers: 64, scheduler, random, estimate: upper });
      made.begin();
      for (let i = 0; i < 20; i++) scheduler.schedule(made.crash, random() * 200);
      scheduler.flush();
      expect(made.billed).toBeLessThanOrEqual(LIMIT);
      const spent = BigInt(Math.round((made.budget.snapshot().limits[0]?.spent ?? 0) * 1e9));
      expect(spent).toBeGreaterThanOrEqual(made.billed);
    }
  });
});
