// Run: npm run bench [-- name…], for example `npm run bench -- batch growth`: every case whose name begins so. Without names: the cases and `growth`.
// `--rounds 3` is quicker than the 7 it does; `browser --only burst` does those contests whose title says so. With `--write` the table of `sdk-behaviour` also goes to the page that shows it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { machine, median, ratio, table } from './harness.js';
import type { Measured } from './measure-case.js';

const BENCH = import.meta.dirname;
const ROOT = join(BENCH, '..');
/** Inside `node_modules`, so that packages are found from there. */
const BUILT = join(ROOT, 'node_modules/.cache/bench');
const BEFORE = '44f4f3e';

const { values: flags, positionals: names } = parseArgs({
  options: { write: { type: 'boolean' }, only: { type: 'string' }, rounds: { type: 'string', default: '7' } },
  allowPositionals: true,
});

/** What is not a contest. Only what is asked for is loaded. */
const others: Readonly<Record<string, () => AsyncGenerator<string>>> = {
  async *growth() {
    yield* ((await load('growth.ts')) as typeof import('./growth.js')).growthTables();
  },
  /** Not built: what is measured is the page, and that is bundled. */
  async *browser() {
    yield* (await import('./browser.js')).browserTables(Number(flags.rounds), flags.only);
  },
  async *accuracy() {
    yield* ((await load('limiter-accuracy.ts')) as typeof import('./limiter-accuracy.js')).accuracyTables();
  },
  async *priority() {
    yield ((await load('priority.ts')) as typeof import('./priority.js')).priorityTable();
  },
  async *'embedding-job'() {
    yield ((await load('embedding-job.ts')) as typeof import('./embedding-job.js')).embeddingJobTable(Number(flags.rounds));
  },
  async *'sdk-behaviour'() {
    const shown = await ((await load('sdk-behaviour.ts')) as typeof import('./sdk-behaviour.js')).sdkBehaviourTable(ROOT);
    yield shown;
    if (flags.write) writeBetweenMarks(join(ROOT, 'docs/adapters/README.md'), shown);
  },
  async *'bulk-run'() {
    yield* ((await load('bulk-run.ts')) as typeof import('./bulk-run.js')).bulkRunTables(flags.only);
  },
  async *'mixed-load'() {
    yield* ((await load('mixed-load.ts')) as typeof import('./mixed-load.js')).mixedLoadTables();
  },
};

const measuring = await compile(join(BENCH, 'measure-case.ts'), 'measure-case.mjs');
const env = { ...process.env, SLUICE_BEFORE: await buildBefore() };
const cases = inChild() as string[];
const isWanted = (name: string): boolean => names.some((start) => name.startsWith(start));
const unknown = names.filter((start) => ![...cases, ...Object.keys(others)].some((name) => name.startsWith(start)));
if (unknown.length > 0)
  throw new Error(`nothing is called ${unknown.join(', ')}; there are ${[...cases, ...Object.keys(others)].join(', ')}`);

console.log(`${machine()}; CPU time, medians of ${flags.rounds} interleaved rounds\n`);
const missed: string[] = [];
for (const name of names.length === 0 ? cases : cases.filter(isWanted)) show(name, inChild(name, flags.rounds) as Measured);
for (const name of names.length === 0 ? ['growth'] : Object.keys(others).filter(isWanted)) {
  console.log(`## ${name}\n`);
  for await (const each of others[name]!()) console.log(`${each}\n`);
}
if (missed.length > 0) console.log(`Missed:\n${missed.map((line) => `- ${line}`).join('\n')}`);
// LangChain goes on trying for minutes what has been given up.
process.exit();

function inChild(...args: string[]): unknown {
  return JSON.parse(execFileSync(process.execPath, [measuring, ...args], { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'inherit'] }));
}

function show(name: string, { title, n, gates, times }: Measured): void {
  const [first] = Object.keys(times);
  const base = times[first!]!;
  const perItem = (ms: readonly number[]): string => ((median(ms) * 1e6) / n).toFixed(0);
  const rows = Object.entries(times).map(([contestant, { warm, cold }]) => [
    contestant,
    perItem(warm),
    ratio(warm, base.warm).toFixed(2),
    perItem(cold),
    ratio(cold, base.cold).toFixed(2),
  ]);
  const heads = ['contestant', 'ns', `to ${first}`, 'ns after a full collection', `to ${first}`];
  console.log(`## ${name}\n\n${title}, ${n.toLocaleString('en')} items\n\n${table(heads, rows)}\n`);
  for (const { of, to, most } of gates) {
    const now = ratio(times[of]!.warm, times[to]!.warm);
    const line = `${of} to ${to}: ${now.toFixed(2)} / ${most}`;
    console.log(`- ${line}${now > most ? ' MISSED' : ''}`);
    if (now > most) missed.push(`${name}: ${line}`);
  }
  console.log('');
}

function writeBetweenMarks(page: string, text: string): void {
  const marked = /(<!-- generated: .+ -->\n)[\s\S]*(<!-- end of generated -->)/;
  const before = readFileSync(page, 'utf8');
  if (!marked.test(before)) throw new Error(`${page} has no marks`);
  const after = before.replace(marked, (_all, start: string, end: string) => `${start}\n${text}\n\n${end}`);
  writeFileSync(page, after);
}

async function load(file: string): Promise<unknown> {
  return import(pathToFileURL(await compile(join(BENCH, file), basename(file).replace(/\.ts$/, '.mjs'))).href);
}

/** The operators as they were, out of the history; nothing when that is not there. */
async function buildBefore(): Promise<string> {
  const folder = join(BUILT, BEFORE);
  if (!existsSync(folder)) {
    try {
      const archive = execFileSync('git', ['archive', BEFORE, 'operators'], {
        cwd: ROOT,
        maxBuffer: 1e8,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      mkdirSync(folder, { recursive: true });
      execFileSync('tar', ['-x', '-C', folder], { input: archive });
    } catch {
      console.log(`${BEFORE} is not in the history here: nothing is compared with it\n`);
      return '';
    }
  }
  return pathToFileURL(await compile(join(folder, 'operators/index.ts'), `${BEFORE}.mjs`)).href;
}

/** Compiles as the package is compiled: what runs TypeScript directly wraps every function in a call that keeps its name. */
async function compile(entry: string, name: string): Promise<string> {
  const outfile = join(BUILT, name);
  await build({
    entryPoints: [entry],
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    packages: 'external',
    alias: { '#async-context': join(ROOT, 'src/async-context.ts') },
    outfile,
    logLevel: 'error',
  });
  return outfile;
}
