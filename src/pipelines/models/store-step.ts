import type { SchedulerLike } from 'rxjs';
import { Alarm, Call } from '../../../operators/toolkit.js';
import type { WorkResult } from '../../../operators/types.js';

/** What asking a store needs to know. */
export interface StoreHost {
  readonly scheduler: SchedulerLike;
  /** How long the store may take, in ms. */
  readonly timeoutMs: number;
  storeFailed(action: StoreAction): void;
}

export type StoreAction = 'get' | 'set' | 'delete';

/** One thing that a store is asked. When it throws, fails or takes too long, that is told, and things go on without it. */
export class StoreStep<V> extends Call<V> {
  readonly #host: StoreHost;
  readonly #action: StoreAction;
  readonly work: () => WorkResult<V>;
  readonly done: (value: V) => void;
  readonly #without: () => void;
  readonly #alarm: Alarm;

  constructor(host: StoreHost, action: StoreAction, work: () => WorkResult<V>, done: (value: V) => void, without: () => void) {
    super();
    this.#host = host;
    this.#action = action;
    this.work = work;
    this.done = (value) => {
      this.#alarm.clear();
      done(value);
    };
    this.#without = without;
    this.#alarm = new Alarm(host.scheduler, () => {
      this.stop();
      this.failed();
    });
  }

  start(): void {
    const { timeoutMs } = this.#host;
    this.begin();
    if (this.isOpen && timeoutMs !== Infinity) this.#alarm.set(this.#alarm.now() + timeoutMs);
  }

  override stop(): void {
    this.#alarm.clear();
    super.stop();
  }

  failed(): void {
    this.#alarm.clear();
    this.#host.storeFailed(this.#action);
    this.#without();
  }
}
