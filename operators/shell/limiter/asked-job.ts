import type { Gate } from '../../kernel/limiter/gate.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { amountOf } from '../../kernel/limits/limit.js';
import type { GrantQueue } from '../../kernel/queues/queue.js';
import type { Lease, Ticket } from './ticket.js';

/** The job that a store was asked for last. */
export class AskedJob {
  lane = -1;
  costs: readonly number[] = [];
  /** Whether it belongs to a child limiter, which takes it out of this queue while it waits there. */
  isPlace = false;

  isLike(costs: readonly number[], lane: number): boolean {
    return lane === this.lane && costs.every((cost, column) => cost === this.costs[column]);
  }

  /** Whether these costs are less, and nothing of them is more. */
  costsMoreThan(costs: readonly number[]): boolean {
    const isMore = costs.some((cost, column) => cost > (this.costs[column] as number));
    return !isMore && costs.some((cost, column) => cost < (this.costs[column] as number));
  }
}

/** What the first jobs of a lane cost together, by unit. */
export function sumsOf(queue: GrantQueue<Ticket>, lane: number, most: number, units: readonly string[]): number[] {
  const sums = units.map(() => 0);
  let jobs = 0;
  queue.each(lane, ({ charge }) => {
    for (const [column, unit] of units.entries()) sums[column] = (sums[column] as number) + amountOf(charge, unit);
    return ++jobs < most;
  });
  return sums;
}

/** Whether its reserve lets a job go now before the one whose turn it is. */
export function mayPass(
  { rates, time }: Gate<Ticket, Lease>,
  { charge, lane }: { readonly charge: Charge; readonly lane: number },
): boolean {
  return rates === undefined || rates.passableAt(charge, lane, time) <= time;
}
