import type { Observable } from 'rxjs';
import { catchError, from, of, switchMap } from 'rxjs';
import type { Batcher, BatchWork, DivideOptions } from '../../operators/index.js';
import { classifyError, createBatcher, divideAndConquer } from '../../operators/index.js';

/** Ten users share a call, and each gets their own answer. A call that one bad prompt fails is split until that prompt is alone. */
export const shareCalls = (callModel: BatchWork<string, string>, divide: DivideOptions = {}): Batcher<string, string> =>
  createBatcher(callModel, { maxSize: 10, repair: divideAndConquer(divide), classify: classifyError });

/** Halving by hand, with `switchMap`: the second half ends the first. */
export const halvesWithSwitchMap = (
  callModel: (prompts: readonly string[]) => Observable<string[]>,
  prompts: readonly string[],
): Observable<string[]> =>
  callModel(prompts).pipe(
    catchError(() => {
      if (prompts.length === 1) return of([`refused: ${prompts.join('')}`]);
      const middle = Math.ceil(prompts.length / 2);
      return from([prompts.slice(0, middle), prompts.slice(middle)]).pipe(switchMap((half) => halvesWithSwitchMap(callModel, half)));
    }),
  );
