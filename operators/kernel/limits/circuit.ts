/** All that a breaker knows, but its calls under way: plain data, which can be stored as JSON. */
export interface BreakerState {
  readonly state: CircuitState;
  /** How long the present or the next opening lasts, in ms; -1 for ever. */
  readonly openMs: number;
  /** When it was saved, on the breaker's clock. A state that was saved without it counts as saved just now. */
  readonly at?: number;
  /** How much of it is left, in ms; -1 when it is open for ever, as when it was opened by hand. */
  readonly leftMs: number;
  /** What it has counted: failures one after the other, how old the present part of the window is, then calls and failures of each part. */
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

/**
 * What can be seen of a circuit.
 * @stable
 */
export interface CircuitSnapshot {
  /** What the next call would find. */
  readonly state: CircuitState;
  /** Calls that count, as success or as failure. */
  readonly calls: number;
  readonly failures: number;
  /** Probes under way that are waited for. */
  readonly probing: number;
  /** When the next call may be let through, from now, in ms: 0 when one is now, Infinity after `trip`. */
  readonly retryAfterMs: number;
}

/** Parts of the window: what is older than it goes a tenth at a time. */
const PARTS = 10;

/**
 * Decides whether calls to a backend are worth making: it opens when too many have failed, and after a while lets a probe through to see
 * whether the backend is back.
 *
 * Times are in ms and passed in. Every call that is let through gets a ticket, a number; its outcome is reported with that ticket, at most once.
 * A result counts only into the state in which its call was let through: calls that were under way when it opened say nothing new.
 * A clock that jumps back is taken to have stood still.
 *
 * Source: circuit breaker (Nygard, "Release It!", 2007), sampling over a rolling window as Hystrix did.
 */
export class Circuit {
  readonly #options: CircuitOptions;
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
  /** Probes of this state that went well, and that failed. */
  #succeeded = 0;
  #failed = 0;
  /** Calls and failures in each part of the window, the present one first. */
  #counted = [0, 0];
  /** When the present part began. */
  #since = 0;
  /** Failures one after the other. */
  #inARow = 0;
  #lastRead = -Infinity;
  /** What backward jumps of the clock have taken away. */
  #lost = 0;

  constructor(options: CircuitOptions) {
    this.#options = options;
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
    return this.#state === 'open' && this.#leftMs(this.#time(now)) === 0 ? 'halfOpen' : this.#state;
  }

  snapshot(now: number): CircuitSnapshot {
    const at = this.#time(now);
    const leftMs = this.#leftMs(at);
    const waitedFor = this.#waitedFor(at);
    const [oldest = at] = waitedFor.values();
    return {
      state: this.stateAt(now),
      calls: this.#sum(at, 0),
      failures: this.#sum(at, 1),
      probing: waitedFor.size,
      retryAfterMs: waitedFor.size < this.#options.probes ? leftMs : oldest + this.#openMs - at,
    };
  }

  /** A ticket for a call, or undefined when it is not to be made. */
  enter(now: number): number | undefined {
    if (this.#state !== 'closed') {
      const at = this.#time(now);
      if (this.#leftMs(at) > 0) return undefined;
      if (this.#state === 'open') this.#become('halfOpen');
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

  /** The call ended in a way that says nothing, or was cancelled. */
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
    this.#counted = [0, 0];
    this.#inARow = 0;
    this.#become('closed');
  }

  /** All of it but the calls under way. */
  save(now: number): BreakerState {
    const at = this.#time(now);
    const parts = this.#countedAt(at);
    const counted = [this.#inARow, at - this.#since, ...parts];
    return { state: this.#state, at: now, openMs: finite(this.#openMs), leftMs: finite(this.#leftMs(at)), counted };
  }

  /** Continues where another one was saved: what was saved has aged since. Probes that were under way then are made anew. */
  restore({ state, at: savedAt, openMs, leftMs, counted }: BreakerState, now: number): void {
    // Nothing has aged on a clock that was set back.
    const at = this.#time(now) - Math.max(0, now - (savedAt ?? now));
    const [inARow = 0, age = 0, calls = 0, failures = 0, ...older] = counted;
    this.#inARow = inARow;
    this.#since = at - age;
    this.#counted = [calls, failures, ...older];
    this.#openMs = endless(openMs);
    this.#until = at + endless(leftMs);
    this.#become(state === 'closed' ? 'closed' : 'open');
  }

  #ended(ticket: number, now: number, hasFailed: boolean): void {
    if (ticket <= this.#stale) return;
    const at = this.#time(now);
    if (this.#state === 'closed') {
      if (this.#count(at, hasFailed)) this.#open(at);
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

  /** Counts one; true when it is to open. */
  #count(at: number, hasFailed: boolean): boolean {
    const counted = this.#countedAt(at);
    const [calls = 0, failures = 0] = counted;
    counted[0] = calls + 1;
    counted[1] = failures + Number(hasFailed);
    this.#inARow = hasFailed ? this.#inARow + 1 : 0;
    if (!hasFailed) return false;
    const { share, minCalls, inARow } = this.#options;
    const all = this.#sum(at, 0);
    return this.#inARow >= inARow || (all >= minCalls && this.#sum(at, 1) / all >= share);
  }

  /** Calls of the window (0), or the failures among them (1). */
  #sum(at: number, which: 0 | 1): number {
    return this.#countedAt(at).reduce((sum, count, index) => (index % 2 === which ? sum + count : sum), 0);
  }

  /** Without parts that are too old. */
  #countedAt(at: number): number[] {
    const partMs = this.#options.windowMs / PARTS;
    const steps = Math.min(PARTS, Math.floor((at - this.#since) / partMs));
    if (steps > 0) {
      // After a long silence a part begins now.
      this.#since = steps === PARTS ? at : this.#since + steps * partMs;
      this.#counted = [...new Array<number>(2 * steps).fill(0), ...this.#counted].slice(0, 2 * PARTS);
    }
    return this.#counted;
  }

  /** How long it still rejects every call. */
  #leftMs(at: number): number {
    return this.#state === 'open' ? Math.max(0, this.#until - at) : 0;
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
