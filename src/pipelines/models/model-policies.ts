import type { Observable } from 'rxjs';
import { isFlowError } from '../../../operators/errors.js';
import type { HedgeOptions } from '../../../operators/hedge.js';
import { hedgeUnder } from '../../../operators/hedge.js';
import type { AttemptContext, AttemptPolicy, PolicyCallOptions } from '../../../operators/policy.js';
import { policyOf } from '../../../operators/policy.js';
import { isA, mayPass } from '../../../operators/toolkit.js';
import type { Classify, FlowEvent, FlowSink, ResponseLike, Usage, WorkResult } from '../../../operators/types.js';
import { retryOf } from '../../retry.js';
import type { HeldRules } from '../limited.js';
import { underPermit } from '../limited.js';
import { GuardedPermits } from './guarded-permits.js';
import type { AttemptRules } from './model-attempt.js';
import type { CallerConfig } from './model-options.js';
import { NAME } from './name.js';
import { ParseFault } from './parse-fault.js';

/** What is the same for every kind of request. */
type Config = Omit<CallerConfig<never, never, never, never>, 'client' | 'parse' | 'fixAnswer' | 'cache'>;
/** Makes one attempt; `rules` are those of the context, unless something else is given. */
type Send<V> = (context: AttemptContext, rules?: AttemptRules) => WorkResult<V>;

/** What surrounds the calls of one caller. */
export class ModelPolicies {
  readonly #classifyGiven: Classify;
  readonly #tell: FlowSink;
  readonly #now: () => number;
  readonly #shared: HeldRules | undefined;
  readonly #calls: AttemptPolicy;
  readonly #streams: AttemptPolicy;
  /** Around each attempt of a hedge. */
  readonly #attempts: AttemptPolicy;
  readonly #hedgeOptions: HedgeOptions;
  /** Where the attempts of a hedge get theirs. */
  readonly #permits: GuardedPermits;
  /** Around a hedge, by lane: the limiter and the attempt timeout are inside. */
  readonly #hedged = new Map<string, AttemptPolicy>();

  constructor(config: Config, name: string, tell: FlowSink, now: () => number) {
    this.#classifyGiven = config.classify;
    this.#tell = tell;
    this.#now = now;
    this.#shared = config.isShared ? { operator: NAME, kind: 'request', limiter: config.limiter } : undefined;
    const { scheduler, random, limiter, timeoutMs, retry, deadlineMs, breaker, whenOpen } = config;
    const attempts = { classify: this.#classify, scheduler, random };
    const rule = retryOf(NAME, retry);
    const calls = {
      ...attempts,
      ...(rule && { retry: rule }),
      deadlineMs,
      ...(breaker && { breaker, whenOpen }),
      name,
      onEvent: this.#relay,
    };
    this.#calls = policyOf(NAME, { ...calls, limiter, timeoutMs });
    this.#streams = policyOf(NAME, { ...calls, limiter, timeoutMs: Infinity });
    this.#attempts = policyOf(NAME, { ...attempts, timeoutMs });
    this.#permits = new GuardedPermits(limiter, breaker);
    this.#hedgeOptions = { ...config.hedge?.options, limiter, classify: this.#classifyHedged, scheduler, name };
    for (const lane of config.hedge?.lanes ?? []) {
      const onEvent = (event: FlowEvent): void => {
        this.#relay('lane' in event ? { ...event, lane } : event);
      };
      this.#hedged.set(lane, policyOf(NAME, { ...calls, timeoutMs: Infinity, onEvent }, undefined, this.#permits.isRefusal));
    }
  }

  /** Around a call with a whole answer. */
  call<V>(send: Send<V>, { lane, id }: { readonly lane: string; readonly id: string }, how: PolicyCallOptions): Observable<V> {
    const hedged = this.#hedged.get(lane);
    return hedged ? this.#hedge(hedged, send, lane, id, how) : this.#calls(this.#inPermit(send), how, id);
  }

  /** Around a stream, which watches its own silence. */
  stream<V>(send: Send<V>, id: string, how: PolicyCallOptions): Observable<V> {
    return this.#streams(this.#inPermit(send), how, id);
  }

  /** A client that keeps to the same limiter would wait for the permit of this call. */
  #inPermit<V>(send: Send<V>): (context: AttemptContext) => WorkResult<V> {
    const shared = this.#shared;
    return shared ? (context) => underPermit(shared, context.lease, () => send(context)) : send;
  }

  /** Every attempt of the hedge takes its own permit, and is cut off on its own. */
  #hedge<V>(hedged: AttemptPolicy, send: Send<V>, lane: string, id: string, { job = {} }: PolicyCallOptions): Observable<V> {
    const start = (outer: AttemptContext): Observable<V> => {
      let askedAt = this.#now();
      const onEvent = (event: FlowEvent): void => {
        // The loser of a race is told as an attempt; it is no call that was cancelled.
        if (event.type !== 'hedged') return;
        askedAt = this.#now();
        this.#tell({ ...event, operator: NAME, lane, batchId: id });
      };
      const rules = { ...this.#hedgeOptions, job, onEvent };
      return hedgeUnder<V>(
        this.#permits.run,
        (_index, { lease }) => {
          const queuedMs = this.#now() - askedAt;
          return this.#attempts((inner) => {
            const deadlineAt = Math.min(inner.deadlineAt, outer.deadlineAt);
            const settle = (usage: Usage): void => lease?.settle(usage);
            const observe = (response: ResponseLike): void => lease?.observe(response);
            return this.#inPermit<V>((context) => send(context, { deadlineAt, queuedMs, lease, settle, observe }))(inner);
          });
        },
        rules,
      );
    };
    return hedged(start, {}, id);
  }

  /** The provider has answered when parsing fails, and what has no room in a budget has none a moment later: nothing is made again. */
  readonly #classify: Classify = (error, context) =>
    isA(error, ParseFault) || isRefused(error) ? { class: 'contract' } : this.#classifyGiven(error, context);

  /** Only silence asks a second time. A failure is for the retries, after their pause, or it ends the call at once. */
  readonly #classifyHedged: Classify = (error, context) => {
    const verdict = this.#classify(error, context);
    if (verdict.class === 'itemFault') return { class: 'fatal' };
    return mayPass(verdict) && verdict.class !== 'throttled' ? { class: 'contract' } : verdict;
  };

  /** Attempts are told by the caller itself: it knows of hedges. */
  readonly #relay = (event: FlowEvent): void => {
    if (event.type !== 'attemptStarted' && event.type !== 'attemptEnded') this.#tell(event);
  };
}

function isRefused(error: unknown): boolean {
  return isFlowError(error, 'FLOW_BUDGET_EXCEEDED');
}
