import { contextVariable } from '#async-context';
import { FlowConfigError } from '../../operators/errors.js';
import { nonEmpty, onlyKnown } from '../../operators/toolkit.js';

/** What calls made inside `withJob` are, unless they say it themselves. */
export interface AmbientJob {
  /** Lane of the limiter. */
  readonly lane?: string;
  /** Whose calls they are: shares a lane fairly, finds the budget's limits of that key, is in the records. */
  readonly key?: string | number;
  /** What the records call them. */
  readonly name?: string;
  /** All their records have this trace id. */
  readonly traceId?: string;
}

const NAME = 'withJob';
const FIELDS = ['lane', 'key', 'name', 'traceId'] as const;

const AMBIENT = /* @__PURE__ */ contextVariable<AmbientJob>();

/**
 * Runs a function, all of whose calls through limited clients, adapters and pipelines are jobs of this lane and key, however deep they are made: for clients
 * that have no place for them in a request. What a call says itself goes first; inside another `withJob` the inner one adds to the outer one.
 *
 * It holds for all that the function begins, also after an `await`. A browser has no asynchronous contexts: there it has no effect, and the adapters' `job`
 * option is the way.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when a field is unknown or out of range; what the function throws.
 * @example
 * ```ts
 * import { createAccount, withJob } from 'sluice';
 * import { limitFetch } from 'sluice/fetch';
 *
 * const keys: (string | null)[] = [];
 * const limiter = createAccount({ concurrency: 2, onRecord: ({ key }) => keys.push(key) });
 * const limited = limitFetch({ limiter, fetch: async () => Response.json({ usage: { prompt_tokens: 2, completion_tokens: 1 } }) });
 * const ask = () => limited('http://host/v1/chat/completions', { method: 'POST', body: '{"model":"m","messages":[]}' });
 * await withJob({ key: 'acme' }, async () => (await ask()).json());
 * keys; // => ['acme']
 * ```
 */
export function withJob<R>(job: AmbientJob, run: () => R): R {
  onlyKnown(NAME, job, FIELDS, 'job', 'job.');
  for (const field of FIELDS) {
    const value = job[field];
    if (value !== undefined && !(field === 'key' && typeof value === 'number')) nonEmpty(NAME, `job.${field}`, value);
  }
  if (typeof run !== 'function') throw new FlowConfigError(NAME, 'run', 'a function', run);
  return AMBIENT.run({ ...AMBIENT.get(), ...job }, run);
}

/** The job of the context; empty outside of `withJob`. */
export function ambientJob(): AmbientJob {
  return AMBIENT.get() ?? {};
}
