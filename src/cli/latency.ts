export interface LatencySummary {
  readonly count: number;
  /** Undefined when nothing was measured. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export function summarizeLatencies(latenciesMs: readonly number[]): LatencySummary {
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  return { count: sorted.length, p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99) };
}

/** By nearest rank: always a value that was measured. */
function percentile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}
