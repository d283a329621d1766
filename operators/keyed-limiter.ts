import type { Observable } from 'rxjs';
import { defer } from 'rxjs';
import { limiterBelow } from './child-of.js';
import { DeadlineHeap } from './kernel/queues/deadline-heap.js';
import type { Bounds, Refusal } from './kernel/waiting/bounds.js';
import { boundsOf, tooManyKeys } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { KEYED_LIMITER } from './options/defaults.js';
import { FlowConfigError } from './options/errors.js';
import { LIMITER_HINTS } from './options/hints.js';
import type {
  ChildLimiterOptions,
  Lease,
  LeaseContext,
  LeasedWork,
  Limiter,
  LimiterJob,
  LimiterLimits,
  LimiterOptions,
  RateRule,
} from './options/limiter.js';
import { callback, count, onlyKnown } from './options/options.js';
import type { Handle, WorkOutcome } from './options/types.js';
import { overflowed } from './options/waiting-errors.js';
import type { Shutdown } from './shell/calls/shutdown.js';
import { ShutdownHandle } from './shell/calls/shutdown.js';
import { FlowLimiter } from './shell/limiter/limiter.js';
import { belowOption, LIMITER_CHECKS, limiterSettings, NAME } from './shell/limiter/settings.js';

/** @beta */
export interface KeyedLimiterOptions extends Omit<ChildLimiterOptions, 'lane' | 'pauses'> {
  /** Most keys at a time that are in use or have something to remember; a job of one more is refused, `tryAcquire` answers undefined. @defaultValue 10000 */
  readonly maxKeys?: number;
  /**
   * Limits of one key, in place of `concurrency` and `rates`: asked when the limiter of the key is made. What it leaves out, or all of it when it answers
   * `undefined`, is as for the other keys. When it throws or answers other options, the job is refused with `CallbackError`. @defaultValue all keys have the same limits
   */
  readonly perKey?: (key: unknown) => LimiterLimits | undefined;
}

/** In errors of its options; its jobs are those of a limiter. */
const MAKER = 'keyedLimiter';

/** A job of a keyed limiter: whose limits it takes from. */
export interface KeyedJob extends LimiterJob {
  /** Compared as a `Map` compares its keys. */
  readonly key: unknown;
}

/**
 * Limiters of the same kind, one for each key.
 * @beta
 */
export interface KeyedLimiter extends Handle {
  tryAcquire(job: KeyedJob): Lease | undefined;
  acquire(job: KeyedJob): Observable<Lease>;
  acquireAsync(job: KeyedJob): Promise<Lease>;
  run<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job: KeyedJob): Observable<WorkOutcome<R, W>>;
  runAsync<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job: KeyedJob): Promise<WorkOutcome<R, W>>;
  /** The limiter of a key, for whatever takes a `limiter`. It is not forgotten any more. */
  of(key: unknown): Limiter;
  /** Keys that are in use or have something to remember. */
  readonly keys: number;
  /** As of a limiter, for all keys together. */
  pause(): void;
  resume(): void;
  clear(reason?: unknown): void;
  whenIdle(): Promise<void>;
  whenQueued(options: { readonly below: number }): Promise<void>;
}

/** With so many keys, and with room for more, those that have nothing left to remember stay a while: most come again. */
const FEW = 64;
const STAY_MS = 1000;

/** Times are sums of fractions: so much earlier is on time. */
const EARLY_MS = 0.001;

/** The limiter of a key. */
interface Keyed {
  readonly key: unknown;
  readonly limiter: FlowLimiter;
  /** When it may have nothing left to remember; undefined while it is in use. */
  idleAt: number | undefined;
  /** It was handed out. */
  isKept: boolean;
}

/**
 * A limiter for each `key` of a job, made when its first job comes and forgotten when it has nothing left to remember: so many calls at a time
 * per tool, a rate per tenant. Under a limiter they are children of it; without one they share nothing but their end.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, keyedLimiter } from 'sluice/operators';
 *
 * const account = createLimiter({ concurrency: 8 });
 * const tools = keyedLimiter(account, { concurrency: 1 });
 * const lease = tools.tryAcquire({ key: 'search' });
 * tools.tryAcquire({ key: 'search' }); // => undefined
 * tools.tryAcquire({ key: 'fetch' })?.release();
 * account.executing; // => 1
 * lease?.release();
 * ```
 */
export function keyedLimiter(limiter: Limiter, options?: KeyedLimiterOptions): KeyedLimiter;
export function keyedLimiter(options: KeyedLimiterOptions & LimiterOptions): KeyedLimiter;
export function keyedLimiter(first: Limiter | (KeyedLimiterOptions & LimiterOptions), options: KeyedLimiterOptions = {}): KeyedLimiter {
  const isBelow = 'enlist' in Object(first);
  const given: KeyedLimiterOptions & LimiterOptions = isBelow ? options : (first as KeyedLimiterOptions & LimiterOptions);
  onlyKnown(MAKER, given, ['maxKeys', 'perKey', ...Object.keys(LIMITER_CHECKS)], 'options', '', LIMITER_HINTS);
  const { maxKeys = KEYED_LIMITER.maxKeys, perKey, rates, ...rest } = given;
  const ownLimits = callback(MAKER, 'perKey', perKey);
  // Read for each new key, so that a later change of the list must not reach it.
  const limits = { ...rest, ...(rates !== undefined && { rates: Array.isArray(rates) ? [...(rates as readonly RateRule[])] : rates }) };
  const make = (own?: LimiterLimits): FlowLimiter => {
    const all = { ...limits, ...own };
    return isBelow ? limiterBelow(first as Limiter, all, MAKER) : new FlowLimiter(limiterSettings(all, MAKER));
  };
  const makeFor = (key: unknown): FlowLimiter => (ownLimits ? ask(MAKER, 'perKey', () => make(limitsFrom(ownLimits(key)))) : make());
  return new FlowKeyedLimiter(make(), makeFor, boundsOf({ maxKeys: count(MAKER, 'maxKeys', maxKeys) }));
}

/** What `perKey` has answered, without what it leaves out. @throws FlowConfigError */
function limitsFrom(answer: LimiterLimits = {}): LimiterLimits {
  onlyKnown(MAKER, answer, ['concurrency', 'rates'], 'perKey', 'perKey.');
  const { concurrency, rates } = answer;
  return { ...(concurrency !== undefined && { concurrency }), ...(rates !== undefined && { rates }) };
}

class FlowKeyedLimiter extends ShutdownHandle implements KeyedLimiter {
  protected readonly shutdown: Shutdown;
  /** @throws CallbackError */
  private readonly make: (key: unknown) => FlowLimiter;
  private readonly bounds: Bounds;
  /**
   * Of no key: what is wrong with the options is no matter of the first job, and what is wrong with a job none of its key. All keys listen to signals,
   * and tell of changes, with it.
   */
  private readonly model: FlowLimiter;
  private readonly limiters = new Map<unknown, Keyed>();
  /** By when they may have nothing left to remember, which is looked at then. Of one that is earlier than expected the later entry is out of date. */
  private readonly idle = new DeadlineHeap<readonly [Keyed, idleAt: number]>();

  constructor(model: FlowLimiter, make: (key: unknown) => FlowLimiter, bounds: Bounds) {
    super();
    this.make = make;
    this.bounds = bounds;
    this.model = model;
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler: this.model.settings.scheduler,
      stop: () => {
        void this.end();
      },
      abort: () => {
        for (const limiter of this.all) limiter.close();
        void this.end();
      },
    });
  }

  get keys(): number {
    this.forget(this.model.grants.now());
    return this.limiters.size;
  }

  of(key: unknown): Limiter {
    const keyed = this.entry(key);
    if (keyed === undefined) throw this.tooMany();
    keyed.isKept = true;
    return keyed.limiter;
  }

  tryAcquire(job: KeyedJob): Lease | undefined {
    this.check(job);
    const keyed = this.entry(job.key);
    const lease = keyed?.limiter.tryAcquire(job);
    if (keyed && !lease) this.expect(keyed);
    return lease;
  }

  acquire(job: KeyedJob): Observable<Lease> {
    this.check(job);
    return defer(() => this.find(job).acquire(job));
  }

  async acquireAsync(job: KeyedJob): Promise<Lease> {
    this.check(job);
    return this.find(job).acquireAsync(job);
  }

  run<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job: KeyedJob): Observable<WorkOutcome<R, W>>;
  run<R>(work: LeasedWork<R>, job: KeyedJob): Observable<R> {
    this.check(job);
    return defer(() => this.find(job).run(work, job));
  }

  runAsync<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job: KeyedJob): Promise<WorkOutcome<R, W>>;
  async runAsync<R>(work: LeasedWork<R>, job: KeyedJob): Promise<R> {
    this.check(job);
    return this.find(job).runAsync(work, job);
  }

  pause(): void {
    for (const limiter of this.all) limiter.pause();
  }

  resume(): void {
    for (const limiter of this.all) limiter.resume();
  }

  clear(reason?: unknown): void {
    for (const limiter of this.all) limiter.clear(reason);
  }

  whenIdle(): Promise<void> {
    return this.model.until(() => !this.all.some(({ grants }) => grants.isBusy));
  }

  async whenQueued(options: { readonly below: number }): Promise<void> {
    const below = belowOption(options);
    return this.model.until(() => this.all.reduce((sum, { grants }) => sum + grants.queued, 0) < below);
  }

  /** A copy, because a listener may add new keys. */
  private get all(): readonly FlowLimiter[] {
    return [this.model, ...Array.from(this.limiters.values(), ({ limiter }) => limiter)];
  }

  /** Over when all of them are. */
  private async end(): Promise<void> {
    for (const { done, aborted, dropped } of await Promise.all(this.all.map((limiter) => limiter.drain()))) {
      this.shutdown.count('done', done);
      this.shutdown.count('aborted', aborted);
      this.shutdown.count('dropped', dropped);
    }
    this.shutdown.finish();
  }

  /** @throws OverflowError */
  private find({ key }: KeyedJob): FlowLimiter {
    const keyed = this.entry(key);
    if (keyed === undefined) throw this.tooMany();
    // The job may be rejected before it reaches its limiter.
    this.expect(keyed);
    return keyed.limiter;
  }

  private tooMany(): Error {
    return overflowed(NAME, tooManyKeys(this.bounds, this.limiters.size) as Refusal);
  }

  /** The limiter of the key, made if there is none; undefined when there are too many. */
  private entry(key: unknown): Keyed | undefined {
    const { bounds, limiters, model } = this;
    if (limiters.size > FEW) this.forget(model.grants.now() - STAY_MS);
    const known = limiters.get(key);
    if (known) return known;
    if (tooManyKeys(bounds, limiters.size)) this.forget(model.grants.now());
    if (tooManyKeys(bounds, limiters.size)) return undefined;
    const limiter = this.make(key);
    const meanwhile = limiters.get(key);
    // `perKey` has asked for its own key.
    if (meanwhile) return meanwhile;
    limiter.listenWith(model);
    if (model.grants.current.pausedForMs > 0) limiter.pause();
    if (this.shutdown.isClosed) limiter.close();
    const keyed: Keyed = { key, limiter, idleAt: undefined, isKept: false };
    limiters.set(key, keyed);
    limiter.grants.onUnused = () => {
      this.expect(keyed);
    };
    return keyed;
  }

  /** Looks at the key again when it may have nothing left to remember. */
  private expect(keyed: Keyed): void {
    const at = this.model.grants.now() + idleInMs(keyed);
    if (at === Infinity || at >= (keyed.idleAt ?? Infinity)) return;
    keyed.idleAt = at;
    this.idle.push(at, [keyed, at]);
  }

  /** Forgets the keys whose limiter has been as it was made since a time. Each look at a key is paid for by a job of it, so this costs O(log n) a job. */
  private forget(since: number): void {
    const { idle, limiters } = this;
    while (idle.peekAt() <= since + EARLY_MS) {
      const [keyed, at] = idle.pop() as readonly [Keyed, number];
      if (keyed.idleAt !== at) continue;
      keyed.idleAt = undefined;
      if (keyed.isKept) continue;
      if (idleInMs(keyed) > EARLY_MS) this.expect(keyed);
      else {
        limiters.delete(keyed.key);
        // A lease of it may still be corrected.
        keyed.limiter.grants.onUnused = undefined;
      }
    }
  }

  /** @throws FlowConfigError */
  private check(job: KeyedJob): void {
    if (typeof job !== 'object' || (job as unknown) === null || !('key' in job))
      throw new FlowConfigError(NAME, 'job', 'an object with a `key`', job);
    this.model.check(job);
  }
}

/** In how many ms its limiter has nothing left to remember; Infinity while that is in use. */
function idleInMs({ limiter: { grants } }: Keyed): number {
  return grants.isBusy ? Infinity : grants.current.forgetsInMs;
}
