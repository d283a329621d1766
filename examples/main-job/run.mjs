// The main job, start to finish: starts the local model server, indexes the READMEs of corpus.txt while somebody keeps asking
// the questions of questions.json, searches the index once and stops the server. Build first, then: node examples/main-job/run.mjs
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const project = resolve(import.meta.dirname, '../..');
const command = resolve(project, 'dist/cli.js');
const index = '.demo/index.jsonl';
const question = 'How do I stop waiting for a promise after some seconds?';

if (!existsSync(command)) {
  console.error('dist/cli.js is missing; run `npm run build` first');
  process.exit(2);
}

// Further arguments go to `sluice serve`, for example: --requests-per-minute 300
// The server is in a group of its own, so that an interrupt from the keyboard lets the indexing finish its calls first.
const server = start(['serve', '--port', '0', ...process.argv.slice(2)], { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
process.on('SIGINT', () => {});
try {
  const baseUrl = await addressOf(server);
  const job = ['--files-from', 'examples/main-job/corpus.txt', '--ask', 'examples/main-job/questions.json', '-o', index];
  // The local model spends its time on items, not on calls, and a question waits for the next call to end: short calls.
  job.push('--max-batch', '8');
  process.exitCode = await run(['index', ...job, '--base-url', baseUrl]);
  if (process.exitCode === 0) {
    console.log(`\n$ sluice search ${index} "${question}"`);
    process.exitCode = await run(['search', index, question, '--base-url', baseUrl, '--top', '3']);
  }
} catch (error) {
  console.error(error.message);
  process.exitCode = 3;
} finally {
  server.kill('SIGTERM');
}

function start(args, options) {
  return spawn(process.execPath, [command, ...args], { cwd: project, ...options });
}

/** Resolves when the server says where it listens. */
function addressOf(child) {
  return new Promise((found, failed) => {
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      printed += text;
      process.stdout.write(text);
      const address = /listening on (\S+)\n/.exec(printed);
      if (address) found(address[1]);
    });
    child.on('error', failed);
    child.on('exit', (code) => failed(new Error(`the server ended with code ${code} before it was listening`)));
  });
}

function run(args) {
  return new Promise((done, failed) => {
    const child = start(args, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', failed);
    // Ended by a signal: not done, whatever the signal was.
    child.on('exit', (code) => done(code ?? 130));
  });
}
