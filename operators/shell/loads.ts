import { noop } from 'rxjs';
import { Job } from '../kernel/machine/job.js';
import type { Settled } from '../options/types.js';
import { settledOf } from './call.js';

/** Called once with the result of a load; the item is undefined when none was needed, or none accepted. */
export type OnEnd<T, R> = (failed: boolean, outcome: unknown, item: Item<T, R> | undefined) => void;

export interface LoadOptions {
  /** One of the declared lanes. @defaultValue what the queue's `by` says, else the last lane */
  readonly lane?: string;
  /**
   * Items of a lane with equal keys share one turn in it, so that a tenant who sends much delays no other. Only with a `queue` that has a `key`.
   * @defaultValue what the queue's `key` says
   */
  readonly key?: unknown;
  /** Leaves when it aborts; the call is aborted when all its members have left. */
  readonly signal?: AbortSignal;
  /** Longest time to the result, in ms. @defaultValue the `deadlineMs` option */
  readonly deadlineMs?: number;
}

/** Where a batcher is used. */
export interface BatcherPlace {
  /** Whether promised loads wait for room where `load` overflows. */
  readonly waits?: boolean;
  /** Of all its calls, for a limiter with limits per model. */
  readonly model?: string | undefined;
  /** Whose all its calls are, for a limiter with lanes that keys share. */
  readonly key?: unknown;
}

/** One caller who waits for an item, and may leave. */
export class Load<T, R> {
  /** What it waits for. Set before the item is offered: a caller may leave while that is going on. */
  item: Item<T, R> | undefined = undefined;
  /** Its signal can cancel it no more. */
  leaveSignal: () => void = noop;

  constructor(
    readonly input: T,
    readonly options: LoadOptions,
    private readonly onEnd: OnEnd<T, R>,
  ) {}

  end(failed: boolean, outcome: unknown, item?: Item<T, R>): void {
    this.leaveSignal();
    this.onEnd(failed, outcome, item);
  }
}

/** An item with its waiting callers. One object of one class, because there is one for each load. */
export class Item<T, R> extends Job<T, R> {
  /** What a caller who cannot leave waits for. */
  private promised: Promise<R> | undefined = undefined;
  private resolve: ((value: R) => void) | undefined = undefined;
  private reject: ((error: unknown) => void) | undefined = undefined;
  /** The callers who may leave. */
  private loads: Set<Load<T, R>> | undefined = undefined;

  constructor(
    input: T,
    /** What loads of equal keys find it by, if they do. */
    readonly loadKey: unknown,
  ) {
    super(input);
  }

  /** For the one caller of an item that nobody shares, who cannot leave. */
  promise(): Promise<R> {
    return (this.promised = new Promise<R>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    }));
  }

  /** Nobody waits for it. */
  get isEmpty(): boolean {
    return this.promised === undefined && !this.loads?.size;
  }

  join(load: Load<T, R>): void {
    load.item = this;
    (this.loads ??= new Set()).add(load);
  }

  /** False when it was not waiting. */
  part(load: Load<T, R>): boolean {
    return this.loads?.delete(load) === true;
  }

  /** Hands its result to everybody. */
  deliver(): void {
    const { loads, promised, resolve, reject, failed, outcome } = this;
    this.loads = undefined;
    if (!failed) resolve?.(outcome as R);
    else if (reject) {
      // Whoever awaits it still sees the rejection; whoever does not is not killed by it. Only now: a handler costs a promise.
      promised?.catch(noop);
      reject(outcome);
    }
    if (loads) for (const load of loads) load.end(failed, outcome, this);
  }
}

/** What became of a load, with its own input: another caller's may have the same key. */
export function settledLoad<T, R>(input: T, failed: boolean, outcome: unknown, item: Item<T, R> | undefined): Settled<T, R> {
  const { index = -1, id = '', attempts = 0 } = item ?? {};
  return settledOf({ input, index, id, attempts }, failed, outcome);
}
