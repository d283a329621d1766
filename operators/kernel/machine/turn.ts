import type { LaneRule } from '../queues/queue.js';
import { holdsTooMuch } from '../waiting/bounds.js';
import type { Burst, CloseReason } from './job.js';
import { Batch, Job, WAITING, weightOf } from './job.js';
import type { MachineState } from './machine-state.js';
import { FINISHING } from './step.js';

// Whose turn it is among what waits in a machine, when that is due, what is in the next batch, and what is bid for it.

/** The lane whose turn it is, or -1. With no room for more results, only repairs and the item that all wait for may go. */
export function leadOf<T, R>(machine: MachineState<T, R>): number {
  const { lines, order, rules } = machine;
  if (!order || !isBlocked(machine)) return lines.lead();
  const returned = rules.queue.lanes.findIndex((_, lane) => lines.isReturned(lane));
  if (returned !== -1) return returned;
  const head = order.head(undefined) as Job<T, R>;
  const isFresh = (job: Job<T, R>): boolean => job.state === WAITING && job.batch === undefined;
  // Parts may have moved to another lane than the one their item came in.
  return (head.parts ?? [head]).find(isFresh)?.lane ?? -1;
}

/** Whether so many results are held back that only the item they wait for may be worked on. */
export function isBlocked<T, R>({ order, rules }: MachineState<T, R>): boolean {
  return rules.order?.gates === true && holdsTooMuch(rules.bounds, order?.held ?? 0);
}

/** When a batch led by this lane is due. Asks for the window, which may do anything, only where it matters. */
export function dueAtOf<T, R>(machine: MachineState<T, R>): number {
  const { flushedBelow, fresh, host, inputs, lines, order, phase, rules } = machine;
  const isUrgent = phase === FINISHING || machine.isFull || lines.size > fresh - inputs.length || (order && isBlocked(machine));
  if (isUrgent) return -Infinity;
  let windowMs: number | undefined;
  let dueAt = Infinity;
  if (machine.isFramed) return dueAt;
  for (const { index, acceptedAt, lane } of oldest(machine)) {
    const ms = index < flushedBelow ? -Infinity : ((rules.queue.lanes[lane] as LaneRule).maxWaitMs ?? (windowMs ??= host.windowMs()));
    dueAt = Math.min(dueAt, acceptedAt + ms);
  }
  return dueAt;
}

/** The oldest fresh item of each lane. */
function oldest<T, R>({ lines }: MachineState<T, R>): Job<T, R>[] {
  const found: Job<T, R>[] = [];
  for (let lane = lines.after(-1); lane !== -1; lane = lines.after(lane)) found.push(lines.oldest(lane) as Job<T, R>);
  return found;
}

/** How long the oldest fresh item has waited. */
export function oldestMs<T, R>(machine: MachineState<T, R>): number {
  return machine.now - Math.min(...oldest(machine).map(({ acceptedAt }) => acceptedAt));
}

/** Why the next batch, led by this lane, leaves. */
export function reasonOf<T, R>(machine: MachineState<T, R>, lead: number): CloseReason {
  const { flushedBelow, lines, rules } = machine;
  if (lines.isReturned(lead)) return (lines.head(lead) as Batch<T, R>).attempt > 1 ? 'retry' : 'split';
  if (machine.isFull) return machine.fresh >= rules.maxSize ? 'size' : 'weight';
  if (machine.phase === FINISHING) return 'complete';
  if ((lines.oldest(lead) as Job<T, R>).index < flushedBelow) return 'flush';
  return (rules.queue.lanes[lead] as LaneRule).maxWaitMs === 0 ? 'urgent' : 'time';
}

/** Takes the batch led by this lane, which weighs no more than the budget. */
export function takeBatch<T, R>(machine: MachineState<T, R>, lead: number, budget: number): Batch<T, R> {
  const { lines, rules } = machine;
  if (lines.isReturned(lead)) {
    const batch = lines.takeHead(lead, (lines.head(lead) as Batch<T, R>).live) as Batch<T, R>;
    batch.tidy();
    return batch;
  }
  const jobs = lines.plan(lead, rules.maxSize, budget) as Job<T, R>[];
  lines.takeAll(jobs);
  const batch = new Batch(jobs, lead, weightOf(jobs), `b${String(machine.batches++)}`);
  freshGone(machine, jobs.length, batch.weight);
  return batch;
}

/** Fresh items were sent, or have left: the next inputs become jobs. */
export function freshGone<T, R>(machine: MachineState<T, R>, size: number, weight: number): void {
  const { accepted, bursts, inputs, lines, rules } = machine;
  const fresh = (machine.fresh -= size);
  // Sums of fractions drift: an empty queue weighs nothing.
  machine.freshWeight = fresh === 0 ? 0 : machine.freshWeight - weight;
  while (inputs.length > 0 && fresh - inputs.length < rules.maxSize) {
    const burst = bursts.peek() as Burst;
    if (--burst.count === 0) bursts.shift();
    lines.push(jobOf(inputs.shift() as T, accepted - inputs.length - 1, burst.at));
  }
}

/** A job that waits. */
export function jobOf<T, R>(input: T, index: number, acceptedAt: number): Job<T, R> {
  const job = new Job<T, R>(input);
  job.index = index;
  job.acceptedAt = acceptedAt;
  job.state = WAITING;
  return job;
}

/** Tokens wanted for the batch led by this lane; less than it weighs only when a deadline would pass while saving up for it. */
export function bid<T, R>(machine: MachineState<T, R>, lead: number, affordable: number): number {
  const { lines, aim, now, rules } = machine;
  machine.budget = aim;
  if (!machine.charges) return 0;
  if (lines.isReturned(lead)) {
    const batch = lines.head(lead) as Batch<T, R>;
    batch.tidy();
    return batch.weight;
  }
  const whole = weightOf(lines.plan(lead, rules.maxSize, aim));
  if (whole <= affordable || now < shrinkAt(machine)) return whole;
  const part = weightOf(lines.plan(lead, rules.maxSize, affordable));
  // When not even the first item can be paid, that is what is waited for. One above the aim travels alone, without weightless ones too.
  machine.budget = Math.max(affordable, Math.min(part, aim));
  return part;
}

/** From when on saving up for a whole batch would cost a waiting item its deadline, judging by how long calls have taken. */
export function shrinkAt<T, R>(machine: MachineState<T, R>): number {
  const { latencyMs } = machine;
  let at = Infinity;
  for (const { deadlineAt, acceptedAt } of oldest(machine))
    if (deadlineAt !== Infinity) at = Math.min(at, deadlineAt - (latencyMs ?? (deadlineAt - acceptedAt) / 2));
  return at;
}

/** When the bid gets smaller by itself; Infinity when it never does, or may be already: then the limiter asks again once it can be paid. */
export function nextBidAt<T, R>(machine: MachineState<T, R>): number {
  const at = machine.charges ? shrinkAt(machine) : Infinity;
  return at > machine.now ? at : Infinity;
}

/** Reads what permits can grant at most, for the weight of a batch. Answers the most that one item may weigh. */
export function readCapacity<T, R>(machine: MachineState<T, R>): number {
  const { host, rules } = machine;
  if (!rules.weigh) return Infinity;
  const { tokenCapacity, borrows } = host.permits;
  machine.charges = tokenCapacity !== Infinity;
  machine.aim = Math.min(rules.maxWeight, tokenCapacity);
  return borrows ? Infinity : tokenCapacity;
}
