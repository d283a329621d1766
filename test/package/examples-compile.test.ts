import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { docComments, examplesInPage, examplesInSource, fences, ownSource } from '../support/doctest.js';

// All code in the documentation is held to the types, as pasted into a strict project: every option, method and import in it exists and takes what it
// is given. For what cannot run alone (it calls your client, your button, your file) this is the only check; what such a fragment does not say
// stands for anything.

const project = resolve(import.meta.dirname, '../..');
/** The project, as the fragments see it. */
const ROOT = '../../../';
const read = (path: string): string => readFileSync(join(project, path), 'utf8');
const adapters = readdirSync(join(project, 'src/adapters')).filter((name) => name.endsWith('.ts'));
const modules = [
  'src/index.ts',
  'operators/index.ts',
  'src/metrics/index.ts',
  'operators/interop.ts',
  'src/edge/index.ts',
  ...adapters.map((name) => `src/adapters/${name}`),
  'node_modules/rxjs/dist/types/index.d.ts',
];

/** Names that fragments use without saying where they come from. */
const NAMES: Readonly<Record<string, string>> = {
  limiter: "declare const limiter: import('../../../src/index.js').Limiter;",
  batcher: "declare const batcher: import('../../../src/index.js').Batcher<any, any>;",
  breaker: "declare const breaker: import('../../../operators/index.js').Breaker;",
  embedder: "declare const embedder: import('../../../src/index.js').Embedder;",
  metrics: "declare const metrics: import('../../../src/metrics/index.js').Metrics;",
  source$: "declare const source$: import('rxjs').Observable<any>;",
  tokens$: "declare const tokens$: import('rxjs').Observable<string>;",
  OpenAI: "import OpenAI from 'openai';",
  Anthropic: "import Anthropic from '@anthropic-ai/sdk';",
  wrapLanguageModel: "import { wrapLanguageModel } from 'ai';",
  wrapEmbeddingModel: "import { wrapEmbeddingModel } from 'ai';",
  ChatOpenAI: "import { ChatOpenAI } from '@langchain/openai';",
  OpenAIEmbeddings: "import { OpenAIEmbeddings } from '@langchain/openai';",
  createAgent: "import { createAgent } from 'langchain';",
  Runner: "import { Runner } from '@openai/agents';",
  OpenAIProvider: "import { OpenAIProvider } from '@openai/agents';",
  Agent: "import { Agent } from '@openai/agents';",
  createInterface: "import { createInterface } from 'node:readline';",
  createReadStream: "import { createReadStream } from 'node:fs';",
  createWriteStream: "import { createWriteStream } from 'node:fs';",
};

interface Fragment {
  readonly where: string;
  readonly code: string;
}

const pages = [
  'README.md',
  ...readdirSync(join(project, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('api'))
    .map((name) => `docs/${name}`),
].sort();

/** Pieces of code between backticks in the given column of every table of a page. */
function inTables(path: string, column: number, isCode: (span: string) => boolean): Fragment[] {
  return read(path)
    .split('\n')
    .flatMap((line, index) => {
      if (!line.startsWith('|')) return [];
      const cell = line.replaceAll(String.raw`\|`, '\u0000').split('|')[column] ?? '';
      return [...cell.replaceAll('\u0000', '|').matchAll(/`([^`]+)`/g)]
        .map(([, span = '']) => span)
        .filter(isCode)
        .map((code) => ({ where: `${path}:${String(index + 1)} ${code}`, code: code.startsWith('for await') ? `${code};` : code }));
    });
}

/** Imports of the package by its name as imports of the sources. */
const fromSources = (code: string): string =>
  code.replaceAll(/from '(sluice(?:\/[^']*)?)'/g, (all, name: string) => {
    const source = ownSource(name);
    return source === undefined ? all : `from '${ROOT}${source.replace(/\.ts$/, '.js')}'`;
  });

const sources = ['operators', 'src', 'marbles'].flatMap((folder) =>
  readdirSync(join(project, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`),
);

const fragments: readonly Fragment[] = [
  ...pages.flatMap((path) => examplesInPage(path, read(path))),
  ...sources.flatMap((path) => examplesInSource(path, read(path))),
  ...sources.flatMap((path) =>
    docComments(read(path)).flatMap(({ line, text }) =>
      fences(text, 'ts no-run').map(({ code }) => ({ where: `${path}:${String(line)} no-run`, code })),
    ),
  ),
  ...pages.flatMap((path) => fences(read(path), 'ts').map(({ line, code }) => ({ where: `${path}:${String(line)}`, code }))),
  ...inTables('docs/guides/choosing.md', 3, () => true),
  ...readdirSync(join(project, 'docs/guides'))
    .filter((name) => name.startsWith('migrating-from-'))
    .flatMap((name) => inTables(`docs/guides/${name}`, 2, (span) => /^(await )?(limiter|batcher)\.|^[a-z]\w+\(.*\)$/.test(span))),
];

/** Calls with options in the text of a page, where other names stand for whatever the text says of them: only the names of the options are looked at. */
function inText(path: string): Fragment[] {
  return [
    ...read(path)
      .replaceAll(/^```[^]*?^```$/gm, '')
      .matchAll(/`([^`]+)`/g),
  ]
    .map(([, span = '']) => span.replaceAll(String.raw`\|`, '|').replaceAll(/,? ?(?:…|\.\.\.)(?= ?[\]}])/g, ''))
    .filter((code) => /^[\w$.]+\(.*\{.*\)$/.test(code) && ts.transpileModule(code, { reportDiagnostics: true }).diagnostics?.length === 0)
    .map((code) => ({ where: `${path} ${code}`, code }));
}

// Mutation scores use the names of their time.
const inTexts = pages.filter((path) => !/\/mutation\.md$/.test(path)).flatMap(inText);

const WRONG: Fragment = { where: 'an option that there is not', code: 'source$.pipe(batch({ maxItems: 3 }));' };

/** Where the fragments lie while they are compiled: what they import of `node_modules` is found from here. */
const FOLDER = join(project, 'node_modules/.cache', `fragments-${String(process.pid)}`);

interface Problem {
  readonly code: number;
  readonly message: string;
}

/** What is wrong with each fragment, by its place. */
async function problemsOf(fragments: readonly Fragment[]): Promise<Map<string, string[]>> {
  mkdirSync(FOLDER, { recursive: true });
  try {
    const bodies = fragments.map(({ code }) => fromSources(code));
    const exported = exportsOf();
    const unknown = await compile(bodies);
    // What was right already is not looked at again.
    const whole = bodies.map((body, at) => {
      const problems = unknown[at] ?? [];
      return problems.length === 0 ? '' : `${body}\n${[...headsFor(problems, exported)].join('\n')}`;
    });
    const left = await compile(whole);
    return new Map(fragments.map(({ where }, at) => [where, (left[at] ?? []).map(({ message }) => message)]));
  } finally {
    rmSync(FOLDER, { recursive: true, force: true });
  }
}

/** What the compiler says of each of these texts. */
async function compile(bodies: readonly string[]): Promise<Problem[][]> {
  const compilerOptions = {
    strict: true,
    noImplicitAny: false,
    noEmit: true,
    skipLibCheck: true,
    target: 'ESNext',
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    lib: ['ESNext', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'],
    types: ['node'],
  };
  writeFileSync(join(FOLDER, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts'] }));
  for (const [at, body] of bodies.entries()) writeFileSync(join(FOLDER, `${String(at)}.mts`), `${body}\nexport {};\n`);
  const compiler = join(project, 'node_modules/typescript7/bin/tsc');
  const said = await new Promise<string>((resolve, reject) => {
    execFile(
      process.execPath,
      [compiler, '-p', FOLDER, '--pretty', 'false', '--checkers', '1'],
      { cwd: FOLDER, maxBuffer: 1e8 },
      (_error, stdout, stderr) => {
        // It exits with 2 when anything is wrong, which the first of two looks always finds.
        if (stderr === '') resolve(stdout);
        else reject(new Error(stderr));
      },
    );
  });
  const problems = bodies.map((): Problem[] => []);
  for (const [, at, code, message = ''] of said.matchAll(/^(?:\S*\/)?(\d+)\.mts\(\d+,\d+\): error TS(\d+): (.*(?:\n .*)*)/gm))
    problems[Number(at)]?.push({ code: Number(code), message });
  return problems;
}

/** How to import each name that is ours or RxJS's. */
function exportsOf(): Map<string, string> {
  const options: ts.CompilerOptions = {
    noLib: true,
    types: [],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  };
  const host = ts.createCompilerHost(options);
  // Names alone: they need no other package.
  host.resolveModuleNameLiterals = (names, from) =>
    names.map(({ text }) => (text.startsWith('.') ? ts.resolveModuleName(text, from, options, host) : { resolvedModule: undefined }));
  const program = ts.createProgram(
    modules.map((path) => join(project, path)),
    options,
    host,
  );
  const checker = program.getTypeChecker();
  const found = new Map<string, string>();
  for (const path of modules.toReversed()) {
    const file = program.getSourceFile(join(project, path));
    const symbol = file && checker.getSymbolAtLocation(file);
    const from = path.startsWith('node_modules') ? 'rxjs' : `${ROOT}${path.replace(/\.ts$/, '.js')}`;
    for (const { name } of symbol ? checker.getExportsOfModule(symbol) : []) found.set(name, `import { ${name} } from '${from}';`);
  }
  return found;
}

const CANNOT_FIND_NAME = new Set([2304, 2552, 18004, 2318, 2503]);

/** Where the names come from that a fragment uses without saying so. */
function headsFor(problems: readonly Problem[], exported: ReadonlyMap<string, string>): Set<string> {
  const names = problems.flatMap(({ code, message }) => (CANNOT_FIND_NAME.has(code) ? [/'(.+?)'/.exec(message)?.[1] ?? ''] : []));
  return new Set(names.map((name) => NAMES[name] ?? exported.get(name) ?? `declare const ${name}: any; type ${name} = any;`));
}

let found: ReadonlyMap<string, readonly string[]>;

beforeAll(async () => {
  found = await problemsOf([...fragments, ...inTexts, WRONG]);
}, 300_000);

describe('code in the documentation compiles', () => {
  it('is found', () => {
    expect(fragments.length).toBeGreaterThan(300);
  });

  it('is caught when it names an option that there is not', () => {
    expect(found.get(WRONG.where)).toEqual([expect.stringContaining("'maxItems' does not exist")]);
  });

  it.each(fragments.map(({ where }) => where))('%s', (where) => {
    expect(found.get(where)).toEqual([]);
  });

  it('has only options that there are, in the text as well', () => {
    expect(inTexts.length).toBeGreaterThan(80);
    const wrong = inTexts.flatMap(({ where }) => (found.get(where) ?? []).map((message) => `${where}: ${message}`));
    expect(wrong.filter((problem) => problem.includes('does not exist in type'))).toEqual([]);
  });
});
