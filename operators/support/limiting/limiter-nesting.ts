import type { Capacity } from './limiter-capacity.js';
import type { Lessor, LimiterLease } from './limiter-lease.js';
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
  readonly #lessor: Lessor;
  readonly #capacity: Capacity;
  readonly #above: Nesting | undefined;
  #order = 0;

  constructor(lessor: Lessor, capacity: Capacity, above: Nesting | undefined) {
    this.#lessor = lessor;
    this.#capacity = capacity;
    this.#above = above;
  }

  get isEmpty(): boolean {
    return this.#asked.size === 0;
  }

  /** Notes that the work which holds this lease waits for another one, here and in the limiters above. */
  add(ticket: Ticket, holder: LimiterLease, refuse: () => void): void {
    this.#above?.add(ticket, holder, refuse);
    const held = holder.of(this.#lessor) ?? holder.outer(this.#lessor);
    if (held?.isReleased !== false) return;
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

  /** While all slots are held by work that waits for another one, here or above, one of those jobs is refused: it would wait for ever. */
  refuseStuck(): void {
    for (let job = this.#stuck(); job; job = this.#stuck()) job.refuse();
    this.#above?.refuseStuck();
  }

  /**
   * The newest job, when all the slots are taken and all the leases handed out are held by work that waits for another one: for one that is
   * not granted yet, or for the end of work that waits itself.
   */
  #stuck(): NestedJob | undefined {
    if (this.isEmpty || this.#capacity.freeSlots > 0) return undefined;
    const waiting = new Set<LimiterLease>();
    let newest: NestedJob | undefined;
    for (const [held, { jobs }] of this.#asked) {
      while (jobs.at(-1)?.ticket.isWaiting === false) jobs.pop();
      const job = jobs.at(-1);
      if (job === undefined) this.#asked.delete(held);
      else if (newest === undefined || job.order > newest.order) newest = job;
      for (let lease = job && held; lease && !waiting.has(lease); lease = lease.outer(this.#lessor)) waiting.add(lease);
    }
    return waiting.size >= this.#capacity.executing ? newest : undefined;
  }
}

function isWaiting({ ticket }: NestedJob): boolean {
  return ticket.isWaiting;
}
