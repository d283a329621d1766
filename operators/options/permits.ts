import type { ResponseLike, Usage } from './types.js';

/** How the work under a permit ended. `'unused'` says that nothing was sent: what it cost is given back. */
export type Outcome = 'ok' | 'error' | 'cancelled' | 'unused';

/** The right to one call. It counts against the limits until it is released; every method may be called again without effect. */
export interface Permit {
  /** Most weight that was paid for; what is formed under it must not weigh more. Without it, what was bid. */
  readonly budget?: number | undefined;
  /** What it was charged of a unit where a rate bounded its estimate; undefined where none did. */
  boundedTo?(unit: string): number | undefined;
  /** Releases it. The error is for listeners of releases. */
  release(outcome?: Outcome, error?: unknown): void;
  /** Releases it when the promise settles, or after a grace: for cancelled work that cannot be stopped. */
  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void;
  /** Replaces the estimated cost by the real one. */
  settle(usage: Usage): void;
  /** Shows the response to the call, good or bad. */
  observe(response: ResponseLike): void;
}

/** Work that decides what to send only when its permit comes: a batch grows while it waits. */
export interface Bidder {
  /**
   * Input tokens wanted now, or undefined to leave the queue. Called whenever the bidder is next, with the tokens that could be spent at once
   * (Infinity without a limit). Must not call the permits. Without it one request without tokens is wanted. One that throws or answers
   * something else is refused with a `CallbackError`.
   */
  bid?(affordable: number): number | undefined;
  /** Requests wanted, a finite number >= 0; looked at after each bid. One that has it must have it from the start. @defaultValue 1 */
  readonly requests?: number;
  /**
   * Amounts wanted of other units than these two, `slots` among them; the same. `outputTokens` reserves output beside what is bid, which counts
   * as `tokens` too unless `tokens` is named. @defaultValue one slot
   */
  readonly units?: Readonly<Record<string, number>> | undefined;
  /** Whose it is, for a limiter whose lanes keys share, as a job says it; looked at when it is enlisted. @defaultValue none */
  readonly key?: unknown;
  /** Which model it calls, for a limiter with limits per model; looked at when it is enlisted. @defaultValue none */
  readonly model?: string | undefined;
  /** Its turn has come. What this or `refused` throws is reported as what an observer throws, and keeps nothing from going on. */
  granted(permit: Permit): void;
  refused(error: unknown): void;
}

/** A bidder's place in the queue. */
export interface Place {
  /** Asks for a new bid now, because what is wanted has changed. */
  poke(): void;
  /** Leaves; nothing was charged. */
  withdraw(): void;
}

/**
 * Where calls get their permits: slots of one's own, a limiter that is shared, or a store over the network.
 * @stable
 */
export interface Permits {
  /** Most calls at a time. */
  readonly concurrency: number;
  /** Calls under way. */
  readonly executing: number;
  /** How busy it is, 0 to 1; 1 during a pause. */
  readonly load: number;
  /** Most input tokens that can be granted at once without going into debt; Infinity without a limit. */
  readonly tokenCapacity: number;
  /** Whether a cost above that may go into debt. */
  readonly borrows: boolean;
  /** The declared lanes' names, undefined when none were declared. */
  readonly lanes?: readonly string[] | undefined;
  /** Grants a permit at once or not at all, and never before a waiting job. */
  take?(): Permit | undefined;
  /** Queues for one; may grant before it returns. */
  enlist(bidder: Bidder, lane?: string): Place;
  /** Grants nothing for this long; a shorter pause never ends a longer one. */
  penalize(pauseMs: number): void;
  /** Calls the listener whenever something may have become free; the answer stops that. */
  watch?(changed: () => void): () => void;
}
