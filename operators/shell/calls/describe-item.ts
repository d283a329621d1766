import { stamp, takePlace } from '../../kernel/machine/accept.js';
import type { DrivenMachine } from '../../kernel/machine/batch-machine.js';
import type { Job } from '../../kernel/machine/job.js';
import { readCapacity } from '../../kernel/machine/turn.js';
import type { GrantQueueRule } from '../../kernel/queues/queue.js';
import type { ReorderBuffer } from '../../kernel/queues/reorder-buffer.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask, weightOf } from '../../options/ask.js';
import { ItemTooHeavyError, isFlowError } from '../../options/errors.js';
import type { SplitItem } from '../../options/oversize.js';
import type { BatchConfig } from '../batch/batch-options.js';

/** The shell, as far as accepting an item goes. */
interface Describer<T, R> {
  readonly machine: DrivenMachine<T, R>;
  readonly config: BatchConfig<T>;
}

/** What its caller says of an item. */
export interface ItemOptions {
  readonly lane?: string | undefined;
  readonly key?: unknown;
  readonly deadlineMs?: number | undefined;
}

/** Accepts an item, calling your callbacks for it. Never throws: what they throw becomes the `fault` of the item. */
export function describe<T, R>(
  job: Job<T, R>,
  { machine, config }: Describer<T, R>,
  now: number,
  { lane, key, deadlineMs }: ItemOptions = {},
): void {
  const { operator, order, id, queue, weigh, deadlineMs: within, oversize, maxWeight } = config;
  const { input } = job;
  try {
    stamp(machine, job, now);
    if (order) place(job, machine, order.keyOf && (() => ask(operator, 'key', order.keyOf as (item: T) => unknown, input)));
    if (id) job.extras.name = ask(operator, 'id', id, input);
    const named = lane ?? (queue.laneOf && ask(operator, 'lane', queue.laneOf, input));
    const weight = weightOf(operator, weigh, input);
    const waitMs = deadlineMs ?? (typeof within === 'function' ? ask(operator, 'deadlineMs', within, input) : within);
    if (!isAmount(waitMs)) throw unusable(operator, 'deadlineMs', 'a number of ms >= 0', waitMs);
    job.lane = laneAt(operator, queue, named);
    job.weight = weight;
    if (queue.keyOf) job.extras.key = key ?? ask(operator, 'key', queue.keyOf, input);
    if (waitMs !== Infinity) job.extras.deadlineAt = now + waitMs;
    const heaviest = readCapacity(machine);
    if (weight > machine.aim && typeof oversize === 'object') {
      (oversize as SplitItem<T, R>).cut(operator, job as never, config, heaviest);
    } else if (weight > heaviest || (weight > maxWeight && oversize === 'reject')) {
      throw new ItemTooHeavyError(operator, weight, weight > heaviest ? heaviest : maxWeight);
    }
  } catch (error) {
    const { cause } = error as Error;
    // A callback may refuse the item.
    job.extras.fault = { error: isFlowError(cause, 'FLOW_ITEM_TOO_HEAVY') ? cause : error };
  }
}

/** Gives an item its place in the order of results. What `key` itself sends comes behind it. @throws CallbackError */
function place<T, R>(job: Job<T, R>, machine: DrivenMachine<T, R>, key: (() => unknown) | undefined): void {
  const buffer = machine.order as ReorderBuffer<Job<T, R>>;
  const taken = key ? buffer.reserve() : buffer.enter(undefined);
  taken.item = job;
  try {
    if (key) buffer.assign(taken, key());
    takePlace(job, taken);
    // `key` may have made the only load leave, before the item had a place in the queue.
    if (job.isDone) buffer.leave(taken);
  } catch (error) {
    buffer.leave(taken);
    throw error;
  }
}

/** @throws LaneUnknownError */
export function laneAt<T>(operator: string, queue: GrantQueueRule<T>, name: string | undefined): number {
  const lane = queue.at(name);
  if (lane === -1) throw queue.unknown?.(operator, String(name)) as Error;
  return lane;
}
