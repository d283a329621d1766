import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { beforeAll, describe, expect, it } from 'vitest';
import { docComments, examplesInPage, examplesInSource, fences, ownSource } from '../support/doctest.js';

// All code in the documentation is held to the types, as pasted into a strict project: every option, method and import in it exists and takes what it
// is given. For what cannot run alone (it calls your client, your button, your file) this is the only check; what such a fragment does not say
// stands for anything.

const project = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(project, path), 'utf8');
const adapters = readdirSync(join(project, 'src/adapters')).filter((name) => name.endsWith('.ts'));
const modules = [
  'src/index.ts',
  'src/edge/index.ts',
  ...adapters.map((name) => `src/adapters/${name}`),
  'node_modules/rxjs/dist/types/index.d.ts',
];

/** Names that fragments use without saying where they come from. */
const NAMES: Readonly<Record<string, string>> = {
  limiter: "declare const limiter: import('../../src/index.js').Limiter;",
  batcher: "declare const batcher: import('../../src/index.js').Batcher<any, any>;",
  breaker: "declare const breaker: import('../../src/index.js').Breaker;",
  embedder: "declare const embedder: import('../../src/index.js').Embedder;",
  metrics: "declare const metrics: import('../../src/index.js').Metrics;",
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
    return source === undefined ? all : `from '../../${source.replace(/\.ts$/, '.js')}'`;
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

const WRONG: Fragment = { where: 'an option that there is not', code: 'source$.pipe(batch({ maxItems: 3 }));' };

/** What is wrong with each fragment, by its place. */
function problemsOf(fragments: readonly Fragment[]): Map<string, string[]> {
  const options: ts.CompilerOptions = {
    strict: true,
    noImplicitAny: false,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ['lib.esnext.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts', 'lib.dom.asynciterable.d.ts'],
    types: ['node'],
  };
  const pathOf = (at: number): string => join(project, 'test/package', `fragment-${String(at)}.ts`);
  const texts = new Map<string, string>();
  const host = ts.createCompilerHost(options);
  const onDisk = ts.createCompilerHost(options);
  host.readFile = (path) => texts.get(path) ?? onDisk.readFile(path);
  host.fileExists = (path) => texts.has(path) || onDisk.fileExists(path);
  const parsed = new Map<string, ts.SourceFile | undefined>();
  host.getSourceFile = (path, target, ...rest) => {
    const text = texts.get(path);
    if (text !== undefined) return ts.createSourceFile(path, text, target, true);
    if (!parsed.has(path)) parsed.set(path, onDisk.getSourceFile(path, target, ...rest));
    return parsed.get(path);
  };
  const compile = (before?: ts.Program): ts.Program =>
    ts.createProgram([...modules.map((path) => join(project, path)), ...texts.keys()], options, host, before);

  const heads = fragments.map(() => new Set<string>());
  const write = (): void => {
    for (const [at, { code }] of fragments.entries())
      texts.set(pathOf(at), `${fromSources(code)}\n${[...(heads[at] ?? [])].join('\n')}\nexport {};\n`);
  };
  write();
  const first = compile();
  const exported = exportsOf(first);
  for (const [at] of fragments.entries()) {
    for (const name of unknownNames(first, pathOf(at)))
      heads[at]?.add(NAMES[name] ?? exported.get(name) ?? `declare const ${name}: any; type ${name} = any;`);
  }
  write();
  const second = compile(first);
  return new Map(
    fragments.map(({ where }, at) => [
      where,
      diagnostics(second, pathOf(at)).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
    ]),
  );
}

/** How to import each name that is ours or RxJS's. */
function exportsOf(program: ts.Program): Map<string, string> {
  const checker = program.getTypeChecker();
  const found = new Map<string, string>();
  for (const path of modules.toReversed()) {
    const file = program.getSourceFile(join(project, path));
    const symbol = file && checker.getSymbolAtLocation(file);
    const from = path.startsWith('node_modules') ? 'rxjs' : `../../${path.replace(/\.ts$/, '.js')}`;
    for (const { name } of symbol ? checker.getExportsOfModule(symbol) : []) found.set(name, `import { ${name} } from '${from}';`);
  }
  return found;
}

function diagnostics(program: ts.Program, path: string): readonly ts.Diagnostic[] {
  const file = program.getSourceFile(path);
  return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
}

const CANNOT_FIND_NAME = new Set([2304, 2552, 18004, 2318, 2503]);

function unknownNames(program: ts.Program, path: string): string[] {
  return diagnostics(program, path).flatMap(({ code, file, start = 0, length = 0 }) =>
    CANNOT_FIND_NAME.has(code) && file ? [file.text.slice(start, start + length)] : [],
  );
}

let found: ReadonlyMap<string, readonly string[]>;

beforeAll(() => {
  found = problemsOf([...fragments, WRONG]);
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
});
