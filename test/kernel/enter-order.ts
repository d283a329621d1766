import type { BatchMachine, Job } from '../../operators/kernel/index.js';
import { takePlace } from '../../operators/kernel/index.js';

/** Gives an item its place in the order of results, as a shell does. */
export function enterOrder<T, R>(machine: BatchMachine<T, R>, job: Job<T, R>, key: unknown): void {
  const place = machine.order?.enter(key);
  if (!place) return;
  place.item = job;
  takePlace(job, place);
}
