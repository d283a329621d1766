import type { ObservableInput } from 'rxjs';
import { Subscription } from 'rxjs';
import { LazySignal } from '../abort.js';
import type { Running, WorkObserver } from '../work.js';
import { startWork } from '../work.js';

/** One piece of work that is told by its signal when nobody wants it any more; what it says goes to `next`, `done` and `failed`. */
export abstract class StoppableWork<R> extends LazySignal implements WorkObserver<R> {
  readonly #owner = new Subscription();
  #running: Running | undefined;

  abstract next(value: R): void;
  abstract done(): void;
  abstract failed(error: unknown): void;

  /** Starts it. One that is cancelled meanwhile is left at once, even if it would emit for ever. */
  start(work: () => ObservableInput<R>): void {
    const running = startWork(work, this, this.#owner);
    this.#running = running;
    this.#owner.add(() => {
      running.cancel();
    });
  }

  /** The signal first, so that the work ends for this reason and not for want of a listener. That of a promise with an answer stays as it is. */
  cancel(): void {
    if (!this.#running?.isAnswered) this.abort();
    this.#owner.unsubscribe();
  }
}
