import type { Observable } from 'rxjs';
import type { Lease, LeaseContext, LeasedWork, LimiterJob, LimiterSnapshot, ObserveOptions, SavedLimits } from '../../options/limiter.js';
import type { Bidder, Place } from '../../options/permits.js';
import type { ResponseLike, WorkOutcome, WorkResult } from '../../options/types.js';
import { FlowLimiter } from './limiter.js';
import type { LimiterSettings } from './settings.js';

/** Models that share limits of their own inside an account. */
export interface ModelPool {
  readonly models: readonly string[];
  readonly limiter: FlowLimiter;
}

/** A limiter that hands the jobs of some models to limiters below it. */
export class AccountLimiter extends FlowLimiter {
  readonly pools: readonly ModelPool[];
  private readonly byModel: ReadonlyMap<string, FlowLimiter>;

  constructor(settings: LimiterSettings, makePools: (account: FlowLimiter) => readonly ModelPool[]) {
    super(settings);
    this.pools = makePools(this);
    this.byModel = new Map(this.pools.flatMap(({ models, limiter }) => models.map((model) => [model, limiter])));
    for (const { limiter } of this.pools) limiter.grants.gate.byId = this.grants.gate.byId;
  }

  /** The limiter of a model that has limits of its own; undefined for the account itself. */
  private poolOf(of: { readonly model?: string | undefined } | undefined): FlowLimiter | undefined {
    const model = of?.model;
    return model === undefined ? undefined : this.byModel.get(model);
  }

  override tryAcquire(job?: LimiterJob): Lease | undefined {
    const pool = this.poolOf(job);
    return pool ? pool.tryAcquire(job) : super.tryAcquire(job);
  }

  override acquire(job?: LimiterJob): Observable<Lease> {
    return this.poolOf(job)?.acquire(job) ?? super.acquire(job);
  }

  override acquireAsync(job?: LimiterJob): Promise<Lease> {
    return this.poolOf(job)?.acquireAsync(job) ?? super.acquireAsync(job);
  }

  override pass(job?: LimiterJob): Promise<void> {
    return this.poolOf(job)?.pass(job) ?? super.pass(job);
  }

  override run<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Observable<WorkOutcome<R, W>> {
    return this.poolOf(job)?.run<R, W>(work, job) ?? super.run<R, W>(work, job);
  }

  override runAsync<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Promise<WorkOutcome<R, W>> {
    return this.poolOf(job)?.runAsync<R, W>(work, job) ?? super.runAsync<R, W>(work, job);
  }

  override wrap<A extends unknown[], R>(work: (...args: A) => WorkResult<R>, job?: LimiterJob): (...args: A) => Promise<R> {
    return this.poolOf(job)?.wrap(work, job) ?? super.wrap(work, job);
  }

  override enlist(bidder: Bidder, lane?: string): Place {
    return this.poolOf(Object(bidder) as Partial<Bidder>)?.enlist(bidder, lane) ?? super.enlist(bidder, lane);
  }

  override move(id: string | number, lane: string): boolean {
    const pool = this.waitsIn(id);
    return pool ? pool.move(id, lane) : super.move(id, lane);
  }

  override remove(id: string | number, reason?: unknown): boolean {
    const pool = this.waitsIn(id);
    return pool ? pool.remove(id, reason) : super.remove(id, reason);
  }

  /** The pool in which a job waits. */
  private waitsIn(id: string | number): FlowLimiter | undefined {
    const owner = this.grants.gate.byId.get(id)?.limiter;
    return this.pools.find(({ limiter }) => limiter.grants === owner)?.limiter;
  }

  override observe(response: ResponseLike, options?: ObserveOptions): void {
    const pool = this.poolOf(options);
    if (pool) pool.observe(response, options);
    else super.observe(response, options);
  }

  override snapshot(): LimiterSnapshot {
    const own = super.snapshot();
    const models = this.pools.map(({ models: names, limiter }) => ({ ...limiter.snapshot(), model: names }));
    const { queued } = this.grants;
    // The places of pools are counted there.
    const places = this.pools.reduce((sum, { limiter }) => sum + (limiter.grants.above?.size ?? 0), 0);
    const heldHere = Math.max(0, own.heldBySlot - places);
    const heldBySlot = Math.min(
      queued,
      models.reduce((sum, each) => sum + each.heldBySlot, heldHere),
    );
    return { ...own, queued, heldBySlot, heldByRate: queued - heldBySlot, models };
  }

  override save(): SavedLimits {
    return { ...super.save(), models: this.pools.map(({ models, limiter }) => ({ ...limiter.save(), model: models })) };
  }
}
