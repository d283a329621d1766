import type { FlowEvent } from '../../operators/types.js';

/** An event, and how many came before it. */
export interface Told {
  readonly event: FlowEvent;
  readonly order: number;
}

/** The last events, so many at the most. */
export class EventLog {
  /** Events that are not kept any more. */
  forgotten = 0;
  readonly #most: number;
  readonly #events: FlowEvent[] = [];
  #oldest = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(event: FlowEvent): void {
    if (this.#events.length < this.#most) {
      this.#events.push(event);
      return;
    }
    this.#events[this.#oldest] = event;
    this.#oldest = (this.#oldest + 1) % this.#most;
    this.forgotten++;
  }

  /** The one that was added last. */
  get last(): Told {
    const count = this.#events.length;
    return { event: this.#events[(this.#oldest + count - 1) % count] as FlowEvent, order: this.forgotten + count - 1 };
  }

  /** Oldest first. */
  get events(): readonly FlowEvent[] {
    return [...this.#events.slice(this.#oldest), ...this.#events.slice(0, this.#oldest)];
  }

  /** The same, behind older ones that somebody has kept. */
  behind(kept: readonly Told[]): readonly FlowEvent[] {
    const old = new Map(kept.filter(({ order }) => order < this.forgotten).map(({ order, event }) => [order, event]));
    const sorted = [...old].sort(([a], [b]) => a - b);
    return [...sorted.map(([, event]) => event), ...this.events];
  }
}
