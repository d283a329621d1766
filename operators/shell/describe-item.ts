import type { BatchMachine } from '../kernel/machine/batch-machine.js';
import type { Job } from '../kernel/machine/job.js';
import { ACCEPTED } from '../kernel/machine/job.js';
import type { GrantQueueRule } from '../kernel/queues/queue.js';
import { isAmount, unusable } from '../options/answers.js';
import { ask, weightOf } from '../options/ask.js';
import { ItemTooHeavyError, isFlowError } from '../options/errors.js';
import type { SplitItem } from '../options/oversize.js';
import type { BatchConfig } from './batch-options.js';

/** The shell, as far as accepting an item goes. */
interface Describer<T, R> {
  readonly machine: BatchMachine<T, R>;
  readonly config: BatchConfig<T>;
  /** Reads what the permits can grant at most. Answers the most that one item may weigh. */
  readCapacity(): number;
}

/** Accepts an item, calling your callbacks for it. Never throws: what they throw becomes the `fault` of the item. */
export function describe<T, R>(job: Job<T, R>, shell: Describer<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
  const { machine, config } = shell;
  const { operator, order, id, queue } = config;
  const { now } = machine;
  let fault: { readonly error: unknown } | undefined;
  // An item that `key` itself sends is accepted before this one, and comes before it.
  job.index = machine.accepted;
  try {
    if (order) machine.place(job, order.keyOf && ask(operator, 'key', order.keyOf, job.input));
  } catch (error) {
    fault = { error };
  }
  job.index = machine.accepted++;
  job.acceptedAt = now;
  try {
    if (id && !fault) job.extras.name = ask(operator, 'id', id, job.input);
    if (!fault) measure(job, shell, laneName, deadlineMs);
  } catch (error) {
    const { cause } = error as Error;
    // A callback may refuse the item.
    fault = { error: isFlowError(cause, 'FLOW_ITEM_TOO_HEAVY') ? cause : error };
  }
  if (fault) {
    // Only its name and its place are kept.
    const { name, place } = job.extras;
    job.more = undefined;
    job.lane = queue.lanes.length - 1;
    Object.assign(job.extras, { name, place, fault });
  }
  job.state = ACCEPTED;
}

function measure<T, R>(job: Job<T, R>, shell: Describer<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
  const { config, machine } = shell;
  const { operator, queue, weigh, deadlineMs: within, oversize, maxWeight } = config;
  const { input, acceptedAt } = job;
  const named = laneName ?? (queue.laneOf && ask(operator, 'lane', queue.laneOf, input));
  const weight = weightOf(operator, weigh, input);
  const waitMs = deadlineMs ?? (typeof within === 'function' ? ask(operator, 'deadlineMs', within, input) : within);
  if (!isAmount(waitMs)) throw unusable(operator, 'deadlineMs', 'a number of ms >= 0', waitMs);
  job.lane = laneAt(operator, queue, named);
  job.weight = weight;
  if (queue.keyOf) job.extras.key = ask(operator, 'key', queue.keyOf, input);
  if (waitMs !== Infinity) job.extras.deadlineAt = acceptedAt + waitMs;
  const heaviest = shell.readCapacity();
  if (weight > machine.aim && typeof oversize === 'object') {
    (oversize as SplitItem<T, R>).cut(operator, job as never, config, heaviest);
  } else if (weight > heaviest || (weight > maxWeight && oversize === 'reject')) {
    throw new ItemTooHeavyError(operator, weight, weight > heaviest ? heaviest : maxWeight);
  }
}

/** @throws LaneUnknownError */
export function laneAt<T>(operator: string, queue: GrantQueueRule<T>, name: string | undefined): number {
  const lane = queue.at(name);
  if (lane === -1) throw queue.unknown?.(operator, String(name)) as Error;
  return lane;
}
