/** Slots in a table that is as good as new. */
const LEAST_SLOTS = 1024;
/** Fuller than that, and looking takes long. */
const MOST_FILLED = 0.7;

/** How often each of many keys of 16 hexadecimal digits was seen, in 17 to 34 bytes a key, where a `Map` takes more than 100. */
export class KeyCounts {
  #high = new Uint32Array(LEAST_SLOTS);
  #low = new Uint32Array(LEAST_SLOTS);
  /** One more than there are; 0 where no key has ever been. */
  #counts = new Uint32Array(LEAST_SLOTS);
  #filled = 0;
  /** All of them, each as often as it was seen. */
  total = 0;

  add(key: string): void {
    if (this.#filled >= MOST_FILLED * this.#high.length) this.#grow();
    const [high, low] = halves(key);
    this.#put(high, low, 1);
    this.total += 1;
  }

  /** Takes one away; false when there is none. */
  take(key: string): boolean {
    const [high, low] = halves(key);
    const slot = this.#find(high, low);
    if ((this.#counts[slot] as number) <= 1) return false;
    (this.#counts[slot] as number)--;
    this.total -= 1;
    return true;
  }

  #put(high: number, low: number, count: number): void {
    const slot = this.#find(high, low);
    if (this.#counts[slot] === 0) {
      this.#filled++;
      this.#counts[slot] = 1;
      this.#high[slot] = high;
      this.#low[slot] = low;
    }
    (this.#counts[slot] as number) += count;
  }

  /** Where the key is, or would be. */
  #find(high: number, low: number): number {
    const mask = this.#high.length - 1;
    // Keys are as good as random: each bit of them is a hash.
    let slot = low & mask;
    while (this.#counts[slot] !== 0 && (this.#high[slot] !== high || this.#low[slot] !== low)) slot = (slot + 1) & mask;
    return slot;
  }

  #grow(): void {
    const [high, low, counts] = [this.#high, this.#low, this.#counts];
    const slots = high.length * 2;
    this.#high = new Uint32Array(slots);
    this.#low = new Uint32Array(slots);
    this.#counts = new Uint32Array(slots);
    this.#filled = 0;
    for (let slot = 0; slot < counts.length; slot++) {
      const count = (counts[slot] as number) - 1;
      if (count > 0) this.#put(high[slot] as number, low[slot] as number, count);
    }
  }
}

function halves(key: string): readonly [number, number] {
  return [Number.parseInt(key.slice(0, 8), 16), Number.parseInt(key.slice(8), 16)];
}
