import type { Observable } from 'rxjs';
import { hedgeWith } from './hedge.js';
import { mayPass } from './kernel/repair/verdict.js';
import { FlowConfigError } from './options/errors.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { check, checked, delayOption, needs, optional, positive } from './options/options.js';
import type { Classify, Usage } from './options/types.js';
import { policy } from './policy.js';
import { GuardedPermits } from './shell/policy/guarded-permits.js';
import { HedgeStats } from './shell/policy/hedge-stats.js';
import type { HedgedCalls, HedgedRules, HedgeRule, PolicyContext, PolicyWork } from './shell/policy/policy-rules.js';

/** @beta */
export interface HedgingOptions {
  /** How long an attempt may be silent, in ms; a function is asked anew each time. @defaultValue what 95 of 100 attempts did not exceed, at least 50 */
  readonly delayMs?: number | (() => number);
  /** Most attempts, the first included. @defaultValue 2 */
  readonly maxAttempts?: number;
  /** Most hedges at a time as a share of the calls under way, never less than 3. @defaultValue 0.1 */
  readonly maxShare?: number;
  /** Lanes whose calls are hedged. @defaultValue the most urgent one of the `limiter` */
  readonly lanes?: readonly string[];
}

const NAME = 'hedging';

/**
 * A second attempt while the first is silent, as the `hedge` of a `policy`: never because the first has failed, which is for its retries. Each attempt takes a
 * permit of its own, asks the breaker, and has a timeout of its own; the first to answer wins, and the others are aborted. Hedging multiplies the load
 * where the backend is slow: it is for calls that may be made twice.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range; `policy` throws it for an unknown lane.
 * @example
 * ```ts
 * import { NEVER, of } from 'rxjs';
 * import { hedging, policy } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * let calls = 0;
 * const careful = policy({ hedge: hedging({ delayMs: 0 }) });
 * careful(() => (++calls === 1 ? NEVER : of('second answer'))).subscribe((answer) => seen.push(answer));
 * seen; // => ['second answer']
 * ```
 * @see {@link hedge} for one call without a policy.
 */
export function hedging(options: HedgingOptions = {}): HedgeRule {
  const { lanes, ...given } = checked(
    NAME,
    options,
    { maxAttempts: 2, maxShare: 0.1 },
    {
      delayMs: optional(delayOption<number | (() => number)>),
      maxAttempts: check<number>('a whole number >= 1', (value: number) => Number.isSafeInteger(value) && value >= 1),
      maxShare: positive,
      lanes: optional(check<readonly string[]>('a list of lanes', Array.isArray)),
    },
  );
  return {
    hedged: (rules) => {
      const known = rules.limiter?.lanes ?? [DEFAULT_LANE];
      for (const lane of lanes ?? [])
        if (!known.includes(lane))
          throw new FlowConfigError(rules.operator, 'hedge.lanes', `a list of known lanes (${known.join(', ')})`, lane);
      return new Hedges({ ...given, lanes: new Set(lanes ?? known.slice(0, 1)) }, rules);
    },
  };
}

/** The hedged calls of one policy, which share what was learned about their times. */
class Hedges implements HedgedCalls {
  readonly lanes: ReadonlySet<string>;
  readonly #delayMs: HedgingOptions['delayMs'];
  readonly #limits: { readonly maxAttempts: number; readonly maxShare: number };
  readonly #rules: HedgedRules;
  readonly #stats = new HedgeStats();
  readonly #permits: GuardedPermits | undefined;
  /** Around each attempt: its timeout. */
  readonly #timed: <R>(work: PolicyWork<R>) => Observable<R>;

  constructor({ lanes, delayMs, ...limits }: HedgesOptions, rules: HedgedRules) {
    const { operator, limiter, breaker, timeoutMs, silenceMs, classify, scheduler, random } = rules;
    this.lanes = lanes;
    this.#delayMs = delayMs;
    this.#limits = limits;
    this.#rules = rules;
    if (limiter === undefined) needs(operator, 'breaker', breaker, '`limiter` beside `hedge`');
    this.#permits = limiter && new GuardedPermits(limiter, breaker);
    this.#timed = policy({ operator, timeoutMs, silenceMs, classify, scheduler, random });
  }

  isRefusal(error: unknown): boolean {
    return this.#permits?.isRefusal(error) === true;
  }

  work<R>(work: PolicyWork<R>, { job, lane, id }: { job: HedgedRules['job']; lane: string; id: string }): PolicyWork<R> {
    const { limiter, scheduler, tell } = this.#rules;
    return (outer) => {
      let askedAt = scheduler.now();
      const options = {
        ...this.#limits,
        ...(this.#delayMs !== undefined && { delayMs: this.#delayMs }),
        ...(limiter && { limiter }),
        ...(job && { job }),
        classify: this.#classify,
        scheduler,
      };
      const hedged = (attempt: number, afterMs: number): void => {
        askedAt = scheduler.now();
        tell?.({ type: 'hedged', lane, batchId: id, attempt, afterMs });
      };
      return hedgeWith<R>(
        this.#stats,
        (_index, { lease }) => {
          const queuedMs = scheduler.now() - askedAt;
          return this.#timed<R>((inner) => work(new HedgedAttempt(inner, outer, queuedMs, lease)));
        },
        options,
        this.#permits?.run,
        hedged,
      );
    };
  }

  /** Only silence asks a second time. A failure is for the retries, after their pause, or it ends the call at once. */
  readonly #classify: Classify = (error, context) => {
    const verdict = this.#rules.classify(error, context);
    if (verdict.class === 'itemFault') return { class: 'fatal' };
    return mayPass(verdict) && verdict.class !== 'throttled' ? { class: 'contract' } : verdict;
  };
}

type HedgesOptions = Required<Pick<HedgingOptions, 'maxAttempts' | 'maxShare'>> & {
  readonly delayMs: HedgingOptions['delayMs'];
  readonly lanes: ReadonlySet<string>;
};

/** Context of a hedged attempt: its own timeout and permit, and the deadline of the call. */
class HedgedAttempt implements PolicyContext {
  readonly attempt: number;
  readonly #inner: PolicyContext;
  readonly #outer: PolicyContext;

  constructor(
    inner: PolicyContext,
    outer: PolicyContext,
    readonly queuedMs: number,
    readonly lease: PolicyContext['lease'],
  ) {
    this.#inner = inner;
    this.#outer = outer;
    this.attempt = outer.attempt;
  }

  get deadlineAt(): number {
    return Math.min(this.#inner.deadlineAt, this.#outer.deadlineAt);
  }

  get signal(): AbortSignal {
    return this.#inner.signal;
  }

  readonly settle = (usage: Usage): void => this.lease?.settle(usage);

  get restartTimeout(): PolicyContext['restartTimeout'] {
    return this.#inner.restartTimeout;
  }

  get pauseTimeout(): PolicyContext['pauseTimeout'] {
    return this.#inner.pauseTimeout;
  }

  readonly observe: PolicyContext['observe'] = (response) => this.lease?.observe(response);

  get whenAborted(): PolicyContext['whenAborted'] {
    return this.#inner.whenAborted;
  }

  set whenAborted(aborted: PolicyContext['whenAborted']) {
    this.#inner.whenAborted = aborted;
  }

  get giveBack(): PolicyContext['giveBack'] {
    return this.#inner.giveBack;
  }

  set giveBack(giveBack: PolicyContext['giveBack']) {
    this.#inner.giveBack = giveBack;
  }
}
