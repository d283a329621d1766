/** One contestant of a case: does the whole workload once. */
export type Contestant = () => void | Promise<void>;

export interface Case {
  readonly name: string;
  /** Items per run. */
  readonly n: number;
  /** The first is what the others are compared with. */
  readonly contestants: Readonly<Record<string, Contestant>>;
}

export interface Row {
  readonly name: string;
  /** Median CPU nanoseconds per item. */
  readonly nsPerItem: number;
  /** Median of the rounds' ratios of CPU time to the first contestant's. */
  readonly ratio: number;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

async function cpuMs(contestant: Contestant): Promise<number> {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await contestant();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Runs the contestants in turn, round after round, so that a machine whose speed drifts slows them all alike. */
export async function measure({ n, contestants }: Case, rounds: number): Promise<Row[]> {
  const names = Object.keys(contestants);
  const times = new Map<string, number[]>(names.map((name) => [name, []]));
  for (let round = -1; round < rounds; round++) {
    for (const [name, contestant] of Object.entries(contestants)) {
      const ms = await cpuMs(contestant);
      // Round -1 warms up.
      if (round >= 0) times.get(name)?.push(ms);
    }
  }
  const base = times.get(names[0] as string) as number[];
  return names.map((name) => {
    const own = times.get(name) as number[];
    return { name, nsPerItem: (median(own) * 1e6) / n, ratio: median(own.map((ms, round) => ms / (base[round] as number))) };
  });
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((h, i) => Math.max(h.length, ...rows.map((row) => (row[i] as string).length)));
  const line = (cells: readonly string[]): string => `| ${cells.map((cell, i) => cell.padEnd(widths[i] as number)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

export function assertCount(what: string, got: number, want: number): void {
  if (got !== want) throw new Error(`${what}: ${String(got)} results, expected ${String(want)}`);
}
