/** When a circuit opens, and for how long. */
export interface CircuitOptions {
  /** Share of failures at which it opens, 0 to 1. */
  readonly failureRatio: number;
  /** Calls in the window below which it never opens. */
  readonly minCalls: number;
  /** How far back results count, in ms. */
  readonly windowMs: number;
  /** How long it is open at first, in ms; doubled by every probe that fails. */
  readonly openMs: number;
  /** The longest it is open, in ms. */
  readonly maxOpenMs: number;
  /** Calls let through at a time while it is half open; so many must succeed to close it. */
  readonly probes: number;
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
  readonly #window: CallWindow;
  #state: CircuitState = 'closed';
  /** How long the present opening lasts, or the next one will. */
  #openMs: number;
  /** When it lets probes through; half open, when it no longer waits for those it has let through. */
  #until = 0;
  #tickets = 0;
  /** Tickets up to this one are from a state that is over. */
  #stale = 0;
  /** Tickets up to this one hold no place of the half-open state any more. */
  #overdue = 0;
  #probing = 0;
  #succeeded = 0;
  #lastRead = -Infinity;
  /** What backward jumps of the clock have taken away. */
  #lost = 0;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#window = new CallWindow(options.windowMs);
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

  /** Calls let through to probe that have not ended. */
  get probing(): number {
    return this.#probing;
  }

  /** What the next call would find. */
  stateAt(now: number): CircuitState {
    return this.#state === 'open' && this.#time(now) >= this.#until ? 'halfOpen' : this.#state;
  }

  /** When the next call may be let through, from now, in ms; 0 when one is now. */
  retryAfterMs(now: number): number {
    if (this.#state === 'closed' || this.#hasPlace()) return 0;
    return Math.max(0, this.#until - this.#time(now));
  }

  /** Results in the window, and the failures among them. */
  counts(now: number): { readonly calls: number; readonly failures: number } {
    this.#window.moveTo(this.#time(now));
    return { calls: this.#window.calls, failures: this.#window.failures };
  }

  /** A ticket for a call, or undefined when it is not to be made. */
  enter(now: number): number | undefined {
    if (this.#state !== 'closed') {
      const at = this.#time(now);
      if (!this.#hasPlace()) {
        if (at < this.#until) return undefined;
        this.#letProbe(at);
      }
      this.#probing += 1;
    }
    this.#tickets += 1;
    return this.#tickets;
  }

  /** The call went well. */
  succeeded(ticket: number, now: number): void {
    if (ticket <= this.#stale) return;
    const at = this.#time(now);
    if (this.#state === 'closed') {
      this.#window.add(at, false);
      return;
    }
    this.left(ticket);
    this.#succeeded += 1;
    if (this.#succeeded >= this.#options.probes) this.reset();
  }

  /** The call failed, but with an answer: counted only where an answer is all that is asked for, of a probe. */
  answered(ticket: number, now: number): void {
    if (this.#state === 'halfOpen') this.succeeded(ticket, now);
  }

  /** The call failed in a way that counts. */
  failed(ticket: number, now: number): void {
    if (ticket <= this.#stale) return;
    const at = this.#time(now);
    const { failureRatio, minCalls, maxOpenMs } = this.#options;
    if (this.#state === 'closed') {
      this.#window.add(at, true);
      const { calls, failures } = this.#window;
      if (calls >= minCalls && failures / calls >= failureRatio) this.#open(at);
      return;
    }
    this.#openMs = Math.min(2 * this.#openMs, maxOpenMs);
    this.#open(at);
  }

  /** The call ended in a way that says nothing, or was given up. */
  left(ticket: number): void {
    if (ticket > this.#stale && ticket > this.#overdue && this.#state === 'halfOpen') this.#probing -= 1;
  }

  /** Opens it until it is reset. */
  trip(): void {
    this.#open(Infinity);
  }

  /** Closes it, as if nothing had ever failed. */
  reset(): void {
    this.#openMs = this.#options.openMs;
    this.#window.clear();
    this.#become('closed');
  }

  #open(at: number): void {
    this.#until = at + this.#openMs;
    this.#become('open');
  }

  /** A new round of probes: those that are silent still count when they end, but nobody waits for them any longer. */
  #letProbe(at: number): void {
    if (this.#state === 'open') this.#become('halfOpen');
    this.#until = at + this.#openMs;
    this.#overdue = this.#tickets;
    this.#probing = 0;
  }

  #hasPlace(): boolean {
    return this.#state === 'halfOpen' && this.#probing < this.#options.probes;
  }

  #become(state: CircuitState): void {
    this.#state = state;
    this.#stale = this.#tickets;
    this.#probing = 0;
    this.#succeeded = 0;
  }

  #time(read: number): number {
    if (read < this.#lastRead) this.#lost += this.#lastRead - read;
    this.#lastRead = read;
    return read + this.#lost;
  }
}

/** A tenth of the window. */
interface Part {
  calls: number;
  failures: number;
}

/** How many calls ended lately, and how many of them badly. */
class CallWindow {
  readonly #partMs: number;
  /** In a circle: behind the present one comes the oldest. */
  readonly #parts: readonly Part[] = Array.from({ length: PARTS }, () => ({ calls: 0, failures: 0 }));
  #present = 0;
  /** When the present part began. */
  #since = 0;
  calls = 0;
  failures = 0;

  constructor(windowMs: number) {
    this.#partMs = windowMs / PARTS;
  }

  add(at: number, hasFailed: boolean): void {
    this.moveTo(at);
    const part = this.#parts[this.#present] as Part;
    part.calls += 1;
    this.calls += 1;
    if (!hasFailed) return;
    part.failures += 1;
    this.failures += 1;
  }

  /** Forgets the parts that are too old. */
  moveTo(at: number): void {
    const steps = Math.min(PARTS, Math.floor((at - this.#since) / this.#partMs));
    if (!(steps > 0)) return;
    this.#drop(steps);
    // After a long silence a part begins now.
    this.#since = steps === PARTS ? at : this.#since + steps * this.#partMs;
  }

  clear(): void {
    this.#drop(PARTS);
  }

  /** Takes the calls of the oldest parts out; the last of these is the present one then. */
  #drop(parts: number): void {
    for (let dropped = 0; dropped < parts; dropped++) {
      this.#present = (this.#present + 1) % PARTS;
      const part = this.#parts[this.#present] as Part;
      this.calls -= part.calls;
      this.failures -= part.failures;
      part.calls = 0;
      part.failures = 0;
    }
  }
}
