import { Subscription } from 'rxjs';
import type { ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';
import type { Running, WorkObserver } from '../../shell/work.js';
import { startWork } from '../../shell/work.js';
import type { Lease } from '../limiting/limiter-types.js';

/** What the work of a policy is told about its attempt. The functions may be taken out of it. */
export interface PolicyContext {
  /**
   * Aborts when the attempt has timed out, the deadline has passed, or nobody wants the result any more; never once a promise has answered.
   * Made on the first look.
   */
  readonly signal: AbortSignal;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** When this attempt is cut off, on the policy's scheduler; Infinity when it is not. */
  readonly deadlineAt: number;
  /** How long it has waited for its permit, in ms. */
  readonly queuedMs: number;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
  /** Replaces the estimated token cost by the real one. */
  readonly reconcile: (usage: Usage) => void;
  /** Lets the limiter read `retry-after` from a response. */
  readonly observe: (response: ResponseLike) => void;
}

export type PolicyWork<R> = (context: PolicyContext) => WorkResult<R>;

/** The same for work that is part of this package. */
export interface AttemptContext extends PolicyContext {
  /** Called when the signal aborts, or would. */
  onAbort: (() => void) | undefined;
  /** When set, it says when the permit goes back: the other side sees a connection close later than we close it. */
  giveBack: ((release: () => void) => void) | undefined;
}

export type AttemptWork<R> = (context: AttemptContext) => WorkResult<R>;

/** One attempt: what its work is told, what it is listened to with, and how its permit goes back. */
export class Attempt<R> extends LazySignal implements AttemptContext {
  giveBack: AttemptContext['giveBack'];
  readonly #owner = new Subscription();
  #running: Running | undefined;
  #isSent = false;
  #isStarting = false;
  /** Whoever leaves now has the whole answer. */
  #isAnswered = false;
  /** Its work is over: the signal has nothing to tell it. */
  #hasFailed = false;
  #isOver = false;
  #isLetGo = false;

  constructor(
    readonly attempt: number,
    readonly startedAt: number,
    readonly deadlineAt: number,
    readonly queuedMs: number,
    readonly lease: Lease | undefined,
  ) {
    super();
  }

  get reconcile(): (usage: Usage) => void {
    return (usage) => {
      this.lease?.settle(usage);
    };
  }

  get observe(): (response: ResponseLike) => void {
    return (response) => {
      this.lease?.observe(response);
    };
  }

  /** Neither ended nor stopped. */
  isOpen(): boolean {
    return !this.#isOver;
  }

  start(work: AttemptWork<R>, { next, done, failed }: Required<WorkObserver<R>>): void {
    this.#isSent = true;
    this.#isStarting = true;
    this.#running = startWork(
      () => work(this),
      {
        next: (value, isWhole) => {
          if (!this.isOpen()) return;
          this.#isAnswered = isWhole;
          next(value, isWhole);
        },
        done: (value, empty) => {
          if (this.isOpen()) done(value, empty);
        },
        failed: (error) => {
          if (!this.isOpen()) return;
          this.#hasFailed = true;
          failed(error);
        },
      },
      this.#owner,
    );
    this.#isStarting = false;
    // The work may have made its consumer leave before it returned.
    if (this.#isOver) this.letGo();
  }

  /** It has ended well. */
  end(): void {
    this.close();
    this.#giveBack((lease) => {
      lease.release('ok');
    });
  }

  /** It is over; `letGo` gives its permit back. */
  close(): void {
    this.#isOver = true;
    this.#running = undefined;
  }

  /** Nobody waits for it any more. One that has answered has ended well all the same. */
  stop(): 'ok' | 'cancelled' {
    if (this.#isAnswered) {
      this.end();
      return 'ok';
    }
    this.cutOff();
    this.letGo();
    return 'cancelled';
  }

  /** The work is told to end; what it says to that is not its answer. `letGo` gives its permit back. */
  cutOff(): void {
    this.#isOver = true;
    if (!this.#hasFailed) this.abort();
    this.#owner.unsubscribe();
  }

  /** An Observable has stopped, so its slot is free; a promise that was cut off goes on, and keeps it for a while. */
  letGo(failure?: { readonly error: unknown }): void {
    if (!this.#isSent) {
      this.lease?.release('unused');
      return;
    }
    // Whether it is a promise is only known when it has returned.
    if (this.#isLetGo || (this.#isStarting && failure === undefined)) return;
    this.#isLetGo = true;
    this.#running?.cancel();
    const settled = this.#running?.settled;
    this.#giveBack((lease) => {
      if (settled !== undefined) lease.releaseAfter(settled, failure?.error);
      else if (failure) lease.release('error', failure.error);
      else lease.release('cancelled');
    });
  }

  #giveBack(release: (lease: Lease) => void): void {
    const { lease, giveBack } = this;
    if (lease === undefined) return;
    if (giveBack === undefined) release(lease);
    else
      giveBack(() => {
        release(lease);
      });
  }
}
