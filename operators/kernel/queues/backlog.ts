/** What waits to be seen to, in order. Empty again, it forgets how long it was. */
export class Backlog<T> {
  length = 0;
  private readonly items: T[] = [];
  private at = 0;

  push(item: T): void {
    this.length = this.items.push(item) - this.at;
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.items[this.at++];
    if (--this.length === 0) this.clear();
    return item;
  }

  clear(): void {
    this.items.length = this.length = this.at = 0;
  }
}
