import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import { add } from './accept.js';
import type { Entry, Job } from './job.js';
import { ACCEPTED, Batch, IN_FLIGHT, WAITING } from './job.js';
import type { MachineState } from './machine-state.js';
import { CLOSED } from './step.js';

/** The item leaves: results of later items no longer wait for its own. */
export function leave<T, R>(machine: MachineState<T, R>, job: Job<T, R>): void {
  const { more, state } = job;
  const place = more?.place;
  if (place) (machine.order as ReorderBuffer<Job<T, R>>).leave(place);
  machine.remove(job);
  if (state !== ACCEPTED) machine.host.tell?.({ type: 'cancelled', lane: machine.laneName(job.lane), count: 1, seq: job.index });
}

/** Moves what waits of an item to the end of a more urgent lane. */
export function promote<T, R>(machine: MachineState<T, R>, job: Job<T, R>, lane: number): void {
  for (const part of job.parts ?? [job]) {
    if (part.state !== WAITING || part.batch || lane >= part.lane) continue;
    machine.detach(part);
    part.lane = lane;
    add(machine, part);
  }
}

/** Rejects everything that is not settled yet, and all that comes from now on; the calls under way are stopped. */
export function rejectAll<T, R>(machine: MachineState<T, R>, error: unknown): void {
  machine.refusal = { error };
  for (const { jobs } of [...machine.ending, ...machine.calls])
    for (const job of jobs) if (job.state === IN_FLIGHT) machine.settle(job, true, error);
  for (const batch of machine.calls) machine.abandon(batch);
  refuseWaiting(machine, error);
  for (const batch of machine.repairer?.takeAll() ?? []) refuse(machine, batch, error);
}

/** Rejects what waits to be sent, but for what is between two attempts. */
export function refuseWaiting<T, R>(machine: MachineState<T, R>, error: unknown): void {
  const { lines } = machine;
  for (let lane = lines.lead(); lane !== -1; lane = lines.lead()) refuse(machine, lines.head(lane) as Entry<T, R>, error);
}

function refuse<T, R>(machine: MachineState<T, R>, entry: Entry<T, R>, error: unknown): void {
  for (const job of entry instanceof Batch ? entry.jobs : [entry]) {
    if (job.isDone) continue;
    machine.detach(job);
    machine.settle(job, true, error);
  }
}

/** Forgets everything; the only event left reports how many items waited. */
export function clear<T, R>(machine: MachineState<T, R>, now: number): void {
  const { host, inputs, order, queued, results } = machine;
  machine.now = now;
  machine.phase = CLOSED;
  inputs.clear();
  rejectAll(machine, undefined);
  results.clear();
  order?.clear();
  if (queued > 0) host.tell?.({ type: 'cancelled', lane: machine.laneName(0), count: queued });
}
