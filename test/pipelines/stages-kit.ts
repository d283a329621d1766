import type { Observable, SchedulerLike } from 'rxjs';
import { defer, finalize, map, timer } from 'rxjs';
import { expect } from 'vitest';
import type { StageResult } from '../../src/pipelines/create-stages.js';

/** What must never be exceeded. */
export interface Limits {
  readonly documents: number;
  readonly requests: number;
  readonly perSecond?: number;
  readonly burst?: number;
  /** Requests at a time of each stage, over all documents or in each. */
  readonly stages: Readonly<Record<string, { readonly concurrency: number; readonly scope: 'shared' | 'perBatch' }>>;
}

/** Counts what runs at every level, and says at every change whether a limit is exceeded. */
export class Watched {
  documents = 0;
  requests = 0;
  calls = 0;
  /** The most that was ever under way. */
  readonly peaks = { documents: 0, requests: 0 };
  readonly items: StageResult<unknown, unknown>[] = [];
  readonly #running = new Map<string, number>();
  #tokens: number;
  #at = 0;

  constructor(
    private readonly limits: Limits,
    private readonly scheduler: SchedulerLike,
  ) {
    this.#tokens = limits.burst ?? Infinity;
  }

  /** Documents, counted from when they are read. */
  *read<T>(documents: Iterable<T>): Generator<T> {
    for (const document of documents) {
      this.documents++;
      this.#check('documents', this.documents, this.limits.documents);
      yield document;
    }
  }

  /** One request of so many seconds. */
  call<R>(stage: string, document: unknown, seconds: number, value: R): Observable<R> {
    return defer(() => {
      const { concurrency = Infinity, scope = 'shared' } = this.limits.stages[stage] ?? {};
      const key = scope === 'shared' ? stage : `${stage} of ${String(document)}`;
      this.calls++;
      this.requests++;
      this.#running.set(key, (this.#running.get(key) ?? 0) + 1);
      this.#check('requests', this.requests, this.limits.requests);
      atMost(key, this.#running.get(key) as number, concurrency);
      this.#pay();
      return timer(seconds * 1000, this.scheduler).pipe(
        map(() => value),
        finalize(() => {
          this.requests--;
          this.#running.set(key, (this.#running.get(key) ?? 0) - 1);
        }),
      );
    });
  }

  heard(result: StageResult<unknown, unknown>): void {
    this.items.push(result);
    if (result.type === 'document') this.documents--;
  }

  /** A bucket beside that of the limiter. */
  #pay(): void {
    const { perSecond = Infinity, burst = Infinity } = this.limits;
    const now = this.scheduler.now();
    if (perSecond !== Infinity) this.#tokens = Math.min(burst, this.#tokens + ((now - this.#at) / 1000) * perSecond);
    this.#at = now;
    this.#tokens--;
    atMost('spent beyond the rate', -this.#tokens, 1e-6);
  }

  #check(level: 'documents' | 'requests', now: number, most: number): void {
    this.peaks[level] = Math.max(this.peaks[level], now);
    atMost(level, now, most);
  }
}

/** Thousands of times, so that an assertion each would take longer than what it is about. */
function atMost(what: string, now: number, most: number): void {
  if (now > most) expect.fail(`${what}: ${String(now)}, and no more than ${String(most)} are allowed`);
}
