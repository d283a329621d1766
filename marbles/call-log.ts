import type { Subscriber } from 'rxjs';
import { onAbort } from '../operators/shell/calls/abort.js';

/**
 * One call as the other side saw it; times in ms of its scheduler.
 * @stable
 */
export interface WorkerCall<I> {
  readonly input: I;
  readonly startedAt: number;
  /** Infinity while it runs. */
  readonly endedAt: number;
  readonly outcome: 'running' | 'ok' | 'failed' | 'cancelled';
  /** How often the call's signal said abort. */
  readonly aborts: number;
}

type Outcome = WorkerCall<unknown>['outcome'];

/** Writes down every call and counts those that run. */
export class CallLog<I, C extends WorkerCall<I> = WorkerCall<I>> {
  readonly calls: C[] = [];
  readonly #now: () => number;
  readonly #most: number;
  #running = 0;
  #peak = 0;

  /** @param most - how many calls it remembers, the newest */
  constructor(now: () => number, most = Infinity) {
    this.#now = now;
    this.#most = most;
  }

  get running(): number {
    return this.#running;
  }

  /** Most calls that ever ran at once. */
  get peak(): number {
    return this.#peak;
  }

  /** Opens a call that lasts until the returned function says how it ended, or its subscriber leaves. */
  open(
    subscriber: Subscriber<unknown>,
    signal: AbortSignal | undefined,
    record: (opened: WorkerCall<I>) => C,
    input: I,
    onAborted?: () => void,
  ): (outcome: Outcome) => void {
    const call = record({ input, startedAt: this.#now(), endedAt: Infinity, outcome: 'running', aborts: 0 }) as Open<C>;
    this.calls.push(call);
    if (this.calls.length > this.#most) this.calls.shift();
    this.#peak = Math.max(this.#peak, ++this.#running);
    const end = (outcome: Outcome): void => {
      if (call.outcome !== 'running') return;
      call.outcome = outcome;
      call.endedAt = this.#now();
      this.#running -= 1;
    };
    subscriber.add(
      onAbort(signal, () => {
        call.aborts += 1;
        onAborted?.();
      }),
    );
    subscriber.add(() => {
      end('cancelled');
    });
    return end;
  }
}

type Open<C> = { -readonly [K in keyof C]: C[K] };
