// Follows one item and one permit: which functions of operators/ run, in which files. A counter is put at the entry of every function (methods,
// getters, constructors, callbacks) while the sources are compiled, so nothing is listed by hand.
// Run: npm run trace [-- --calls]   with every call. What it prints is what docs/architecture.md follows.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';
import { build } from 'esbuild';
import { of, Subject } from 'rxjs';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '..');
/** Inside `node_modules`, so that packages are found from there. */
const CACHE = join(ROOT, 'node_modules/.cache/trace');
const COUNTER = '__sluiceTrace';

type Operators = typeof import('../operators/index.js');

/** One function that ran. */
export interface Call {
  readonly file: string;
  readonly name: string;
}

interface Journey {
  readonly title: string;
  /** What was promised. */
  readonly mostCalls: number;
  readonly mostFiles: number;
  /** Sets the scene and answers what is followed; called twice, so that what happens only the first time is not counted. */
  readonly set: (operators: Operators) => () => Promise<void> | void;
}

export interface Trace extends Omit<Journey, 'set'> {
  readonly calls: readonly Call[];
  /** In the order in which they were first entered. */
  readonly files: readonly string[];
  /** How often the next call was in another file than the last. */
  readonly changes: number;
}

const journeys: readonly Journey[] = [
  {
    title: 'One item through `batchMap`',
    mostCalls: 180,
    mostFiles: 12,
    set: ({ batchMap }) => {
      const items = new Subject<number>();
      let results = 0;
      items.pipe(batchMap((batch: readonly number[]) => of(batch.map((x) => 2 * x)), { concurrency: 2 })).subscribe(() => results++);
      return async () => {
        const before = results;
        items.next(1);
        while (results === before) await new Promise((resolve) => setTimeout(resolve));
      };
    },
  },
  {
    title: 'One permit that is waited for',
    mostCalls: 50,
    mostFiles: 8,
    set: ({ createLimiter }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const held: { release(): void }[] = [limiter.tryAcquire()!];
      return () => {
        // Waits behind the one before it, which then gives its slot to it.
        limiter.acquire().subscribe((lease) => held.push(lease));
        held[0]!.release();
        held.shift();
        if (held.length !== 1) throw new Error('the permit was not granted');
      };
    },
  },
];

export async function traceAll(): Promise<Trace[]> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'run-'));
  try {
    const functions: Call[] = [];
    const operators = await buildTraced(folder, functions);
    const traces: Trace[] = [];
    for (const { set, ...journey } of journeys) {
      const step = set(operators);
      await step();
      const ran: number[] = [];
      count((id) => ran.push(id));
      await step();
      count(() => undefined);
      traces.push({ ...journey, ...summary(ran.map((id) => functions[id]!)) });
    }
    return traces;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function count(entered: (id: number) => void): void {
  (globalThis as Record<string, unknown>)[COUNTER] = entered;
}

function summary(calls: readonly Call[]): Pick<Trace, 'calls' | 'files' | 'changes'> {
  const changes = calls.filter(({ file }, i) => i > 0 && file !== calls[i - 1]!.file).length;
  return { calls, files: [...new Set(calls.map(({ file }) => file))], changes };
}

async function buildTraced(folder: string, functions: Call[]): Promise<Operators> {
  count(() => undefined);
  const traced: Plugin = {
    name: 'traced',
    setup: (bundler) => {
      bundler.onLoad({ filter: /\/operators\/.+\.ts$/ }, ({ path }) => ({
        contents: withCounters(readFileSync(path, 'utf8'), relative(ROOT, path), functions),
        loader: 'ts',
      }));
    },
  };
  const outfile = join(folder, 'operators.mjs');
  await build({
    entryPoints: [join(ROOT, 'operators/index.ts')],
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    packages: 'external',
    alias: { '#async-context': join(ROOT, 'operators/shell/async-context.ts') },
    plugins: [traced],
    outfile,
    logLevel: 'error',
  });
  return (await import(pathToFileURL(outfile).href)) as Operators;
}

/** The same source with a call of the counter at the entry of every function that is written there. */
export function withCounters(source: string, file: string, functions: Call[]): string {
  const inserted: { readonly at: number; readonly text: string }[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && 'body' in node && node.body) enter(node, node.body);
    ts.forEachChild(node, visit);
  };
  const enter = (node: ts.FunctionLikeDeclaration, body: ts.ConciseBody): void => {
    const call = `globalThis.${COUNTER}(${functions.length})`;
    functions.push({ file, name: nameOf(node) });
    if (ts.isBlock(body)) inserted.push({ at: body.getStart() + 1, text: ` ${call};` });
    else inserted.push({ at: body.getStart(), text: `(${call}, ` }, { at: body.end, text: ')' });
  };
  visit(ts.createSourceFile(file, source, ts.ScriptTarget.ES2022, true));
  // Stable: of two at one place, which only nested functions have, the outer one stays outside.
  const ends = inserted.toSorted((a, b) => a.at - b.at);
  let from = 0;
  let text = '';
  for (const { at, text: more } of ends) {
    text += source.slice(from, at) + more;
    from = at;
  }
  return text + source.slice(from);
}

function nameOf(node: ts.FunctionLikeDeclaration): string {
  const own = ts.isConstructorDeclaration(node) ? 'constructor' : node.name?.getText();
  const { parent } = node;
  const assigned = ts.isVariableDeclaration(parent) || ts.isPropertyDeclaration(parent) || ts.isPropertyAssignment(parent);
  const name = own ?? (assigned ? parent.name.getText() : 'a function');
  const owner = ts.findAncestor(parent, ts.isClassDeclaration)?.name?.text;
  const getter = ts.isGetAccessor(node) ? 'get ' : '';
  return getter + (owner === undefined ? name : `${owner}.${name}`);
}

/** The calls with those in one file after another joined. */
function* stays(calls: readonly Call[]): Generator<{ readonly file: string; readonly names: string[] }> {
  let now: { readonly file: string; readonly names: string[] } | undefined;
  for (const { file, name } of calls) {
    if (now?.file === file) now.names.push(name);
    else {
      if (now) yield now;
      now = { file, names: [name] };
    }
  }
  if (now) yield now;
}

if (process.argv[1] === import.meta.filename) {
  for (const { title, calls, files, changes, mostCalls, mostFiles } of await traceAll()) {
    const met = calls.length <= mostCalls && files.length <= mostFiles ? '' : '  MISSED';
    console.log(
      `${title}\n${calls.length} / ${mostCalls} calls in ${files.length} / ${mostFiles} files, ${changes} changes of file${met}\n`,
    );
    if (process.argv.includes('--calls')) for (const { file, names } of stays(calls)) console.log(`  ${file}: ${names.join(', ')}`);
    else for (const file of files) console.log(`  ${String(calls.filter((call) => call.file === file).length).padStart(4)}  ${file}`);
    console.log('');
  }
}
