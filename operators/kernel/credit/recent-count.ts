/** How often something happened lately: in this span and in the one before. */
export class RecentCount {
  private readonly spanMs: number;
  private from = -Infinity;
  private now = 0;
  private before = 0;

  constructor(spanMs: number) {
    this.spanMs = spanMs;
  }

  add(at: number): void {
    if (at - this.from >= this.spanMs) {
      this.before = at - this.from < 2 * this.spanMs ? this.now : 0;
      this.now = 0;
      this.from = at;
    }
    this.now++;
  }

  /** In a span of that length, about. */
  get most(): number {
    return Math.max(this.now, this.before);
  }
}
