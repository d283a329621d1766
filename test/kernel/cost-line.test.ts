import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Charge, LeaseShare, Waiter } from '../../operators/kernel/index.js';
import { costLines, LanesQueue, sharedRounds } from '../../operators/kernel/index.js';
import { sized } from '../support/deep.js';

/** A job of a limiter, which is charged and settled. */
class Job {
  previous: Job | undefined = undefined;
  next: Job | undefined = undefined;
  readonly lane = 0;
  readonly weight = 1;
  share?: LeaseShare;
  readonly charge: Charge;
  constructor(
    readonly key: unknown,
    tokens: number,
    readonly index = 0,
  ) {
    this.charge = { slots: 1, requests: 1, tokens };
  }
}

/** An item of a batch: its cost is its weight. */
class Item {
  previous: Item | undefined = undefined;
  next: Item | undefined = undefined;
  readonly lane = 0;
  constructor(
    readonly key: unknown,
    readonly weight: number,
    readonly index = 0,
  ) {}
}

const lane = { share: 1, floor: undefined };
const queueOf = <E extends Waiter<E>>(places = 1): LanesQueue<E> =>
  new LanesQueue<E>([lane], sharedRounds(false), places, true, costLines('tokens'));

/** Takes the next job, as a limiter does. */
function grant(queue: LanesQueue<Job>): Job {
  const job = queue.takeHead(0);
  queue.granted?.(job, 0, job.key);
  return job;
}

/** Grants a job that does not wait. */
function grantAtOnce(queue: LanesQueue<Job>, key: unknown, tokens: number): Job {
  const job = new Job(key, tokens);
  queue.granted?.(job, 0, job.key);
  return job;
}

const use = (job: Job, tokens: number): boolean | undefined => job.share?.settled({ tokens });

/** Adds jobs written as `key tokens`, apart by commas; `3*a 100` is three of them. */
function push(queue: LanesQueue<Job>, script: string): void {
  for (const part of script.split(',')) {
    const [, times = '1', key, tokens] = /^ *(?:(\d+)\*)?(\w) (\d+) *$/.exec(part) ?? [];
    for (let i = 0; i < Number(times); i++) queue.push(new Job(key, Number(tokens)));
  }
}

/** Keys in the order in which their jobs are granted, each settled with what `usage` says. */
function order(queue: LanesQueue<Job>, most = Infinity, usage?: (job: Job) => number): string {
  let keys = '';
  while (queue.size > 0 && keys.length < most) {
    const job = grant(queue);
    keys += String(job.key);
    if (usage) use(job, usage(job));
    job.share?.released(false);
  }
  return keys;
}

/** How many keys a queue remembers. */
function remembered(queue: LanesQueue<Job> | LanesQueue<Item>): number {
  const { lines } = queue as unknown as { readonly lines: readonly { readonly accounts: ReadonlyMap<unknown, unknown> }[] };
  return lines[0]?.accounts.size ?? 0;
}

/*
 * a 300   |──────────────|──────────────|      The key goes next that is least far to the right.
 * b 100   |────|────|────|────|────|────|      Of keys that are equally far, the one that has waited longest.
 */
describe('the next key is the one whose jobs have cost least', () => {
  it.each([
    ['jobs of 3 times the cost get a third of the turns', '3*a 300, 9*b 100', 'abbbabbbabbb'],
    ['equal costs take turns', '3*a 100, 3*b 100, 3*c 100', 'abcabcabc'],
    ['a job without tokens costs 1', '3*a 0, 3*b 1, 2*c 2', 'abcabcab'],
    ['one key alone goes on', '4*a 100', 'aaaa'],
  ])('%s', (_name, script, expected) => {
    const queue = queueOf<Job>();
    push(queue, script);
    expect(order(queue)).toBe(expected);
  });

  it('keeps the order under one key', () => {
    const queue = queueOf<Job>();
    for (const tokens of [5, 1, 3, 2]) queue.push(new Job('a', tokens));
    expect([1, 2, 3, 4].map(() => grant(queue).charge.tokens)).toEqual([5, 1, 3, 2]);
  });

  it('lets what came back go first, and charges it no second time', () => {
    const queue = queueOf<Item>(2);
    const [one, two] = [new Item('a', 10, 0), new Item('b', 10, 1)];
    for (const item of [one, two, new Item('b', 10, 2)]) queue.push(item);
    queue.takeAll([one]);
    queue.pushReturned(one);
    expect(queue.takeHead(0)).toBe(one);
    expect(queue.takeHead(0)).toBe(two);
  });

  it('forms batches by weight', () => {
    const queue = queueOf<Item>(8);
    for (let i = 0; i < 8; i++) queue.push(new Item(i < 2 ? 'a' : 'b', i < 2 ? 30 : 10, i));
    const plan = queue.plan(0, 6, Infinity);
    expect(plan.map(({ key }) => key).join('')).toBe('abbbab');
    queue.takeAll(plan);
    expect(
      queue
        .plan(0, 6, Infinity)
        .map(({ key }) => key)
        .join(''),
    ).toBe('bb');
  });

  it('says in which order keys have their turns', () => {
    const queue = queueOf<Job>();
    push(queue, '3*a 300, 3*b 100, 1*c 50');
    grant(queue);
    expect(queue.turns(0, 2)).toEqual([
      { key: 'b', size: 3 },
      { key: 'c', size: 1 },
    ]);
    expect(queue.turns(0, 9).map(({ key }) => key)).toEqual(['b', 'c', 'a']);
    expect(queue.turns(0, 0)).toEqual([]);
  });
});

describe('a key that was idle', () => {
  it('saves up no credit', () => {
    const queue = queueOf<Job>();
    push(queue, '20*a 100');
    order(queue, 10);
    push(queue, '10*b 100');
    expect(order(queue, 10)).toBe('bababababa');
  });

  it('charges a key nothing for work that no other key was waiting for', () => {
    const queue = queueOf<Job>();
    for (let i = 0; i < 100; i++) grantAtOnce(queue, 'a', 1000).share?.released(false);
    push(queue, '4*a 1000, 4*b 1000');
    // It is ahead by its last job.
    expect(order(queue)).toBe('babababa');
  });

  it('still owes what it used beyond the estimate', () => {
    const queue = queueOf<Job>();
    const early = grantAtOnce(queue, 'a', 100);
    early.share?.released(false);
    use(early, 500);
    push(queue, '2*a 100, 7*b 100');
    expect(order(queue)).toBe('bbbbbabab');
  });
});

describe('real usage takes the place of the estimate', () => {
  it.each([
    ['less', 1000],
    ['more', 10],
  ])('when it is %s', (_name, estimate) => {
    const queue = queueOf<Job>();
    push(queue, `20*a ${estimate}, 20*b 100`);
    expect(order(queue, 20, () => 100)).toBe('ab'.repeat(10));
  });

  it('also when the key waits for its next turn meanwhile, and answers whether another job is next', () => {
    const queue = queueOf<Job>();
    push(queue, '5*a 100, 5*b 100');
    const [a, b] = [grant(queue), grant(queue)];
    expect(use(a, 250)).toBe(true);
    expect(use(b, 90)).toBe(false);
    expect(order(queue, 4)).toBe('bbab');
  });

  it('an unused lease costs nothing', () => {
    const queue = queueOf<Job>();
    push(queue, '3*a 100, 3*b 100');
    const a = grant(queue);
    grant(queue);
    a.share?.released(true);
    expect(order(queue)).toBe('abab');
  });

  it('a usage that says nothing of the unit changes nothing', () => {
    const queue = queueOf<Job>();
    push(queue, '3*a 100, 3*b 100');
    expect(grant(queue).share?.settled({ requests: 1 })).toBe(false);
    expect(order(queue)).toBe('babab');
  });

  it('a usage beyond all reason leaves numbers that can be compared', () => {
    const queue = queueOf<Job>();
    push(queue, '3*a 1, 3*b 1');
    use(grant(queue), Infinity);
    expect(order(queue)).toBe('bbbaa');
  });

  it('a newcomer is level with a key whose estimates were ten times too high', () => {
    const queue = queueOf<Job>();
    push(queue, '30*a 1000');
    const early = Array.from({ length: 8 }, () => grant(queue));
    for (const job of early) use(job, 100);
    push(queue, '5*b 100');
    expect(order(queue, 8, () => 100)).toMatch(/^(ab|ba){4}$/);
  });
});

interface Run {
  readonly jobs: readonly (readonly [key: number, estimate: number, real: number])[];
  readonly delay: number;
}

const amount = fc.integer({ min: 0, max: 10_000 });
const runs = fc.record<Run>({
  jobs: fc.array(fc.tuple(fc.integer({ min: 0, max: 4 }), amount, amount), { minLength: 1, maxLength: 80 }),
  delay: fc.integer({ min: 0, max: 6 }),
});
const costOf = (tokens: number): number => Math.max(1, tokens);

/**
 * Over any stretch in which two keys both have jobs waiting, what they were served differs by the largest job of each at most; by as much more for each job
 * that is under way and not settled yet.
 */
function expectFair({ jobs, delay }: Run, settles: boolean): void {
  const queue = queueOf<Job>();
  const real = new Map<Job, number>();
  for (const [key, estimate, used] of jobs) {
    const job = new Job(key, estimate);
    queue.push(job);
    real.set(job, settles ? used : estimate);
  }
  const keys = [...new Set(jobs.map(([key]) => key))];
  const zeros = (): Map<unknown, number> => new Map(keys.map((key) => [key, 0]));
  const [served, largest] = [zeros(), zeros()];
  const add = (of: Map<unknown, number>, key: unknown, by: number) => of.set(key, (of.get(key) ?? 0) + by);
  const isWaiting = (key: unknown): boolean => queue.headOf(0, key) !== undefined;
  const open: Job[] = [];
  const settle = (job: Job): void => {
    use(job, real.get(job) as number);
    job.share?.released(false);
    add(served, job.key, costOf(real.get(job) as number) - costOf(job.charge.tokens));
  };
  const history: Map<unknown, number>[] = [zeros()];
  while (queue.size > 0) {
    const backlogged = keys.filter(isWaiting);
    const job = grant(queue);
    add(served, job.key, costOf(job.charge.tokens));
    largest.set(job.key, Math.max(largest.get(job.key) ?? 0, costOf(job.charge.tokens), costOf(real.get(job) as number)));
    open.push(job);
    if (open.length > delay) settle(open.shift() as Job);
    for (const one of backlogged.filter(isWaiting)) {
      for (const other of backlogged.filter(isWaiting)) {
        const bound = ((largest.get(one) ?? 0) + (largest.get(other) ?? 0)) * (1 + (settles ? delay : 0));
        for (const before of history) {
          const got = (key: unknown): number => (served.get(key) ?? 0) - (before.get(key) ?? 0);
          expect(Math.abs(got(one) - got(other))).toBeLessThanOrEqual(bound);
        }
      }
    }
    history.push(new Map(served));
  }
  for (const job of open) settle(job);
}

describe('keys that have jobs waiting', () => {
  it('were served alike but for the largest job of each, over any stretch', () => {
    fc.assert(
      fc.property(runs, (run) => {
        expectFair({ ...run, delay: 0 }, false);
      }),
      { numRuns: 200 },
    );
  });

  it('also by real usage, when each job is settled before the next goes', () => {
    fc.assert(
      fc.property(runs, (run) => {
        expectFair({ ...run, delay: 0 }, true);
      }),
      { numRuns: 200 },
    );
  });

  it('also when jobs are settled later, but for what is under way', () => {
    fc.assert(
      fc.property(runs, (run) => {
        expectFair(run, true);
      }),
      { numRuns: 200 },
    );
  });

  it('each go on, however many new keys come', () => {
    const queue = queueOf<Job>();
    const early = [new Job('early', 10_000), new Job('early', 10_000)];
    for (const job of early) queue.push(job);
    let i = 0;
    for (; queue.headOf(0, 'early') && i < 100_000; i++) {
      queue.push(new Job(i, 100));
      grant(queue).share?.released(false);
    }
    // Each turn of the old key is worth 100 of the new ones, and so many of these are remembered.
    expect(i).toBeLessThan(25_000);
  });
});

describe('keys are forgotten', () => {
  const many = sized(20_000, 100_000);

  it('when their only job is over, one after the other', () => {
    const queue = queueOf<Job>();
    for (let i = 0; i < many; i++) grantAtOnce(queue, i, 100).share?.released(false);
    expect(remembered(queue)).toBeLessThanOrEqual(201);
  });

  it('when all have waited at a time', () => {
    const queue = queueOf<Job>();
    for (let i = 0; i < many; i++) queue.push(new Job(i, 1 + (i % 1000)));
    expect(remembered(queue)).toBe(many);
    order(queue);
    grantAtOnce(queue, 'last', 1000).share?.released(false);
    for (let i = 0; i < 2 * many; i++) grantAtOnce(queue, i, 1).share?.released(false);
    expect(remembered(queue)).toBeLessThanOrEqual(201);
  });

  it('while ten are active all the time, as many as when it began', () => {
    const queue = queueOf<Job>();
    const active: Job[] = [];
    let most = 0;
    for (let i = 0; i < many; i++) {
      active.push(grantAtOnce(queue, i, 1 + (i % 100)));
      if (active.length > 10) active.shift()?.share?.released(false);
      most = Math.max(most, remembered(queue));
    }
    // Twice the ten or eleven that are active and a hundred idle ones.
    expect(most).toBeLessThanOrEqual(2 * (11 + 100));
  });

  it('while others wait all the time', () => {
    const queue = queueOf<Job>();
    push(queue, '2*a 9');
    for (let i = 0; i < many; i++) {
      queue.push(new Job(i, 5));
      grant(queue).share?.released(false);
    }
    expect(remembered(queue)).toBeLessThanOrEqual(210);
  });

  it('also in a queue of batches', () => {
    const queue = queueOf<Item>(4);
    for (let i = 0; i < many; i++) {
      queue.push(new Item(i, 5, i));
      if (i % 4 === 3) queue.takeAll(queue.plan(0, 4, Infinity));
    }
    expect(remembered(queue)).toBeLessThanOrEqual(210);
  });

  it('also when a job leaves the queue', () => {
    const queue = queueOf<Job>();
    for (let i = 0; i < many; i++) {
      const job = new Job(i, 100);
      queue.push(job);
      queue.remove(job);
    }
    expect(remembered(queue)).toBe(0);
  });

  it('but not while a lease is out, and what it uses in the end counts, also later', () => {
    const queue = queueOf<Job>();
    const long = grantAtOnce(queue, 'a', 1);
    const later = grantAtOnce(queue, 'b', 1);
    later.share?.released(false);
    for (let i = 0; i < 1000; i++) grantAtOnce(queue, i, 100).share?.released(false);
    push(queue, '5*a 100, 9*c 100');
    use(long, 100_000);
    use(later, 100_000);
    push(queue, '5*b 100');
    expect(order(queue, 9)).toBe('ccccccccc');
  });
});
