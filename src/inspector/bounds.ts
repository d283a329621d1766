/** Everything the model keeps has a bound. */
export const MOST_SAMPLES = 120;
export const MOST_ITEMS = 20_000;
export const MOST_INSTANCES = 200;
export const MOST_ENDED = 20;
export const MOST_TREES = 50;
export const MOST_CHILDREN = 100;
export const MOST_LEVELS = 100;
export const MOST_LEAVERS = 500;

/** Adds to a list that has a bound; answers with what had to go. */
export function keepLast<T>(list: T[], last: T, most: number): T | undefined {
  list.push(last);
  return list.length > most ? list.shift() : undefined;
}
