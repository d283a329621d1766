// Eight agents, each a process of its own, share one key at one provider: without a store, over `localStore`, and over `redisStore`. Run: npm run
// demo:processes [-- --agents 16 --calls 10 --stores none,local,redis]
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import type { AgentOptions } from './agent.js';
import { NO_REDIS, startRedis } from './redis.js';

const folder = import.meta.dirname;
const project = resolve(folder, '../..');

/** What a run of agents came to. */
export interface RunOutcome {
  readonly store: AgentOptions['store'];
  readonly calls: number;
  readonly answered: number;
  /** Calls that ended with an error, and agents that did not exit with 0. */
  readonly lost: number;
  /** Times that the provider said 429. */
  readonly refused: number;
  /** Most tokens that arrived in any window, refused ones included, as a part of the limit. */
  readonly fullest: number;
  readonly use: number;
  readonly seconds: number;
  readonly reasons: readonly string[];
}

export interface RunOptions {
  readonly store: AgentOptions['store'];
  readonly agents: number;
  readonly calls: number;
  readonly tokens: number;
  readonly windowMs: number;
  readonly cost: number;
  /** Port of a Redis on this machine. */
  readonly redisPort?: number | undefined;
}

/** Starts a provider and the agents, and waits for their ends. */
export async function runAgents({ agents, ...of }: RunOptions): Promise<RunOutcome> {
  const limit = { tokens: of.tokens, windowMs: of.windowMs };
  const provider = spawn(process.execPath, [join(folder, 'provider.mjs'), JSON.stringify(limit)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = linesOf(provider);
  const port = (await lines.next()).replace('listening on ', '');
  const options: AgentOptions = { ...of, baseUrl: `http://127.0.0.1:${port}/v1`, name: randomUUID() };
  const ends = await Promise.all(Array.from({ length: agents }, () => runAgent(options)));
  provider.kill();
  const books = JSON.parse(await lines.next()) as Pick<RunOutcome, 'answered' | 'refused' | 'fullest' | 'use' | 'seconds'>;
  const calls = agents * of.calls;
  const well = ends.reduce((sum, end) => sum + end.well, 0);
  const failed = ends.filter(({ code }) => code !== 0).length;
  return { ...books, store: of.store, calls, lost: calls - well + failed, reasons: ends.flatMap(({ reasons }) => reasons) };
}

async function runAgent(
  options: AgentOptions,
): Promise<{ readonly code: number | null; readonly well: number; readonly reasons: readonly string[] }> {
  const agent = spawn(process.execPath, ['--import', 'tsx', join(folder, 'agent.ts'), JSON.stringify(options)], {
    cwd: project,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = linesOf(agent);
  const code = new Promise<number | null>((ended) => agent.on('exit', ended));
  const told = await lines.next();
  const { well, reasons } = JSON.parse(told || '{"well":0,"reasons":["it said nothing"]}') as { well: number; reasons: string[] };
  return { code: await code, well, reasons };
}

/** The lines that a process prints; an empty one when it has ended. */
function linesOf({ stdout }: ChildProcess): { next(): Promise<string> } {
  if (!stdout) throw new Error('the process has no output');
  const lines = createInterface(stdout)[Symbol.asyncIterator]();
  return {
    next: async () => {
      const line = (await lines.next()) as IteratorResult<string, undefined>;
      return line.value ?? '';
    },
  };
}

if (process.argv[1] && resolve(process.argv[1]) === join(folder, 'demo.ts')) await demo();

async function demo(): Promise<void> {
  const { values } = parseArgs({
    options: {
      agents: { type: 'string', default: '8' },
      calls: { type: 'string', default: '10' },
      stores: { type: 'string', default: 'none,local,redis' },
    },
  });
  const [agents, calls] = [Number(values.agents), Number(values.calls)];
  const limit = { tokens: 20_000, windowMs: 10_000, cost: 500 };
  console.log(
    `${String(agents)} agents on one key, ${String(calls)} streamed calls of ${String(limit.cost)} tokens each; the provider takes 20,000 tokens in any 10 s\n`,
  );
  console.log('store    refused  lost  fullest window   use   seconds');
  const stores = values.stores.split(',') as AgentOptions['store'][];
  const redis = stores.includes('redis') ? await startRedis() : undefined;
  for (const store of stores) {
    if (store === 'redis' && !redis) {
      console.log(`redis    left out: ${NO_REDIS}`);
      continue;
    }
    const run = await runAgents({ ...limit, store, agents, calls, redisPort: redis?.port });
    const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;
    const row = [store.padEnd(8), String(run.refused).padStart(7), String(run.lost).padStart(5), percent(run.fullest).padStart(15)];
    console.log([...row, percent(run.use).padStart(9), run.seconds.toFixed(1).padStart(8)].join(' '));
    for (const reason of run.reasons.slice(0, 3)) console.log(`  ${reason}`);
  }
  redis?.stop();
}
