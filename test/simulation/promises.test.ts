import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sized } from '../support/deep.js';
import { mutate } from './mutate.js';
import { EVENTS, PromiseWorld, STEP_MS } from './promise-world.js';
import { OPERATORS } from './run-seeds.js';
import type { Operators } from './world.js';

const { SLUICE_SEED } = process.env;
const SEEDS = SLUICE_SEED === undefined ? seedsTo(sized(100, 400)) : [Number(SLUICE_SEED)];
/** Schedules that run side by side in one fake time. */
const TOGETHER = 20;
/** Longer than any schedule takes, work that was given up included. */
const LONGEST_MS = 12_000;

describe('promises as work', () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => {
    unhandled.push(error);
  };

  beforeEach(() => {
    process.on('unhandledRejection', note);
  });

  afterEach(() => {
    vi.useRealTimers();
    process.off('unhandledRejection', note);
  });

  it('settles each item once and keeps a slot until the promise settles or its grace has passed', { timeout: 300_000 }, async () => {
    const worlds: PromiseWorld[] = [];
    for (let i = 0; i < SEEDS.length; i += TOGETHER) worlds.push(...(await run(SEEDS.slice(i, i + TOGETHER), OPERATORS)));
    // A turn of the real event loop: only then are rejections known that nobody handles.
    await new Promise((resolve) => setImmediate(resolve));
    const problems = worlds.flatMap((world) => world.problems);
    expect(problems.slice(0, 10), 'to see one alone: SLUICE_SEED=<seed> npx vitest run test/simulation/promises.test.ts').toEqual([]);
    expect(unhandled).toEqual([]);
    if (SLUICE_SEED !== undefined) return;
    const rare = EVENTS.filter((event) => worlds.filter((world) => world.events.has(event)).length < worlds.length / 5);
    expect(rare, 'events seen in less than a fifth of the schedules').toEqual([]);
  });

  it.each([
    {
      name: 'a slot freed before the promise has settled',
      file: 'support/batching/batch-calls.ts',
      from: 'lease.releaseAfter(running.settled, error);',
      to: "lease.release('cancelled');",
      says: /slots, \d are held/,
    },
    {
      name: 'a slot kept after its grace',
      file: 'support/limiting/limiter-pump.ts',
      from: 'this.#clock.read() + this.#config.abortGraceMs',
      to: 'this.#clock.read() + this.#config.abortGraceMs + 500',
      says: /slots, \d are held/,
    },
    {
      name: 'a slot kept for its whole grace',
      file: 'support/limiting/limiter-lease.ts',
      from: 'work.then(() => {\n',
      to: 'Promise.race<void>([]).then(() => {\n',
      says: /slots, \d are held/,
    },
  ])('finds $name', async ({ says, ...mutation }) => {
    const worlds = await run(seedsTo(TOGETHER), await mutate(mutation));
    expect(worlds.flatMap((world) => world.problems).join('\n')).toMatch(says);
  });
});

function seedsTo(last: number): number[] {
  return Array.from({ length: last }, (_, i) => i + 1);
}

async function run(seeds: readonly number[], operators: Operators): Promise<PromiseWorld[]> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'], now: 0 });
  const worlds = seeds.map((seed) => new PromiseWorld(seed, operators));
  for (const world of worlds) world.start();
  while (vi.getTimerCount() > 0 && Date.now() < LONGEST_MS) {
    await vi.advanceTimersByTimeAsync(STEP_MS);
    for (const world of worlds) world.check();
  }
  for (const world of worlds) world.finish();
  if (vi.getTimerCount() > 0) worlds[0]?.problems.push(`timers left by one of the seeds ${seeds.join(' ')}`);
  vi.useRealTimers();
  return worlds;
}
