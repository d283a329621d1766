import type { Observable } from 'rxjs';
import { Subject } from 'rxjs';
import type { FlowEvent, FlowSink } from '../../operators/index.js';

/** A listener, and `events`: both get all events in the same order, whatever a listener does. Nothing comes after `drained`. */
export class EventChannel {
  readonly events: Observable<FlowEvent>;
  readonly #events = new Subject<FlowEvent>();
  readonly #listener: FlowSink | undefined;
  readonly #untold: FlowEvent[] = [];
  #isOver = false;

  /** @param listener - one that does not throw */
  constructor(listener: FlowSink | undefined) {
    this.#listener = listener;
    this.events = this.#events.asObservable();
  }

  /** Whether an event would reach a listener. The end is to be told all the same: it completes `events`. */
  get isHeard(): boolean {
    return this.#listener !== undefined || this.#events.observed;
  }

  /** May be taken out of it. */
  readonly tell = (event: FlowEvent): void => {
    if (this.#isOver) return;
    this.#isOver = event.type === 'drained';
    this.#untold.push(event);
    if (this.#untold.length > 1) return;
    // Grows while it is gone through.
    for (const next of this.#untold) {
      this.#listener?.(next);
      this.#events.next(next);
      if (next.type === 'drained') this.#events.complete();
    }
    this.#untold.length = 0;
  };
}
