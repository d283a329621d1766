import type { OperatorFunction, Subscriber } from 'rxjs';
import {
  asyncScheduler,
  bufferCount,
  catchError,
  defer,
  filter,
  identity,
  map,
  mergeMap,
  NEVER,
  Observable,
  of,
  tap,
  throwError,
  toArray,
} from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import type { LawSubject } from '../../marbles/laws.js';
import { checkLaws, LawBrokenError, laws } from '../../marbles/laws.js';
import { CallbackError } from '../../operators/index.js';

type Numbers = OperatorFunction<number, number>;

/** Obeys every law: hands every item on, one after the other. */
const lawful: LawSubject<number> = {
  operator: 'pass',
  create: () => inTurn(),
  itemsOf: (item) => [item],
  holdsAtMost: 4,
  throwing: { check: (fault) => map(guard(fault)) },
  abortable: (seen) => aborts(seen, new DOMException('left', 'AbortError')),
};

const pass = (create: () => Numbers): LawSubject<number> => ({ ...lawful, create });
const fours = (create: () => OperatorFunction<number, number[]>): LawSubject<number[]> => ({
  operator: 'pass',
  create,
  itemsOf: (items) => items,
  holdsAtMost: 4,
});

/** What an operator that breaks a law has left on the host. */
const hostTimers: NodeJS.Timeout[] = [];

afterEach(() => {
  for (const timer of hostTimers.splice(0)) clearTimeout(timer);
});

/** For every law, operators that break it and a piece of what is said about them. */
const breakers: Readonly<Record<string, readonly (readonly [problem: string, subject: LawSubject])[]>> = {
  'leaves nothing behind on NEVER': [
    [
      'a scheduler action due at 1000 ms left 0 item(s) and 0 ms after the start',
      pass(() => tapSubscribe(() => asyncScheduler.schedule(() => undefined, 1000))),
    ],
    [
      'a subscription to the source left',
      pass(
        () => (source) =>
          new Observable(
            (to) =>
              void source.subscribe((item) => {
                to.next(item);
              }),
          ),
      ),
    ],
    [
      'a timeout of 100000 ms',
      pass(() =>
        tapSubscribe(() => {
          hostTimers.push(setTimeout(() => undefined, 100_000));
        }),
      ),
    ],
    [
      'an abort listener',
      pass(() =>
        tapSubscribe(() => {
          new AbortController().signal.addEventListener('abort', () => undefined);
        }),
      ),
    ],
  ],
  'forwards the source error as the same object': [
    ['something else after 0 item(s): Error: wrapped', pass(() => catchError(() => throwError(() => new Error('wrapped'))))],
    ['errored 0 times', pass(() => catchError(() => of(0)))],
  ],
  'stops a synchronous source once the consumer has enough': [
    [
      'the source went on from item 0 to 10000',
      pass(
        () => (source) =>
          new Observable((to) =>
            source.subscribe({
              next: (item) => {
                to.next(item);
              },
              complete: () => {
                to.complete();
              },
            }),
          ),
      ),
    ],
    ['nothing came out', pass(() => () => NEVER)],
  ],
  'keeps no state between subscriptions': [
    [
      'first [2,4,6], later [',
      pass(() => {
        let seen = 0;
        return map((item) => item + ++seen);
      }),
    ],
  ],
  'is silent after a terminal notification': [
    [
      'sent 1 notification(s) after the end',
      pass(
        () => (source) =>
          new Observable((to) =>
            source.subscribe({
              next: (item) => {
                to.next(item);
              },
              error: (error: unknown) => {
                to.error(error);
              },
              complete: () => {
                to.complete();
                // eslint-disable-next-line rxjs-x/no-redundant-notify -- this is what the law must notice
                to.next(0);
              },
            }),
          ),
      ),
    ],
    [
      'did not end',
      pass(
        () => (source) =>
          new Observable((to) =>
            source.subscribe((item) => {
              to.next(item);
            }),
          ),
      ),
    ],
  ],
  'turns a throwing callback into an error': [
    [
      'a throw in `check` was swallowed',
      {
        ...lawful,
        throwing: {
          check: (fault) =>
            tap({
              next: () => {
                swallow(fault);
              },
            }),
        },
      },
    ],
    ['came out as Error: the fault of check, not as a CallbackError', { ...lawful, throwing: { check: (fault) => map(() => fault()) } }],
    [
      'does not carry what was thrown',
      {
        ...lawful,
        throwing: {
          check: () =>
            map(() => {
              throw new CallbackError('pass', 'check', 'threw');
            }),
        },
      },
    ],
  ],
  'keeps order and loses nothing when the consumer feeds the source': [
    [
      'of 5 items sent, 4 came out',
      pass(() =>
        inTurn((waiting) => {
          waiting.pop();
        }),
      ),
    ],
    [
      'came out after item',
      pass(() =>
        inTurn((waiting) => {
          waiting.reverse();
        }),
      ),
    ],
    [
      'came out twice',
      pass(
        () => (source) =>
          source.pipe(
            inTurn(),
            mergeMap((item) => (item === 3 ? of(item, item) : of(item))),
          ),
      ),
    ],
  ],
  'holds no more than it says': [
    ['holds 5 of 5 items, says at most 4', fours(() => toArray())],
    ['its bound is not finite', { ...lawful, holdsAtMost: Infinity }],
    [
      'of 22 items, 20 were emitted or reported dropped',
      fours(
        () => (source) =>
          source.pipe(
            bufferCount(4),
            filter((items) => items.length === 4),
          ),
      ),
    ],
  ],
  'aborts every call once, when the consumer leaves': [
    [
      'was not aborted by the time',
      {
        ...lawful,
        abortable: (seen) =>
          mergeMap(() => {
            seen(new AbortController().signal);
            return NEVER;
          }),
      },
    ],
    ['with something else than a DOMException', { ...lawful, abortable: (seen) => aborts(seen, new Error('left')) }],
    ['no work was started', { ...lawful, abortable: () => identity }],
  ],
};

it('has something to say about every law', () => {
  expect(Object.keys(breakers)).toEqual(laws.map(({ title }) => title));
});

describe.each(laws)('$title', (law) => {
  it('accepts an operator that obeys it', () => {
    expect(() => {
      law.check(lawful);
    }).not.toThrow();
  });

  it.each(breakers[law.title] ?? [])('catches: %s', (problem, subject) => {
    const broken = caught(() => {
      law.check(subject);
    });
    expect(broken).toBeInstanceOf(LawBrokenError);
    expect(broken).toMatchObject({ name: 'LawBrokenError', operator: 'pass', law: law.title });
    expect(String(broken)).toContain(problem);
  });
});

describe('checkLaws', () => {
  it('holds an operator against all laws that concern it, and says which', () => {
    expect(checkLaws(lawful)).toEqual(laws.map(({ title }) => title));
    const { throwing: _throwing, abortable: _abortable, ...plain } = lawful;
    expect(checkLaws(plain)).toHaveLength(laws.length - 2);
  });

  it('throws the one broken law as it is, and several together', () => {
    expect(caught(() => checkLaws({ ...lawful, holdsAtMost: Infinity }))).toMatchObject({
      name: 'LawBrokenError',
      law: 'holds no more than it says',
    });
    const silent = caught(() => checkLaws(pass(() => () => NEVER)));
    expect(silent).toBeInstanceOf(AggregateError);
    const { errors, message } = silent as AggregateError;
    expect(errors.length).toBeGreaterThan(3);
    for (const error of errors as LawBrokenError[]) expect(message).toContain(`pass breaks the law "${error.law}"`);
  });
});

it('leaves out the laws about callbacks and signals for an operator that has none', () => {
  const { throwing: _throwing, abortable: _abortable, ...plain } = lawful;
  expect(laws.filter((law) => !law.appliesTo(plain)).map(({ title }) => title)).toEqual([
    'turns a throwing callback into an error',
    'aborts every call once, when the consumer leaves',
  ]);
});

it('accepts a rejected item in place of an error of the stream', () => {
  const law = laws.find(({ title }) => title === 'turns a throwing callback into an error');
  const settles: LawSubject<number | CallbackError> = {
    ...lawful,
    create: () => identity,
    itemsOf: () => [],
    throwing: {
      check: (fault) =>
        map((item) => {
          try {
            return guard(fault)(item);
          } catch (error) {
            return error as CallbackError;
          }
        }),
    },
    rejectionOf: (emission) => (typeof emission === 'number' ? undefined : emission),
  };
  expect(() => law?.check(settles)).not.toThrow();
});

function guard(callback: () => unknown): (item: number) => number {
  return (item) => {
    try {
      callback();
    } catch (cause) {
      throw new CallbackError('pass', 'check', 'threw', cause);
    }
    return item;
  };
}

function swallow(callback: () => unknown): void {
  try {
    callback();
  } catch {
    // This is what the law must notice.
  }
}

function caught(action: () => void): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  return undefined;
}

function tapSubscribe(action: () => void): Numbers {
  return (source) =>
    new Observable((to) => {
      action();
      return source.subscribe(to);
    });
}

/** Starts a call per item that aborts, when it is left, with `reason`. */
function aborts(seen: (signal: AbortSignal) => void, reason: unknown): Numbers {
  return mergeMap(
    () =>
      new Observable<never>(() => {
        const controller = new AbortController();
        seen(controller.signal);
        return () => {
          controller.abort(reason);
        };
      }),
  );
}

/** Hands items on one after the other; those that come in meanwhile wait, and may be spoilt. */
function inTurn(spoil: (waiting: number[]) => void = () => undefined): Numbers {
  return (source) =>
    defer(() => {
      let waiting: number[] = [];
      let busy = false;
      const handOn = (to: Subscriber<number>): void => {
        busy = true;
        while (waiting.length > 0) {
          const items = waiting;
          waiting = [];
          if (items.length > 1) spoil(items);
          for (const next of items) to.next(next);
        }
        busy = false;
      };
      return source.pipe(
        mergeMap(
          (item) =>
            new Observable<number>((to) => {
              waiting.push(item);
              if (!busy) handOn(to);
              to.complete();
            }),
        ),
      );
    });
}
