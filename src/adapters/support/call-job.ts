import { ask, check } from '../../../operators/build.js';
import type { Cost, Limiter } from '../../../operators/index.js';
import { FlowConfigError } from '../../../operators/index.js';
import type { CallFacts } from '../../account/entry.js';
import type { Ledger } from '../../account/ledger.js';
import { ledgerOf } from '../../account/ledger.js';
import type { ProviderRules, RequestTokens, TokenUnits } from '../../account/providers.js';
import { providerOption, providers } from '../../account/providers.js';
import { ambientJob, ambientLane } from '../../account/with-job.js';
import type { AccountedCall } from './accounted-call.js';
import type { CallRules } from './call-rules.js';

/** How a call stands under the limiter, where that is not the default. */
export interface CallJob {
  /** Lane of the limiter. @defaultValue the last, least urgent one */
  readonly lane?: string;
  /** Whose call it is: shares a lane fairly, finds the budget's limits of that key, is in the records. @defaultValue none */
  readonly key?: string | number;
  /**
   * What it takes from the limiter. @defaultValue one request, the tokens of its prompt (estimated, 15 % more to be safe), and those of its answer: what
   * the provider charges for `max_tokens`, or what answers of the model have been like
   */
  readonly cost?: Cost;
  /** Finds the limits of the model and its price. @defaultValue that of the request */
  readonly model?: string;
  /** What records call it. @defaultValue the name of the adapter */
  readonly name?: string;
}

/** What a call takes from the limiter. */
export interface JobRules<Q> extends CallRules {
  /** Its lane, key, cost and model; a function of the request, or the same for all. `withJob` says them for all calls of a function. */
  readonly job?: CallJob | ((request: Q) => CallJob);
  /** What the provider's rate limits count of a call, and when. @defaultValue that of the limiter's account, or by the address */
  readonly provider?: ProviderRules;
}

/** What a request says of itself. */
export interface RequestFacts {
  readonly model: string | undefined;
  readonly tokens: RequestTokens;
  readonly provider?: ProviderRules | undefined;
}

const JOB: readonly (keyof CallJob)[] = ['lane', 'key', 'cost', 'model', 'name'];

/**
 * Options of a policy for a request: its job under the limiter, if there is one, and its signal.
 *
 * @param factsOf - undefined for what is no call of a model
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a `job` that is none, or has no limiter; what it returns throws CallbackError (`FLOW_CALLBACK`) when
 *   `job` does
 */
export function callOptionsOf<Q>(
  adapter: string,
  rules: JobRules<Q>,
  factsOf: (request: Q) => RequestFacts | undefined,
): (request: Q, signal: AbortSignal | null | undefined) => AccountedCall {
  const { limiter } = rules;
  const jobOf = jobOption(adapter, rules.job, limiter);
  const provider = providerOption(adapter, 'provider', rules.provider);
  const ledger = ledgerOf(limiter);
  // Where calls without a lane wait.
  const last = limiter?.lanes?.at(-1);
  return (request, signal) => {
    const job = { ...ambientIn(limiter), ...jobOf(request) };
    const { lane, key } = job;
    const facts = factsOf(request);
    const model = job.model ?? facts?.model;
    const known =
      facts &&
      callFacts(
        adapter,
        facts,
        { ...(last !== undefined && { lane: last }), ...job },
        ledger,
        provider ?? ledger.provider ?? facts.provider ?? providers.other,
      );
    const cost = job.cost ?? known?.charged;
    return {
      ...(limiter && {
        job: {
          ...(lane !== undefined && { lane }),
          ...(key !== undefined && { key }),
          ...(model !== undefined && { model }),
          ...(cost && { cost: { ...cost } }),
        },
      }),
      ...(signal && { signal }),
      ...(known && { facts: { ...known, traceId: ambientJob().traceId } }),
    };
  };
}

function callFacts(adapter: string, { model, tokens }: RequestFacts, job: CallJob, ledger: Ledger, provider: ProviderRules): CallFacts {
  const named = job.model ?? model ?? 'default';
  const own = given(job.cost);
  const estimate = (): TokenUnits => ({ ...ledger.estimate(provider, named, tokens), ...own });
  // What a budget reserves: of a recording only its caller may know anything.
  const inputTokens = Math.max(tokens.inputTokens, own.inputTokens ?? 0);
  return {
    name: job.name ?? adapter,
    model: named,
    lane: job.lane ?? check.defaultLane,
    key: job.key,
    provider,
    tokens: { ...tokens, inputTokens },
    charged: estimate(),
    estimate,
  };
}

/** What a cost of the caller's own takes in place of the estimate. */
function given({ inputTokens, outputTokens, tokens }: Cost = {}): Partial<Record<'inputTokens' | 'outputTokens' | 'tokens', number>> {
  if (tokens === undefined && inputTokens === undefined && outputTokens === undefined) return {};
  const output = outputTokens ?? 0;
  const input = inputTokens ?? Math.max(0, (tokens ?? 0) - output);
  return { inputTokens: input, outputTokens: output, tokens: tokens ?? input + output };
}

/** The job of the context. A lane of it that this limiter does not know is for another one. @throws LaneUnknownError for a misspelt lane */
export function ambientIn(limiter: Limiter | undefined): CallJob {
  const { key, name } = ambientJob();
  const lane = ambientLane(limiter?.lanes);
  return {
    ...(lane !== undefined && { lane }),
    ...(key !== undefined && { key }),
    ...(name !== undefined && { name }),
  };
}

/** The `job` option, checked, as a function of the request. @throws FlowConfigError */
export function jobOption<Q>(adapter: string, job: JobRules<Q>['job'], limiter: Limiter | undefined): (request: Q) => CallJob {
  if (job === undefined) return () => ({});
  if (limiter === undefined) {
    check.needs(adapter, 'job', job, '`limiter`');
    return () => ({});
  }
  if (typeof job !== 'function') {
    const checked = checkJob(adapter, job, limiter);
    return () => checked;
  }
  // What is in it is for the limiter to judge, when the call is made.
  return (request) => {
    const answer = ask(adapter, 'job', job, request);
    check.onlyKnown(adapter, answer, JOB, 'job', 'job.');
    return answer;
  };
}

function checkJob(adapter: string, job: CallJob, { lanes }: Limiter): CallJob {
  check.onlyKnown(adapter, job, JOB, 'job', 'job.');
  const { lane, key, cost } = job;
  for (const field of ['lane', 'model', 'name'] as const) if (job[field] !== undefined) check.nonEmpty(adapter, `job.${field}`, job[field]);
  if (lane !== undefined && lanes?.includes(lane) === false)
    throw new FlowConfigError(adapter, 'job.lane', `a lane of the limiter (${lanes.join(', ')})`, lane);
  if (key !== undefined && typeof key !== 'number') check.nonEmpty(adapter, 'job.key', key);
  if (cost !== undefined && (typeof cost !== 'object' || (cost as unknown) === null))
    throw new FlowConfigError(adapter, 'job.cost', 'an object', cost);
  return cost ? { ...job, cost: { ...cost } } : { ...job };
}
