/**
 * A set of lane numbers that knows its smallest, its largest and the next after any: a bitmap with a second one above it that
 * says which words are not empty. A thousand lanes cost two look-ups, a million a short walk.
 *
 * Source: the bitmap of the Linux O(1) scheduler's run queue.
 */
export class LaneSet {
  readonly #words: Int32Array;
  readonly #summary: Int32Array;
  #size = 0;

  /** @param lanes members are from 0 to `lanes` - 1; this is not checked */
  constructor(lanes: number) {
    this.#words = new Int32Array((lanes + 31) >> 5);
    this.#summary = new Int32Array((this.#words.length + 31) >> 5);
  }

  get size(): number {
    return this.#size;
  }

  has(lane: number): boolean {
    return ((this.#words[lane >> 5] as number) & (1 << (lane & 31))) !== 0;
  }

  add(lane: number): void {
    if (this.has(lane)) return;
    this.#size++;
    const word = lane >> 5;
    (this.#words[word] as number) |= 1 << (lane & 31);
    (this.#summary[word >> 5] as number) |= 1 << (word & 31);
  }

  delete(lane: number): void {
    if (!this.has(lane)) return;
    this.#size--;
    const word = lane >> 5;
    if (((this.#words[word] as number) &= ~(1 << (lane & 31))) === 0) (this.#summary[word >> 5] as number) &= ~(1 << (word & 31));
  }

  /** The smallest member, or -1. */
  first(): number {
    const bits = this.#words[0] as number;
    return bits === 0 ? this.after(-1) : lowestBit(bits);
  }

  /** The smallest member above `lane`, or -1. */
  after(lane: number): number {
    const from = lane + 1;
    const word = from >> 5;
    if (word >= this.#words.length) return -1;
    const bits = (this.#words[word] as number) & (-1 << (from & 31));
    return bits === 0 ? this.#fromWord(word + 1) : (word << 5) + lowestBit(bits);
  }

  /** The largest member, or -1. */
  last(): number {
    for (let at = this.#summary.length - 1; at >= 0; at--) {
      const above = this.#summary[at] as number;
      if (above === 0) continue;
      const word = (at << 5) + 31 - Math.clz32(above);
      return (word << 5) + 31 - Math.clz32(this.#words[word] as number);
    }
    return -1;
  }

  /** The smallest member of this word or a later one, or -1. */
  #fromWord(from: number): number {
    let mask = -1 << (from & 31);
    for (let at = from >> 5; at < this.#summary.length; at++) {
      const above = (this.#summary[at] as number) & mask;
      if (above !== 0) {
        const word = (at << 5) + lowestBit(above);
        return (word << 5) + lowestBit(this.#words[word] as number);
      }
      mask = -1;
    }
    return -1;
  }
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}
