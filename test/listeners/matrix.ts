import { SharedLimiter } from '../world/limits.js';
import { Supply } from '../world/pipe.js';
import { SUBJECTS } from '../world/subjects.js';
import { ACTS, type Act, type Choose, type Trap, World } from '../world/world.js';
import { type Scenario, scenarios } from './scenarios.js';

/** One cell: a scenario in which somebody does something at a place. */
export interface Cell {
  readonly scenario: number;
  readonly trap: Trap | undefined;
}

export interface CellReport {
  readonly name: string;
  readonly problems: readonly string[];
  readonly places: ReadonlyMap<string, number>;
  readonly sprung: number;
  /** What can be done to the operator. */
  readonly acts: readonly Act[];
}

const ALL = scenarios();

export function scenarioCount(): number {
  return ALL.length;
}

export function nameOf({ scenario, trap }: Cell): string {
  const { name } = ALL[scenario]!;
  return trap ? `${name}: ${trap.act} at ${trap.place} (${trap.nth === 'every' ? 'every time' : `time ${trap.nth + 1}`})` : name;
}

/** Runs a cell: five items, two of them late, then the end. */
export async function runCell(cell: Cell, log?: string[]): Promise<CellReport> {
  const scenario = ALL[cell.scenario]!;
  const world = new World(chooser(scenario), cell.trap ? [cell.trap] : []);
  world.log = log;
  let index = 0;
  world.try(() => {
    const limiter = scenario.limiter ? new SharedLimiter(world) : undefined;
    const supply = new Supply(world);
    const script = (no: number) => scenario.work[Math.min(no, scenario.work.length - 1)]!;
    SUBJECTS[scenario.subject](world, supply, script, limiter);
    index = limiter ? 1 : 0;
  });
  const send = (times: number): void => {
    for (let i = 0; i < times; i++)
      world.try(() => {
        world.act(index, 'send');
      });
  };
  send(3);
  await world.pass(2);
  send(1);
  await world.pass(7);
  send(1);
  if (scenario.options['fails'] === true)
    world.try(() => {
      world.act(index, 'fail');
    });
  await world.pass(9);
  for (const act of ['limits', 'flush'] as const)
    world.try(() => {
      world.act(index, act);
    });
  await world.pass(12);
  await world.finish();
  return {
    name: nameOf(cell),
    problems: world.problems,
    places: world.places,
    sprung: world.sprung,
    acts: ACTS.filter((act) => act === 'throw' || world.actors[index]?.acts[act] !== undefined),
  };
}

/** The option that a scenario names, else the usual one. */
function chooser({ options }: Scenario): Choose {
  return (name, usual) => {
    if (name in options) return options[name] as typeof usual;
    const [family] = name.split(/ \d+$/);
    if (family !== undefined && family in options) return options[family] as typeof usual;
    return usual;
  };
}

/** All cells of a scenario: every act at every place that it comes by by itself. */
export async function cellsOf(scenario: number, seen: (place: string) => void): Promise<Cell[]> {
  const { places, acts } = await runCell({ scenario, trap: undefined });
  for (const place of places.keys()) seen(place);
  const cells: Cell[] = [{ scenario, trap: undefined }];
  for (const [place, times] of places) {
    const when: Trap['nth'][] = times > 2 ? [0, 1, 'every'] : times > 1 ? [0, 1] : [0];
    for (const nth of when) for (const act of acts) cells.push({ scenario, trap: { place, nth, act } });
  }
  return cells;
}
