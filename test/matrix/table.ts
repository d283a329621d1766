import { concat, config, EMPTY, map, NEVER, Observable, of, range, Subject, throwError, timer } from 'rxjs';
import { expect } from 'vitest';
import {
  adaptiveLimit,
  batchMap,
  conflateWhileBusy,
  createBreaker,
  createIntake,
  createLimiter,
  lanes,
  mergeLanes,
  perMinute,
  policy,
  rateLimit,
  retryFailed,
  settleAll,
  splitItem,
  switchLatest,
  toStore,
} from '../../operators/index.js';
import { fromSubscribable } from '../../operators/interop.js';
import { refusing } from '../support/refusing.js';
import { refusesNumbers } from './numbers.js';
import { completes, errors, leaves, MILLION, on, overflows, reasonsOf, reenters, takesMillion, unlimited } from './rig.js';
import type { Cell, Cells } from './rows.js';
import { cell, na } from './rows.js';
import type { Shape, Work } from './shape.js';
import { echo, fault, never } from './shape.js';
import { shapes } from './shapes.js';

const weigh = (item: number): number => item;
const broken = (item: number): never => {
  throw new Error(`cannot look at ${String(item)}`);
};
const INFINITE = { maxSize: Infinity, maxWeight: Infinity } as const;
const LANES = [{ name: 'urgent' }, { name: 'low' }] as const;

// Rows that many have in common.

const refused = (operator: string): Cell => cell('refused where it is made, with the name of the option', refusesNumbers(operator));

const nothingLeft = (shape: Shape, options?: object): Cell =>
  cell('no timer, listener or subscription is left', async () => {
    await completes(shape, [1, 2, 3], options)();
    await leaves(shape, options)();
  });

/** Every item of three, under options and work of the cell's own; what came out and the reasons of what did not. */
const gives = (shape: Shape, options: object, out: readonly number[], reasons: readonly unknown[], work: Work = echo) =>
  on(async (run) => {
    run.start(shape, of(1, 2, 3), options, work);
    await run.pass();
    expect(run.out).toEqual(out);
    expect(reasonsOf(run)).toEqual(reasons);
  });

/** Numbers of `resequence` that begin at 1: the first of them, 0, never comes. */
const ofItself = (item: number): number => item;

const neverRepeated = (shape: Shape, calls: number): Cell =>
  cell(
    'never made again',
    on(async (run) => {
      run.start(shape, concat(of(1, 2, 3), NEVER), {}, never);
      await run.pass(5);
      run.leave();
      await run.pass();
      expect(run.calls).toBe(calls);
      expect(run.signals.filter(({ aborted }) => !aborted)).toEqual([]);
    }),
  );

const busy = Object.assign(new Error('status 503'), { status: 503 });

/** Work that never ends on its first call only. */
const firstHangs = (): Work => {
  let calls = 0;
  return (item) => (calls++ === 0 ? NEVER : of(item));
};

const noQueue = na('it has no queue of its own');
const noWork = na('it calls no work');
const noWeights = na('it does not weigh items');
const noPriorities = na('it has no priorities');
const noLanes = na('it has neither lanes nor keys');
const noSource = na('it has no source');

const laneOf = (item: number): string => (item < 10 ? 'urgent' : 'low');

/** What batches behind a gate have in common. */
const gated = (operator: 'batchMap' | 'batchMapFrom' | 'createBatcher') => {
  const shape = shapes[operator];
  return {
    badNumber: refused(operator),
    infinity: cell('no limit', unlimited(shape, { ...INFINITE, maxQueued: Infinity, concurrency: Infinity, timeoutMs: Infinity })),
    oversize: cell('travels alone, is cut, or is rejected', async () => {
      await gives(shape, { weigh, maxWeight: 2 }, [1, 2, 3], ['complete'])();
      await gives(shape, { weigh, maxWeight: 2, oversize: 'reject' }, [1, 2], ['ItemTooHeavyError', 'complete'])();
      const halves = {
        oversize: splitItem(
          (item: number) => [1, item - 1],
          (parts: readonly number[]) => parts[0]! + parts[1]!,
        ),
      };
      await gives(shape, { weigh, maxWeight: 2, ...halves }, [1, 2, 3], ['complete'])();
    }),
    callback: cell(
      'rejects that item; the others go on',
      gives(shape, { weigh: (item: number) => (item === 2 ? broken(item) : 1) }, [1, 3], ['CallbackError', 'complete']),
    ),
    emptyKey: cell('an empty lane is passed over', gives(shape, { queue: lanes(LANES, { by: () => 'low' }) }, [1, 2, 3], ['complete'])),
    stuck: cell(
      'the call ends at `timeoutMs`, and its slot is free again (that of a promise within a second)',
      gives(shape, { maxSize: 1, concurrency: 1, timeoutMs: 100 }, [2, 3], ['AttemptTimeoutError', 'complete'], firstHangs()),
    ),
  } as const;
};

/** What goes from one item to the next without work, weights, lanes or priorities. */
const plain = { oversize: noWeights, emptyKey: noLanes, inversion: noPriorities, aborted: noWork } as const;

/** The source is left in the same moment as the result. */
const leavesSource = (shape: Shape) =>
  on(async (run) => {
    let isLeft = false;
    const source = new Observable<number>((subscriber) => {
      subscriber.next(1);
      return () => (isLeft = true);
    });
    run.start(shape, source);
    await run.pass(5);
    expect(isLeft).toBe(false);
    run.leave();
    expect(isLeft).toBe(true);
  });

/** What two have in common that keep things while their consumer is busy. */
const paced = (operator: 'backpressure' | 'conflateWhileBusy') => {
  const shape = shapes[operator];
  const { ready } = shape.holding;
  return {
    complete: cell('hands on what waits as the consumer gets ready, then completes', completes(shape)),
    sourceError: cell('drops what waits, then errors (`onSourceError`)', errors(shape)),
    leave: cell('drops what waits', leaves(shape)),
    reenter: cell('waits its turn', reenters(shape)),
    badNumber: refused(operator),
    emptyKey: noLanes,
    stuck: cell(
      'a consumer that is never ready: what waits stays, under its bound',
      on(async (run) => {
        run.start(shape, concat(of(1, 2, 3), NEVER), { ready });
        await run.pass();
        expect([run.out, run.ends]).toEqual([[], []]);
        run.leave();
      }),
    ),
    inversion: noPriorities,
    aborted: noWork,
    timers: nothingLeft(shape),
  } as const;
};

/** What two have in common that are read. */
const read = (operator: 'toAsyncIterable' | 'toReadableStream') => {
  const shape = shapes[operator];
  return {
    complete: cell('ends after the values that wait', completes(shape)),
    sourceError: cell('errors with the same error, after the values that wait', errors(shape, [1, 2, 3])),
    leave: cell('the source is left in the same moment', leavesSource(shape)),
    reenter: cell('waits to be read', reenters(shape)),
    million: cell('waits under `maxQueued` and `overflow`', async () => {
      await takesMillion(shape, { maxQueued: Infinity })();
      await on(async (run) => {
        run.start(shape, range(1, MILLION), { maxQueued: 10 });
        await run.pass();
        // One has gone to the read that was waiting.
        expect([run.out.length, ...run.ends]).toMatchObject([11, { code: 'FLOW_OVERFLOW', limit: 10 }]);
      })();
    }),
    badNumber: refused(operator),
    infinity: cell('no limit', unlimited(shape, { maxQueued: Infinity })),
    oversize: noWeights,
    callback: na('it has no callback but `onEvent`, whose throws are ignored everywhere'),
    emptyKey: noLanes,
    stuck: cell('a read waits until it is left', leavesSource(shape)),
    inversion: noPriorities,
    aborted: noWork,
    timers: nothingLeft(shape),
  } as const;
};

const noOptions = na('none of its options is a number');
const onlyOnEvent = na('it has no callback');

/** What two have in common that change the kind of Observable. */
const native = (shape: Shape): Cells => ({
  complete: cell('completes', completes(shape)),
  sourceError: cell('errors with the same error', errors(shape, [1, 2, 3])),
  leave: cell('the source is left in the same moment', leavesSource(shape)),
  reenter: na('it keeps nothing: every value goes on in the moment it comes'),
  million: cell('passed on one by one', takesMillion(shape)),
  badNumber: noOptions,
  infinity: noOptions,
  ...plain,
  callback: onlyOnEvent,
  stuck: cell('stays open until it is left', leavesSource(shape)),
  timers: nothingLeft(shape),
});

export const matrix: Readonly<Record<string, Cells>> = {
  adaptiveLimit: {
    complete: noSource,
    sourceError: noSource,
    leave: cell(
      'stops listening; the limit stays where it is',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 10, scheduler: run.clock });
        const adapting = adaptiveLimit(limiter);
        adapting.unsubscribe();
        limiter.tryAcquire()?.release('error', Object.assign(new Error(), { status: 429 }));
        expect(limiter.concurrency).toBe(4);
        await run.pass(0);
      }),
    ),
    reenter: noSource,
    million: cell('nothing is kept of a call', takesMillion(shapes.adaptiveLimit)),
    badNumber: refused('adaptiveLimit'),
    infinity: cell('`max`: the limit may grow without end', unlimited(shapes.adaptiveLimit, { max: Infinity })),
    oversize: noWeights,
    callback: cell(
      'leaves the limit as it is, and is reported as RxJS reports what an observer throws',
      on(async (run) => {
        const reported: unknown[] = [];
        const before = config.onUnhandledError;
        config.onUnhandledError = (error) => reported.push(error);
        try {
          const limiter = createLimiter({ scheduler: run.clock });
          const adapting = adaptiveLimit(limiter, { classify: () => broken(1) });
          limiter.tryAcquire()?.release('error', new Error('busy'));
          await new Promise((done) => setTimeout(done, 5));
          expect([limiter.concurrency, reported]).toMatchObject([4, [{ code: 'FLOW_CALLBACK' }]]);
          adapting.unsubscribe();
        } finally {
          config.onUnhandledError = before;
        }
      }),
    ),
    emptyKey: noLanes,
    stuck: cell('a call that never ends says nothing, until its time limit does', leaves(shapes.adaptiveLimit)),
    inversion: noPriorities,
    aborted: cell(
      'says nothing',
      on(async (run) => {
        const limiter = createLimiter({ scheduler: run.clock });
        const adapting = adaptiveLimit(limiter);
        limiter
          .run(() => NEVER)
          .subscribe()
          .unsubscribe();
        await run.pass(0);
        expect(limiter.concurrency).toBe(4);
        adapting.unsubscribe();
      }),
    ),
    timers: nothingLeft(shapes.adaptiveLimit),
  },
  backpressure: {
    ...paced('backpressure'),
    million: cell('waits under `maxQueued` and `overflow`', async () => {
      await overflows(shapes.backpressure, 1000)();
      await takesMillion(shapes.backpressure)();
    }),
    infinity: cell('no limit', unlimited(shapes.backpressure, { maxQueued: Infinity, maxWeight: Infinity })),
    oversize: cell('dropped, or errors the stream (`overflow`)', async () => {
      const busy = { ...shapes.backpressure.holding, weigh, maxWeight: 2 };
      await gives(shapes.backpressure, { ...busy, weigh: () => 3 }, [], ['ItemTooHeavyError'])();
    }),
    callback: cell(
      'errors the stream',
      gives(shapes.backpressure, { ...shapes.backpressure.holding, weigh: broken }, [], ['CallbackError']),
    ),
  },
  coalesce: {
    ...plain,
    complete: cell('emits what waits, then completes', completes(shapes.coalesce)),
    sourceError: cell('emits what waits, then errors (`onSourceError`)', async () => {
      await errors(shapes.coalesce, [1, 2, 3])();
      await errors(shapes.coalesce, [], { onSourceError: 'abort' })();
    }),
    leave: cell('drops what waits; nothing is emitted', leaves(shapes.coalesce)),
    reenter: cell('merged into what goes next', reenters(shapes.coalesce, { maxSize: 1 })),
    million: cell('a flat loop: at most `maxSize` in one', takesMillion(shapes.coalesce, { maxSize: 100 })),
    badNumber: refused('coalesce'),
    infinity: cell('no limit', unlimited(shapes.coalesce, { maxWaitMs: Infinity, maxSize: Infinity })),
    oversize: noWeights,
    callback: cell('errors the stream, after what waits', gives(shapes.coalesce, { compatible: broken }, [1], ['CallbackError'])),
    stuck: cell(
      'a source that says nothing more: what waits goes at `maxWaitMs`',
      on(async (run) => {
        run.start(shapes.coalesce, concat(of(1, 2), NEVER), { maxWaitMs: 20 });
        await run.pass(20);
        expect([run.out, run.ends]).toEqual([[1, 2], []]);
        run.leave();
      }),
    ),
    timers: nothingLeft(shapes.coalesce),
  },
  conflateWhileBusy: {
    ...paced('conflateWhileBusy'),
    million: cell(
      'one aggregate, however many',
      on(async (run) => {
        let most = 0;
        const ready = concat(of(false), timer(10, run.clock).pipe(map(() => true)));
        range(1, MILLION)
          .pipe(conflateWhileBusy({ ready, seed: () => 1, merge: (count: number) => count + 1 }))
          .subscribe((count) => (most = count));
        await run.pass();
        expect(most).toBe(MILLION);
      }),
    ),
    infinity: cell('no limit', unlimited(shapes.conflateWhileBusy, { maxWeight: Infinity })),
    oversize: cell('dropped, or errors the stream (`overflow`)', async () => {
      await gives(
        shapes.conflateWhileBusy,
        { ...shapes.conflateWhileBusy.holding, weigh: () => 3, maxWeight: 2 },
        [],
        ['ItemTooHeavyError'],
      )();
    }),
    callback: cell('errors the stream', gives(shapes.conflateWhileBusy, { seed: broken }, [], ['CallbackError'])),
  },
  createIntake: {
    ...plain,
    complete: cell('`drain` waits until every item inside was taken', completes(shapes.createIntake)),
    sourceError: noSource,
    leave: cell(
      'the reader is gone, the intake stays; an offer whose signal aborts is withdrawn',
      on(async (run) => {
        const intake = createIntake<number>({ maxQueued: 1, scheduler: run.clock });
        expect(await intake.offer(1)).toBe(true);
        const leaving = new AbortController();
        const reason = intake.offer(2, { signal: leaving.signal }).catch((error: unknown) => error);
        leaving.abort();
        expect(await reason).toMatchObject({ name: 'AbortError' });
        expect(intake.snapshot()).toEqual({ queued: 1, waiting: 0 });
        intake.close();
      }),
    ),
    reenter: cell('waits to be let in', reenters(shapes.createIntake)),
    million: cell(
      'producers wait: `maxQueued` inside, 10,000 before the door',
      on(async (run) => {
        const intake = createIntake<number>({ scheduler: run.clock });
        let refusals = 0;
        for (let item = 0; item < 20_000; item++) intake.offer(item).catch(() => refusals++);
        await run.pass(0);
        expect([intake.snapshot(), refusals]).toEqual([{ queued: 16, waiting: 10_000 }, 20_000 - 10_016]);
        intake.close();
      }),
    ),
    badNumber: refused('createIntake'),
    infinity: cell('no limit', unlimited(shapes.createIntake, { maxQueued: Infinity })),
    callback: cell(
      'a `by` that throws rejects that offer',
      on(async () => {
        const intake = createIntake<number>({ queue: lanes(LANES, { by: broken }) });
        const reason = await Promise.resolve()
          .then(() => intake.offer(1))
          .catch((error: unknown) => error);
        expect(reason).toMatchObject({ code: 'FLOW_CALLBACK' });
        intake.close();
      }),
    ),
    emptyKey: cell(
      'an empty lane is passed over',
      on(async () => {
        const intake = createIntake<number>({ queue: lanes(LANES, { by: () => 'low' }) });
        expect(await intake.offer(1)).toBe(true);
        intake.close();
      }),
    ),
    stuck: cell(
      'a reader that reads no more: `drain` gives up after its `timeoutMs`',
      on(async (run) => {
        const intake = createIntake<number>({ scheduler: run.clock });
        await intake.offer(1);
        const drained = intake.drain({ timeoutMs: 100 });
        await run.pass();
        expect(await drained).toEqual({ done: 0, aborted: 0, dropped: 1 });
      }),
    ),
    inversion: cell(
      'the urgent producer is let in first',
      on(async () => {
        const intake = createIntake<number>({ maxQueued: 1, queue: lanes(LANES) });
        const order: string[] = [];
        await intake.offer(0, { lane: 'low' });
        const offers = ['low', 'urgent'].map((lane) => intake.offer(1, { lane }).then(() => order.push(lane)));
        const reader = intake[Symbol.asyncIterator]();
        for (let i = 0; i < 3; i++) await reader.next();
        await Promise.all(offers);
        expect(order).toEqual(['urgent', 'low']);
        intake.close();
      }),
    ),
    aborted: na('an item that was withdrawn is not in; whether to offer it again is for its producer'),
    timers: cell('no timer, listener or subscription is left', completes(shapes.createIntake)),
  },
  fromNative: native(shapes.fromNative),
  fromSubscribable: {
    ...native(shapes.fromSubscribable),
    callback: cell(
      'a throw of the factory errors the result, as the same object',
      on(async (run) => {
        const errors: unknown[] = [];
        const factory = (): never => {
          throw fault;
        };
        fromSubscribable(factory).subscribe({ error: (error: unknown) => errors.push(error) });
        await run.pass(0);
        expect(errors).toEqual([fault]);
      }),
    ),
  },
  resequence: {
    ...plain,
    complete: cell('emits what waits if it may skip the missing, then completes', async () => {
      await completes(shapes.resequence)();
      await gives(shapes.resequence, { sequence: ofItself, onGap: 'skip' }, [1, 2, 3], ['complete'])();
      await gives(shapes.resequence, { sequence: ofItself }, [], ['SequenceError'])();
    }),
    sourceError: cell('drops what waits, then errors (`onSourceError`)', async () => {
      await errors(shapes.resequence, [], { sequence: ofItself })();
      await errors(shapes.resequence, [1, 2, 3], { sequence: ofItself, onSourceError: 'flush' })();
    }),
    leave: cell('drops what waits', leaves(shapes.resequence, { sequence: ofItself, maxWaitMs: 50 })),
    reenter: cell('waits its turn', reenters(shapes.resequence)),
    million: cell('passed on in order; behind a gap at most `maxQueued` wait', async () => {
      await takesMillion(shapes.resequence)();
      await gives(shapes.resequence, { sequence: ofItself, maxQueued: 2 }, [], ['SequenceError'])();
    }),
    badNumber: refused('resequence'),
    infinity: cell('no limit', unlimited(shapes.resequence, { maxQueued: Infinity, maxWaitMs: Infinity })),
    callback: cell('errors the stream', gives(shapes.resequence, { sequence: broken }, [], ['CallbackError'])),
    stuck: cell(
      'a number that never comes: given up after `maxWaitMs`',
      on(async (run) => {
        run.start(shapes.resequence, concat(of(1, 2), NEVER), { sequence: ofItself, maxWaitMs: 50, onGap: 'skip' });
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1, 2], []]);
        run.leave();
      }),
    ),
    timers: nothingLeft(shapes.resequence),
  },
  toAsyncIterable: read('toAsyncIterable'),
  toNative: native(shapes.toNative),
  toReadableStream: read('toReadableStream'),
  toStore: {
    ...plain,
    complete: cell(
      'the last snapshot stays',
      on(async (run) => {
        run.start(shapes.toStore, of(1, 2, 3));
        await run.pass();
        expect(run.out.at(-1)).toBe(3);
        run.leave();
      }),
    ),
    sourceError: cell(
      '`status` is `failed` and `error` the same error; the snapshot stays',
      on(async (run) => {
        const failing = throwError(() => fault);
        const store = toStore(failing, 0, { scheduler: run.clock });
        const leave = store.subscribe(() => undefined);
        await run.pass();
        expect([store.status, store.error, store.getSnapshot()]).toEqual(['failed', fault, 0]);
        leave();
      }),
    ),
    leave: cell('the source is left with the last listener', leavesSource(shapes.toStore)),
    reenter: cell(
      'shown after all listeners were called',
      on(async (run) => {
        const source = new Subject<number>();
        run.start(shapes.toStore, source, {}, echo, (item) => {
          if (item < 3000) source.next(item + 1);
        });
        source.next(1);
        for (let i = 0; i < 3000 && run.out.at(-1) !== 3000; i++) await run.pass(1);
        expect(run.out.at(-1)).toBe(3000);
        run.leave();
      }),
    ),
    million: cell(
      'the newest is shown',
      on(async (run) => {
        run.start(shapes.toStore, range(1, MILLION));
        await run.pass();
        expect(run.out.at(-1)).toBe(MILLION);
        run.leave();
      }),
    ),
    badNumber: refused('toStore'),
    infinity: cell(
      '`maxWaitMs`: only what waits at the end of the source',
      on(async (run) => {
        run.start(shapes.toStore, of(1, 2), { maxWaitMs: Infinity });
        await run.pass();
        expect([run.out.at(-1), run.clock.delays.filter((ms) => ms > 2_147_483_647)]).toEqual([2, []]);
        run.leave();
      }),
    ),
    callback: na('its only callbacks are those of `select`'),
    stuck: cell('the snapshot stays as it is', leavesSource(shapes.toStore)),
    timers: cell('no timer, listener or subscription is left', leavesSource(shapes.toStore)),
  },
  batch: {
    complete: cell('emits the open batch, then completes', completes(shapes.batch)),
    sourceError: cell('emits the open batch, then errors (`onSourceError`)', async () => {
      await errors(shapes.batch, [1, 2, 3])();
      await errors(shapes.batch, [], { onSourceError: 'abort' })();
    }),
    leave: cell('drops the open batch; nothing is emitted', leaves(shapes.batch)),
    reenter: cell('goes into the next batch', reenters(shapes.batch, { maxSize: 1 })),
    million: cell('a flat loop: batches of `maxSize`', takesMillion(shapes.batch)),
    badNumber: refused('batch'),
    infinity: cell('no limit', unlimited(shapes.batch, { ...INFINITE, maxWaitMs: Infinity })),
    oversize: cell('goes alone', gives(shapes.batch, { weigh, maxWeight: 2 }, [1, 2, 3], ['complete'])),
    callback: cell(
      'errors the stream, after the open batch',
      gives(shapes.batch, { weigh: (item: number) => (item === 3 ? broken(item) : 1) }, [1, 2], ['CallbackError']),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'a source that says nothing more: the open batch goes at `maxWaitMs`',
      on(async (run) => {
        run.start(shapes.batch, concat(of(1, 2), NEVER), { maxWaitMs: 20 });
        await run.pass(20);
        expect([run.out, run.ends]).toEqual([[1, 2], []]);
        run.leave();
      }),
    ),
    inversion: noPriorities,
    aborted: noWork,
    timers: nothingLeft(shapes.batch),
  },
  batchMap: {
    ...gated('batchMap'),
    complete: cell('settles what was accepted, then completes', completes(shapes.batchMap)),
    sourceError: cell('aborts everything, then errors (`onSourceError`)', async () => {
      await errors(shapes.batchMap)();
      await on(async (run) => {
        run.start(
          shapes.batchMap,
          concat(
            of(1, 2),
            throwError(() => fault),
          ),
          { onSourceError: 'drain' },
          run.late,
        );
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1, 2], [fault]]);
      })();
    }),
    leave: cell('aborts every call, drops what waits', leaves(shapes.batchMap)),
    reenter: cell('waits for the next batch', reenters(shapes.batchMap, { maxSize: 1 })),
    million: cell('waits under `maxQueued` and `overflow`; without a bound all of it goes', async () => {
      await overflows({ ...shapes.batchMap, holding: { maxQueued: 1000 } }, 1000)();
      await takesMillion(shapes.batchMap, { maxQueued: Infinity, maxSize: 1000 })();
    }),
    inversion: cell(
      'the urgent lane leads the next batch, others keep their floor; what comes back stands first in its own lane only',
      async () => {
        await on(async (run) => {
          const calls: number[][] = [];
          const source = new Subject<number>();
          const work = (items: readonly number[]) => {
            calls.push([...items]);
            return timer(10, run.clock).pipe(map(() => items));
          };
          const options = { queue: lanes(LANES, { by: laneOf }), concurrency: 1, maxSize: 1, scheduler: run.clock };
          const subscription = source.pipe(batchMap(work, options)).subscribe();
          for (const item of [10, 11, 12, 1]) source.next(item);
          await run.pass();
          expect(calls).toEqual([[10], [1], [11], [12]]);
          subscription.unsubscribe();
        })();
      },
    ),
    aborted: neverRepeated(shapes.batchMap, 3),
    timers: nothingLeft(shapes.batchMap),
  },
  batchMapFrom: {
    ...gated('batchMapFrom'),
    complete: cell('settles what was pulled, then completes', completes(shapes.batchMapFrom)),
    sourceError: cell('aborts everything, then errors (`onSourceError`)', errors(shapes.batchMapFrom)),
    leave: cell('aborts every call, drops what waits, and closes the input', leaves(shapes.batchMapFrom)),
    reenter: na('it pulls, so no item can be sent into it'),
    million: cell('pulled while there is room, never more than `maxQueued` ahead', async () => {
      await takesMillion(shapes.batchMapFrom, { maxSize: 1000, maxQueued: 4000 })();
    }),
    inversion: cell(
      'the urgent lane leads the next batch of what was pulled',
      on(async (run) => {
        run.start(shapes.batchMapFrom, of(10, 11, 12, 1), { queue: lanes(LANES, { by: laneOf }), concurrency: 1, maxSize: 1 }, run.late);
        await run.pass();
        expect(run.out).toEqual([10, 1, 11, 12]);
      }),
    ),
    aborted: neverRepeated(shapes.batchMapFrom, 3),
    timers: nothingLeft(shapes.batchMapFrom),
  },
  bulkheadMap: {
    complete: cell('settles what was accepted, then completes', completes(shapes.bulkheadMap)),
    sourceError: cell('aborts everything, then errors (`onSourceError`)', async () => {
      await errors(shapes.bulkheadMap)();
      await on(async (run) => {
        run.start(
          shapes.bulkheadMap,
          concat(
            of(1, 2),
            throwError(() => fault),
          ),
          { onSourceError: 'drain' },
          run.late,
        );
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1, 2], [fault]]);
      })();
    }),
    leave: cell('aborts every call, drops what waits', leaves(shapes.bulkheadMap)),
    reenter: cell('waits its turn', reenters(shapes.bulkheadMap)),
    million: cell('a flat loop; what cannot start waits under `maxQueued` and `overflow`', async () => {
      await takesMillion(shapes.bulkheadMap)();
      await on(async (run) => {
        run.start(shapes.bulkheadMap, range(1, 2000), { maxQueued: 100, concurrency: 1 }, never);
        await run.pass(1);
        expect(run.ends).toMatchObject([{ code: 'FLOW_OVERFLOW', limit: 100 }]);
      })();
    }),
    badNumber: refused('bulkheadMap'),
    infinity: cell('no limit', unlimited(shapes.bulkheadMap, { concurrency: Infinity, maxQueued: Infinity, timeoutMs: Infinity })),
    oversize: noWeights,
    stuck: cell(
      'keeps its slot until `timeoutMs`, then rejects',
      gives(shapes.bulkheadMap, { concurrency: 1, timeoutMs: 100 }, [2, 3], ['AttemptTimeoutError', 'complete'], firstHangs()),
    ),
    aborted: neverRepeated(shapes.bulkheadMap, 3),
    timers: nothingLeft(shapes.bulkheadMap),
    callback: cell(
      'rejects that item; the others go on',
      gives(shapes.bulkheadMap, { key: (item: number) => (item === 2 ? broken(item) : 1) }, [1, 3], ['CallbackError', 'complete']),
    ),
    emptyKey: cell(
      'forgotten with its last item',
      on(async (run) => {
        run.start(shapes.bulkheadMap, range(1, 1000), { key: (item: number) => item, maxKeys: 1, concurrency: 1 });
        await run.pass();
        expect([run.out.length, run.ends]).toEqual([1000, ['complete']]);
      }),
    ),
    inversion: cell(
      'keys go in turn: an urgent one of its own waits for no more than one item of each other key',
      on(async (run) => {
        const key = (item: number) => (item < 10 ? 'urgent' : 'bulk');
        run.start(shapes.bulkheadMap, of(10, 11, 12, 1), { concurrency: 1, key }, run.late);
        await run.pass();
        expect(run.out).toEqual([10, 11, 1, 12]);
      }),
    ),
  },
  createBatcher: {
    ...gated('createBatcher'),
    complete: cell('`drain` waits until every load has settled', completes(shapes.createBatcher)),
    sourceError: noSource,
    leave: cell('that load leaves; a call is aborted when all its loads have left', leaves(shapes.createBatcher)),
    reenter: cell('waits for the next batch', reenters(shapes.createBatcher, { maxSize: 1 })),
    million: cell('waits under `maxQueued` and `overflow`; a load too many rejects', async () => {
      await overflows({ ...shapes.createBatcher, holding: { maxQueued: 1000 } }, 1000)();
      await takesMillion(shapes.createBatcher, { maxQueued: Infinity, maxSize: 1000 })();
    }),
    inversion: cell(
      'the urgent lane leads the next batch',
      on(async (run) => {
        run.start(shapes.createBatcher, of(10, 11, 12, 1), { queue: lanes(LANES, { by: laneOf }), concurrency: 1, maxSize: 1 }, run.late);
        await run.pass();
        expect(run.out).toEqual([10, 1, 11, 12]);
      }),
    ),
    aborted: neverRepeated(shapes.createBatcher, 3),
    timers: nothingLeft(shapes.createBatcher),
  },
  createLimiter: {
    complete: noSource,
    sourceError: noSource,
    leave: cell(
      'a waiting job leaves and costs nothing; work is aborted and its lease given back',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 6000)], scheduler: run.clock });
        const before = limiter.snapshot().tokens;
        const lease = limiter.tryAcquire()!;
        const waiting = limiter.acquire({ cost: { tokens: 50 } }).subscribe();
        expect(limiter.snapshot().queued).toBe(1);
        waiting.unsubscribe();
        expect(limiter.snapshot()).toMatchObject({ queued: 0, executing: 1, tokens: before });
        lease.release();
        await leaves(shapes.createLimiter)();
      }),
    ),
    reenter: cell('waits in its turn: first in, first out', reenters(shapes.createLimiter)),
    million: cell('waits under `maxQueued` and `overflow`; without a bound all of it goes', async () => {
      await overflows({ ...shapes.createLimiter, holding: { maxQueued: 1000 } }, 1000)();
      await takesMillion(shapes.createLimiter)();
    }),
    badNumber: refused('createLimiter'),
    infinity: cell(
      'no limit',
      unlimited(shapes.createLimiter, {
        concurrency: Infinity,
        rates: [perMinute('requests', Infinity), perMinute('tokens', Infinity)],
        maxQueued: Infinity,
        job: { deadlineMs: Infinity },
      }),
    ),
    oversize: cell(
      'a job above what can be saved up goes into debt, or is refused (`slidingWindow`)',
      on((run) => {
        const job = { cost: { tokens: 100_000 } };
        const lender = createLimiter({ rates: [perMinute('tokens', 6000)], scheduler: run.clock });
        lender.tryAcquire(job)?.release();
        expect(lender.snapshot().tokens).toBeLessThan(0);
        const refusals: unknown[] = [];
        createLimiter({ rates: [refusing(perMinute('tokens', 6000))], scheduler: run.clock })
          .acquire(job)
          .subscribe({ error: (error: unknown) => refusals.push(error) });
        expect(refusals).toMatchObject([{ code: 'FLOW_ITEM_TOO_HEAVY' }]);
        lender.close();
        return run.pass();
      }),
    ),
    callback: cell(
      'a throw of the work rejects its caller and gives the lease back',
      gives(shapes.createLimiter, {}, [1, 3], ['Error', 'complete'], (item) => (item === 2 ? broken(item) : of(item))),
    ),
    emptyKey: cell(
      'an empty lane is passed over',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 1, queue: lanes(LANES), scheduler: run.clock });
        const first = limiter.tryAcquire({ lane: 'low' })!;
        const granted: string[] = [];
        limiter.acquire({ lane: 'low' }).subscribe(() => granted.push('low'));
        first.release();
        await run.pass();
        expect(granted).toEqual(['low']);
      }),
    ),
    stuck: cell(
      'keeps its slot until it is released; the others wait, at most `deadlineMs`',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 1, scheduler: run.clock });
        const lease = limiter.tryAcquire()!;
        const ends: unknown[] = [];
        limiter.acquire({ deadlineMs: 100 }).subscribe({ error: (error: unknown) => ends.push(error) });
        await run.pass();
        expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE' }]);
        expect(limiter.snapshot().executing).toBe(1);
        lease.release();
      }),
    ),
    inversion: cell(
      'one queue for slots and rates: the urgent lane is granted first',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 1, queue: lanes(LANES), scheduler: run.clock });
        const lease = limiter.tryAcquire({ lane: 'low' })!;
        const granted: string[] = [];
        for (const lane of ['low', 'urgent']) {
          limiter.acquire({ lane }).subscribe((next) => {
            granted.push(lane);
            next.release();
          });
        }
        lease.release();
        await run.pass();
        expect(granted).toEqual(['urgent', 'low']);
      }),
    ),
    aborted: cell(
      'never charged: the tokens are where they were',
      on(async (run) => {
        const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 6000)], scheduler: run.clock });
        const lease = limiter.tryAcquire()!;
        const { tokens } = limiter.snapshot();
        const leaving = new AbortController();
        const reasons: unknown[] = [];
        limiter.acquire({ cost: { tokens: 50 }, signal: leaving.signal }).subscribe({ error: (error: unknown) => reasons.push(error) });
        leaving.abort();
        expect(reasons).toMatchObject([{ name: 'AbortError' }]);
        expect(limiter.snapshot()).toMatchObject({ tokens, queued: 0 });
        lease.release();
        await run.pass();
      }),
    ),
    timers: nothingLeft(shapes.createLimiter),
  },
  fromStream: {
    complete: cell('completes', gives(shapes.fromStream, {}, [1, 2, 3], ['complete'])),
    sourceError: cell(
      'errors with the same error',
      on(async (run) => {
        run.start(
          shapes.fromStream,
          concat(
            of(1, 2, 3),
            throwError(() => fault),
          ),
        );
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1, 2, 3], [fault]]);
      }),
    ),
    leave: cell('its signal aborts, the stream is closed without waiting', leaves(shapes.fromStream)),
    reenter: na('it pulls; what the consumer puts into the stream is read in its turn'),
    million: cell('read one by one, only when the one before was handed on', takesMillion(shapes.fromStream)),
    badNumber: na('it has no options'),
    infinity: na('it has no options'),
    oversize: noWeights,
    callback: cell(
      'a throw of the factory errors the result',
      on(async (run) => {
        run.start(shapes.fromStream, of(1), {}, broken);
        await run.pass(0);
        expect(reasonsOf(run)).toEqual(['Error']);
      }),
    ),
    emptyKey: noLanes,
    stuck: cell('stays open until it is left, and is then left at once', leaves(shapes.fromStream)),
    inversion: noPriorities,
    aborted: noWork,
    timers: cell('no timer, listener or subscription is left', async () => {
      await gives(shapes.fromStream, {}, [1, 2, 3], ['complete'])();
      await leaves(shapes.fromStream)();
    }),
  },
  hedge: {
    complete: cell('the first attempt that ends completes the result; the others are aborted', completes(shapes.hedge, [1])),
    sourceError: noSource,
    leave: cell('aborts every attempt', leaves(shapes.hedge)),
    reenter: noSource,
    million: na('it makes one call'),
    badNumber: refused('hedge'),
    infinity: cell(
      '`delayMs`: a hedge only after a failure',
      on(async (run) => {
        run.start(shapes.hedge, of(1), { delayMs: Infinity }, never);
        await run.pass();
        expect([run.calls, run.clock.delays]).toEqual([1, []]);
        run.leave();
      }),
    ),
    oversize: noWeights,
    callback: cell(
      'a throw of the attempt is a failed attempt: the next one starts',
      on(async (run) => {
        let calls = 0;
        run.start(shapes.hedge, of(1), {}, (item) => (calls++ === 0 ? broken(item) : of(item)));
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1], ['complete']]);
      }),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'another attempt starts after `delayMs`, `maxAttempts` at most',
      on(async (run) => {
        run.start(shapes.hedge, of(1), { delayMs: 100 }, firstHangs());
        await run.pass();
        expect([run.calls, run.out, run.ends]).toEqual([2, [1], ['complete']]);
      }),
    ),
    inversion: noPriorities,
    aborted: cell(
      'never made again',
      on(async (run) => {
        run.start(shapes.hedge, of(1), { delayMs: 100 }, never);
        await run.pass(50);
        run.leave();
        await run.pass();
        expect(run.calls).toBe(1);
      }),
    ),
    timers: cell('no timer, listener or subscription is left', async () => {
      await completes(shapes.hedge, [1])();
      await leaves(shapes.hedge)();
    }),
  },
  createBreaker: {
    complete: noSource,
    sourceError: noSource,
    leave: cell('aborts the call, which counts neither way; a probe gives its place back', async () => {
      await leaves(shapes.createBreaker)();
      await on(async (run) => {
        const breaker = createBreaker({ opens: { minCalls: 1 }, scheduler: run.clock });
        breaker.run(() => throwError(() => busy)).subscribe({ error: () => undefined });
        await run.pass();
        const probe = breaker.run(() => NEVER).subscribe();
        expect(breaker.snapshot()).toMatchObject({ state: 'halfOpen', probing: 1 });
        probe.unsubscribe();
        expect(breaker.snapshot().probing).toBe(0);
      })();
    }),
    reenter: noSource,
    million: cell('nothing is kept of a call', takesMillion(shapes.createBreaker)),
    badNumber: refused('createBreaker'),
    infinity: cell(
      '`minCalls`: it never opens by itself; `windowMs`: it never forgets; `openMs`: it stays open',
      unlimited(shapes.createBreaker, {
        opens: { minCalls: Infinity, windowMs: Infinity },
        openMs: Infinity,
      }),
    ),
    oversize: noWeights,
    callback: cell(
      'a `classify` that throws: the error comes through, and counts neither way',
      on((run) => {
        const ends: unknown[] = [];
        const breaker = createBreaker({ opens: { minCalls: 1 }, classify: () => broken(1), scheduler: run.clock });
        breaker.run(() => throwError(() => busy)).subscribe({ error: (error: unknown) => ends.push(error) });
        expect([ends, breaker.snapshot().calls]).toEqual([[busy], 0]);
        return run.pass();
      }),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'a probe that is silent for as long as the circuit was open is not waited for: the next call may try',
      on(async (run) => {
        const breaker = createBreaker({ opens: { minCalls: 1 }, scheduler: run.clock });
        breaker.run(() => throwError(() => busy)).subscribe({ error: () => undefined });
        await run.pass(5_000);
        const probe = breaker.run(() => NEVER).subscribe();
        await run.pass(5_000);
        breaker.run(() => of(1)).subscribe();
        expect(breaker.state).toBe('closed');
        probe.unsubscribe();
      }),
    ),
    inversion: noPriorities,
    aborted: neverRepeated(shapes.createBreaker, 3),
    timers: nothingLeft(shapes.createBreaker),
  },
  policy: {
    complete: cell('completes with its work', completes(shapes.policy, [1])),
    sourceError: noSource,
    leave: cell('aborts the attempt, or ends the wait or the pause; the permit is given back', leaves(shapes.policy)),
    reenter: noSource,
    million: na('it makes one call'),
    badNumber: refused('policy'),
    infinity: cell(
      'no limit',
      unlimited(
        shapes.policy,
        { deadlineMs: Infinity, timeoutMs: Infinity, retry: retryFailed({ maxAttempts: Infinity, maxMs: Infinity, maxShare: Infinity }) },
        [1],
      ),
    ),
    oversize: noWeights,
    callback: cell(
      'a throw of the work is a failed attempt; a `random` that throws errors the call',
      on(async (run) => {
        let calls = 0;
        run.start(shapes.policy, of(1), {}, (item) => {
          if (calls++ === 0) throw busy;
          return of(item);
        });
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1], ['complete']]);
        const ends: unknown[] = [];
        policy({ retry: retryFailed(), random: () => broken(1), scheduler: run.clock })(() => throwError(() => busy)).subscribe({
          error: (error: unknown) => ends.push(error),
        });
        expect(ends).toMatchObject([{ code: 'FLOW_CALLBACK' }]);
      }),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'the attempt ends at `timeoutMs`, and is made again when it may be; everything ends at `deadlineMs`',
      on(async (run) => {
        run.start(shapes.policy, of(1), { timeoutMs: 100 }, firstHangs());
        await run.pass();
        expect([run.calls, run.out, run.ends]).toEqual([2, [1], ['complete']]);
        const ends: unknown[] = [];
        policy({ deadlineMs: 100, scheduler: run.clock })(() => NEVER).subscribe({ error: (error: unknown) => ends.push(error) });
        await run.pass();
        expect(ends).toMatchObject([{ code: 'FLOW_DEADLINE' }]);
      }),
    ),
    inversion: na('waiting is the limiter’s business, with the lane of its `job`'),
    aborted: neverRepeated(shapes.policy, 1),
    timers: cell('no timer, listener or subscription is left', async () => {
      await completes(shapes.policy, [1])();
      await leaves(shapes.policy)();
    }),
  },
  mergeLanes: {
    complete: cell('emits what waits when all lanes are done, then completes', completes(shapes.mergeLanes)),
    sourceError: cell('emits what waits, then errors (`onSourceError`, `errors`)', async () => {
      await errors(shapes.mergeLanes, [1, 2, 3])();
      await errors(shapes.mergeLanes, [], { onSourceError: 'abort' })();
    }),
    leave: cell('drops what waits; nothing is emitted', leaves(shapes.mergeLanes)),
    reenter: cell('goes into a later batch', reenters(shapes.mergeLanes, { maxSize: 1 })),
    million: cell('a flat loop: batches of `maxSize`, a bound for every lane', takesMillion(shapes.mergeLanes)),
    badNumber: refused('mergeLanes'),
    infinity: cell('no limit', unlimited(shapes.mergeLanes, { ...INFINITE, maxQueued: Infinity })),
    oversize: cell('goes alone', gives(shapes.mergeLanes, { weigh, maxWeight: 2 }, [1, 2, 3], ['complete'])),
    callback: cell(
      'errors the stream, after what waits',
      gives(shapes.mergeLanes, { weigh: (item: number) => (item === 3 ? broken(item) : 1) }, [1, 2], ['CallbackError']),
    ),
    emptyKey: cell('passed over', gives(shapes.mergeLanes, {}, [1, 2, 3], ['complete'])),
    stuck: cell(
      'the output stays open, and batches go on',
      on(async (run) => {
        run.start(
          {
            run: (input) =>
              mergeLanes(
                [
                  { name: 'stuck', source: NEVER },
                  { name: 'own', source: input },
                ],
                { scheduler: run.clock },
              ).pipe(map(({ items }) => items)),
          },
          of(1, 2),
        );
        await run.pass();
        expect([run.out, run.ends]).toEqual([[1, 2], []]);
        run.leave();
      }),
    ),
    inversion: cell(
      'the urgent lane leads a full batch, others ride along with their floor',
      on(async (run) => {
        const batches: number[][] = [];
        mergeLanes(
          [
            { name: 'urgent', source: of(1, 2) },
            { name: 'low', source: of(10, 11, 12) },
          ],
          { maxSize: 4, scheduler: run.clock },
        ).subscribe(({ items }) => batches.push([...items]));
        await run.pass();
        expect(batches[0]?.slice(0, 2)).toEqual([1, 2]);
        expect(batches.flat().toSorted((a, b) => a - b)).toEqual([1, 2, 10, 11, 12]);
      }),
    ),
    aborted: noWork,
    timers: nothingLeft(shapes.mergeLanes),
  },
  rateLimit: {
    complete: cell('hands on what waits as the limiter admits it, then completes', completes(shapes.rateLimit)),
    sourceError: cell('drops what waits, then errors (`onSourceError`)', errors(shapes.rateLimit)),
    leave: cell('drops what waits, and costs nothing', leaves(shapes.rateLimit)),
    reenter: cell('waits its turn', reenters(shapes.rateLimit)),
    million: cell('a flat loop; what is not admitted waits under `maxQueued` and `overflow`', async () => {
      await takesMillion(shapes.rateLimit)();
      await overflows(shapes.rateLimit, 1000)();
    }),
    badNumber: refused('rateLimit'),
    infinity: cell('no limit', unlimited(shapes.rateLimit, { maxQueued: Infinity })),
    oversize: cell(
      'goes into debt, or errors the stream (`slidingWindow`)',
      on(async (run) => {
        const ends: unknown[] = [];
        for (const rate of [perMinute('tokens', 600), refusing(perMinute('tokens', 600))])
          of(1)
            .pipe(rateLimit(createLimiter({ rates: [rate], scheduler: run.clock }), { tokens: 1000 }))
            .subscribe({ error: (error: unknown) => ends.push(error), complete: () => ends.push('complete') });
        await run.pass();
        expect(ends).toMatchObject(['complete', { code: 'FLOW_ITEM_TOO_HEAVY' }]);
      }),
    ),
    callback: cell(
      'errors the stream',
      on(async (run) => {
        const ends: unknown[] = [];
        of(1)
          .pipe(rateLimit(createLimiter({ scheduler: run.clock }), broken))
          .subscribe({ error: (error: unknown) => ends.push(error) });
        await run.pass();
        expect(ends).toMatchObject([{ code: 'FLOW_CALLBACK' }]);
      }),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'a limiter that admits nothing: what waits stays, under its bound',
      on(async (run) => {
        run.start(shapes.rateLimit, of(1, 2, 3), shapes.rateLimit.holding);
        await run.pass();
        expect([run.out, run.ends]).toEqual([[], []]);
        run.leave();
      }),
    ),
    inversion: na('its items stay in order; a lane of the limiter goes before others as a whole'),
    aborted: noWork,
    timers: nothingLeft(shapes.rateLimit),
  },
  settleAll: {
    complete: cell('one list when every call has settled, then completion', completes(shapes.settleAll)),
    sourceError: na('it has a list of calls, and no source'),
    leave: cell('aborts every call; nothing is emitted', leaves(shapes.settleAll)),
    reenter: noSource,
    million: cell('a flat loop, `concurrency` at a time', takesMillion(shapes.settleAll)),
    badNumber: refused('settleAll'),
    infinity: cell('no limit', unlimited(shapes.settleAll, { concurrency: Infinity, deadlineMs: Infinity })),
    oversize: noWeights,
    callback: cell(
      'a `guard` that throws rejects that call; the others go on',
      on(async (run) => {
        run.start(shapes.settleAll, of(1, 2, 3), { guard: (item: number) => (item === 2 ? broken(item) : true) });
        await run.pass();
        expect([run.out, reasonsOf(run)]).toEqual([
          [1, 3],
          ['CallbackError', 'complete'],
        ]);
      }),
    ),
    emptyKey: cell(
      'no calls: an empty list at once',
      on(async (run) => {
        run.start(shapes.settleAll, EMPTY);
        await run.pass(0);
        expect([run.calls, run.ends]).toEqual([0, ['complete']]);
      }),
    ),
    stuck: cell(
      'aborted at `deadlineMs`, and rejected in the list',
      gives(shapes.settleAll, { deadlineMs: 100 }, [2, 3], ['DeadlineError', 'complete'], firstHangs()),
    ),
    inversion: noPriorities,
    aborted: cell(
      "never made again, nor are its siblings (`errors: 'propagate'`)",
      on(async (run) => {
        const calls: number[] = [];
        const ends: unknown[] = [];
        settleAll(
          [1, 2, 3],
          (item) => {
            calls.push(item);
            return item === 2 ? throwError(() => fault) : NEVER;
          },
          { errors: 'propagate', scheduler: run.clock },
        ).subscribe({ error: (error: unknown) => ends.push(error) });
        await run.pass();
        expect([calls, ends]).toEqual([[1, 2], [fault]]);
      }),
    ),
    timers: nothingLeft(shapes.settleAll),
  },
  speculate: {
    complete: cell('completes when `confirm` has and the confirmed calls have ended', completes(shapes.speculate)),
    sourceError: cell('aborts every call, then errors', errors(shapes.speculate)),
    leave: cell('aborts every call, drops what is held', leaves(shapes.speculate)),
    reenter: cell('waits its turn', reenters(shapes.speculate)),
    million: cell('a flat loop', takesMillion(shapes.speculate)),
    badNumber: refused('speculate'),
    infinity: cell('no limit', unlimited(shapes.speculate, { ttlMs: Infinity, concurrency: Infinity, maxQueued: Infinity })),
    oversize: noWeights,
    callback: cell(
      'a throw of `match` errors the result',
      on(async (run) => {
        run.start(shapes.speculate, of(1), { predict: concat(of(1), NEVER), match: broken }, never);
        await run.pass();
        expect(reasonsOf(run)).toEqual(['CallbackError']);
      }),
    ),
    emptyKey: noLanes,
    stuck: cell(
      'a predicted call is given up after `ttlMs`; a confirmed one stays open',
      on(async (run) => {
        run.start(shapes.speculate, NEVER, { predict: concat(of(1), NEVER), ttlMs: 100 }, never);
        await run.pass();
        expect(run.signals.map(({ aborted }) => aborted)).toEqual([true]);
        expect(run.ends).toEqual([]);
        run.leave();
      }),
    ),
    inversion: noPriorities,
    aborted: neverRepeated(shapes.speculate, 3),
    timers: nothingLeft(shapes.speculate),
  },
  switchLatest: {
    complete: cell('completes after the newest call', completes(shapes.switchLatest, [3])),
    sourceError: cell('aborts the call, then errors (`onSourceError`)', errors(shapes.switchLatest)),
    leave: cell('aborts the call', leaves(shapes.switchLatest)),
    reenter: cell('the newest wins, without recursion', reenters(shapes.switchLatest)),
    million: cell(
      'a flat loop; only the last call runs to its end',
      on(async (run) => {
        run.start(shapes.switchLatest, range(1, MILLION));
        await run.pass();
        expect(run.out.length).toBe(MILLION);
        const late: number[] = [];
        range(1, 100_000)
          .pipe(switchLatest((item) => timer(10, run.clock).pipe(map(() => item))))
          .subscribe((item) => late.push(item));
        await run.pass();
        expect(late).toEqual([100_000]);
      }),
    ),
    badNumber: noOptions,
    infinity: noOptions,
    oversize: noWeights,
    callback: cell(
      'errors the stream',
      on(async (run) => {
        run.start(shapes.switchLatest, of(1), { key: broken });
        await run.pass();
        expect(reasonsOf(run)).toEqual(['CallbackError']);
      }),
    ),
    emptyKey: cell(
      'forgotten with its call',
      on(async (run) => {
        run.start(shapes.switchLatest, range(1, 1000), { key: (item: number) => item });
        await run.pass();
        expect([run.out.length, run.ends]).toEqual([1000, ['complete']]);
      }),
    ),
    stuck: cell(
      'replaced by the next item of its key; its signal aborts first',
      on(async (run) => {
        run.start(shapes.switchLatest, concat(of(1, 2), NEVER), {}, firstHangs());
        await run.pass();
        expect([run.out, run.signals[0]?.aborted]).toEqual([[2], true]);
        run.leave();
      }),
    ),
    inversion: noPriorities,
    aborted: neverRepeated(shapes.switchLatest, 3),
    timers: cell('no timer, listener or subscription is left', async () => {
      await completes(shapes.switchLatest, [3])();
      await leaves(shapes.switchLatest)();
    }),
  },
  unwrap: {
    complete: cell("completes; with `'all'` after the one list", completes(shapes.unwrap)),
    sourceError: cell('errors at once with the same error', errors(shapes.unwrap, [1, 2, 3])),
    leave: cell('drops what it holds', leaves(shapes.unwrap)),
    reenter: cell('waits its turn', reenters(shapes.unwrap)),
    million: cell('passed on one by one', takesMillion(shapes.unwrap)),
    badNumber: na('none of its options is a number'),
    infinity: na('none of its options is a number'),
    oversize: noWeights,
    callback: na('it has no callback but `onEvent`, whose throws are ignored everywhere'),
    emptyKey: noLanes,
    stuck: noQueue,
    inversion: noPriorities,
    aborted: noWork,
    timers: nothingLeft(shapes.unwrap),
  },
};
