import { lastValueFrom, NEVER, Observable, of, Subject, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Settled } from '../../operators/index.js';
import { CallbackError, classifyError, DeadlineError, GuardRefusedError, isFlowError, settleAll } from '../../operators/index.js';
import { unstamped } from '../support/events.js';

/** A wait without a clock: so many turns of the promise queue. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await Promise.resolve();
}

/** Calls as promises that count how many run at once; call `i` takes `turnsOf(i)`. */
function counted(turnsOf: (call: number) => number) {
  const seen = { running: 0, peak: 0, done: 0 };
  const call = async (i: number): Promise<number> => {
    seen.peak = Math.max(seen.peak, ++seen.running);
    await turns(turnsOf(i));
    seen.running -= 1;
    seen.done += 1;
    return i;
  };
  return { seen, call };
}

const statuses = (results: readonly Settled<unknown, unknown>[]): string[] => results.map(({ status }) => status);

describe('a limit on the calls at a time', () => {
  /** A common way to write it: take the promise that has settled out of the list. The search finds any other one. */
  async function limitThatBreaks(tasks: readonly (() => Promise<number>)[], limit: number): Promise<number[]> {
    const results: number[] = [];
    const running: Promise<void>[] = [];
    for (const [i, task] of tasks.entries()) {
      const promise = task().then((value) => {
        results[i] = value;
      });
      void running.push(promise);
      if (running.length >= limit) {
        await Promise.race(running);
        void running.splice(
          running.findIndex((other) => other !== promise),
          1,
        );
      }
    }
    await Promise.all(running);
    return results;
  }

  // Once call 2 has settled and stays in the list, every race is won at once; call 0 is taken out while it runs, and never waited for.
  const turnsOf = (i: number): number => ({ 0: 2000, 2: 1 })[i] ?? 50;
  const list = Array.from({ length: 20 }, (_, i) => i);

  it('is broken by taking the wrong promise out of the list, which also loses results', async () => {
    const { seen, call } = counted(turnsOf);
    const results = await limitThatBreaks(
      list.map((i) => () => call(i)),
      3,
    );
    expect(seen.peak).toBeGreaterThan(3);
    expect(Object.keys(results).length).toBeLessThan(20);
    await turns(2000);
    expect(seen.done).toBe(20);
  });

  it('holds here, and no result is missing', async () => {
    const { seen, call } = counted(turnsOf);
    const results = await lastValueFrom(settleAll(list, call, { concurrency: 3 }));
    expect(seen.peak).toBe(3);
    expect(results.map((result) => result.status === 'fulfilled' && result.value)).toEqual(list);
  });

  it('survives a call that throws instead of returning a promise', async () => {
    const throws = (i: number): Promise<number> => {
      if (i === 1) throw new Error('no promise at all');
      return Promise.resolve(i);
    };
    await expect(
      limitThatBreaks(
        [0, 1, 2].map((i) => () => throws(i)),
        2,
      ),
    ).rejects.toThrow('no promise at all');
    expect(statuses(await lastValueFrom(settleAll([0, 1, 2], throws)))).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });
});

describe("mode 'all'", () => {
  it('aborts the others at once; under Promise.all they run to their end', async () => {
    const fault = new Error('second');
    const work = () => {
      const seen = { aborted: 0, done: 0 };
      const call = async (i: number, { signal }: { readonly signal: AbortSignal }): Promise<number> => {
        signal.addEventListener('abort', () => (seen.aborted += 1));
        if (i === 1) throw fault;
        await turns(5);
        if (!signal.aborted) seen.done += 1;
        return i;
      };
      return { seen, call };
    };
    const stock = work();
    await expect(Promise.all([0, 1, 2].map((i) => stock.call(i, new AbortController())))).rejects.toBe(fault);
    const ours = work();
    await expect(lastValueFrom(settleAll([0, 1, 2], ours.call, { errors: 'propagate' }))).rejects.toBe(fault);
    await turns(100);
    expect(stock.seen).toEqual({ aborted: 0, done: 2 });
    expect(ours.seen).toEqual({ aborted: 2, done: 0 });
  });

  it('makes no further calls after a failure; the list of Promise.all is started before anything can fail', () => {
    const made: number[] = [];
    const fault = new Error('broken');
    const errors: unknown[] = [];
    settleAll(
      [0, 1, 2, 3],
      (i) => {
        made.push(i);
        return i === 1 ? throwError(() => fault) : of(i);
      },
      { errors: 'propagate', concurrency: 1 },
    ).subscribe({ error: (error: unknown) => errors.push(error) });
    expect(made).toEqual([0, 1]);
    expect(errors).toEqual([fault]);
  });
});

describe('the results', () => {
  it('keep the call they belong to: two calls of one tool can be told apart', async () => {
    const calls = [
      { id: 'x', tool: 'read' },
      { id: 'y', tool: 'read' },
    ];
    const results = await lastValueFrom(
      settleAll(calls, ({ id }) => (id === 'x' ? Promise.reject(new Error('gone')) : Promise.resolve(id))),
    );
    expect(results).toMatchObject([
      { status: 'rejected', input: { id: 'x' }, index: 0 },
      { status: 'fulfilled', input: { id: 'y' }, index: 1, value: 'y' },
    ]);
  });

  it('belong to the list as it was when the calls were handed over', () => {
    const calls = ['a', 'b'];
    const seen: string[] = [];
    const all = settleAll(calls, (call) => of(call));
    calls.push('c');
    all.subscribe((results) => seen.push(...results.map(({ input }) => input)));
    expect(seen).toEqual(['a', 'b']);
  });

  it('are the call’s own arguments: nothing else is passed along', () => {
    const seen: number[] = [];
    settleAll([1], (...args) => {
      seen.push(args.length);
      return of(args[0]);
    }).subscribe();
    expect(seen).toEqual([2]);
  });
});

describe('a list of functions', () => {
  it('needs no project: each is told its index and its signal, and stands for itself in its result', () => {
    const told: [number, boolean][] = [];
    const calls = ['x', 'y'].map((value) => ({ index, signal }: { readonly index: number; readonly signal: AbortSignal }) => {
      told.push([index, signal.aborted]);
      return of(value);
    });
    const seen: unknown[] = [];
    settleAll(calls).subscribe((results) => {
      seen.push(...results.map((result) => [result.status === 'fulfilled' && result.value, result.input === calls[result.index]]));
    });
    expect(told).toEqual([
      [0, false],
      [1, false],
    ]);
    expect(seen).toEqual([
      ['x', true],
      ['y', true],
    ]);
  });

  it('takes the same options', async () => {
    const fault = new Error('second');
    await expect(lastValueFrom(settleAll([() => NEVER, () => Promise.reject(fault)], { errors: 'propagate' }))).rejects.toBe(fault);
  });

  it('may be empty', async () => {
    expect(await lastValueFrom(settleAll([]))).toEqual([]);
  });

  it.each<[string, () => unknown, string]>([
    ['data', () => settleAll(['a'] as never), 'expected `project` to be a function, got `undefined`'],
    ['data with options', () => settleAll(['a'] as never, {}), 'expected `project` to be a function, got an object of type Object'],
    ['a hole', () => settleAll([undefined] as never), 'expected `project` to be a function, got `undefined`'],
    [
      'options in the third place',
      () => settleAll([() => of(1)], {} as never, {}),
      'expected `project` to be a function, got an object of type Object',
    ],
    ['options that are no object', () => settleAll([() => of(1)], 5 as never), 'expected `options` to be an object, got `5` (number)'],
    ['options that are null', () => settleAll([() => of(1)], null as never), 'expected `options` to be an object, got `null`'],
    ['no list', () => settleAll(new Set([() => of(1)]) as never), 'expected `calls` to be an array, got an object of type Set'],
    ['unknown options', () => settleAll([() => of(1)], { limit: 5 } as never), 'unknown option `limit`. Did you mean `limiter`?'],
  ])('refuses %s', (_title, create, message) => {
    expect(create).toThrow(message);
  });
});

describe('the guard', () => {
  it('is asked when a call has its place, not before', () => {
    virtualTime(({ flush, now }) => {
      const asked: [string, number][] = [];
      settleAll(['a', 'b'], () => timer(10), {
        concurrency: 1,
        guard: (call) => {
          asked.push([call, now()]);
          return true;
        },
      }).subscribe();
      flush();
      expect(asked).toEqual([
        ['a', 0],
        ['b', 10],
      ]);
    });
  });

  it('is told the index and the signal of the call', () => {
    const told: [number, boolean][] = [];
    settleAll(['a', 'b'], () => NEVER, {
      guard: (_call, { index, signal }) => {
        told.push([index, signal.aborted]);
        return true;
      },
    })
      .subscribe()
      .unsubscribe();
    expect(told).toEqual([
      [0, false],
      [1, false],
    ]);
  });

  it('may refuse with a reason, later or at once, and the error says which call', async () => {
    const answers: Readonly<Record<string, boolean | string | Promise<boolean | string>>> = {
      yes: true,
      no: false,
      why: 'not in this folder',
      'later yes': Promise.resolve(true),
      'later why': Promise.resolve('the user said no'),
    };
    const results = await lastValueFrom(settleAll(Object.keys(answers), (call) => of(call), { guard: (call) => answers[call] ?? false }));
    expect(statuses(results)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled', 'rejected']);
    const refusals = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as GuardRefusedError] : []));
    expect(refusals.every((refusal) => refusal instanceof GuardRefusedError && refusal.code === 'FLOW_REFUSED')).toBe(true);
    expect(refusals.map(({ index, reason }) => [index, reason])).toEqual([
      [1, undefined],
      [2, 'not in this folder'],
      [4, 'the user said no'],
    ]);
    expect(refusals[1]?.message).toBe('settleAll: the guard refused call 2');
    expect(results.map(({ attempts }) => attempts)).toEqual([1, 0, 0, 1, 0]);
    expect(classifyError(refusals[0], { size: 1, attempt: 1, aborted: false }).class).toBe('fatal');
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no opinion');
      },
    ],
    ['rejects', () => Promise.reject(new Error('no opinion'))],
    ['answers something else', () => 1 as never],
  ])('that %s refuses the call with a CallbackError', async (_title, guard: () => boolean | Promise<boolean>) => {
    let made = 0;
    const [result] = await lastValueFrom(settleAll(['a'], () => of(++made), { guard }));
    expect(made).toBe(0);
    expect(result).toMatchObject({ status: 'rejected', attempts: 0 });
    expect(result?.status === 'rejected' && result.reason).toBeInstanceOf(CallbackError);
  });

  it('leaves no unhandled rejection, and makes no call, when the consumer leaves while it is asked', async () => {
    const unhandled: unknown[] = [];
    const listen = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', listen);
    const first = new Subject<string>();
    const made: string[] = [];
    const subscription = settleAll(
      ['a', 'b'],
      (call) => {
        made.push(call);
        return first;
      },
      {
        concurrency: 1,
        guard: (call) => {
          if (call === 'a') return true;
          subscription.unsubscribe();
          return Promise.reject(new Error('the subscriber has left'));
        },
      },
    ).subscribe();
    first.complete();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
    expect(made).toEqual(['a']);
  });

  it('that answers after the time is up has no call made', async () => {
    let allow: (answer: boolean) => void = () => undefined;
    let made = 0;
    const attempts: (number | undefined)[] = [];
    virtualTime(({ flush }) => {
      settleAll(['a'], () => of(++made), { deadlineMs: 5, guard: () => new Promise<boolean>((resolve) => (allow = resolve)) }).subscribe(
        ([result]) => attempts.push(result?.attempts),
      );
      flush();
    });
    allow(true);
    await turns(10);
    expect([made, attempts]).toEqual([0, [0]]);
  });

  it("ends everything with mode 'all'", () => {
    const errors: unknown[] = [];
    settleAll(['a', 'b'], () => NEVER, { errors: 'propagate', guard: (call) => call !== 'b' }).subscribe({
      error: (error: unknown) => errors.push(error),
    });
    expect(errors.map((error) => isFlowError(error, 'FLOW_REFUSED'))).toEqual([true]);
  });
});

describe('deadlineMs', () => {
  it('aborts what is still running before it hands out the results', () => {
    virtualTime(({ flush }) => {
      const log: string[] = [];
      settleAll(
        ['a', 'b'],
        (call, { signal }) => {
          signal.addEventListener('abort', () => log.push(`abort ${call}`));
          return NEVER;
        },
        { deadlineMs: 5 },
      ).subscribe((results) =>
        log.push(...results.map((result) => String(result.status === 'rejected' && (result.reason as Error).message))),
      );
      flush();
      const late = 'settleAll: not settled within 5 ms (5 ms elapsed)';
      expect(log).toEqual(['abort a', 'abort b', late, late]);
    });
  });

  it('is not for trying again', () => {
    expect(classifyError(new DeadlineError('settleAll', 5, 5), { size: 1, attempt: 1, aborted: false }).class).toBe('fatal');
  });

  it('ignores what a promise that did not listen says afterwards', async () => {
    const lists: unknown[] = [];
    let answer: (value: string) => void = () => undefined;
    await new Promise<void>((resolve) => {
      settleAll(['a'], () => new Promise<string>((done) => (answer = done)), { deadlineMs: 1 }).subscribe({
        next: (results) => lists.push(statuses(results)),
        complete: resolve,
      });
    });
    answer('late');
    await turns(10);
    expect(lists).toEqual([['rejected']]);
  });
});

it('makes 100,000 synchronous calls without recursion', () => {
  let count = 0;
  settleAll(
    Array.from({ length: 1e5 }, (_, i) => i),
    (i) => of(i),
    { concurrency: 1 },
  ).subscribe((results) => (count = results.filter(({ status }) => status === 'fulfilled').length));
  expect(count).toBe(1e5);
});

it('has no bound on the list: 10,000 calls wait for one that runs', () => {
  const first = new Subject<number>();
  let count = 0;
  settleAll(
    Array.from({ length: 10_001 }, (_, i) => i),
    (i) => (i === 0 ? first : of(i)),
    { concurrency: 1 },
  ).subscribe((results) => (count = results.filter(({ status }) => status === 'fulfilled').length));
  first.complete();
  expect(count).toBe(10_001);
});

it('aborts every call once when the consumer leaves: 10,000 calls, none of them listening to another', () => {
  let aborts = 0;
  const subscription = settleAll(
    Array.from({ length: 10_000 }, (_, i) => i),
    (_call, { signal }) => {
      signal.addEventListener('abort', () => (aborts += 1));
      return NEVER;
    },
    { concurrency: Infinity },
  ).subscribe();
  subscription.unsubscribe();
  expect(aborts).toBe(10_000);
});

it('reports the calls under its own name', () => {
  const events: FlowEvent[] = [];
  settleAll([1, 2], (call) => of(call), { onEvent: unstamped((event) => events.push(event)) }).subscribe();
  expect(events.length).toBeGreaterThan(0);
  expect(new Set(events.map(({ operator }) => operator))).toEqual(new Set(['settleAll']));
});

it('starts anew for every subscription', () => {
  let made = 0;
  const all = settleAll(
    [1],
    () =>
      new Observable<number>((subscriber) => {
        subscriber.next(++made);
        subscriber.complete();
      }),
  );
  const seen: unknown[] = [];
  all.subscribe(([result]) => seen.push(result?.status === 'fulfilled' && result.value));
  all.subscribe(([result]) => seen.push(result?.status === 'fulfilled' && result.value));
  expect(seen).toEqual([1, 2]);
});
