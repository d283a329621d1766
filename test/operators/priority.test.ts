import { Observable, Subject, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Batcher, CallContext, LaneOptions, LanesOptions } from '../../operators/index.js';
import { batchMap, createBatcher, createLimiter, lanes, natural, roundRobin, strictWithFloor, weighted } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { sized } from '../support/deep.js';
import { Dice } from '../world/dice.js';

type Lane = 'P0' | 'P1' | 'P2';

interface Call {
  readonly items: readonly Lane[];
  readonly lane: string;
  readonly startedMs: number;
}

const QUEUED = 2000;
const URGENT = 'P0';
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
  queue: lanes([{ name: 'P0', maxWaitMs: 0 }, { name: 'P1' }, { name: 'P2' }], { by: lane }),
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
    const limiter = createLimiter({ concurrency, scheduler, queue: lanes([{ name: 'P0' }, { name: 'P1' }, { name: 'P2' }]) });
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
      for (let i = 0; i < QUEUED; i++) offer('P2');
      scheduler.flush();
      expect(results).toBe(QUEUED + 1);
      const call = calls[callsBefore ?? -1];
      expect(call, `seed ${seed}, by ${moment} ${at}`).toMatchObject({ lane: URGENT });
      expect(call?.items[0]).toBe(URGENT);
    }
  });
});

describe('lower lanes under a flood of urgent items', () => {
  const floors = { P1: 0.2, P2: 0.1 };
  const floored: readonly LaneOptions[] = [{ name: 'P0' }, { name: 'P1', floor: floors.P1 }, { name: 'P2', floor: floors.P2 }];
  const FLOOD_MS = 2000;

  /** Three urgent items a millisecond, more than can be sent; the other lanes have plenty. */
  function flood(backend: Backend, offer: (item: Lane) => void): void {
    for (let i = 0; i < QUEUED; i++) {
      offer('P1');
      offer('P2');
    }
    for (let ms = 0; ms < FLOOD_MS; ms++)
      backend.scheduler.schedule(() => {
        for (let i = backend.dice.int(2, 4); i > 0; i--) offer('P0');
      }, ms);
    backend.scheduler.maxFrames = FLOOD_MS;
    backend.scheduler.flush();
  }

  function expectFloors(counts: (lane: Lane) => number, shares: Readonly<Record<'P1' | 'P2', number>>): void {
    const total = counts('P0') + counts('P1') + counts('P2');
    // A turn more or less: one is always under way.
    for (const name of ['P1', 'P2'] as const) expect(counts(name) / total, name).toBeGreaterThan(shares[name] - 0.02);
    expect(counts('P0') / total).toBeGreaterThan(1 - floors.P1 - floors.P2 - 0.02);
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
    const ofEach = { P0: batchers(), P1: batchers(), P2: batchers() };
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
    expectFloors(sharedCalls(concurrency, 1), { P1: floors.P1 / (1 + floors.P1), P2: floors.P2 / (1 + floors.P2) });
  });
});

/** Two slots, 20 items to a call of 200 + 10n ms: 100 items a second can be served. */
function overload(fairness: Fairness, perSecond: Readonly<Record<Lane, number>>, seed: number) {
  const RUN_MS = 30_000;
  const scheduler = new VirtualTimeScheduler();
  const dice = new Dice(seed);
  const source = new Subject<{ readonly lane: Lane; readonly atMs: number }>();
  const offered = { P0: 0, P1: 0, P2: 0 };
  const waits: Record<Lane, number[]> = { P0: [], P1: [], P2: [] };
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
    { name: 'P0', share: 8 },
    { name: 'P1', share: 3 },
    { name: 'P2', share: 1 },
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
  const arrivals = (['P0', 'P1', 'P2'] as const).flatMap((name) =>
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
  const URGENT_FLOOD = { P0: 120, P1: 10, P2: 10 };
  const BACKGROUND_FLOOD = { P0: 10, P1: 10, P2: 200 };

  it.each<[string, Fairness, Readonly<Record<Lane, readonly [number, number]>>]>([
    ['strict without floors starves the lower lanes', strictWithFloor(0), { P0: [0.8, 0.87], P1: [0, 0.04], P2: [0, 0.04] }],
    ['strict with floors serves them', strictWithFloor(), { P0: [0.62, 0.7], P1: [0.9, 1], P2: [0.9, 1] }],
    ['weights 8:3:1 hold', weighted(), { P0: [0.62, 0.73], P1: [0.95, 1], P2: [0.85, 1] }],
    ['round robin serves the small lanes whole', roundRobin(), { P0: [0.62, 0.7], P1: [0.96, 1], P2: [0.96, 1] }],
  ])('%s when the urgent lane floods', (_title, fairness, shares) => {
    for (const seed of SEEDS) {
      const { share } = overload(fairness, URGENT_FLOOD, seed);
      for (const name of ['P0', 'P1', 'P2'] as const) {
        expect(share(name), name).toBeGreaterThanOrEqual(shares[name][0]);
        expect(share(name), name).toBeLessThanOrEqual(shares[name][1]);
      }
    }
  });

  it('weights 8:3:1 are the shares of the places, exactly, when every lane floods', () => {
    for (const seed of SEEDS) {
      const { share } = overload(weighted(), { P0: 200, P1: 200, P2: 200 }, seed);
      const sum = share('P0') + share('P1') + share('P2');
      expect(share('P0') / sum).toBeCloseTo(8 / 12, 2);
      expect(share('P1') / sum).toBeCloseTo(3 / 12, 2);
      expect(share('P2') / sum).toBeCloseTo(1 / 12, 2);
    }
  });

  it.each([
    ['strictWithFloor()', strictWithFloor()],
    ['weighted()', weighted()],
    ['roundRobin()', roundRobin()],
  ])('a flood of background work does not touch the urgent lane under %s', (_name, fairness) => {
    for (const seed of SEEDS) {
      const { share, medianMs } = overload(fairness, BACKGROUND_FLOOD, seed);
      expect(share('P0')).toBeGreaterThan(0.97);
      expect(medianMs('P0')).toBeLessThan(400);
      expect(share('P2')).toBeLessThan(0.5);
    }
  });
});
