import type { Subscribable } from 'rxjs';
import type { FlowEvent } from '../../operators/index.js';

/** What a limiter or a pipeline says of this moment. Whatever it does not say counts as 0, of limits as none. */
export interface Observed {
  snapshot(): {
    readonly queued?: number;
    readonly heldByRate?: number;
    readonly heldBySlot?: number;
    readonly executing?: number;
    readonly concurrency?: number;
    readonly requests?: number;
    readonly tokens?: number;
    readonly pausedForMs?: number;
  };
  /** Of a limiter: most requests and tokens that can be saved up. */
  readonly requestCapacity?: number;
  readonly tokenCapacity?: number;
  /** Of a limiter: tells when something has changed. */
  onRelease?(listener: () => void): () => void;
  /** Of a pipeline: the same. */
  readonly events?: Subscribable<FlowEvent>;
}

/** Four different numbers: work may wait without a reason that a limiter knows of, in a window for example, and what runs does not wait. */
export interface Gauges {
  /** Accepted and not on its way, for whatever reason. */
  readonly queued: number;
  /** Of those: waiting for requests or tokens per minute, or for the end of a pause. A free slot would not help. */
  readonly heldByRate: number;
  /** Of those: waiting for nothing but a slot. */
  readonly heldBySlot: number;
  /** On its way. */
  readonly executing: number;
}

/** The same for one limiter or pipeline, with its limits. */
export interface LimiterGauges extends Gauges {
  /** Most at a time; Infinity where that is not known. */
  readonly concurrency: number;
  /** Requests that could be sent at once; Infinity without a limit, negative in debt. */
  readonly requestsLeft: number;
  /** Tokens that could be spent at once; Infinity without a limit, negative in debt. */
  readonly tokensLeft: number;
  /** The two as shares of what can be saved up: 1 is full, negative is debt. 1 without a limit. */
  readonly requestLevel: number;
  readonly tokenLevel: number;
  /** How much longer everything is paused, in ms. */
  readonly pausedForMs: number;
}

export function gaugesOf(observed: Observed): LimiterGauges {
  const { queued = 0, heldByRate = 0, heldBySlot = 0, executing = 0, ...limits } = observed.snapshot();
  const { concurrency = Infinity, requests = Infinity, tokens = Infinity, pausedForMs = 0 } = limits;
  return {
    queued,
    heldByRate,
    heldBySlot,
    executing,
    concurrency,
    requestsLeft: requests,
    tokensLeft: tokens,
    requestLevel: level(requests, observed.requestCapacity),
    tokenLevel: level(tokens, observed.tokenCapacity),
    pausedForMs,
  };
}

function level(left: number, capacity = Infinity): number {
  return capacity === Infinity ? 1 : left / capacity;
}

export function sumOf(all: readonly Gauges[]): Gauges {
  const sum = { queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
  for (const gauges of all) {
    sum.queued += gauges.queued;
    sum.heldByRate += gauges.heldByRate;
    sum.heldBySlot += gauges.heldBySlot;
    sum.executing += gauges.executing;
  }
  return sum;
}
