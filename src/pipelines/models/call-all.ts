import type { Observable } from 'rxjs';
import { defer, map } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { Settled } from '../../../operators/index.js';
import { FlowConfigError, settleAll } from '../../../operators/index.js';
import type { Collected, ModelCallAllOptions, ModelCallErrors, ModelCaller } from './model-types.js';

const NAME = 'callAll';

/** What makes the calls. */
type Caller<Q, P> = Pick<ModelCaller<Q, P, never>, 'call' | 'newTraceId'>;

/**
 * Several calls of a model caller at once, under one trace id: one object with their results, by the names of the requests. Subscribing makes them, and
 * unsubscribing cancels them.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the requests are no object, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { callAll, createModelCaller } from 'sluice';
 *
 * const models = createModelCaller({ call: async (question: string) => question.length });
 * const both = await new Promise((resolve) => callAll(models, { short: 'why?', long: 'why not?' }).subscribe(resolve));
 * both; // => { short: 4, long: 8 }
 * ```
 */
export function callAll<K extends string, Q, P>(
  models: Caller<Q, P>,
  requests: Readonly<Record<K, Q>>,
  options?: ModelCallAllOptions<'propagate'>,
): Observable<Record<K, P>>;
export function callAll<K extends string, Q, P>(
  models: Caller<Q, P>,
  requests: Readonly<Record<K, Q>>,
  options: ModelCallAllOptions<'settle'> & { readonly errors: 'settle' },
): Observable<Record<K, Settled<Q, P>>>;
export function callAll<K extends string, Q, P>(
  models: Caller<Q, P>,
  requests: Readonly<Record<K, Q>>,
  options: ModelCallAllOptions<'collect'> & { readonly errors: 'collect' },
): Observable<Collected<K, P>>;
export function callAll<Q, P>(
  models: Caller<Q, P>,
  requests: Readonly<Record<string, Q>>,
  options: ModelCallAllOptions = {},
): Observable<object> {
  if (typeof requests !== 'object' || (requests as unknown) === null) throw new FlowConfigError(NAME, 'requests', 'an object', requests);
  check.onlyKnown(NAME, options, ['lane', 'key', 'signal', 'traceId', 'errors', 'deadlineMs'], 'options');
  const { errors = 'propagate', ...how } = options;
  check.oneOf('propagate', 'settle', 'collect')(NAME, 'errors', errors);
  if (how.deadlineMs !== undefined) check.durationMs(NAME, 'deadlineMs', how.deadlineMs);
  const settled = errors === 'propagate' ? errors : 'settle';
  return defer(() => {
    const { traceId = models.newTraceId() } = how;
    const make = ([name, request]: readonly [string, Q]): Observable<P> =>
      models.call(request, { ...how, traceId, name: name === '' ? 'call' : name });
    // The limiter of the model caller knows how many may be sent at a time.
    return settleAll(Object.entries(requests), make, { errors: settled, concurrency: Infinity }).pipe(
      map((results) => named(results, errors)),
    );
  });
}

/** What came of several calls, by their names. */
function named<Q, P>(results: readonly Settled<readonly [string, Q], P>[], shape: ModelCallErrors): object {
  const values: [string, P][] = [];
  const errors: [string, unknown][] = [];
  const all: [string, object][] = [];
  for (const result of results) {
    const [name, input] = result.input;
    all.push([name, { ...result, input }]);
    if (result.status === 'fulfilled') values.push([name, result.value]);
    else errors.push([name, result.reason]);
  }
  if (shape === 'settle') return Object.fromEntries(all);
  return shape === 'propagate' ? Object.fromEntries(values) : { values: Object.fromEntries(values), errors: Object.fromEntries(errors) };
}
