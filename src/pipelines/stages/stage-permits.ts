import type { Limiter } from '../../../operators/index.js';
import { childOf, createLimiter, ranked } from '../../../operators/index.js';
import type { StageConfig, StagesConfig } from './stages-options.js';

/** A document, as far as the order of its requests is concerned. */
export interface Claimant {
  /** Counts up, in the order in which documents were read. */
  readonly order: number;
  /** A higher one goes first, where that is asked for. */
  readonly priority: number;
  /** When it last had a permit, counted in permits; 0 before the first. */
  turn: number;
}

/** Requests of a document in a stage, which go in the order they came. */
export interface Rank {
  readonly claimant: Claimant;
  /** Position of the stage. */
  readonly position: number;
  /** Their items have had a permit before, so that their next steps go before what has not been begun. */
  readonly hasBegun: boolean;
}

/** A request: the `key` of its job. */
export interface Claim {
  readonly rank: Rank;
}

/**
 * Where requests of all stages wait: a limiter for each stage with a bound of its own, under one that has the order of all, under that of the account. A
 * permit is one of all of them or of none. The latest stage goes first, in it what has been begun, and then the document that the scheduling says.
 */
export class StagePermits {
  /** The limiter that was given, or one without limits. */
  readonly account: Limiter;
  readonly #all: Limiter;
  /** Of local stages, which take nothing of the account. */
  readonly #local: Limiter;

  constructor({ limiter, lane = limiter?.lanes?.at(-1), scheduling, scheduler }: StagesConfig) {
    const order = ORDERS[scheduling];
    const queue = ranked(
      ({ key }) => (key as Claim).rank,
      (one, other) => other.position - one.position || Number(other.hasBegun) - Number(one.hasBegun) || order(one.claimant, other.claimant),
    );
    this.#local = createLimiter({ scheduler, queue });
    this.#all = limiter
      ? childOf(limiter, { queue, pauses: 'parent', ...(lane !== undefined && { lane }) })
      : createLimiter({ scheduler, queue });
    this.account = limiter ?? this.#all;
  }

  /** Those that all documents share: of the stage itself, or of all stages together. */
  ofStage(config: StageConfig): Limiter {
    return config.scope === 'shared' && hasLimit(config) ? this.#limited(config, config.concurrency.first) : this.#above(config);
  }

  /** Those of a document in a stage where each has its own; undefined where they share them. */
  ofDocument(config: StageConfig, concurrency: number): Limiter | undefined {
    return config.scope === 'perBatch' && hasLimit(config) ? this.#limited(config, concurrency) : undefined;
  }

  #above({ local }: StageConfig): Limiter {
    return local ? this.#local : this.#all;
  }

  #limited(config: StageConfig, concurrency: number): Limiter {
    return childOf(this.#above(config), { concurrency, pauses: 'parent' });
  }

  close(): void {
    this.#local.close();
    this.#all.close();
  }
}

/** Whether the stage has slots of its own, now or once its limit changes. */
export function hasLimit({ concurrency: { first, changes } }: StageConfig): boolean {
  return first !== Infinity || changes !== undefined;
}

type Order = (one: Claimant, other: Claimant) => number;

const ORDERS: Readonly<Record<StagesConfig['scheduling'], Order>> = {
  fair: (one, other) => one.order - other.order,
  priority: (one, other) => other.priority - one.priority || one.order - other.order,
  roundRobin: (one, other) => one.turn - other.turn || one.order - other.order,
};
