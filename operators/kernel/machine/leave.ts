import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import type { BatchMachine } from './batch-machine.js';
import type { Job } from './job.js';
import { ACCEPTED, WAITING } from './job.js';

/** Nobody waits for the item any more: those behind it need not either. */
export function leave<T, R>(machine: BatchMachine<T, R>, job: Job<T, R>): void {
  const { more, state } = job;
  const place = more?.place;
  if (place) (machine.order as ReorderBuffer<Job<T, R>>).leave(place);
  machine.remove(job);
  if (state !== ACCEPTED) machine.host.tell?.({ type: 'cancelled', lane: machine.laneName(job.lane), count: 1, seq: job.index });
}

/** Moves what waits of an item to the end of a more urgent lane. */
export function promote<T, R>(machine: BatchMachine<T, R>, job: Job<T, R>, lane: number): void {
  for (const part of job.parts ?? [job]) {
    if (part.state !== WAITING || part.batch || lane >= part.lane) continue;
    machine.detach(part);
    part.lane = lane;
    machine.add(part);
  }
}
