/**
 * What an engine has to tell the outside (listeners, its consumer, whoever gave a permit) once its own state is right: in order, each once.
 * Whoever is told may do anything, and finds nothing half done; what comes of that is told after it.
 */
export class News {
  private readonly waiting: (() => void)[] = [];
  private told = 0;
  private isTelling = false;

  get length(): number {
    return this.waiting.length;
  }

  add(tell: () => void): void {
    this.waiting.push(tell);
  }

  /** Tells all that waits. From inside that, the rest is told after it. */
  tell(): void {
    if (!this.isTelling && this.waiting.length > 0) this.tellNow();
  }

  /** The same also from inside: for whoever must have come to an end before it returns. */
  tellNow(): void {
    const { waiting } = this;
    this.isTelling = true;
    while (this.told < waiting.length) waiting[this.told++]?.();
    waiting.length = 0;
    this.told = 0;
    this.isTelling = false;
  }
}
