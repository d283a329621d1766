import type { Gate } from '../../kernel/limiter/gate.js';
import { leastOf } from '../../kernel/limiter/tree.js';
import { NestedAcquireError } from '../../options/errors.js';
import { NAME } from './settings.js';
import type { Lease, Ticket, TicketOwner } from './ticket.js';

/** A limiter whose jobs may wait for each other, as far as deadlocks are concerned. */
export interface NestingLimiter extends TicketOwner {
  readonly gate: Gate<Ticket, Lease>;
  readonly above?: { readonly parent: NestingLimiter };
  nesting: Nesting | undefined;
}

/** A waiting job; its order is higher than those of earlier ones. */
interface NestedJob {
  readonly ticket: Ticket;
  readonly order: number;
}

/**
 * The leases of a limiter under which work waits for a job, at this limiter or any other. Finds deadlocks: a job that waits for a slot of a limiter whose
 * leases are all held by such work, whose own jobs wait in the same way, so that none of them would ever be served.
 */
class Nesting {
  private readonly limiter: NestingLimiter;
  /** The jobs that the work under each lease waits for, the newest last. */
  private readonly jobs = new Map<Lease, NestedJob[]>();
  private order = 0;
  private sweepAt = 64;

  constructor(limiter: NestingLimiter) {
    this.limiter = limiter;
  }

  /** Notes that the work under this lease waits for the job. */
  add(ticket: Ticket, held: Lease): void {
    let jobs = this.jobs.get(held) ?? [];
    // Jobs that no longer wait are removed now and then.
    if (jobs.length >= this.sweepAt) {
      jobs = jobs.filter((job) => job.ticket.isWaiting);
      this.sweepAt = 2 * jobs.length + 64;
    }
    this.jobs.set(held, jobs);
    jobs.push({ ticket, order: this.order++ });
  }

  /** What the work under each lease waits for. A released lease blocks nobody. */
  waiting(): readonly (readonly NestedJob[])[] {
    for (const [held, jobs] of this.jobs) {
      while (jobs.at(-1)?.ticket.isWaiting === false) jobs.pop();
      if (held.isReleased || jobs.length === 0) this.jobs.delete(held);
    }
    return [...this.jobs.values()];
  }

  /** The limiter has changed: refuses the newest of these jobs that nobody will serve, until there is none. */
  look(): void {
    for (let stuck = deadlocked([this.limiter]); stuck.has(this.limiter); stuck = deadlocked([this.limiter])) {
      const jobs = this.waiting().flatMap((each) => each.filter(({ ticket }) => waitsFor(ticket, stuck)));
      refuse(jobs.reduce((one, other) => (one.order > other.order ? one : other)).ticket);
    }
    // Not when a refusal has brought another one.
    if (this.waiting().length === 0 && this.limiter.nesting === this) this.limiter.nesting = undefined;
  }
}

/** Notes that the work which holds this lease waits for the job, and with it the work that has asked for that work, and so on. */
export function nest(ticket: Ticket, holder: Lease): void {
  for (let held: Lease | undefined = holder; held; held = held.holder) {
    for (let at: Lease | undefined = held; at; at = at.parent) {
      const limiter = at.limiter as NestingLimiter;
      if (!at.isReleased) (limiter.nesting ??= new Nesting(limiter)).add(ticket, at);
    }
  }
  if (waitsFor(ticket, deadlocked(limitersOf(ticket)))) refuse(ticket);
}

/** Notes which lease is held by the work that has asked for this one. */
export function setHolder(lease: Lease, holder: Lease): void {
  for (let at: Lease | undefined = lease; at; at = at.parent) at.holder = holder;
}

function refuse(ticket: Ticket): void {
  const limiter = ticket.limiter as NestingLimiter;
  limiter.refuse(
    ticket,
    new NestedAcquireError(
      NAME,
      leastOf(limiter.gate, ({ slots }) => slots),
    ),
  );
}

/** Limiters that will never have a slot again, of these, of those that the jobs wait for whose work holds these, and so on. */
function deadlocked(first: readonly NestingLimiter[]): ReadonlySet<NestingLimiter> {
  const held = new Map<NestingLimiter, readonly (readonly NestedJob[])[]>();
  // Grows while it is gone through.
  const limiters = new Set(first);
  for (const limiter of limiters) {
    const jobs = isFull(limiter) ? (limiter.nesting?.waiting() ?? []) : [];
    // With fewer, somebody else holds a lease, and will release it.
    if (jobs.length === 0 || jobs.length < limiter.gate.leases) continue;
    held.set(limiter, jobs);
    for (const { ticket } of jobs.flat()) for (const next of limitersOf(ticket)) limiters.add(next);
  }
  const stuck = new Set(held.keys());
  // Backwards: whom the last of a chain will serve, serves those before.
  const all = [...held].reverse();
  for (let before = Infinity; stuck.size < before; ) {
    before = stuck.size;
    for (const [limiter, jobs] of all)
      if (jobs.filter((each) => each.some(({ ticket }) => waitsFor(ticket, stuck))).length < limiter.gate.leases) stuck.delete(limiter);
  }
  return stuck;
}

/** Whether it has no slot for whoever is next, and so for nobody behind. */
function isFull({ gate }: NestingLimiter): boolean {
  const { first } = gate;
  return first !== undefined && !gate.hasSlots(first.charge);
}

function waitsFor(ticket: Ticket, limiters: ReadonlySet<NestingLimiter>): boolean {
  return limitersOf(ticket).some((limiter) => limiters.has(limiter));
}

/** The limiters that a job waits for: its own, and those above. */
function limitersOf({ limiter, isWaiting }: Ticket): readonly NestingLimiter[] {
  const all: NestingLimiter[] = [];
  for (let at = isWaiting ? (limiter as NestingLimiter) : undefined; at; at = at.above?.parent) all.push(at);
  return all;
}
