import { delay, NEVER, of, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type {
  Credit,
  CreditCorrections,
  CreditQuestion,
  CreditStore,
  CreditWait,
  Limiter,
  LimiterOptions,
  RateRule,
} from '../../operators/index.js';
import { childOf, createLimiter, lanes, memoryStore, shared, slidingWindow } from '../../operators/index.js';
import { CreditBook } from '../../operators/kernel/index.js';
import { isGranted } from '../support/credit.js';

const tokens = (amount: number, windowMs = 1000): RateRule => slidingWindow({ unit: 'tokens', amount, windowMs });
const requests = (amount: number, windowMs = 1000): RateRule => slidingWindow({ unit: 'requests', amount, windowMs });

/** A limiter on a store that writes down what it is asked and told. */
function limiterOn(
  rates: readonly RateRule[],
  options: LimiterOptions = {},
  change: (store: CreditStore, scheduler: VirtualTimeScheduler) => Partial<CreditStore> = () => ({}),
) {
  const scheduler = new VirtualTimeScheduler();
  const inner = memoryStore({ scheduler });
  const asked: CreditQuestion[] = [];
  const told: CreditCorrections[] = [];
  const store: CreditStore = { ...inner, ...change(inner, scheduler) };
  const limiter = createLimiter({
    headroom: 1,
    scheduler,
    ...options,
    rates: shared(
      {
        ask: (question) => {
          asked.push(question);
          return store.ask(question);
        },
        correct: (corrections) => {
          told.push(corrections);
          return store.correct(corrections);
        },
        hold: (scope, ms) => store.hold(scope, ms),
      },
      rates,
    ),
  });
  const pass = (ms: number): void => {
    scheduler.maxFrames = scheduler.frame + ms;
    scheduler.flush();
    scheduler.frame = scheduler.maxFrames;
  };
  return { asked, inner, limiter, pass, scheduler, told };
}

/** How many of so many jobs go at once. */
function goesAtOnce(limiter: Limiter, count: number, cost: number): number {
  let went = 0;
  for (let i = 0; i < count; i++) if (limiter.tryAcquire({ cost: { tokens: cost } })) went++;
  return went;
}

describe('a shared rate that setLimits lifts', () => {
  it('is asked for no longer, beside others that hold', () => {
    const { asked, limiter } = limiterOn([requests(5), tokens(100)]);
    expect(goesAtOnce(limiter, 3, 60)).toBe(1);
    limiter.setLimits({ rates: [tokens(Infinity)] });
    expect(goesAtOnce(limiter, 9, 60)).toBe(4);
    expect(asked.at(-1)?.limits.map(({ key }) => key)).toEqual(['requests/1000/window/0']);
  });

  it('lets another rate of its unit count', () => {
    const { limiter } = limiterOn([tokens(100), tokens(300, 5000)]);
    limiter.setLimits({ rates: [tokens(Infinity)] });
    expect(goesAtOnce(limiter, 9, 100)).toBe(3);
  });

  it('gives nothing back to a limit that was not charged, and holds again', () => {
    const { inner, limiter, pass } = limiterOn([requests(50), tokens(100)]);
    limiter.setLimits({ rates: [tokens(Infinity)] });
    const lease = limiter.tryAcquire({ cost: { tokens: 90 } });
    limiter.setLimits({ rates: [tokens(100)] });
    expect(goesAtOnce(limiter, 9, 50)).toBe(2);
    lease?.release('unused');
    pass(400);
    const other = createLimiter({ headroom: 1, rates: shared(inner, [tokens(100)]) });
    expect(goesAtOnce(other, 1, 50)).toBe(0);
  });
});

describe('a shared rate that is lifted and set again', () => {
  it('is not given back what it was not charged, by a job in between', () => {
    const scheduler = new VirtualTimeScheduler();
    const rates = shared(memoryStore({ scheduler }), [tokens(100), tokens(300, 5000)]);
    const [one, other] = [createLimiter({ headroom: 1, scheduler, rates }), createLimiter({ headroom: 1, scheduler, rates })];
    const grants: number[] = [];
    const ask = (): void => {
      other.acquire({ cost: { tokens: 50 } }).subscribe((lease) => {
        grants.push(scheduler.now());
        lease.release();
      });
    };
    ask();
    one.setLimits({ rates: [tokens(Infinity, 5000)] });
    const lease = one.tryAcquire({ cost: { tokens: 50 } });
    one.setLimits({ rates: [tokens(300, 5000)] });
    lease?.release('unused');
    for (let i = 0; i < 20; i++) ask();
    scheduler.maxFrames = 9900;
    scheduler.flush();
    for (const at of grants) expect(grants.filter((each) => each > at - 5000 && each <= at).length * 50).toBeLessThanOrEqual(300);
    expect(grants.length).toBeGreaterThan(9);
  });
});

describe('a job that waits for a shared rate', () => {
  it.each([200, Infinity])('goes at once when setLimits raises it to %d', (amount) => {
    const { limiter } = limiterOn([requests(50), tokens(100)]);
    expect(goesAtOnce(limiter, 1, 100)).toBe(1);
    let grants = 0;
    limiter.acquire({ cost: { tokens: 60 } }).subscribe(() => grants++);
    expect(grants).toBe(0);
    limiter.setLimits({ rates: [tokens(amount)] });
    expect(grants).toBe(1);
  });
});

describe('a shared rate that setLimits lowers', () => {
  it('lets a job that costs more than it go when all of it is there, and asks a few times only', () => {
    const { asked, limiter, pass } = limiterOn([tokens(300), tokens(500, 3000)]);
    expect(goesAtOnce(limiter, 1, 300)).toBe(1);
    let grants = 0;
    limiter.acquire({ cost: { tokens: 200 } }).subscribe(() => grants++);
    limiter.setLimits({ rates: [tokens(80, 3000)] });
    pass(10_000);
    expect(grants).toBe(1);
    expect(asked.length).toBeLessThan(40);
  });
});

describe('credit that is given back', () => {
  it('is told when it ends although nothing else happens', () => {
    const { limiter, pass, told } = limiterOn([tokens(100)]);
    limiter.tryAcquire({ cost: { tokens: 70 } })?.release('unused');
    pass(400);
    expect(told.flatMap(({ corrections }) => corrections.map(({ amounts }) => amounts))).toEqual([[-70]]);
  });

  it('is asked for again when its answer was lost and the job has left', () => {
    let answers = 0;
    const { limiter, pass, told } = limiterOn([tokens(100)], {}, (store) => ({
      ask: (question) => {
        const answer = store.ask(question);
        return ++answers === 1 ? NEVER : answer;
      },
    }));
    limiter.acquire({ cost: { tokens: 70 }, deadlineMs: 100 }).subscribe({ error: () => undefined });
    pass(4000);
    expect(told.flatMap(({ corrections }) => corrections.map(({ amounts }) => amounts))).toEqual([[-70]]);
    expect(goesAtOnce(limiter, 1, 100)).toBe(1);
  });
});

describe('a question', () => {
  it('is for what is missing when some of it is in hand', () => {
    const { asked, limiter } = limiterOn([tokens(100)]);
    limiter.tryAcquire({ cost: { tokens: 30 } })?.release('unused');
    expect(goesAtOnce(limiter, 1, 100)).toBe(1);
    expect(asked.map(({ least }) => least)).toEqual([[30], [70]]);
  });

  it('is not for a job that stands behind another', () => {
    const queue = lanes([{ name: 'user', reserve: 0.1 }, { name: 'batch' }, { name: 'background' }]);
    const { asked, limiter } = limiterOn([tokens(100)], { queue });
    const child = childOf(limiter);
    expect(limiter.tryAcquire({ lane: 'batch', cost: { tokens: 90 } })).toBeDefined();
    for (const [lane, cost] of [
      ['background', 20],
      ['batch', 80],
    ] as const)
      limiter.acquire({ lane, cost: { tokens: cost } }).subscribe();
    const before = asked.length;
    expect(child.tryAcquire({ lane: 'batch', cost: { tokens: 5 } })).toBeUndefined();
    expect(asked.slice(before).filter(({ least: [least] }) => least === 5)).toEqual([]);
  });

  it('is for the job whose turn it is when another one has no reserve to pass it', () => {
    const queue = lanes([{ name: 'user', reserve: 0.1 }, { name: 'batch' }, { name: 'background' }]);
    const { limiter, pass } = limiterOn([tokens(100)], { queue });
    const got: string[] = [];
    for (let i = 0; i < 30; i++)
      for (const lane of ['batch', 'background']) limiter.acquire({ lane, cost: { tokens: 30 } }).subscribe(() => got.push(lane));
    pass(30_000);
    expect(got).toHaveLength(60);
  });
});

describe('a waiting job that costs more than a limit that was lowered', () => {
  it('goes alone: what it does not use goes back to the store, and to no other job', () => {
    const { limiter, pass, told } = limiterOn([tokens(300)], { refunds: true });
    expect(goesAtOnce(limiter, 1, 300)).toBe(1);
    const went: number[] = [];
    limiter.acquire({ cost: { tokens: 250 } }).subscribe((lease) => {
      lease.settle({ units: { tokens: 150 } });
      went.push(goesAtOnce(limiter, 1, 90));
    });
    limiter.setLimits({ rates: [tokens(100)] });
    pass(2000);
    expect(went).toEqual([0]);
    expect(told.flatMap(({ corrections }) => corrections.map(({ amounts }) => amounts))).toEqual([[-100]]);
  });

  it('leaves its credit to others only as far as the limit goes', () => {
    const spent: number[] = [];
    const start = (lane: string, cost: number): void => {
      limiter.acquire({ lane, cost: { tokens: cost } }).subscribe(() => spent.push(cost));
    };
    const { limiter, pass } = limiterOn([tokens(300)], { queue: lanes(['user', 'batch']) }, (store, scheduler) => ({
      ask: (question) => {
        const answer = store.ask(question) as Credit | CreditWait;
        if (!isGranted(answer) || answer.amounts[0] !== 250) return answer;
        for (const cost of [60, 60]) start('user', cost);
        return of(answer).pipe(delay(10, scheduler));
      },
    }));
    start('batch', 300);
    start('batch', 250);
    limiter.setLimits({ rates: [tokens(100)] });
    pass(1500);
    expect(spent).toEqual([300, 60]);
  });
});

describe('a limiter below, whose job lets the limiter above ask for credit', () => {
  it.each([
    ['slot', (): LimiterOptions => ({ concurrency: 1 })],
    ['rate', (): LimiterOptions => ({ rates: [requests(1)] })],
    ['shared rate', (scheduler: VirtualTimeScheduler): LimiterOptions => ({ rates: shared(memoryStore({ scheduler }), [requests(1)]) })],
  ])('lets another one of its jobs take its last %s, and not both', (_, below) => {
    const { asked, inner, limiter, pass, scheduler } = limiterOn([requests(10, 5000)], { queue: lanes(['user', 'batch']) });
    const child = childOf(limiter, { headroom: 1, ...below(scheduler) });
    const other = createLimiter({ headroom: 1, scheduler, rates: shared(inner, [requests(10, 5000)]) });
    const leases = Array.from({ length: 10 }, () => other.tryAcquire());
    let grants = 0;
    child.acquire({ lane: 'batch' }).subscribe(() => grants++);
    pass(20);
    for (const lease of leases) lease?.release('unused');
    pass(310);
    expect(grants).toBe(0);
    expect(child.tryAcquire({ lane: 'user' })).toBeUndefined();
    expect(grants).toBe(1);
    // What the limiter above had paid for it is there for the next one.
    const questions = asked.length;
    expect(limiter.tryAcquire({ lane: 'user' })).toBeDefined();
    expect(asked).toHaveLength(questions);
  });
});

describe('CreditBook', () => {
  const credit = (id: number, amount: number, left = 0) => ({
    credit: id,
    amounts: [amount],
    left: [left],
    holdMs: 0,
    epoch: 0,
    lessons: {},
  });

  it('lets one job spend a credit that is more than a limit, and several only what the limit is', () => {
    const book = new CreditBook();
    book.add(credit(1, 250, -150), 0, 0, 100);
    expect(book.covers(0, 250, 1)).toBe(true);
    book.pay(0, 10, 1);
    expect(book.left(0, 1)).toBe(90);
    expect(book.takeCorrections()).toEqual([{ credit: 1, lane: 0, amounts: [-150] }]);
    book.correct(0, -10, 1, 2);
    expect(book.left(0, 2)).toBe(100);
  });

  it('gives back to the credit of the lane that paid', () => {
    const book = new CreditBook();
    book.add(credit(1, 10), 1, 0, 100);
    book.add(credit(2, 10), 0, 0, 100);
    book.pay(0, 10, 5, 1);
    book.pay(0, 10, 5, 0);
    book.correct(0, -10, 5, 200, 0);
    expect(book.takeCorrections()).toEqual([{ credit: 2, lane: 0, amounts: [-10] }]);
  });

  it('gives back all of two jobs that were paid with two credits at crossing times', () => {
    const book = new CreditBook();
    book.add(credit(1, 10), 0, 0, 100);
    book.pay(0, 5, 1);
    book.add(credit(2, 10), 0, 10, 110);
    book.pay(0, 5, 20);
    book.pay(0, 10, 20);
    book.expire(200);
    book.correct(0, -10, 20, 200);
    book.correct(0, -5, 20, 200);
    book.correct(0, -5, 1, 200);
    const back = book.takeCorrections().reduce((sum, { amounts: [amount = 0] }) => sum + amount, 0);
    expect(back).toBe(-20);
  });

  it('charges what was paid without credit to the next one, and gives that back to its lane', () => {
    const book = new CreditBook();
    book.pay(0, 7, 1, 2);
    book.add(credit(1, 10), 2, 2, 100);
    book.correct(0, -7, 1, 3, 2);
    expect(book.left(0, 3, 2)).toBe(17);
  });
});
