import type { Observable, Subscription } from 'rxjs';
import { BehaviorSubject, NEVER, of, Subject, VirtualTimeScheduler } from 'rxjs';
import type { Overflow } from '../../operators/index.js';

/** The operators, as they are or with a bug in them. */
export type Operators = typeof import('../../operators/index.js');

export const MAX_QUEUED = 3;
export const DEADLINE_MS = 10;

export interface Given {
  readonly overflow: Overflow;
  readonly deadlineMs: number;
  readonly clock: Clock;
  /** What became of the items: those that the consumer got, in that order, and the errors that anything ended with. */
  readonly served: number[];
  readonly errors: Set<unknown>;
}

/** An operator whose consumer is busy, so that every item has to wait. */
export interface Busy {
  send(item: number, lane?: 'high' | 'low'): void;
  /** The consumer takes what waits. */
  serve(): void | Promise<void>;
}

export class Clock extends VirtualTimeScheduler {
  private scheduled = 0;

  /** A timer that is set again and again for the same moment would never end. */
  override schedule<S>(...given: Parameters<typeof VirtualTimeScheduler.prototype.schedule<S>>): Subscription {
    if (++this.scheduled > 1000) throw new Error('a timer goes on for ever');
    return super.schedule(...given);
  }

  /** Goes on by so many ms; with 0 to the end of the frame. */
  pass(ms: number): void {
    const until = this.frame + ms;
    this.maxFrames = until;
    this.flush();
    this.frame = until;
  }
}

export interface Case {
  readonly make: (operators: Operators, given: Given) => Busy;
  /** Which of five items are served under each policy, where three may wait; of two lanes under 'dropLowest', where the last two are urgent. */
  readonly served: Partial<Readonly<Record<Exclude<Overflow, 'error'>, readonly number[]>>>;
  /** Whether one more fails under 'error'. */
  readonly fails: boolean;
  readonly hasDeadline: boolean;
}

const USUAL = { dropOldest: [3, 4, 5], dropNewest: [1, 2, 3], latest: [4, 5] } as const;
const IN_LANES = { ...USUAL, dropLowest: [4, 5, 1] } as const;

/** Every operator that lets items wait. */
export const CASES: Readonly<Record<string, Case>> = {
  bulkheadMap: { make: (operators, given) => items(operators, given, undefined), served: USUAL, fails: true, hasDeadline: true },
  'bulkheadMap by key': {
    make: (operators, given) => items(operators, given, (item) => item),
    // Nothing waits under a key of its own, so the newcomer costs one of another.
    served: { ...USUAL, latest: [3, 4, 5] },
    fails: true,
    hasDeadline: true,
  },
  settleAll: {
    make: ({ settleAll }, { deadlineMs, clock, errors }) => {
      const sent: number[] = [0];
      return {
        // A list is given at once: it begins when the first item that waits is there.
        send: (item) => {
          sent.push(item);
          settleAll(sent, () => NEVER, { concurrency: 1, deadlineMs, scheduler: clock }).subscribe((results) => {
            for (const result of results) if (result.status === 'rejected' && result.input > 0) errors.add(result.reason);
          });
        },
        serve: () => undefined,
      };
    },
    served: {},
    fails: false,
    hasDeadline: true,
  },
  backpressure: {
    make: ({ backpressure }, given) => {
      const ready = new BehaviorSubject(false);
      return piped(given, ready, backpressure<number>({ ready, maxQueued: MAX_QUEUED, overflow: given.overflow as 'error' }));
    },
    served: USUAL,
    fails: true,
    hasDeadline: false,
  },
  'backpressure by weight': {
    make: ({ backpressure }, given) => {
      const ready = new BehaviorSubject(false);
      return piped(given, ready, backpressure<number>({ ready, maxWeight: MAX_QUEUED, overflow: given.overflow as 'error' }));
    },
    served: USUAL,
    fails: true,
    hasDeadline: false,
  },
  conflateWhileBusy: {
    make: ({ conflateWhileBusy }, given) => {
      const ready = new BehaviorSubject(false);
      const [seed, merge] = [(item: number) => [item], (all: number[], item: number) => [...all, item]];
      return piped(given, ready, conflateWhileBusy({ ready, seed, merge, maxWeight: MAX_QUEUED, overflow: given.overflow as 'error' }));
    },
    // All that waits is one aggregate, the oldest.
    served: { dropOldest: [4, 5], dropNewest: [1, 2, 3] },
    fails: true,
    hasDeadline: false,
  },
  rateLimit: {
    make: ({ createLimiter, rateLimit }, given) => {
      const limiter = createLimiter({ concurrency: 1, scheduler: given.clock });
      const lease = limiter.tryAcquire();
      const free = { next: () => lease?.release() };
      return piped(given, free, rateLimit<number>(limiter, {}, { maxQueued: MAX_QUEUED, overflow: given.overflow as 'error' }));
    },
    served: USUAL,
    fails: true,
    hasDeadline: false,
  },
  mergeLanes: {
    make: ({ mergeLanes }, { overflow, clock, served, errors }) => {
      const [source, flush] = [new Subject<number>(), new Subject<void>()];
      mergeLanes([{ name: 'a', source, maxWaitMs: 1000 }], {
        ...{ flush, scheduler: clock, maxQueued: MAX_QUEUED, overflow: overflow as 'error' },
      }).subscribe({ next: (batch) => served.push(...batch.items), error: (error) => errors.add(error) });
      return {
        send: (item) => {
          source.next(item);
        },
        serve: () => {
          flush.next();
        },
      };
    },
    served: USUAL,
    fails: true,
    hasDeadline: false,
  },
  toAsyncIterable: {
    make: ({ toAsyncIterable }, { overflow, served, errors }) => {
      const source = new Subject<number>();
      const values = toAsyncIterable(source, { maxQueued: MAX_QUEUED, overflow: overflow as 'error' })[Symbol.asyncIterator]();
      void values.next();
      source.next(0);
      return {
        send: (item) => {
          source.next(item);
        },
        serve: async () => {
          source.complete();
          try {
            for (let next = await values.next(); !next.done; next = await values.next()) served.push(next.value);
          } catch (error) {
            errors.add(error);
          }
        },
      };
    },
    served: USUAL,
    fails: true,
    hasDeadline: false,
  },
  createIntake: {
    make: ({ createIntake, lanes }, { served, errors }) => {
      const intake = createIntake<number>({ maxQueued: 1, queue: lanes([{ name: 'a', maxQueued: MAX_QUEUED }]) });
      void intake.offer(0);
      return {
        send: (item) => {
          intake.offer(item).catch((error: unknown) => errors.add(error));
        },
        serve: async () => {
          const reader = intake[Symbol.asyncIterator]();
          while (intake.snapshot().queued > 0) {
            const next = await reader.next();
            if (!next.done && next.value > 0) served.push(next.value);
          }
        },
      };
    },
    served: {},
    fails: true,
    hasDeadline: false,
  },
  batchMap: {
    make: ({ batchMap, lanes, natural }, given) => {
      const { work, release } = worker(given);
      const [source, lane] = [new Subject<number>(), new Map<number, string>()];
      const queue = lanes<number>([{ name: 'high' }, { name: 'low' }], { by: (item) => lane.get(item) ?? 'low' });
      source.pipe(batchMap(work, { ...batches(given), queue, window: natural() })).subscribe({
        next: (settled) => settled.status === 'rejected' && settled.input > 0 && given.errors.add(settled.reason),
        error: (error) => given.errors.add(error),
      });
      source.next(0);
      given.clock.pass(0);
      return {
        send: (item, name = 'low') => {
          lane.set(item, name);
          source.next(item);
        },
        serve: release,
      };
    },
    served: IN_LANES,
    fails: true,
    hasDeadline: true,
  },
  createBatcher: {
    make: ({ createBatcher, lanes, natural }, given) => {
      const { work, release } = worker(given);
      const batcher = createBatcher(work, { ...batches(given), queue: lanes([{ name: 'high' }, { name: 'low' }]), window: natural() });
      const send = (item: number, lane = 'low'): void => {
        batcher.load(item, { lane }).subscribe({ error: (error) => item > 0 && given.errors.add(error) });
      };
      send(0);
      given.clock.pass(0);
      return { send, serve: release };
    },
    served: IN_LANES,
    fails: true,
    hasDeadline: true,
  },
  createLimiter: {
    make: ({ createLimiter, lanes }, { overflow, deadlineMs, clock, served, errors }) => {
      const queue = lanes<object>([{ name: 'high' }, { name: 'low' }]);
      const limiter = createLimiter({ concurrency: 1, maxQueued: MAX_QUEUED, overflow, queue, scheduler: clock });
      const plug = limiter.tryAcquire();
      return {
        send: (item, lane = 'low') => {
          limiter.acquire({ lane, deadlineMs }).subscribe({
            next: (lease) => {
              served.push(item);
              lease.release();
            },
            error: (error) => errors.add(error),
          });
        },
        serve: () => plug?.release(),
      };
    },
    served: IN_LANES,
    fails: true,
    hasDeadline: true,
  },
};

function items({ bulkheadMap }: Operators, given: Given, key: ((item: number) => unknown) | undefined): Busy {
  const { overflow, deadlineMs, clock } = given;
  const { work, release } = worker(given);
  const source = new Subject<number>();
  const options = { concurrency: 1, maxQueued: MAX_QUEUED, overflow: overflow as 'error', deadlineMs, scheduler: clock };
  source.pipe(bulkheadMap((item) => work([item]), { ...options, ...(key && { key }) })).subscribe({
    next: (settled) => settled.status === 'rejected' && settled.input > 0 && given.errors.add(settled.reason),
    error: (error) => given.errors.add(error),
  });
  source.next(0);
  return {
    send: (item) => {
      source.next(item);
    },
    serve: release,
  };
}

/** An operator between a source and a consumer that gets ready. */
function piped(
  { served, errors, clock }: Given,
  consumer: { next(isReady: boolean): void },
  operator: (source: Observable<number>) => Observable<number | number[]>,
): Busy {
  const source = new Subject<number>();
  operator(source).subscribe({ next: (value) => served.push(...[value].flat()), error: (error) => errors.add(error) });
  return {
    send: (item) => {
      source.next(item);
    },
    serve: () => {
      consumer.next(true);
      clock.pass(0);
    },
  };
}

function batches({ overflow, deadlineMs, clock }: Given) {
  return { maxSize: 1, concurrency: 1, maxQueued: MAX_QUEUED, overflow, deadlineMs, scheduler: clock };
}

/** Work that the first item keeps busy. */
function worker({ served, clock }: Given) {
  const first = new Subject<number[]>();
  return {
    work: (all: readonly number[]): Observable<number[]> => {
      if (all[0] === 0) return first;
      served.push(...all);
      return of([...all]);
    },
    release: (): void => {
      first.next([0]);
      first.complete();
      clock.pass(0);
    },
  };
}
