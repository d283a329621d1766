import { cpus, loadavg } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Observable } from 'rxjs';

/** One contestant of a case: does the whole workload once. */
export type Contestant = () => void | Promise<void>;

export interface Case {
  readonly name: string;
  /** Items per run. */
  readonly n: number;
  /** The first is what the others are compared with: by hand, where somebody could do it by hand. */
  readonly contestants: Readonly<Record<string, Contestant>>;
}

export interface Row {
  readonly name: string;
  /** Median CPU nanoseconds per item. */
  readonly nsPerItem: number;
  /** Median of the rounds' ratios of CPU time to the first contestant's. */
  readonly ratio: number;
  /** Smallest and largest ratio of wall time to the first contestant's. */
  readonly wall: readonly [least: number, most: number];
}

interface Time {
  readonly cpuMs: number;
  readonly wallMs: number;
}

/** CPU time: on a busy machine so much of the clock's is too little to compile everything again. */
const WARM_UP_MS = 1000;

setFlagsFromString('--expose-gc');
// Each collection ages code that did not run meanwhile; after some of them it is thrown away, and what is measured next starts cold.
setFlagsFromString('--no-flush-bytecode');
/** Leaves only what is in use. */
export const collectGarbage = runInNewContext('gc') as () => void;

export function numbers(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/**
 * Collects the garbage first, so that nobody pays for another's. That throws away the compiled code as well when nothing of its
 * kind is alive, so each contestant is warmed up again before it is timed.
 */
async function time(contestant: Contestant): Promise<Time> {
  collectGarbage();
  for (const before = process.cpuUsage(); cpuMsSince(before) < WARM_UP_MS; ) await contestant();
  const startMs = performance.now();
  const before = process.cpuUsage();
  await contestant();
  return { cpuMs: cpuMsSince(before), wallMs: performance.now() - startMs };
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Runs the contestants in turn, round after round, so that a machine whose speed drifts slows them all alike. */
export async function measure({ n, contestants }: Case, rounds: number): Promise<Row[]> {
  const entries = Object.entries(contestants);
  const times = entries.map((): Time[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, [, contestant]] of entries.entries()) {
      times[i]!.push(await time(contestant));
    }
  }
  const base = times[0]!;
  return entries.map(([name], i) => {
    const own = times[i]!;
    const wall = own.map(({ wallMs }, round) => wallMs / base[round]!.wallMs);
    return {
      name,
      nsPerItem: (median(own.map(({ cpuMs }) => cpuMs)) * 1e6) / n,
      ratio: median(own.map(({ cpuMs }, round) => cpuMs / base[round]!.cpuMs)),
      wall: [Math.min(...wall), Math.max(...wall)],
    };
  });
}

/** Where the numbers are from, and what else was running there. */
export function machine(): string {
  const processors = cpus();
  return `Node ${process.versions.node}, ${processors.length} × ${processors[0]?.model ?? 'unknown'} at a load of ${loadavg()[0]!.toFixed(1)}`;
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((h, i) => Math.max(h.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`;
  return [line(head), `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`, ...rows.map(line)].join('\n');
}

/** Subscribes, and resolves when the stream has ended after so many values. */
export function countValues(what: string, source: Observable<unknown>, want: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let values = 0;
    source.subscribe({
      next: () => values++,
      error: reject,
      complete: () => {
        assertCount(what, values, want);
        resolve();
      },
    });
  });
}

export function assertCount(what: string, got: number, want: number): void {
  if (got !== want) throw new Error(`${what}: ${got} results, expected ${want}`);
}
