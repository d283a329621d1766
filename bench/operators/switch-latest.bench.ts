import { map, switchLatest as mostSwitchLatest, newStream, runEffects, tap } from '@most/core';
import { currentTime, newDefaultScheduler } from '@most/scheduler';
import type { Stream } from '@most/types';
import type { Subscription } from 'rxjs';
import { Observable, range, switchMap } from 'rxjs';
import { switchLatest } from '../../operators/switch-latest.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

/** Calls that never end by themselves, except the last one, which is told to answer. Every other must have been stopped. */
class Calls {
  stopped = 0;
  answered = 0;
  #settle: ((value: number) => void) | undefined;

  start(settle: (value: number) => void): () => void {
    this.#settle = settle;
    return () => {
      this.stopped++;
    };
  }

  readonly take = (value: number): void => {
    this.answered += value;
  };

  check(what: string, n: number): void {
    this.#settle?.(1);
    assertCount(`${what}: answers`, this.answered, 1);
    assertCount(`${what}: stopped`, this.stopped, n - 1);
  }
}

function observed(calls: Calls): Observable<number> {
  return new Observable((subscriber) =>
    calls.start((value) => {
      subscriber.next(value);
    }),
  );
}

/** The least there is for Observables: leave the one before, follow the next. */
function byHand(n: number, calls: Calls): void {
  let inner: Subscription | undefined;
  for (let i = 0; i < n; i++) {
    inner?.unsubscribe();
    inner = observed(calls).subscribe(calls.take);
  }
}

/** The same without any Observable: one stop function for the call under way, and a number that tells whose answer is wanted. */
function bare(n: number, calls: Calls): void {
  let newest = -1;
  let stop: (() => void) | undefined;
  for (let i = 0; i < n; i++) {
    stop?.();
    newest = i;
    stop = calls.start((value) => {
      if (newest === i) calls.take(value);
    });
  }
}

function switches(n: number): Case {
  return {
    name: `the newest of ${n.toLocaleString('en')} calls wins, the others are stopped`,
    n,
    contestants: {
      'by hand': () => {
        const calls = new Calls();
        byHand(n, calls);
        calls.check('by hand', n);
      },
      'by hand, callbacks only': () => {
        const calls = new Calls();
        bare(n, calls);
        calls.check('callbacks', n);
      },
      'sluice switchLatest': () => {
        const calls = new Calls();
        range(0, n)
          .pipe(switchLatest(() => observed(calls)))
          .subscribe(calls.take);
        calls.check('switchLatest', n);
      },
      'rxjs switchMap': () => {
        const calls = new Calls();
        range(0, n)
          .pipe(switchMap(() => observed(calls)))
          .subscribe(calls.take);
        calls.check('switchMap', n);
      },
      '@most/core switchLatest': async () => {
        const calls = new Calls();
        const scheduler = newDefaultScheduler();
        const call = (): Stream<number> =>
          newStream((sink) => ({
            dispose: calls.start((value) => {
              sink.event(currentTime(scheduler), value);
            }),
          }));
        const source = newStream<number>((sink) => {
          const time = currentTime(scheduler);
          for (let i = 0; i < n; i++) sink.event(time, i);
          calls.check('@most/core', n);
          sink.end(time);
          // What never ends by itself keeps the result open.
          return { dispose: () => undefined };
        });
        void runEffects(tap(calls.take, mostSwitchLatest(map(call, source))), scheduler);
        await new Promise((resolve) => setTimeout(resolve));
        assertCount('@most/core: answers', calls.answered, 1);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => switches(1e6)];
