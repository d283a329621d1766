import type { Limiter } from '../../operators/options/limiter.js';
import type { Refusal } from '../../test/fakes/failing-api.js';

/** How many chunks a stream has. */
export const CHUNKS = 6;

export interface ApiOptions {
  /** How long after its arrival a call is answered. */
  readonly latencyMs?: number;
  /** Pause of a stream before each chunk. */
  readonly chunkGapMs?: number;
}

/** What a server tells, of models or of tools. */
export interface Api {
  /** When each call has arrived, by `performance.now()`. */
  readonly arrivals: () => readonly number[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Calls whose client has left before the answer. */
  readonly aborted: number;
  /** The next calls fail so, one each. */
  readonly fail: (...failures: readonly Refusal[]) => void;
  readonly stop: () => Promise<void>;
}

/** An SDK as its user sees it. Both reject with its errors. */
export interface Client {
  readonly call: (text: string, signal: AbortSignal) => Promise<unknown>;
  /** Reads a stream to its end. */
  readonly stream?: (text: string, signal: AbortSignal) => Promise<unknown>;
}

/** A client with a server of its own. */
export interface Session extends Client {
  /** Of a model, and not of tools: only those have a quota. */
  readonly isOfModel: boolean;
  readonly api: Api;
  readonly close: () => Promise<void>;
}

export type Open = (options: ApiOptions) => Promise<Session>;

/** One SDK in one way of using it. */
export interface Sdk {
  readonly name: string;
  /** As its users have it; undefined when that is the row above. */
  readonly alone: Open | undefined;
  /** With our adapter; undefined when that is the row above. */
  readonly limited: ((options: ApiOptions, limiter: Limiter) => Promise<Session>) | undefined;
}
