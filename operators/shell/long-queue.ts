import type { FlowSink } from '../options/events.js';

/** So many that whoever sends them should be looked at. */
const LONG = 10_000;

/** Tells that a queue without a bound has become long: once, and again when it has been empty in between. */
export class LongQueue {
  readonly #operator: string;
  readonly #onEvent: FlowSink | undefined;
  #isTold = false;

  constructor(operator: string, onEvent: FlowSink | undefined) {
    this.#operator = operator;
    this.#onEvent = onEvent;
  }

  /** To be called with what waits now, each time that it has become one more. */
  grew(queued: number, lane: string): void {
    if (queued === 1) this.#isTold = false;
    if (queued < LONG || this.#isTold) return;
    this.#isTold = true;
    this.#onEvent?.({ type: 'queueLong', operator: this.#operator, lane, queued });
  }
}
