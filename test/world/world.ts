import { UnsubscriptionError } from 'rxjs';
import { Clock } from './clock.js';

/** What a callback may do. */
export const ACTS = ['send', 'leave', 'drain', 'close', 'flush', 'limits', 'pause', 'abort', 'complete', 'fail', 'throw'] as const;
export type Act = (typeof ACTS)[number];

/** Does something when a place is come by: at the first time, the second, or up to five times in a row. */
export interface Trap {
  readonly place: string;
  readonly nth: number | 'every';
  readonly act: Act;
  /** Who does it: the actor whose place it is, unless given. */
  readonly actor?: number;
}

/** An operator or a handle under test, with all that may be done to it. */
export interface Actor {
  readonly name: string;
  readonly acts: Partial<Record<Act, () => void>>;
  /** Ends after all others, who have permits of it. */
  readonly isLast?: boolean;
  /** Calls of its work that go on. */
  readonly open: number;
  /** Looks at what has to hold at any moment, also inside a callback. */
  check(): void;
  /** Looks at what has to hold when no callback is running. */
  rest(): void;
  /** Asks it to come to its end. */
  end(): void;
  /** Leaves or closes what did not end. That is a fault, unless work goes on that never answers. */
  giveUp(isStuck: boolean): void;
  /** Looks at what is left when everything is over. */
  finish(): void;
}

/** Thrown on purpose, by callbacks of the test. */
export class Planned extends Error {
  override readonly name = 'Planned';
}

export function isPlanned(error: unknown): boolean {
  if (error instanceof Planned) return true;
  if (error instanceof UnsubscriptionError) return error.errors.every(isPlanned);
  return false;
}

/** How options and answers are chosen: by a seed, or as a table says. */
export type Choose = <const V>(name: string, usual: V, ...others: V[]) => V;

/** More callbacks than a small schedule can need. */
const MOST_PLACES = 4000;
const MOST_INSTANTS = 3000;
const EVERY = 5;

/** Uncaught errors, reported by the process or by RxJS, and checked after every turn. */
export const unhandled: unknown[] = [];

/** One schedule: the clock, who takes part, and what was wrong. */
export class World {
  readonly clock = new Clock();
  readonly actors: Actor[] = [];
  readonly problems: string[] = [];
  /** How often each place was come by. */
  readonly places = new Map<string, number>();
  /** What was done, by steps and by traps. */
  sprung = 0;
  /** Traps that went off. */
  trapped = 0;
  #inside = 0;
  /** One line for everything that happens, when a reader wants it. */
  log: string[] | undefined;
  readonly #traps: readonly Trap[];
  #instants = 0;

  constructor(
    readonly choose: Choose,
    traps: readonly Trap[] = [],
  ) {
    this.#traps = traps;
  }

  say(what: string): void {
    this.log?.push(`${String(this.clock.passed).padStart(6)} ms  ${what}`);
  }

  problem(what: string): void {
    this.say(`* ${what}`);
    if (this.problems.length < 20 && !this.problems.includes(what)) this.problems.push(what);
  }

  /** A callback of the test's is called: the traps that stand here go off. */
  at(place: string, actor: number): void {
    const n = this.places.get(place) ?? 0;
    this.places.set(place, n + 1);
    if (this.log) this.say(`${this.actors[actor]?.name ?? '?'}: ${place}`);
    if (n > MOST_PLACES || this.clock.ranAway) {
      this.problem(`never ends: ${place}`);
      this.clock.runAway(place);
    }
    this.check();
    for (const trap of this.#traps) {
      if (trap.place !== place || (trap.nth === 'every' ? n >= EVERY : trap.nth !== n)) continue;
      this.trapped++;
      this.#inside++;
      try {
        this.act(trap.actor ?? actor, trap.act, place);
      } finally {
        this.#inside--;
      }
    }
  }

  /** Whether a callback of the test's is on the stack. */
  get isInside(): boolean {
    return this.#inside > 0;
  }

  act(actor: number, act: Act, place = 'step'): void {
    if (act === 'throw') {
      this.sprung++;
      throw new Planned(place);
    }
    const run = this.actors[actor]?.acts[act];
    if (run === undefined) return;
    this.sprung++;
    this.say(`${this.actors[actor]?.name ?? '?'} <- ${act}`);
    try {
      run();
    } catch (error) {
      // A teardown that throws throws at the caller of `unsubscribe`, as in RxJS.
      if (!isPlanned(error)) throw error;
    }
    this.check();
  }

  get open(): number {
    return this.actors.reduce((open, actor) => open + actor.open, 0);
  }

  check(): void {
    for (const actor of this.actors) actor.check();
  }

  /** Lets all happen that is due until then. */
  async pass(until: number): Promise<void> {
    await this.turn();
    while (!this.clock.ranAway && this.#step(until)) {
      await this.turn();
      if (++this.#instants > MOST_INSTANTS) {
        this.problem('never comes to rest');
        return;
      }
    }
    if (until !== Infinity) this.clock.passed = Math.max(this.clock.passed, until);
  }

  #step(until: number): boolean {
    try {
      return this.clock.step(until);
    } catch (error) {
      // As a host timer would: reported, and the others go on.
      unhandled.push(error);
      return true;
    }
  }

  /** Lets promises have their turn, and looks at what holds between two instants. */
  async turn(): Promise<void> {
    await turn();
    for (const error of takeUnhandled()) if (!isPlanned(error)) this.problem(`unhandled: ${String(error)}`);
    for (const actor of this.actors) {
      actor.check();
      actor.rest();
    }
  }

  /** What has to be looked at when all is over. */
  readonly atEnd: (() => void)[] = [];

  /** Lets everything come to its end, and looks at what is left. */
  async finish(): Promise<void> {
    for (const isLast of [false, true]) {
      const actors = this.actors.filter((actor) => (actor.isLast ?? false) === isLast);
      if (actors.length === 0) continue;
      for (const actor of actors)
        this.try(() => {
          actor.end();
        });
      await this.pass(Infinity);
      const isStuck = this.open === 0;
      for (const actor of actors)
        this.try(() => {
          actor.giveUp(isStuck);
        });
      await this.pass(Infinity);
    }
    for (const actor of this.actors) actor.finish();
    for (const check of this.atEnd) check();
    if (this.clock.ranAway) this.problem('ran away');
  }

  /** What is thrown at us goes where a host would report it. */
  try(what: () => void): void {
    try {
      what();
    } catch (error) {
      unhandled.push(error);
    }
  }
}

/** Options that are changed when they were given change nothing. */
export function scramble(options: object): void {
  for (const name of Object.keys(options)) (options as Record<string, unknown>)[name] = `changed ${name}`;
}

const { setImmediate } = globalThis;

/** Every promise that can go on has gone on afterwards. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const reports: (() => void)[] = [];

function takeUnhandled(): unknown[] {
  for (const report of reports.splice(0)) {
    try {
      report();
    } catch (error) {
      unhandled.push(error);
    }
  }
  return unhandled.splice(0);
}

/**
 * From here on nothing of this process has real time: what RxJS reports, by a timer of the host, is looked at after the turn, and any other
 * timer of the host is a fault.
 */
export function watchHost(): void {
  Error.stackTraceLimit = 0;
  const later = (report: () => void, ms?: number): number => {
    if (ms === undefined || ms === 0) reports.push(report);
    else unhandled.push(new Error(`a timer of the host over ${ms} ms`));
    return 0;
  };
  Object.assign(globalThis, { setTimeout: later, setInterval: later });
  process.on('unhandledRejection', (error) => unhandled.push(error));
  process.on('uncaughtException', (error) => unhandled.push(error));
}
