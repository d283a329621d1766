// The code blocks of the README, as files of a project that has the package installed.
import { readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { transform } from 'esbuild';
import { tsImport } from 'tsx/esm/api';
import ts from 'typescript';
import { manifest, pinned, project } from '../consumer.mjs';

const { fences, withChecks, withDrawing } = await tsImport('../../test/support/doctest.ts', import.meta.url);

/** What `check.mjs` of a project holds: values are compared by what they contain, as the tests of the documentation do. */
export const CHECK = `
const plain = (value) => typeof value !== 'object' || value === null;
const keys = (value) => Reflect.ownKeys(value).filter((key) => value[key] !== undefined);
const equal = (a, b) =>
  plain(a) || plain(b)
    ? Object.is(a, b)
    : Array.isArray(a) === Array.isArray(b) &&
      a.length === b.length &&
      keys(a).length === keys(b).length &&
      keys(a).every((key) => equal(a[key], b[key]));
export const checkOf = (where) => (line, actual, expected) => {
  if (!equal(actual, expected)) throw new Error(where + ', its line ' + line + ': expected ' + JSON.stringify(expected) + ', got ' + JSON.stringify(actual));
};
`;

/** A block that waits for something that never comes ends without an error, but not with this. */
export const DONE = 'all values are as expected\n';
const END = `console.log(${JSON.stringify(DONE.trim())});\n`;

/** All blocks of code, in order. A block of another kind than those known here is an error: it would be tried nowhere. */
export function readmeBlocks() {
  const page = readFileSync(join(project, 'README.md'), 'utf8');
  const infos = new Set([...page.matchAll(/^```((?:ts|tsx|js|jsx|mjs|cjs|javascript|typescript)\b.*)$/gm)].map(([, info]) => info.trim()));
  const blocks = [...infos].flatMap((info) => fences(page, info).map(({ line, code }) => blockOf(page, info, line, code)));
  return blocks.sort((a, b) => a.line - b.line);
}

function blockOf(page, info, line, code) {
  const name = /^js ([\w-]+)\.mjs$/.exec(info)?.[1];
  if (name === undefined && !/^ts (doctest|vitest)$/.test(info))
    throw new Error(`README.md:${line}: no project can hold a block of the kind \`${info}\``);
  const where = `README.md:${line}`;
  const imports = importsOf(code);
  const needsNode = imports.some((from) => from.startsWith('node:') || builtinModules.includes(from));
  const needsPage = /\bdocument\b/.test(code);
  // Tests for vitest are compiled here, and run by a test of their own.
  const runs = info !== 'ts vitest';
  const isFor = { types: name === undefined, node: runs && !needsPage, page: runs && !needsNode, worker: runs && !needsNode && !needsPage };
  return {
    line,
    where,
    isFor,
    name: name ?? `block-${line}`,
    file: name === undefined ? `block-${line}.ts` : `${name}.mjs`,
    code: `${code}\n`,
    checked: withDrawing({ where, code }, page).code,
  };
}

/** The packages that the blocks import, in the versions this project is developed with; RxJS, which the package itself needs, is one of them. */
export function packagesOf(texts) {
  const names = new Set(texts.flatMap((text) => importsOf(text).map(packageOf)));
  const others = [...names].filter((name) => name !== manifest.name && !name.startsWith('node:') && !builtinModules.includes(name));
  const unknown = others.filter((name) => manifest.devDependencies[name] === undefined);
  if (unknown.length > 0) throw new Error(`no version is pinned in package.json for ${unknown.join(', ')}`);
  return pinned(...new Set(['rxjs', ...others]));
}

/** JavaScript of a block, whose expected values are checked: as an ECMAScript module, or as a CommonJS module, which awaits inside a function. */
export async function checkedJavaScript({ where, checked }, format) {
  const code = withChecks(checked);
  const head = `import { checkOf } from './check.mjs';\nconst __check = checkOf('${where}');\n`;
  if (format === 'esm') return (await transform(`${head}${code}\n${END}`, { loader: 'ts', format, target: 'es2022' })).code;
  const file = ts.createSourceFile('block.ts', code, ts.ScriptTarget.ES2022);
  const [imports, rest] = [true, false].map((wanted) =>
    file.statements.filter((statement) => ts.isImportDeclaration(statement) === wanted).map((statement) => statement.getFullText(file)),
  );
  const text = `${imports.join('')}\n(async () => {\nconst __check = (await import('./check.mjs')).checkOf('${where}');\n${rest.join('')}\n${END}})();\n`;
  return (await transform(text, { loader: 'ts', format, target: 'es2022' })).code;
}

function importsOf(code) {
  return ts.preProcessFile(code, true, true).importedFiles.map(({ fileName }) => fileName);
}

function packageOf(name) {
  return name.startsWith('node:')
    ? name
    : name
        .split('/')
        .slice(0, name.startsWith('@') ? 2 : 1)
        .join('/');
}
