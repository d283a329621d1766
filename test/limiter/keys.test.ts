import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lease, Limiter } from '../../operators/index.js';
import { childOf, createAccount, createLimiter, lanes, perMinute } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const key = ({ key: of }: { readonly key?: unknown }): unknown => of;
const queue = lanes([{ name: 'user' }, { name: 'normal', floor: 0 }], { key });

/** Asks of several limiters; leases as they come, oldest first. */
function asker() {
  const served: string[] = [];
  const leases: Lease[] = [];
  return {
    served,
    ask: (limiter: Limiter, of: string | undefined, lane = 'normal') =>
      limiter.acquire({ lane, ...(of !== undefined && { key: of }) }).subscribe((lease) => {
        served.push(of ?? 'no key');
        leases.push(lease);
      }),
    release: () => leases.shift()?.release(),
  };
}

/** Where A's and B's jobs are asked for, below one limiter with so many slots. */
const trees: Record<string, (top: Limiter) => readonly [a: readonly Limiter[], b: Limiter]> = {
  'in one limiter': (top) => [[top], top],
  'in one child': (top) => {
    const child = childOf(top);
    return [[child], child];
  },
  'in one child with slots of its own': (top) => {
    const child = childOf(top, { concurrency: 2 });
    return [[child], child];
  },
  'in two children': (top) => [[childOf(top)], childOf(top)],
  'in two children, of which each serves A': (top) => {
    const [one, two] = [childOf(top), childOf(top)];
    return [[one, two], two];
  },
  'above, and in a child': (top) => [[childOf(top)], top],
  'in a child, and above': (top) => [[top], childOf(top)],
  'in a child of a child': (top) => [[childOf(childOf(top))], childOf(top)],
};

describe.each(Object.entries(trees))('200 jobs of A that wait %s', (_where, tree) => {
  it.each([1, 2, 5])('and %i slots: the first of B has one of the next two grants, and then every second one', (slots) => {
    const { ask, release, served } = asker();
    const [ofA, ofB] = tree(createLimiter({ concurrency: slots, queue }));
    for (let n = 0; n < 200; n++) ask(ofA[n % ofA.length] as Limiter, 'A');
    const before = served.length;
    for (let n = 0; n < 10; n++) ask(ofB, 'B');
    for (let n = 0; n < 24; n++) release();
    const after = served.slice(before);
    expect(after.indexOf('B')).toBeLessThan(2);
    expect(after.slice(0, 20).filter((of) => of === 'B').length).toBeGreaterThanOrEqual(9);
  });
});

it('keys share a lane of an account, and no more than a lane', () => {
  const { ask, release, served } = asker();
  const account = createAccount({ concurrency: 1, lanes: ['user', { name: 'normal', floor: 0 }] });
  ask(account, 'A');
  for (const of of ['A', 'A', undefined, undefined, 'B']) ask(account, of);
  ask(account, 'A', 'user');
  for (let n = 0; n < 7; n++) release();
  expect(served).toEqual(['A', 'A', 'A', 'no key', 'B', 'A', 'no key']);
});

it.each([
  ['dropOldest', 'B1'],
  ['dropLowest', 'A4'],
  ['latest', 'B1 A2 B2 A4'],
] as const)('%s goes by the order of all that wait in a lane, not by the turns of the keys', (overflow, expected) => {
  const limiter = createLimiter({ concurrency: 1, maxQueued: 4, overflow, queue });
  const refused: string[] = [];
  const ask = (id: string, lane = 'normal') =>
    new Promise<Lease>((granted) => {
      limiter.acquire({ lane, key: id[0], id }).subscribe({ next: granted, error: () => refused.push(id) });
    });
  const first = ask('C1');
  const ids = ['A1', 'B1', 'A2', 'B2'];
  for (const id of ids) void ask(id);
  return first.then((lease) => {
    lease.release(); // A1 goes, and the next turn is that of B
    void ask('A4');
    void ask('D1', overflow === 'dropLowest' ? 'user' : 'normal');
    expect(refused.join(' ')).toBe(expected);
  });
});

it('a job that leaves its key gives up the place above of its key, not that of jobs without one', () => {
  const { ask, release, served } = asker();
  const child = childOf(createLimiter({ concurrency: 1, queue }));
  for (const of of ['A', undefined, 'B']) ask(child, of);
  child.acquire({ id: 'late', key: 'B', lane: 'user' }).subscribe(() => served.push('late'));
  child.move('late', 'normal');
  ask(child, 'C').unsubscribe();
  release();
  release();
  expect(served).toEqual(['A', 'no key', 'B']);
});

it('the turn above of jobs without a key is not for the next one of any key', () => {
  const { ask, release, served } = asker();
  const top = createLimiter({ concurrency: 1, queue });
  const [one, two] = [childOf(top), childOf(top)];
  ask(top, 'A');
  ask(one, 'B');
  for (const of of ['B', undefined]) ask(two, of);
  for (let n = 0; n < 3; n++) release();
  expect(served).toEqual(['A', 'B', 'no key', 'B']);
});

it('a place above that was meant for a key whose jobs have left serves another one', () => {
  const { ask, release, served } = asker();
  const top = createLimiter({ concurrency: 1, queue, scheduler: new CountingScheduler() });
  const child = childOf(top, { concurrency: 1 });
  ask(top, 'C');
  const left = ask(child, 'A');
  ask(child, 'B');
  left.unsubscribe();
  release();
  expect(served).toEqual(['C', 'B']);
});

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      who: fc.nat({ max: 4 }),
      of: fc.constantFrom('A', 'A', 'A', 'B', 'C', undefined),
      lane: fc.constantFrom('user', 'normal', 'normal'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const), which: fc.nat({ max: 5 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat({ max: 9 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat({ max: 3000 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('limit' as const), who: fc.nat({ max: 4 }), slots: fc.constantFrom(1, 2, 5) }) },
);

it('whatever is asked, left and released in a tree of limiters, every job is served once and nothing is held', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const clock = new CountingScheduler();
      const advance = (ms: number): void => {
        clock.maxFrames = clock.frame + ms;
        clock.flush();
        clock.frame = clock.maxFrames;
      };
      const top = createLimiter({ concurrency: 3, queue, scheduler: clock });
      const child = childOf(top, { concurrency: 2, rates: [perMinute('requests', 600)] });
      const limiters = [top, child, childOf(child), childOf(top), childOf(top, { concurrency: 1 })];
      const jobs: { served: number; hasLeft: boolean; leave(): void }[] = [];
      const held: Lease[] = [];
      for (const action of steps) {
        if (action.do === 'ask') {
          const job = { served: 0, hasLeft: false, leave: () => undefined as unknown };
          jobs.push(job);
          const { of, lane } = action;
          const asking = (limiters[action.who] as Limiter).acquire({ lane, ...(of !== undefined && { key: of }) }).subscribe((lease) => {
            job.served++;
            held.push(lease);
          });
          job.leave = () => {
            job.hasLeft = true;
            asking.unsubscribe();
          };
        } else if (action.do === 'release') held.splice(action.which, 1)[0]?.release();
        else if (action.do === 'leave') jobs.filter(({ served, hasLeft }) => served === 0 && !hasLeft)[action.which]?.leave();
        else if (action.do === 'advance') advance(action.ms);
        else limiters[action.who]?.setLimits({ concurrency: action.slots });
      }
      for (let round = 0; round < 120; round++) {
        for (const lease of held.splice(0)) lease.release();
        advance(1000);
      }
      for (const { served, hasLeft } of jobs) expect(served).toBe(hasLeft ? 0 : 1);
      for (const limiter of limiters) expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      expect(clock.actions).toEqual([]);
    }),
    { numRuns: sized(60, 150) },
  );
}, 60_000);
