import { parentPort, workerData } from 'node:worker_threads';
import { beat, type Given } from '../world/watched.js';
import { watchHost } from '../world/world.js';
import { type Cell, cellsOf, nameOf, runCell, scenarioCount } from './matrix.js';

/** Which cells to go through. */
export interface MatrixTask {
  /** Scenarios whose name begins like this. */
  readonly only: string;
  /** No more than so many cells, taken evenly from all. */
  readonly most: number;
}

export type Heard =
  | { readonly kind: 'bad'; readonly name: string; readonly problems: readonly string[] }
  | { readonly kind: 'done'; readonly cells: number; readonly of: number; readonly events: readonly string[] };

const given = workerData as Given<MatrixTask>;

async function main(): Promise<void> {
  watchHost();
  const { only, most } = given.task;
  const all: Cell[] = [];
  const events = new Set<string>();
  const seen = (place: string): void => {
    if (place.startsWith('event:')) events.add(place.slice('event:'.length));
  };
  for (let scenario = 0; scenario < scenarioCount(); scenario++) {
    const name = nameOf({ scenario, trap: undefined });
    if (!name.startsWith(only)) continue;
    beat(given, scenario - 100_000, name);
    all.push(...(await cellsOf(scenario, seen)));
  }
  const every = Math.max(1, all.length / most);
  const cells = Math.min(all.length, most);
  for (let step = given.from; step < cells; step++) {
    const cell = all[Math.floor(step * every)]!;
    beat(given, step, nameOf(cell));
    const { name, problems, places } = await runCell(cell);
    for (const place of places.keys()) seen(place);
    if (problems.length > 0) say({ kind: 'bad', name, problems });
  }
  say({ kind: 'done', cells, of: all.length, events: [...events] });
}

function say(heard: Heard): void {
  parentPort?.postMessage(heard);
}

void main();
