import { FlowConfigError } from './errors.js';
import type { Limiter, LimiterJob } from './limiter.js';
import { excludes, madeBy, needs, nonEmpty, object } from './options.js';
import type { Permits } from './permits.js';

const LIMITER = 'a limiter made by createLimiter or createAccount';

/** A limiter that must be there; permits of another kind have no jobs. */
export function requiredLimiter(operator: string, option: string, limiter: Limiter): Limiter {
  madeBy<Permits>('enlist', LIMITER)(operator, option, limiter);
  return madeBy<Limiter>('acquire', LIMITER)(operator, option, limiter);
}

/** The `limiter` option of what gives it jobs: one made by `createLimiter`, in place of a `concurrency`, or none. */
export function limiterOption(operator: string, option: string, limiter: Limiter | undefined, concurrency?: unknown): Limiter | undefined {
  return permitsOption(operator, option, limiter, concurrency) && requiredLimiter(operator, option, limiter as Limiter);
}

/** The `limiter` option of an operator that only bids: any permits. */
export function permitsOption<P extends Permits>(
  operator: string,
  option: string,
  limiter: P | undefined,
  concurrency?: unknown,
): P | undefined {
  if (limiter === undefined) return undefined;
  excludes(operator, 'concurrency', concurrency, `\`${option}\``, 'Set it on the limiter.');
  return madeBy<P>('enlist', LIMITER)(operator, option, limiter);
}

/** The one lane of the limiter that an operator uses, or its last. */
export function laneOption(operator: string, option: string, lane: string | undefined, limiter: Permits | undefined): string | undefined {
  if (lane === undefined) return undefined;
  nonEmpty(operator, option, lane);
  const lanes = limiter?.lanes;
  if (lanes?.includes(lane) === false) throw new FlowConfigError(operator, option, `a lane of the limiter (${lanes.join(', ')})`, lane);
  return lane;
}

/** The `job` option of what makes calls under a `limiter`, copied; what is in it is for the limiter to judge. */
export function jobOption(operator: string, job: LimiterJob | undefined, limiter: object | undefined): LimiterJob | undefined {
  if (job === undefined) return undefined;
  object(operator, 'job', job);
  if (limiter === undefined) needs(operator, 'job', job, '`limiter`');
  return givenOf(job);
}

/** A copy, so that later changes to the object have no effect. As everywhere, what is undefined is left out. */
function givenOf(job: LimiterJob): LimiterJob {
  const given: LimiterJob = Object.fromEntries(Object.entries(job).filter(([, value]) => value !== undefined));
  const { cost } = given;
  return typeof cost === 'object' && !Array.isArray(cost) ? { ...given, cost: { ...cost } } : given;
}
