/** Items stand in pieces of so many: a long queue then never moves what it holds, and lets go of it piece by piece. */
const PIECE = 1024;

/** What waits to be seen to, first in, first out, in O(1). `Array.prototype.shift` moves every element once an array passes some 16,000. */
export class Backlog<T> {
  length = 0;
  private pieces: T[][] = [[]];
  private first = this.pieces[0] as T[];
  private last = this.first;
  /** Places before the first item in its piece, and behind the last in its own. */
  private start = 0;
  private end = 0;

  push(item: T): void {
    if (this.end === PIECE) {
      this.pieces.push((this.last = []));
      this.end = 0;
    }
    this.last[this.end++] = item;
    this.length++;
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const { first, start } = this;
    const item = first[start] as T;
    // Or it would be held until its piece goes.
    first[start] = undefined as T;
    this.start++;
    if (--this.length === 0) this.start = this.end = 0;
    else if (this.start === PIECE) {
      // eslint-disable-next-line sluice/no-array-shift -- once for a thousand items, and there are a thousand times fewer of them
      this.pieces.shift();
      this.first = this.pieces[0] as T[];
      this.start = 0;
    }
    return item;
  }

  peek(): T | undefined {
    return this.length === 0 ? undefined : this.first[this.start];
  }

  /** The item `index` places behind the first; undefined past the end. */
  at(index: number): T | undefined {
    if (index < 0 || index >= this.length) return undefined;
    const place = this.start + index;
    return (this.pieces[Math.floor(place / PIECE)] as T[])[place % PIECE];
  }

  clear(): void {
    this.pieces = [[]];
    this.first = this.last = this.pieces[0] as T[];
    this.length = this.start = this.end = 0;
  }
}
