import { Observable, Subscription } from 'rxjs';
import type { Batcher } from './create-batcher.js';
import { isFlowError } from './options/errors.js';
import { callback, count, madeBy, nonEmpty, onlyKnown, orDefault, positive } from './options/options.js';
import type { Settled } from './options/types.js';
import type { LoadOptions } from './shell/batch/loads.js';
import type { PullSource } from './shell/streams/pull.js';
import { checkPullSource, openPull } from './shell/streams/pull.js';

/** @beta */
export interface LoadFromOptions<T> extends LoadOptions {
  /** Most loads without a result: how far is read ahead of the answers. @defaultValue 160, which fills two calls of 20 in each of four slots */
  readonly concurrency?: number;
  /** Most weight of the loads without a result; a heavier item is loaded when no other is. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** Weight of an item; one that throws counts as 0. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /** What errors call it, for functions built on this one. @defaultValue 'loadFrom' */
  readonly operator?: string;
}

/**
 * Loads the items of an input that can wait through a batcher, and reads on only while few loads are without a result. They share calls with the
 * loads of other callers, and a file of a million lines is never in memory.
 *
 * - **Emits when** a load settles: one {@link Settled} each, as calls end. `index` is the item's position in the input.
 * - **Completes when** the input has ended and every load has settled. When the batcher is closed, the next load is rejected and no more are read.
 * - **Errors when** the input throws or rejects, with the same object.
 * - **On unsubscribe** the input is closed without waiting for it, and all loads leave.
 *
 * @beta
 * @param input - An Iterable, an AsyncIterable or a web ReadableStream; opened by each subscription.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the input cannot be read piece by piece or an option is unknown or out of range;
 *   `LaneUnknownError` for a lane that the batcher does not declare.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { createBatcher, loadFrom } from 'sluice/operators';
 *
 * const calls: number[] = [];
 * const batcher = createBatcher((words: readonly string[]) => {
 *   calls.push(words.length);
 *   return of(words.map((word) => word.length));
 * });
 * const lengths: unknown[] = [];
 * const one = batcher.loadAsync('asked');
 * await loadFrom(batcher, ['a', 'list']).forEach((settled) => lengths.push(settled.status === 'fulfilled' && settled.value));
 * lengths; // => [1, 4]
 * await one; // => 5
 * calls; // => [3]
 * ```
 * @see {@link batchMapFrom} when nothing else uses the batches.
 */
export function loadFrom<T, R>(
  batcher: Pick<Batcher<T, R>, 'loadSettled'>,
  input: PullSource<T>,
  options: LoadFromOptions<T> = {},
): Observable<Settled<T, R>> {
  const { operator = 'loadFrom', concurrency, maxWeight, weigh, ...load } = Object(options) as LoadFromOptions<T>;
  nonEmpty('loadFrom', 'operator', operator);
  madeBy('loadSettled', 'a batcher made by createBatcher')(operator, 'batcher', batcher);
  checkPullSource(operator, 'input', input);
  onlyKnown(operator, options, ['concurrency', 'maxWeight', 'weigh', 'operator', 'lane', 'key', 'signal', 'deadlineMs']);
  const most = count(operator, 'concurrency', orDefault(concurrency, 160));
  const heaviest = positive(operator, 'maxWeight', orDefault(maxWeight, Infinity));
  const weightOf = weightBy(callback(operator, 'weigh', weigh));
  // It is cold, so this only checks the options.
  void batcher.loadSettled(undefined as T, load);
  return new Observable((subscriber) => {
    let index = 0;
    let open = 0;
    let weight = 0;
    let ended = false;
    // Not children of the subscriber: it would look through all of them each time one ends.
    const loads = new Set<Subscription>();
    const endIfDone = (): void => {
      if (ended && open === 0) subscriber.complete();
    };
    const pull = openPull(input, {
      room: () => open === 0 || (open < most && weight < heaviest && !subscriber.closed),
      next: (item) => {
        const position = index++;
        const one = new Subscription();
        open++;
        const own = weightOf(item);
        weight += own;
        loads.add(one);
        one.add(
          // eslint-disable-next-line rxjs-x/no-ignored-error -- it has none
          batcher.loadSettled(item, load).subscribe((settled) => {
            loads.delete(one);
            open--;
            weight -= own;
            // Refused by the batcher itself, as all further loads would be; work can fail with such an error of something else.
            if (settled.index < 0 && settled.status === 'rejected' && isFlowError(settled.reason, 'FLOW_CLOSED')) {
              ended = true;
              pull.close();
            }
            subscriber.next({ ...settled, index: position, id: String(position) });
            endIfDone();
            pull.resume();
          }),
        );
      },
      done: () => {
        ended = true;
        endIfDone();
      },
      failed: (error) => {
        subscriber.error(error);
      },
    });
    subscriber.add(() => {
      pull.close();
      for (const one of loads) one.unsubscribe();
    });
    pull.resume();
  });
}

/** For reading ahead alone: the batcher rejects an item that it cannot weigh. */
function weightBy<T>(weigh: ((item: T) => number) | undefined): (item: T) => number {
  return (item) => {
    if (!weigh) return 1;
    try {
      const weight = weigh(item);
      return weight > 0 && weight < Infinity ? weight : 0;
    } catch {
      return 0;
    }
  };
}
