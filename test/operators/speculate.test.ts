import { finalize, NEVER, Observable, of, Subject, take, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, SpeculateOptions } from '../../operators/index.js';
import { isFlowError, speculate } from '../../operators/index.js';
import type { SpeculateContext } from '../../operators/speculate.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

/** A guess and a question match when they are equal; every run shows its context to `log`. */
function speculation(
  run: (call: number, context: SpeculateContext) => Observable<number> | Promise<number>,
  options: Partial<SpeculateOptions<number, number>> = {},
) {
  const guesses = new Subject<number>();
  const questions = new Subject<number>();
  const log: string[] = [];
  const events: FlowEvent[] = [];
  const subscription = speculate(run, {
    predict: guesses,
    confirm: questions,
    match: (guess: number, question: number) => guess === question,
    onEvent: unstamped((event) => events.push(event)),
    ...options,
  }).subscribe({
    next: (value) => log.push(String(value)),
    error: (error: unknown) => log.push(String(error)),
    complete: () => log.push('complete'),
  });
  return { guesses, questions, log, events, subscription };
}

describe('a run', () => {
  it('is told whether it is a guess', () => {
    const told: [number, boolean][] = [];
    const { guesses, questions } = speculation((call, { isSpeculative }) => {
      told.push([call, isSpeculative]);
      return of(call);
    });
    guesses.next(1);
    questions.next(2);
    expect(told).toEqual([
      [1, true],
      [2, false],
    ]);
  });

  it('of a wrong guess is aborted before the real call is made', () => {
    const log: string[] = [];
    const { guesses, questions } = speculation((call, { signal }) => {
      log.push(`run ${String(call)}`);
      signal.addEventListener('abort', () => log.push(`abort ${String(call)}: ${(signal.reason as DOMException).name}`));
      return NEVER;
    });
    guesses.next(1);
    questions.next(2);
    expect(log).toEqual(['run 1', 'abort 1: AbortError', 'run 2']);
  });

  it('that has ended is not aborted any more', () => {
    const signals: AbortSignal[] = [];
    const { guesses, questions, subscription } = speculation((call, { signal }) => {
      signals.push(signal);
      return of(call);
    });
    guesses.next(1);
    questions.next(1);
    guesses.next(2);
    subscription.unsubscribe();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it('that is a promise is held and dropped like any other', async () => {
    const { guesses, questions, log } = speculation((call) => Promise.resolve(call * 10));
    const tick = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));
    guesses.next(1);
    await tick();
    expect(log).toEqual([]);
    questions.next(1);
    expect(log).toEqual(['10']);
    guesses.next(2);
    questions.next(3);
    await tick();
    expect(log).toEqual(['10', '30']);
  });

  it('that fails on a guess is made again; its failure is reported', () => {
    let runs = 0;
    const fault = Object.assign(new Error('overloaded'), { status: 503 });
    const { guesses, questions, log, events } = speculation((call) => (runs++ === 0 ? throwError(() => fault) : of(call)));
    guesses.next(1);
    questions.next(1);
    expect(log).toEqual(['1']);
    expect(events).toEqual([{ type: 'swallowed', operator: 'speculate', lane: 'default' }]);
  });
});

describe('a guess that says the same again', () => {
  const runOf = () => {
    const calls: unknown[] = [];
    const run = (call: number): Observable<number> => {
      calls.push(call);
      return NEVER;
    };
    return { calls, run };
  };

  it('keeps its call: five equal guesses are one, and the question has it', () => {
    const { calls, run } = runOf();
    const { guesses, questions, events } = speculation(run);
    for (let i = 0; i < 5; i++) guesses.next(7);
    questions.next(7);
    expect([calls, events]).toEqual([[7], []]);
  });

  it('keeps the call of an alternative as well', () => {
    const { calls, run } = runOf();
    const { guesses, events } = speculation(run, { concurrency: 2 });
    for (const guess of [1, 2, 1, 2, 2, 1]) guesses.next(guess);
    expect([calls, events]).toEqual([[1, 2], []]);
  });

  it('has no more time than the first had, and is run again when that is over, was wrong or has failed', () => {
    const calls: unknown[] = [];
    virtualTime((clock) => {
      const { guesses, questions, subscription } = speculation(
        (call) => {
          calls.push([call, clock.now()]);
          return call === 3 ? throwError(() => new Error('no')) : NEVER;
        },
        { ttlMs: 10 },
      );
      guesses.next(1);
      clock.advance(9);
      guesses.next(1);
      clock.advance(1);
      guesses.next(1);
      questions.next(2);
      guesses.next(1);
      guesses.next(3);
      guesses.next(3);
      subscription.unsubscribe();
    });
    expect(calls).toEqual([
      [1, 0],
      [1, 10],
      [2, 10],
      [1, 10],
      [3, 10],
      [3, 10],
    ]);
  });
});

it('is told nothing of a run that a rule for the match has made fail: the call is made again', () => {
  const guess = new Subject<number>();
  const guesses = new Subject<number>();
  const questions = new Subject<number>();
  const made: boolean[] = [];
  speculate(
    (_call: number, { isSpeculative }) => {
      made.push(isSpeculative);
      return isSpeculative ? guess : of(1);
    },
    {
      predict: guesses,
      confirm: questions,
      match: () => {
        guess.error(new Error('lost'));
        return true;
      },
    },
  ).subscribe();
  guesses.next(1);
  questions.next(1);
  expect(made).toEqual([true, false]);
});

describe('what is given up', () => {
  it('is reported: replaced, wrong, too old, too long', () => {
    virtualTime(({ advance }) => {
      const { guesses, questions, events, subscription } = speculation((call) => (call === 9 ? of(1, 2, 3) : NEVER), {
        ttlMs: 10,
        maxQueued: 2,
      });
      guesses.next(1);
      guesses.next(2);
      questions.next(3);
      guesses.next(4);
      advance(10);
      guesses.next(9);
      subscription.unsubscribe();
      expect(events).toEqual([
        { type: 'cancelled', operator: 'speculate', lane: 'default', count: 1 },
        { type: 'cancelled', operator: 'speculate', lane: 'default', count: 1 },
        { type: 'expired', operator: 'speculate', lane: 'default', deadlineMs: 10 },
        { type: 'dropped', operator: 'speculate', lane: 'default', policy: 'maxQueued' },
        { type: 'cancelled', operator: 'speculate', lane: 'default', count: 1 },
      ]);
    });
  });

  it('is reported once, also when the consumer leaves later', () => {
    const { guesses, questions, events, subscription } = speculation(() => NEVER);
    questions.next(1);
    guesses.next(2);
    questions.complete();
    expect(events).toHaveLength(1);
    subscription.unsubscribe();
    expect(events).toEqual([1, 1].map((count) => ({ type: 'cancelled', operator: 'speculate', lane: 'default', count })));
  });

  it('cannot come back by answering its signal', () => {
    const { guesses, questions, log, events } = speculation(
      (call, { signal }) =>
        new Observable((subscriber) => {
          signal.addEventListener('abort', () => {
            subscriber.next(call);
            subscriber.error(new Error('stopped'));
          });
        }),
    );
    guesses.next(1);
    questions.next(2);
    questions.complete();
    expect(log).toEqual([]);
    expect(events.map(({ type }) => type)).toEqual(['cancelled']);
  });
});

describe('the timer of ttlMs', () => {
  it('is for each prediction, in the order they came', () => {
    virtualTime(({ advance, now }) => {
      const ends: [number, number][] = [];
      const { guesses, subscription } = speculation(
        (call, { signal }) => {
          signal.addEventListener('abort', () => ends.push([call, now()]));
          return NEVER;
        },
        { ttlMs: 10, concurrency: 2 },
      );
      guesses.next(1);
      advance(4);
      guesses.next(2);
      advance(20);
      subscription.unsubscribe();
      expect(ends).toEqual([
        [1, 10],
        [2, 14],
      ]);
    });
  });

  it.each<[string, (guesses: Subject<number>, questions: Subject<number>) => void]>([
    [
      'is confirmed',
      (_guesses, questions) => {
        questions.next(1);
      },
    ],
    [
      'cannot be confirmed any more',
      (guesses, questions) => {
        questions.next(1);
        guesses.next(2);
        questions.complete();
        guesses.next(3);
      },
    ],
    [
      'has failed',
      (guesses) => {
        guesses.next(13);
      },
    ],
  ])('is cleared when the prediction %s', (_title, go) => {
    const scheduler = new CountingScheduler();
    const made: number[] = [];
    const { guesses, questions, subscription } = speculation(
      (call) => {
        made.push(call);
        return call === 13 ? throwError(() => new Error('no luck')) : NEVER;
      },
      { scheduler },
    );
    guesses.next(1);
    go(guesses, questions);
    expect(scheduler.actions).toHaveLength(0);
    expect(made).not.toContain(3);
    subscription.unsubscribe();
  });
});

describe('a consumer that leaves through the signal of a guess', () => {
  const leaving = (made: number[], scheduler: CountingScheduler) => {
    const result = speculation(
      (call, { signal }) => {
        made.push(call);
        signal.addEventListener('abort', () => {
          result.subscription.unsubscribe();
        });
        return NEVER;
      },
      { scheduler },
    );
    return result;
  };

  it('has no further call made when that guess was wrong', () => {
    const made: number[] = [];
    const { guesses, questions } = leaving(made, new CountingScheduler());
    guesses.next(1);
    questions.next(2);
    expect(made).toEqual([1]);
  });

  it('has no further guess run, and leaves no timer, when that guess was replaced', () => {
    const made: number[] = [];
    const scheduler = new CountingScheduler();
    const { guesses } = leaving(made, scheduler);
    guesses.next(1);
    guesses.next(2);
    expect(made).toEqual([1]);
    expect(scheduler.actions).toHaveLength(0);
  });
});

describe('a run that emits without end while it is being started', () => {
  const endless = (seen: { made: number }): Observable<number> =>
    new Observable((subscriber) => {
      while (!subscriber.closed && seen.made < 1000) subscriber.next(seen.made++);
    });

  it('is left when the consumer of a confirmed call has enough', () => {
    const seen = { made: 0 };
    const values: number[] = [];
    speculate(() => endless(seen), { predict: NEVER, confirm: of(1), match: () => false })
      .pipe(take(2))
      .subscribe((value) => values.push(value));
    expect(values).toEqual([0, 1]);
    expect(seen.made).toBe(2);
  });

  it('is left when a guess has said more than maxQueued', () => {
    const seen = { made: 0 };
    const { guesses } = speculation(() => endless(seen), { maxQueued: 3 });
    guesses.next(1);
    expect(seen.made).toBe(4);
  });
});

it('hands on what a confirmed call said before it failed, also from inside a value', () => {
  const answer = new Subject<number>();
  const fault = new Error('cut off');
  const log: unknown[] = [];
  speculate(() => answer, { predict: NEVER, confirm: of(1), match: () => false }).subscribe({
    next: (value) => {
      log.push(value);
      if (value !== 1) return;
      answer.next(2);
      answer.error(fault);
    },
    error: (error: unknown) => log.push(error),
  });
  answer.next(1);
  expect(log).toEqual([1, 2, fault]);
});

it('hands on what a confirmed call said before it failed, also when another call made it fail', () => {
  const [first, second] = [new Subject<number>(), new Subject<number>()];
  const fault = new Error('cut off');
  const log: unknown[] = [];
  const questions = new Subject<number>();
  speculate(
    (call: number) => {
      if (call === 3) second.error(fault);
      return call === 1 ? first : second;
    },
    {
      predict: NEVER,
      confirm: questions,
      match: () => false,
    },
  ).subscribe({
    next: (value) => {
      log.push(value);
      if (value !== 10) return;
      questions.next(3);
      second.next(20);
    },
    error: (error: unknown) => log.push(error),
  });
  questions.next(1);
  questions.next(2);
  first.next(10);
  expect(log).toEqual([10, 20, fault]);
});

it('errors when match throws, with what it threw as the cause, and stops every call', () => {
  const fault = new Error('no opinion');
  const errors: unknown[] = [];
  const guesses = new Subject<number>();
  const questions = new Subject<number>();
  let aborted = 0;
  speculate(
    (_call: number, { signal }) => {
      signal.addEventListener('abort', () => (aborted += 1));
      return NEVER;
    },
    {
      predict: guesses,
      confirm: questions,
      match: () => {
        throw fault;
      },
    },
  ).subscribe({ error: (error: unknown) => errors.push(error) });
  guesses.next(1);
  questions.next(1);
  expect(errors.map((error) => isFlowError(error, 'FLOW_CALLBACK') && error.cause)).toEqual([fault]);
  expect(aborted).toBe(1);
});

it('completes when the consumer ends it from inside a value, after that value', () => {
  const { guesses, questions, log } = speculation((call) => {
    if (call === 1) questions.complete();
    return of(call);
  });
  guesses.next(1);
  expect(log).toEqual(['complete']);
});

it('does not recurse: 100,000 calls confirmed from inside the value before', () => {
  const questions = new Subject<number>();
  let last = 0;
  speculate((call: number) => of(call), { predict: NEVER, confirm: questions, match: () => false }).subscribe((value) => {
    last = value;
    if (value < 1e5) questions.next(value + 1);
  });
  questions.next(1);
  expect(last).toBe(1e5);
});

it('does not recurse: 100,000 values that a call is made to say from inside the value before', () => {
  const answer = new Subject<number>();
  let last = 0;
  speculate(() => answer, { predict: NEVER, confirm: of(1), match: () => false }).subscribe((value) => {
    last = value;
    if (value < 1e5) answer.next(value + 1);
  });
  answer.next(1);
  expect(last).toBe(1e5);
});

it('aborts the signal of a call before it leaves the call', () => {
  const log: string[] = [];
  const { questions, subscription } = speculation(
    (_call, { signal }) =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => log.push('abort'));
        subscriber.add(() => log.push('leave'));
      }),
  );
  questions.next(1);
  subscription.unsubscribe();
  expect(log).toEqual(['abort', 'leave']);
});

it('keeps no signal of 10,000 calls on its own account', () => {
  let aborted = 0;
  const { guesses, questions, subscription } = speculation((call, { signal }) => {
    signal.addEventListener('abort', () => (aborted += 1));
    return of(call);
  });
  for (let call = 0; call < 10_000; call++) {
    guesses.next(call);
    questions.next(call);
  }
  subscription.unsubscribe();
  expect(aborted).toBe(0);
});

it('makes a call that is confirmed while its guess fails', () => {
  const broken = new Subject<never>();
  let calls = 0;
  const { guesses, questions, log } = speculation((call) => {
    calls += 1;
    return calls === 1
      ? broken.pipe(
          finalize(() => {
            questions.next(1);
          }),
        )
      : of(call);
  });
  guesses.next(1);
  broken.error(new Error('the guess fails'));
  expect([calls, ...log]).toEqual([2, '1']);
});

describe('speculate', () => {
  expectNoUnhandledRejections();

  it('runs a call anew that a listener confirms while its prediction is given up for its length', () => {
    const predict = new Subject<number>();
    const confirm = new Subject<number>();
    const predicted = new Subject<string>();
    const seen: string[] = [];
    speculate((_call, { isSpeculative }) => (isSpeculative ? predicted : of('anew')), {
      predict,
      confirm,
      match: () => true,
      maxQueued: 1,
      onEvent: ({ type }) => {
        if (type === 'dropped') confirm.next(0);
      },
    }).subscribe({ next: (value) => seen.push(value), complete: () => seen.push('complete') });
    predict.next(0);
    predicted.next('a');
    predicted.next('b');
    confirm.complete();
    expect(seen).toEqual(['anew', 'complete']);
  });
});
