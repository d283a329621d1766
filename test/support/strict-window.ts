/** Most that fell into any `windowMs`, wherever it begins: its first moment counts, its end does not. Weights are 1 each unless given. */
export function mostInAnyWindow(timesMs: readonly number[], windowMs: number, weights: readonly number[] = timesMs.map(() => 1)): number {
  const order = timesMs.map((_, at) => at).sort((a, b) => (timesMs[a] ?? 0) - (timesMs[b] ?? 0));
  let most = 0;
  let inside = 0;
  let oldest = 0;
  for (const newest of order) {
    inside += weights[newest] ?? 0;
    for (let first = order[oldest] ?? 0; (timesMs[newest] ?? 0) - (timesMs[first] ?? 0) >= windowMs; first = order[++oldest] ?? 0) {
      inside -= weights[first] ?? 0;
    }
    most = Math.max(most, inside);
  }
  return most;
}
