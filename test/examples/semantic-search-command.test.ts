import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { hasChatModel } from '../support/model-server.js';
import { startSearch, startServe, startServer, stopAll } from '../support/semantic-search.js';

// The real model is loaded here.
vi.setConfig({ testTimeout: 120_000 });

let folder: string;
let index: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semantic-search-'));
  index = join(folder, 'index.jsonl');
});
afterEach(() => {
  stopAll();
  rmSync(folder, { recursive: true, force: true });
});

describe('the example, as processes', () => {
  it('indexes documents with a real model that fails now and then, and finds the right one', async () => {
    const poison = 'This text is refused.';
    const poisonSha256 = createHash('sha256').update(poison).digest('hex');
    const faults = ['--faults.rate429', '0.3', '--faults.rate5xx', '0.2', '--faults.cutSockets', '1', '--faults.cutEvery', '3'];
    const flags = ['--workers', '1', '--apiKey', 'secret', ...faults, '--faults.seed', '3', '--faults.poisonSha256', poisonSha256];
    const server = await startServer(...flags);
    writeFileSync(join(folder, 'cats.md'), 'A kitten sleeps on the sofa and purrs.');
    writeFileSync(join(folder, 'ships.md'), 'The freighter left the harbour at high tide.');
    writeFileSync(join(folder, 'poison.md'), poison);
    const env = { OPENAI_API_KEY: 'secret' };
    const at = ['--base-url', server.baseUrl];

    const indexed = await startSearch(['index', folder, '-o', index, '--max-batch', '1', ...at], env).ended;
    expect(indexed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^left out .*poison\.md:1-1: 400 /) as string });
    expect(indexed.stdout).toMatch(/429s: 2, retries: 3, splits: 1\naccepted 3, lost 0; took \S+ s\nwrote .*index\.jsonl\n$/);
    const found = await startSearch(['search', index, 'Which pet takes a nap?', '--top', '1', ...at], env).ended;
    expect(found.stdout).toMatch(/^0\.\d{3} {2}.*cats\.md:1-1\n {2}A kitten/);
    const refused = await startSearch(['search', index, 'x', ...at], { OPENAI_API_KEY: 'wrong' }).ended;
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/^semantic-search: 401 /) as string });

    server.child.kill('SIGTERM');
    expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('ends with one sentence when the server is not there', async () => {
    writeFileSync(join(folder, 'a.md'), 'text');
    const { code, stderr } = await startSearch(['index', folder, '-o', index, '--base-url', 'http://127.0.0.1:1/v1']).ended;
    expect(stderr).toMatch(/^semantic-search: fetch failed: .+\n$/);
    expect(code).toBe(1);
    expect(readdirSync(folder)).toEqual(['a.md']);
  });
});

describe('the command of the model server', () => {
  it('says that a port is taken', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await startServe('--port', String(port), '--workers', '1').ended;
    other.close();
    expect(stderr).toContain(`EADDRINUSE: address already in use 127.0.0.1:${String(port)}`);
    expect(code).toBe(1);
  });

  it.each([
    ['an option out of range', ['--faults.rate429', '0.6', '--faults.rate5xx', '0.6'], 'expected `faults.rate5xx` to be at most 0.4'],
    ['an unknown option', ['--ports', '1'], 'unknown option `ports`'],
    ['an unknown option of the chat', ['--chat.threads', '1'], 'unknown option `chat.threads`'],
    ['something else than an option', ['8787'], 'expected an option such as `--port` or `--faults.rate429`, got `8787`'],
  ])('refuses %s', async (_, flags, message) => {
    const { code, stderr } = await startServe(...flags).ended;
    expect(stderr.split('\n')).toEqual([expect.stringContaining(message), '']);
    expect(code).toBe(1);
  });

  it.skipIf(hasChatModel)('says how to install the chat model, when it is not installed', async () => {
    const { code, stderr } = await startServe('--port', '0', '--chat').ended;
    expect(stderr).toMatch(/^model server: the chat model is not installed\. Run `npm ci --prefix examples\/model-server\/chat`/);
    expect(code).toBe(1);
  });
});
