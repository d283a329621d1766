import { ALL, LaneTimes } from './lane-times.js';
import type { LimiterClock } from './limiter-clock.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { Rates } from './limiter-rates.js';

/** Pauses of single lanes, and of all of them. */
export class Pauses {
  readonly #clock: LimiterClock;
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  /** Lanes that are held back. */
  readonly #held = new LaneTimes();

  constructor(clock: LimiterClock, room: WaitingRoom, rates: Rates) {
    this.#clock = clock;
    this.#room = room;
    this.#rates = rates;
  }

  /** Whether some lane is held back by itself. */
  get anyLane(): boolean {
    return !this.#held.isEmpty;
  }

  /** When the next lane has its turns again. */
  get next(): number {
    return this.#held.next;
  }

  /** Answers whether that is longer than the pause already made. */
  begin(lane: number, pauseMs: number): boolean {
    const until = this.#clock.read() + pauseMs;
    if (lane === ALL) return this.#rates.pauseUntil(until);
    if (!this.#held.extend(lane, until)) return false;
    this.#room.pause(lane);
    return true;
  }

  /** Ends the pause that {@link begin} has made; answers whether there was one. */
  lift(lane: number): boolean {
    if (lane === ALL) return this.#rates.endPause(this.#clock.read());
    if (!this.#held.delete(lane)) return false;
    this.#room.resume(lane);
    return true;
  }

  /** By hand: until that is taken back. Answers whether that is a change. */
  hold(isHeld: boolean): boolean {
    return this.#rates.hold(isHeld);
  }

  /** Lanes whose pause is over have their turns again. */
  end(): void {
    if (this.#held.isEmpty) return;
    for (const lane of this.#held.takeOver(this.#clock.read())) this.#room.resume(lane);
  }

  /** How much longer a lane is held back by itself; not above 0 when it is not. */
  heldForMs(lane: number): number {
    return this.#held.until(lane) - this.#clock.time;
  }
}
