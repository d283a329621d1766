const SECOND_MS = 1000;
const MINUTE_MS = 60_000;

/** How long a rate is kept that no further refusal confirms. */
const KEPT_MS = 300_000;

/** What one refusal has shown. */
interface Lesson {
  /** Requests sent from here to there were let through, as far as they were good. */
  readonly from: number;
  readonly to: number;
  /** In which they were all that the provider allows, in ms. */
  readonly windowMs: number;
  good: number;
  readonly until: number;
}

/**
 * The rate of a provider that tells no limit, only how long to wait: what it let through before it refused, divided by the time from there to the end of
 * the wait, which is its window; a minute at most. An answer that comes later and was sent before counts as well. After five minutes without a refusal
 * the rate is forgotten, so that a higher limit is found.
 */
export class RefusedRate {
  /** The begin of what counts: the first request, or the end of the last wait. */
  #startsAt = Infinity;
  #hasWaited = false;
  /** Good requests by the second in which they were sent, of the last minute. */
  readonly #sent = new Map<number, number>();
  #lesson: Lesson | undefined;

  /** Requests a minute; Infinity while nothing is known. */
  get perMinute(): number {
    const { good, windowMs } = this.#lesson ?? { good: 0, windowMs: 0 };
    return good === 0 ? Infinity : (good / windowMs) * MINUTE_MS;
  }

  /** A request that was sent then was let through. */
  passed(sentAt: number, now: number): void {
    this.#begin(sentAt);
    const second = Math.floor(sentAt / SECOND_MS);
    this.#sent.set(second, (this.#sent.get(second) ?? 0) + 1);
    for (const old of this.#sent.keys()) {
      if (old >= Math.floor((now - MINUTE_MS) / SECOND_MS)) break;
      this.#sent.delete(old);
    }
    const lesson = this.#lesson;
    if (lesson && sentAt >= lesson.from && sentAt <= lesson.to) lesson.good++;
    if (lesson && now >= lesson.until) this.#lesson = undefined;
  }

  /** One that was sent then was refused, for so long. One that was sent before the last wait was over teaches nothing new. */
  refused(sentAt: number, now: number, waitMs: number): void {
    this.#begin(sentAt);
    if (sentAt < this.#startsAt) return;
    const from = Math.max(this.#startsAt, sentAt - MINUTE_MS);
    this.#startsAt = now + waitMs;
    this.#hasWaited = true;
    let good = 0;
    for (const [second, count] of this.#sent) if (second >= Math.floor(from / SECOND_MS) && second * SECOND_MS <= sentAt) good += count;
    // Of a longer wait the window is longer: a quota of a day, which is not spread over the day.
    if (waitMs > MINUTE_MS || (good === 0 && this.#lesson)) return;
    const windowMs = Math.min(MINUTE_MS, Math.max(1, now - from + waitMs));
    this.#lesson = { from, to: sentAt, windowMs, good, until: this.#startsAt + KEPT_MS };
  }

  /** A wait was ended by hand. */
  resumed(now: number): void {
    if (this.#hasWaited) this.#startsAt = Math.min(this.#startsAt, now);
  }

  #begin(sentAt: number): void {
    if (!this.#hasWaited) this.#startsAt = Math.min(this.#startsAt, sentAt);
  }
}
