// The demo, start to finish: starts the local model server, indexes the READMEs of corpus.txt while the questions of questions.json are asked
// again and again, searches the index once and stops the server. Run: npm run demo
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const project = resolve(import.meta.dirname, '../..');
const index = '.demo/index.jsonl';
const question = 'How do I stop waiting for a promise after some seconds?';

mkdirSync(join(project, '.demo'), { recursive: true });
// An interrupt from the keyboard reaches the indexing as well, which ends its calls first.
process.on('SIGINT', () => undefined);
// Options go to the server, for example: npm run demo -- --faults.rate429 0.1. It is in a group of its own, which the keyboard does not interrupt.
const server = spawn(process.execPath, ['examples/model-server/serve.mjs', '--port', '0', ...process.argv.slice(2)], {
  cwd: project,
  stdio: ['ignore', 'pipe', 'inherit'],
  detached: true,
});
try {
  const baseUrl = await addressOf(server);
  const files = ['--files-from', 'examples/semantic-search/corpus.txt', '--ask', 'examples/semantic-search/questions.json'];
  // The local model spends its time on texts, not on calls, and a question waits for a call to end: small batches.
  process.exitCode = await run('index', ...files, '-o', index, '--max-batch', '8', '--base-url', baseUrl);
  if (process.exitCode === 0) process.exitCode = await run('search', index, question, '--top', '3', '--base-url', baseUrl);
} finally {
  server.kill();
}

/** Resolves when the server says where it listens. */
async function addressOf({ stdout }: ChildProcess): Promise<string> {
  if (stdout)
    for await (const line of createInterface(stdout)) {
      console.log(line);
      if (line.startsWith('listening on ')) return line.slice('listening on '.length);
    }
  throw new Error('the server ended before it was listening');
}

function run(...args: readonly string[]): Promise<number> {
  console.log(`\n$ semantic-search ${args.map((arg) => (arg.includes(' ') ? `"${arg}"` : arg)).join(' ')}`);
  const cli = 'examples/semantic-search/cli.ts';
  const child = spawn(process.execPath, ['--import', 'tsx', cli, ...args], { cwd: project, stdio: ['ignore', 'inherit', 'inherit'] });
  return new Promise((ended, failed) => {
    child.on('error', failed);
    // Without a code it was ended by a signal.
    child.on('exit', (code) => {
      ended(code ?? 130);
    });
  });
}
