import type { SchedulerLike } from 'rxjs';
import { createLimiter } from '../../../operators/create-limiter.js';
import type { AttemptPolicy, PermitSource } from '../../../operators/policy.js';
import { policyOf } from '../../../operators/policy.js';
import { Alarm } from '../../../operators/toolkit.js';
import type { FlowSink, Limiter } from '../../../operators/types.js';
import { GateLevel } from './gate.js';
import type { StageConfig, StagesConfig } from './stages-options.js';
import { NAME } from './stages-options.js';

/** One stage: its slots, who waits for them, and what surrounds its requests. */
export class StageLevel extends GateLevel {
  readonly config: StageConfig;
  /** Items in this stage, and those that were not begun. */
  admitted = 0;
  pending = 0;
  done = 0;
  failed = 0;
  #policy: AttemptPolicy | undefined;
  readonly #all: StagesConfig;
  readonly #clock: Alarm;
  readonly #freed: () => void;

  /**
   * @param position - among the stages
   * @param freed - a slot is free again
   */
  constructor(
    all: StagesConfig,
    readonly position: number,
    freed: () => void,
  ) {
    const config = all.stages[position] as StageConfig;
    super(config.local, config.scope === 'shared' ? slotsOf(config, all.scheduler, freed) : undefined);
    this.config = config;
    this.#all = all;
    this.#clock = new Alarm(all.scheduler, () => undefined);
    this.#freed = freed;
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
    return this.config.scope === 'perBatch' ? slotsOf(this.config, this.scheduler, this.#freed) : undefined;
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
}

function slotsOf({ concurrency }: StageConfig, scheduler: SchedulerLike, freed: () => void): Limiter | undefined {
  if (concurrency === Infinity) return undefined;
  const slots = createLimiter({ concurrency, scheduler });
  slots.watch(freed);
  return slots;
}
