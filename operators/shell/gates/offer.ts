import { noop } from 'rxjs';
import type { Waiter } from '../../kernel/queues/queue.js';

/** A producer that waits to be let in. */
export class Offer<T> implements Waiter<Offer<T>> {
  readonly promise: Promise<boolean>;
  previous: Offer<T> | undefined = undefined;
  next: Offer<T> | undefined = undefined;
  readonly weight = 1;
  /** Its signal can end it no more. */
  leaveSignal: () => void = noop;
  #resolve: (isIn: boolean) => void = noop;
  #reject: (error: unknown) => void = noop;

  constructor(
    readonly item: T,
    readonly lane: number,
    readonly key?: unknown,
  ) {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  answer(isIn: boolean): void {
    this.leaveSignal();
    this.#resolve(isIn);
  }

  /** Callers that await the promise get the rejection; without a caller it is not reported as unhandled. */
  refuse(error: unknown): void {
    this.leaveSignal();
    this.promise.catch(noop);
    this.#reject(error);
  }
}
