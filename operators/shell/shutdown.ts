import type { SchedulerLike } from 'rxjs';
import { asyncScheduler, Subscription } from 'rxjs';
import { ClosedError } from '../options/errors.js';
import { durationMs, onlyKnown, orDefault } from '../options/options.js';
import type { Drained, DrainOptions, Handle } from '../options/types.js';
import { onAbort, requiredSignal } from './abort.js';
import { Alarm } from './alarm.js';

/** What a shutdown asks of the handle it belongs to. */
export interface ShutdownHost {
  readonly operator: string;
  readonly scheduler: SchedulerLike | undefined;
  /** Hurry what was accepted. `finish` is to be called when it is over, maybe from here. */
  stop(): void;
  /** Give up what is not over, with this error, and have `finish` called. */
  abort(error: unknown): void;
}

const NO_OPTIONS: DrainOptions = {};

/** The end of a handle: open, then draining or giving up, then over. */
export class Shutdown {
  /** Nothing new is taken. */
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

  /** Counts what is over. Ignored before the shutdown has begun, and after it has ended. */
  count(outcome: keyof Drained, count = 1): void {
    if (this.isClosed && !this.#onEnd.closed) this.#counts[outcome] += count;
  }

  /** Everything is over; false when it was already. */
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

/** The ends of a handle, by its shutdown. */
export abstract class ShutdownHandle implements Handle {
  protected abstract readonly shutdown: Shutdown;

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
