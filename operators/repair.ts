import type { SearchLimits, SearchSpent, SearchStep } from './kernel/repair/bad-item-search.js';
import { BadItemSearch } from './kernel/repair/bad-item-search.js';
import { blamed } from './kernel/repair/blame.js';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import type { DivideLimits } from './kernel/repair/divide-plan.js';
import { dividePlan } from './kernel/repair/divide-plan.js';
import type { RepairedMachine } from './kernel/repair/repairer.js';
import { createRepairer as uncheckedRepairer } from './kernel/repair/repairer.js';
import type { FailedJob, Failure, Origin, Repair, RepairRule, Search } from './kernel/repair/rule.js';
import { SameFault } from './kernel/repair/same-fault.js';
import { drawnFrom, verdictOf } from './options/ask.js';
import { DIVIDE_AND_CONQUER } from './options/defaults.js';
import { SplitLimitError } from './options/errors.js';
import { checked, count, countFrom, excludes, madeBy, onlyKnown } from './options/options.js';
import type { RetryOptions } from './options/retry.js';
import { retryRule } from './options/retry.js';
import { retriesOf } from './shell/policy/retries.js';

export { classifyByStatus } from './kernel/repair/classify-by-status.js';
export type { RepairRule } from './kernel/repair/rule.js';
export type { RetryOptions } from './options/retry.js';

const RETRY = 'retryFailed';
const DIVIDE = 'divideAndConquer';

const ASKING = { verdict: verdictOf, draw: drawnFrom };

/** With the answers of callbacks checked. */
function createRepairer<T, R>(machine: RepairedMachine<T, R>, rules: readonly RepairRule[]): unknown {
  return uncheckedRepairer(machine, rules, ASKING);
}

/**
 * Retries a call that failed for a reason which may pass (`transient`, `timeout`), after a pause in which it holds no slot. A refusal (`throttled`,
 * as 429) is waited out and takes neither attempts nor the share of retries: all calls behind the same limiter wait, or without a limiter all calls
 * of the operator. Pauses grow with each refusal that names no time, until `maxThrottledMs` has passed. Items whose deadline would pass meanwhile
 * are rejected with `DeadlineError` at once.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, retryFailed } from 'sluice/operators';
 *
 * let calls = 0;
 * const work = async (texts: readonly string[]) => {
 *   if (++calls === 1) throw Object.assign(new Error('busy'), { status: 503 });
 *   return texts;
 * };
 * await from(['a', 'b']).pipe(batchMap(work, { repair: retryFailed({ delayMs: 1 }) })).forEach(() => undefined);
 * calls; // => 2
 * ```
 */
export function retryFailed(options: RetryOptions = {}): RepairRule {
  return { classify: classifyByStatus, createRepairer, ...retriesOf(retryRule(RETRY, '', options, Infinity)) };
}

/** @stable */
export interface DivideOptions {
  /** Parts a failed batch is cut into, sent at once. 2 makes halves; Infinity sends every item alone, for batches of which many items may be bad. @defaultValue 4 */
  readonly parts?: number;
  /** Most calls for one batch, the first included and retries aside. What is not resolved by then is rejected with `SplitLimitError`. @defaultValue twice its size, which always suffices */
  readonly maxCalls?: number;
  /** Sends one part after the other instead: `sequentialSearch()`. Not together with `parts`. @defaultValue none, all parts at once */
  readonly strategy?: DivideStrategy;
}

/**
 * How the bad items of a batch are looked for, if not in all its parts at once. Made by `sequentialSearch()`.
 * @beta
 */
export interface DivideStrategy {
  createSearch(...args: never[]): object;
}

/** Internal side of `DivideStrategy`. */
interface SearchRule extends DivideStrategy {
  createSearch<J extends FailedJob>(first: Failure<J>, limits: SearchLimits, fault: SameFault): DivideSearch<J>;
}

/** One search; every call of its own is reported to it. */
interface DivideSearch<J> extends Search<J> {
  failed(failure: Failure<J>, named: ReadonlySet<J> | undefined): Repair<J>;
}

const CHECKS = /* @__PURE__ */ (() => ({
  parts: countFrom(2),
  maxCalls: count,
  strategy: madeBy<SearchRule | undefined>('createSearch', 'sequentialSearch()', undefined),
}))();

/** Most cuts one inside another: halves of halves get from 65,536 items to one. */
const MAX_DEPTH = 16;
/** How often the rest is sent whole after an error has named items: one that names a single item of many bad ones would cost a call for each. */
const MAX_BLAME_ROUNDS = 3;

/**
 * Finds the bad items of a failed batch: rejects those that the error names, else cuts the batch up and sends the parts, until a bad item stands
 * alone. All others get their results. Only errors about items are divided (`itemFault`, `tooLarge`), never a 429, a 5xx or a bug.
 *
 * An unrecognised error may not be about items at all. When nothing has succeeded and every part fails with the same name and message (short numbers
 * aside), the whole batch is rejected.
 *
 * Source: group testing (Dorfman, 1943), with the difference that a good item must be part of one call that succeeds.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, divideAndConquer } from 'sluice/operators';
 *
 * let calls = 0;
 * const work = async (texts: readonly string[]) => {
 *   calls++;
 *   if (texts.includes('bad')) throw Object.assign(new Error('refused'), { status: 400 });
 *   return texts;
 * };
 * const seen: string[] = [];
 * await from(['a', 'bad', 'c', 'd']).pipe(batchMap(work, { repair: divideAndConquer() })).forEach(({ input, status }) => {
 *   if (status === 'rejected') seen.push(input);
 * });
 * seen; // => ['bad']
 * calls; // => 5
 * ```
 */
export function divideAndConquer(options: DivideOptions = {}): RepairRule {
  const read = checked(DIVIDE, options as DivideOptions & { strategy?: SearchRule }, DIVIDE_AND_CONQUER, CHECKS);
  const { strategy, parts } = read;
  const limits = { ...read, maxDepth: MAX_DEPTH, maxBlameRounds: MAX_BLAME_ROUNDS };
  if (strategy) excludes(DIVIDE, 'parts', options.parts, '`strategy`');
  // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- only this rule writes the note
  const faultOf = (origin: Origin<unknown>): SameFault => (origin.note ??= new SameFault(strategy ? 0 : parts)) as SameFault;
  return {
    classify: classifyByStatus,
    createRepairer,
    succeeded: (origin) => {
      faultOf(origin).ruleOut();
    },
    failed: (failure) => {
      const { verdict, error, call, depth, origin } = failure;
      const { class: found, unrecognised } = verdict;
      const fault = faultOf(origin);
      const isDivisible = !failure.isPartial && (found === 'tooLarge' || found === 'itemFault');
      const named = blamed(verdict.blame, call);
      if (isDivisible && unrecognised && !named) fault.failed(error, call.length, depth);
      else fault.ruleOut();
      if (!isDivisible) return undefined;
      if (fault.isHopeless) return givenUp(failure);
      if (strategy === undefined || found === 'tooLarge') return spread(failure, named, limits, fault);
      const search = (failure.search as DivideSearch<(typeof call)[number]> | undefined) ?? strategy.createSearch(failure, limits, fault);
      return search.failed(failure, named);
    },
  };
}

/**
 * Sends one part after the other, and no part whole that is known to hold a bad item: about log2(n) + 1 calls for each bad item, the fewest there
 * are, in as many rounds. An item that only inference calls bad is sent alone before it is rejected. For programs that pay by the call and can wait.
 * @beta
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, divideAndConquer, sequentialSearch } from 'sluice/operators';
 *
 * let calls = 0;
 * const work = async (texts: readonly string[]) => {
 *   calls++;
 *   if (texts.includes('bad')) throw Object.assign(new Error('refused'), { status: 400 });
 *   return texts;
 * };
 * const seen: string[] = [];
 * await from(['a', 'bad', 'c', 'd']).pipe(batchMap(work, { repair: divideAndConquer({ strategy: sequentialSearch() }) })).forEach(({ input, status }) => {
 *   if (status === 'rejected') seen.push(input);
 * });
 * seen; // => ['bad']
 * ```
 */
export function sequentialSearch(): DivideStrategy {
  const rule: SearchRule = { createSearch: (first, limits, fault) => new SequentialSearch(first, limits, fault) };
  return rule;
}

/** @stable */
export interface RobustOptions {
  /** @defaultValue those of {@link retryFailed} */
  readonly retry?: RetryOptions;
  /** @defaultValue those of {@link divideAndConquer} */
  readonly divide?: DivideOptions;
}

/**
 * What most calls over a network want: {@link retryFailed}, then {@link divideAndConquer}. Errors are sorted by their status; pass `classifyError` as `classify` to have SDKs' errors read in full.
 *
 * @stable
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, robust } from 'sluice/operators';
 *
 * let calls = 0;
 * const work = async (texts: readonly string[]) => {
 *   if (++calls === 1) throw Object.assign(new Error('busy'), { status: 503 });
 *   return texts;
 * };
 * await from(['a', 'b']).pipe(batchMap(work, { repair: robust({ retry: { delayMs: 1 } }) })).forEach(() => undefined);
 * calls; // => 2
 * ```
 */
export function robust(options: RobustOptions = {}): readonly RepairRule[] {
  onlyKnown('robust', options, ['retry', 'divide']);
  return [retryFailed(options.retry), divideAndConquer(options.divide)];
}

/** Nothing of the batch has ever succeeded, and no item is to blame. */
function givenUp<J extends FailedJob>({ jobs, origin, error }: Failure<J>): Repair<J> {
  const all = new Set([...jobs, ...origin.jobs.filter(({ isDone }) => !isDone)]);
  return { rejected: Array.from(all, (job) => ({ job, reason: error })) };
}

/** All parts at once. */
function spread<J extends FailedJob>(
  { operator, verdict, error, call, jobs, depth, origin }: Failure<J>,
  named: ReadonlySet<J> | undefined,
  limits: DivideLimits,
  fault: SameFault,
): Repair<J> {
  const size = call.length;
  const tooLarge = verdict.class === 'tooLarge' ? (verdict.tooLarge ?? true) : undefined;
  const plan = dividePlan({ size, jobs, named, tooLarge, depth, calls: origin.calls, blameRounds: fault.blameRounds }, limits);
  const { parts, reject, giveUp } = plan;
  // A parallel split never needs more.
  const maxCalls = limits.maxCalls === Infinity ? 2 * origin.jobs.length : limits.maxCalls;
  fault.cut(depth, parts.length);
  if (plan.blamed) fault.blameRounds++;
  const split = { type: 'split', size, parts: parts.length, depth: depth + 1 } as const;
  return {
    parts,
    depth: depth + 1,
    rejected: [
      ...reject.map((job) => ({ job, reason: error })),
      ...giveUp.map((job) => ({ job, reason: new SplitLimitError(operator, maxCalls, origin.calls, error) })),
    ],
    note: plan.blamed ? { type: 'blamed', size, blamed: named?.size ?? 0, round: fault.blameRounds } : parts.length > 0 ? split : undefined,
  };
}

/** One part after the other. */
class SequentialSearch<J extends FailedJob> implements DivideSearch<J> {
  private readonly plan: BadItemSearch<J>;
  private readonly operator: string;
  /** Twice the size of the batch always suffices. */
  private readonly maxCalls: number;

  constructor(
    { operator, depth, origin }: Failure<J>,
    limits: SearchLimits,
    private readonly fault: SameFault,
  ) {
    this.operator = operator;
    this.maxCalls = Math.min(limits.maxCalls, 2 * origin.jobs.length);
    this.plan = new BadItemSearch(depth, { ...limits, maxCalls: this.maxCalls }, ({ isDone }) => !isDone);
  }

  failed({ call, depth, origin }: Failure<J>, named: ReadonlySet<J> | undefined): Repair<J> {
    const { fault } = this;
    const step = this.plan.failed(call, depth, named, this.spent(origin));
    if (step.blamed) fault.blameRounds++;
    const size = call.length;
    const repair = this.repair(step, origin, call);
    if (step.blamed) return { ...repair, note: { type: 'blamed', size, blamed: named?.size ?? 0, round: fault.blameRounds } };
    if (size === 1 || step.send.length === 0) return repair;
    return { ...repair, note: { type: 'split', size, parts: 2, depth: depth + 1 } };
  }

  next(good: readonly J[] | undefined, origin: Origin<J>): Repair<J> {
    const { plan } = this;
    const spent = this.spent(origin);
    return this.repair(good ? plan.succeeded(good, spent) : plan.inconclusive(spent), origin, []);
  }

  private spent({ calls }: Origin<J>): SearchSpent {
    const { blameRounds, alone } = this.fault;
    return { calls, blameRounds, alone };
  }

  private repair({ send, depth, reject, giveUp }: SearchStep<J>, origin: Origin<J>, call: readonly J[]): Repair<J> {
    const { held } = this.plan;
    return {
      parts: send.length > 0 ? [send] : [],
      depth,
      held: held.filter((job) => call.includes(job)),
      search: this,
      rejected: [
        ...reject.map((job) => ({ job, reason: job.reason })),
        ...giveUp.map((job) => ({ job, reason: new SplitLimitError(this.operator, this.maxCalls, origin.calls, job.reason) })),
      ],
    };
  }
}
