import { cpus, loadavg } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Observable } from 'rxjs';

/** One contestant of a case: does the whole workload once. */
export type Contestant = () => void | Promise<void>;

/** The most CPU time of one contestant as a ratio to another's, when everything is compiled. */
export interface Gate {
  readonly of: string;
  readonly to: string;
  readonly most: number;
}

export interface Case {
  readonly title: string;
  /** Items per run. */
  readonly n: number;
  readonly contestants: Readonly<Record<string, Contestant>>;
  readonly gates?: readonly Gate[];
}

/** CPU milliseconds of one contestant by round. */
export interface Times {
  readonly warm: readonly number[];
  readonly cold: readonly number[];
}

/** CPU time: on a busy machine so much of the clock's is too little to compile everything again. */
const WARM_UP_MS = 1000;
/** One run alone may hold a collection that others have caused, or a neighbour's minute. */
const MOST_WARM_RUNS = 9;
/** CPU time: a long run is not repeated as often, so that no case takes many times as long as its warming up. */
const WARM_MS = 500;

setFlagsFromString('--expose-gc');
/** A full collection: leaves only what is in use, and throws away compiled code of classes without an instance. */
export const collectGarbage = runInNewContext('gc') as () => void;

export function numbers(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Runs the contestants in turn, round after round, so that a machine whose speed drifts slows them all alike. The first round is not counted. */
export async function measure({ contestants }: Pick<Case, 'contestants'>, rounds: number): Promise<Record<string, Times>> {
  const entries = Object.entries(contestants);
  const times = entries.map(() => ({ warm: [] as number[], cold: [] as number[] }));
  for (let round = -1; round < rounds; round++) {
    for (const [i, [, contestant]] of entries.entries()) {
      const { warm, cold } = await time(contestant);
      if (round === -1) continue;
      times[i]!.warm.push(warm);
      times[i]!.cold.push(cold);
    }
  }
  return Object.fromEntries(entries.map(([name], i) => [name, times[i]!]));
}

/** Cold: the run that follows a full collection. Warm: after a second of it, the median of what half a second more holds, nine runs at most. */
async function time(contestant: Contestant): Promise<{ readonly warm: number; readonly cold: number }> {
  collectGarbage();
  const cold = await cpuMsOf(contestant);
  for (const before = process.cpuUsage(); cpuMsSince(before) < WARM_UP_MS; ) await contestant();
  const warm: number[] = [];
  for (const before = process.cpuUsage(); warm.length === 0 || (warm.length < MOST_WARM_RUNS && cpuMsSince(before) < WARM_MS); )
    warm.push(await cpuMsOf(contestant));
  return { warm: median(warm), cold };
}

async function cpuMsOf(contestant: Contestant): Promise<number> {
  const before = process.cpuUsage();
  await contestant();
  return cpuMsSince(before);
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Median over the rounds of the ratio within a round. */
export function ratio(own: readonly number[], others: readonly number[]): number {
  return median(own.map((ms, round) => ms / others[round]!));
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
