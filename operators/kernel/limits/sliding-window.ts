import type { Meter } from './limit.js';

/** A cost within this of the level is payable: sums of fractions round. */
const EPSILON = 1e-6;

/** What was paid at one time. */
interface Entry {
  at: number;
  cost: number;
}

/**
 * A sliding log: whatever was paid counts for exactly one window, from the time it was paid. In no span of that length is more paid than the
 * capacity, which a bucket that fills meanwhile cannot promise. Corrections may bring it into debt; that leaves with the entries it is in.
 *
 * Keeps an entry for each time something was paid, so with a clock of whole milliseconds 60,000 a minute at most. Times that are passed in never go
 * back.
 *
 * A window without an end, where `perMinute` is 0, is an amount that is spent once. It keeps one entry.
 */
export class SlidingWindow implements Meter {
  private span = 0;
  private most = 0;
  /** By time; the first `gone` of them have left the window since they were last added up, all others are inside. */
  private log: Entry[] = [];
  private gone = 0;
  private used = 0;
  /** How many of the oldest entries the last answer waited for, and their sum: the next answer is near. */
  private reach = 0;
  private reachSum = 0;

  /** Starts empty. The window is as long as `perMinute` takes to bring in the `capacity`: a minute when they are the same. */
  constructor(perMinute: number, capacity: number, now: number) {
    this.resize(perMinute, capacity, now);
  }

  get capacity(): number {
    return this.most;
  }

  /** In ms. */
  get windowMs(): number {
    return this.span;
  }

  /** What may still be paid; negative in debt. */
  level(now: number): number {
    this.forget(now);
    return this.most - this.used;
  }

  /**
   * When the cost can be paid if nothing else is paid before; `now` when it can be already. A cost above the capacity is payable
   * when the window is empty, one of 0 when there is no debt.
   */
  payableAt(cost: number, now: number): number {
    const missing = this.missing(cost, now);
    return missing <= EPSILON ? now : this.leavesAt(missing - EPSILON / 2);
  }

  fullAt(now: number): number {
    this.forget(now);
    let last = this.size - 1;
    // What was given back is not waited for.
    while (this.entry(last)?.cost === 0) last--;
    const entry = last < 0 ? undefined : this.entry(last);
    return entry === undefined ? now : entry.at + this.span;
  }

  /** Pays without asking; the level may become negative. */
  pay(cost: number, now: number): void {
    this.forget(now);
    // Of what costs nothing as well: it may be corrected.
    const at = this.timeOf(now);
    if (this.entry(this.size - 1)?.at !== at) this.log.push({ at, cost: 0 });
    this.change(this.size - 1, cost);
  }

  /**
   * Changes what was paid at `paidAt`, as if it had been that much all along. Nothing changes when that has left the window. Of a time at which
   * nothing is known to have been paid nothing is given back, and what is to be paid more counts from now.
   */
  correct(delta: number, paidAt: number, now: number): void {
    this.forget(now);
    if (paidAt + this.span <= now) return;
    const at = this.timeOf(paidAt);
    const index = this.find(at);
    if (this.entry(index)?.at === at) this.change(index, delta);
    else if (delta > 0) this.pay(delta, now);
  }

  /** Changes rate and capacity; what was paid stays paid. */
  resize(perMinute: number, capacity: number, now: number): void {
    this.forget(now);
    this.span = perMinute === Infinity ? 0 : (capacity / perMinute) * 60_000;
    this.most = capacity;
    this.forget(now);
  }

  save(now: number): readonly number[] {
    this.forget(now);
    return this.log.slice(this.gone).flatMap(({ at, cost }) => [now - at, cost]);
  }

  /** Goes on from what was saved so long ago: pairs of age and cost, the oldest first. */
  load(saved: readonly number[], elapsedMs: number, now: number): void {
    this.log = [];
    this.gone = 0;
    for (let i = 0; i + 1 < saved.length; i += 2)
      this.log.push({ at: this.timeOf(now - (saved[i] as number) - elapsedMs), cost: saved[i + 1] as number });
    this.addUp();
    this.forget(now);
  }

  /** In a window without an end all times are one. */
  private timeOf(at: number): number {
    return this.span === Infinity ? 0 : at;
  }

  /** Entries in the window. */
  private get size(): number {
    return this.log.length - this.gone;
  }

  /** Of those in the window the one at this place; undefined past the end, and of none the last. */
  private entry(index: number): Entry | undefined {
    return this.log[this.gone + index];
  }

  private change(index: number, delta: number): void {
    const entry = this.entry(index) as Entry;
    const change = Math.max(delta, -entry.cost);
    entry.cost += change;
    this.used += change;
    if (index < this.reach) this.reachSum += change;
  }

  /** What has to leave before the cost can be paid; 0 or less when it can be. */
  private missing(cost: number, now: number): number {
    return Math.min(cost, this.most) - this.level(now);
  }

  /** When so much has left. */
  private leavesAt(amount: number): number {
    while (this.reachSum < amount && this.reach < this.size) {
      this.reachSum += (this.entry(this.reach) as Entry).cost;
      this.reach++;
    }
    let last = this.entry(this.reach - 1) as Entry;
    while (this.reach > 1 && this.reachSum - last.cost >= amount) {
      this.reachSum -= last.cost;
      this.reach--;
      last = this.entry(this.reach - 1) as Entry;
    }
    return last.at + this.span;
  }

  /** The place of the first entry that was not paid before. */
  private find(paidAt: number): number {
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.entry(middle) as Entry).at < paidAt) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private forget(now: number): void {
    for (let oldest = this.entry(0); oldest && oldest.at + this.span <= now; oldest = this.entry(0)) {
      this.used -= oldest.cost;
      this.gone++;
      if (this.reach === 0) continue;
      this.reach--;
      this.reachSum -= oldest.cost;
    }
    if (this.gone > this.size) this.addUp();
  }

  /** Adding and taking away fractions for days would drift. */
  private addUp(): void {
    this.log = this.log.slice(this.gone);
    this.used = this.log.reduce((sum, { cost }) => sum + cost, 0);
    this.gone = this.reach = this.reachSum = 0;
  }
}
