import type { Observable } from 'rxjs';
import { defer, map, NEVER, of, Subject, Subscription, throwError, timer, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Settled } from '../../operators/index.js';
import {
  batchMap,
  classifyError,
  createBatcher,
  createLimiter,
  inputOrder,
  lruCache,
  natural,
  orderPerKey,
  robust,
} from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { Dice } from '../world/dice.js';

/**
 * Seeded runs in which every callback (listeners at every event, abort listeners, the work, callbacks, consumers) does something at
 * random: it sends, leaves, drains, closes, changes the concurrency or throws. Each accepted item settles exactly once, and every permit comes back.
 */

const RUNS = Number(process.env['SLUICE_LISTENER_RUNS'] ?? sized(60, 400));

const failures = [
  () => Object.assign(new Error('bad'), { status: 400 }),
  () => Object.assign(new Error('busy'), { status: 503 }),
  () => Object.assign(new Error('slow down'), { status: 429, headers: { 'retry-after': '0.02' } }),
  () => new Error('same in every part'),
  () => new TypeError('a bug'),
];

function options(dice: Dice, scheduler: VirtualTimeScheduler, act: () => void) {
  const concurrency = new Subject<number>();
  const limiter = dice.chance(0.4) ? createLimiter({ concurrency: 1 + dice.int(0, 2), scheduler }) : undefined;
  const sometimes = <V>(p: number, value: () => V): V | undefined => (dice.chance(p) ? value() : undefined);
  const told =
    <A, V>(callback: (argument: A) => V) =>
    (argument: A): V => {
      if (dice.chance(0.1)) act();
      if (dice.chance(0.03)) throw new Error('callback');
      return callback(argument);
    };
  const given = {
    maxSize: 1 + dice.int(0, 4),
    scheduler,
    random: () => dice.next(),
    classify: classifyError,
    repair: robust(),
    timeoutMs: dice.pick([5, 15, Infinity]),
    ...(limiter ? { limiter } : { concurrency }),
    ...(dice.chance(0.5) && {
      maxQueued: 1 + dice.int(0, 5),
      overflow: dice.pick(['error', 'dropOldest', 'dropNewest', 'latest'] as const),
    }),
    ...(dice.chance(0.3) && { order: dice.chance(0.5) ? inputOrder() : orderPerKey(told((item: number) => item % 3)) }),
    ...(dice.chance(0.3) && { window: natural() }),
    ...(dice.chance(0.3) && { maxWeight: 4, weigh: told((item: number) => item % 4) }),
    ...(dice.chance(0.3) && { deadlineMs: 10 + dice.int(0, 39) }),
    ...(dice.chance(0.2) && { id: told((item: number) => `id ${String(item)}`) }),
    ...sometimes(0.8, () => ({
      onEvent: (_event: FlowEvent) => {
        if (dice.chance(0.15)) act();
        if (dice.chance(0.05)) throw new Error('listener');
      },
    })),
  };
  return { given, limiter, concurrency };
}

function worker(dice: Dice, scheduler: VirtualTimeScheduler, act: () => void) {
  return (items: readonly number[], { signal }: { signal: AbortSignal }): Observable<number[]> | number[] => {
    if (dice.chance(0.1)) act();
    if (dice.chance(0.5)) {
      signal.addEventListener('abort', () => {
        if (dice.chance(0.5)) act();
      });
    }
    const answer = items.map((item) => item * 10);
    const fail = (): never => {
      throw dice.pick(failures)();
    };
    switch (dice.int(0, 7)) {
      case 0:
        return fail();
      case 1:
        return throwError(() => dice.pick(failures)());
      case 2:
        return timer(dice.int(0, 19), scheduler).pipe(map(fail));
      case 3:
        return NEVER;
      case 4:
        return answer;
      case 5:
        return of(answer);
      default:
        return defer(() => {
          if (dice.chance(0.1)) act();
          return timer(dice.int(0, 19), scheduler).pipe(map(() => answer));
        });
    }
  };
}

function streamRun(seed: number): void {
  const dice = new Dice(seed);
  const scheduler = new VirtualTimeScheduler(undefined, 3000);
  const source = new Subject<number>();
  const seen = new Map<number, number>();
  const accepted: number[] = [];
  let hasEnded = false;
  let acts = 0;
  let isOver = false;
  let calls = 0;
  let callsAtEnd = -1;
  const subscription = new Subscription();
  const send = (): void => {
    if (hasEnded || isOver || subscription.closed) return;
    accepted.push(accepted.length);
    source.next(accepted.length - 1);
  };
  const act = (): void => {
    if (acts++ > 40) return;
    switch (dice.int(0, 8)) {
      case 0:
        subscription.unsubscribe();
        callsAtEnd = calls;
        return;
      case 1:
        hasEnded = true;
        source.complete();
        return;
      case 2:
        hasEnded = true;
        source.error(new Error('source'));
        return;
      case 3:
        concurrency.next(1 + dice.int(0, 3));
        return;
      default:
        send();
    }
  };
  const { given, limiter, concurrency } = options(dice, scheduler, act);
  const work = worker(dice, scheduler, act);
  const over = (): void => {
    isOver = true;
    callsAtEnd = calls;
  };
  const ends = new Set<'complete' | 'error'>();
  subscription.add(
    source
      .pipe(
        batchMap<number, number>((items, context) => {
          calls++;
          if (isOver || subscription.closed) throw new Error('called after the end');
          return work(items, context);
        }, given),
      )
      .subscribe({
        next: (settled: Settled<number, number>) => {
          seen.set(settled.input, (seen.get(settled.input) ?? 0) + 1);
          if (settled.status === 'fulfilled') expect(settled.value).toBe(settled.input * 10);
          if (dice.chance(0.1)) act();
        },
        error: over,
        complete: () => {
          ends.add('complete');
          over();
        },
      }),
  );
  concurrency.next(2);
  for (let burst = 0; burst < 6; burst++) {
    scheduler.schedule(
      () => {
        for (let n = dice.int(0, 5); n > 0; n--) send();
      },
      dice.int(0, 59),
    );
  }
  scheduler.schedule(() => {
    hasEnded = true;
    source.complete();
  }, 200);
  scheduler.flush();
  // Everything that came before the end has its result; what never ends is left.
  if (ends.has('complete')) expect({ seed, settled: [...seen.keys()].sort((a, b) => a - b) }).toEqual({ seed, settled: accepted });
  subscription.unsubscribe();
  scheduler.flush();
  const doubled = [...seen].filter(([, times]) => times !== 1);
  expect({ seed, doubled }).toEqual({ seed, doubled: [] });
  if (callsAtEnd !== -1) expect({ seed, calls }).toEqual({ seed, calls: callsAtEnd });
  expect({ seed, executing: limiter?.snapshot().executing ?? 0, queued: limiter?.snapshot().queued ?? 0 }).toEqual({
    seed,
    executing: 0,
    queued: 0,
  });
}

async function batcherRun(seed: number): Promise<void> {
  const dice = new Dice(seed);
  const scheduler = new VirtualTimeScheduler(undefined, 3000);
  const outcomes: number[] = [];
  const expected: number[] = [];
  const controllers = [new AbortController(), new AbortController()];
  const left: Subscription[] = [];
  let acts = 0;
  let sent = 0;
  const count = (answer: Promise<unknown>): void => {
    const at = outcomes.push(0) - 1;
    expected.push(1);
    const settle = (): void => {
      (outcomes[at] as number)++;
    };
    answer.then(settle, settle);
  };
  const send = (): void => {
    const item = dice.int(0, 7) + (dice.chance(0.5) ? 100 * sent++ : 0);
    const signal = dice.chance(0.3) ? dice.pick(controllers).signal : undefined;
    const given = {
      ...(signal && { signal }),
      ...(dice.chance(0.1) && { deadlineMs: dice.int(0, 29) }),
    };
    switch (dice.int(0, 4)) {
      case 0:
        count(batcher.loadManyAsync([item, item + 1, item], given));
        return;
      case 1:
        count(batcher.loadAsync(item));
        return;
      case 2: {
        const at = outcomes.push(0) - 1;
        expected.push(1);
        const end = (): void => {
          (outcomes[at] as number)++;
          if (dice.chance(0.1)) act();
        };
        const one = batcher.load(item, given).subscribe({ complete: end, error: end });
        if (dice.chance(0.4)) {
          left.push(one);
          one.add(() => {
            // A caller that left gets no answer.
            if (outcomes[at] === 0) expected[at] = 0;
          });
        }
        return;
      }
      default:
        count(batcher.loadAsync(item, given));
    }
  };
  const act = (): void => {
    if (acts++ > 40) return;
    switch (dice.int(0, 15)) {
      case 0:
        batcher.close();
        return;
      case 1:
        void batcher.drain();
        return;
      case 2:
        void batcher.drain({ timeoutMs: dice.int(0, 29) });
        return;
      case 3:
        dice.pick(controllers).abort();
        return;
      case 4:
        batcher.flush();
        return;
      case 5:
        concurrency.next(1 + dice.int(0, 3));
        return;
      case 6:
        batcher.clear(dice.int(0, 7));
        return;
      case 7:
        batcher.clearAll();
        return;
      case 8:
      case 9:
        left.pop()?.unsubscribe();
        return;
      case 10:
        batcher.prime(dice.int(0, 7), 1);
        return;
      default:
        send();
    }
  };
  const safely = (): void => {
    try {
      act();
    } catch {
      // `clear` and `prime` pass on what `dedupe` throws.
    }
  };
  const { given, limiter, concurrency } = options(dice, scheduler, safely);
  const batcher = createBatcher<number, number>(worker(dice, scheduler, safely), {
    ...given,
    ...(dice.chance(0.5) && { dedupe: (item: number) => item % 50 }),
    ...(dice.chance(0.5) && { cache: lruCache(1 + dice.int(0, 3), { ...(dice.chance(0.5) && { ttlMs: 10 }) }) }),
  });
  concurrency.next(2);
  for (let burst = 0; burst < 6; burst++) {
    scheduler.schedule(
      () => {
        for (let n = dice.int(0, 4); n > 0; n--) send();
      },
      dice.int(0, 59),
    );
  }
  let drained = 0;
  scheduler.schedule(() => {
    void batcher.drain({ timeoutMs: 100 }).then(() => drained++);
  }, 200);
  for (let turn = 0; turn < 8; turn++) {
    scheduler.flush();
    await Promise.resolve();
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
  expect({ seed, outcomes }).toEqual({ seed, outcomes: expected });
  expect({ seed, drained, snapshot: batcher.snapshot() }).toMatchObject({
    seed,
    drained: 1,
    snapshot: { queued: 0, executing: 0, heldBack: 0 },
  });
  expect({ seed, executing: limiter?.snapshot().executing ?? 0, queued: limiter?.snapshot().queued ?? 0 }).toEqual({
    seed,
    executing: 0,
    queued: 0,
  });
}

describe('when every callback does something at random', () => {
  it(`batchMap settles each item once, in ${String(RUNS)} runs`, () => {
    for (let seed = 1; seed <= RUNS; seed++) streamRun(seed);
  }, 600_000);

  it(`createBatcher settles each load once, in ${String(RUNS)} runs`, async () => {
    for (let seed = 1; seed <= RUNS; seed++) await batcherRun(seed);
  }, 600_000);
});
