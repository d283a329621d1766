import { Alarm } from '../../../operators/build.js';
import type { FlowEvent, Limiter, Policy } from '../../../operators/index.js';
import { policy } from '../../../operators/index.js';
import { hasLimit, type StagePermits } from './stage-permits.js';
import type { StageConfig, StagesConfig } from './stages-options.js';
import { NAME } from './stages-options.js';

/** One stage: where its requests get their permits, what surrounds them, and what is counted of it. */
export class StageLevel {
  readonly config: StageConfig;
  readonly name: string;
  readonly position: number;
  readonly limiter: Limiter;
  /** Limits the time of items whose steps make their own requests. */
  readonly inTime: Policy;
  /** Limiters of single documents. */
  readonly own = new Set<Limiter>();
  /** Items in this stage, and those that were not begun. */
  admitted = 0;
  pending = 0;
  done = 0;
  failed = 0;
  /** Most requests at a time, now. */
  concurrency: number;
  /** Items that went through, those that a journal knew apart, and how long they were here, in ms. */
  #timed = 0;
  #timedMs = 0;
  /** Requests without an end, and those under way. */
  requests = 0;
  executing = 0;
  readonly #permits: StagePermits;
  readonly #clock: Alarm;
  readonly #policyOf: (limiter: Limiter) => Policy;
  readonly #shared: Policy;

  constructor(all: StagesConfig, position: number, permits: StagePermits, tell: (event: FlowEvent) => void) {
    const { classify, scheduler, random } = all;
    const config = all.stages[position] as StageConfig;
    const { name, retry, timeoutMs } = config;
    const common = { operator: NAME, scheduler };
    const onEvent = (event: FlowEvent): void => {
      this.#count(event);
      tell({ ...event, ...{ lane: name } });
    };
    this.config = config;
    this.name = name;
    this.position = position;
    this.concurrency = config.concurrency.first;
    this.limiter = permits.ofStage(config);
    this.inTime = policy({ ...common, timeoutMs: Infinity });
    this.#permits = permits;
    this.#clock = new Alarm(scheduler, () => undefined);
    this.#policyOf = (limiter) => policy({ ...common, limiter, timeoutMs, classify, random, onEvent, ...(retry && { retry }) });
    this.#shared = this.#policyOf(this.limiter);
  }

  /** Requests that wait for a permit, or for their next attempt. */
  get waiting(): number {
    return this.requests - this.executing;
  }

  /** How many of those could go, as far as slots of the stage are concerned. */
  get eligible(): number {
    if (!hasLimit(this.config)) return this.waiting;
    if (this.config.scope === 'shared') return Math.min(this.waiting, freeIn(this.limiter));
    let eligible = 0;
    for (const limiter of this.own) eligible += Math.min(limiter.snapshot().queued, freeIn(limiter));
    return eligible;
  }

  /** Average time of an item that went through, in ms; 0 before the first. */
  get meanMs(): number {
    return this.#timed === 0 ? 0 : this.#timedMs / this.#timed;
  }

  /** An item that came in at `enteredAt` has gone through. */
  passed(enteredAt: number): void {
    this.#timed++;
    this.#timedMs += this.now() - enteredAt;
  }

  /** Another limit, from now on. */
  setConcurrency(concurrency: number): void {
    this.concurrency = concurrency;
    for (const limiter of this.config.scope === 'shared' ? [this.limiter] : [...this.own]) limiter.setLimits({ concurrency });
  }

  now(): number {
    return this.#clock.now();
  }

  /** What makes the requests of one document, until it is over. */
  open(): { readonly request: Policy; readonly close: () => void } {
    const limiter = this.#permits.ofDocument(this.config, this.concurrency);
    if (limiter === undefined) return { request: this.#shared, close: () => undefined };
    this.own.add(limiter);
    return { request: this.#policyOf(limiter), close: () => this.own.delete(limiter) };
  }

  #count({ type }: FlowEvent): void {
    if (type === 'accepted') this.requests++;
    else if (type === 'attemptStarted') this.executing++;
    else if (type === 'attemptEnded') this.executing--;
    else if (type === 'settled' || type === 'cancelled') this.requests--;
  }
}

function freeIn({ concurrency, executing }: Limiter): number {
  return concurrency - executing;
}
