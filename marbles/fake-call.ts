import type { ResponseLike } from '../operators/options/types.js';

/** What a call may be told: part of what the work of an operator is. */
export interface FakeContext {
  readonly signal: AbortSignal;
  readonly observe?: (response: ResponseLike) => void;
}

/**
 * How a call to a `fakeProvider` fails: shaped like the errors of real clients, so that `classifyError` reads it.
 * @stable
 */
export class FakeProviderError extends Error {
  override readonly name = 'FakeProviderError';
  constructor(
    message: string,
    /** Absent when the connection was cut. */
    readonly status?: number,
    readonly headers: Readonly<Record<string, string>> = {},
    readonly code?: string,
    /** The body of the response, from a provider with rules of its own. */
    readonly error?: unknown,
  ) {
    super(message);
  }
}
