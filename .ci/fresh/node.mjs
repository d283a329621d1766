// The README in projects for Node: JavaScript in both module systems, and TypeScript.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../consumer.mjs';
import { CHECK, checkedJavaScript, DONE } from './blocks.mjs';

/** Runs each block that Node can run, and compares the values that it says. */
export async function runBlocks(project, blocks, format) {
  const folder = join(project, format);
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: format === 'esm' ? 'module' : 'commonjs' }));
  writeFileSync(join(folder, 'check.mjs'), CHECK);
  const all = blocks.filter(({ isFor }) => isFor.node);
  for (const block of all) {
    // As the page has it: a file with a name stays one.
    if (!block.isFor.types) writeFileSync(join(folder, block.file), block.code);
    if (!block.isFor.types) run('node', [block.file], folder);
    const file = `${block.name}.checked.js`;
    writeFileSync(join(folder, file), await checkedJavaScript(block, format));
    const said = run('node', ['--unhandled-rejections=strict', file], folder);
    assert.ok(said.endsWith(DONE), `${block.where} as ${format} ends before its last line`);
  }
  return `${all.length} of ${blocks.length} blocks`;
}

/** What `tsc --init` sets for a project on Node, without its `skipLibCheck`. */
const STRICT = {
  target: 'ES2022',
  module: 'NodeNext',
  moduleResolution: 'NodeNext',
  moduleDetection: 'force',
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  skipLibCheck: false,
  noEmit: true,
};

/** Packages whose own declarations have errors: errors in any other file fail. */
const FOREIGN = {
  '@ai-sdk/provider': 'imports the types of `json-schema`, and does not depend on them',
  '@types/node': 'version 20 has one for `exactOptionalPropertyTypes`, since TypeScript 6',
};

/** The declarations of the AI SDK are not made for this setting, which thousands of lines would say: files that import it are compiled without. */
const isExact = ({ code }) => !/from '(ai|@ai-sdk\/[^']+)'/.test(code);

/** Compiles files as they stand, in a folder of the project. */
export function compileAll(project, name, files, compiler) {
  const [exact, others] = [true, false].map((wanted) => files.filter((file) => isExact(file) === wanted));
  const foreign = [...compile(project, name, exact, compiler, true), ...compile(project, `${name}-ai`, others, compiler, false)];
  const note = foreign.length === 0 ? '' : `; errors in the declarations of ${[...new Set(foreign)].join(' and ')}`;
  return `${files.length} ${files.length === 1 ? 'file' : 'files'}${note}`;
}

/** The packages that the compiler finds errors in. */
function compile(project, name, files, compiler, exactOptionalPropertyTypes) {
  if (files.length === 0) return [];
  const folder = join(project, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  for (const { file, code } of files) writeFileSync(join(folder, file), code);
  const compilerOptions = { ...STRICT, exactOptionalPropertyTypes };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: files.map(({ file }) => file) }));
  try {
    run('node', [compiler, '-p', '.', '--pretty', 'false'], folder);
    return [];
  } catch (error) {
    const errors = error.message.split('\n').filter((line) => /\berror TS\d+:/.test(line));
    const packages = errors.map((line) => /^[^(]*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(line)?.[1]);
    if (errors.length > 0 && packages.every((from) => FOREIGN[from] !== undefined)) return packages;
    throw new Error(`${compiler} in ${name}:\n${errors.slice(0, 20).join('\n') || error.message}`, { cause: error });
  }
}
