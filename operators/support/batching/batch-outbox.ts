import type { OrderedPlace } from '../../kernel/queues/reorder-buffer.js';
import { ReorderBuffer } from '../../kernel/queues/reorder-buffer.js';
import { Ring } from '../../kernel/queues/ring.js';
import { CallbackError, isFlowError } from '../../options/errors.js';
import type { EngineConfig } from './batch-options.js';
import type { Job, Whole } from './job.js';
import { DONE } from './job.js';

/** Most results held back while `maxQueued` is no bound. */
const MOST_HELD = 1000;

/** Line of all items under `order: 'input'`. */
const ONE_LINE = undefined;

/** What an outbox needs of the engine it belongs to. */
export interface OutboxHost {
  now(): number;
  laneName(lane: number): string;
}

/** Where every item gets its result, once, and waits to be handed out: at once, or when those before it have theirs. */
export class BatchOutbox<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #host: OutboxHost;
  readonly #ready = new Ring<Job<T, R>>();
  readonly #order: ReorderBuffer<Job<T, R>> | undefined;
  /** Parts whose item has been rejected. */
  readonly #orphans: Job<T, R>[] = [];

  constructor(config: EngineConfig<T>, host: OutboxHost) {
    this.#config = config;
    this.#host = host;
    if (config.order === 'completion') return;
    this.#order = new ReorderBuffer((job) => {
      this.#ready.push(job);
    });
  }

  /** Results that can be handed out. */
  get length(): number {
    return this.#ready.length;
  }

  /** Whether there is nothing to hand out and nothing to clear away. */
  get isIdle(): boolean {
    return this.#ready.length === 0 && this.#orphans.length === 0;
  }

  /** A part that is still on its way though its item has been rejected. */
  orphan(): Job<T, R> | undefined {
    return this.#orphans.pop();
  }

  /** Results that wait for others. */
  get held(): number {
    return this.#order?.held ?? 0;
  }

  /** Whether so many results are held back that only the item they wait for may be worked on. */
  get isFull(): boolean {
    return this.#config.order === 'input' && this.held >= (this.#config.maxQueued === Infinity ? MOST_HELD : this.#config.maxQueued);
  }

  /** The item that all held results wait for, under `order: 'input'`. */
  get head(): Job<T, R> | undefined {
    return this.#order?.head(ONE_LINE);
  }

  /** Takes the next place in the order of results; undefined when there is none to keep. */
  enter(key: unknown): OrderedPlace<Job<T, R>> | undefined {
    return this.#order?.enter(this.#config.order === 'perKey' ? key : ONE_LINE);
  }

  /** Nobody waits for the job any more: those behind it need not either. */
  leave({ place }: Job<T, R>): void {
    if (place) this.#order?.leave(place);
  }

  shift(): Job<T, R> | undefined {
    return this.#ready.shift();
  }

  clear(): void {
    this.#ready.clear();
    this.#orphans.length = 0;
    this.#order?.clear();
  }

  fulfil(job: Job<T, R>, value: R): void {
    if (job.whole?.missing) this.#join(job.whole, job, value);
    else this.#settle(job, false, value);
  }

  reject(job: Job<T, R>, reason: unknown): void {
    const { whole } = job;
    if (!job.isPart || whole === undefined) {
      this.#settle(job, true, reason);
      return;
    }
    job.state = DONE;
    if (whole.job.state === DONE) return;
    this.#settle(whole.job, true, reason);
    for (const part of whole.parts) this.#orphans.push(part);
  }

  /** One part of an item has its value; the item has its own with the last of them. */
  #join(whole: Whole<T, R>, part: Job<T, R>, value: R): void {
    part.state = DONE;
    whole.values[whole.parts.indexOf(part)] = value;
    if (--whole.missing > 0 || whole.job.state === DONE) return;
    const { operator, joinResults } = this.#config;
    let joined: unknown;
    try {
      joined = joinResults?.(whole.values);
    } catch (error) {
      this.#settleWhole(whole.job, true, new CallbackError(operator, 'joinResults', 'threw', error));
      return;
    }
    this.#settleWhole(whole.job, false, joined);
  }

  /** `joinResults` may have given it up. */
  #settleWhole(job: Job<T, R>, failed: boolean, outcome: unknown): void {
    if (job.state !== DONE) this.#settle(job, failed, outcome);
  }

  /** The one place where an item gets its result. */
  #settle(job: Job<T, R>, failed: boolean, outcome: unknown): void {
    job.state = DONE;
    job.group = undefined;
    job.call = undefined;
    job.failed = failed;
    if (failed) job.reason = outcome;
    else job.value = outcome as R;
    // What ends the stream does not wait for its turn, and what was dropped takes up no room.
    if (job.place === undefined || (failed && this.#config.failFast)) this.#ready.push(job);
    else this.#order?.ready(job.place, !isFlowError(outcome, 'FLOW_OVERFLOW'));
    this.#config.onEvent?.({
      type: 'settled',
      operator: this.#config.operator,
      lane: this.#host.laneName(job.lane),
      outcome: failed ? 'rejected' : 'fulfilled',
      attempts: job.attempts,
      totalMs: this.#host.now() - job.acceptedAt,
    });
  }
}
