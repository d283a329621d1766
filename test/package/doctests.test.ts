import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import * as marbles from '../../marbles/index.js';
import * as build from '../../operators/build.js';
import * as edge from '../../src/edge/index.js';
import * as root from '../../src/index.js';
import * as gpt from '../../src/tokenizers/gpt.js';
import { docComments, fences } from '../support/doctest.js';
import { sourcesOf } from './sources.js';

const project = resolve(import.meta.dirname, '../..');

/** Kinds of fenced code, and where each of them is run or compared with what is. */
const RUN: Readonly<Record<'page' | 'comment', readonly RegExp[]>> = {
  // By test/docs.test.ts; `vitest` by a test of its own, because it fails on purpose; `examples/` are files that are tests themselves; what has a name
  // like `pipeline.mjs` by .ci/check-pack.mjs, from the packed package.
  page: [/^ts doctest$/, /^ts vitest$/, /^ts examples\/\S+\.ts$/, /^js [\w-]+\.mjs$/],
  comment: [/^ts$/, /^ts vitest$/],
};

/** Pieces of code that cannot run alone: they need a network, a browser or an SDK. They are compiled by examples-compile.test.ts, as all others are. */
const COMPILED: Readonly<Record<'page' | 'comment', RegExp>> = { page: /^ts$/, comment: /^ts no-run$/ };

/** Exported functions without an example, and why. */
const withoutExample: Readonly<Record<string, string>> = {
  isFlowError: 'a question about one value; every page that names an error code asks it',
};

interface Fence {
  readonly where: string;
  readonly kind: 'page' | 'comment';
  readonly info: string;
  readonly code: string;
}

const read = (path: string): string => readFileSync(join(project, path), 'utf8');

/** The fenced code of a text that is TypeScript or JavaScript, whatever else its first line says. */
function codeOf(kind: Fence['kind'], path: string, text: string, firstLine = 1): Fence[] {
  const infos = new Set([...text.matchAll(/^\s*```((?:ts|tsx|js|mjs|javascript|typescript)\b.*)$/gm)].map(([, info = '']) => info.trim()));
  return [...infos].flatMap((info) =>
    fences(text, info).map(({ line, code }) => ({ where: `${path}:${String(firstLine + line - 1)}`, kind, info, code })),
  );
}

const pages = [
  ...readdirSync(join(project, 'docs'), { recursive: true, encoding: 'utf8' })
    // The report of the public surface is compared with the build by .ci/check-api.mjs.
    .filter((name) => name.endsWith('.md') && !name.startsWith('api'))
    .map((name) => `docs/${name.replaceAll('\\', '/')}`),
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md'],
].flatMap((path) => codeOf('page', path, read(path)));

const sources = sourcesOf('operators', 'src', 'marbles');
const comments = sources.flatMap(({ path, file }) =>
  docComments(file.text).flatMap(({ text, line }) => codeOf('comment', path, text, line)),
);

const all = [...pages, ...comments];

/** An export that is called, not made with `new`: its name starts small. */
function functionsOf(entry: object): string[] {
  return Object.entries(entry).flatMap(([name, value]) => (typeof value === 'function' && /^[a-z]/.test(name) ? [name] : []));
}

/** Functions of the kernel that are exported; others may be named like an export. */
const OF_THE_KERNEL = ['headerReader'];

/** The doc comment right before the declaration of an exported function or class. */
function commentOf(name: string): string | undefined {
  for (const { path, file } of sources) {
    if (path.startsWith('operators/kernel/') && !OF_THE_KERNEL.includes(name)) continue;
    const declared = file.text.search(new RegExp(`^export (?:async function|function|(?:abstract )?class) ${name}\\b`, 'm'));
    if (declared !== -1) return docComments(file.text).findLast(({ end }) => end < declared)?.text ?? '';
  }
  return undefined;
}

describe('the code in documentation', () => {
  it('is run, or at least compiled', () => {
    const left = all.filter(({ kind, info }) => ![...RUN[kind], COMPILED[kind]].some((pattern) => pattern.test(info)));
    expect(left.map(({ where, info }) => `${where}: ${info}`)).toEqual([]);
    expect(all.filter(({ kind, info }) => RUN[kind].some((pattern) => pattern.test(info))).length).toBeGreaterThan(80);
  });

  it('is not excused from running when it could run', () => {
    const excused = all.filter(({ kind, info }) => COMPILED[kind].test(info));
    expect(excused.filter(({ code }) => /^import /m.test(code) || code.includes('// =>')).map(({ where }) => where)).toEqual([]);
  });
});

describe('every exported function', () => {
  it('has a runnable example in its doc comment, or a reason', () => {
    const names = [...new Set([root, marbles, edge, gpt, build].flatMap(functionsOf))];
    const without = names.filter((name) => !(name in withoutExample) && fences(commentOf(name) ?? '', 'ts').length === 0);
    expect(without).toEqual([]);
  });

  it('has no reason that nothing needs any more', () => {
    const stale = Object.keys(withoutExample).filter((name) => !(name in root) || fences(commentOf(name) ?? '', 'ts').length > 0);
    expect(stale).toEqual([]);
  });
});
