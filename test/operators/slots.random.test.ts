import { BehaviorSubject, config, Observable, Subject, takeUntil, timer } from 'rxjs';
import { expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Settled } from '../../operators/index.js';
import { bulkheadMap, createLimiter, inputOrder, orderPerKey, settleAll } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { Dice } from '../world/dice.js';

const SEEDS = sized(100, 60_000);
const PLANNED = 'planned';
const fail = (): never => {
  throw new Error(PLANNED);
};

interface Item {
  readonly id: number;
  readonly key: number;
}

/** One schedule with random acts in every callback, which checks every promise of the operators. Returns what went wrong. */
function play(seed: number): string[] {
  const wrong: string[] = [];
  config.onUnhandledError = (error) => {
    if (!String(error).includes(PLANNED)) wrong.push(`reported: ${String(error)}`);
  };
  virtualTime(({ scheduler, advance }) => {
    const dice = new Dice(seed);
    const kind = dice.pick(['bulkheadMap', 'settleAll'] as const);
    const settles = kind === 'settleAll' || dice.chance(0.7);
    const perKey = dice.pick([1, 2, Infinity]);
    const limiter = kind !== 'settleAll' && dice.chance(0.3) ? createLimiter({ concurrency: dice.int(1, 3), scheduler }) : undefined;
    const concurrency = new BehaviorSubject(dice.int(1, 4));
    const source = new Subject<Item>();
    const ends: (() => void)[] = [];
    const running = new Map<number, number>();
    const outcomes = new Map<number, number>();
    let under = 0;
    let sent = 0;
    let acts = 0;
    const is = { left: false, over: false, done: false };
    const left = new Subject<void>();
    const leave = (): void => {
      is.left = true;
      left.next();
    };
    const complete = (): void => {
      is.done = true;
      source.complete();
    };
    let accepted = 0;
    let told = 0;

    const send = (): void => {
      if (sent >= 25 || is.done || is.left || kind === 'settleAll') return;
      source.next({ id: sent++, key: dice.int(0, 2) });
    };
    const act = (): void => {
      if (acts++ > 150 || !dice.chance(0.3)) return;
      const what = dice.int(0, 99);
      if (what < 45) send();
      else if (what < 60) concurrency.next(dice.int(1, 4));
      else if (what < 85) dice.pick(ends.length > 0 ? ends : [() => undefined])();
      else if (what < 88) leave();
      else if (what < 90) complete();
    };
    const actOrFail = (): void => {
      act();
      if (dice.chance(0.1)) fail();
    };

    const work = (item: Item, { signal }: { readonly signal: AbortSignal }): unknown => {
      if (is.left) wrong.push('called after its consumer has left');
      if (dice.chance(0.2)) signal.addEventListener('abort', act);
      const way = dice.int(0, 5);
      if (way === 0) return settles ? item.id : [item.id];
      if (way === 1) fail();
      const ofKey = running.get(item.key) ?? 0;
      if (ofKey >= perKey) wrong.push(`${String(ofKey + 1)} of one key at a time`);
      running.set(item.key, ofKey + 1);
      under++;
      return new Observable<number>((subscriber) => {
        subscriber.add(() => {
          running.set(item.key, (running.get(item.key) ?? 0) - 1);
          under--;
        });
        subscriber.add(actOrFail);
        const end = (): void => {
          if (dice.chance(0.3)) subscriber.error(new Error(PLANNED));
          else subscriber.complete();
        };
        ends.push(end);
        act();
        subscriber.next(item.id);
        if (way === 2) end();
        if (way === 3) subscriber.add(timer(dice.int(1, 9), scheduler).subscribe(end));
      });
    };
    const onEvent = (event: FlowEvent): void => {
      if (event.type === 'accepted') accepted++;
      const most = limiter?.snapshot().concurrency ?? (kind === 'settleAll' ? 2 : concurrency.value);
      if (event.type === 'attemptStarted' && under >= most) wrong.push('too many at a time');
      if (event.type === 'settled') told++;
      if (event.type === 'cancelled') told += event.count;
      actOrFail();
    };
    const shared = {
      onEvent,
      scheduler,
      ...(limiter ? { limiter } : { concurrency }),
      ...(dice.chance(0.5) && { timeoutMs: dice.int(2, 12) }),
      ...(dice.chance(0.3) && {
        maxQueued: dice.int(0, 4),
        overflow: dice.pick(['dropOldest', 'dropNewest', 'latest'] as const),
      }),
      ...(dice.chance(0.3) && { order: inputOrder() }),
    } as const;
    const key = (item: Item): number => {
      actOrFail();
      return item.key;
    };
    const stream = (): Observable<unknown> => {
      if (kind === 'settleAll') {
        const items = Array.from({ length: 6 }, (_, id) => ({ id, key: id }));
        sent = items.length;
        const guard = (): boolean => {
          actOrFail();
          return true;
        };
        return settleAll(items, work, { onEvent, scheduler, concurrency: 2, deadlineMs: 40, ...(dice.chance(0.5) && { guard }) });
      }
      const options = {
        ...shared,
        key,
        perKey,
        ...(dice.chance(0.2) && { order: orderPerKey(key) }),
      };
      return source.pipe(settles ? bulkheadMap(work, options) : bulkheadMap(work as never, { ...options, errors: 'propagate' }));
    };
    const order: number[] = [];
    const seen = ({ index, input }: Settled<Item, unknown>): void => {
      outcomes.set(index, (outcomes.get(index) ?? 0) + 1);
      if (input.id !== index) wrong.push('a result with the number of another item');
      order.push(index);
    };
    stream()
      .pipe(takeUntil(left))
      .subscribe({
        next: (value) => {
          if (is.left) wrong.push('a result after leaving');
          if (settles)
            [value].flat().forEach((each) => {
              seen(each as Settled<Item, unknown>);
            });
          act();
        },
        error: (error: unknown) => {
          is.over = is.left = true;
          if (settles || !String(error).match(/planned|threw|took longer/)) wrong.push(`failed: ${String(error)}`);
        },
        complete: () => {
          is.over = true;
        },
      });

    for (let step = 0; step < 30; step++) {
      send();
      act();
      advance(dice.int(0, 3));
    }
    complete();
    for (let round = 0; round < 200 && !is.over && !is.left; round++) {
      for (const end of ends.splice(0)) end();
      advance(1);
    }
    advance(100);
    if (!is.over && !is.left) wrong.push('never ends');
    if (under !== 0) wrong.push(`${String(under)} left under way`);
    if (source.observed || concurrency.observed) wrong.push('still listened to');
    if (limiter && limiter.snapshot().executing !== 0) wrong.push('a permit is gone');
    if ([...outcomes.values()].some((count) => count !== 1)) wrong.push('an item settles twice');
    if (settles && !is.left && outcomes.size !== (kind === 'settleAll' ? 6 : sent))
      wrong.push(`${String(sent - outcomes.size)} item(s) lost`);
    if (told !== accepted) wrong.push(`${String(accepted)} accepted, ${String(told)} told of`);
    if ('order' in shared && kind !== 'bulkheadMap' && order.some((index, at) => at > 0 && index < (order[at - 1] as number)))
      wrong.push('out of order');
    limiter?.close();
  });
  config.onUnhandledError = null;
  return wrong;
}

it('settles every item once, keeps every limit and leaves nothing, whatever the callbacks do', { timeout: 600_000 }, () => {
  const bad: string[] = [];
  for (let seed = 0; seed < SEEDS && bad.length < 5; seed++) {
    try {
      bad.push(...play(seed).map((problem) => `${problem}  <-  seed ${String(seed)}`));
    } catch (error) {
      bad.push(`${String(error)}  <-  seed ${String(seed)}`);
    }
  }
  expect(bad).toEqual([]);
});
