/** Reasons that are told apart: each further one counts as another reason. */
const MOST_REASONS = 50;
/** Reasons that are shown. */
const MOST_SHOWN = 3;

/** Why something failed, and how often. */
export interface FailureReason {
  readonly reason: string;
  readonly count: number;
}

/** Counts the reasons of failures, in bounded memory. */
export class FailureReasons {
  readonly #counts = new Map<string, number>();
  #all = 0;
  /** The latest one. */
  last: string | undefined;

  add(reason: string): void {
    this.#all += 1;
    this.last = reason;
    const count = this.#counts.get(reason);
    if (count !== undefined || this.#counts.size < MOST_REASONS) this.#counts.set(reason, (count ?? 0) + 1);
  }

  /** The most frequent reasons, and how many failures had others. */
  snapshot(): { readonly reasons: readonly FailureReason[]; readonly otherReasons: number } {
    const reasons = [...this.#counts]
      .map(([reason, count]) => ({ reason, count }))
      .sort((one, other) => other.count - one.count)
      .slice(0, MOST_SHOWN);
    return { reasons, otherReasons: this.#all - reasons.reduce((sum, { count }) => sum + count, 0) };
  }
}
