import fc from 'fast-check';
import { animationFrameScheduler, bufferTime, map, Observable, of, range, Subject, take } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { CoalesceOptions, FlowEvent } from '../../operators/index.js';
import { coalesce } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';

const join = (first: string, next: string): string => first + next;

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Text of a message, or something that is no text. */
interface Part {
  readonly id: number;
  readonly text: string;
}

const parts: CoalesceOptions<Part> = {
  merge: (first, next) => ({ id: first.id, text: first.text + next.text }),
  compatible: (pending, next) => pending.id === next.id,
  passThrough: ({ id }) => id === 0,
};

describe('whatever comes when', () => {
  const arrival = fc.record({ afterMs: fc.nat({ max: 12 }), id: fc.nat({ max: 2 }), text: fc.string({ minLength: 1, maxLength: 3 }) });
  const options = fc.record({
    maxWaitMs: fc.constantFrom(0, 5, 16, Infinity),
    maxSize: fc.constantFrom(1, 3, 1000),
  });

  it('texts add up to the same text, ids keep their order, and nothing waits for too long', () => {
    fc.assert(
      fc.property(fc.array(arrival, { maxLength: 40 }), options, (arrivals, bounds) => {
        virtualTime(({ advance, now }) => {
          const source = new Subject<Part>();
          const out: Part[] = [];
          const cameAt: number[] = [];
          let chars = 0;
          source.pipe(coalesce({ ...parts, ...bounds })).subscribe((part) => {
            const waited = now() - (cameAt[chars] as number);
            expect(waited).toBeLessThanOrEqual(bounds.maxWaitMs);
            expect(part.text.length).toBeLessThanOrEqual(3 * bounds.maxSize);
            chars += part.text.length;
            out.push(part);
          });
          for (const { afterMs, id, text } of arrivals) {
            advance(afterMs);
            for (let i = 0; i < text.length; i++) cameAt.push(now());
            source.next({ id, text });
          }
          source.complete();
          const inOrder = (all: readonly Part[]): string[] =>
            all.flatMap(({ id, text }) => Array.from({ length: text.length }, (_, i) => `${String(id)}${text.charAt(i)}`));
          expect(inOrder(out)).toEqual(inOrder(arrivals));
          // What never waits is never merged.
          expect(out.filter(({ id }) => id === 0)).toEqual(arrivals.filter(({ id }) => id === 0).map(({ id, text }) => ({ id, text })));
        });
      }),
    );
  });

  it('neighbours that belong together are one item, when the time allows it', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 2 }), { maxLength: 40 }), (ids) => {
        const seen: Part[] = [];
        of(...ids.map((id) => ({ id, text: '.' })))
          .pipe(coalesce(parts))
          .subscribe((part) => seen.push(part));
        expect(seen.some(({ id }, i) => id === seen[i + 1]?.id)).toBe(false);
      }),
    );
  });
});

describe('animation frames', () => {
  const inFrames = (marbles: string, expected: string, frames: string, options: Partial<CoalesceOptions<string>> = {}): void => {
    new TestScheduler((actual, wanted) => {
      expect(actual).toEqual(wanted);
    }).run(({ animate, cold, expectObservable }) => {
      animate(frames);
      const values = { a: 'a', d: 'd', x: 'ab', y: 'cd', z: 'bc' };
      expectObservable(cold(marbles).pipe(coalesce({ merge: join, pace: 'frame', ...options }))).toBe(expected, values);
    });
  };

  it('let what waits go', () => {
    inFrames('-ab--cd-----|', '----x--y----|', '----x--x--x--x');
    inFrames('-ab---c-d|   ', '----x----(y|)', '----x-----x----');
  });

  it('that come when nothing waits are not asked for', () => {
    inFrames('---------|', '---------|', 'x-x-x-x-x-x');
  });

  it('leave it to the time when they do not come: a hidden tab', () => {
    inFrames('-ab 200ms |', '- 100ms x 101ms |', '-------------------------------------------------------x'.replace(/-/g, '-'.repeat(10)));
    inFrames('-ab-----|', '------x-|', '----------x', { maxWaitMs: 5 });
  });

  /** A host with frames that are shown when we say so. */
  function stubFrames() {
    const waiting = new Map<number, (timestamp: number) => void>();
    let handles = 0;
    let asked = 0;
    vi.stubGlobal('requestAnimationFrame', (callback: (timestamp: number) => void) => {
      asked++;
      waiting.set(++handles, callback);
      return handles;
    });
    vi.stubGlobal('cancelAnimationFrame', (handle: number) => waiting.delete(handle));
    return {
      waiting,
      asked: () => asked,
      show: () => {
        const callbacks = [...waiting.values()];
        waiting.clear();
        for (const callback of callbacks) callback(0);
      },
    };
  }

  it('are requested once at a time, and cancelled when the subscriber leaves', () => {
    const frames = stubFrames();
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: string[] = [];
    const subscription = source.pipe(coalesce({ merge: join, pace: 'frame', maxSize: 2, scheduler })).subscribe((text) => seen.push(text));
    for (const letter of 'abcde') source.next(letter);
    expect(frames.asked()).toBe(1);
    frames.show();
    expect(seen).toEqual(['ab', 'cd', 'e']);
    expect(scheduler.actions).toHaveLength(0);
    source.next('f');
    expect(frames.waiting.size).toBe(1);
    subscription.unsubscribe();
    expect(frames.waiting.size).toBe(0);
    expect(scheduler.actions).toHaveLength(0);
    expect(seen).toEqual(['ab', 'cd', 'e']);
  });

  it('that come after `maxWaitMs` do not break the next frame', () => {
    const frames = stubFrames();
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: string[] = [];
    source.pipe(coalesce({ merge: join, pace: 'frame', scheduler })).subscribe((text) => seen.push(text));
    source.next('a');
    scheduler.flush();
    expect(seen).toEqual(['a']);
    expect(scheduler.frame).toBe(100);
    frames.show();
    source.next('b');
    expect(frames.asked()).toBe(2);
    frames.show();
    expect(seen).toEqual(['a', 'b']);
  });

  it('are not needed: in Node the time lets everything go', () => {
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: string[] = [];
    source.pipe(coalesce({ merge: join, pace: 'frame', maxWaitMs: 30, scheduler })).subscribe({
      next: (text) => seen.push(text),
      error: (error: unknown) => {
        throw error;
      },
    });
    for (const letter of 'abc') {
      source.next(letter);
      scheduler.flush();
    }
    expect(seen).toEqual(['a', 'b', 'c']);
    expect(scheduler.frame).toBe(90);
  });

  it('that come at once, from the stub of a test, come every time', () => {
    vi.stubGlobal('requestAnimationFrame', (callback: (timestamp: number) => void) => {
      callback(0);
      return 1;
    });
    vi.stubGlobal('cancelAnimationFrame', () => undefined);
    const source = new Subject<string>();
    const seen: string[] = [];
    const subscription = source.pipe(coalesce({ merge: join, pace: 'frame' })).subscribe((text) => seen.push(text));
    for (const letter of 'abc') source.next(letter);
    subscription.unsubscribe();
    expect(seen).toEqual(['a', 'b', 'c']);
  });

  it('come through a scheduler as well, when the caller passes one', () => {
    new TestScheduler((actual, wanted) => {
      expect(actual).toEqual(wanted);
    }).run(({ animate, cold, expectObservable }) => {
      animate('----x--x--x');
      expectObservable(cold('-ab--c-|').pipe(coalesce({ merge: join, maxWaitMs: 0, scheduler: animationFrameScheduler }))).toBe(
        '----x--(c|)',
        { c: 'c', x: 'ab' },
      );
    });
  });
});

describe('traps of merging by time', () => {
  it('loses no item that comes while one is handed out (bufferTime does)', () => {
    const seen = (gather: (source: Observable<string>) => Observable<string>): string =>
      virtualTime(({ flush }) => {
        const source = new Subject<string>();
        let text = '';
        gather(source).subscribe((more) => {
          if (text === '') source.next('fed');
          text += more;
        });
        source.next('a');
        source.next('b');
        flush();
        source.complete();
        return text;
      });
    expect(
      seen((source) =>
        source.pipe(
          bufferTime(10, null, 2),
          map((texts) => texts.join('')),
          take(3),
        ),
      ),
    ).not.toContain('fed');
    expect(seen((source) => source.pipe(coalesce({ merge: join, maxSize: 2 })))).toBe('abfed');
  });

  it('merges no more than maxSize of a synchronous hundred thousand, with one timer for each that is let go', () => {
    const scheduler = new CountingScheduler();
    let items = 0;
    let largest = 0;
    range(0, 1e5)
      .pipe(
        map(() => 1),
        coalesce({ merge: (first, next) => first + next, scheduler }),
      )
      .subscribe((size) => {
        items += size;
        largest = Math.max(largest, size);
      });
    expect(items).toBe(1e5);
    expect(largest).toBe(1000);
    expect(scheduler.delays).toEqual(new Array(100).fill(16));
    expect(scheduler.actions).toHaveLength(0);
  });

  it('does not recurse when the consumer answers every item with the next', () => {
    const source = new Subject<number>();
    let count = 0;
    source.pipe(coalesce({ merge: (_first, next) => next, maxSize: 1 })).subscribe((item) => {
      count++;
      if (item < 1e5) source.next(item + 1);
    });
    source.next(1);
    expect(count).toBe(1e5);
  });

  it('takes undefined for an item like any other', () => {
    const seen: unknown[] = [];
    of(undefined, undefined, null)
      .pipe(coalesce<unknown>({ merge: (first, next) => [first, next], maxSize: 2 }))
      .subscribe((item) => seen.push(item));
    expect(seen).toEqual([[undefined, undefined], null]);
  });

  it('asks and merges nothing more once the consumer has left', () => {
    const source = new Subject<string>();
    const compatible = vi.fn(() => false);
    const mergeTexts = vi.fn(join);
    const scheduler = new CountingScheduler();
    source.pipe(coalesce({ merge: mergeTexts, compatible, scheduler }), take(1)).subscribe();
    source.next('a');
    source.next('b');
    source.next('c');
    expect(compatible).toHaveBeenCalledTimes(1);
    expect(mergeTexts).not.toHaveBeenCalled();
    expect(source.observed).toBe(false);
    expect(scheduler.actions).toHaveLength(0);
  });

  it.each(['passThrough', 'compatible', 'merge', 'onEvent'])('sets no timer when %s makes the consumer leave', (name) => {
    const scheduler = new CountingScheduler();
    const source = new Subject<string>();
    const seen: string[] = [];
    const leaving = <R>(by: string, answer: R): R => {
      if (by === name) subscription.unsubscribe();
      return answer;
    };
    const subscription = source
      .pipe(
        coalesce<string>({
          passThrough: () => leaving('passThrough', false),
          compatible: () => leaving('compatible', true),
          merge: (first, next) => leaving('merge', first + next),
          onEvent: () => {
            leaving('onEvent', undefined);
          },
          maxSize: 2,
          scheduler,
        }),
      )
      .subscribe((text) => seen.push(text));
    source.next('a');
    source.next('b');
    expect(subscription.closed).toBe(true);
    expect(scheduler.actions).toHaveLength(0);
    expect(seen).toEqual([]);
  });

  it('leaves nothing behind, whichever way it is left, 1,000 times', () => {
    const scheduler = new CountingScheduler();
    using leaks = leakCheck({ scheduler });
    for (let i = 0; i < 1000; i++) {
      const source = new Subject<string>();
      const subscription = leaks
        .watch('the source', source)
        .pipe(coalesce({ merge: join, maxWaitMs: 1000, pace: 'frame', scheduler }))
        .subscribe({ error: () => undefined });
      for (const letter of 'abc') source.next(letter);
      if (i % 3 === 0) source.complete();
      else if (i % 3 === 1) source.error(new Error('the end'));
      else subscription.unsubscribe();
    }
    expect(leaks.left()).toEqual([]);
  });
});

describe('events', () => {
  it('tell why, how many and how long', () => {
    virtualTime(({ advance }) => {
      const events: FlowEvent[] = [];
      const source = new Subject<string>();
      const subscription = source
        .pipe(
          coalesce({
            merge: join,
            maxWaitMs: 10,
            maxSize: 3,
            compatible: (pending, next) => pending.length + next.length < 10,
            passThrough: (text) => text === '!',
            onEvent: unstamped((event) => events.push(event)),
          }),
        )
        .subscribe();
      source.next('ab');
      advance(4);
      source.next('c');
      advance(10);
      for (const letter of 'abc') source.next(letter);
      source.next('123456789');
      source.next('x');
      source.next('!');
      source.next('y');
      source.next('z');
      subscription.unsubscribe();
      const formed = (reason: string, size: number, waitMs: number) => ({
        type: 'batchFormed',
        operator: 'coalesce',
        lane: 'default',
        reason,
        size,
        weight: size,
        waitMs,
      });
      expect(events).toEqual([
        formed('time', 2, 10),
        formed('size', 3, 0),
        formed('incompatible', 1, 0),
        formed('incompatible', 1, 0),
        { type: 'cancelled', operator: 'coalesce', lane: 'default', count: 2 },
      ]);
    });
  });
});

describe('maxWeight', () => {
  const byChars = (maxWeight: number, more: Partial<CoalesceOptions<string>> = {}) =>
    coalesce<string>({ merge: join, maxWeight, weigh: (text) => text.length, ...more });

  it('lets go what is as heavy as it says, and what the next item would make too heavy', () => {
    const seen: string[] = [];
    of('ab', 'cd', 'e', 'fghi', 'j', 'longer', 'k')
      .pipe(byChars(4))
      .subscribe((text) => seen.push(text));
    expect(seen).toEqual(['abcd', 'e', 'fghi', 'j', 'longer', 'k']);
  });

  it('tells the weight and the reason', () => {
    const told: FlowEvent[] = [];
    of('ab', 'cd', 'e', 'fgh', 'ij')
      .pipe(byChars(4, { onEvent: (event) => told.push(event) }))
      .subscribe();
    const formed = told.flatMap((event) => (event.type === 'batchFormed' ? [[event.reason, event.size, event.weight]] : []));
    expect(formed).toEqual([
      ['weight', 2, 4],
      ['weight', 2, 4],
      ['complete', 1, 2],
    ]);
  });

  it('emits what waits before the error of a `weigh` that throws', () => {
    const seen: unknown[] = [];
    of('a', 'b')
      .pipe(byChars(9, { weigh: (text) => (text === 'a' ? 1 : NaN) }))
      .subscribe({
        next: (text) => seen.push(text),
        error: ({ callback }) => seen.push(callback),
      });
    expect(seen).toEqual(['a', 'weigh']);
  });

  it('adds nothing for a consumer that left when it was handed what waited', () => {
    const merged: string[] = [];
    const merge = (first: string, next: string): string => (merged.push(next), first + next);
    of('abc', 'de', 'f').pipe(byChars(4, { merge }), take(1)).subscribe();
    expect(merged).toEqual([]);
  });
});
