import type { BatchMachine } from './batch-machine.js';
import type { Batch } from './job.js';
import { weightOf } from './job.js';

/** Tokens wanted for the next batch; less than it weighs only when a deadline would pass while saving up for it. */
export function bid<T, R>(machine: BatchMachine<T, R>, affordable: number): number {
  const { lead, queue, aim, charges, now } = machine;
  const { maxSize } = machine.rules;
  machine.budget = aim;
  if (!charges) return 0;
  if (queue.isReturned(lead)) {
    const batch = queue.head(lead) as Batch<T, R>;
    batch.tidy();
    return batch.weight;
  }
  const whole = weightOf(queue.plan(lead, maxSize, aim));
  if (whole <= affordable || now < shrinkAt(machine)) return whole;
  const part = weightOf(queue.plan(lead, maxSize, affordable));
  // When not even the first item can be paid, that is what is waited for. One above the aim travels alone, without weightless ones too.
  machine.budget = Math.max(affordable, Math.min(part, aim));
  return part;
}

/** From when on saving up for a whole batch would cost a waiting item its deadline, judging by how long calls have taken. */
export function shrinkAt<T, R>(machine: BatchMachine<T, R>): number {
  const { latencyMs } = machine;
  return machine.least(({ deadlineAt, acceptedAt }) =>
    deadlineAt === Infinity ? deadlineAt : deadlineAt - (latencyMs ?? (deadlineAt - acceptedAt) / 2),
  );
}

/** When the bid will get smaller by itself; Infinity when it never will, or may be already: then the limiter asks again once it can be paid. */
export function nextBidAt<T, R>(machine: BatchMachine<T, R>): number {
  const at = shrinkAt(machine);
  return machine.charges && at > machine.now ? at : Infinity;
}
