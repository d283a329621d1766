import type { Observable, Subscription } from 'rxjs';
import type { Charge } from '../../kernel/limits/limit.js';
import { NestedAcquireError } from '../../options/errors.js';
import { NAME } from './settings.js';
import type { Lease, LeaseOwner, Ticket } from './ticket.js';

/** A limiter whose jobs may wait for each other, as far as deadlocks are concerned. */
export interface NestingLimiter extends LeaseOwner {
  readonly parent?: NestingLimiter;
  /** Leases granted and not released. */
  readonly leases: number;
  nesting?: Nesting;
  readonly changes: Observable<void>;
  hasSlots(charge: Charge): boolean;
  minOf(of: (limiter: { readonly slots: number }) => number): number;
}

/** A waiting job; its order is higher than those of earlier ones. */
interface NestedJob {
  readonly ticket: Ticket;
  readonly order: number;
}

/**
 * Finds deadlocks: jobs that wait, here or in a child limiter, while the work that asked for them holds a lease of this limiter. When all leases are
 * held by such work, nobody would ever be served.
 */
class Nesting {
  private readonly limiter: NestingLimiter;
  /** The jobs that the work under each lease waits for, the newest last. */
  private readonly jobs = new Map<Lease, NestedJob[]>();
  private order = 0;
  private sweepAt = 64;
  /** Only while there are jobs: the changes of one limiter of many may be those of all. */
  private listening: Subscription | undefined = undefined;

  constructor(limiter: NestingLimiter) {
    this.limiter = limiter;
  }

  /** Notes that the work which holds this lease waits for another one. */
  add(ticket: Ticket, holder: Lease): void {
    const held = leaseOf(holder, this.limiter) ?? outerLease(holder, this.limiter);
    if (held?.isReleased !== false) return;
    let jobs = this.jobs.get(held) ?? [];
    // Jobs that no longer wait are removed now and then.
    if (jobs.length >= this.sweepAt) {
      jobs = jobs.filter((job) => job.ticket.isWaiting);
      this.sweepAt = 2 * jobs.length + 64;
    }
    this.jobs.set(held, jobs);
    jobs.push({ ticket, order: this.order++ });
    // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
    this.listening ??= this.limiter.changes.subscribe(() => {
      this.refuseStuck();
    });
  }

  /** Refuses the newest job, until not all granted leases are held by work that waits for another one. */
  refuseStuck(): void {
    for (let job = this.deadlocked(); job; job = this.deadlocked()) {
      const limiter = job.ticket.limiter as NestingLimiter;
      const slots = limiter.minOf((each) => each.slots);
      limiter.refuse(job.ticket, new NestedAcquireError(NAME, slots));
    }
    if (this.jobs.size > 0) return;
    this.listening?.unsubscribe();
    this.listening = undefined;
  }

  /**
   * The newest job, when no slot is free for it and all granted leases are held by work that waits: for another lease, or for the end of work that
   * waits itself.
   */
  private deadlocked(): NestedJob | undefined {
    const waiting = new Set<Lease>();
    let newest: NestedJob | undefined;
    for (const [held, jobs] of this.jobs) {
      while (jobs.at(-1)?.ticket.isWaiting === false) jobs.pop();
      // A released lease blocks nobody.
      const job = held.isReleased ? undefined : jobs.at(-1);
      if (job === undefined) this.jobs.delete(held);
      else if (newest === undefined || job.order > newest.order) newest = job;
      for (let lease = job && held; lease && !waiting.has(lease); lease = outerLease(lease, this.limiter)) waiting.add(lease);
    }
    return newest && !this.limiter.hasSlots(newest.ticket.charge) && waiting.size >= this.limiter.leases ? newest : undefined;
  }
}

/** Notes that the work which holds this lease waits for another one, here and in the parent limiters. */
export function nest(limiter: NestingLimiter, ticket: Ticket, holder: Lease): void {
  for (let at: NestingLimiter | undefined = limiter; at; at = at.parent) (at.nesting ??= new Nesting(at)).add(ticket, holder);
  for (let at: NestingLimiter | undefined = limiter; at; at = at.parent) at.nesting?.refuseStuck();
}

/** Notes which lease is held by the work that has asked for this one. */
export function setHolder(lease: Lease, holder: Lease): void {
  for (let at: Lease | undefined = lease; at; at = at.parent) at.holder = holder;
}

/** The lease of this limiter: the given one, or one of its parents. */
function leaseOf(lease: Lease | undefined, limiter: NestingLimiter): Lease | undefined {
  let at = lease;
  while (at && at.limiter !== limiter) at = at.parent;
  return at;
}

/** The lease of this limiter that is held by the work that asked for the given one, or by the work that asked for that work, and so on. */
function outerLease(lease: Lease, limiter: NestingLimiter): Lease | undefined {
  const { holder } = lease;
  return holder && (leaseOf(holder, limiter) ?? outerLease(holder, limiter));
}
