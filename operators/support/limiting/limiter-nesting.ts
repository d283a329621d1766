import type { LimiterLease } from './limiter-lease.js';
import type { Ticket } from './limiter-tickets.js';

/** A job that waits, and how to refuse it there. */
interface NestedJob {
  readonly ticket: Ticket;
  readonly refuse: () => void;
  /** The higher, the later it came. */
  readonly order: number;
}

/** Those that the work under one lease has asked for, the newest last. Jobs that wait no longer are swept out now and then. */
interface Asked {
  jobs: NestedJob[];
  sweepAt: number;
}

const FEW = 32;

/** Jobs that wait, here or in a limiter below, while the work that asked for them holds a lease of this limiter. */
export class Nesting {
  readonly #asked = new Map<LimiterLease, Asked>();
  #order = 0;

  get isEmpty(): boolean {
    return this.#asked.size === 0;
  }

  add(ticket: Ticket, held: LimiterLease, refuse: () => void): void {
    let asked = this.#asked.get(held);
    if (asked === undefined) this.#asked.set(held, (asked = { jobs: [], sweepAt: FEW }));
    if (asked.jobs.length >= asked.sweepAt) {
      asked.jobs = asked.jobs.filter(isWaiting);
      asked.sweepAt = 2 * asked.jobs.length + FEW;
    }
    asked.jobs.push({ ticket, refuse, order: this.#order++ });
  }

  /** Whoever held it will not wait for ever. */
  released(held: LimiterLease): void {
    this.#asked.delete(held);
  }

  /**
   * The newest job, when all the leases handed out, `executing` of them, are held by work that waits for another one: for one that is not
   * granted yet, or for the end of work that waits itself. `outer` tells which lease is held by the work that asked for this one.
   */
  stuck(executing: number, outer: (lease: LimiterLease) => LimiterLease | undefined): NestedJob | undefined {
    const waiting = new Set<LimiterLease>();
    let newest: NestedJob | undefined;
    for (const [held, { jobs }] of this.#asked) {
      while (jobs.at(-1)?.ticket.isWaiting === false) jobs.pop();
      const job = jobs.at(-1);
      if (job === undefined) this.#asked.delete(held);
      else if (newest === undefined || job.order > newest.order) newest = job;
      for (let lease = job && held; lease && !waiting.has(lease); lease = outer(lease)) waiting.add(lease);
    }
    return waiting.size >= executing ? newest : undefined;
  }
}

function isWaiting({ ticket }: NestedJob): boolean {
  return ticket.isWaiting;
}
