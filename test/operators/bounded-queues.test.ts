import type { MonoTypeOperatorFunction } from 'rxjs';
import { BehaviorSubject, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { backpressure, createLimiter, rateLimit } from '../../operators/index.js';

interface Bounds {
  readonly maxQueued: number;
  readonly overflow: 'dropOldest' | 'dropNewest' | 'latest';
  readonly onDrop: (item: number) => void;
  readonly onEvent: (event: FlowEvent) => void;
}

/** Operators with a bounded queue in front of a consumer that takes nothing. */
const QUEUES: Record<string, (bounds: Bounds) => MonoTypeOperatorFunction<number>> = {
  'backpressure by number': (bounds) => backpressure({ ready: new BehaviorSubject(false), ...bounds }),
  'backpressure by weight': ({ maxQueued, ...bounds }) =>
    backpressure({ ready: new BehaviorSubject(false), ...bounds, maxWeight: maxQueued * 2, weigh: (item) => 1 + (item % 2) }),
  rateLimit: (bounds) => {
    const limiter = createLimiter({ concurrency: 1 });
    limiter.tryAcquire();
    return rateLimit<number>(limiter, {}, bounds);
  },
};

describe('a bounded queue whose onDrop throws', () => {
  for (const [name, operator] of Object.entries(QUEUES)) {
    for (const overflow of ['dropOldest', 'dropNewest', 'latest'] as const) {
      for (const maxQueued of [1, 2, 5]) {
        for (const nth of [1, 2, 3]) {
          it(`of ${name} reports every item it does not hand on: ${overflow}, ${maxQueued} at most, the ${nth}. drop`, () => {
            const source = new Subject<number>();
            const given: number[] = [];
            const ends: unknown[] = [];
            let [sent, drops] = [0, 0];
            const onDrop = (): void => {
              if (++drops === nth) throw new Error('no room there either');
            };
            const onEvent = (event: FlowEvent): void => {
              if (event.type === 'dropped') given.push(1);
              if (event.type === 'cancelled') given.push(event.count);
            };
            source.pipe(operator({ maxQueued, overflow, onDrop, onEvent })).subscribe({ error: (error: unknown) => ends.push(error) });
            while (ends.length === 0 && sent < 100) source.next(sent++);
            expect(ends).toHaveLength(1);
            expect(given.reduce((sum, count) => sum + count, 0)).toBe(sent);
          });
        }
      }
    }
  }
});
