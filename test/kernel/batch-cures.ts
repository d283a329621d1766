import type { Failure, Repair, Search, Verdict } from '../../operators/kernel/index.js';

/** What a rule of these tests does about a failure. */
export const CURES = ['none', 'later', 'atOnce', 'halves', 'some', 'search', 'giveUp', 'throws'] as const;
export type Cure = (typeof CURES)[number];

/** An error of these tests carries its own verdict. */
export interface Fault extends Verdict {
  /** The classifier fails on this error. */
  readonly isUnclear?: boolean;
}

export const UNCLEAR = new Error('unclear');
const BROKEN = new Error('broken rule');

export function verdictOf(error: unknown): Verdict {
  const { isUnclear, ...verdict } = error as Fault;
  if (isUnclear) throw UNCLEAR;
  return verdict;
}

/** Sends the first of what it has, half of what failed last, until nothing is left. */
class Halving<J extends { readonly isDone: boolean }> implements Search<J> {
  private most = 1;
  private untolds = 0;
  private rest: readonly J[] = [];

  failed(jobs: readonly J[]): Repair<J> {
    this.most = Math.max(1, jobs.length >> 1);
    if (jobs.length === 1) return { ...this.step(jobs), rejected: jobs.map((job) => ({ job, reason: 'alone' })) };
    this.rest = [...jobs, ...this.rest];
    return { ...this.step(jobs), depth: 3 };
  }

  next(good: readonly J[] | undefined): Repair<J> {
    if (good) return this.step([]);
    this.most = 1;
    if (++this.untolds < 3) return this.step([]);
    return { rejected: this.rest.map((job) => ({ job, reason: 'inconclusive' })) };
  }

  private step(call: readonly J[]): Repair<J> {
    const rest = this.rest.filter(({ isDone }) => !isDone);
    const send = rest.slice(0, this.most);
    this.rest = rest.slice(this.most);
    return { parts: send.length > 0 ? [send] : [], held: this.rest.filter((job) => call.includes(job)), search: this };
  }
}

/** What these decide by. */
type Told<J> = Pick<Failure<J>, 'jobs' | 'verdict' | 'attempt' | 'depth' | 'search' | 'isPartial'> & {
  readonly origin: { readonly jobs: readonly J[] };
};

/** What is done about a failure; the same for the machine and for the model. */
export function decide<J extends { readonly isDone: boolean }>(
  cure: Cure,
  { jobs, verdict, attempt, depth, search, isPartial, origin }: Told<J>,
): Repair<J> | undefined {
  const size = jobs.length;
  if (cure === 'throws') throw BROKEN;
  if (cure === 'later') {
    const [next, delayMs] = [attempt + 1, 1 + attempt];
    return {
      parts: [jobs],
      attempt: next,
      delayMs,
      note: { type: 'retryScheduled', class: verdict.class, size, attempt: next, delayMs },
    };
  }
  if (cure === 'giveUp') return { rejected: origin.jobs.filter(({ isDone }) => !isDone).map((job) => ({ job, reason: 'given up' })) };
  if (cure === 'atOnce') return { parts: [jobs], attempt: attempt + 1 };
  if (cure === 'halves') {
    const half = size >> 1;
    return { parts: [jobs.slice(0, half), jobs.slice(half)], depth: depth + 1, note: { type: 'split', size, parts: 2, depth: depth + 1 } };
  }
  // All but these two are mentioned nowhere.
  if (cure === 'some')
    return { rejected: jobs.slice(0, 1).map((job) => ({ job, reason: 'named' })), parts: [jobs.slice(1, 2)], pauseMs: 7 };
  if (cure === 'search' && !isPartial) return ((search as Halving<J> | undefined) ?? new Halving<J>()).failed(jobs);
  return undefined;
}
