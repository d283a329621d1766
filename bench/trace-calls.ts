// Follows one item, one permit, one call of each pipeline and one row of `sluice run`: which functions of operators/ and src/ run, in which files. A counter
// is put at the entry of every function (methods, getters, constructors, callbacks) while the sources are compiled, so nothing is listed by hand.
// Run: npm run trace [-- --calls]   with every call. What it prints is what docs/architecture.md follows.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'esbuild';
import { build } from 'esbuild';
import { from, noop, of, Subject } from 'rxjs';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '..');
/** Inside `node_modules`, so that packages are found from there. */
const CACHE = join(ROOT, 'node_modules/.cache/trace');
const COUNTER = '__sluiceTrace';

type Library = typeof import('../operators/index.js') & Omit<typeof import('../src/index.js'), 'createAccount'>;
/** The account is that of the operators: the ledger of the other belongs to model calls. */
const LIBRARY =
  "export * from './src/index.ts'; export * from './operators/index.ts'; export { createAccount } from './operators/index.ts';";

const RUNS = "export * from './src/cli/run/run-job.ts'; export * from './src/cli/run/run-plan.ts';";

type Runs = typeof import('../src/cli/run/run-job.js') & typeof import('../src/cli/run/run-plan.js');

/** One function that ran. */
export interface Call {
  readonly file: string;
  readonly name: string;
}

interface Journey {
  readonly title: string;
  /** Whether docs/architecture.md walks through its files. */
  readonly isTold?: true;
  /** What was promised. */
  readonly mostCalls: number;
  readonly mostFiles: number;
  /** Sets the scene and answers what is followed; called twice, so that what happens only the first time is not counted. */
  readonly set: (library: Library) => () => Promise<void> | void;
}

export interface Trace extends Omit<Journey, 'set'> {
  readonly calls: readonly Call[];
  /** In the order in which they were first entered. */
  readonly files: readonly string[];
  /** How often the next call was in another file than the last. */
  readonly changes: number;
}

/** What is promised of a row. */
const MOST_ROW_CALLS = 1060;
const MOST_ROW_FILES = 96;

const journeys: readonly Journey[] = [
  {
    title: 'One item through `batchMap`',
    isTold: true,
    mostCalls: 110,
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
    isTold: true,
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
  {
    title: 'The first example: two items, an account, `robust`',
    mostCalls: 516,
    mostFiles: 48,
    set: ({ batchMap, createAccount, robust }) => {
      const account = createAccount({ concurrency: 8, requestsPerMinute: 600, tokensPerMinute: 200_000 });
      const ask = (prompts: readonly string[]) => Promise.resolve(prompts.map((prompt) => prompt.toUpperCase()));
      return () =>
        from(['ant', 'bee'])
          .pipe(batchMap(ask, { limiter: account, repair: robust() }))
          .forEach(noop);
    },
  },
  {
    title: 'A tool call that waits for nothing',
    mostCalls: 304,
    mostFiles: 38,
    set: ({ createToolRunner, defineTool }) => {
      const parameters = { safeParse: (data: unknown) => ({ success: true as const, data }) };
      const double = defineTool({ name: 'double', description: 'Doubles.', parameters, execute: (x) => 2 * Number(x) });
      const runner = createToolRunner({ tools: [double] });
      return async () => {
        await runner.runAllAsync([{ id: '1', name: 'double', input: 1 }]);
      };
    },
  },
  {
    title: 'A chat call over an address',
    mostCalls: 320,
    mostFiles: 45,
    set: ({ chatCompletions, createModelCaller }) => {
      const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
      const answer = { choices: [{ message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }], usage };
      const fetch = () => Promise.resolve(Response.json(answer));
      const caller = createModelCaller({ call: chatCompletions({ baseUrl: 'http://127.0.0.1:9', model: 'small', fetch }) });
      return async () => {
        await caller.callAsync({ messages: [{ role: 'user', content: 'hello' }] });
      };
    },
  },
];

export async function traceAll(): Promise<Trace[]> {
  return inFolder(async (folder) => {
    const functions: Call[] = [];
    const library = await buildTraced<Library>(folder, functions, LIBRARY);
    const traces: Trace[] = [];
    for (const { set, ...journey } of journeys) {
      const step = set(library);
      await step();
      const ran: number[] = [];
      count((id) => ran.push(id));
      await step();
      count(() => undefined);
      traces.push({ ...journey, ...summary(ran.map((id) => functions[id]!)) });
    }
    return traces;
  });
}

/** Rows of the two runs whose difference is taken. */
const ROWS = 100;

/** So often that is done, and the least counts: on a busy machine timers ring more often in a row. */
const RUNS_OF_ROWS = 3;

/**
 * One row of `sluice run` with one stage of one call: what 200 rows call more than 100 do, for each of them. What happens less than once a row, as writes
 * to files do, is rounded.
 */
export async function traceRow(): Promise<Trace> {
  return inFolder(async (folder) => {
    const functions: Call[] = [];
    const runs = await buildTraced<Runs>(folder, functions, RUNS);
    let shortest: Call[] | undefined;
    for (let i = 0; i < RUNS_OF_ROWS; i++) {
      const few = await callsOfRun(folder, runs, ROWS, i);
      const many = await callsOfRun(folder, runs, 2 * ROWS, i);
      const perRow = (id: number): number => Math.max(0, Math.round(((many.get(id) ?? 0) - (few.get(id) ?? 0)) / ROWS));
      const calls = functions.flatMap((call, id) => new Array<Call>(perRow(id)).fill(call));
      if (calls.length < (shortest?.length ?? Infinity)) shortest = calls;
    }
    return { title: 'One row of `sluice run`', mostCalls: MOST_ROW_CALLS, mostFiles: MOST_ROW_FILES, ...summary(shortest ?? []) };
  });
}

/** How often each function is called in a run over so many rows. */
async function callsOfRun(folder: string, { RunJob, planRun }: Runs, rows: number, turn: number): Promise<Map<number, number>> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      const choices = [{ message: { content: 'an answer' }, finish_reason: 'stop' }];
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ choices, usage: { prompt_tokens: 5, completion_tokens: 2 } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`;
  const calls = new Map<number, number>();
  try {
    writeFileSync(join(folder, 'in.jsonl'), Array.from({ length: rows }, (_, i) => `{"text":"row ${String(i)}"}\n`).join(''));
    const config = {
      model: { model: 'm', baseUrl },
      limits: { concurrency: 4 },
      stages: [{ name: 'reply', prompt: 'say {{text}}' }],
      input: { path: 'in.jsonl' },
      output: { path: `out-${String(rows)}-${String(turn)}.jsonl` },
    };
    const plan = planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => folder });
    const never = new AbortController().signal;
    const job = new RunJob(
      { plan, limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined },
      { stop: never, abort: never },
    );
    count((id) => calls.set(id, (calls.get(id) ?? 0) + 1));
    const { rows: done } = await job.run();
    if (done.ok !== rows) throw new Error(`only ${String(done.ok)} rows were answered`);
  } finally {
    count(() => undefined);
    server.close();
    server.closeAllConnections();
  }
  return calls;
}

async function inFolder<R>(work: (folder: string) => Promise<R>): Promise<R> {
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'run-'));
  try {
    return await work(folder);
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

async function buildTraced<Module>(folder: string, functions: Call[], contents: string): Promise<Module> {
  count(() => undefined);
  const traced: Plugin = {
    name: 'traced',
    setup: (bundler) => {
      bundler.onLoad({ filter: /\/(operators|src)\/.+\.ts$/ }, ({ path }) => ({
        contents: withCounters(readFileSync(path, 'utf8'), relative(ROOT, path), functions),
        loader: 'ts',
      }));
    },
  };
  const outfile = join(folder, 'traced.mjs');
  await build({
    stdin: { contents, resolveDir: ROOT, loader: 'ts' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    packages: 'external',
    alias: { '#async-context': join(ROOT, 'operators/shell/calls/async-context.ts') },
    plugins: [traced],
    outfile,
    logLevel: 'error',
  });
  return (await import(pathToFileURL(outfile).href)) as Module;
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
  for (const { title, calls, files, changes, mostCalls, mostFiles } of [...(await traceAll()), await traceRow()]) {
    const met = calls.length <= mostCalls && files.length <= mostFiles ? '' : '  MISSED';
    console.log(
      `${title}\n${calls.length} / ${mostCalls} calls in ${files.length} / ${mostFiles} files, ${changes} changes of file${met}\n`,
    );
    if (process.argv.includes('--calls')) for (const { file, names } of stays(calls)) console.log(`  ${file}: ${names.join(', ')}`);
    else for (const file of files) console.log(`  ${String(calls.filter((call) => call.file === file).length).padStart(4)}  ${file}`);
    console.log('');
  }
}
