// Checks which module imports which (.dependency-cruiser.cjs) and that docs/architecture.md shows the graph as it is.
//   node .ci/check-imports.mjs           check, exit 1 on a violation or an outdated graph
//   node .ci/check-imports.mjs --graph   check, and write the graph
//   node .ci/check-imports.mjs --root d  check the project in folder d, without its graph
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { cruise } from 'dependency-cruiser';
import extractDepcruiseOptions from 'dependency-cruiser/config-utl/extract-depcruise-options';
import extractTsConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const project = resolve(import.meta.dirname, '..');
const folders = ['operators', 'src', 'marbles'];
const graphFile = 'docs/architecture.md';
const graphStart = '<!-- generated: npm run graph -->';
const graphEnd = '<!-- end of generated -->';

const { values: flags } = parseArgs({ options: { graph: { type: 'boolean' }, root: { type: 'string' } } });
process.chdir(flags.root ?? project);

const problems = [];
const { modules, violations } = await readModules();
for (const { rule, from, to } of violations) problems.push(`${rule.name}: ${from} -> ${to}`);
checkCoverage();
if (flags.graph) writeGraph();
else if (flags.root === undefined) checkGraph();

for (const problem of problems) console.error(problem);
process.exitCode = problems.length === 0 ? 0 : 1;

async function readModules() {
  const present = folders.filter((folder) => existsSync(folder));
  const options = await extractDepcruiseOptions(join(project, '.dependency-cruiser.cjs'));
  const tsConfig = extractTsConfig(join(project, 'tsconfig.json'));
  const { output } = await cruise(present, { ...options, baseDir: process.cwd() }, {}, { tsConfig });
  return { modules: output.modules.filter((module) => folderOf(module.source) !== undefined), violations: output.summary.violations };
}

/** A cruiser that cannot read the installed TypeScript sees nothing and is content, so what it saw is compared with the disk. */
function checkCoverage() {
  const seen = new Set(modules.map((module) => module.source));
  for (const folder of folders) {
    const onDisk = existsSync(folder) ? sourceFiles(folder) : [];
    const missed = onDisk.filter((file) => !seen.has(file));
    console.log(`${folder}: saw ${onDisk.length - missed.length} of ${onDisk.length} modules`);
    if (onDisk.length === 0) problems.push(`${folder}: no modules found`);
    if (missed.length > 0) problems.push(`${folder}: not seen: ${missed.join(', ')}`);
  }
  const imports = modules.reduce((sum, module) => sum + module.dependencies.length, 0);
  console.log(`${modules.length} modules, ${imports} imports, ${violations.length} violations`);
  if (imports < modules.length / 2) problems.push(`only ${imports} imports in ${modules.length} modules: the sources were not understood`);
}

function sourceFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
    .map((entry) => join(entry.parentPath, entry.name).replaceAll('\\', '/'));
}

function folderOf(file) {
  const folder = dirname(file);
  return folders.some((top) => folder === top || folder.startsWith(`${top}/`)) ? folder : undefined;
}

function writeGraph() {
  const text = readFileSync(graphFile, 'utf8');
  writeFileSync(graphFile, withGraph(text));
}

function checkGraph() {
  const text = readFileSync(graphFile, 'utf8');
  if (withGraph(text) !== text) problems.push(`${graphFile}: the import graph is out of date, run \`npm run graph\``);
}

function withGraph(text) {
  const start = text.indexOf(graphStart);
  const end = text.indexOf(graphEnd);
  if (start === -1 || end < start) throw new Error(`${graphFile}: the marks "${graphStart}" and "${graphEnd}" are missing`);
  return `${text.slice(0, start + graphStart.length)}\n\n${drawGraph()}\n\n${text.slice(end)}`;
}

function drawGraph() {
  const byFolder = edges((module) => folderOf(module.source), folderOf);
  const operator = (file) => (/^operators\/(kernel\/[^/]+\/)?[^/]+\.ts$/.test(file) && !file.endsWith('/index.ts') ? file : undefined);
  const byOperator = edges((module) => (module.source.startsWith('operators/kernel/') ? undefined : operator(module.source)), operator);
  return [
    'Folders, an arrow reads "imports":',
    mermaid(byFolder),
    'Operators, and the kernels and operators they build on (`options/` and `shell/`, which all of them use, are left out):',
    mermaid(byOperator.map(([from, to]) => [shortName(from), shortName(to)])),
  ].join('\n\n');
}

/** Every pair of different, named ends, once, in a stable order. */
function edges(from, to) {
  const pairs = new Map();
  for (const module of modules) {
    for (const { resolved } of module.dependencies) {
      const pair = [from(module), to(resolved)];
      if (pair[0] !== undefined && pair[1] !== undefined && pair[0] !== pair[1]) pairs.set(pair.join('>'), pair);
    }
  }
  return [...pairs.keys()].sort().map((key) => pairs.get(key));
}

function shortName(file) {
  return file.replace(/^operators\//, '').replace(/\.ts$/, '');
}

function mermaid(pairs) {
  const id = (name) => name.replaceAll(/[^a-z0-9]/gi, '_');
  const names = [...new Set(pairs.flat())].sort();
  const lines = [...names.map((name) => `  ${id(name)}["${name}"]`), ...pairs.map(([from, to]) => `  ${id(from)} --> ${id(to)}`)];
  return ['```mermaid', 'flowchart LR', ...lines, '```'].join('\n');
}
