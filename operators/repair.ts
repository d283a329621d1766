import { isWithinBudget, retryDelayMs } from './kernel/repair/backoff.js';
import type { SearchLimits, SearchSpent, SearchStep } from './kernel/repair/bad-item-search.js';
import { BadItemSearch } from './kernel/repair/bad-item-search.js';
import { positionsOf, trustedBlame } from './kernel/repair/blame.js';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { dividePlan } from './kernel/repair/divide-plan.js';
import { fieldOf } from './kernel/repair/field-of.js';
import type { RepairedMachine } from './kernel/repair/repairer.js';
import { createRepairer as uncheckedRepairer } from './kernel/repair/repairer.js';
import type { FailedJob, Failure, Origin, Repair, RepairRule, Search } from './kernel/repair/rule.js';
import { SameFault } from './kernel/repair/same-fault.js';
import { mayPass } from './kernel/repair/verdict.js';
import { drawnFrom, verdictOf } from './options/ask.js';
import { DeadlineError, FlowConfigError, SplitBudgetError } from './options/errors.js';
import { count, countFrom, countFromZero, flag, onlyKnown, orDefault } from './options/options.js';
import type { RetryOptions } from './options/retry.js';
import { retryRule } from './options/retry.js';

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
 * Sends a call again that failed for a reason which may pass (`throttled`, `transient`, `timeout`), after a pause in which it holds no slot. A
 * 429 makes everybody behind the same limiter wait. Items whose deadline would pass meanwhile are rejected with `DeadlineError` at once.
 *
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
 * await from(['a', 'b']).pipe(batchMap(work, { repair: retryFailed({ initialMs: 1 }) })).forEach(() => undefined);
 * calls; // => 2
 * ```
 */
export function retryFailed(options: RetryOptions = {}): RepairRule {
  const rule = retryRule(RETRY, options, Infinity, '');
  return {
    classify: classifyByStatus,
    createRepairer,
    failed: (failure) => {
      const { operator, verdict, attempt, now, executing, retrying, waiting } = failure;
      if (!mayPass(verdict) || attempt >= rule.maxAttempts) return undefined;
      if (!isWithinBudget(retrying + waiting, executing + waiting, rule.budget)) return undefined;
      const delayMs = retryDelayMs(attempt, verdict.retryAfterMs, rule, failure.draw());
      const inTime = failure.jobs.filter(({ deadlineAt }) => now + delayMs < deadlineAt);
      const late = failure.jobs.filter(({ deadlineAt }) => now + delayMs >= deadlineAt);
      const next = attempt + 1;
      return {
        parts: inTime.length > 0 ? [inTime] : [],
        attempt: next,
        delayMs,
        // It is about the account, not about this batch.
        ...(verdict.class === 'throttled' && { pauseMs: delayMs }),
        rejected: late.map((job) => {
          const { deadlineAt, acceptedAt } = job;
          return { job, reason: new DeadlineError(operator, deadlineAt - acceptedAt, now - acceptedAt, failure.error) };
        }),
        ...(failure.search && !failure.isPartial && inTime.length > 0 && { search: failure.search }),
        note: inTime.length > 0 ? { type: 'retryScheduled', class: verdict.class, size: inTime.length, attempt: next, delayMs } : undefined,
      };
    },
  };
}

export interface DivideOptions {
  /** Parts a failed batch is cut into, sent at once. 2 makes halves, Infinity sends every item alone. @defaultValue 4 */
  readonly factor?: number;
  /** Most calls for one batch, the first included and retries aside. What is not resolved by then is rejected with `SplitBudgetError`. @defaultValue twice its size, which always suffices */
  readonly maxCalls?: number;
  /** Most cuts one inside another. @defaultValue 16 */
  readonly maxDepth?: number;
  /** How often the items that an error names are taken out and the rest is sent whole, before it is cut up as well. @defaultValue 3 */
  readonly maxBlameRounds?: number;
  /** Sends one part after the other instead: `sequentialSearch()`. Not together with `factor`. @defaultValue none, all parts at once */
  readonly strategy?: DivideStrategy;
}

/** @internal */
export const DIVIDE_OPTIONS: readonly (keyof DivideOptions)[] = ['factor', 'maxCalls', 'maxDepth', 'maxBlameRounds', 'strategy'];

/** How the bad items of a batch are looked for, if not in all its parts at once. Made by `sequentialSearch()`. */
export interface DivideStrategy {
  search(...args: never[]): object;
}

/** The same to whoever goes by it. */
interface SearchRule extends DivideStrategy {
  search<J extends FailedJob>(first: Failure<J>, limits: Omit<SearchLimits, 'confirm'>, note: DivideNote): DivideSearch<J>;
}

/** One search; it is told of every call of its own. */
interface DivideSearch<J> extends Search<J> {
  failed(failure: Failure<J>, blame: ReadonlySet<number> | undefined): Repair<J>;
}

/** What is known of a batch that is being divided. */
interface DivideNote {
  blameRounds: number;
  readonly fault: SameFault;
}

/**
 * Finds the bad items of a failed batch: rejects those that the error names, else cuts the batch up and sends the parts, until a bad item stands
 * alone. All others get their results. Only errors about items are divided (`itemFault`, `tooLarge`), never a 429, a 5xx or a bug.
 *
 * An error that nobody recognises may not be about items at all: when nothing has succeeded and every part fails with the same name and message
 * (short numbers aside), the batch is given up.
 *
 * Source: group testing (Dorfman, 1943), with the difference that a good item must be part of one call that succeeds.
 *
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
  onlyKnown(DIVIDE, options, DIVIDE_OPTIONS);
  const strategy = options.strategy as SearchRule | undefined;
  if (strategy !== undefined && options.factor !== undefined)
    throw new FlowConfigError(DIVIDE, 'factor', 'absent beside `strategy`', options.factor);
  if (strategy !== undefined && (typeof strategy !== 'object' || typeof (strategy as SearchRule | null)?.search !== 'function'))
    throw new FlowConfigError(DIVIDE, 'strategy', 'sequentialSearch()', strategy);
  const factor = countFrom(2)(DIVIDE, 'factor', orDefault(options.factor, 4));
  const maxDepth = countFromZero(DIVIDE, 'maxDepth', orDefault(options.maxDepth, 16));
  const maxBlameRounds = countFromZero(DIVIDE, 'maxBlameRounds', orDefault(options.maxBlameRounds, 3));
  const maxCalls = options.maxCalls === undefined ? undefined : count(DIVIDE, 'maxCalls', options.maxCalls);
  const noteOf = (origin: Origin<unknown>): DivideNote => {
    const before = origin.note as DivideNote | true | undefined;
    if (typeof before === 'object') return before;
    const note: DivideNote = { blameRounds: 0, fault: new SameFault(strategy ? 0 : factor) };
    if (before) note.fault.ruleOut();
    origin.note = note;
    return note;
  };
  return {
    classify: classifyByStatus,
    createRepairer,
    succeeded: (origin) => {
      // Most batches never fail, and need no note.
      if (origin.note === undefined) origin.note = true;
      else if (origin.note !== true) noteOf(origin).fault.ruleOut();
    },
    failed: (failure) => {
      const { verdict, error, call, depth, origin } = failure;
      const note = noteOf(origin);
      const { fault } = note;
      const isDivisible = verdict.class === 'tooLarge' || (verdict.class === 'itemFault' && !(verdict.unrecognised && isBug(error)));
      if (!isDivisible || failure.isPartial) {
        fault.ruleOut();
        return undefined;
      }
      const blame = trustedBlame(verdict.blame && positionsOf(verdict.blame, () => failure.ids(), call.length), call.length);
      if (verdict.unrecognised && blame === undefined) fault.failed(error, call.length, depth);
      else fault.ruleOut();
      if (fault.isHopeless) return givenUp(failure);
      const limits = { maxCalls: maxCalls ?? 2 * origin.jobs.length, maxDepth, maxBlameRounds };
      if (strategy === undefined || verdict.class === 'tooLarge') return spread(failure, blame, { ...limits, factor }, note);
      const search = (failure.search as DivideSearch<(typeof call)[number]> | undefined) ?? strategy.search(failure, limits, note);
      return search.failed(failure, blame);
    },
  };
}

/**
 * Sends every item of a failed batch alone. For batches of which many items may be bad, and work that may be done twice.
 *
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, oneByOne } from 'sluice/operators';
 *
 * let calls = 0;
 * const work = async (texts: readonly string[]) => {
 *   calls++;
 *   if (texts.includes('bad')) throw Object.assign(new Error('refused'), { status: 400 });
 *   return texts;
 * };
 * const seen: string[] = [];
 * await from(['a', 'bad', 'c', 'd']).pipe(batchMap(work, { repair: oneByOne() })).forEach(({ input, status }) => {
 *   if (status === 'rejected') seen.push(input);
 * });
 * seen; // => ['bad']
 * calls; // => 5
 * ```
 */
export function oneByOne(): RepairRule {
  return divideAndConquer({ factor: Infinity });
}

export interface SequentialSearchOptions {
  /** Whether an item that only inference calls bad is sent alone before it is rejected. @defaultValue true */
  readonly confirm?: boolean;
}

/**
 * Sends one part after the other, and no part whole that is known to hold a bad item: about log2(n) + 1 calls for each bad item, the fewest there
 * are, in as many rounds. For callers who pay by the call and can wait.
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
export function sequentialSearch(options: SequentialSearchOptions = {}): DivideStrategy {
  onlyKnown('sequentialSearch', options, ['confirm']);
  const confirm = flag('sequentialSearch', 'confirm', orDefault(options.confirm, true));
  const rule: SearchRule = { search: (first, limits, note) => new SequentialSearch(first, { ...limits, confirm }, note) };
  return rule;
}

export interface RobustOptions {
  /** @defaultValue those of {@link retryFailed} */
  readonly retry?: RetryOptions;
  /** @defaultValue those of {@link divideAndConquer} */
  readonly divide?: DivideOptions;
}

/**
 * What most calls over a network want: {@link retryFailed}, then {@link divideAndConquer}. Errors are sorted by their status; pass `classifyError` as `classify` to have SDKs' errors read in full.
 *
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
 * await from(['a', 'b']).pipe(batchMap(work, { repair: robust({ retry: { initialMs: 1 } }) })).forEach(() => undefined);
 * calls; // => 2
 * ```
 */
export function robust(options: RobustOptions = {}): readonly RepairRule[] {
  onlyKnown('robust', options, ['retry', 'divide']);
  return [retryFailed(options.retry), divideAndConquer(options.divide)];
}

/** What the language itself throws at a bug. */
function isBug(error: unknown): boolean {
  const name = fieldOf(error, 'name');
  return name === 'TypeError' || name === 'ReferenceError' || name === 'RangeError';
}

/** Nothing of the batch has ever succeeded, and no item is to blame. */
function givenUp<J extends FailedJob>({ jobs, origin, error }: Failure<J>): Repair<J> {
  const all = new Set([...jobs, ...origin.jobs.filter(({ isDone }) => !isDone)]);
  return { rejected: Array.from(all, (job) => ({ job, reason: error })) };
}

/** All parts at once. */
function spread<J extends FailedJob>(
  { operator, verdict, error, call, jobs, depth, origin }: Failure<J>,
  blame: ReadonlySet<number> | undefined,
  limits: Parameters<typeof dividePlan>[1],
  note: DivideNote,
): Repair<J> {
  const size = call.length;
  const plan = dividePlan(
    {
      size,
      weights: call.map(({ weight }) => weight),
      blame: blame && [...blame],
      tooLarge: verdict.class === 'tooLarge' ? (verdict.tooLarge ?? true) : undefined,
      depth,
      calls: origin.calls,
      blameRounds: note.blameRounds,
    },
    limits,
  );
  const live = new Set(jobs);
  const at = (positions: readonly number[]): J[] => positions.map((i) => call[i] as J).filter((job) => live.has(job));
  const parts = plan.parts.map(at).filter((part) => part.length > 0);
  note.fault.cut(depth, parts.length);
  if (plan.blamed) note.blameRounds++;
  return {
    parts,
    depth: depth + 1,
    rejected: [
      ...at(plan.reject).map((job) => ({ job, reason: error })),
      ...at(plan.giveUp).map((job) => ({ job, reason: new SplitBudgetError(operator, limits.maxCalls, origin.calls, error) })),
    ],
    note: plan.blamed
      ? { type: 'blamed', size, blamed: plan.reject.length, round: note.blameRounds }
      : parts.length > 0
        ? { type: 'split', size, parts: parts.length, depth: depth + 1 }
        : undefined,
  };
}

/** One part after the other. */
class SequentialSearch<J extends FailedJob> implements DivideSearch<J> {
  private readonly plan: BadItemSearch<J>;
  private readonly operator: string;

  constructor(
    { operator, depth }: Failure<J>,
    private readonly limits: SearchLimits,
    private readonly note: DivideNote,
  ) {
    this.operator = operator;
    this.plan = new BadItemSearch(depth, limits, ({ isDone }) => !isDone);
  }

  failed({ call, depth, origin }: Failure<J>, blame: ReadonlySet<number> | undefined): Repair<J> {
    const { note } = this;
    const step = this.plan.failed(call, depth, blame, this.spent(origin));
    if (step.blamed) note.blameRounds++;
    const size = call.length;
    const repair = this.repair(step, origin);
    if (step.blamed) return { ...repair, note: { type: 'blamed', size, blamed: step.reject.length, round: note.blameRounds } };
    if (size === 1 || step.send.length === 0) return repair;
    return { ...repair, note: { type: 'split', size, parts: 2, depth: depth + 1 } };
  }

  succeeded(call: readonly J[], origin: Origin<J>): Repair<J> {
    return this.repair(this.plan.succeeded(call, this.spent(origin)), origin);
  }

  inconclusive(origin: Origin<J>): Repair<J> {
    return this.repair(this.plan.inconclusive(this.spent(origin)), origin);
  }

  private spent({ calls }: Origin<J>): SearchSpent {
    const { blameRounds, fault } = this.note;
    return { calls, blameRounds, alone: fault.alone };
  }

  private repair({ send, depth, reject, infer, giveUp }: SearchStep<J>, origin: Origin<J>): Repair<J> {
    return {
      parts: send.length > 0 ? [send] : [],
      depth,
      held: this.plan.held,
      search: this,
      rejected: [
        ...[...reject, ...infer].map((job) => ({ job, reason: job.reason })),
        ...giveUp.map((job) => ({ job, reason: new SplitBudgetError(this.operator, this.limits.maxCalls, origin.calls, job.reason) })),
      ],
    };
  }
}
