import type { SchedulerLike } from 'rxjs';
import { asyncScheduler, Subscription } from 'rxjs';
import { ClosedError } from '../../options/errors.js';
import { durationMs, onlyKnown, orDefault } from '../../options/options.js';
import type { Drained, DrainOptions, Handle } from '../../options/types.js';
import { Alarm } from '../time/alarm.js';
import { onAbort, requiredSignal } from './abort.js';

/**
 * What a {@link Shutdown} needs from the handle that it belongs to.
 * @beta
 */
export interface ShutdownHost {
  /** The name that errors give the handle, such as `'createTranslator'`. */
  readonly operator: string;
  /** Clock of `timeoutMs`. Undefined stands for `asyncScheduler`. */
  readonly scheduler: SchedulerLike | undefined;
  /** Called once by `drain`: send what waits without waiting for a window. Call `finish()` when the last accepted item is over, from here if none is open. */
  stop(): void;
  /** Called once by `close`, or when `timeoutMs` of `drain` is over: reject every open item with this error, then call `finish()`. */
  abort(error: unknown): void;
}

const NO_OPTIONS: DrainOptions = {};

/**
 * The end of a handle: open, then draining or aborting, then over. Made by `shutdownOf` of {@link ShutdownHandle}.
 * @beta
 */
export interface Shutdown {
  /** Whether `drain` or `close` was called: reject new items with `ClosedError`. */
  readonly isClosed: boolean;
  /** {@link Handle.drain} */
  drain(options?: DrainOptions): Promise<Drained>;
  /** {@link Handle.close}, with an error of your own for the open items. @defaultValue `ClosedError` */
  close(error?: unknown): void;
  /** {@link Handle.shutdownOn} @throws FlowConfigError */
  on(signal: AbortSignal, options?: DrainOptions): void;
  /** Counts items that are over, 1 by default, for the result of `drain`. Ignored before the shutdown has begun and after `finish()`. */
  count(outcome: keyof Drained, count?: number): void;
  /** Resolves `drain` and removes all listeners and timers. True the first time, false when it was over already. */
  finish(): boolean;
}

/** The one implementation of {@link Shutdown}. */
export class HandleShutdown implements Shutdown {
  isClosed = false;
  readonly #host: ShutdownHost;
  readonly #counts = { done: 0, aborted: 0, dropped: 0 };
  /** Torn down at the end: listeners to signals, timers, promises of `drain`. */
  readonly #onEnd = new Subscription();
  #isAborting = false;
  #drained: Promise<Drained> | undefined;

  constructor(host: ShutdownHost) {
    this.#host = host;
  }

  drain(options: DrainOptions = NO_OPTIONS): Promise<Drained> {
    const timeoutMs = this.#timeoutMs(options);
    this.#drained ??= new Promise((resolve) => {
      this.#onEnd.add(() => {
        resolve(this.#counts);
      });
    });
    if (!this.isClosed) {
      this.isClosed = true;
      this.#host.stop();
    }
    if (timeoutMs !== Infinity && !this.#onEnd.closed) {
      const alarm = new Alarm(this.#host.scheduler ?? asyncScheduler, () => {
        this.close();
      });
      this.#onEnd.add(() => {
        alarm.clear();
      });
      alarm.set(alarm.now() + timeoutMs);
    }
    return this.#drained;
  }

  close(error: unknown = new ClosedError(this.#host.operator)): void {
    if (this.#isAborting || this.#onEnd.closed) return;
    this.isClosed = true;
    this.#isAborting = true;
    this.#host.abort(error);
  }

  on(signal: AbortSignal, options: DrainOptions = NO_OPTIONS): void {
    requiredSignal(this.#host.operator, 'signal', signal);
    this.#timeoutMs(options);
    if (this.#onEnd.closed) return;
    this.#onEnd.add(
      onAbort(signal, () => {
        void this.drain(options);
      }),
    );
  }

  count(outcome: keyof Drained, count = 1): void {
    if (this.isClosed && !this.#onEnd.closed) this.#counts[outcome] += count;
  }

  finish(): boolean {
    if (this.#onEnd.closed) return false;
    this.#onEnd.unsubscribe();
    return true;
  }

  #timeoutMs(options: DrainOptions): number {
    const { operator } = this.#host;
    onlyKnown(operator, options, ['timeoutMs'], 'drain options');
    return durationMs(operator, 'timeoutMs', orDefault(options.timeoutMs, Infinity));
  }
}

/**
 * Base class of a handle that accepts items: gives it `drain`, `close`, `shutdownOn` and `Symbol.asyncDispose`, as every handle of this package has them.
 *
 * A subclass sets `shutdown` in its constructor, with `shutdownOf`, and keeps four rules:
 *
 * - **Accept** nothing while `shutdown.isClosed`: reject with `ClosedError`.
 * - **Count** each accepted item that ends while it is open: `done` with a result or an error of its own, `aborted` or `dropped` in `abort`. An item
 *   whose caller left is not counted.
 * - **Finish:** call `shutdown.finish()` once `isClosed` holds and no item is open; `drain` resolves then.
 * - **Abort** rejects every open item with the given error, each once.
 *
 * `timeoutMs` of `drain` is in ms (default: no limit) and runs on the scheduler of the host.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) from `drain` and `shutdownOn`, when the signal or an option is wrong.
 * @example
 * ```ts
 * import { ShutdownHandle } from 'sluice/operators/build';
 *
 * class Doors extends ShutdownHandle {
 *   open = 0;
 *   protected override readonly shutdown = this.shutdownOf({
 *     operator: 'createDoors',
 *     scheduler: undefined,
 *     stop: () => this.leave(0),
 *     abort: () => {
 *       this.shutdown.count('aborted', this.open);
 *       this.leave(this.open);
 *     },
 *   });
 *   leave(count: number): void {
 *     this.open -= count;
 *     if (this.shutdown.isClosed && this.open === 0) this.shutdown.finish();
 *   }
 * }
 * const doors = new Doors();
 * doors.open = 2;
 * const drained = doors.drain();
 * doors.close();
 * await drained; // => { done: 0, aborted: 2, dropped: 0 }
 * ```
 */
export abstract class ShutdownHandle implements Handle {
  protected abstract readonly shutdown: Shutdown;

  /** Makes the shutdown; call it once, in the constructor of the handle. */
  protected shutdownOf(host: ShutdownHost): Shutdown {
    return new HandleShutdown(host);
  }

  drain(options?: DrainOptions): Promise<Drained> {
    return this.shutdown.drain(options);
  }

  close(): void {
    this.shutdown.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    this.shutdown.on(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }
}
