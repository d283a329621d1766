import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KeyedLimiter, Lease, Limiter, RateRule } from '../../operators/index.js';
import { childOf, createLimiter, isFlowError, keyedLimiter, slidingWindow, tokenBucket } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const rates: Readonly<Record<string, readonly RateRule[]>> = {
  none: [],
  bucket: [tokenBucket({ unit: 'requests', amount: 2, windowMs: 1000, burst: 2 })],
  strict: [slidingWindow({ unit: 'requests', amount: 2, windowMs: 1000 })],
  both: [
    tokenBucket({ unit: 'requests', amount: 4, windowMs: 2000, burst: 4 }),
    slidingWindow({ unit: 'tokens', amount: 3, windowMs: 1500 }),
  ],
};

const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('try' as const, 'acquire' as const), key: fc.nat({ max: 5 }), tokens: fc.nat({ max: 2 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('release' as const),
      which: fc.nat({ max: 9 }),
      outcome: fc.constantFrom('ok', 'unused', 'cancelled'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('settle' as const), which: fc.nat({ max: 9 }), tokens: fc.nat({ max: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat({ max: 9 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('of' as const), key: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('clear' as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, 300, 499, 700, 2000) }) },
);

/** Keyed limiters without a memory of when keys are idle: at the bound all of them are looked at. */
class Naive {
  private readonly limiters = new Map<number, Limiter>();
  private readonly kept = new Set<number>();
  constructor(
    private readonly make: () => Limiter,
    private readonly maxKeys: number,
  ) {}

  find(key: number): Limiter | undefined {
    if (!this.limiters.has(key) && this.limiters.size >= this.maxKeys && this.keys >= this.maxKeys) return undefined;
    const limiter = this.limiters.get(key) ?? this.make();
    this.limiters.set(key, limiter);
    return limiter;
  }

  keep(key: number): void {
    if (this.find(key)) this.kept.add(key);
  }

  get keys(): number {
    for (const [key, limiter] of this.limiters) {
      const { executing, queued, load } = { ...limiter.snapshot(), load: limiter.load };
      const isPaused = limiter.snapshot().pausedForMs > 0;
      if (executing + queued === 0 && load < 1e-6 && !isPaused && !this.kept.has(key)) this.limiters.delete(key);
    }
    return this.limiters.size;
  }

  clear(): void {
    for (const limiter of this.limiters.values()) limiter.clear();
  }
}

describe.each(['alone', 'below a limiter'])('keyed limiters %s', (where) => {
  it.each(Object.entries(rates))('with rates of kind %s forget and refuse what searched ones do', (_, its) => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (actions, maxKeys) => {
        const scheduler = new CountingScheduler();
        const options = { concurrency: 2, rates: its, headroom: 1 };
        const isAlone = where === 'alone';
        const tops = [0, 1].map(() => createLimiter({ scheduler }));
        const keyed: KeyedLimiter = isAlone
          ? keyedLimiter({ ...options, scheduler, maxKeys })
          : keyedLimiter(tops[0] as Limiter, { ...options, maxKeys });
        const naive = new Naive(() => (isAlone ? createLimiter({ ...options, scheduler }) : childOf(tops[1] as Limiter, options)), maxKeys);
        const pairs: (readonly [Lease, Lease])[] = [];
        const waiting: (() => void)[] = [];
        const logs: [string[], string[]] = [[], []];
        const costOf = (tokens: number) => (its.length > 1 ? { tokens } : {});
        let n = 0;
        for (const each of actions) {
          if (each.do === 'try') {
            const job = { key: each.key, cost: costOf(each.tokens) };
            const [one, other] = [keyed.tryAcquire(job), naive.find(each.key)?.tryAcquire({ cost: job.cost })];
            expect(one === undefined, 'tried').toBe(other === undefined);
            if (one && other) pairs.push([one, other]);
          } else if (each.do === 'acquire') {
            const id = n++;
            const cost = costOf(each.tokens);
            const pair: (Lease | undefined)[] = [];
            const limiter = naive.find(each.key);
            const got = (at: 0 | 1) => ({
              next: (lease: Lease) => {
                logs[at].push(`${String(id)} ${String(scheduler.frame)}`);
                pair[at] = lease;
                if (pair[0] && pair[1]) pairs.push([pair[0], pair[1]]);
              },
              error: (error: unknown) => logs[at].push(`${String(id)} ${isFlowError(error) ? error.code : '?'}`),
            });
            const one = keyed.acquire({ key: each.key, cost }).subscribe(got(0));
            if (limiter === undefined) {
              logs[1].push(`${String(id)} FLOW_OVERFLOW`);
              continue;
            }
            const other = limiter.acquire({ cost }).subscribe(got(1));
            waiting.push(() => {
              one.unsubscribe();
              other.unsubscribe();
            });
          } else if (each.do === 'release') for (const lease of pairs[each.which % pairs.length] ?? []) lease.release(each.outcome);
          else if (each.do === 'settle')
            for (const lease of pairs[each.which % pairs.length] ?? []) lease.settle({ inputTokens: each.tokens });
          else if (each.do === 'leave') waiting[each.which % waiting.length]?.();
          else if (each.do === 'of') {
            naive.keep(each.key);
            if (naive.find(each.key)) keyed.of(each.key);
            else expect(() => keyed.of(each.key)).toThrow();
          } else if (each.do === 'clear') {
            keyed.clear();
            naive.clear();
          } else if ('ms' in each) {
            scheduler.maxFrames = scheduler.frame + each.ms;
            scheduler.flush();
            scheduler.frame = scheduler.maxFrames;
          }
          expect(logs[0]).toEqual(logs[1]);
          if (each.do === 'advance') expect(keyed.keys, 'keys').toBe(naive.keys);
        }
      }),
      { numRuns: sized(100, 3000) },
    );
  });
});

/** A clock that counts how often it is read: every look at a limit reads it. */
function counted() {
  const scheduler = {
    time: 0,
    readings: 0,
    now: () => (scheduler.readings++, scheduler.time),
    schedule: () => ({ unsubscribe: () => undefined }) as never,
  };
  return scheduler;
}

it('looks at no other key when one more is refused, however many are in use', () => {
  const looks = [100, 1000, 10_000].map((maxKeys) => {
    const scheduler = counted();
    const keyed = keyedLimiter({ scheduler, maxKeys, rates: [slidingWindow({ unit: 'requests', amount: 5, windowMs: 60_000 })] });
    for (let i = 0; i < maxKeys; i++) keyed.tryAcquire({ key: i })?.release();
    keyed.tryAcquire({ key: 'one more' });
    const before = scheduler.readings;
    for (let i = 0; i < 100; i++) expect(keyed.tryAcquire({ key: `new ${String(i)}` })).toBeUndefined();
    return scheduler.readings - before;
  });
  expect(Math.max(...looks)).toBeLessThan(500);
});

it('forgets keys when their window has passed, whether new ones come or not', () => {
  const scheduler = counted();
  const keyed = keyedLimiter({ scheduler, rates: [tokenBucket({ unit: 'requests', amount: 10, windowMs: 1000, burst: 10 })] });
  const made = Array.from({ length: 5000 }, (_, i) => {
    keyed.tryAcquire({ key: i })?.release();
    return i;
  });
  keyed.tryAcquire({ key: 0 });
  scheduler.time = 5000;
  // The job of a key that is known is enough.
  keyed.tryAcquire({ key: 0 });
  const before = scheduler.readings;
  expect(keyed.keys).toBe(1);
  expect(scheduler.readings - before).toBeLessThan(10);
  expect(made).toHaveLength(5000);
});
