import { Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Lease, Limiter, LimiterOptions } from '../../operators/index.js';
import { batchMap, byCost, childOf, createAccount, createLimiter, lanes, perMinute } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const key = ({ key: by }: { readonly key?: unknown }): unknown => by;
const queue = lanes([{ name: 'user', reserve: 0.2 }, { name: 'normal' }], { key, keyFairness: byCost() });
const withCost = (options: LimiterOptions = {}): Limiter => createLimiter({ concurrency: 1, queue, ...options });

/** Two tenants. Each has so many jobs waiting all the time, of one size. */
class Tenants {
  readonly used = new Map<string, number>();
  readonly leases: { readonly lease: Lease; readonly of: string }[] = [];

  constructor(
    private readonly limiterOf: (tenant: string) => Limiter,
    private readonly estimates: Readonly<Record<string, number>>,
    private readonly real: Readonly<Record<string, number>> = {},
    private readonly settlesAfterRelease = false,
  ) {
    for (const tenant of Object.keys(estimates)) for (let i = 0; i < 3; i++) this.ask(tenant);
  }

  /** Ends the jobs under way one after the other, until this sum was used. */
  runUntil(sum: number): this {
    while ([...this.used.values()].reduce((all, each) => all + each, 0) < sum) {
      const { lease, of: tenant } = this.leases.shift() as (typeof this.leases)[0];
      const tokens = this.usageOf(tenant);
      this.used.set(tenant, (this.used.get(tenant) ?? 0) + tokens);
      if (!this.settlesAfterRelease) lease.settle({ units: { tokens } });
      lease.release();
      if (this.settlesAfterRelease) lease.settle({ units: { tokens } });
    }
    return this;
  }

  usageOf(tenant: string): number {
    return (this.real[tenant] ?? this.estimates[tenant]) as number;
  }

  /** By how much they differ. */
  get difference(): number {
    return Math.abs((this.used.get('A') ?? 0) - (this.used.get('B') ?? 0));
  }

  private ask(tenant: string): void {
    const cost = { tokens: this.estimates[tenant] as number };
    this.limiterOf(tenant)
      .acquire({ key: tenant, cost })
      .subscribe((lease) => {
        this.leases.push({ lease, of: tenant });
        this.ask(tenant);
      });
  }
}

/** Where the jobs of A and B are asked for. */
const trees: Record<string, () => (tenant: string) => Limiter> = {
  'in one limiter': () => {
    const limiter = withCost();
    return () => limiter;
  },
  'in one child': () => {
    const child = childOf(withCost());
    return () => child;
  },
  'in two children': () => {
    const limiter = withCost();
    const children: Record<string, Limiter> = { A: childOf(limiter), B: childOf(limiter) };
    return (tenant) => children[tenant] as Limiter;
  },
  'above, and in a child with slots of its own': () => {
    const limiter = withCost();
    const child = childOf(limiter, { concurrency: 2 });
    return (tenant) => (tenant === 'A' ? limiter : child);
  },
  'in an account': () => {
    const account = createAccount({ concurrency: 1, keyFairness: byCost() });
    return () => account;
  },
  'in a model of an account': () => {
    const account = createAccount({ concurrency: 1, keyFairness: byCost(), models: [{ model: 'large' }] });
    const model = { acquire: (job) => account.acquire({ ...job, model: 'large' }) } as Pick<Limiter, 'acquire'> as Limiter;
    return () => model;
  },
};

describe.each(Object.entries(trees))('two tenants that always have jobs waiting, %s', (_where, tree) => {
  it('use as many tokens each, within one job, although their jobs differ a hundredfold', () => {
    const tenants = new Tenants(tree(), { A: 10_000, B: 100 }).runUntil(400_000);
    expect(tenants.difference).toBeLessThanOrEqual(10_000 + 100);
  });

  it.each([
    ['A estimates ten times too much', { A: 10_000, B: 1000 }, { A: 1000, B: 1000 }],
    ['A estimates ten times too little', { A: 100, B: 1000 }, { A: 1000, B: 1000 }],
    ['both are wrong, in different directions', { A: 10_000, B: 100 }, { A: 1000, B: 1000 }],
  ])('use as many by what is settled when %s', (_name, estimates, real) => {
    for (const settlesAfterRelease of [false, true]) {
      const tenants = new Tenants(tree(), estimates, real, settlesAfterRelease).runUntil(200_000);
      // Settled after the release, the next job goes by the estimate once more.
      expect(tenants.difference).toBeLessThanOrEqual(settlesAfterRelease ? 12_000 : 2000);
    }
  });
});

describe('a limiter whose keys share by cost', () => {
  /** Asks for jobs written as `key tokens`, and answers the keys in the order of their grants. */
  const served = (limiter: Limiter, jobs: string): string[] => {
    const keys: string[] = [];
    for (const job of jobs.split(', ')) {
      const [by, tokens] = job.split(' ');
      limiter.acquire({ key: by, ...(tokens && { cost: { tokens: Number(tokens) } }) }).subscribe((lease) => {
        keys.push(by as string);
        lease.release();
      });
    }
    return keys;
  };

  it('takes turns among jobs without tokens', () => {
    const limiter = withCost();
    const held = limiter.tryAcquire();
    const keys = served(limiter, 'a, a, a, b, b, c');
    held?.release();
    expect(keys.join('')).toBe('abcaba');
  });

  it('counts what `tryAcquire` was granted', () => {
    const limiter = withCost();
    const held = limiter.tryAcquire({ key: 'a', cost: { tokens: 250 } });
    const keys = served(limiter, 'a 100, b 100, b 100, b 100, b 100');
    held?.release();
    expect(keys.join('')).toBe('bbbab');
  });

  it('counts nothing of an unused lease', () => {
    const limiter = withCost();
    const held = limiter.tryAcquire({ key: 'a', cost: { tokens: 10_000 } });
    const keys = served(limiter, 'a 100, b 100, a 100, b 100');
    held?.release('unused');
    expect(keys.join('')).toBe('abab');
  });

  it('counts another unit', () => {
    const byImages = lanes([{ name: 'all' }], { key, keyFairness: byCost('images') });
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('images', Infinity)], queue: byImages });
    const keys: string[] = [];
    const held = limiter.tryAcquire();
    for (const by of ['a', 'a', 'b', 'b', 'b']) {
      const cost = { images: by === 'a' ? 2 : 1, tokens: by === 'a' ? 1 : 1000 };
      limiter.acquire({ key: by, cost }).subscribe((lease) => {
        keys.push(by);
        lease.release();
      });
    }
    held?.release();
    expect(keys.join('')).toBe('abbab');
  });

  it('charges a key no more than its rate does', () => {
    const scheduler = new CountingScheduler();
    const limiter = withCost({ rates: [perMinute('tokens', 6000)], headroom: 1, scheduler });
    const held = limiter.tryAcquire({ key: 'a', cost: { tokens: 1e9 } });
    const keys = served(limiter, 'a 1000, b 4000, b 4000, b 4000');
    held?.release();
    scheduler.flush();
    expect(keys.join('')).toBe('bbab');
  });

  it('starts the next job at once when a settlement changes which it is', () => {
    const scheduler = new CountingScheduler();
    const limiter = withCost({ concurrency: 9, rates: [perMinute('tokens', 6000)], headroom: 1, scheduler });
    const lease = limiter.tryAcquire({ key: 'a', lane: 'user', cost: { tokens: 10 } });
    limiter.tryAcquire({ key: 'b', lane: 'user', cost: { tokens: 20 } });
    const got: string[] = [];
    limiter.acquire({ key: 'a', lane: 'user', cost: { tokens: 5000 } }).subscribe(() => got.push('a'));
    limiter.acquire({ key: 'b', lane: 'user', cost: { tokens: 10 } }).subscribe(() => got.push('b'));
    expect(got).toEqual([]);
    lease?.settle({ units: { tokens: 40 } });
    expect(got).toEqual(['b']);
  });

  it('keeps the reserve of a lane', () => {
    const scheduler = new CountingScheduler();
    const limiter = withCost({ concurrency: 9, rates: [perMinute('tokens', 6000)], headroom: 1, scheduler });
    const got: string[] = [];
    for (const [by, lane, tokens] of [
      ['a', 'normal', 1e5],
      ['b', 'normal', 1e5],
      ['c', 'user', 30],
    ] as const)
      limiter.acquire({ key: by, lane, cost: { tokens } }).subscribe(() => got.push(by));
    expect(got).toContain('c');
  });

  it.each(['in one limiter', 'in one child', 'in two children'])('gives an idle key no credit, %s', (where) => {
    const limiterOf = (trees[where] as (typeof trees)[string])();
    const order: string[] = [];
    const leases: Lease[] = [];
    const ask = (by: string): void => {
      limiterOf(by)
        .acquire({ key: by, cost: { tokens: 100 } })
        .subscribe((lease) => {
          order.push(by);
          leases.push(lease);
        });
    };
    for (let i = 0; i < 100; i++) ask('A');
    while (order.length < 50) leases.shift()?.release();
    for (let i = 0; i < 50; i++) ask('B');
    while (order.length < 70) leases.shift()?.release();
    expect(order.slice(50, 70).filter((by) => by === 'B').length).toBeLessThanOrEqual(11);
  });

  it('forgets keys that come and go', async () => {
    const limiter = withCost({ concurrency: 4 });
    const run = (of: unknown): Promise<unknown> =>
      limiter.runAsync(() => Promise.resolve(), { key: of, cost: { tokens: 1 + (Number(of) % 100) } });
    for (let i = 0; i < sized(10_000, 100_000); i += 10) await Promise.all(Array.from({ length: 10 }, (_, j) => run(i + j)));
    const { grants } = limiter as unknown as {
      readonly grants: { readonly gate: { readonly queue: { readonly lines: readonly { readonly accounts: Map<unknown, unknown> }[] } } };
    };
    expect(grants.gate.queue.lines.map(({ accounts }) => accounts.size)).toEqual([0, expect.toSatisfy((size: number) => size <= 220)]);
  });
});

describe('a batch operator whose keys share by cost', () => {
  it('fills batches by what items weigh', () => {
    const calls: string[] = [];
    const answers: Subject<string[]>[] = [];
    const work = (batch: readonly string[]): Subject<string[]> => {
      calls.push(batch.map(([by]) => by).join(''));
      const answer = new Subject<string[]>();
      answers.push(answer);
      return answer;
    };
    const items = new Subject<string>();
    const keyed = lanes<string>([{ name: 'all' }], { key: ([by]) => by, keyFairness: byCost() });
    const weigh = (item: string): number => Number(item.slice(1));
    items.pipe(batchMap(work, { queue: keyed, weigh, maxSize: 4, concurrency: 1 })).subscribe();
    for (const item of ['x1', 'x1', 'x1', 'x1', 'a30', 'a30', 'a30', 'b10', 'b10', 'b10', 'b10', 'b10']) items.next(item);
    for (let answer = answers.shift(); answer; answer = answers.shift()) {
      answer.next(['', '', '', '']);
      answer.complete();
    }
    expect(calls).toEqual(['xxxx', 'abbb', 'abba']);
  });
});
