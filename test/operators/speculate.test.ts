import { NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { SpeculateContext, SpeculateOptions } from '../../operators/speculate.js';
import { speculate } from '../../operators/speculate.js';
import type { FlowEvent } from '../../operators/support/events.js';

/** A guess and a question match when they are equal; every run shows its context to `log`. */
function speculation(
  run: (call: number, context: SpeculateContext) => Observable<number> | Promise<number>,
  options: Partial<SpeculateOptions<number, number, number>> = {},
) {
  const guesses = new Subject<number>();
  const questions = new Subject<number>();
  const log: string[] = [];
  const events: FlowEvent[] = [];
  const subscription = speculate({
    predict: guesses,
    confirm: questions,
    match: (guess: number, question: number) => guess === question,
    run,
    onEvent: (event) => events.push(event),
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
    expect(events).toEqual([{ type: 'swallowed', operator: 'speculate', lane: 'default', class: 'transient' }]);
  });
});

describe('what is given up', () => {
  it('is reported: replaced, wrong, too old, too long', () => {
    virtualTime(({ advance }) => {
      const { guesses, questions, events, subscription } = speculation((call) => (call === 9 ? of(1, 2, 3) : NEVER), {
        ttlMs: 10,
        maxHeld: 2,
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
        { type: 'dropped', operator: 'speculate', lane: 'default', policy: 'maxHeld' },
        { type: 'cancelled', operator: 'speculate', lane: 'default', count: 1 },
      ]);
    });
  });

  it('cannot come back by answering its signal', () => {
    const { guesses, questions, log } = speculation(
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
  });
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
  speculate({ predict: NEVER, confirm: questions, match: () => false, run: (call: number) => of(call) }).subscribe((value) => {
    last = value;
    if (value < 1e5) questions.next(value + 1);
  });
  questions.next(1);
  expect(last).toBe(1e5);
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
