/** A number from 0 up to, but not including, 1: always the same for the same seed and words, whatever else was drawn before. */
export function draw(seed: number, word: string, n = 0): number {
  let h = Math.imul(seed, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b) ^ 0x5bd1e995;
  for (let i = 0; i < word.length; i++) h = Math.imul(h ^ word.charCodeAt(i), 0x01000193);
  h ^= h >>> 16;
  h = Math.imul(h, 0x7feb352d);
  h ^= h >>> 15;
  h = Math.imul(h, 0x846ca68b);
  return ((h ^ (h >>> 16)) >>> 0) / 4_294_967_296;
}

/** A run of draws. */
export class Dice {
  #n = 0;
  constructor(
    readonly seed: number,
    readonly word = '',
  ) {}

  next(): number {
    return draw(this.seed, this.word, this.#n++);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  /** A whole number, both ends included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  pick<V>(values: readonly V[]): V {
    return values[Math.floor(this.next() * values.length)]!;
  }
}
