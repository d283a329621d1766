import type { FlowEvent } from '../../operators/index.js';

const MOST_EVENTS = 2000;

/** The last 2,000 events, and those before them about what is still open: from these the same picture is made again. */
export class EventLog {
  /** A few more than are to be kept: what is too old is taken out of it now and then. */
  #events: FlowEvent[] = [];
  #most = MOST_EVENTS;

  /** @param isOpen - whether what an event is about has no end yet */
  constructor(private readonly isOpen: (event: FlowEvent) => boolean) {}

  add(event: FlowEvent): void {
    this.#events.push(event);
    if (this.#events.length <= this.#most) return;
    this.#events = this.history;
    this.#most = this.#events.length * 1.03;
  }

  get history(): FlowEvent[] {
    const old = this.#events.length - MOST_EVENTS;
    return this.#events.filter((event, i) => i >= old || this.isOpen(event));
  }

  /** The last 2,000, oldest first. */
  get last(): readonly FlowEvent[] {
    return this.#events.slice(-MOST_EVENTS);
  }
}
