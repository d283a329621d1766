import type { LimitFetchOptions } from './support/limited-fetch.js';
import { limitedFetch } from './support/limited-fetch.js';

export type { EventStreamContext, EventStreamOptions, EventStreamRequest, ServerEvent } from './fetch/from-event-stream.js';
export { fromEventStream } from './fetch/from-event-stream.js';
export type { HttpRequest, HttpRules } from './support/http-call.js';
export type { LimitFetchOptions } from './support/limited-fetch.js';

/**
 * A `fetch` that keeps to a limiter, for any client that takes one. Each attempt waits for a permit, which it holds until the server has
 * ended its body, or has seen the connection close: a stream counts as long as it flows. What fails in a way that may pass (429, 5xx, a broken connection) is sent
 * again, after the pause the server asks for. The limiter learns from the headers, and pays what the answer says it has cost.
 *
 * - **Answers** with the server's response. A refusal that is not tried again, or no more, is the response as it came, so that the client makes
 *   its own error of it, with the header `x-should-retry: false`, which keeps the clients of OpenAI and Anthropic from trying again themselves.
 * - **Rejects** with the signal's reason when it aborts: what waits has sent nothing and costs nothing; what runs is aborted at the server.
 *   Else with what `fetch` failed with, or with `DeadlineError`, `AttemptTimeoutError`, `BreakerOpenError`, `OverflowError`, `ClosedError`.
 * - **Holds** up to 1 MiB of each body ahead of its reader, so that its end is noticed. One that is dropped is given up when it is collected.
 * - **Passes** `data:`, `blob:` and whatever is not HTTP, without a permit.
 * - **Sends once** what has a stream for a body: it cannot be read again.
 *
 * The time limit of a client runs while a request waits here. Raise it, or let long queues be in front of the client (`createModelCaller`).
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createAccount } from 'sluice';
 * import { limitFetch } from 'sluice/fetch';
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const limited = limitFetch({ limiter: account, fetch: async () => Response.json({ answer: 4 }) });
 *
 * const response = await limited('https://host/v1/sums', { method: 'POST', body: '{"sum":"2 + 2"}' });
 * await response.json(); // => { answer: 4 }
 * account.executing; // => 0
 * ```
 */
export function limitFetch(options: LimitFetchOptions = {}): typeof fetch {
  return limitedFetch('limitFetch', options, (input, init) => globalThis.fetch(input, init));
}
