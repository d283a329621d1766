// Run: npm run bench [-- name…], for example `npm run bench -- batch create-limiter growth`. Without names: everything.
// With `--write` the table of `sdk-behaviour` also goes to the page that shows it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import type { Case } from './harness.js';
import { measure, table } from './harness.js';

const ROUNDS = 5;
const BENCH = import.meta.dirname;
/** Inside `node_modules`, so that packages are found from there. */
const BUILT = join(BENCH, '../node_modules/.cache/bench');
const SUFFIX = '.bench.ts';
const GROWTH = 'growth';
const EMBEDDING_JOB = 'embedding-job';
const ACCURACY = 'accuracy';
const PRIORITY = 'priority';
const SDK_BEHAVIOUR = 'sdk-behaviour';
const MIXED_LOAD = 'mixed-load';
const TABLES: readonly string[] = [GROWTH, ACCURACY, PRIORITY, EMBEDDING_JOB, SDK_BEHAVIOUR, MIXED_LOAD];

const WRITE = '--write';
const given = process.argv.slice(2);
const names = given.filter((name) => name !== WRITE);
const found = readdirSync(join(BENCH, 'operators'))
  .filter((file) => file.endsWith(SUFFIX))
  .map((file) => file.slice(0, -SUFFIX.length))
  .sort();
const unknown = names.filter((name) => !TABLES.includes(name) && !found.includes(name));
if (unknown.length > 0) throw new Error(`no benchmark named ${unknown.join(', ')}; there are ${[...found, ...TABLES].join(', ')}`);
const wanted = (name: string): boolean => names.length === 0 || names.includes(name);

console.log(
  `node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, load ${loadavg()[0]?.toFixed(1)}; CPU time, median of ${ROUNDS} interleaved rounds\n`,
);
for (const name of found.filter(wanted)) {
  console.log(`## ${name}\n`);
  const { cases } = (await load(join('operators', name + SUFFIX))) as { readonly cases: readonly (() => Case)[] };
  for (const make of cases) await show(make());
}
if (wanted(GROWTH)) {
  console.log(`## ${GROWTH}\n`);
  const { growthTables } = (await load(`${GROWTH}.ts`)) as typeof import('./growth.js');
  for await (const each of growthTables()) console.log(`${each}\n`);
}
if (wanted(ACCURACY)) {
  console.log(`## ${ACCURACY}\n`);
  const { accuracyTables } = (await load('limiter-accuracy.ts')) as typeof import('./limiter-accuracy.js');
  for await (const each of accuracyTables()) console.log(`${each}\n`);
}
if (wanted(PRIORITY)) {
  console.log(`## ${PRIORITY}\n`);
  const { priorityTable } = (await load(`${PRIORITY}.ts`)) as typeof import('./priority.js');
  console.log(`${await priorityTable()}\n`);
}
if (wanted(EMBEDDING_JOB)) {
  console.log(`## ${EMBEDDING_JOB}\n`);
  const { embeddingJobTable } = (await load(`${EMBEDDING_JOB}.ts`)) as typeof import('./embedding-job.js');
  console.log(`${await embeddingJobTable()}\n`);
}
if (wanted(SDK_BEHAVIOUR)) {
  console.log(`## ${SDK_BEHAVIOUR}\n`);
  const { sdkBehaviourTable } = (await load(`${SDK_BEHAVIOUR}.ts`)) as typeof import('./sdk-behaviour.js');
  const root = join(BENCH, '..');
  const shown = await sdkBehaviourTable(root);
  console.log(`${shown}\n`);
  if (given.includes(WRITE)) writeBetweenMarks(join(root, 'docs/adapters/README.md'), shown);
}
if (wanted(MIXED_LOAD)) {
  console.log(`## ${MIXED_LOAD}\n`);
  const { mixedLoadTable } = (await load(`${MIXED_LOAD}.ts`)) as typeof import('./mixed-load.js');
  console.log(`${await mixedLoadTable()}\n`);
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
