import { RateLimitError } from '../errors.js';
import { ALL, LaneTimes } from './lane-times.js';
import type { LimiterClock } from './limiter-clock.js';
import type { LimiterConfig } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { Rates } from './limiter-rates.js';
import type { Ticket } from './limiter-tickets.js';

/** Pauses of single lanes, and of all of them; and those that are too long to be waited for, here or above. */
export class Pauses {
  readonly #config: LimiterConfig;
  readonly #clock: LimiterClock;
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  readonly #above: Pauses | undefined;
  /** Lanes that are held back. */
  readonly #held = new LaneTimes();
  /** Lanes in which jobs are refused. */
  readonly #failing = new LaneTimes();

  constructor(config: LimiterConfig, clock: LimiterClock, room: WaitingRoom, rates: Rates, above: Pauses | undefined) {
    this.#config = config;
    this.#clock = clock;
    this.#room = room;
    this.#rates = rates;
    this.#above = above;
  }

  /** Whether some lane is held back by itself. */
  get anyLane(): boolean {
    return !this.#held.isEmpty;
  }

  /** Whether jobs are refused in some lane, here or above, because of a long pause. */
  get fails(): boolean {
    return !this.#failing.isEmpty || this.#above?.fails === true;
  }

  /** The longest that is waited for. */
  get longestPauseMs(): number {
    return Math.min(this.#config.failsAboveMs, this.#above?.longestPauseMs ?? Infinity);
  }

  /** When the next lane has its turns again. */
  get next(): number {
    return this.#held.next;
  }

  /** Answers whether that is longer than the pause already made. */
  begin(lane: number, pauseMs: number): boolean {
    const until = this.#clock.read() + pauseMs;
    if (pauseMs > this.#config.failsAboveMs) this.#failing.extend(lane, until);
    if (lane === ALL) return this.#rates.pauseUntil(until);
    if (!this.#held.extend(lane, until)) return false;
    this.#room.pause(lane);
    return true;
  }

  /** Lanes whose pause is over have their turns again. */
  end(): void {
    if (this.#held.isEmpty) return;
    for (const lane of this.#held.takeOver(this.#clock.read())) this.#room.resume(lane);
  }

  /** Whether somebody waits who is to be refused because of a long pause. */
  get failsSomebody(): boolean {
    return this.fails && this.#config.lanes.lanes.some((_, lane) => this.#room.count(lane) > 0 && this.tooLong(lane));
  }

  /** Has whoever waits for the end of a long pause refused; `refuse` is to take them out of the queue. */
  fail(refuse: (ticket: Ticket, error: unknown) => void): void {
    for (const lane of this.#config.lanes.lanes.keys()) {
      const error = this.tooLong(lane);
      for (let ticket = error && this.#room.head(lane); ticket; ticket = this.#room.head(lane)) refuse(ticket, error);
    }
    this.#failing.takeOver(this.#clock.time);
  }

  /** How much longer a lane is held back by itself; not above 0 when it is not. */
  heldForMs(lane: number): number {
    return this.#held.until(lane) - this.#clock.time;
  }

  /** The error for a job in a lane where nobody waits for the end of the pause; undefined where jobs wait. */
  tooLong(lane: number): RateLimitError | undefined {
    if (!this.fails) return undefined;
    const retryAfterMs = this.#failsForMs(lane);
    return retryAfterMs > 0 ? new RateLimitError(NAME, 'pause', retryAfterMs) : undefined;
  }

  /** How much longer jobs of a lane are refused; not above 0 when they are not. */
  #failsForMs(lane: number): number {
    const ownMs = Math.max(this.#failing.until(ALL), this.#failing.until(lane)) - this.#clock.read();
    return this.#above ? Math.max(ownMs, this.#above.#failsForMs(this.#config.sharesLanes ? lane : 0)) : ownMs;
  }
}
