import type { Observable } from 'rxjs';
import { defer } from 'rxjs';
import { FlowConfigError, OverflowError } from '../../options/errors.js';
import { count } from '../../options/options.js';
import type { Drained, DrainOptions, WorkResult } from '../../options/types.js';
import { checkObject, NAME } from './limiter-options.js';
import type {
  ChildLimiterOptions,
  KeyedJob,
  KeyedLimiter,
  KeyedLimiterOptions,
  Lease,
  LeaseContext,
  Limiter,
  LimiterJob,
} from './limiter-types.js';

/** What a limiter of one key can do beside what everybody may ask of it. */
interface KeyLimiter extends Limiter {
  child(options?: ChildLimiterOptions): KeyLimiter;
  /** @throws FlowConfigError or LaneUnknownError for a job that nobody could do. */
  check(job: LimiterJob): void;
  /** Whether everything is as it was in the beginning. */
  readonly isIdle: boolean;
}

/** Idle keys are not looked for before there are so many: a search costs more than they do. */
const FEW = 64;

/** A child of one limiter for each key. */
export class FlowKeyedLimiter implements KeyedLimiter {
  /** Without limits: the keys share nothing but their end, and the limiter above. */
  readonly #root: KeyLimiter;
  readonly #options: ChildLimiterOptions;
  readonly #maxKeys: number;
  readonly #limiters = new Map<unknown, KeyLimiter>();
  /** Keys whose limiter was handed out. */
  readonly #kept = new Set<unknown>();
  /** With so many keys, idle ones are looked for again. */
  #sweepAt = FEW;

  constructor(parent: KeyLimiter, options: KeyedLimiterOptions) {
    const { maxKeys = 10_000, ...limits } = checkObject(options);
    this.#maxKeys = count(NAME, 'maxKeys', maxKeys);
    this.#options = limits;
    this.#root = parent.child({ maxQueued: Infinity });
    // Only to look at the options: what is wrong with them is no matter of the first job.
    this.#root.child(limits);
  }

  get keys(): number {
    this.#sweep();
    return this.#limiters.size;
  }

  of(key: unknown): KeyLimiter {
    const limiter = this.#find(key);
    this.#kept.add(key);
    return limiter;
  }

  tryAcquire(job: KeyedJob): Lease | undefined {
    const plain = this.#plain(job);
    return this.#find(job.key).tryAcquire(plain);
  }

  acquire(job: KeyedJob): Observable<Lease> {
    const plain = this.#plain(job);
    return defer(() => this.#find(job.key).acquire(plain));
  }

  async acquireAsync(job: KeyedJob): Promise<Lease> {
    const plain = this.#plain(job);
    return this.#find(job.key).acquireAsync(plain);
  }

  run<R>(work: (context: LeaseContext) => WorkResult<R>, job: KeyedJob): Observable<R> {
    const plain = this.#plain(job);
    return defer(() => this.#find(job.key).run(work, plain));
  }

  async runAsync<R>(work: (context: LeaseContext) => WorkResult<R>, job: KeyedJob): Promise<R> {
    const plain = this.#plain(job);
    return this.#find(job.key).runAsync(work, plain);
  }

  pause(): void {
    this.#root.pause();
  }

  resume(): void {
    this.#root.resume();
  }

  clear(reason?: unknown): void {
    this.#root.clear(reason);
  }

  whenIdle(): Promise<void> {
    return this.#root.whenIdle();
  }

  whenQueued(options: { readonly below: number }): Promise<void> {
    return this.#root.whenQueued(options);
  }

  drain(options?: DrainOptions): Promise<Drained> {
    return this.#root.drain(options);
  }

  close(): void {
    this.#root.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    this.#root.shutdownOn(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  #find(key: unknown): KeyLimiter {
    const known = this.#limiters.get(key);
    if (known) return known;
    if (this.#limiters.size >= Math.min(this.#sweepAt, this.#maxKeys)) this.#sweep();
    if (this.#limiters.size >= this.#maxKeys) throw new OverflowError(NAME, this.#maxKeys, 'error', 'maxKeys');
    const limiter = this.#root.child(this.#options);
    this.#limiters.set(key, limiter);
    return limiter;
  }

  /** Forgets the keys whose limiter is as it was made. */
  #sweep(): void {
    for (const [key, limiter] of this.#limiters) if (limiter.isIdle && !this.#kept.has(key)) this.#limiters.delete(key);
    this.#sweepAt = Math.max(FEW, 2 * this.#limiters.size);
  }

  /** What the limiter of the key is asked. @throws FlowConfigError */
  #plain(job: KeyedJob): LimiterJob {
    if (typeof job !== 'object' || (job as unknown) === null || !('key' in job))
      throw new FlowConfigError(NAME, 'job', 'an object with a `key`', job);
    const { key: _key, ...plain } = job;
    this.#root.check(plain);
    return plain;
  }
}
