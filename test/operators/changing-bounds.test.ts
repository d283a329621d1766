import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { BehaviorSubject, config, from, lastValueFrom, map, NEVER, of, Subject, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Overflow, Settled } from '../../operators/index.js';
import {
  backpressure,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  createBatcher,
  createLimiter,
  keyedLimiter,
  perMinute,
  rateLimit,
} from '../../operators/index.js';
import { boundsOf, holdsTooMuch, isUnbounded, mayNotWait, refusal, room, waitsForRoom } from '../../operators/kernel/index.js';
import { atOnce } from '../support/at-once.js';
import { sized } from '../support/deep.js';

type Policy = Exclude<Overflow, 'dropLowest'>;

/** What a queue did with items: which of them went, and how it ended. */
interface Fed {
  send(item: string): void;
  /** Items dropped, or the code of the error. */
  readonly lost: string[];
}

/** Queues with one item under way, or none that may go, so that each other item waits. */
const queues: Record<string, (maxQueued: number | (() => number), overflow: Policy | (() => Policy)) => Fed> = {
  rateLimit: (maxQueued, overflow) => {
    const source = new Subject<string>();
    const lost: string[] = [];
    const limiter = createLimiter({ rates: [perMinute('requests', 1)] });
    limiter.pause();
    const onDrop = (item: string) => lost.push(item);
    const error = ({ code }: { code: string }) => lost.push(code);
    source.pipe(rateLimit(limiter, {}, { maxQueued, overflow, onDrop })).subscribe({ error });
    return { send: source.next.bind(source), lost };
  },
  bulkheadMap: (maxQueued, overflow) => {
    const source = new Subject<string>();
    const lost: string[] = [];
    const next = (settled: Settled<string, unknown>) => lost.push(settled.input);
    const error = ({ code }: { code: string }) => lost.push(code);
    source.pipe(bulkheadMap(() => NEVER, { concurrency: 1, maxQueued, overflow })).subscribe({ next, error });
    source.next('busy');
    return { send: source.next.bind(source), lost };
  },
  batchMap: (maxQueued, overflow) => {
    const source = new Subject<string>();
    const lost: string[] = [];
    const next = (settled: Settled<string, unknown>) => lost.push(settled.input);
    const error = ({ code }: { code: string }) => lost.push(code);
    const options = { concurrency: 1, maxSize: 1, scheduler: atOnce(), maxQueued, overflow };
    source.pipe(batchMap(() => NEVER, options)).subscribe({ next, error });
    source.next('busy');
    return { send: source.next.bind(source), lost };
  },
  createBatcher: (maxQueued, overflow) => {
    const lost: string[] = [];
    const batcher = createBatcher((_: readonly string[]) => NEVER, {
      concurrency: 1,
      maxSize: 1,
      scheduler: atOnce(),
      maxQueued,
      overflow,
    });
    const send = (item: string): void => {
      batcher.load(item).subscribe({ error: () => lost.push(item) });
    };
    send('busy');
    return { send, lost };
  },
  createLimiter: (maxQueued, overflow) => {
    const lost: string[] = [];
    const limiter = createLimiter({ concurrency: 1, maxQueued, overflow });
    limiter.tryAcquire();
    return { send: (item) => void limiter.acquire().subscribe({ error: () => lost.push(item) }), lost };
  },
  keyedLimiter: (maxQueued, overflow) => {
    const lost: string[] = [];
    const limiter = keyedLimiter({ concurrency: 1, maxQueued, overflow });
    limiter.tryAcquire({ key: 'a' });
    return { send: (item) => void limiter.acquire({ key: 'a' }).subscribe({ error: () => lost.push(item) }), lost };
  },
};

/** Has no bound that changes. */
const lossy: typeof queues = {
  ...queues,
  backpressure: (maxQueued, overflow) => {
    const source = new Subject<string>();
    const lost: string[] = [];
    const onDrop = (item: string) => lost.push(item);
    const error = ({ code }: { code: string }) => lost.push(code);
    source.pipe(backpressure({ ready: from([false]), maxQueued: maxQueued as number, overflow, onDrop })).subscribe({ error });
    return { send: source.next.bind(source), lost };
  },
};

afterEach(() => {
  config.onUnhandledError = null;
});

/** What is reported as an uncaught error until the end of a test. */
function reports(): unknown[] {
  const reported: unknown[] = [];
  config.onUnhandledError = (error) => reported.push(error);
  return reported;
}

const reportsAreIn = () => new Promise((resolve) => setTimeout(resolve, 5));

describe.each(Object.entries(lossy))('overflow as a function: %s', (name, queue) => {
  it('switches between policies while it runs, asked at each overflow alone', () => {
    let policy: Policy = 'dropOldest';
    let asked = 0;
    const { send, lost } = queue(2, () => {
      asked++;
      return policy;
    });
    send('a');
    send('b');
    const before = asked;
    send('c');
    expect([before, lost]).toEqual([0, ['a']]);
    policy = 'dropNewest';
    send('d');
    expect(lost).toEqual(['a', 'd']);
    policy = 'latest';
    send('e');
    expect(lost).toEqual(['a', 'd', 'b', 'c']);
    send('f');
    policy = 'error';
    send('g');
    expect(lost.slice(4)).toContain(/Map|backpressure|rateLimit/.test(name) ? 'FLOW_OVERFLOW' : 'g');
  });

  it('goes by the last answer when the function throws, or answers something else, and reports it', async () => {
    const reported = reports();
    const answers: unknown[] = ['dropNewest', 'nonsense', undefined];
    const { send, lost } = queue(1, () => {
      if (answers.length === 0) throw new Error('broken');
      return answers.shift() as Policy;
    });
    for (const item of ['a', 'b', 'c', 'd', 'e']) send(item);
    expect(lost).toEqual(['b', 'c', 'd', 'e']);
    await reportsAreIn();
    const expected = "one of 'error', 'dropOldest'";
    expect(reported).toMatchObject([
      { code: 'FLOW_CONFIG_INVALID', message: expect.stringContaining(expected) as string },
      { code: 'FLOW_CONFIG_INVALID' },
      { code: 'FLOW_CALLBACK', callback: 'overflow', cause: { message: 'broken' } },
    ]);
  });

  it("is 'error' when it cannot answer the first time", async () => {
    const reported = reports();
    const { send, lost } = queue(1, () => {
      throw new Error('broken');
    });
    send('a');
    send('b');
    expect(lost).toContain(/Map|backpressure|rateLimit/.test(name) ? 'FLOW_OVERFLOW' : 'b');
    await reportsAreIn();
    expect(reported).toMatchObject([{ code: 'FLOW_CALLBACK' }]);
  });
});

describe.each(Object.entries(queues))('maxQueued as a function: %s', (_name, queue) => {
  it('lets more wait when it is raised, and drops nothing that waits when it is lowered', () => {
    let most = 1;
    const { send, lost } = queue(() => most, 'dropNewest');
    send('a');
    send('b');
    expect(lost).toEqual(['b']);
    most = 3;
    send('c');
    send('d');
    expect(lost).toEqual(['b']);
    most = 1;
    expect(lost).toEqual(['b']);
    send('e');
    expect(lost).toEqual(['b', 'e']);
  });

  it('goes by the last answer when the function fails', async () => {
    const reported = reports();
    const answers: unknown[] = [1, -1, 'x', NaN];
    let calls = 0;
    const { send, lost } = queue(() => answers[Math.min(calls++, 3)] as number, 'dropNewest');
    send('a');
    for (const item of ['b', 'c', 'd', 'e']) send(item);
    expect(lost).toEqual(['b', 'c', 'd', 'e']);
    await reportsAreIn();
    expect(reported.length).toBeGreaterThanOrEqual(3);
  });
});

describe('a bound that changes', () => {
  it('is how far batchMapFrom reads ahead', async () => {
    let most = 1;
    let read = 0;
    function* numbers(): Generator<number> {
      while (read < 30) yield read++;
    }
    const calls: number[] = [];
    const work = async (items: readonly number[]) => {
      calls.push(read);
      most = 10;
      return items;
    };
    const results = await lastValueFrom(
      batchMapFrom(numbers(), work, { maxQueued: () => most, maxSize: 1, concurrency: 1 }).pipe(toArray()),
    );
    expect(results.map((result) => result.index)).toEqual(Array.from({ length: 30 }, (_, n) => n));
    expect(calls[0]).toBeLessThanOrEqual(3);
    expect(Math.max(...calls.map((ahead, call) => ahead - call))).toBeGreaterThanOrEqual(10);
  });

  it('lets promised loads wait for room while it is finite and lossless', async () => {
    let policy: Overflow = 'error';
    const gate = new Subject<void>();
    const work = (items: readonly string[]) =>
      gate.pipe(
        toArray(),
        map(() => items),
      );
    const batcher = createBatcher(work, { concurrency: 1, maxSize: 1, maxQueued: () => 1, overflow: () => policy, scheduler: atOnce() });
    const loads = ['busy', 'a', 'b'].map((item) => batcher.loadAsync(item));
    expect(batcher.snapshot()).toMatchObject({ queued: 1, executing: 1 });
    policy = 'dropNewest';
    const lossy = batcher.loadAsync('c');
    await expect(lossy).rejects.toMatchObject({ code: 'FLOW_OVERFLOW' });
    gate.complete();
    expect(await Promise.all(loads)).toEqual(['busy', 'a', 'b']);
  });

  it('does not ask before it has to: what it looks at may be made later', () => {
    const reported = reports();
    const limiter = createLimiter({ concurrency: 1, maxQueued: () => limiter.concurrency, overflow: () => 'error' });
    expect(limiter.tryAcquire()).toBeDefined();
    expect(reported).toEqual([]);
  });

  it('follows an Observable through its current value', () => {
    const level = new BehaviorSubject(0);
    const limiter = createLimiter({ concurrency: 1, maxQueued: () => level.value });
    limiter.tryAcquire();
    const refused = (): unknown => {
      let code: unknown;
      limiter.acquire().subscribe({ error: (error: { code: string }) => (code = error.code) });
      return code;
    };
    expect(refused()).toBe('FLOW_RATE_LIMITED');
    level.next(1);
    expect([refused(), refused()]).toEqual([undefined, 'FLOW_OVERFLOW']);
  });

  it('keeps a rateLimit that may hold nothing from dropping what waits already', () => {
    let most = 5;
    const source = new Subject<string>();
    const limiter = createLimiter({ concurrency: 1 });
    limiter.pause();
    const seen: string[] = [];
    const dropped: FlowEvent[] = [];
    const options = { maxQueued: () => most, overflow: 'dropNewest', onEvent: (event: FlowEvent) => dropped.push(event) } as const;
    source.pipe(rateLimit(limiter, {}, options)).subscribe((item) => seen.push(item));
    source.next('a');
    source.next('b');
    most = 0;
    source.next('c');
    limiter.resume();
    expect(seen).toEqual(['a', 'b']);
    expect(dropped).toMatchObject([{ type: 'dropped', policy: 'dropNewest' }]);
  });

  it('answers as a fixed one of the same value', () => {
    const policies = fc.constantFrom<Overflow[]>('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest');
    const counts = fc.oneof(fc.nat({ max: 5 }), fc.constant(Infinity));
    fc.assert(
      fc.property(counts, policies, counts, fc.nat({ max: 8 }), fc.nat({ max: 8 }), (maxQueued, overflow, ofLane, queued, inLane) => {
        const lanes = [{ name: 'a' }, { name: 'b', maxQueued: ofLane }];
        const fixed = boundsOf({ maxQueued, overflow, lanes });
        const live = boundsOf({ maxQueued: () => maxQueued, overflow: () => overflow, lanes });
        for (const lane of [0, 1]) {
          expect(refusal(live, queued, lane, inLane)).toEqual(refusal(fixed, queued, lane, inLane));
          expect(mayNotWait(live, lane)).toBe(mayNotWait(fixed, lane));
        }
        expect(room(live, queued)).toBe(room(fixed, queued));
        expect(waitsForRoom(live)).toBe(waitsForRoom(fixed));
        expect(holdsTooMuch(live, queued)).toBe(holdsTooMuch(fixed, queued));
        expect(isUnbounded(live)).toBe(false);
      }),
      { numRuns: sized(200, 1000) },
    );
  });
});

function watch<T, R>(result: Observable<Settled<T, R>>, flush: () => void) {
  const settled: Settled<T, R>[] = [];
  const errors: unknown[] = [];
  let completed = false;
  result.subscribe({
    next: (one) => settled.push(one),
    error: (error: unknown) => errors.push(error),
    complete: () => {
      completed = true;
    },
  });
  flush();
  return { settled, errors, completed };
}

describe('a changing concurrency that is out of range', () => {
  const wanted = { code: 'FLOW_CONFIG_INVALID', option: 'concurrency', got: 0 };

  it('errors batchMapFrom, in its own name', () => {
    const { errors } = virtualTime(({ flush }) =>
      watch(
        batchMapFrom(['a'], () => NEVER, { concurrency: of(0) }),
        flush,
      ),
    );
    expect(errors).toMatchObject([{ ...wanted, operator: 'batchMapFrom' }]);
  });

  it('rejects every load of createBatcher, in its own name', () => {
    const concurrency = new Subject<number>();
    const error = virtualTime(({ advance }) => {
      let seen: unknown;
      createBatcher<string, string>(() => NEVER, { concurrency })
        .load('a')
        .subscribe({
          error: (reason: unknown) => {
            seen = reason;
          },
        });
      advance(1);
      concurrency.next(0);
      return seen;
    });
    expect(error).toMatchObject({ ...wanted, operator: 'createBatcher' });
  });
});
