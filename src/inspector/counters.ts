import type { FlowLane } from './flow-parts.js';

/** Totals, and numbers of this moment. */
export interface FlowCounters {
  /** Items, or calls where there are no batches. */
  readonly accepted: number;
  readonly fulfilled: number;
  readonly rejected: number;
  /** Those two together. */
  readonly settled: number;
  readonly dropped: number;
  readonly expired: number;
  /** Given up by whoever wanted them. */
  readonly cancelled: number;
  /** Accepted and in no call: fresh, or between two attempts. */
  readonly waiting: number;
  /** Calls under way. */
  readonly executing: number;
  /** Items that an operator has ended without: always 0. */
  readonly lost: number;
  /** Calls sent, repeats and parts of splits included. */
  readonly calls: number;
  /** Items that were sent, less the calls it took: what one call for each of them would have cost more. */
  readonly callsSaved: number;
  /** Batches formed, without repeats and parts of splits. */
  readonly batches: number;
  readonly meanSize: number;
  /** `meanSize` as a share of the largest batch there may be; undefined until that is known. */
  readonly meanFill: number | undefined;
  readonly retries: number;
  readonly splits: number;
  /** Calls that were refused for their rate (429). */
  readonly throttled: number;
  readonly hedged: number;
  /** As records of calls count them, where metrics have records; else the weight that was sent, where items have weights. */
  readonly tokens: number;
  /** The most urgent lane, and how long half, and 99 of 100, of its items took at the most from acceptance to result, in ms. */
  readonly firstLane: string | undefined;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** One lane, in numbers. */
export interface LaneView {
  readonly name: string;
  readonly accepted: number;
  readonly waiting: number;
  /** Items in calls. */
  readonly executing: number;
  readonly settled: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The sums of {@link FlowCounters}; the rest follows from them. */
export const NO_SUMS = {
  ...{ accepted: 0, fulfilled: 0, rejected: 0, dropped: 0, expired: 0, cancelled: 0, waiting: 0, executing: 0, lost: 0 },
  ...{ calls: 0, sent: 0, batches: 0, batched: 0, retries: 0, splits: 0, throttled: 0, hedged: 0, weight: 0 },
} as const;
export type Sums = Record<keyof typeof NO_SUMS, number>;

/** What was counted of a lane. */
export type LaneSums = Pick<LaneView, 'name' | 'accepted' | 'settled'>;

/** What the sums come to. @param fullSize most items in a batch, undefined while nobody knows */
export function countersOf(
  { sent, batched, weight, ...sums }: Sums,
  first: FlowLane | undefined,
  fullSize: number | undefined,
  tokens: number,
): FlowCounters {
  const meanSize = batched / sums.batches || 0;
  const view = first && laneView(first);
  return {
    ...sums,
    settled: sums.fulfilled + sums.rejected,
    callsSaved: sent - sums.calls,
    meanSize,
    meanFill: fullSize && meanSize ? meanSize / fullSize : undefined,
    tokens,
    firstLane: view?.name,
    p50Ms: view?.p50Ms ?? 0,
    p99Ms: view?.p99Ms ?? 0,
  };
}

/** One lane, in numbers. */
export function laneView({ times, ...lane }: FlowLane): LaneView {
  return { ...lane, waiting: lane.waiting.size, p50Ms: times.quantile(0.5), p99Ms: times.quantile(0.99) };
}
