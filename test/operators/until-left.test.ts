import { Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { fromStream } from '../../operators/index.js';
import { fromNative, fromSubscribable } from '../../operators/interop.js';

interface Observer {
  next?(value: number): void;
  error?(error: unknown): void;
  complete?(): void;
}

/** What a foreign stream may do inside `subscribe`, and what becomes of it. */
const ENDS = {
  throws: () => {
    throw new Error('broken');
  },
  errors: (to: Observer) => to.error?.(new Error('broken')),
  completes: (to: Observer) => to.complete?.(),
  'emits and throws': (to: Observer) => {
    to.next?.(1);
    throw new Error('broken');
  },
  'emits and completes': (to: Observer) => {
    to.next?.(1);
    to.complete?.();
  },
};

/** The same as an iterable. */
async function* iterated(run: (observer: Observer) => void) {
  const values: number[] = [];
  run({
    next: (value) => values.push(value),
    error: (error) => {
      throw error;
    },
  });
  await Promise.resolve();
  yield* values;
}

const WAYS = {
  fromNative: (run: (observer: Observer) => void, keep: (signal: AbortSignal) => void) =>
    fromNative<number>({
      subscribe: (observer, options) => {
        keep(options!.signal!);
        run(observer!);
      },
    }),
  fromSubscribable: (run: (observer: Observer) => void, keep: (signal: AbortSignal) => void) =>
    fromSubscribable<number>((signal) => {
      keep(signal);
      return {
        subscribe: (observer) => {
          run(observer as Observer);
          return new Subject().subscribe();
        },
      };
    }),
  fromStream: (run: (observer: Observer) => void, keep: (signal: AbortSignal) => void) =>
    fromStream<number>((signal) => {
      keep(signal);
      return iterated(run);
    }),
};

describe('the signal of a foreign stream', () => {
  for (const [name, make] of Object.entries(WAYS)) {
    for (const [end, run] of Object.entries(ENDS)) {
      it(`of ${name} never fires when the stream ${end}`, async () => {
        const signals: AbortSignal[] = [];
        const ended: string[] = [];
        const source = make(run, (signal) => signals.push(signal));
        const subscription = source.subscribe({ error: () => ended.push('error'), complete: () => ended.push('complete') });
        await new Promise((resolve) => setTimeout(resolve));
        subscription.unsubscribe();
        expect(ended).toEqual([/throws|errors/.test(end) ? 'error' : 'complete']);
        expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
      });
    }
  }
});
