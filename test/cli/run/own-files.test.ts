import { chmodSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { writeOwnFile } from '../../../src/cli/own-file.js';
import { runHere } from '../../support/cli.js';

let cwd: string;
let baseUrl: string;
let umask: number;
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    const esc = '\u001b]0;x\u0007\u009b\u202e';
    const answer = {
      choices: [{ message: { content: `x${esc}` }, finish_reason: 'stop' }],
      data: [{ index: 0, embedding: [1, 2] }],
      usage: {},
    };
    const isRefused = request.headers['x-refuse'] !== undefined;
    response.writeHead(isRefused ? 400 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isRefused ? { error: { message: esc } } : answer));
  });
});

beforeEach(async () => {
  umask = process.umask(0o022);
  cwd = mkdtempSync(join(tmpdir(), 'own-files-'));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  baseUrl = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`;
});

afterEach(() => {
  process.umask(umask);
  server.close();
  server.closeAllConnections();
});

/** The modes of all that was not there before. */
function modes(given: readonly string[]): Record<string, string> {
  const names = readdirSync(cwd, { recursive: true, encoding: 'utf8' }).filter((name) => !given.includes(name));
  return Object.fromEntries(names.sort().map((name) => [name, (statSync(join(cwd, name)).mode & 0o777).toString(8)]));
}

function config(more = ''): void {
  writeFileSync(
    join(cwd, 'c.yaml'),
    `model: { baseUrl: "${baseUrl}", model: m, retry: false${more} }\nstages: [ { name: a, prompt: "{{t}}" } ]\ninput: { path: in.jsonl }\noutput: { path: deep/er/out.jsonl }\nprices: { m: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } }\n`,
  );
  writeFileSync(join(cwd, 'in.jsonl'), `${JSON.stringify({ id: 'a\u009b', t: 'x' })}\n[\n`);
}

it.runIf(process.platform !== 'win32')('whatever a run leaves is for its owner alone, and acts upon no terminal', async () => {
  config();
  const result = await runHere(['run', 'c.yaml', '--events', 'e.jsonl', '--json', 's.json'], { cwd });
  expect(result.code, result.stderr).toBe(1);
  const left = modes(['c.yaml', 'in.jsonl']);
  expect(Object.keys(left)).toEqual(
    expect.arrayContaining(['deep/er/out.jsonl', 'deep/er/out.jsonl.journal', 'deep/er/out.jsonl.budget', 's.json', 'e.jsonl']),
  );
  for (const [name, mode] of Object.entries(left)) expect([name, mode]).toEqual([name, /^deep(\/er)?$/.test(name) ? '700' : '600']);
  // As `sluice inspect` writes its report.
  await writeOwnFile(join(cwd, 'r.html'), 'report');
  expect(modes([])['r.html']).toBe('600');
});

it.runIf(process.platform !== 'win32')('a file that is there keeps its mode', async () => {
  config();
  for (const name of ['e.jsonl', 's.json']) {
    writeFileSync(join(cwd, name), '');
    chmodSync(join(cwd, name), 0o640);
  }
  await runHere(['run', 'c.yaml', '--events', 'e.jsonl', '--json', 's.json'], { cwd });
  expect(modes([])).toMatchObject({ 'e.jsonl': '640', 's.json': '640', 'deep/er/out.jsonl': '600' });
});

it('no control character reaches the terminal or the files of failures', async () => {
  config(', headers: { x-refuse: "1234" }');
  const result = await runHere(['run', 'c.yaml'], { cwd });
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  const acted = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/;
  expect(result.stdout + result.stderr).not.toMatch(acted);
  expect(readFileSync(join(cwd, 'deep/er/out.jsonl.failures.jsonl'), 'utf8')).not.toMatch(acted);
});
