import { Observable, Subject, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Batcher, CallContext, LaneOptions, LanesOptions } from '../../operators/index.js';
import { batchMap, createBatcher, createLimiter, lanes, natural, roundRobin, strictWithFloor, weighted } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { sized } from '../support/deep.js';
import { Dice } from '../world/dice.js';

type Lane = 'user' | 'normal' | 'background';

interface Call {
  readonly items: readonly Lane[];
  readonly lane: string;
  readonly startedMs: number;
}

const QUEUED = 2000;
const URGENT = 'user';
const lane = (item: Lane): string => item;
type Fairness = NonNullable<LanesOptions<Lane>['fairness']>;

/** A backend whose calls take a while, and what it was sent. */
class Backend {
  readonly scheduler = new VirtualTimeScheduler();
  readonly calls: Call[] = [];
  readonly dice: Dice;
  /** Told about every call while it starts. */
  onCall: () => void = () => undefined;

  constructor(seed: number) {
    this.dice = new Dice(seed);
  }

  readonly work = (items: readonly Lane[], context: CallContext): Observable<Lane[]> =>
    new Observable((subscriber) => {
      this.calls.push({ items, lane: context.lane, startedMs: this.scheduler.now() });
      this.onCall();
      subscriber.add(
        this.scheduler.schedule(
          () => {
            subscriber.next([...items]);
            subscriber.complete();
          },
          this.dice.int(5, 25),
        ),
      );
    });
}

/** Something that takes items, with 2,000 of them in its queue; `results` are told of. */
type Pipeline = (backend: Backend, concurrency: number, onResult: () => void) => (item: Lane) => void;

const common = {
  queue: lanes([{ name: 'user', maxWaitMs: 0 }, { name: 'normal' }, { name: 'background' }], { by: lane }),
  maxSize: 10,
  maxQueued: 10_000,
};

const FORMS: Readonly<Record<string, Pipeline>> = {
  batchMap: ({ scheduler, work }, concurrency, onResult) => {
    const source = new Subject<Lane>();
    source.pipe(batchMap(work, { ...common, concurrency, scheduler })).subscribe(onResult);
    return (item) => {
      source.next(item);
    };
  },
  createBatcher: ({ scheduler, work }, concurrency, onResult) => {
    const batcher = createBatcher(work, { ...common, concurrency, scheduler });
    return (item) => {
      batcher.load(item).subscribe(onResult);
    };
  },
  'two batchers behind one limiter': ({ scheduler, work }, concurrency, onResult) => {
    const limiter = createLimiter({ concurrency, scheduler, queue: lanes([{ name: 'user' }, { name: 'normal' }, { name: 'background' }]) });
    // Its burst is over at once: a batcher that waits for the rest of its frame is not in the limiter's queue before.
    const options = { ...common, limiter, scheduler: atOnce(scheduler) };
    const urgent = createBatcher(work, options);
    const rest = createBatcher(work, options);
    return (item) => {
      (item === URGENT ? urgent : rest).load(item).subscribe(onResult);
    };
  },
};

describe.each(Object.entries(FORMS))('one urgent item among 2,000, %s', (_name, form) => {
  it.each([1, 2, 4])('is in the first call that starts after its arrival, %i calls at a time', (concurrency) => {
    for (let seed = 1; seed <= sized(5, 40); seed++) {
      const backend = new Backend(seed);
      const { calls, scheduler, dice } = backend;
      let results = 0;
      let callsBefore: number | undefined;
      const arrive = (): void => {
        callsBefore = calls.length;
        offer(URGENT);
      };
      // By the clock, from the work function, or while results are handed out.
      const moment = dice.pick(['time', 'call', 'result'] as const);
      const at = moment === 'time' ? dice.int(1, 2000 / concurrency) : dice.int(1, 150);
      const offer = form(backend, concurrency, () => {
        if (++results === at && moment === 'result') arrive();
      });
      backend.onCall = () => {
        if (calls.length === at && moment === 'call') arrive();
      };
      // In the schedule's middle: what ends in the same millisecond comes before it as often as after.
      if (moment === 'time') scheduler.schedule(() => scheduler.schedule(arrive, at - Math.floor(at / 2)), Math.floor(at / 2));
      for (let i = 0; i < QUEUED; i++) offer('background');
      scheduler.flush();
      expect(results).toBe(QUEUED + 1);
      const call = calls[callsBefore ?? -1];
      expect(call, `seed ${seed}, by ${moment} ${at}`).toMatchObject({ lane: URGENT });
      expect(call?.items[0]).toBe(URGENT);
    }
  });
});

describe('lower lanes under a flood of urgent items', () => {
  const floors = { normal: 0.2, background: 0.1 };
  const floored: readonly LaneOptions[] = [
    { name: 'user' },
    { name: 'normal', floor: floors.normal },
    { name: 'background', floor: floors.background },
  ];
  const FLOOD_MS = 2000;

  /** Three urgent items a millisecond, more than can be sent; the other lanes have plenty. */
  function flood(backend: Backend, offer: (item: Lane) => void): void {
    for (let i = 0; i < QUEUED; i++) {
      offer('normal');
      offer('background');
    }
    for (let ms = 0; ms < FLOOD_MS; ms++)
      backend.scheduler.schedule(() => {
        for (let i = backend.dice.int(2, 4); i > 0; i--) offer('user');
      }, ms);
    backend.scheduler.maxFrames = FLOOD_MS;
    backend.scheduler.flush();
  }

  function expectFloors(counts: (lane: Lane) => number, shares: Readonly<Record<'normal' | 'background', number>>): void {
    const total = counts('user') + counts('normal') + counts('background');
    // A turn more or less: one is always under way.
    for (const name of ['normal', 'background'] as const) expect(counts(name) / total, name).toBeGreaterThan(shares[name] - 0.02);
    expect(counts('user') / total).toBeGreaterThan(1 - floors.normal - floors.background - 0.02);
    expect(total).toBeGreaterThan(100);
  }

  it.each([1, 2, 4])('get their share of the items, %i calls at a time', (concurrency) => {
    for (let seed = 1; seed <= sized(2, 5); seed++) {
      const backend = new Backend(seed);
      const source = new Subject<Lane>();
      const { scheduler, work, calls } = backend;
      source
        .pipe(batchMap(work, { queue: lanes(floored, { by: lane }), maxSize: 10, maxQueued: 100_000, concurrency, scheduler }))
        .subscribe();
      flood(backend, (item) => {
        source.next(item);
      });
      expectFloors((name) => calls.flatMap((call) => call.items).filter((item) => item === name).length, floors);
    }
  });

  /** Batchers behind one limiter, each with a lane to itself or two to a lane. */
  function sharedCalls(concurrency: number, batchersPerLane: number): (name: Lane) => number {
    const backend = new Backend(concurrency);
    const { scheduler, work, calls } = backend;
    const limiter = createLimiter({ concurrency, scheduler, queue: lanes(floored) });
    const options = { queue: lanes(floored, { by: lane }), maxSize: 5, maxQueued: 100_000, limiter, scheduler };
    const ofEach = { user: batchers(), normal: batchers(), background: batchers() };
    function batchers(): Batcher<Lane, Lane>[] {
      return Array.from({ length: batchersPerLane }, () => createBatcher(work, options));
    }
    flood(backend, (item) => {
      backend.dice.pick(ofEach[item]).load(item).subscribe();
    });
    return (name) => calls.filter((call) => call.lane === name).length;
  }

  it.each([1, 2, 4])('get their share of the calls when batchers share a limiter, %i calls at a time', (concurrency) => {
    expectFloors(sharedCalls(concurrency, 2), floors);
  });

  // The only batcher of a lane leaves it empty with every grant, and an empty lane starts to save up anew: a turn for each 1 + 1/floor.
  it.each([1, 2, 4])('get a little less when only one batcher is in their lane, %i calls at a time', (concurrency) => {
    expectFloors(sharedCalls(concurrency, 1), {
      normal: floors.normal / (1 + floors.normal),
      background: floors.background / (1 + floors.background),
    });
  });
});

/** Two slots, 20 items to a call of 200 + 10n ms: 100 items a second can be served. */
function overload(fairness: Fairness, perSecond: Readonly<Record<Lane, number>>, seed: number) {
  const RUN_MS = 30_000;
  const scheduler = new VirtualTimeScheduler();
  const dice = new Dice(seed);
  const source = new Subject<{ readonly lane: Lane; readonly atMs: number }>();
  const offered = { user: 0, normal: 0, background: 0 };
  const waits: Record<Lane, number[]> = { user: [], normal: [], background: [] };
  const work = (items: readonly { readonly lane: Lane; readonly atMs: number }[]): Observable<unknown[]> =>
    new Observable((subscriber) => {
      for (const item of items) waits[item.lane].push(scheduler.now() - item.atMs);
      subscriber.add(
        scheduler.schedule(
          () => {
            subscriber.next([...items]);
            subscriber.complete();
          },
          200 + 10 * items.length,
        ),
      );
    });
  const tenants: readonly LaneOptions[] = [
    { name: 'user', share: 8 },
    { name: 'normal', share: 3 },
    { name: 'background', share: 1 },
  ];
  source
    .pipe(
      batchMap(work, {
        queue: lanes(tenants, { by: ({ lane: name }) => name, fairness }),
        maxSize: 20,
        maxQueued: Infinity,
        concurrency: 2,
        window: natural(),
        scheduler,
      }),
    )
    .subscribe();
  const arrivals = (['user', 'normal', 'background'] as const).flatMap((name) =>
    Array.from({ length: (perSecond[name] * RUN_MS) / 1000 }, () => ({ lane: name, atMs: dice.int(0, RUN_MS - 1) })),
  );
  arrivals.sort((one, other) => one.atMs - other.atMs);
  // One timer at a time: a virtual clock sorts all it has whenever it gets another.
  const arrive = (n: number): void => {
    const item = arrivals[n];
    if (item === undefined) return;
    scheduler.schedule(() => {
      offered[item.lane]++;
      source.next(item);
      arrive(n + 1);
    }, item.atMs - scheduler.now());
  };
  arrive(0);
  scheduler.maxFrames = RUN_MS;
  scheduler.flush();
  const share = (name: Lane): number => waits[name].length / offered[name];
  const medianMs = (name: Lane): number => waits[name].sort((a, b) => a - b)[waits[name].length >> 1] ?? Infinity;
  return { share, medianMs };
}

describe('more work than can be served', () => {
  const SEEDS = [1, 2].slice(0, sized(1, 2));
  const URGENT_FLOOD = { user: 120, normal: 10, background: 10 };
  const BACKGROUND_FLOOD = { user: 10, normal: 10, background: 200 };

  it.each<[string, Fairness, Readonly<Record<Lane, readonly [number, number]>>]>([
    ['strict without floors starves the lower lanes', strictWithFloor(0), { user: [0.8, 0.87], normal: [0, 0.04], background: [0, 0.04] }],
    ['strict with floors serves them', strictWithFloor(), { user: [0.62, 0.7], normal: [0.9, 1], background: [0.9, 1] }],
    ['weights 8:3:1 hold', weighted(), { user: [0.62, 0.73], normal: [0.95, 1], background: [0.85, 1] }],
    ['round robin serves the small lanes whole', roundRobin(), { user: [0.62, 0.7], normal: [0.96, 1], background: [0.96, 1] }],
  ])('%s when the urgent lane floods', (_title, fairness, shares) => {
    for (const seed of SEEDS) {
      const { share } = overload(fairness, URGENT_FLOOD, seed);
      for (const name of ['user', 'normal', 'background'] as const) {
        expect(share(name), name).toBeGreaterThanOrEqual(shares[name][0]);
        expect(share(name), name).toBeLessThanOrEqual(shares[name][1]);
      }
    }
  });

  it('weights 8:3:1 are the shares of the places, exactly, when every lane floods', () => {
    for (const seed of SEEDS) {
      const { share } = overload(weighted(), { user: 200, normal: 200, background: 200 }, seed);
      const sum = share('user') + share('normal') + share('background');
      expect(share('user') / sum).toBeCloseTo(8 / 12, 2);
      expect(share('normal') / sum).toBeCloseTo(3 / 12, 2);
      expect(share('background') / sum).toBeCloseTo(1 / 12, 2);
    }
  });

  it.each([
    ['strictWithFloor()', strictWithFloor()],
    ['weighted()', weighted()],
    ['roundRobin()', roundRobin()],
  ])('a flood of background work does not touch the urgent lane under %s', (_name, fairness) => {
    for (const seed of SEEDS) {
      const { share, medianMs } = overload(fairness, BACKGROUND_FLOOD, seed);
      expect(share('user')).toBeGreaterThan(0.97);
      expect(medianMs('user')).toBeLessThan(400);
      expect(share('background')).toBeLessThan(0.5);
    }
  });
});
