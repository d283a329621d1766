import { ALL, LaneTimes } from './lane-times.js';
import type { LimiterConfig } from './limiter-options.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { Rates } from './limiter-rates.js';

/** Pauses of single lanes, and of all of them; and those that are too long to be waited for. */
export class Pauses {
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  readonly #failsAboveMs: number;
  /** Lanes that are held back. */
  readonly #held = new LaneTimes();
  /** Lanes in which jobs are refused. */
  readonly #failing = new LaneTimes();

  constructor({ failsAboveMs }: LimiterConfig, room: WaitingRoom, rates: Rates) {
    this.#room = room;
    this.#rates = rates;
    this.#failsAboveMs = failsAboveMs;
  }

  /** Whether some lane is held back by itself. */
  get anyLane(): boolean {
    return !this.#held.isEmpty;
  }

  /** Whether jobs are refused in some lane. */
  get fails(): boolean {
    return !this.#failing.isEmpty;
  }

  /** When the next lane has its turns again. */
  get next(): number {
    return this.#held.next;
  }

  /** Answers whether that is longer than the pause already made. */
  begin(lane: number, pauseMs: number, now: number): boolean {
    const until = now + pauseMs;
    if (pauseMs > this.#failsAboveMs) this.#failing.extend(lane, until);
    if (lane === ALL) return this.#rates.pauseUntil(until);
    if (!this.#held.extend(lane, until)) return false;
    this.#room.pause(lane);
    return true;
  }

  /** Lanes whose pause is over have their turns again. */
  end(now: number): void {
    for (const lane of this.#held.takeOver(now)) this.#room.resume(lane);
  }

  endFailing(now: number): void {
    this.#failing.takeOver(now);
  }

  /** How much longer a lane is held back by itself; not above 0 when it is not. */
  heldForMs(lane: number, now: number): number {
    return this.#held.until(lane) - now;
  }

  /** How much longer jobs of a lane are refused; not above 0 when they are not. */
  failsForMs(lane: number, now: number): number {
    return Math.max(this.#failing.until(ALL), this.#failing.until(lane)) - now;
  }
}
