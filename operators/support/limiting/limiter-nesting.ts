import type { LimiterLease } from './limiter-lease.js';
import type { Ticket } from './limiter-tickets.js';

/** A job whose own work holds `lease`, and how to refuse it where it waits. */
interface NestedJob {
  readonly lease: LimiterLease;
  readonly refuse: () => void;
}

/** Jobs that wait for a lease of a limiter while their own work holds one of it. */
export class Nesting {
  readonly #jobs = new Map<Ticket, NestedJob>();

  get size(): number {
    return this.#jobs.size;
  }

  add(ticket: Ticket, lease: LimiterLease, refuse: () => void): void {
    this.#jobs.set(ticket, { lease, refuse });
  }

  /** Refuses the newest when all the leases handed out, `executing` of them, are held by work that waits for another one. */
  refuseStuck(executing: number): void {
    const holders = new Set<LimiterLease>();
    let newest: NestedJob | undefined;
    for (const [ticket, job] of this.#jobs) {
      if (!ticket.isWaiting || job.lease.isReleased) {
        this.#jobs.delete(ticket);
        continue;
      }
      holders.add(job.lease);
      newest = job;
    }
    if (holders.size >= executing) newest?.refuse();
  }
}
