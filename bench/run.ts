// Run: npm run bench [-- name…], for example `npm run bench -- batch create-limiter growth`. Without names: everything.
// With `--write` the table of `sdk-behaviour` also goes to the page that shows it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import type { Case } from './harness.js';
import { machine, measure, table } from './harness.js';

const ROUNDS = 5;
const BENCH = import.meta.dirname;
const ROOT = join(BENCH, '..');
/** Inside `node_modules`, so that packages are found from there. */
const BUILT = join(ROOT, 'node_modules/.cache/bench');
const SUFFIX = '.bench.ts';
const WRITE = '--write';
const given = process.argv.slice(2);

const operators = readdirSync(join(BENCH, 'operators'))
  .filter((file) => file.endsWith(SUFFIX))
  .map((file) => file.slice(0, -SUFFIX.length))
  .sort();
/** What is not about one operator. Only what is asked for is loaded. */
const others: Readonly<Record<string, () => AsyncGenerator<string>>> = {
  async *growth() {
    yield* ((await load('growth.ts')) as typeof import('./growth.js')).growthTables();
  },
  async *accuracy() {
    yield* ((await load('limiter-accuracy.ts')) as typeof import('./limiter-accuracy.js')).accuracyTables();
  },
  async *priority() {
    yield ((await load('priority.ts')) as typeof import('./priority.js')).priorityTable();
  },
  async *'embedding-job'() {
    yield ((await load('embedding-job.ts')) as typeof import('./embedding-job.js')).embeddingJobTable();
  },
  async *'sdk-behaviour'() {
    const shown = await ((await load('sdk-behaviour.ts')) as typeof import('./sdk-behaviour.js')).sdkBehaviourTable(ROOT);
    yield shown;
    if (given.includes(WRITE)) writeBetweenMarks(join(ROOT, 'docs/adapters/README.md'), shown);
  },
  async *'mixed-load'() {
    yield* ((await load('mixed-load.ts')) as typeof import('./mixed-load.js')).mixedLoadTables();
  },
};

const names = given.filter((argument) => argument !== WRITE);
const all = [...operators, ...Object.keys(others)];
const unknown = names.filter((name) => !all.includes(name));
if (unknown.length > 0) throw new Error(`no benchmark named ${unknown.join(', ')}; there are ${all.join(', ')}`);
const wanted = (name: string): boolean => names.length === 0 || names.includes(name);

console.log(`${machine()}; CPU time, median of ${ROUNDS} interleaved rounds\n`);
for (const name of operators.filter(wanted)) {
  console.log(`## ${name}\n`);
  const { cases } = (await load(join('operators', name + SUFFIX))) as { readonly cases: readonly (() => Case)[] };
  for (const make of cases) await show(make());
}
for (const [name, tables] of Object.entries(others)) {
  if (!wanted(name)) continue;
  console.log(`## ${name}\n`);
  for await (const each of tables()) console.log(`${each}\n`);
}
// LangChain goes on trying for minutes what has been given up.
process.exit();

function writeBetweenMarks(page: string, text: string): void {
  const marked = /(<!-- generated: .+ -->\n)[\s\S]*(<!-- end of generated -->)/;
  const before = readFileSync(page, 'utf8');
  if (!marked.test(before)) throw new Error(`${page} has no marks`);
  const after = before.replace(marked, (_all, start: string, end: string) => `${start}\n${text}\n\n${end}`);
  writeFileSync(page, after);
}

/** Compiles as the package is compiled: what runs TypeScript directly wraps every function in a call that keeps its name. */
async function load(file: string): Promise<unknown> {
  const outfile = join(BUILT, basename(file).replace(/\.ts$/, '.mjs'));
  await build({
    entryPoints: [join(BENCH, file)],
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    packages: 'external',
    outfile,
    logLevel: 'error',
  });
  return import(pathToFileURL(outfile).href);
}

async function show(one: Case): Promise<void> {
  const rows = await measure(one, ROUNDS);
  const cells = rows.map(({ name, nsPerItem, ratio, wall: [least, most] }) => [
    name,
    nsPerItem.toFixed(0),
    ratio.toFixed(2),
    `${least.toFixed(2)} to ${most.toFixed(2)}`,
  ]);
  console.log(`${one.name}\n\n${table(['contestant', 'ns per item', 'CPU ratio', 'wall ratio'], cells)}\n`);
}
