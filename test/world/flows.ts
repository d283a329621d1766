import { BehaviorSubject, map, type Observable, Subject } from 'rxjs';
import * as make from '../../operators/index.js';
import type { SharedLimiter } from './limits.js';
import { Pipe, type Supply } from './pipe.js';
import type { Item } from './work.js';
import type { World } from './world.js';

/** Several items in one. */
interface Merged {
  readonly of: readonly number[];
  readonly key: string;
  readonly weight: number;
}

const merge = (a: Merged, b: Merged): Merged => ({ ...a, of: [...a.of, ...b.of], weight: a.weight + b.weight });

/** Where items go out as they are: in order, each once; what is missing at the end was dropped, and told. */
class Passing {
  readonly dropped = new Set<number>();
  /** Drops of which is only known how many there were. */
  untold: () => number = () => 0;
  readonly #seen = new Set<number>();
  #last = -1;

  constructor(
    readonly pipe: Pipe,
    readonly ordered = true,
  ) {
    pipe.onFinish = () => {
      this.finish();
    };
  }

  read(n: number): void {
    const { world, name, sent } = this.pipe;
    const place = sent.findIndex((item) => item.n === n);
    if (place < 0) world.problem(`${name}: an item that was not sent`);
    if (this.#seen.has(n)) world.problem(`${name}: an item twice`);
    if (this.dropped.has(n)) world.problem(`${name}: an item that was dropped`);
    if (this.ordered && place < this.#last) world.problem(`${name}: items out of order`);
    this.#last = place;
    this.#seen.add(n);
  }

  drop(n: number): void {
    const { world, name } = this.pipe;
    if (this.dropped.has(n)) world.problem(`${name}: an item is dropped twice`);
    if (this.#seen.has(n)) world.problem(`${name}: an item is dropped that went out`);
    this.dropped.add(n);
  }

  finish(): void {
    const { world, name, sent, life } = this.pipe;
    if (life !== 'completed') return;
    const lost = sent.filter(({ n }) => !this.#seen.has(n) && !this.dropped.has(n));
    if (lost.length !== this.untold()) world.problem(`${name}: ${lost.length} item(s) lost`);
  }
}

export function batchActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'batch', supply);
  const passing = new Passing(pipe);
  let dropped = 0;
  passing.untold = () => dropped;
  const flush = new Subject<void>();
  pipe.acts.flush = () => {
    flush.next();
  };
  const maxSize = choose('maxSize', 2, 1, 3, 10);
  pipe.start(
    (source) =>
      source.pipe(
        make.batch<Item>({
          scheduler: pipe.timers,
          onEvent: (event) => {
            if (event.type === 'dropped') dropped++;
            pipe.onEvent(event);
          },
          maxSize,
          maxWaitMs: choose('maxWaitMs', 10, 0, 1, 100),
          weigh: pipe.callback('weigh', ({ weight }: Item) => weight),
          maxWeight: choose('maxWeight', 100, 2, 4),
          closeWhen: pipe.callback('closeWhen', ({ n }: Item) => choose('closes', false, true) && n % 3 === 0 && ('before' as const)),
          flush,
          onSourceError: choose('onSourceError', 'flush', 'abort'),
        }),
      ),
    (value) => {
      const items = value as readonly Item[];
      if (items.length === 0 || items.length > maxSize) world.problem(`batch: ${items.length} items in one`);
      for (const { n } of items) passing.read(n);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

export function mergeLanesActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'mergeLanes', supply);
  const passing = new Passing(pipe, false);
  const urgent = new Subject<Item>();
  const flush = new Subject<void>();
  let dropped = 0;
  const lastOf = new Map<string, number>();
  pipe.put = (item) => {
    if (item.lane === 'urgent') {
      pipe.accept(item);
      urgent.next(item);
    } else pipe.push(item);
  };
  pipe.putEnd = (error) => {
    if (error === undefined) urgent.complete();
    pipe.close(error);
  };
  pipe.acts.flush = () => {
    flush.next();
  };
  pipe.onEnd = () => {
    urgent.complete();
  };
  const overflow = choose<'error' | 'dropOldest' | 'dropNewest' | 'latest'>('overflow', 'error', 'dropOldest', 'dropNewest', 'latest');
  pipe.onFinish = () => {
    if (urgent.observed && pipe.life !== 'open') world.problem('mergeLanes keeps a lane');
    const out = pipe.out.reduce((sum: number, value) => sum + (value as { items: unknown[] }).items.length, 0);
    if (pipe.life === 'completed' && out + dropped !== pipe.sent.length)
      world.problem(`mergeLanes: ${pipe.sent.length} sent, ${out} went out and ${dropped} were dropped`);
  };
  pipe.start(
    (later) =>
      make.mergeLanes<never>(
        [
          { name: 'urgent', source: urgent, maxWaitMs: choose('urgentMs', 0, 5) },
          { name: 'later', source: later, maxWaitMs: choose('laterMs', 20, 5, 1000) },
        ] as never,
        {
          scheduler: pipe.timers,
          onEvent: (event) => {
            if (event.type === 'dropped') dropped++;
            pipe.onEvent(event);
          },
          weigh: pipe.callback('weigh', ({ weight }: Item) => weight),
          maxSize: choose('maxSize', 3, 1, 2, 10),
          maxWeight: choose('maxWeight', 100, 2, 4),
          maxQueued: choose('maxQueued', 100, 1, 2),
          overflow,
          flush,
          errors: choose('errors', 'propagate', 'isolate'),
          onSourceError: choose('onSourceError', 'flush', 'abort'),
        },
      ),
    (value) => {
      for (const { n, lane } of (value as { items: readonly Item[] }).items) {
        passing.read(n);
        const place = pipe.sent.findIndex((item) => item.n === n);
        if (place < (lastOf.get(lane) ?? -1)) world.problem('mergeLanes: items of a lane out of order');
        lastOf.set(lane, place);
      }
    },
  );
  return pipe;
}

/** What a pipe reads that is merged: the numbers of the items in it. */
function toMerged({ n, key, weight }: Item): Merged {
  return { of: [n], key, weight };
}

export function coalesceActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'coalesce', supply);
  const passing = new Passing(pipe);
  pipe.start(
    (source) =>
      mapped(source, toMerged).pipe(
        make.coalesce<Merged>({
          scheduler: pipe.timers,
          onEvent: pipe.onEvent,
          merge: pipe.callback('merge', merge),
          compatible: pipe.callback(
            'compatible',
            (a: Merged, b: Merged) => choose('compatible', 'all', 'key') === 'all' || a.key === b.key,
          ),
          passThrough: pipe.callback('passThrough', ({ of }: Merged) => choose('passes', false, true) && of[0]! % 4 === 3),
          maxSize: choose('maxSize', 3, 1, 2, 10),
          maxWaitMs: choose('maxWaitMs', 10, 0, 1, 100),
          onSourceError: choose('onSourceError', 'flush', 'abort'),
        }),
      ),
    (value) => {
      for (const n of (value as Merged).of) passing.read(n);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

function mapped<A, B>(source: Observable<A>, project: (value: A) => B): Observable<B> {
  return source.pipe(map(project));
}

/** Whether the consumer takes something, told by a subject. */
function readyOf(pipe: Pipe): BehaviorSubject<boolean> {
  const ready = new BehaviorSubject(pipe.world.choose('ready', false, true));
  let isEnding = false;
  pipe.acts.limits = () => {
    if (!isEnding) ready.next(!ready.value);
  };
  pipe.onEnd = () => {
    isEnding = true;
    ready.next(true);
  };
  return ready;
}

export function conflateActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'conflateWhileBusy', supply);
  const passing = new Passing(pipe);
  const ready = readyOf(pipe);
  pipe.start(
    (source) =>
      source.pipe(
        make.conflateWhileBusy<Item, Merged>({
          onEvent: pipe.onEvent,
          ready,
          seed: pipe.callback('seed', toMerged),
          merge: pipe.callback('merge', (a: Merged, item: Item) => merge(a, toMerged(item))),
          weigh: pipe.callback('weigh', ({ weight }: Item) => weight),
          maxWeight: choose('maxWeight', 100, 2, 4),
          overflow: choose('overflow', 'error', 'dropOldest', 'dropNewest'),
          onDrop: (...[what]) => {
            for (const n of 'of' in what ? what.of : [what.n]) passing.drop(n);
            world.at('onDrop', pipe.index);
          },
          onSourceError: choose('onSourceError', 'abort', 'flush'),
        }),
      ),
    (value) => {
      for (const n of (value as Merged).of) passing.read(n);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

export function backpressureActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'backpressure', supply);
  const passing = new Passing(pipe);
  const ready = readyOf(pipe);
  const maxQueued = choose('maxQueued', 3, 1, 2, 100);
  pipe.start(
    (source) =>
      source.pipe(
        make.backpressure<Item>({
          onEvent: pipe.onEvent,
          ready,
          maxQueued,
          overflow: choose('overflow', 'error', 'dropOldest', 'dropNewest', 'latest'),
          weigh: pipe.callback('weigh', ({ weight }: Item) => weight),
          maxWeight: choose('maxWeight', 100, 2, 4),
          onDrop: ({ n }) => {
            passing.drop(n);
            world.at('onDrop', pipe.index);
          },
          onSourceError: choose('onSourceError', 'abort', 'flush'),
        }),
      ),
    (value) => {
      passing.read((value as Item).n);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

export function rateLimitActor(world: World, supply: Supply, limiter: SharedLimiter): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'rateLimit', supply);
  const passing = new Passing(pipe);
  Object.assign(pipe.acts, limiter.shared);
  pipe.start(
    (source) =>
      source.pipe(
        make.rateLimit<Item>(
          limiter.limiter,
          pipe.callback('cost', () => ({ requests: 1 })),
          {
            onEvent: pipe.onEvent,
            maxQueued: choose('maxQueued', 100, 0, 1, 2),
            overflow: choose('overflow', 'error', 'dropOldest', 'dropNewest', 'latest'),
            onDrop: ({ n }) => {
              passing.drop(n);
              world.at('onDrop', pipe.index);
            },
            onSourceError: choose('onSourceError', 'abort', 'flush'),
          },
        ),
      ),
    (value) => {
      limiter.granted();
      passing.read((value as Item).n);
    },
    choose('first', 0, 3),
  );
  return pipe;
}

export function resequenceActor(world: World, supply: Supply): Pipe {
  const { choose } = world;
  const pipe = new Pipe(world, 'resequence', supply);
  /** Numbers by item: out of order, now and then twice, now and then with a gap. */
  const places = new Map<number, number>();
  const sequence = ({ n }: Item): number => {
    const known = places.get(n);
    if (known !== undefined) return known;
    const place = choose(`place ${n}`, n ^ 1, n, n ^ 1, n ^ 2, n + 3, Math.max(0, n - 2));
    places.set(n, place);
    return place;
  };
  let dropped = 0;
  let last = -1;
  pipe.onFinish = () => {
    if (pipe.life === 'completed' && pipe.out.length + dropped !== pipe.sent.length)
      world.problem(`resequence: ${pipe.sent.length} sent, ${pipe.out.length} went out and ${dropped} were dropped`);
  };
  pipe.start(
    (source) =>
      source.pipe(
        make.resequence<Item>(pipe.callback('sequence', sequence), {
          scheduler: pipe.timers,
          onEvent: (event) => {
            if (event.type === 'dropped') dropped++;
            pipe.onEvent(event);
          },
          maxQueued: choose('maxQueued', 100, 0, 1, 2),
          maxWaitMs: choose('maxWaitMs', 10, 0, 50, Infinity),
          onGap: choose('onGap', 'skip', 'error'),
          onSourceError: choose('onSourceError', 'abort', 'flush'),
        }),
      ),
    (value) => {
      const place = places.get((value as Item).n) ?? -1;
      if (place <= last) world.problem('resequence: out of order');
      last = place;
    },
    choose('first', 0, 3),
  );
  return pipe;
}
