import { join } from 'node:path';
import { KNOWN } from '../listeners/known.js';
import { bundle, type Planted } from '../world/bundle.js';
import { NAMES, type Subject } from '../world/subjects.js';
import { runWatched } from '../world/watched.js';
import type { SchedulesTask, Told } from './schedules.worker.js';

export interface Outcome {
  readonly schedules: number;
  /** A report for each seed that failed. */
  readonly failures: readonly string[];
  /** What was wrong, in all of them. */
  readonly problems: ReadonlySet<string>;
}

/** Simulates so many seeds, up to the first few that fail. */
export async function simulate(
  task: Omit<SchedulesTask, 'only'> & { readonly only?: readonly Subject[] },
  planted?: Planted,
): Promise<Outcome> {
  const code = await bundle(join(import.meta.dirname, 'schedules.worker.ts'), planted);
  const failures: string[] = [];
  const problems = new Set<string>();
  let schedules = 0;
  await runWatched(
    code,
    { only: NAMES.filter((name) => !(name in KNOWN)), ...task },
    {
      heard: (told: Told) => {
        if (told.kind === 'done') schedules = told.schedules;
        else {
          failures.push(told.explained);
          for (const problem of told.problems) problems.add(problem);
        }
      },
      hangs: (seed) => {
        failures.push(`${seed} never ends`);
        problems.add('never ends');
      },
    },
  );
  return { schedules, failures, problems };
}
