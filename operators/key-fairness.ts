import { MostUrgentFirst, OldestFirst } from './kernel/queues/ranked-lanes.js';
import { unusable } from './options/answers.js';
import { ask } from './options/ask.js';
import { required } from './options/options.js';
import type { KeyFairness, KeyFairnessRule } from './shell/item-options.js';

/**
 * `fairness` of {@link bulkheadMap} and {@link concatMapBy}: the oldest of the waiting items goes first, whatever its key. Without it keys take turns,
 * and a key with much to do cannot hold up the others.
 *
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { bulkheadMap, oldestFirst } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const run = (item: string) => of(item);
 * of('a1', 'a2', 'b1').pipe(bulkheadMap(run, { key: (item) => item[0], concurrency: 1, fairness: oldestFirst() })).subscribe(({ input }) => {
 *   seen.push(input);
 * });
 * seen; // => ['a1', 'a2', 'b1']
 * ```
 */
export function oldestFirst(): KeyFairness<unknown> & { readonly levelOf?: undefined } {
  return { turns: () => new OldestFirst() };
}

/**
 * `fairness` of {@link bulkheadMap}: the most urgent of the waiting items goes first, equals by key in turn. With it `overflow: 'dropLowest'` is
 * possible: the least urgent goes when there is no room.
 *
 * @param priority - How urgent an item is, a finite number >= 0, 0 first. A throw, or any other answer, rejects the item (`CallbackError`).
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `priority` is no function.
 * @example
 * ```ts
 * import { NEVER, Subject } from 'rxjs';
 * import { bulkheadMap, byPriority } from 'sluice/operators';
 *
 * const [jobs, started] = [new Subject<number>(), new Array<number>()];
 * const first = new Subject<number>();
 * const run = (level: number) => (started.push(level), level === 5 ? first : NEVER);
 * jobs.pipe(bulkheadMap(run, { concurrency: 1, fairness: byPriority((level) => level) })).subscribe();
 * for (const level of [5, 9, 2]) jobs.next(level);
 * first.complete();
 * started; // => [5, 2]
 * ```
 */
export function byPriority<T>(priority: (item: T) => number): KeyFairness<T> {
  required('byPriority', 'priority', priority);
  const rule: KeyFairnessRule<T> = {
    levelOf: (operator, item) => {
      const level: unknown = ask(operator, 'priority', priority, item);
      if (typeof level === 'number' && level >= 0 && level < Infinity) return level;
      throw unusable(operator, 'priority', 'a finite number >= 0', level);
    },
    turns: (dropsLowest) => new MostUrgentFirst(dropsLowest),
  };
  return rule;
}
