import type { Observable, ObservableInput } from 'rxjs';
import { hedge } from '../../../operators/hedge.js';
import type { Policy, PolicyCallOptions } from '../../../operators/policy.js';
import { policy } from '../../../operators/policy.js';
import type { FlowEvent, FlowSink } from '../../../operators/support/events.js';
import type { PolicyContext } from '../../../operators/support/policing/attempt.js';
import type { Classify } from '../../../operators/support/types.js';
import type { AttemptRules } from './model-attempt.js';
import { ParseFault } from './model-call.js';
import type { CallerConfig } from './model-options.js';
import { NAME } from './model-options.js';

/** What is the same for every kind of request. */
type Config = Omit<CallerConfig<never, never, never, never>, 'client' | 'parse'>;
type Send<V> = (rules: AttemptRules) => ObservableInput<V>;

/** What surrounds the calls of one caller. */
export class ModelPolicies {
  readonly #config: Config;
  readonly #tell: FlowSink;
  readonly #now: () => number;
  readonly #calls: Policy;
  readonly #streams: Policy;
  /** Around each attempt of a hedge. */
  readonly #attempts: Policy;
  /** Around a hedge, by lane: the limiter and the attempt timeout are inside. */
  readonly #hedged = new Map<string, Policy>();

  constructor(config: Config, tell: FlowSink, now: () => number) {
    this.#config = config;
    this.#tell = tell;
    this.#now = now;
    const { scheduler, random, limiter, attemptTimeoutMs, retry, deadlineMs, breaker } = config;
    const attempts = { classify: this.#classify, scheduler, random };
    const calls = { ...attempts, ...(retry !== undefined && { retry }), deadlineMs, ...(breaker && { breaker }), onEvent: this.#relay };
    this.#calls = policy({ ...calls, limiter, attemptTimeoutMs });
    this.#streams = policy({ ...calls, limiter, attemptTimeoutMs: Infinity });
    this.#attempts = policy({ ...attempts, retry: false, attemptTimeoutMs });
    for (const lane of config.hedge?.lanes ?? []) {
      const onEvent = (event: FlowEvent): void => {
        this.#relay('lane' in event ? { ...event, lane } : event);
      };
      this.#hedged.set(lane, policy({ ...calls, attemptTimeoutMs: Infinity, onEvent }));
    }
  }

  /** Around a call with a whole answer. */
  call<V>(send: Send<V>, lane: string, how: PolicyCallOptions): Observable<V> {
    const hedged = this.#hedged.get(lane);
    return hedged ? this.#hedge(hedged, send, lane, how) : this.#calls(send, how);
  }

  /** Around a stream, which watches its own silence. */
  stream<V>(send: Send<V>, how: PolicyCallOptions): Observable<V> {
    return this.#streams(send, how);
  }

  /** Every attempt of the hedge takes its own permit, and is cut off on its own. */
  #hedge<V>(hedged: Policy, send: Send<V>, lane: string, { job = {}, signal }: PolicyCallOptions): Observable<V> {
    const { hedge: options, limiter, scheduler } = this.#config;
    const { lanes: _lanes, ...hedgeOptions } = options ?? { lanes: [] };
    const start = (outer: PolicyContext): Observable<V> => {
      let askedAt = this.#now();
      const onEvent = (event: FlowEvent): void => {
        if (event.type === 'hedged') askedAt = this.#now();
        this.#tell({ ...event, operator: NAME, lane } as FlowEvent);
      };
      const rules = { ...hedgeOptions, limiter, job, classify: this.#classify, scheduler, onEvent };
      return hedge<V>((_index, { lease }) => {
        const queuedMs = this.#now() - askedAt;
        return this.#attempts((inner) =>
          send({
            signal: inner.signal,
            deadlineAt: Math.min(inner.deadlineAt, outer.deadlineAt),
            queuedMs,
            reconcile: (usage) => lease?.settle(usage),
            observe: (response) => lease?.observe(response),
          }),
        );
      }, rules);
    };
    return hedged(start, signal === undefined ? {} : { signal });
  }

  /** The provider has answered when parsing fails: neither another attempt nor a hedge would do better. */
  readonly #classify: Classify = (error, context) =>
    error instanceof ParseFault ? { class: 'contract' } : this.#config.classify(error, context);

  /** Attempts are told by the caller itself: it knows of hedges. */
  readonly #relay = (event: FlowEvent): void => {
    if (event.type !== 'attemptStarted' && event.type !== 'attemptEnded') this.#tell({ ...event, operator: NAME });
  };
}
