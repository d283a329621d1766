/**
 * Draws that look random and are the same for the same seed: pass it wherever an operator takes `random`.
 *
 * @stable
 * @param seed - Any whole number.
 * @returns a function that answers with a number from 0 up to, but not including, 1.
 * @example
 * ```ts
 * import { seededRandom } from 'sluice/marbles';
 *
 * const [first, second] = [seededRandom(7), seededRandom(7)];
 * first() === second(); // => true
 * first() === seededRandom(8)(); // => false
 * ```
 */
export function seededRandom(seed: number): () => number {
  // mulberry32 (Tommy Ettinger, public domain).
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
