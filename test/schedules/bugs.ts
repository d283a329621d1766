/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access, @typescript-eslint/no-unsafe-argument -- a bug takes the place of whatever is there */
import type { Planted } from '../world/bundle.js';
import type { Subject } from '../world/subjects.js';

interface Bug extends Planted {
  readonly name: string;
  /** Whose schedules find it, when it is not in what most bugs are in. */
  readonly only?: readonly Subject[];
}

type Right = (this: any, ...given: any[]) => any;
type Wrong = (right: Right) => Right;

const bug = (name: string, file: string, of: string, wrong: Wrong, only?: readonly Subject[]): Bug => ({
  name,
  file,
  of,
  bug: wrong,
  ...(only && { only }),
});

/** Bugs that the schedules must find. One whose function is not there any more has to be planted anew. */
export const BUGS: readonly Bug[] = [
  bug('a forgotten abort', 'shell/abort.ts', 'LazySignal.abort', () => () => undefined),
  bug("a listener left on a user's signal", 'shell/abort.ts', 'onAbort', (listen) => (signal, listener) => {
    listen(signal, listener);
    return () => undefined;
  }),
  bug('a retry of a fatal error', 'options/retry.ts', 'isRetryable', () => (verdict) => verdict.class !== 'itemFault'),
  bug(
    'savings kept when the rate falls',
    'kernel/limits/token-bucket.ts',
    'TokenBucket.resize',
    (resize) =>
      function (perMinute, capacity, now) {
        resize.call(this, perMinute, Math.max(capacity, this.capacity), now);
      },
  ),
  bug('results held back for an item that has left', 'kernel/queues/reorder-buffer.ts', 'ReorderBuffer.leave', () => () => undefined),
  bug(
    'the half that was sent taken for the one that was not',
    'kernel/repair/bad-item-search.ts',
    'BadItemSearch.succeeded',
    (succeeded) =>
      function (call, spent) {
        const step = succeeded.call(this, call, spent);
        return { ...step, send: call.length > 1 ? call : step.send };
      },
  ),
  bug(
    'what a search has put aside forgotten',
    'kernel/repair/bad-item-search.ts',
    'BadItemSearch.untold',
    (untold) =>
      function (spent) {
        return { ...untold.call(this, spent), send: [] };
      },
  ),
  bug('the neighbour of a blamed item rejected', 'kernel/repair/divide-plan.ts', 'trustedBlame', (trusted) => (blame, size) => {
    const right = trusted(blame, size);
    return right && new Set([...right].map((i: number) => (i + 1) % size));
  }),
];
