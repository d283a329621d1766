const SECOND_MS = 1000;

/** How long a rate is kept that no further refusal confirms. */
const KEPT_MS = 300_000;

/** The longest window that is looked at. */
const LONGEST_MS = 60_000;

/** What one refusal has shown. */
interface Lesson {
  /** Requests sent from here to there and let through are all that one window allows. */
  readonly from: number;
  readonly to: number;
  readonly windowMs: number;
  good: number;
  readonly until: number;
}

/**
 * The rate of a provider that reports no limits, but says in a refusal which window is used up: what it let through in the last such window. An answer
 * that comes later and was sent before counts as well. After five minutes without such a refusal the rate is forgotten, so that a higher limit is found.
 */
export class RefusedRate {
  /** The end of the last wait: what was sent before teaches nothing new. */
  #waitsUntil = -Infinity;
  /** Good requests of the longest window, by the second in which they were sent. */
  readonly #sent = new Map<number, number>();
  #lesson: Lesson | undefined;

  /** Requests a minute; Infinity while nothing is known. */
  get perMinute(): number {
    const { good, windowMs } = this.#lesson ?? { good: 0, windowMs: 1 };
    return good === 0 ? Infinity : (good / windowMs) * 60_000;
  }

  /** A request that was sent then was let through. */
  passed(sentAt: number, now: number): void {
    const second = Math.floor(sentAt / SECOND_MS);
    this.#sent.set(second, (this.#sent.get(second) ?? 0) + 1);
    for (const old of this.#sent.keys()) {
      if ((old + 1) * SECOND_MS > now - LONGEST_MS) break;
      this.#sent.delete(old);
    }
    const lesson = this.#lesson;
    if (lesson && sentAt >= lesson.from && sentAt <= lesson.to) lesson.good++;
    if (lesson && now >= lesson.until) this.#lesson = undefined;
  }

  /** One that was sent then was refused for so long, because a window of this length is used up. */
  refused(sentAt: number, now: number, waitMs: number, windowMs: number): void {
    // A longer wait is that for another window.
    if (sentAt < this.#waitsUntil || windowMs > LONGEST_MS || waitMs > windowMs) return;
    this.#waitsUntil = now + waitMs;
    const from = sentAt - windowMs;
    let good = 0;
    for (const [second, count] of this.#sent) if ((second + 1) * SECOND_MS > from && second * SECOND_MS <= sentAt) good += count;
    // Others have spent it all, or the wait was too short: that says no more than what was known.
    if (good === 0 && this.#lesson) return;
    this.#lesson = { from, to: sentAt, windowMs, good, until: this.#waitsUntil + KEPT_MS };
  }

  /** A wait was ended by hand. */
  resumed(now: number): void {
    this.#waitsUntil = Math.min(this.#waitsUntil, now);
  }
}
