import {
  concat,
  defer,
  EMPTY,
  finalize,
  map,
  mergeMap,
  NEVER,
  Observable,
  of,
  Subject,
  throwError,
  timer,
  VirtualTimeScheduler,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import { batchMap, bulkheadMap, ClosedError, createBatcher, FlowConfigError, settleAll } from '../../operators/index.js';
import { createStages } from '../../src/pipelines/create-stages.js';

const ITEMS = [0, 1, 2, 3, 4];
const MS = 10;

/** Where an option that changes is followed: each takes all items at once, and tells the end of each. */
interface Following {
  readonly name: string;
  readonly option: string;
  run(
    concurrency: Observable<number>,
    work: (item: number) => Observable<number>,
    ended: (item: number, error?: unknown) => void,
    scheduler: VirtualTimeScheduler,
  ): () => void;
}

/** An operator whose output is one stream: its error is the end of all that are open. */
function streaming(name: string, results: (...given: Parameters<Following['run']>) => Observable<{ readonly index: number }>): Following {
  return {
    name,
    option: 'concurrency',
    run: (...given) => {
      const open = new Set(ITEMS);
      const [, , ended] = given;
      const subscription = results(...given).subscribe({
        next: ({ index }) => {
          open.delete(index);
          ended(index);
        },
        error: (error: unknown) => {
          for (const item of open) ended(item, error);
        },
      });
      return () => {
        subscription.unsubscribe();
      };
    },
  };
}

function stages(option: string, place: (concurrency: Observable<number>) => readonly [object, object]): Following {
  return {
    name: `createStages, \`${option}\``,
    option,
    run: (concurrency, work, ended, scheduler) => {
      const [stage, more] = place(concurrency);
      const pipeline = createStages([{ name: 's', work, ...stage }], { scheduler, ...more });
      const open = new Set(ITEMS);
      pipeline.run(ITEMS).subscribe({
        next: (result) => {
          if (result.type !== 'document') return;
          open.delete(result.documentIndex);
          ended(result.documentIndex, result.status === 'rejected' ? result.reason : undefined);
        },
        error: (error: unknown) => {
          for (const item of open) ended(item, error);
        },
      });
      return () => {
        pipeline.close();
      };
    },
  };
}

const FAMILY: readonly Following[] = [
  streaming('bulkheadMap', (concurrency, work, _, scheduler) => of(...ITEMS).pipe(bulkheadMap(work, { concurrency, scheduler }))),
  streaming('batchMap', (concurrency, work, _, scheduler) =>
    of(...ITEMS).pipe(
      batchMap(([item = 0]: readonly number[]) => work(item).pipe(map((one) => [one])), { concurrency, maxSize: 1, scheduler }),
    ),
  ),
  streaming('settleAll', (concurrency, work, _, scheduler) =>
    settleAll(ITEMS, work, { concurrency, scheduler }).pipe(mergeMap((all) => all)),
  ),
  {
    name: 'createBatcher',
    option: 'concurrency',
    run: (concurrency, work, ended, scheduler) => {
      const batcher = createBatcher(([item = 0]: readonly number[]) => work(item).pipe(map((one) => [one])), {
        ...{ concurrency, maxSize: 1, scheduler },
      });
      for (const item of ITEMS)
        batcher.load(item).subscribe({
          next: () => {
            ended(item);
          },
          error: (error: unknown) => {
            ended(item, error);
          },
        });
      return () => {
        batcher.close();
      };
    },
  },
  stages('batches.concurrency', (concurrency) => [{}, { batches: { concurrency } }]),
  stages('stages[0].concurrency', (concurrency) => [{ concurrency }, { batches: { concurrency: ITEMS.length } }]),
];

/** All that comes of one run. `onWork` is called in each call. */
function outcomeOf(following: Following, concurrency: Observable<unknown>, onWork: () => void = () => undefined) {
  const scheduler = new VirtualTimeScheduler();
  const ends = new Map<number, unknown[]>();
  const seen = { ends, made: 0, inFlight: 0, most: 0, followed: 0, left: 0 };
  const watched = new Observable<number>((to) => {
    seen.followed++;
    to.add(() => seen.left++);
    return concurrency.subscribe(to as never);
  });
  const work = (item: number): Observable<number> => {
    seen.made++;
    onWork();
    return defer(() => {
      seen.inFlight++;
      seen.most = Math.max(seen.most, seen.inFlight);
      return timer(MS, scheduler);
    }).pipe(
      map(() => item),
      finalize(() => seen.inFlight--),
    );
  };
  const close = following.run(watched, work, (item, error) => ends.set(item, [...(ends.get(item) ?? []), error]), scheduler);
  const pass = (ms: number): void => {
    scheduler.maxFrames = scheduler.now() + ms;
    scheduler.flush();
  };
  return { seen, pass, close };
}

/** What a handle that was closed before says it was closed for. */
function reasonOf(error: unknown): unknown {
  return error instanceof ClosedError ? error.cause : error;
}

const INVALID = [Number.NaN, 0, -1, 1.5, '2', undefined, null, {}];
const WHEN: readonly (readonly [string, (last: Observable<unknown>) => Observable<unknown>])[] = [
  ['at once', (last) => last],
  ['after one that is right', (last) => concat(of(1), last)],
];

describe.each(FAMILY.map((following) => [following.name, following] as const))('a changing `concurrency` of %s', (_, following) => {
  const all = (end: unknown): Map<number, unknown[]> => new Map(ITEMS.map((item) => [item, [end]]));

  it.each(
    INVALID.flatMap((value) => WHEN.map(([when, after]) => [`${typeof value} ${JSON.stringify(value)}`, when, after, value] as const)),
  )('that emits %s %s ends each item once, with an error that names it', (_shown, _when, after, value) => {
    const { seen, pass } = outcomeOf(following, after(concat(of(value), NEVER)));
    pass(1000);
    for (const item of ITEMS) {
      const [end, ...others] = seen.ends.get(item) ?? [];
      const reason = reasonOf(end);
      expect(reason).toBeInstanceOf(FlowConfigError);
      expect(String(reason)).toContain(`\`${following.option}\` to be a whole number >= 1 or Infinity`);
      expect(others).toEqual([]);
    }
    expect(seen).toMatchObject({ followed: 1, left: 1, inFlight: 0, made: 0 });
  });

  it.each(WHEN)('that errors %s ends each item once, with that error', (_when, after) => {
    const fault = new Error('the limits are gone');
    const { seen, pass } = outcomeOf(following, after(throwError(() => fault)));
    pass(1000);
    expect([...seen.ends.values()].map(([end]) => reasonOf(end))).toEqual(ITEMS.map(() => fault));
    expect([...seen.ends.values()].every((ends) => ends.length === 1)).toBe(true);
    expect(seen).toMatchObject({ followed: 1, left: 1, inFlight: 0, made: 0 });
  });

  it('that errors in the middle lets go what is under way', () => {
    const changes = new Subject<number>();
    const fault = new Error('the limits are gone');
    const { seen, pass } = outcomeOf(following, concat(of(1), changes));
    pass(MS / 2);
    expect(seen.inFlight).toBe(1);
    changes.error(fault);
    pass(1000);
    expect([...seen.ends.values()]).toEqual(ITEMS.map(() => [fault]));
    expect(seen).toMatchObject({ left: 1, inFlight: 0, made: 1 });
  });

  it('that completes without a value leaves the default', () => {
    const { seen, pass, close } = outcomeOf(following, EMPTY);
    pass(1000);
    expect(seen.ends).toEqual(all(undefined));
    expect(seen.most).toBeGreaterThan(1);
    close();
    expect(seen).toMatchObject({ followed: 1, left: 1, inFlight: 0 });
  });

  it.each([1, 2, 3])('that completes behind %i keeps to it', (limit) => {
    const { seen, pass } = outcomeOf(following, of(5, limit));
    pass(1000);
    expect(seen.ends).toEqual(all(undefined));
    expect(seen.most).toBe(limit);
  });

  it.each([1, 2, 5, Infinity])('that emits %i in a call loses nothing', (limit) => {
    const changes = new Subject<number>();
    const { seen, pass } = outcomeOf(following, concat(of(1), changes), () => {
      changes.next(limit);
      changes.next(limit);
    });
    pass(1000);
    expect(seen.ends).toEqual(all(undefined));
    expect(seen.made).toBe(ITEMS.length);
    expect(seen.most).toBe(Math.min(limit, ITEMS.length));
  });

  it('that emits an invalid number in a call ends each item once', () => {
    const changes = new Subject<number>();
    const { seen, pass } = outcomeOf(following, concat(of(2), changes), () => {
      changes.next(0);
    });
    pass(1000);
    expect([...seen.ends.values()].map(([end]) => reasonOf(end))).toEqual(ITEMS.map(() => expect.any(FlowConfigError) as unknown));
    expect([...seen.ends.values()].every((ends) => ends.length === 1)).toBe(true);
    expect(seen).toMatchObject({ left: 1, inFlight: 0, made: 1 });
  });

  it('is left when everything is over, and what it emits then changes nothing', () => {
    const changes = new Subject<number>();
    const { seen, pass, close } = outcomeOf(following, changes);
    pass(1000);
    close();
    changes.next(0);
    changes.error(new Error('too late'));
    pass(1000);
    expect(seen.ends).toEqual(all(undefined));
    expect(seen).toMatchObject({ followed: 1, left: 1 });
    expect(changes.observed).toBe(false);
  });
});
