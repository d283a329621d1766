import type { GrantQueueRule } from './kernel/queues/queue.js';
import { RankedLine } from './kernel/queues/ranked-line.js';
import type { LimiterJob } from './options/limiter.js';
import { requiredFunction } from './options/options.js';
import { report } from './shell/calls/report.js';

const NAME = 'ranked';

/**
 * The jobs of a limiter in an order of your own, for its `queue` option: jobs belong to groups, the group that compares least goes next, and in a group jobs
 * go in the order they came. Of groups that compare equal, the one goes first that has waited longest.
 *
 * The comparison is asked for each turn, for all groups in which something waits, so what it looks at may change meanwhile. When it throws, the error is
 * reported as an uncaught one and the two groups are equal. What `group` throws rejects its job.
 *
 * Nothing keeps a share for groups that compare greater: while others wait they get no turn. `lanes([...])` has floors and shares.
 *
 * @beta
 * @param group - What the job belongs to, by identity: its `key`, for example.
 * @param compare - As for `sort` of an array: less than 0 when the first group goes before the second.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when one of them is no function.
 * @example
 * ```ts
 * import { createLimiter, ranked } from 'sluice/operators';
 *
 * const limiter = createLimiter({ concurrency: 1, queue: ranked(({ key }) => key as number, (one, other) => one - other) });
 * const order: number[] = [];
 * const ask = (key: number) => limiter.runAsync(() => Promise.resolve(order.push(key)), { key });
 * await Promise.all([ask(3), ask(3), ask(2), ask(1), ask(2)]);
 * order; // => [3, 1, 2, 2, 3]
 * ```
 * @see {@link lanes} when a few names say how urgent a job is.
 */
export function ranked<G>(group: (job: LimiterJob) => G, compare: (one: G, other: G) => number): GrantQueueRule<LimiterJob> {
  requiredFunction(NAME, 'group', group);
  requiredFunction(NAME, 'compare', compare);
  const order = (one: unknown, other: unknown): number => {
    try {
      return compare(one as G, other as G);
    } catch (error) {
      report(error);
      return 0;
    }
  };
  return {
    lanes: [{ name: 'default' }],
    isDeclared: true,
    keyOf: group,
    at: () => 0,
    create: () => new RankedLine(order),
  };
}
