import fc from 'fast-check';
import type { Observable, SchedulerLike } from 'rxjs';
import { catchError, mergeMap, of, Subject, throwError, timer, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { bulkheadMap, createLimiter, divideAndConquer, perMinute, policy, retryFailed } from '../../operators/index.js';
import type { FlowEvent } from '../../src/index.js';
import { batchMap, batchMapFrom, createBatcher, lanes, switchLatest } from '../../src/index.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { importRecording } from '../../src/inspector/index.js';
import { replay } from '../../src/inspector/recording.js';
import { sized } from '../support/deep.js';

/** One seeded run: what the work does with an item, by its number. */
interface Load {
  readonly count: number;
  readonly everyMs: number;
  readonly callMs: number;
  readonly faults: readonly number[];
  readonly busyAt: number;
  readonly leaveAtMs: number | undefined;
}

const loads = fc.record<Load>({
  count: fc.integer({ min: 1, max: 40 }),
  everyMs: fc.integer({ min: 0, max: 7 }),
  callMs: fc.integer({ min: 0, max: 30 }),
  faults: fc.uniqueArray(fc.integer({ min: 0, max: 39 }), { maxLength: 4 }),
  busyAt: fc.integer({ min: 0, max: 10 }),
  leaveAtMs: fc.option(fc.integer({ min: 0, max: 150 }), { nil: undefined }),
});

const status = (code: number): Error => Object.assign(new Error(`status ${String(code)}`), { status: code });

/** Work that takes its time, fails for bad items, and is busy at its n-th call. */
function workOf({ callMs, faults, busyAt }: Load, { scheduler }: World): <T extends number | readonly number[]>(input: T) => Observable<T> {
  let calls = 0;
  return (input) => {
    const all: readonly number[] = typeof input === 'number' ? [input] : input;
    const isBusy = ++calls === busyAt;
    const isBad = all.some((item) => faults.includes(item));
    return timer(callMs, scheduler).pipe(
      mergeMap(() => (isBusy ? throwError(() => status(429)) : isBad ? throwError(() => status(400)) : of(input))),
    );
  };
}

/** What the caller of the operator sees of the run besides events. */
interface Heard {
  settled: number;
}

interface World {
  readonly scheduler: SchedulerLike;
  readonly onEvent: (event: FlowEvent) => void;
}

type Run = (
  load: Load,
  world: World,
  heard: Heard,
) => (input: Subject<number>) => { leave: () => void; load?: () => readonly [number, number] };

const pipe =
  (through: (load: Load, world: World) => (input: Observable<number>) => Observable<unknown>): Run =>
  (load, world, heard) =>
  (input) => {
    const subscription = through(load, world)(input).subscribe({ next: () => heard.settled++, error: () => undefined });
    return {
      leave: () => {
        subscription.unsubscribe();
      },
    };
  };

const inLanes = lanes([{ name: 'user', maxWaitMs: 0 }, { name: 'normal' }], { by: (item: number) => (item % 3 === 0 ? 'user' : 'normal') });

const runs: Record<string, Run> = {
  'batchMap, repaired': pipe((load, world) =>
    batchMap((items: readonly number[]) => workOf(load, world)(items), {
      maxSize: 5,
      repair: [retryFailed({ delayMs: 5 }), divideAndConquer()],
      ...world,
    }),
  ),
  'batchMap, lanes and a limiter': pipe((load, world) => {
    const limiter = createLimiter({
      concurrency: 2,
      rates: [perMinute('requests', 600)],
      queue: lanes([{ name: 'user' }, { name: 'normal' }]),
      ...world,
    });
    return batchMap((items: readonly number[]) => workOf(load, world)(items), { maxSize: 4, queue: inLanes, limiter, ...world });
  }),
  'batchMap that drops': pipe((load, world) =>
    batchMap((items: readonly number[]) => workOf(load, world)(items), {
      maxSize: 3,
      maxQueued: 4,
      overflow: 'dropOldest',
      deadlineMs: 60,
      ...world,
    }),
  ),
  bulkheadMap: pipe((load, world) => bulkheadMap((item: number) => workOf(load, world)(item), { concurrency: 2, timeoutMs: 25, ...world })),
  'switchLatest over a policy': pipe((load, world) => {
    const careful = policy({ retry: retryFailed({ delayMs: 3 }), ...world });
    return switchLatest((item: number) => careful(() => workOf(load, world)(item)), { errors: 'settle' });
  }),
  batchMapFrom: pipe((load, world) =>
    mergeMap((item: number) =>
      batchMapFrom([item, item + 1, item + 2], (items: readonly number[]) => workOf(load, world)(items), {
        repair: divideAndConquer(),
        ...world,
      }),
    ),
  ),
  createBatcher: (load, world, heard) => (input) => {
    const batcher = createBatcher((items: readonly number[]) => workOf(load, world)(items), {
      maxSize: 4,
      repair: divideAndConquer(),
      ...world,
    });
    const loading = input
      .pipe(mergeMap((item) => batcher.load(item).pipe(catchError(() => of(undefined)))))
      .subscribe({ next: () => heard.settled++ });
    return {
      leave: () => {
        loading.unsubscribe();
      },
      load: () => {
        const { queued, executing } = batcher.snapshot();
        return [queued, executing];
      },
    };
  },
};

/** Runs the load in virtual time, and asks after every moment. */
function play(
  run: Run,
  load: Load,
  look: (model: FlowModel, current: () => readonly [number, number] | undefined) => void,
): { model: FlowModel; events: FlowEvent[]; heard: Heard } {
  const model = new FlowModel();
  const events: FlowEvent[] = [];
  const heard: Heard = { settled: 0 };
  const scheduler = new VirtualTimeScheduler();
  const input = new Subject<number>();
  const onEvent = (event: FlowEvent): void => {
    events.push(event);
    model.add(event);
  };
  const running = run(load, { scheduler, onEvent }, heard)(input);
  let sent = 0;
  let isLeft = false;
  // After everything else that happens at its moment.
  const moment = (at: number): void => {
    while (sent < load.count && sent * load.everyMs <= at) input.next(sent++);
    if (sent === load.count) input.complete();
    if (at === load.leaveAtMs) running.leave();
    isLeft ||= at === load.leaveAtMs;
    look(model, () => running.load?.());
    const { waiting, executing } = model.counters;
    const isOver = sent === load.count && waiting + executing === 0;
    if (at < 2000 && !(isOver && (isLeft || load.leaveAtMs === undefined)))
      scheduler.schedule(() => {
        moment(at + 1);
      }, 1);
  };
  scheduler.schedule(() => {
    moment(0);
  });
  scheduler.flush();
  return { model, events, heard };
}

describe.each(Object.entries(runs))('%s', (name, run) => {
  it('is counted as its own events and snapshots count it, moment by moment, and nothing is lost', () => {
    fc.assert(
      fc.property(loads, (load) => {
        const { model, events, heard } = play(run, load, (now, current) => {
          const { accepted, settled, dropped, expired, cancelled, waiting, executing, lost } = now.counters;
          const told = current();
          if (told) expect([waiting, executing]).toEqual(told);
          expect([lost, waiting >= 0, executing >= 0]).toEqual([0, true, true]);
          expect(settled).toBeLessThanOrEqual(accepted);
          expect(dropped + expired + cancelled).toBeGreaterThanOrEqual(0);
        });
        const { counters } = model;
        const count = (type: FlowEvent['type']): number => events.filter((event) => event.type === type).length;
        expect([counters.accepted, counters.settled, counters.calls]).toEqual([
          count('accepted'),
          count('settled'),
          count('attemptStarted'),
        ]);
        expect([counters.retries, counters.splits]).toEqual([count('retryScheduled'), count('split') + count('blamed')]);
        expect([counters.waiting, counters.executing, counters.lost]).toEqual([0, 0, 0]);
        expect(counters.accepted).toBe(counters.settled + counters.cancelled);
        if (load.leaveAtMs === undefined && name !== 'switchLatest over a policy') expect(counters.settled).toBe(heard.settled);
      }),
      { numRuns: sized(6, 300) },
    );
  });
});

it('counts what waits as the operator itself says with every item', () => {
  fc.assert(
    fc.property(loads, (load) => {
      const model = new FlowModel();
      play(runs['batchMap, repaired']!, load, () => undefined).events.forEach((event) => {
        if (event.type === 'accepted') expect(model.counters.waiting).toBe(event.queued);
        model.add(event);
        if (event.type === 'attemptStarted') expect(model.counters.executing).toBeLessThanOrEqual(event.executing);
      });
    }),
    { numRuns: sized(6, 300) },
  );
});

it('sees an item that is lost', () => {
  fc.assert(
    fc.property(loads, fc.nat(), (load, which) => {
      const { events } = play(runs['batchMap, repaired']!, { ...load, leaveAtMs: undefined }, () => undefined);
      const settled = events.filter(({ type }) => type === 'settled');
      const planted = settled[which % settled.length];
      const model = new FlowModel();
      for (const event of events) if (event !== planted) model.add(event);
      expect(model.counters.lost).toBe(1);
    }),
    { numRuns: sized(6, 300) },
  );
});

it('goes on from a recording, wherever that ends', () => {
  fc.assert(
    fc.property(loads, fc.nat(), (load, at) => {
      const { events, model } = play(runs['batchMap, repaired']!, load, () => undefined);
      const cut = at % (events.length + 1);
      const first = new FlowModel();
      events.slice(0, cut).forEach((event) => {
        first.add(event);
      });
      const again = replay(importRecording(exportRecording(first)));
      expect(again.counters).toEqual(first.counters);
      expect(again.lanes).toEqual(first.lanes);
      events.slice(cut).forEach((event) => {
        again.add(event);
      });
      expect(again.counters).toEqual(model.counters);
    }),
    { numRuns: sized(6, 300) },
  );
});
