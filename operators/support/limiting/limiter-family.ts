import type { Shutdown } from '../../shell/shutdown.js';
import type { Capacity } from './limiter-capacity.js';
import type { Places } from './limiter-places.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { Ticket } from './limiter-tickets.js';
import { Waits } from './limiter-waits.js';

/** The limiter itself. */
export interface Member {
  readonly shutdown: Shutdown;
  readonly capacity: Capacity;
  readonly isGivingUp: boolean;
  /** Nothing more is to be done now but to wait for what comes next. */
  rest(): void;
  /** Refuses a job that is cleared away. */
  dismiss(ticket: Ticket, error: unknown): void;
}

/** A limiter among those above and below it: one is not over before those below it are. */
export class Family {
  readonly #own: Member;
  readonly #room: WaitingRoom;
  readonly #places: Places | undefined;
  readonly #above: Family | undefined;
  /** Limiters below that have something waiting or running. */
  readonly #below = new Set<Family>();
  readonly #waits = new Waits();

  constructor(own: Member, room: WaitingRoom, places: Places | undefined, above: Family | undefined) {
    this.#own = own;
    this.#room = room;
    this.#places = places;
    this.#above = above;
  }

  /** Whether the end has begun, here or above. */
  get isClosed(): boolean {
    return this.#own.shutdown.isClosed || this.#above?.isClosed === true;
  }

  /** Whether nobody is to be served any more, because this one or one above gives everything up. */
  get isGivenUp(): boolean {
    return this.#own.isGivingUp || this.#above?.isGivenUp === true;
  }

  /** Whether anything waits or runs, here or below. */
  get isBusy(): boolean {
    return this.#own.capacity.executing > 0 || this.#room.size > 0 || this.#below.size > 0;
  }

  /** What waits here and below. */
  get queued(): number {
    let jobs = this.#room.size;
    // A place here is held for a job there.
    for (const child of this.#below) jobs += child.queued - (child.#places?.size ?? 0);
    return jobs;
  }

  /** Whether somebody waits until something holds here. */
  get isAwaited(): boolean {
    return !this.#waits.isEmpty;
  }

  whenIdle(): Promise<void> {
    return this.#waits.until(() => !this.isBusy);
  }

  whenQueued(below: number): Promise<void> {
    return this.#waits.until(() => this.queued < below);
  }

  /** Those who wait until something holds, here or above, are to look again. */
  tell(): void {
    this.#waits.look();
    this.#above?.tell();
  }

  /** Refuses whoever waits now, here and below; whoever is refused may ask again. */
  clear(error: unknown): void {
    for (const [member, ticket] of this.#waiting()) if (ticket.isWaiting) member.dismiss(ticket, error);
  }

  #waiting(): (readonly [Member, Ticket])[] {
    const own = this.#room.all().map((ticket) => [this.#own, ticket] as const);
    return [...own, ...[...this.#below].flatMap((child) => child.#waiting())];
  }

  /** Something waits or runs here, which the limiters above must know. */
  enter(): void {
    const above = this.#above;
    if (above === undefined || above.#below.has(this)) return;
    above.#below.add(this);
    above.enter();
  }

  /** Nothing may wait or run here any more. */
  leave(): void {
    if (this.#above && !this.isBusy && this.#above.#below.delete(this)) this.#above.#own.rest();
  }

  drain(): void {
    for (const child of [...this.#below]) void child.#own.shutdown.drain();
  }

  close(error: unknown): void {
    for (const child of [...this.#below]) child.#own.shutdown.close(error);
  }
}
