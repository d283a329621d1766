import { execFile } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build, transform } from 'esbuild';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { copiedCode } from '../../examples/playground/engine/code.js';
import type { Preset } from '../../examples/playground/engine/preset.js';
import { loadPreset } from '../../examples/playground/engine/preset.js';
import type { NumberName, PresetName, State } from '../../examples/playground/engine/scenario.js';
import { FAIRNESS, FIELDS, fromHash, PRESETS, presetOf, toHash } from '../../examples/playground/engine/scenario.js';
import type { Counts, Scenario } from '../../examples/playground/engine/setting.js';
import type { Side } from '../../examples/playground/engine/sides.js';
import { SIDES } from '../../examples/playground/engine/sides.js';
import { createWorld } from '../../examples/playground/engine/world.js';
import { sized } from '../support/deep.js';
import { ownSource } from '../support/doctest.js';

const ROOT = resolve(import.meta.dirname, '../..');
const NAMES = Object.keys(PRESETS) as PresetName[];
const SEEDS = [1, 7, 23, 4711, 99_999].slice(0, sized(1, 5));
const presets = {} as Record<PresetName, Preset>;
beforeAll(async () => {
  for (const name of NAMES) presets[name] = await loadPreset[name]();
});

interface Seen {
  readonly counts: Record<Side, Counts>;
  readonly events: readonly string[];
}

/** A run to its end, driven as told. */
function ran({ pipeline }: Preset, scenario: Scenario, drive: (world: ReturnType<typeof createWorld>) => void): Seen {
  const events: string[] = [];
  const world = createWorld(scenario, pipeline, (side, event) => events.push(`${side} ${JSON.stringify(event)}`));
  drive(world);
  expect(world.isOver).toBe(true);
  const counts = { plain: world.boards.plain.counts, sluice: world.boards.sluice.counts };
  for (const side of SIDES) expect(world.boards[side].failure).toBeUndefined();
  world.close();
  return { counts, events };
}

const finished = (preset: Preset, scenario: Scenario): Record<Side, Counts> =>
  ran(preset, scenario, (world) => {
    world.finish();
  }).counts;

/** Any state that the page can be set to, in runs of a few seconds. */
const anyState: fc.Arbitrary<State> = fc.constantFrom(...NAMES).chain((preset) =>
  fc
    .record({
      ...(Object.fromEntries(
        Object.entries(FIELDS).map(([name, { min, max, step }]) => {
          const most = name === 'seconds' ? 3 : name.length === 2 ? 40 : max;
          return [name, fc.integer({ min: 0, max: Math.floor((most - min) / step) }).map((i) => Math.round((min + i * step) * 100) / 100)];
        }),
      ) as Record<NumberName, fc.Arbitrary<number>>),
      fairness: fc.constantFrom(...(Object.keys(FAIRNESS) as Scenario['fairness'][])),
    })
    .chain((scenario) =>
      fc.record({ preset: fc.constant(preset), scenario: fc.constant(scenario as Scenario), speed: fc.constantFrom(0.5, 1, 4) }),
    ),
);

describe('the engine of the playground', () => {
  it.each(NAMES)('%s: the same seed tells the same events, however time is cut', (name) => {
    const preset = presets[name];
    const scenario = { ...preset.scenario, seconds: 3 };
    const whole = ran(preset, scenario, (world) => {
      world.finish();
    });
    const stepped = ran(preset, scenario, (world) => {
      for (let steps = 0; !world.isOver; steps++) {
        expect(steps).toBeLessThan(20_000);
        world.step();
      }
    });
    const framed = ran(preset, scenario, (world) => {
      for (let frame = 0; !world.isOver; frame++) world.advance(1 + (frame % 37) * 1.3);
    });
    expect(whole.events.length).toBeGreaterThan(10);
    // An operator without a name has a number of its own in every run.
    const named = ({ events }: Seen): string[] => events.map((line) => line.replace(/"instance":"\d+"/, ''));
    expect(named(stepped)).toEqual(named(whole));
    expect(named(framed)).toEqual(named(whole));
    expect(stepped.counts).toEqual(whole.counts);
    const other = finished(preset, { ...scenario, seed: scenario.seed + 1 });
    expect(other).not.toEqual(whole.counts);
  });

  it.each(NAMES)(
    '%s: the numbers differ in the direction told, whatever the seed',
    (name) => {
      const preset = presets[name];
      for (const seed of SEEDS) {
        const { plain, sluice } = finished(preset, { ...preset.scenario, seed });
        for (const number of preset.tells) expect(sluice[number], `${number} with seed ${seed}`).toBeLessThan(plain[number]);
        expect(sluice.accepted).toBe(plain.accepted);
        expect(sluice.lost).toBe(0);
        expect(sluice.accepted).toBe(sluice.answered + sluice.refused + sluice.left);
      }
    },
    30_000,
  );

  it('loses nothing on our board, and accounts for everything on both, in any state', () => {
    fc.assert(
      fc.property(anyState, ({ preset, scenario }) => {
        const counts = finished(presets[preset], scenario);
        for (const { accepted, answered, refused, left, lost, open } of Object.values(counts)) {
          expect(accepted).toBe(answered + refused + left + lost + open);
        }
        expect(counts.sluice.lost).toBe(0);
      }),
      { numRuns: sized(4, 200) },
    );
  }, 30_000);
});

describe('an address', () => {
  it('says all of a state', () => {
    fc.assert(
      fc.property(anyState, fc.option(fc.nat(600_000), { nil: undefined }), (given, atMs) => {
        const state = { ...given, ...(atMs !== undefined && { atMs }) };
        const hash = toHash(state, presets[state.preset].scenario);
        expect(presetOf(hash)).toEqual({ preset: state.preset, problems: [] });
        expect(fromHash(hash, presets[state.preset].scenario)).toEqual({ state, problems: [] });
      }),
    );
  });

  it('that cannot be says what is wrong, and the rest of it counts', () => {
    const own = presets['smart-batcher'].scenario;
    expect(fromHash('#preset=nonsense&p0=12&seed=1.5&maxSize=&fairness=best&wat=1&speed=1e9', own)).toEqual({
      state: { preset: 'smart-batcher', scenario: { ...own, p0: 12 }, speed: 1 },
      problems: [
        'there is no preset “nonsense”',
        'seed is a whole number from 1 to 999999, not “1.5”',
        'maxSize is a whole number from 1 to 100 items, not “”',
        'fairness is one of strict, weighted, roundRobin, not “best”',
        'wat is nothing that can be set',
        'speed is a number from 0.05 to 20 ×, not “1000000000”',
      ].map((line) => line.replace('1000000000', '1e9')),
    });
    for (const hash of ['', '#', '#%%%', '#__proto__=1&constructor=2', '#preset=__proto__']) {
      const { state } = fromHash(hash, own);
      expect(state).toEqual({ preset: 'smart-batcher', scenario: own, speed: 1 });
    }
  });
});

describe('copied code', () => {
  const folder = join(ROOT, 'node_modules/.cache', `playground-${String(process.pid)}`);
  let made = 0;
  beforeAll(async () => {
    await mkdir(folder, { recursive: true });
    await build({
      entryPoints: { sluice: 'src/index.ts', operators: 'operators/index.ts', marbles: 'marbles/index.ts' },
      absWorkingDir: ROOT,
      outdir: folder,
      outExtension: { '.js': '.mjs' },
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      packages: 'external',
      target: 'node20',
      alias: { '#async-context': join(ROOT, 'src/async-context.ts') },
    });
  }, 30_000);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** What the code prints when Node runs it. */
  async function printed(code: string): Promise<unknown> {
    const { code: script } = await transform(code, { loader: 'ts' });
    const file = join(folder, `run-${String(++made)}.mjs`);
    await writeFile(
      file,
      script.replaceAll(/from "sluice(?:\/(\w+))?"/g, (_all, entry: string | undefined) => `from "./${entry ?? 'sluice'}.mjs"`),
    );
    const log = vi.spyOn(console, 'log').mockReturnValue();
    try {
      await import(/* @vite-ignore */ pathToFileURL(file).href);
      return JSON.parse(String(log.mock.calls[0]?.[0]));
    } finally {
      log.mockRestore();
    }
  }

  it.each(NAMES)('%s: prints the counts of the page', async (name) => {
    const preset = presets[name];
    const code = await copiedCode(PRESETS[name], preset.scenario, preset.pipeline);
    expect(await printed(code)).toEqual(finished(preset, preset.scenario).sluice);
  });

  it('prints the counts of the page, in any state', async () => {
    await fc.assert(
      fc.asyncProperty(anyState, async ({ preset, scenario }) => {
        const code = await copiedCode(PRESETS[preset], scenario, presets[preset].pipeline);
        expect(await printed(code)).toEqual(finished(presets[preset], scenario).sluice);
      }),
      { numRuns: sized(2, 100) },
    );
  }, 60_000);

  it('compiles in a strict project', async () => {
    const files = await Promise.all(
      NAMES.map(async (name) => {
        const file = `copied-${name}.ts`;
        await writeFile(join(folder, file), await copiedCode(PRESETS[name], presets[name].scenario, presets[name].pipeline));
        return file;
      }),
    );
    const compilerOptions = {
      target: 'es2022',
      lib: ['es2023', 'dom'],
      module: 'nodenext',
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: true,
      noEmit: true,
      types: ['node'],
      paths: Object.fromEntries(
        ['sluice', 'sluice/operators', 'sluice/marbles', '#async-context'].map((name) => [
          name,
          [join(ROOT, ownSource(name) ?? 'operators/shell/calls/async-context.ts')],
        ]),
      ),
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const compiler = join(ROOT, 'node_modules/typescript7/bin/tsc');
    const told = await promisify(execFile)(process.execPath, [compiler, '-p', folder]).catch((error: unknown) => error);
    expect(told).toMatchObject({ stdout: '' });
    expect(told).not.toBeInstanceOf(Error);
  }, 60_000);
});
