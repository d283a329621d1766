import { TestScheduler } from 'rxjs/testing';

/**
 * Virtual time, as `virtualTime` hands it to its function.
 * @stable
 */
export interface VirtualClock {
  readonly scheduler: TestScheduler;
  /** Virtual milliseconds since the start. */
  readonly now: () => number;
  /** Lets `ms` pass: everything due by then happens. */
  readonly advance: (ms: number) => void;
  /** Lets time pass until nothing is scheduled any more. A timer that renews itself for ever never lets it return. */
  readonly flush: () => void;
  /** How many actions wait on the scheduler. */
  readonly pending: () => number;
}

/**
 * Runs a function in virtual time: rxjs' own schedulers (async, asap, animation frame) stand still until it says `advance` or `flush`.
 * Promises and host timers are not virtual.
 *
 * @stable
 * @returns what the function returns.
 * @throws Error when the function leaves an action on the scheduler: a timer that was not cleared.
 * @example
 * ```ts
 * import { interval } from 'rxjs';
 * import { virtualTime } from 'sluice/marbles';
 *
 * const ticks = virtualTime(({ advance }) => {
 *   const seen: number[] = [];
 *   const subscription = interval(1000).subscribe((n) => seen.push(n));
 *   advance(3500);
 *   subscription.unsubscribe();
 *   return seen;
 * });
 * ticks; // => [0, 1, 2]
 * ```
 */
export function virtualTime<R>(fn: (clock: VirtualClock) => R): R {
  const scheduler = new TestScheduler(() => true);
  return scheduler.run(({ flush }) => {
    const pending = (): number => scheduler.actions.length;
    const result = fn({
      scheduler,
      now: () => scheduler.now(),
      advance: (ms) => {
        const until = scheduler.frame + ms;
        scheduler.maxFrames = until;
        scheduler.flush();
        scheduler.maxFrames = Infinity;
        scheduler.frame = until;
      },
      flush,
      pending,
    });
    if (pending() > 0)
      throw new Error(`${String(pending())} scheduler action(s) left behind at ${String(scheduler.frame)} ms of virtual time`);
    return result;
  });
}
