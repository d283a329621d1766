import type { SchedulerLike } from 'rxjs';
import { createLimiter } from '../../../operators/create-limiter.js';
import type { AttemptPolicy, PermitSource } from '../../../operators/policy.js';
import { policyOf } from '../../../operators/policy.js';
import { Alarm } from '../../../operators/toolkit.js';
import type { FlowSink, Limiter } from '../../../operators/types.js';
import type { Rank } from './gate.js';
import type { StageConfig, StagesConfig } from './stages-options.js';
import { NAME } from './stages-options.js';

/** One stage: its slots, who waits for them, and what surrounds its requests. */
export class StageLevel {
  readonly config: StageConfig;
  readonly isLocal: boolean;
  /** Position among the stages. */
  readonly position: number;
  /** Those that all documents share; undefined when there are none, or each document has its own. */
  readonly slots: Limiter | undefined;
  /** Requests that wait: of items that have had a permit before, and of all others. */
  readonly begun: Rank = new Map();
  readonly fresh: Rank = new Map();
  waiting = 0;
  /** Requests under way. */
  executing = 0;
  /** Items in this stage, and those that were not begun. */
  admitted = 0;
  pending = 0;
  done = 0;
  failed = 0;
  #policy: AttemptPolicy | undefined;
  readonly #all: StagesConfig;
  readonly #clock: Alarm;
  /** A slot is free again. */
  readonly #freed: () => void;

  constructor(all: StagesConfig, position: number, freed: () => void) {
    this.config = all.stages[position] as StageConfig;
    this.isLocal = this.config.local;
    this.position = position;
    this.#all = all;
    this.#clock = new Alarm(all.scheduler, () => undefined);
    this.#freed = freed;
    this.slots = this.config.scope === 'shared' ? this.#newSlots() : undefined;
  }

  get name(): string {
    return this.config.name;
  }

  get scheduler(): SchedulerLike {
    return this.#all.scheduler;
  }

  now(): number {
    return this.#clock.now();
  }

  /** Those of one document, where each has its own. */
  ownSlots(): Limiter | undefined {
    return this.config.scope === 'perBatch' ? this.#newSlots() : undefined;
  }

  /** Makes a request. */
  get request(): AttemptPolicy {
    return this.#policy as AttemptPolicy;
  }

  connect(permits: PermitSource, instance: string, onEvent: FlowSink): void {
    const { classify, scheduler, random } = this.#all;
    const { retry, timeoutMs } = this.config;
    this.#policy = policyOf(NAME, { ...(retry && { retry }), timeoutMs, classify, scheduler, random, name: instance, onEvent }, permits);
  }

  #newSlots(): Limiter | undefined {
    const { concurrency } = this.config;
    if (concurrency === Infinity) return undefined;
    const slots = createLimiter({ concurrency, scheduler: this.#all.scheduler });
    slots.watch(this.#freed);
    return slots;
  }
}
