import { mergeMap, range, throwError, timer } from 'rxjs';
import { FakeProviderError, fakeProvider } from '../../marbles/fake-provider.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter } from '../../operators/index.js';
import { bulkheadMap, createLimiter } from '../../operators/index.js';

export interface BackendRun {
  /** Calls at a time, each time it changed. */
  readonly limits: readonly { readonly atMs: number; readonly limit: number }[];
  readonly refused: number;
  readonly answered: number;
  readonly maxInFlight: number;
}

/**
 * Sends calls as fast as a limiter lets them go to a backend that takes so many at a time: it answers in 100 ms, and whatever is
 * too much with 529 in 5 ms. `steer` moves the limit.
 */
export function runOverloaded(calls: number, takes: number | ((atMs: number) => number), steer: (limiter: Limiter) => unknown): BackendRun {
  return virtualTime(({ flush, now }) => {
    const provider = fakeProvider({ answer: (item: number) => item, latencyMs: 100 });
    const limits: { atMs: number; limit: number }[] = [];
    let refused = 0;
    let answered = 0;
    const limiter = createLimiter({
      onEvent: (event) => {
        if (event.type === 'limitChanged') limits.push({ atMs: now(), limit: event.concurrency });
      },
    });
    steer(limiter);
    const call = (item: number) => {
      if (provider.inFlight < (typeof takes === 'number' ? takes : takes(now()))) return provider.workOne(item);
      refused++;
      return timer(5).pipe(mergeMap(() => throwError(() => new FakeProviderError('overloaded', 529))));
    };
    range(1, calls)
      .pipe(bulkheadMap(call, { limiter, maxQueued: Infinity }))
      .subscribe(({ status }) => {
        if (status === 'fulfilled') answered++;
      });
    flush();
    return { limits, refused, answered, maxInFlight: provider.maxInFlight };
  });
}

/** What is wrong with how the limit of a run has settled around what the backend takes; an empty list when nothing is. */
export function unsettled({ limits, refused, answered }: BackendRun, takes: number): string[] {
  const first = limits.findIndex(({ limit }) => limit > takes);
  const later = first === -1 ? [] : limits.slice(first).map(({ limit }) => limit);
  const lowest = Math.floor(0.75 * (takes + 1));
  const share = refused / (refused + answered);
  return [
    ...(first === -1 ? ['it never finds out how many calls the backend takes'] : []),
    ...(later.some((limit) => limit < lowest || limit > takes + 1) ? ['it swings too far'] : []),
    ...(share > 0.02 ? [`${(100 * share).toFixed(0)} % of the calls are refused`] : []),
  ];
}
