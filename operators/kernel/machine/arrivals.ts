import { Backlog } from '../queues/backlog.js';

/** So many came at one time. */
interface Moment {
  readonly at: number;
  count: number;
}

/** Items that are all alike, as they came, and when they did: a million may wait, and most of them come in bursts. */
export class Arrivals<T> {
  private readonly inputs = new Backlog<T>();
  private readonly moments = new Backlog<Moment>();
  private latest: Moment | undefined = undefined;

  get length(): number {
    return this.inputs.length;
  }

  /** When the first came; only when there is one. */
  get firstAt(): number {
    return (this.moments.peek() as Moment).at;
  }

  push(input: T, at: number): void {
    if (this.latest?.at !== at) this.moments.push((this.latest = { at, count: 0 }));
    this.latest.count++;
    this.inputs.push(input);
  }

  /** Takes the first; only when there is one. */
  shift(): T {
    if (--(this.moments.peek() as Moment).count === 0) this.moments.shift();
    if (this.moments.length === 0) this.latest = undefined;
    return this.inputs.shift() as T;
  }

  clear(): void {
    this.inputs.clear();
    this.moments.clear();
    this.latest = undefined;
  }
}
