import type { ObservableInput } from 'rxjs';
import { isObservable, Subscription } from 'rxjs';
import { report } from '../../../operators/support/report.js';
import type { Running } from '../../../operators/support/work.js';
import { isPromise, startWork } from '../../../operators/support/work.js';
import type { ToolOutput } from './tool-types.js';

/** Waits for one answer at a time: that of a schema, a guard or a tool. An answer that is no promise and no stream takes no time. */
export class Step {
  #current: Subscription | undefined;
  #running: Running | undefined;

  /** Exactly one of the two is called, unless it is stopped before. Neither must throw. */
  follow<R>(work: () => ToolOutput<R>, done: (answer: R) => void, failed: (error: unknown) => void): void {
    const current = new Subscription();
    this.#current = current;
    /** False when it was stopped, maybe by the work itself. */
    const ends = (): boolean => {
      if (this.#current !== current) return false;
      this.#current = undefined;
      this.#running = undefined;
      return true;
    };
    let output: ToolOutput<R>;
    try {
      output = work();
    } catch (error) {
      if (ends()) failed(error);
      return;
    }
    if (!comesLater(output)) {
      if (ends()) done(output as R);
      return;
    }
    const observer = {
      done: (answer: R): void => {
        if (ends()) done(answer);
      },
      failed: (error: unknown): void => {
        if (ends()) failed(error);
      },
    };
    const running = startWork(() => output as ObservableInput<R>, observer, current);
    if (this.#current === current) this.#running = running;
    else if (current.closed) running.cancel();
  }

  /** Stops listening; returns what goes on all the same, because a promise cannot be stopped. */
  stop(): PromiseLike<unknown> | undefined {
    const current = this.#current;
    const running = this.#running;
    this.#current = undefined;
    this.#running = undefined;
    try {
      current?.unsubscribe();
    } catch (error) {
      // A teardown of yours that throws must not keep the call, or those beside it, from being given up.
      report(error);
    }
    running?.cancel();
    return running?.settled;
  }
}

/** A text or a list is an answer, and not a stream of its parts. */
function comesLater(output: unknown): boolean {
  if (typeof output !== 'object' || output === null) return false;
  return isPromise(output) || isObservable(output) || Symbol.asyncIterator in output || 'getReader' in output;
}
