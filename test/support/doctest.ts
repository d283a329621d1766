import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { BuildOptions } from 'esbuild';
import { build, transform } from 'esbuild';
import manifest from '../../package.json' with { type: 'json' };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A runnable piece of documentation. */
export interface Example {
  /** Path of the file and line of the fence, for the title of the test. */
  readonly where: string;
  readonly code: string;
}

/** One `expression; // => value` line, run. */
export interface Check {
  /** Line within the example, from 1. */
  readonly line: number;
  readonly actual: unknown;
  readonly expected: unknown;
}

/** The text of a fenced block and the line its fence stands on; fences are found by all that follows the backticks. */
export function fences(text: string, info: string): { readonly line: number; readonly code: string }[] {
  const lines = text.split('\n');
  return lines.flatMap((line, start) => {
    if (line.trim() !== `\`\`\`${info}`) return [];
    const end = lines.findIndex((other, index) => index > start && other.trim() === '```');
    return [{ line: start + 1, code: lines.slice(start + 1, end === -1 ? undefined : end).join('\n') }];
  });
}

/** Every `ts` fence in the doc comments of a source file. */
export function examplesInSource(path: string, text: string): Example[] {
  return docComments(text).flatMap(({ line, text: comment }) =>
    fences(comment, 'ts').map((fence) => ({ where: `${path}:${String(line + fence.line - 1)}`, code: fence.code })),
  );
}

/** Every fence of a page that is marked `ts doctest`. */
export function examplesInPage(path: string, text: string): Example[] {
  return fences(text, 'ts doctest').map(({ line, code }) => ({ where: `${path}:${String(line)}`, code }));
}

/** The doc comments of a source file, without their stars. */
export function docComments(source: string): { readonly line: number; readonly text: string; readonly end: number }[] {
  let line = 1;
  let counted = 0;
  return [...source.matchAll(/^[ \t]*\/\*\*[\s\S]*?\*\//gm)].map((match) => {
    line += source.slice(counted, match.index).split('\n').length - 1;
    counted = match.index;
    return {
      line,
      text: match[0].replace(/^[ \t]*\/\*\*[ \t]?|[ \t]*\*\/$/g, '').replace(/^[ \t]*\* ?/gm, ''),
      end: match.index + match[0].length,
    };
  });
}

/** Where compiled examples lie while they run: what they import of `node_modules` is found from here. */
const FOLDER = join(ROOT, 'node_modules/.cache', `doctests-${String(process.pid)}`);
process.on('exit', () => {
  rmSync(FOLDER, { recursive: true, force: true });
});
let made = 0;

const forNode = {
  bundle: true,
  packages: 'external',
  format: 'esm',
  platform: 'node',
  target: 'node20',
  logLevel: 'silent',
} satisfies BuildOptions;

let entries: Promise<ReadonlyMap<string, string>> | undefined;

/** Compiles the sources once for all examples. Resolves to the compiled file of each name that can be imported. */
function compiledEntries(): Promise<ReadonlyMap<string, string>> {
  entries ??= (async () => {
    const names = Object.keys(manifest.exports).map((subpath) => subpath.replace('.', manifest.name));
    const sources = names.flatMap((name) => {
      const source = ownSource(name);
      return source === undefined ? [] : [{ name, source, out: name.replaceAll('/', '-') }];
    });
    await build({
      ...forNode,
      entryPoints: Object.fromEntries(sources.map(({ source, out }) => [out, ROOT + source])),
      outdir: FOLDER,
      outExtension: { '.js': '.mjs' },
      splitting: true,
      // Node's, as a program on Node finds it.
      alias: { '#async-context': join(ROOT, 'src/async-context.ts') },
    });
    return new Map(sources.map(({ name, out }) => [name, pathToFileURL(join(FOLDER, `${out}.mjs`)).href]));
  })();
  return entries;
}

/** `sluice` and its subpaths mean the sources, as the package's users mean the package. */
async function withOwnNames(code: string): Promise<string> {
  const compiled = await compiledEntries();
  return code.replaceAll(/(\bfrom ?|\bimport ?\(?)(["'])(sluice(?:\/[^"']*)?)\2/g, (_all, before: string, _quote, name: string) => {
    const found = compiled.get(name);
    if (found === undefined) throw new Error(`no entry of this package is named ${name}`);
    return `${before}${JSON.stringify(found)}`;
  });
}

/** Calls `__check(line, actual, expected)` for each line `expression; // => value`. */
export function withChecks(code: string): string {
  return code
    .split('\n')
    .map((line, index) =>
      line.replace(
        /^(.+?);?\s*\/\/ => (.+)$/,
        (_all, actual: string, expected: string) => `__check(${String(index + 1)}, ${actual}, ${expected});`,
      ),
    )
    .join('\n');
}

/** `// => below` means the drawing in the block that follows the example. */
export function withDrawing(example: Example, page: string): Example {
  if (!example.code.includes('// => below')) return example;
  const line = Number(example.where.split(':').at(-1));
  const drawing = fences(page, 'text').find((fence) => fence.line > line);
  return { ...example, code: example.code.replace('// => below', `// => ${JSON.stringify(drawing?.code)}`) };
}

/** Compiles an example, runs it against the sources, and tells what each of its `// =>` lines saw. */
export async function runExample(example: Example): Promise<Check[]> {
  const checks: Check[] = [];
  await importExample(example, (line, actual, expected) => checks.push({ line, actual, expected }));
  return checks;
}

/** Compiles an example, runs it against the sources, and answers its exports. */
export async function importExample(
  example: Example,
  check: (line: number, actual: unknown, expected: unknown) => unknown = () => undefined,
): Promise<Record<string, unknown>> {
  const slot = `doctest ${example.where}`;
  const code = withChecks(example.code);
  const file = join(FOLDER, `example-${String(made++)}.mjs`);
  const { code: compiled } = await transform(`const __check = globalThis[${JSON.stringify(slot)}];\n${await withOwnNames(code)}`, {
    loader: 'ts',
    format: 'esm',
    target: 'node20',
    sourcefile: example.where,
  });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(file, compiled);
  Object.assign(globalThis, { [slot]: check });
  try {
    return (await import(/* @vite-ignore */ pathToFileURL(file).href)) as Record<string, unknown>;
  } finally {
    Reflect.deleteProperty(globalThis, slot);
  }
}

/** The file of the sources that `sluice` or one of its subpaths names, from the root of the project. */
export function ownSource(name: string): string | undefined {
  const entry = name.replace(/^sluice\/?/, '');
  const places =
    entry === ''
      ? ['src/index.ts']
      : [
          `${entry}/index.ts`,
          `${entry}.ts`,
          `operators/${entry}.ts`,
          `src/${entry}/index.ts`,
          `src/${entry}.ts`,
          ...['', 'adapters/', 'frontend/', 'shared/'].map((folder) => `src/${folder}${entry.replace('/', '-')}.ts`),
          `src/shared/${entry}-store.ts`,
        ];
  return places.find((file) => existsSync(ROOT + file));
}
