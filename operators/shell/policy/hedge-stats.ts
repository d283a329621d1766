/** Times remembered. */
const SIZE = 100;

/** What calls have taken, for the delay and the `maxShare` of `hedge`. */
export class HedgeStats {
  private readonly times: number[] = [];
  /** Where the next time goes, once there are enough. */
  private next = 0;
  /** Hedges under way. */
  hedging = 0;
  /** Calls under way, each with all its attempts. */
  calling = 0;
  /** Until when no attempt is added, because the backend has refused a call. */
  pausedUntil = -Infinity;

  /** Remembers how long an attempt took, in ms. */
  record(latencyMs: number): void {
    this.times[this.next] = latencyMs;
    this.next = (this.next + 1) % SIZE;
  }

  /** What 95 of 100 attempts did not exceed, in ms (nearest rank); 0 before the first. */
  get p95Ms(): number {
    const sorted = [...this.times].sort((a, b) => a - b);
    return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0;
  }
}
