import { Subscription } from 'rxjs';
import type { WorkResult } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';
import type { WorkObserver } from '../../shell/work.js';
import { startWork } from '../../shell/work.js';

/** One piece of work that is told by its signal when nobody wants it any more; what it says goes to `said`, `done` and `failed`. */
export abstract class StoppableWork<R> extends LazySignal implements WorkObserver<R> {
  readonly #owner = new Subscription();
  #isAnswered = false;

  /** Whoever leaves now has the whole answer. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  abstract said(value: R): void;
  abstract done(): void;
  abstract failed(error: unknown): void;

  next(value: R, isWhole: boolean): void {
    this.#isAnswered = isWhole;
    this.said(value);
  }

  /** Starts it. One that is cancelled meanwhile is left at once, even if it would emit for ever. */
  start(work: () => WorkResult<R>): void {
    const running = startWork(work, this, this.#owner);
    this.#owner.add(() => {
      running.cancel();
    });
  }

  /** The signal first, so that the work ends for this reason and not for want of a listener. It stays as it is once there is an answer. */
  cancel(): void {
    if (!this.#isAnswered) this.abort();
    this.#owner.unsubscribe();
  }
}
