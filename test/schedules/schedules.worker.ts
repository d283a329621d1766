import { parentPort, workerData } from 'node:worker_threads';
import type { Subject } from '../world/subjects.js';
import { beat, type Given } from '../world/watched.js';
import { watchHost } from '../world/world.js';
import { drawPlan } from './plan.js';
import { explain, runPlan } from './run.js';

export interface SchedulesTask {
  readonly first: number;
  readonly count: number;
  /** Only these operators. */
  readonly only?: readonly Subject[];
  /** Ends after so many seeds that failed. */
  readonly mostFailures: number;
  /** Says what was wrong and no more. */
  readonly isQuiet?: boolean;
}

export type Told =
  | { readonly kind: 'bad'; readonly seed: number; readonly problems: readonly string[]; readonly explained: string }
  | { readonly kind: 'done'; readonly schedules: number };

const given = workerData as Given<SchedulesTask>;

async function main(): Promise<void> {
  watchHost();
  const { first, count, only, mostFailures, isQuiet } = given.task;
  let failures = 0;
  const seen = new Set<string>();
  let step = given.from;
  for (; step < count && failures < mostFailures; step++) {
    const seed = first + step;
    beat(given, step, `seed ${seed}`);
    const plan = drawPlan(seed, only);
    const problems = await runPlan(plan);
    if (problems.length === 0) continue;
    failures++;
    // One of a kind is explained.
    const isNew = isQuiet !== true && problems.some((problem) => !seen.has(problem));
    for (const problem of problems) seen.add(problem);
    tell({ kind: 'bad', seed, problems, explained: isNew ? await explain(plan) : '' });
  }
  tell({ kind: 'done', schedules: step });
}

function tell(told: Told): void {
  parentPort?.postMessage(told);
}

void main();
