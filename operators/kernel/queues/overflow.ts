import type { Overflow, Queue, Waiter } from './queue.js';

/**
 * Who has to go so that one more fits in a lane; nobody but the newcomer, when the answer is empty. `isLaneFull` says that the bound is that of
 * the lane, so that nobody else makes room.
 */
export function victims<E extends Waiter<E>>(queue: Queue<E>, lane: number, overflow: Overflow, isLaneFull: boolean): readonly E[] {
  const found: (E | undefined)[] = [];
  if (overflow === 'dropOldest') found.push(queue.oldest(lane));
  else if (overflow === 'latest') queue.each(lane, (entry) => found.push(entry) > 0);
  else if (overflow === 'dropLowest' && !isLaneFull) {
    let lowest = lane;
    for (let at = queue.after(-1); at !== -1; at = queue.after(at)) lowest = at;
    if (lowest > lane) found.push(queue.newest(lowest));
  }
  return found.filter((entry) => entry !== undefined);
}

/** A line with nobody in it but what waits for one consumer. */
interface OwnLine<T> {
  readonly length: number;
  push(item: T): void;
  shift(): T | undefined;
}

/**
 * Lets one more into a full line of one's own: what is dropped for it, or it itself where nothing else may go. `hasRoom` says whether enough of the oldest
 * have gone, where one may not be enough.
 */
export function squeezeIn<T>(line: OwnLine<T>, item: T, overflow: Overflow, hasRoom = () => true): T[] {
  if (line.length === 0 || (overflow !== 'latest' && overflow !== 'dropOldest')) return [item];
  const dropped: T[] = [];
  do dropped.push(line.shift() as T);
  while (line.length > 0 && (overflow === 'latest' || !hasRoom()));
  line.push(item);
  return dropped;
}
