import { contextVariable } from '#async-context';
import { check } from '../../operators/build.js';
import { FlowConfigError, LaneUnknownError } from '../../operators/index.js';

/**
 * What calls made inside `withJob` are, unless they say it themselves.
 * @stable
 */
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
 * Runs a function, all of whose calls through adapters, `createModelCaller`, `createEmbedder` and `createToolRunner` are jobs of this lane and key, however
 * deep they are made: for clients that have no place for them in a request. What a call says itself goes first; inside another `withJob` the inner one adds to
 * the outer one. Operators and the methods of a limiter take their lane and key from the call alone.
 *
 * It holds for all that the function begins, also after an `await`. A browser has no asynchronous contexts: there it has no effect, and the adapters' `job`
 * option is the way.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when a field is unknown or out of range; what the function throws.
 * @example
 * ```ts
 * import { createAccount, withJob } from 'sluice';
 * import { limitFetch } from 'sluice/fetch';
 *
 * const keys: (string | null)[] = [];
 * const account = createAccount({ concurrency: 2, onRecord: ({ key }) => keys.push(key) });
 * const limited = limitFetch({ limiter: account, fetch: async () => Response.json({ usage: { prompt_tokens: 2, completion_tokens: 1 } }) });
 * const ask = () => limited('http://host/v1/chat/completions', { method: 'POST', body: '{"model":"m","messages":[]}' });
 * await withJob({ key: 'acme' }, async () => (await ask()).json());
 * keys; // => ['acme']
 * ```
 */
export function withJob<R>(job: AmbientJob, run: () => R): R {
  check.onlyKnown(NAME, job, FIELDS, 'job', 'job.');
  for (const field of FIELDS) {
    const value = job[field];
    if (value !== undefined && !(field === 'key' && typeof value === 'number')) check.nonEmpty(NAME, `job.${field}`, value);
  }
  if (typeof run !== 'function') throw new FlowConfigError(NAME, 'run', 'a function', run);
  return AMBIENT.run({ ...AMBIENT.get(), ...job }, run);
}

/**
 * The lane of the context, where these lanes have it. Another lane is for another limiter, unless it is a misspelt one of these.
 * @throws LaneUnknownError for a misspelt lane
 */
export function ambientLane(known: readonly string[] | undefined): string | undefined {
  const { lane } = ambientJob();
  if (lane === undefined || known === undefined || known.includes(lane)) return known && lane;
  // `background-jobs` is a name of its own beside `background`.
  const alike = known.filter((each) => Math.abs(each.length - lane.length) <= 2);
  if (check.nearest(lane, alike) !== undefined) throw new LaneUnknownError(NAME, lane, known);
  return undefined;
}

/** The job of the context; empty outside of `withJob`. */
export function ambientJob(): AmbientJob {
  return AMBIENT.get() ?? {};
}
