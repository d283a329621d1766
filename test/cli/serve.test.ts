import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { buildCli, type Cli, type CliRun, runHere } from '../support/cli.js';
import { hasChatModel } from '../support/model-server.js';

// The real model is loaded here.
vi.setConfig({ testTimeout: 120_000 });

let cli: Cli;
let cwd: string;

beforeAll(async () => {
  cli = await buildCli();
  cwd = mkdtempSync(join(tmpdir(), 'sluice-serve-'));
});
afterAll(() => {
  rmSync(cwd, { recursive: true, force: true });
});

async function listening(run: CliRun): Promise<string> {
  const [, baseUrl = ''] = await run.prints(/^listening on (http:\/\/127\.0\.0\.1:\d+\/v1)\n/);
  return baseUrl;
}

it('serves a real model that index and search find their way to, and stops when it is told', async () => {
  const poison = 'This text is refused.';
  const poisonSha256 = createHash('sha256').update(poison).digest('hex');
  const flags = [
    '--port',
    '0',
    '--workers',
    '1',
    '--api-key-env',
    'SERVER_KEY',
    '--fault-429',
    '0.3',
    '--fault-5xx',
    '0.2',
    '--fault-cut',
    '1',
    '--fault-cut-every',
    '3',
    '--fault-seed',
    '3',
    '--poison-sha256',
    poisonSha256,
  ];
  const server = cli.start(['serve', ...flags], { env: { SERVER_KEY: 'secret' } });
  const baseUrl = await listening(server);
  writeFileSync(join(cwd, 'cats.md'), 'A kitten sleeps on the sofa and purrs.');
  writeFileSync(join(cwd, 'ships.md'), 'The freighter left the harbour at high tide.');
  writeFileSync(join(cwd, 'poison.md'), poison);
  const env = { SLUICE_API_KEY: 'secret', SLUICE_BASE_URL: baseUrl };

  const indexed = await runHere(['index', 'cats.md', 'ships.md', 'poison.md', '--max-batch', '1', '--json', 'summary.json'], { cwd, env });
  // Where the machine is slow it tells how far it is, and nothing else.
  expect(indexed.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('embedding ['))).toEqual([]);
  expect(indexed.stdout).toMatch(/poisoned, left out: poison\.md:1-1: 400 /);
  expect(indexed.stdout).toContain('wrote .sluice-index.jsonl: 2 of 3 passages\n');
  expect(indexed.code).toBe(0);
  const summary: unknown = JSON.parse(readFileSync(join(cwd, 'summary.json'), 'utf8'));
  expect(summary).toMatchObject({ accepted: 3, settled: 3, lost: 0, failed: [], retries: 3, throttled: 2 });
  const found = await runHere(['search', '.sluice-index.jsonl', 'Which pet takes a nap?', '--top', '1'], { cwd, env });
  expect(found.stdout).toMatch(/^0\.\d{3} {2}cats\.md:1-1\n/);
  const refused = await runHere(['search', '.sluice-index.jsonl', 'x'], { cwd, env: { ...env, SLUICE_API_KEY: 'wrong' } });
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining('refuses the key') as string });

  server.child.kill('SIGTERM');
  const ended = await server.ended;
  expect(ended).toMatchObject({ code: 0, stderr: 'stopping the server\n' });
  expect(JSON.stringify(ended)).not.toContain('secret');
});

it('says that a port is taken', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await runHere(['serve', '--port', String(port), '--workers', '1']);
  other.close();
  expect(stderr).toBe(`sluice: port ${String(port)} is taken; choose another with \`--port\`, or 0 for a free one\n`);
  expect(code).toBe(2);
});

it('hands on what the server says about its options', async () => {
  const { code, stderr } = await runHere(['serve', '--port', '0', '--fault-429', '0.6', '--fault-5xx', '0.6']);
  expect(stderr).toMatch(/^sluice: startModelServer: expected `faults\.rate5xx` to be at most 0\.4/);
  expect(code).toBe(2);
});

it('wants a variable that is set', async () => {
  for (const name of ['SERVER_KEY', 'constructor', 'toString', '__proto__'])
    expect(await runHere(['serve', '--port', '0', '--api-key-env', name])).toMatchObject({
      code: 2,
      stderr: `sluice: \`--api-key-env\`: the environment variable ${name} is not set\n`,
    });
});

it('takes what is for the chat model with `--chat` alone', async () => {
  const { code, stderr } = await runHere(['serve', '--port', '0', '--chat-threads', '2']);
  expect(stderr).toBe('sluice: `--chat-sequences` and `--chat-threads` go with `--chat`\n');
  expect(code).toBe(2);
  const refused = await runHere(['serve', '--port', '0', '--chat', '--chat-sequences', '65']);
  expect(refused.stderr).toMatch(/^sluice: startModelServer: expected `chat\.sequences` to be a whole number from 1 to 64, got `65`/);
  expect(refused.code).toBe(2);
});

it.skipIf(hasChatModel)('says how to install the chat model, when it is not installed', async () => {
  const { code, stderr } = await runHere(['serve', '--port', '0', '--chat']);
  expect(stderr).toMatch(/^sluice: model server: the chat model is not installed\. Run `npm ci --prefix examples\/model-server\/chat`/);
  expect(code).toBe(2);
});
