import type { Charge } from '../../kernel/limits/limit.js';
import { NestedAcquireError } from '../../options/errors.js';
import { NAME } from './settings.js';
import type { Lease, Lessor, NestedJobs, Ticket } from './ticket.js';

/** What has to be known of a limiter whose jobs may wait for each other. */
export interface NestingLimiter extends Lessor {
  readonly above: { readonly pump: NestingLimiter } | undefined;
  /** Handed out and not released. */
  readonly leases: number;
  nesting: NestedJobs | undefined;
  hasSlots(charge: Charge): boolean;
  least(of: (limiter: { readonly slots: number }) => number): number;
}

/** A job that waits, and how to refuse it there. */
interface NestedJob {
  readonly ticket: Ticket;
  readonly refuse: () => void;
  /** The higher, the later it came. */
  readonly order: number;
}

/** Jobs that wait, here or in a limiter below, while the work that asked for them holds a lease of this limiter. */
export class Nesting implements NestedJobs {
  private readonly pump: NestingLimiter;
  /** Those that the work under one lease has asked for, the newest last. */
  private readonly asked = new Map<Lease, NestedJob[]>();
  private order = 0;
  private sweepAt = 64;

  constructor(pump: NestingLimiter) {
    this.pump = pump;
  }

  get isEmpty(): boolean {
    return this.asked.size === 0;
  }

  /** Notes that the work which holds this lease waits for another one. */
  add(ticket: Ticket, holder: Lease, refuse: () => void): void {
    const held = leaseOf(holder, this.pump) ?? outer(holder, this.pump);
    if (held?.isReleased !== false) return;
    let jobs = this.asked.get(held) ?? [];
    // Jobs that wait no longer are swept out now and then.
    if (jobs.length >= this.sweepAt) {
      jobs = jobs.filter((job) => job.ticket.isWaiting);
      this.sweepAt = 2 * jobs.length + 64;
    }
    this.asked.set(held, jobs);
    jobs.push({ ticket, refuse, order: this.order++ });
  }

  /** Whoever held it will not wait for ever. */
  released(held: Lease): void {
    this.asked.delete(held);
  }

  /** Refuses the newest jobs as long as all leases handed out, so many, are held by work that waits for another one. */
  refuseStuck(): void {
    for (let job = this.stuck(); job; job = this.stuck()) job.refuse();
  }

  /**
   * The newest job, when it has no slot and all the leases handed out are held by work that waits for another one: for one that is not granted
   * yet, or for the end of work that waits itself.
   */
  private stuck(): NestedJob | undefined {
    const waiting = new Set<Lease>();
    let newest: NestedJob | undefined;
    for (const [held, jobs] of this.asked) {
      while (jobs.at(-1)?.ticket.isWaiting === false) jobs.pop();
      const job = jobs.at(-1);
      if (job === undefined) this.asked.delete(held);
      else if (newest === undefined || job.order > newest.order) newest = job;
      for (let lease = job && held; lease && !waiting.has(lease); lease = outer(lease, this.pump)) waiting.add(lease);
    }
    return newest && !this.pump.hasSlots(newest.ticket.charge) && waiting.size >= this.pump.leases ? newest : undefined;
  }
}

/** Notes that the work which holds this lease waits for another one, here and in the limiters above. */
export function nest(pump: NestingLimiter, ticket: Ticket, holder: Lease): void {
  const refuse = (): void => {
    pump.refuse(
      ticket,
      new NestedAcquireError(
        NAME,
        pump.least(({ slots }) => slots),
      ),
    );
  };
  for (let at: NestingLimiter | undefined = pump; at; at = at.above?.pump) {
    const nesting = at.nesting ?? new Nesting(at);
    at.nesting = nesting;
    nesting.add(ticket, holder, refuse);
  }
  for (let at: NestingLimiter | undefined = pump; at; at = at.above?.pump) at.nesting?.refuseStuck();
}

/** Says whose work has asked for a lease. */
export function askedBy(lease: Lease, holder: Lease): void {
  for (let at: Lease | undefined = lease; at; at = at.above) at.holder = holder;
}

/** The lease that a limiter gave for this one: itself, or one of those above. */
function leaseOf(lease: Lease | undefined, pump: NestingLimiter): Lease | undefined {
  let at = lease;
  while (at && at.pump !== pump) at = at.above;
  return at;
}

/** The lease of the limiter that is held by the work that asked for this one, or by whoever asked for that, and so on. */
function outer(lease: Lease, pump: NestingLimiter): Lease | undefined {
  const { holder } = lease;
  return holder && (leaseOf(holder, pump) ?? outer(holder, pump));
}
