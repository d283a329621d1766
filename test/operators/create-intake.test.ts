import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Intake, IntakeOptions, OfferOptions, Settled } from '../../operators/index.js';
import { batchMapFrom, CallbackError, createIntake, LaneUnknownError, lanes, natural, OverflowError } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { unstamped } from '../support/events.js';

/** Offers and keeps what becomes of it: true, false, or the error. */
function offered<T>(intake: Intake<T>, item: T, options?: OfferOptions) {
  const seen: unknown[] = [];
  intake.offer(item, options).then(
    (isIn) => seen.push(isIn),
    (error: unknown) => seen.push(error),
  );
  return seen;
}

/** Reads everything until the intake ends. */
async function all<T>(intake: Intake<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const item of intake) seen.push(item);
  return seen;
}

/** A full intake with one item `'in'`, and the offers that wait for its place. */
function full(options: IntakeOptions<string> = {}) {
  const intake = createIntake<string>({ maxQueued: 1, ...options });
  expect(intake.tryOffer('in')).toBe(true);
  return { intake, reader: intake[Symbol.asyncIterator]() };
}

describe('a consumer', () => {
  it('keeps a consumer waiting while nothing is offered', async () => {
    const intake = createIntake<string>();
    let answered = false;
    void intake[Symbol.asyncIterator]()
      .next()
      .then(() => (answered = true));
    await setImmediate();
    expect([answered, intake.snapshot()]).toEqual([false, { queued: 0, waiting: 0 }]);
  });

  it('ends its consumer at once when it is closed with nothing in it', async () => {
    const intake = createIntake<string>();
    const reading = all(intake);
    intake.close();
    expect(await reading).toEqual([]);
    expect(await all(intake)).toEqual([]);
  });

  it('hands a single item to its consumer', async () => {
    const intake = createIntake<string>();
    const next = intake[Symbol.asyncIterator]().next();
    expect(await intake.offer('a')).toBe(true);
    expect(await next).toEqual({ done: false, value: 'a' });
  });

  it('hands out items in the order they were let in', async () => {
    const intake = createIntake<number>({ maxQueued: 2 });
    const reading = all(intake);
    for (let i = 0; i < 100; i++) expect(await intake.offer(i)).toBe(true);
    await intake.drain();
    expect(await reading).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  it('stays open when a consumer throws', async () => {
    const intake = createIntake<number>();
    for (const item of [1, 2, 3]) intake.tryOffer(item);
    const failing = (async () => {
      for await (const item of intake) if (item === 2) throw new Error('no 2');
    })();
    await expect(failing).rejects.toThrow('no 2');
    expect(intake.snapshot().queued).toBe(1);
    expect(await intake[Symbol.asyncIterator]().next()).toEqual({ done: false, value: 3 });
  });

  it('stays open when a consumer leaves, and hands it nothing more', async () => {
    const intake = createIntake<string>();
    const [leaver, stayer] = [intake[Symbol.asyncIterator](), intake[Symbol.asyncIterator]()];
    const asked = [leaver.next(), stayer.next(), leaver.next()];
    expect(await leaver.return?.()).toEqual({ done: true, value: undefined });
    expect(await intake.offer('a')).toBe(true);
    expect(await Promise.all(asked)).toEqual([
      { done: true, value: undefined },
      { done: false, value: 'a' },
      { done: true, value: undefined },
    ]);
    intake.tryOffer('b');
    expect(await leaver.next()).toEqual({ done: true, value: undefined });
    expect(intake.snapshot().queued).toBe(1);
  });

  it('shares the items with the others: each goes to exactly one', async () => {
    const intake = createIntake<number>({ maxQueued: 3 });
    const readings = [all(intake), all(intake), all(intake)];
    for (let i = 0; i < 99; i++) await intake.offer(i);
    await intake.drain();
    const shares = await Promise.all(readings);
    expect(shares.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: 99 }, (_, i) => i));
    expect(shares.every((share) => share.length > 0)).toBe(true);
  });

  it('takes what a consumer offers while it is handed an item', async () => {
    const intake = createIntake<number>({ maxQueued: 1 });
    intake.tryOffer(5);
    const seen: number[] = [];
    for await (const item of intake) {
      seen.push(item);
      if (item === 0) intake.close();
      else expect(intake.tryOffer(item - 1)).toBe(true);
    }
    expect(seen).toEqual([5, 4, 3, 2, 1, 0]);
  });
});

describe('an offer', () => {
  it('takes a burst up to `maxQueued`, and the rest as there is room', async () => {
    const intake = createIntake<number>({ maxQueued: 3 });
    expect([1, 2, 3, 4].map((item) => intake.tryOffer(item))).toEqual([true, true, true, false]);
    const late = offered(intake, 5);
    await setImmediate();
    expect([late, intake.snapshot()]).toEqual([[], { queued: 3, waiting: 1 }]);
    const reader = intake[Symbol.asyncIterator]();
    expect(await reader.next()).toEqual({ done: false, value: 1 });
    await setImmediate();
    expect([late, intake.snapshot()]).toEqual([[true], { queued: 3, waiting: 0 }]);
    expect(intake.tryOffer(6)).toBe(false);
  });

  it('is accepted by lane before order of arrival, and within a lane in order of arrival', async () => {
    const by = (item: string) => (item === item.toUpperCase() ? 'now' : 'later');
    const { intake, reader } = full({ queue: lanes([{ name: 'now' }, { name: 'soon' }, { name: 'later', floor: 0 }], { by }) });
    for (const item of ['a', 'b', 'A', 'c', 'B']) void intake.offer(item);
    void intake.offer('s', { lane: 'soon' });
    const order: unknown[] = [];
    for (let i = 0; i < 7; i++) order.push((await reader.next()).value);
    expect(order).toEqual(['in', 'A', 'B', 's', 'a', 'b', 'c']);
  });

  it('gets its share of the places when its lane has a floor', async () => {
    const { intake, reader } = full({ queue: lanes([{ name: 'now' }, { name: 'later', floor: 0.25 }]) });
    for (let i = 0; i < 40; i++) {
      void intake.offer('now', { lane: 'now' });
      void intake.offer('later', { lane: 'later' });
    }
    const taken: unknown[] = [];
    // The first quarter of a place has to be earned: places 5, 9, … 41 of the door, and `'in'` before all of them.
    for (let i = 0; i < 42; i++) taken.push((await reader.next()).value);
    expect(taken.filter((item) => item === 'later')).toHaveLength(10);
  });

  it('shares its lane fairly with other keys', async () => {
    const { intake, reader } = full({ queue: lanes([{ name: 'all' }], { key: (item: string) => item[0] }) });
    for (const item of ['a1', 'a2', 'a3', 'b1']) void intake.offer(item);
    const order: unknown[] = [];
    for (let i = 0; i < 5; i++) order.push((await reader.next()).value);
    expect(order).toEqual(['in', 'a1', 'b1', 'a2', 'a3']);
  });

  it('answers false when the intake is closed, or was', async () => {
    const { intake } = full();
    const waiting = offered(intake, 'late');
    intake.close();
    const newcomer = offered(intake, 'later still');
    await setImmediate();
    expect([waiting, newcomer, intake.tryOffer('never')]).toEqual([[false], [false], false]);
  });

  it('rejects with the reason of its signal, and leaves the place to others', async () => {
    const { intake, reader } = full();
    const [gone, later] = [new AbortController(), new AbortController()];
    const first = offered(intake, 'first', { signal: gone.signal });
    const second = offered(intake, 'second', { signal: later.signal });
    const reason = new Error('the offer is withdrawn');
    gone.abort(reason);
    expect(intake.snapshot().waiting).toBe(1);
    await reader.next();
    expect((await reader.next()).value).toBe('second');
    later.abort();
    await setImmediate();
    expect([first, second]).toEqual([[reason], [true]]);
    const aborted = offered(intake, 'never', { signal: gone.signal });
    await setImmediate();
    expect([aborted, intake.snapshot()]).toEqual([[reason], { queued: 0, waiting: 0 }]);
  });

  it('rejects the one offer whose `lane` throws, or returns an undeclared lane', async () => {
    const fault = new Error('no lane');
    const by = (item: string): string => {
      if (item === 'bad') throw fault;
      return item;
    };
    const intake = createIntake<string>({ queue: lanes([{ name: 'good' }], { by }) });
    const [thrown, unknown, good] = [offered(intake, 'bad'), offered(intake, 'worse'), offered(intake, 'good')];
    await setImmediate();
    expect(thrown[0]).toBeInstanceOf(CallbackError);
    expect((thrown[0] as CallbackError).cause).toBe(fault);
    expect(unknown[0]).toBeInstanceOf(LaneUnknownError);
    expect([good, intake.snapshot().queued]).toEqual([[true], 1]);
  });

  it('throws where it is made when it names an undeclared lane', () => {
    const { intake } = full({ queue: lanes([{ name: 'now' }]) });
    expect(() => intake.offer('a', { lane: 'later' })).toThrow(LaneUnknownError);
  });

  it('is refused when too many wait, in all or in its lane', async () => {
    const { intake } = full({ queue: lanes([{ name: 'now' }, { name: 'later', maxQueued: 1 }]) });
    const [first, second] = ['later', 'later'].map((lane) => offered(intake, lane, { lane }));
    for (let i = 1; i < 9999; i++) void intake.offer('now', { lane: 'now' });
    const [third, fourth] = ['now', 'now'].map((lane) => offered(intake, lane, { lane }));
    await setImmediate();
    expect([first, third]).toEqual([[], []]);
    expect(second).toEqual([new OverflowError('createIntake', 1, 'error', 'maxQueued')]);
    expect(fourth).toEqual([new OverflowError('createIntake', 10_000, 'error', 'maxWaiting')]);
    intake.close();
  });

  it('whose promise is ignored is not reported as unhandled', async () => {
    const unhandled: unknown[] = [];
    const report = (reason: unknown): number => unhandled.push(reason);
    process.on('unhandledRejection', report);
    const { intake } = full({ queue: lanes([{ name: 'only', maxQueued: 1 }]) });
    const gone = new AbortController();
    void intake.offer('waits', { signal: gone.signal });
    void intake.offer('is one too many');
    gone.abort();
    void intake.offer('comes too late', { signal: gone.signal });
    await setImmediate();
    process.off('unhandledRejection', report);
    expect(unhandled).toEqual([]);
  });

  it('costs a long-lived signal one listener however many wait on it, and none afterwards', async () => {
    const { intake, reader } = full({});
    const session = new AbortController();
    const listeners = (): number => getEventListeners(session.signal, 'abort').length;
    for (let i = 0; i < 1000; i++) void intake.offer(String(i), { signal: session.signal });
    expect(listeners()).toBe(1);
    for (let i = 0; i < 1000; i++) await reader.next();
    expect([listeners(), intake.snapshot()]).toEqual([0, { queued: 1, waiting: 0 }]);
    void intake.offer('again', { signal: session.signal });
    expect(listeners()).toBe(1);
    intake.close();
    expect(listeners()).toBe(0);
  });

  it('may be one of thousands that wait: they are let in, withdrawn or turned away without recursion', async () => {
    // As many as may wait.
    const many = 10_000;
    const waiting = (options?: OfferOptions) => {
      const { intake, reader } = full({});
      const offers = Array.from({ length: many }, (_, i) => intake.offer(String(i), options));
      expect(intake.snapshot().waiting).toBe(many);
      return { intake, reader, offers };
    };
    const { intake, reader, offers } = waiting();
    for (let i = 0; i <= many; i++) expect((await reader.next()).value).toBe(i === 0 ? 'in' : String(i - 1));
    expect(new Set(await Promise.all(offers))).toEqual(new Set([true]));
    expect(intake.snapshot()).toEqual({ queued: 0, waiting: 0 });

    const closed = waiting();
    closed.intake.close();
    expect(new Set(await Promise.all(closed.offers))).toEqual(new Set([false]));

    const session = new AbortController();
    const aborted = waiting({ signal: session.signal });
    session.abort();
    expect(aborted.intake.snapshot().waiting).toBe(0);
    const ends = await Promise.allSettled(aborted.offers);
    expect(ends.every(({ status }) => status === 'rejected')).toBe(true);
  }, 20_000);
});

describe('ready$', () => {
  it('turns false at the high mark and true at the low one, and completes when nothing more is taken', async () => {
    const intake = createIntake<number>({ maxQueued: 10, highWater: 4, lowWater: 1 });
    const seen: unknown[] = [];
    intake.ready$.subscribe({ next: (isReady) => seen.push([isReady, intake.snapshot().queued]), complete: () => seen.push('complete') });
    const reader = intake[Symbol.asyncIterator]();
    for (let i = 0; i < 6; i++) intake.tryOffer(i);
    for (let i = 0; i < 6; i++) await reader.next();
    for (let i = 0; i < 3; i++) intake.tryOffer(i);
    intake.close();
    expect(seen).toEqual([[true, 0], [false, 4], [true, 1], 'complete']);
  });

  it('tells every subscriber the levels in the same order when one of them fills the intake again', () => {
    const intake = createIntake<number>({ maxQueued: 2, highWater: 2, lowWater: 0 });
    const seen: string[] = [];
    intake.ready$.subscribe((isReady) => {
      seen.push(`first ${String(isReady)}`);
      while (isReady && intake.tryOffer(seen.length));
    });
    intake.ready$.subscribe((isReady) => {
      seen.push(`second ${String(isReady)}`);
    });
    const reader = intake[Symbol.asyncIterator]();
    void reader.next();
    void reader.next();
    expect(seen).toEqual(['first true', 'first false', 'second false', 'first true', 'second true', 'first false', 'second false']);
    expect(intake.snapshot().queued).toBe(2);
  });

  it('has its marks at 0.8 and 0.5 of `maxQueued`', async () => {
    const intake = createIntake<number>({ maxQueued: 10 });
    const seen: unknown[] = [];
    intake.ready$.subscribe((isReady) => seen.push([isReady, intake.snapshot().queued]));
    for (let i = 0; i < 10; i++) intake.tryOffer(i);
    for (let i = 0; i < 10; i++) await intake[Symbol.asyncIterator]().next();
    expect(seen).toEqual([
      [true, 0],
      [false, 8],
      [true, 5],
    ]);
  });
});

describe('read by batchMapFrom', () => {
  it('lets a producer in only while a slot or its queue has room, and settles every item once', async () => {
    const intake = createIntake<number>({ maxQueued: 1 });
    const answers: Subject<readonly number[]>[] = [];
    const results: Settled<number, number>[] = [];
    let completed = false;
    const work = (items: readonly number[]) => {
      const answer = new Subject<readonly number[]>();
      answers.push(answer);
      expect(items).toHaveLength(1);
      return answer;
    };
    batchMapFrom(intake, work, { maxSize: 1, concurrency: 1, maxQueued: 1, window: natural(), scheduler: atOnce() }).subscribe({
      next: (settled) => results.push(settled),
      complete: () => (completed = true),
    });
    const offers = Array.from({ length: 6 }, (_, i) => offered(intake, i));
    await setImmediate();
    // One in the call, one in the queue of batchMapFrom, one inside the intake: nothing is pulled ahead of that.
    expect(answers).toHaveLength(1);
    expect(offers.map((seen) => seen.length)).toEqual([1, 1, 1, 0, 0, 0]);
    for (let i = 0; i < 6; i++) {
      await setImmediate();
      expect(answers).toHaveLength(i + 1);
      expect(intake.snapshot().queued + intake.snapshot().waiting).toBe(Math.max(0, 4 - i));
      answers[i]?.next([10 * i]);
      answers[i]?.complete();
    }
    const drained = await intake.drain();
    await setImmediate();
    expect(completed).toBe(true);
    expect(drained).toEqual({ done: 0, aborted: 0, dropped: 0 });
    expect(offers.flat()).toEqual(Array<boolean>(6).fill(true));
    expect(results.map((settled) => [settled.input, settled.status === 'fulfilled' && settled.value])).toEqual(
      [0, 1, 2, 3, 4, 5].map((i) => [i, 10 * i]),
    );
  });

  it('moves ten thousand items from ten producers through two consumers: each is settled once', async () => {
    const intake = createIntake<number>({ maxQueued: 8 });
    const results: number[] = [];
    const work = async (items: readonly number[]) => Promise.resolve(items.map((item) => item));
    const consumers = [1, 2].map(
      () =>
        new Promise<void>((resolve, reject) => {
          batchMapFrom(intake, work, { maxSize: 7, concurrency: 2 }).subscribe({
            next: (settled) => results.push(settled.input),
            error: reject,
            complete: resolve,
          });
        }),
    );
    const producer = async (from: number): Promise<void> => {
      for (let i = from; i < 10_000; i += 10) expect(await intake.offer(i)).toBe(true);
    };
    await Promise.all(Array.from({ length: 10 }, (_, i) => producer(i)));
    await intake.drain();
    await Promise.all(consumers);
    expect(results.sort((a, b) => a - b)).toEqual(Array.from({ length: 10_000 }, (_, i) => i));
  });

  it('keeps its items when the pipeline that read it is left', async () => {
    const intake = createIntake<number>();
    const reading = batchMapFrom(intake, (items) => Promise.resolve(items)).subscribe();
    await setImmediate();
    reading.unsubscribe();
    intake.tryOffer(1);
    expect(intake.snapshot().queued).toBe(1);
    expect(await intake[Symbol.asyncIterator]().next()).toEqual({ done: false, value: 1 });
  });
});

describe('events', () => {
  it('tell of items let in, refused, withdrawn and given up, of pressure, and of the end, without an item', () => {
    const events: FlowEvent[] = [];
    const queue = lanes([{ name: 'now' }, { name: 'later', maxQueued: 1 }]);
    const intake = createIntake<string>({ maxQueued: 1, queue, onEvent: unstamped((event) => events.push(event)) });
    const gone = new AbortController();
    void intake.offer('SECRET', { lane: 'now' });
    void intake.offer('SECRET', { lane: 'now', signal: gone.signal });
    void intake.offer('SECRET');
    void intake.offer('SECRET');
    gone.abort();
    intake.close();
    const operator = 'createIntake';
    expect(events).toEqual([
      { type: 'pressure', operator, lane: 'default', high: true, queued: 1 },
      { type: 'accepted', operator, lane: 'now', queued: 1 },
      { type: 'dropped', operator, lane: 'later', policy: 'error' },
      { type: 'cancelled', operator, lane: 'now', count: 1 },
      { type: 'cancelled', operator, lane: 'default', count: 1 },
      { type: 'pressure', operator, lane: 'default', high: false, queued: 0 },
      { type: 'drained', operator },
    ]);
  });

  it('tell of pressure in turn, whatever a listener offers or takes', () => {
    const told: string[] = [];
    const intake = createIntake<number>({
      maxQueued: 1,
      onEvent: (event) => {
        if (event.type !== 'pressure') return;
        told.push(event.high ? 'high' : 'low');
        if (!event.high && told.length < 6) intake.tryOffer(2);
      },
    });
    const reader = intake[Symbol.asyncIterator]();
    intake.tryOffer(1);
    void reader.next();
    expect(told).toEqual(['high', 'low', 'high']);
    intake.close();
    expect(told).toEqual(['high', 'low', 'high', 'low']);
  });
});

describe('callbacks of createIntake that abort the signal of their offer', () => {
  it('do not take back an offer that has just been let in', async () => {
    const controller = new AbortController();
    const intake = createIntake<number>({
      maxQueued: 1,
      onEvent: ({ type }) => {
        if (type === 'accepted' && intake.snapshot().waiting === 1) controller.abort();
      },
    });
    intake.tryOffer(1);
    const letIn = intake.offer(2, { signal: controller.signal });
    const behind = intake.offer(3);
    const reader = intake[Symbol.asyncIterator]();
    expect(await reader.next()).toEqual({ done: false, value: 1 });
    expect(controller.signal.aborted).toBe(true);
    expect(intake.snapshot()).toEqual({ queued: 1, waiting: 1 });
    expect([await letIn, await reader.next(), await behind, await reader.next()]).toEqual([
      true,
      { done: false, value: 2 },
      true,
      { done: false, value: 3 },
    ]);
  });

  it('are noticed before the offer listens to its signal', async () => {
    const controller = new AbortController();
    const intake = createIntake<number>({
      maxQueued: 1,
      queue: lanes([{ name: 'any' }], {
        by: (item: number) => {
          if (item === 2) controller.abort();
          return 'any';
        },
      }),
    });
    intake.tryOffer(1);
    await expect(intake.offer(2, { signal: controller.signal })).rejects.toBe(controller.signal.reason);
    expect(intake.snapshot()).toEqual({ queued: 1, waiting: 0 });
  });
});
