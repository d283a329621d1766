import type { BatchMachine, Job } from '../../operators/kernel/index.js';

/** Gives an item its place in the order of results, as a shell does. */
export function enterOrder<T, R>({ order }: BatchMachine<T, R>, job: Job<T, R>, key: unknown): void {
  if (!order) return;
  const place = order.enter(key);
  place.item = job;
  job.extras.place = place;
}
