/** All that a breaker knows, but its calls under way: plain data, which can be stored as JSON. */
export interface BreakerState {
  readonly state: CircuitState;
  /** How long the present or the next opening lasts, in ms; -1 for ever. */
  readonly openMs: number;
  /** How much of it is left, in ms; -1 when it is open for ever, as when it was opened by hand. */
  readonly leftMs: number;
  /** What it has counted. */
  readonly counted: readonly number[];
}

/** When a circuit opens and closes, and for how long. */
export interface CircuitOptions {
  /** Share of failed calls among the last at which it opens; above 1 it never does for that. */
  readonly share: number;
  /** Calls that must have ended within `windowMs` for that. */
  readonly minCalls: number;
  readonly windowMs: number;
  /** Failures one after the other at which it opens. */
  readonly inARow: number;
  /** Calls let through at a time while it is half open. */
  readonly probes: number;
  /** Share of them that must succeed; at least one must. */
  readonly probeShare: number;
  /** How long it is open at first, in ms; doubled by every probe that fails. */
  readonly openMs: number;
  /** The longest it is open, in ms. */
  readonly maxOpenMs: number;
}

export type CircuitState = 'closed' | 'open' | 'halfOpen';

/** Parts of the window: what is older than it goes a tenth at a time. */
const PARTS = 10;

/**
 * Decides whether calls to a backend are worth making: it opens when too many have failed, and after a while lets a probe through to see
 * whether the backend is back.
 *
 * Told the time in ms. Every call that is let through gets a ticket, a number; what becomes of it is told with that ticket, at most once.
 * A result counts only into the state in which its call was let through: calls that were under way when it opened say nothing new.
 * A clock that jumps back is taken to have stood still.
 *
 * Source: circuit breaker (Nygard, "Release It!", 2007), sampling over a rolling window as Hystrix did.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  readonly #count: CallWindow;
  #state: CircuitState = 'closed';
  /** How long the present opening lasts, or the next one will. */
  #openMs: number;
  /** When it lets probes through. */
  #until = 0;
  #tickets = 0;
  /** Tickets up to this one are from a state that is over. */
  #stale = 0;
  /** When the probes that it waits for were let through, by their tickets; the oldest first. */
  readonly #probes = new Map<number, number>();
  #succeeded = 0;
  #failed = 0;
  #lastRead = -Infinity;
  /** What backward jumps of the clock have taken away. */
  #lost = 0;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#count = new CallWindow(options);
    this.#openMs = options.openMs;
  }

  /** The state it has changed to; an open one whose time is over stays so until the next call. */
  get state(): CircuitState {
    return this.#state;
  }

  /** How long it is open in all, in ms: Infinity when it was tripped, 0 when it is not open. */
  get openForMs(): number {
    if (this.#state !== 'open') return 0;
    return this.#until === Infinity ? Infinity : this.#openMs;
  }

  /** What the next call would find. */
  stateAt(now: number): CircuitState {
    return this.#state === 'open' && this.#time(now) >= this.#until ? 'halfOpen' : this.#state;
  }

  /** When the next call may be let through, from now, in ms; 0 when one is now. */
  retryAfterMs(now: number): number {
    if (this.#state === 'closed') return 0;
    const at = this.#time(now);
    if (this.#state === 'open') return Math.max(0, this.#until - at);
    const waitedFor = this.#waitedFor(at);
    const [oldest = at] = waitedFor.values();
    return waitedFor.size < this.#options.probes ? 0 : oldest + this.#openMs - at;
  }

  /** Probes under way that it waits for. */
  probing(now: number): number {
    return this.#waitedFor(this.#time(now)).size;
  }

  /** Results that count, and the failures among them. */
  counts(now: number): { readonly calls: number; readonly failures: number } {
    return this.#count.counts(this.#time(now));
  }

  /** A ticket for a call, or undefined when it is not to be made. */
  enter(now: number): number | undefined {
    if (this.#state !== 'closed') {
      const at = this.#time(now);
      if (this.#state === 'open') {
        if (at < this.#until) return undefined;
        this.#become('halfOpen');
      }
      if (this.#waitedFor(at).size >= this.#options.probes) return undefined;
      this.#probes.set(this.#tickets + 1, at);
    }
    this.#tickets += 1;
    return this.#tickets;
  }

  /** The call went well. */
  succeeded(ticket: number, now: number): void {
    this.#ended(ticket, now, false);
  }

  /** The call failed, but with an answer: counted only where an answer is all that is asked for, of a probe. */
  answered(ticket: number, now: number): void {
    if (this.#state === 'halfOpen') this.succeeded(ticket, now);
  }

  /** The call failed in a way that counts. */
  failed(ticket: number, now: number): void {
    this.#ended(ticket, now, true);
  }

  /** The call ended in a way that says nothing, or was given up. */
  left(ticket: number): void {
    this.#probes.delete(ticket);
  }

  /** Opens it until it is reset. */
  trip(): void {
    this.#open(Infinity);
  }

  /** Closes it, as if nothing had ever failed. */
  reset(): void {
    this.#openMs = this.#options.openMs;
    this.#count.clear();
    this.#become('closed');
  }

  /** All of it but the calls under way. */
  save(now: number): BreakerState {
    const at = this.#time(now);
    const leftMs = this.#state === 'open' ? Math.max(0, this.#until - at) : 0;
    return { state: this.#state, openMs: finite(this.#openMs), leftMs: finite(leftMs), counted: this.#count.save(at) };
  }

  /** Goes on where another one was saved. Probes that were under way then are made anew. */
  restore({ state, openMs, leftMs, counted }: BreakerState, now: number): void {
    const at = this.#time(now);
    this.#count.restore(counted, at);
    this.#openMs = endless(openMs);
    this.#until = at + endless(leftMs);
    this.#become(state === 'closed' ? 'closed' : 'open');
  }

  #ended(ticket: number, now: number, hasFailed: boolean): void {
    if (ticket <= this.#stale) return;
    const at = this.#time(now);
    if (this.#state === 'closed') {
      if (this.#count.add(at, hasFailed)) this.#open(at);
      return;
    }
    this.left(ticket);
    if (hasFailed) this.#failed += 1;
    else this.#succeeded += 1;
    const { probes, probeShare, maxOpenMs } = this.#options;
    const needed = Math.max(1, Math.ceil(probes * probeShare));
    if (this.#succeeded >= needed) this.reset();
    else if (this.#failed > probes - needed) {
      this.#openMs = Math.min(2 * this.#openMs, maxOpenMs);
      this.#open(at);
    }
  }

  #open(at: number): void {
    this.#until = at + this.#openMs;
    this.#become('open');
  }

  /** Without those that have been silent for as long as it was open. They still count when they end. */
  #waitedFor(at: number): ReadonlyMap<number, number> {
    for (const [ticket, since] of this.#probes) if (since + this.#openMs <= at) this.#probes.delete(ticket);
    return this.#probes;
  }

  #become(state: CircuitState): void {
    this.#state = state;
    this.#stale = this.#tickets;
    this.#probes.clear();
    this.#succeeded = 0;
    this.#failed = 0;
  }

  #time(read: number): number {
    if (read < this.#lastRead) this.#lost += this.#lastRead - read;
    this.#lastRead = read;
    return read + this.#lost;
  }
}

/** JSON has no Infinity. */
const finite = (ms: number): number => (ms === Infinity ? -1 : ms);
const endless = (ms: number): number => (ms < 0 ? Infinity : ms);

/** A tenth of the window. */
interface Part {
  calls: number;
  failures: number;
}

const part = (calls = 0, failures = 0): Part => ({ calls, failures });

/** How many calls ended lately, how many of them badly, and how many of those one after the other. */
class CallWindow {
  private readonly options: CircuitOptions;
  /** The present one first. */
  private parts = [part()];
  /** When the present part began. */
  private since = 0;
  private inARow = 0;

  constructor(options: CircuitOptions) {
    this.options = options;
  }

  /** Counts one; true when the circuit is to open. */
  add(at: number, hasFailed: boolean): boolean {
    const [present] = this.partsAt(at) as [Part];
    present.calls++;
    if (!hasFailed) {
      this.inARow = 0;
      return false;
    }
    present.failures++;
    this.inARow++;
    const { calls, failures } = this.counts(at);
    const { share, minCalls, inARow } = this.options;
    return this.inARow >= inARow || (calls >= minCalls && failures / calls >= share);
  }

  /** Those that count now, and the failures among them. */
  counts(at: number): Readonly<Part> {
    const all = part();
    for (const { calls, failures } of this.partsAt(at)) {
      all.calls += calls;
      all.failures += failures;
    }
    return all;
  }

  /** Failures one after the other, how old the present part is, then calls and failures of each part, the present one first. */
  save(at: number): readonly number[] {
    const parts = this.partsAt(at).flatMap(({ calls, failures }) => [calls, failures]);
    return [this.inARow, at - this.since, ...parts];
  }

  restore([inARow = 0, age = 0, ...counted]: readonly number[], at: number): void {
    this.inARow = inARow;
    this.since = at - age;
    this.parts = Array.from({ length: PARTS }, (_, ago) => part(counted[2 * ago], counted[2 * ago + 1]));
  }

  clear(): void {
    this.parts = [part()];
    this.inARow = 0;
  }

  /** Without those that are too old. */
  private partsAt(at: number): readonly Part[] {
    const partMs = this.options.windowMs / PARTS;
    const steps = Math.min(PARTS, Math.floor((at - this.since) / partMs));
    if (!(steps > 0)) return this.parts;
    // After a long silence a part begins now.
    this.since = steps === PARTS ? at : this.since + steps * partMs;
    this.parts = [...Array.from({ length: steps }, () => part()), ...this.parts].slice(0, PARTS);
    return this.parts;
  }
}
