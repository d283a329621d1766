/** How one attempt ended. `'timeout'` is our own time limit, or the other side's; `'cancelled'` means that the caller left. */
export type CallStatus = 'success' | 'error' | 'timeout' | 'cancelled';

/**
 * One attempt to call a model, for a log or a trace. It holds no prompt, no answer and no key.
 * @stable
 */
export interface CallRecord {
  /** Given with the call, or made up: 32 hexadecimal digits. All attempts of one call have it, and all calls of one `callAll`. */
  readonly traceId: string;
  /** 16 hexadecimal digits, different for each attempt. */
  readonly spanId: string;
  /** What the call is for, as its caller says: the name of a property, for example. */
  readonly name: string;
  readonly lane: string;
  /** Whose call it was, as given in `key`; null without one. Never an API key: do not put one there. */
  readonly key: string | null;
  readonly model: string;
  /** How often the call has been sent by now, this time included; hedges and refused sends (429) count, though `maxAttempts` does not count the latter. */
  readonly attempt: number;
  /** From sending to the end, in ms; of a stream, to the end of the stream. */
  readonly latencyMs: number;
  /** How long this attempt waited for its permit, in ms. */
  readonly queuedMs: number;
  readonly status: CallStatus;
  /** What went wrong, as a word from a closed set (`HTTP_429`, `ECONNRESET`, `FLOW_ATTEMPT_TIMEOUT`, `PARSE_FAILED`, …); null on success. */
  readonly errorCode: string | null;
  /** All input, as the provider counted it; null when it did not say. */
  readonly promptTokens: number | null;
  /** Of the input: read from the provider's prompt cache, and written to it. */
  readonly cacheReadTokens: number | null;
  readonly cacheWriteTokens: number | null;
  /** All output. */
  readonly completionTokens: number | null;
  /** Of the output: reasoning. */
  readonly reasoningTokens: number | null;
  /** What a budget was charged, in USD; null without one, or without a price. */
  readonly costUsd: number | null;
  /** Whether tokens or cost are estimated in part: the answer broke off, was left, or did not tell its usage. */
  readonly isEstimated: boolean;
}
