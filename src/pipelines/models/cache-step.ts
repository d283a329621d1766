import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { connect } from '../../../operators/build.js';
import type { Policy, WorkResult } from '../../../operators/index.js';

/** What asking a store needs to know. */
export interface StoreHost {
  /** Gives up an answer of the store that takes too long. */
  readonly asking: Policy;
  storeFailed(action: StoreAction): void;
}

export type StoreAction = 'get' | 'set' | 'delete';

/** Waits for the last value of a stream, which is torn down before the step tells how it ended. A step that was stopped tells nothing. */
export class CacheStep<V> {
  readonly #source: Observable<V>;
  readonly #done: (value: V | undefined, isEmpty: boolean) => void;
  readonly #failed: (error: unknown) => void;
  #link: Subscriber<never> | undefined;

  constructor(source: Observable<V>, done: (value: V | undefined, isEmpty: boolean) => void, failed: (error: unknown) => void) {
    this.#source = source;
    this.#done = done;
    this.#failed = failed;
  }

  start(): void {
    new Observable<never>((link) => {
      let last: V | undefined;
      let isEmpty = true;
      this.#link = link;
      connect(this.#source, link, {
        next: (value) => {
          last = value;
          isEmpty = false;
        },
        error: (error) => {
          link.unsubscribe();
          this.#failed(error);
        },
        complete: () => {
          link.unsubscribe();
          this.#done(last, isEmpty);
        },
      });
    }).subscribe();
  }

  stop(): void {
    this.#link?.unsubscribe();
  }
}

/** One request to a store. When it throws, fails or takes too long, that is reported, and the call continues without it. */
export function storeStep<V>(
  host: StoreHost,
  action: StoreAction,
  work: () => WorkResult<V>,
  done: (value: V | undefined) => void,
  without: () => void,
): CacheStep<V> {
  return new CacheStep(host.asking(work), done, () => {
    host.storeFailed(action);
    without();
  });
}
