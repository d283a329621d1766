import { parentPort, workerData } from 'node:worker_threads';
import type { Subject } from '../world/subjects.js';
import { beat, type Given } from '../world/watched.js';
import { watchHost } from '../world/world.js';
import { type Cell, type CellReport, cellsBehind, nameOf, runCell, SCENARIOS, spread } from './matrix.js';

/** Which cells to go through. */
export interface MatrixTask {
  readonly subjects: readonly Subject[];
  /** Scenarios whose name begins like this. */
  readonly only: string;
  /** Of each subject no more than so many scenarios, and no more than so many cells in all of them. */
  readonly mostScenarios: number;
  readonly mostCells: number;
}

export type Heard =
  | { readonly kind: 'bad'; readonly subject: Subject; readonly name: string; readonly problems: readonly string[] }
  | { readonly kind: 'done'; readonly subject: Subject; readonly cells: number; readonly events: readonly string[] };

/** No scenario has more cells. Its number and that of a cell make the number of a step; cells are counted from 2. */
const STEPS = 10_000;

const given = workerData as Given<MatrixTask>;

async function main(): Promise<void> {
  watchHost();
  for (const subject of given.task.subjects) await goThrough(subject);
}

async function goThrough(subject: Subject): Promise<void> {
  const { only, mostScenarios, mostCells } = given.task;
  const named = SCENARIOS.flatMap(({ subject: own, name }, scenario) => (own === subject && name.startsWith(only) ? [scenario] : []));
  // In their order: a worker that takes over from another begins in the middle.
  const chosen = spread(named, mostScenarios).toSorted((a, b) => a - b);
  const events = new Set<string>();
  let cells = 0;

  for (const scenario of chosen) {
    const begun = scenario * STEPS;
    // A scenario that never ended without any act is done. A worker that begins in the middle of one needs its places again.
    if (given.from >= begun + STEPS || given.from === begun + 1) continue;
    const plain = await run({ scenario, trap: undefined }, begun);
    const some = spread(cellsBehind(scenario, plain), Math.ceil(mostCells / chosen.length));
    for (const [i, cell] of some.entries()) if (begun + 2 + i >= given.from) await run(cell, begun + 2 + i);
  }
  say({ kind: 'done', subject, cells, events: [...events] });

  async function run(cell: Cell, step: number): Promise<CellReport> {
    beat(given, step, nameOf(cell));
    const report = await runCell(cell);
    cells++;
    for (const place of report.places.keys()) if (place.startsWith('event:')) events.add(place.slice('event:'.length));
    const { name, problems } = report;
    if (problems.length > 0) say({ kind: 'bad', subject, name, problems });
    return report;
  }
}

function say(heard: Heard): void {
  parentPort?.postMessage(heard);
}

void main();
