import { check, checked, nonEmpty, optional } from '../operators/options/options.js';
import { seededRandom } from './random.js';
import type { StoreLaw } from './store-laws/law.js';
import { storeLaws } from './store-laws/rules.js';
import type { Schedule } from './store-laws/schedules.js';
import { play, shortest } from './store-laws/schedules.js';
import type { StoreUnderTest } from './store-laws/trial.js';
import { Trial } from './store-laws/trial.js';

export type { StoreUnderTest } from './store-laws/trial.js';

/**
 * How a store is tested.
 * @beta
 */
export interface StoreLawOptions {
  /** What errors call the store. @defaultValue 'the store' */
  readonly name?: string;
  /** Any whole number. The same seed draws the same schedules. @defaultValue 1 */
  readonly seed?: number;
  /** Schedules of each law that draws them, ≥ 1. @defaultValue 20 */
  readonly schedules?: number;
  /** Length of the windows in ms, 100 to 60,000: shorter ones take less real time. @defaultValue 1000 */
  readonly windowMs?: number;
  /** Titles of the laws that are tested, to repeat one that was broken. @defaultValue all */
  readonly only?: readonly string[];
}

/**
 * Holds a store of credit, yours or ours, against every law that limiters rely on. It asks, corrects, holds and waits by schedules that it draws, and counts what is
 * granted as a provider would: from each grant to the end of its guard. Use it in the tests of a `CreditStore` of your own.
 *
 * A store in virtual time has `advance`; without it, real time passes, about 40 windows for each schedule.
 *
 * @beta
 * @param make - Makes a new store without any state, for each schedule.
 * @returns the titles of the laws that the store was held against.
 * @throws FlowConfigError for an option that is unknown or out of range.
 * @throws LawBrokenError for the law that it breaks, with the step, the seed and the schedule, or an AggregateError of several.
 * @example
 * ```ts
 * import { VirtualTimeScheduler } from 'rxjs';
 * import { creditStoreLaws } from 'sluice/marbles';
 * import { memoryStore } from 'sluice/operators';
 *
 * const make = () => {
 *   const scheduler = new VirtualTimeScheduler();
 *   const store = memoryStore({ scheduler });
 *   return {
 *     store,
 *     advance: (ms: number) => {
 *       scheduler.frame += ms;
 *     },
 *     restart: () => memoryStore({ scheduler, restore: store.save() }),
 *   };
 * };
 * (await creditStoreLaws(make, { schedules: 2 })).includes('gives no window of any limit more than its amount'); // => true
 *
 * // A store that grants during a hold:
 * const rude = () => {
 *   const tested = make();
 *   return { ...tested, store: { ...tested.store, hold: () => undefined } };
 * };
 * const problem = await creditStoreLaws(rude, { only: ['grants nothing during a hold, and keeps the longest'] }).catch(String);
 * String(problem).includes('credit is granted during a hold'); // => true
 * ```
 */
export async function creditStoreLaws(
  make: () => StoreUnderTest | PromiseLike<StoreUnderTest>,
  options: StoreLawOptions = {},
): Promise<readonly string[]> {
  const { name, only, schedules, seed, windowMs } = checked('creditStoreLaws', options, DEFAULTS, CHECKS);
  const laws = storeLaws.filter(({ title }) => only === undefined || only.includes(title));
  const run = { name, make, windowMs };
  const broken: unknown[] = [];
  const held: string[] = [];
  for (const law of laws) {
    let applies = false;
    for (let i = 0; i < (law.isOnce ? 1 : schedules); i++) {
      const outcome = await runLaw(law, run, seed + i);
      if (outcome === 'has nothing to say') break;
      applies = true;
      if (outcome === 'kept') continue;
      broken.push(outcome.error);
      break;
    }
    if (applies) held.push(law.title);
  }
  if (broken.length > 1) throw new AggregateError(broken, broken.map((error) => (error as Error).message).join('\n\n'));
  if (broken.length === 1) throw broken[0];
  return held;
}

const TITLES = storeLaws.map(({ title }) => title);
const DEFAULTS = { name: 'the store', seed: 1, schedules: 20, windowMs: 1000 };
const CHECKS = {
  name: nonEmpty,
  seed: check<number>('a whole number', (value) => Number.isSafeInteger(value)),
  schedules: check<number>('a whole number >= 1', (value) => Number.isSafeInteger(value) && (value as number) >= 1),
  windowMs: check<number>('a number of ms from 100 to 60000', (value) => typeof value === 'number' && value >= 100 && value <= 60_000),
  only: optional(
    check<readonly string[]>('titles of laws, at least one', (value: unknown) => {
      return Array.isArray(value) && value.length > 0 && value.every((title) => TITLES.includes(title as string));
    }),
  ),
};

interface Run {
  readonly name: string;
  readonly make: () => StoreUnderTest | PromiseLike<StoreUnderTest>;
  readonly windowMs: number;
}

type Outcome = 'kept' | 'has nothing to say' | { readonly error: unknown };

/** One schedule of one law, against a new store. */
async function runLaw(law: StoreLaw, run: Run, seed: number): Promise<Outcome> {
  let drawn: Schedule | undefined;
  const outcome = await withStore(law, run, seed, async (trial) => {
    if (law.appliesTo?.(trial) === false) return 'has nothing to say';
    drawn = law.draw?.(trial);
    if (drawn) await play(trial, drawn);
    else await law.check?.(trial);
    return 'kept';
  });
  if (typeof outcome === 'string' || !drawn || !outcome.isVirtual) return outcome;
  const fails = async (schedule: Schedule): Promise<unknown> => {
    const again = await withStore(law, run, seed, async (trial) => {
      await play(trial, schedule);
      return 'kept';
    });
    return typeof again === 'string' ? undefined : again.error;
  };
  return { error: await shortest(drawn, fails, outcome.error) };
}

async function withStore(
  { title }: StoreLaw,
  { make, name, windowMs }: Run,
  seed: number,
  check: (trial: Trial) => Promise<Outcome>,
): Promise<Exclude<Outcome, object> | { readonly error: unknown; readonly isVirtual: boolean }> {
  const tested = await make();
  const trial = new Trial({ name, law: title, seed }, tested, windowMs, windowMs / 10, seededRandom(seed));
  try {
    return (await check(trial)) as Exclude<Outcome, object>;
  } catch (error) {
    return { error, isVirtual: trial.isVirtual };
  } finally {
    await tested.close?.();
  }
}
