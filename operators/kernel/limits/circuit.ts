/** When a closed circuit opens; the value of an option. */
export interface OpenRule {
  /** What one circuit counts by it. */
  start(): OpenCount;
}

/** Results of one circuit while it is closed. */
export interface OpenCount {
  /** Counts one; true when the circuit is to open. */
  add(at: number, hasFailed: boolean): boolean;
  /** Those that count now, and the failures among them. */
  counts(at: number): { readonly calls: number; readonly failures: number };
  clear(): void;
  /** Plain numbers, for a later `restore`. */
  save(at: number): readonly number[];
  restore(saved: readonly number[], at: number): void;
}

/** When a half-open circuit closes or opens again; the value of an option. */
export interface CloseRule {
  /** Calls let through at a time. */
  readonly probes: number;
  /** What so many results of probes mean; undefined when more are needed. */
  verdict(succeeded: number, failed: number): 'closed' | 'open' | undefined;
}

/** A circuit in plain data. */
export interface CircuitSaved {
  readonly state: CircuitState;
  /** How long the present or the next opening lasts, in ms. */
  readonly openMs: number;
  /** How much of it is left, in ms; -1 when it was opened by hand. */
  readonly leftMs: number;
  readonly counted: readonly number[];
}

/** When a circuit opens and closes, and for how long. */
export interface CircuitOptions {
  readonly opens: OpenRule;
  readonly closes: CloseRule;
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
  readonly #count: OpenCount;
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
  #failed = 0;
  #lastRead = -Infinity;
  /** What backward jumps of the clock have taken away. */
  #lost = 0;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#count = options.opens.start();
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

  /** Results that count, and the failures among them. */
  counts(now: number): { readonly calls: number; readonly failures: number } {
    return this.#count.counts(this.#time(now));
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
      if (this.#count.add(at, false)) this.#open(at);
      return;
    }
    this.left(ticket);
    this.#succeeded += 1;
    this.#judge(at);
  }

  /** The call failed, but with an answer: counted only where an answer is all that is asked for, of a probe. */
  answered(ticket: number, now: number): void {
    if (this.#state === 'halfOpen') this.succeeded(ticket, now);
  }

  /** The call failed in a way that counts. */
  failed(ticket: number, now: number): void {
    if (ticket <= this.#stale) return;
    const at = this.#time(now);
    if (this.#state === 'closed') {
      if (this.#count.add(at, true)) this.#open(at);
      return;
    }
    this.left(ticket);
    this.#failed += 1;
    this.#judge(at);
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
    this.#count.clear();
    this.#become('closed');
  }

  /** All of it but the calls under way. */
  save(now: number): CircuitSaved {
    const at = this.#time(now);
    const leftMs = this.#until === Infinity ? -1 : Math.max(0, this.#until - at);
    return { state: this.#state, openMs: this.#openMs, leftMs: this.#state === 'open' ? leftMs : 0, counted: this.#count.save(at) };
  }

  /** Goes on where another one was saved. Probes that were under way then are made anew. */
  restore({ state, openMs, leftMs, counted }: CircuitSaved, now: number): void {
    const at = this.#time(now);
    this.#count.restore(counted, at);
    this.#openMs = openMs;
    this.#until = leftMs < 0 ? Infinity : at + leftMs;
    this.#become(state === 'closed' ? 'closed' : 'open');
  }

  /** What the probes have shown so far. */
  #judge(at: number): void {
    const { closes, maxOpenMs } = this.#options;
    const verdict = closes.verdict(this.#succeeded, this.#failed);
    if (verdict === 'closed') this.reset();
    if (verdict !== 'open') return;
    this.#openMs = Math.min(2 * this.#openMs, maxOpenMs);
    this.#open(at);
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
    return this.#state === 'halfOpen' && this.#probing < this.#options.closes.probes;
  }

  #become(state: CircuitState): void {
    this.#state = state;
    this.#stale = this.#tickets;
    this.#probing = 0;
    this.#succeeded = 0;
    this.#failed = 0;
  }

  #time(read: number): number {
    if (read < this.#lastRead) this.#lost += this.#lastRead - read;
    this.#lastRead = read;
    return read + this.#lost;
  }
}

/** Opens when a share of the calls in a window has failed, and there were enough of them. */
export class FailureShare implements OpenRule {
  constructor(
    readonly share: number,
    readonly minCalls: number,
    readonly windowMs: number,
  ) {}

  start(): OpenCount {
    return new CallWindow(this);
  }
}

/** Opens when so many calls one after the other have failed. */
export class FailuresInARow implements OpenRule {
  constructor(readonly failures: number) {}

  start(): OpenCount {
    const { failures: most } = this;
    let failures = 0;
    return {
      add: (_at, hasFailed) => {
        failures = hasFailed ? failures + 1 : 0;
        return failures >= most;
      },
      counts: () => ({ calls: failures, failures }),
      clear: () => {
        failures = 0;
      },
      save: () => [failures],
      restore: ([saved = 0]) => {
        failures = saved;
      },
    };
  }
}

/** Closes when a share of so many probes has succeeded, and opens again as soon as that cannot be any more. */
export class ProbeShare implements CloseRule {
  constructor(
    readonly probes: number,
    readonly share: number,
  ) {}

  verdict(succeeded: number, failed: number): 'closed' | 'open' | undefined {
    const needed = Math.max(1, Math.ceil(this.probes * this.share));
    if (succeeded >= needed) return 'closed';
    return failed > this.probes - needed ? 'open' : undefined;
  }
}

/** A tenth of the window. */
interface Part {
  calls: number;
  failures: number;
}

/** How many calls ended lately, and how many of them badly. */
class CallWindow implements OpenCount {
  readonly #rule: FailureShare;
  readonly #partMs: number;
  /** In a circle: behind the present one comes the oldest. */
  readonly #parts: readonly Part[] = Array.from({ length: PARTS }, () => ({ calls: 0, failures: 0 }));
  #present = 0;
  /** When the present part began. */
  #since = 0;
  #calls = 0;
  #failures = 0;

  constructor(rule: FailureShare) {
    this.#rule = rule;
    this.#partMs = rule.windowMs / PARTS;
  }

  add(at: number, hasFailed: boolean): boolean {
    this.#moveTo(at);
    const part = this.#parts[this.#present] as Part;
    part.calls += 1;
    this.#calls += 1;
    if (hasFailed) {
      part.failures += 1;
      this.#failures += 1;
    }
    const { share, minCalls } = this.#rule;
    return hasFailed && this.#calls >= minCalls && this.#failures / this.#calls >= share;
  }

  counts(at: number): { readonly calls: number; readonly failures: number } {
    this.#moveTo(at);
    return { calls: this.#calls, failures: this.#failures };
  }

  /** How old the present part is, then calls and failures of each part, the present one first. */
  save(at: number): readonly number[] {
    this.#moveTo(at);
    const parts = this.#parts.map((_, ago) => this.#parts[(this.#present + PARTS - ago) % PARTS] as Part);
    return [at - this.#since, ...parts.flatMap(({ calls, failures }) => [calls, failures])];
  }

  restore([age = 0, ...counted]: readonly number[], at: number): void {
    this.clear();
    this.#since = at - age;
    for (let ago = 0; ago < PARTS; ago++) {
      const part = this.#parts[(this.#present + PARTS - ago) % PARTS] as Part;
      part.calls = counted[2 * ago] ?? 0;
      part.failures = counted[2 * ago + 1] ?? 0;
      this.#calls += part.calls;
      this.#failures += part.failures;
    }
  }

  /** Forgets the parts that are too old. */
  #moveTo(at: number): void {
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
      this.#calls -= part.calls;
      this.#failures -= part.failures;
      part.calls = 0;
      part.failures = 0;
    }
  }
}
