import { SharedLimiter } from '../world/limits.js';
import { Supply } from '../world/pipe.js';
import { SUBJECTS } from '../world/subjects.js';
import { ACTS, type Act, type Choose, type Trap, World } from '../world/world.js';
import { type Scenario, scenarios } from './scenarios.js';

/** One cell: a scenario, and an act at one of its callbacks. */
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

export const SCENARIOS = scenarios();

export function nameOf({ scenario, trap }: Cell): string {
  const { name } = SCENARIOS[scenario]!;
  return trap ? `${name}: ${trap.act} at ${trap.place} (${trap.nth === 'every' ? 'every time' : `time ${trap.nth + 1}`})` : name;
}

/** Runs a cell: five items, two of them late, then the end. */
export async function runCell(cell: Cell, log?: string[]): Promise<CellReport> {
  const scenario = SCENARIOS[cell.scenario]!;
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

/** Every act at every place that the scenario comes by by itself. */
export function cellsBehind(scenario: number, { places, acts }: CellReport): Cell[] {
  const cells: Cell[] = [];
  for (const [place, times] of places) {
    const when: Trap['nth'][] = times > 2 ? [0, 1, 'every'] : times > 1 ? [0, 1] : [0];
    for (const nth of when) for (const act of acts) cells.push({ scenario, trap: { place, nth, act } });
  }
  return cells;
}

/** So many of a list, or all of it; whatever comes back in the list at equal distances (an option, an act) is met in all its forms. */
export function spread<T>(all: readonly T[], most: number): T[] {
  if (all.length <= most) return [...all];
  return Array.from({ length: most }, (_, i) => all[Math.floor((((i + 0.5) * GOLDEN) % 1) * all.length)]!);
}

const GOLDEN = (Math.sqrt(5) - 1) / 2;
