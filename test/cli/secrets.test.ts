import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hiding, shownOf } from '../../src/cli/secrets.js';
import { type CliResult, runHere } from '../support/cli.js';

describe('what is secret in a text', () => {
  it.each([
    ['whole', ['sk-SECRET'], 'key sk-SECRET and sk-SECRET.', 'key *** and ***.'],
    ['behind its scheme, and with it', ['Bearer sk-SECRET'], 'sk-SECRET in Bearer sk-SECRET', '*** in ***'],
    ['with a space around it, which is not sent', [' sk-SECRET\n'], 'key sk-SECRET', 'key ***'],
    ['as JSON quotes it', ['pass"word\\1'], '{"key":"pass\\"word\\\\1"}', '{"key":"***"}'],
    ['as an address quotes it', ['a+b/c=='], '/v1?key=a%2Bb%2Fc%3D%3D', '/v1?key=***'],
    ['with a dollar', ['$&$&$1'], 'key $&$&$1', 'key ***'],
    ['the longer one first', ['sk-1', 'sk-1234'], 'sk-1234', '***'],
    ['where a text was cut', ['sk-SECRET'], '400 the key sk-SEC…', '400 the key ***…'],
    ['but nothing of three letters', ['abc', ''], 'abc sk-ab…', 'abc sk-ab…'],
  ])('is hidden %s', (_, secrets, text, shown) => {
    expect(hiding(secrets)(text)).toBe(shown);
  });

  it.each([
    ['https://host/v1', [], 'https://host/v1'],
    ['https://host', [], 'https://host'],
    ['https://host:81/v1?key=SECRET#SECRET', [], 'https://host:81/v1'],
    ['https://SECRET.host/v1', ['SECRET'], 'https://secret.host/v1'],
    ['https://host/SECRET/v1', ['SECRET', 'https://host/SECRET/v1'], 'https://host/***/v1'],
  ])('is not in the address that is shown of %s', (baseUrl, variables, address) => {
    expect(shownOf({ baseUrl }, variables).address).toBe(address);
  });
});

const env = {
  SLUICE_API_KEY: 'sk-5f1c9d77a0',
  HEADER: 'hd-e81f0c2b44',
  QUERY: 'qy-/19+ab cd"\\',
  TENANT: 'tn-77c0ffee01',
  OPTION: 'op-0123abcdef',
};

/** A server that says in its error all that it was told, behind so many dots as the request asks for. */
let server: Server;
let cwd: string;
let status: number;
let isJson: boolean;

beforeAll(async () => {
  server = createServer((request, response) => {
    void textOf(request).then((body) => {
      const [, dots = '0'] = /dots=(\d+)/.exec(body) ?? [];
      const { authorization, 'x-key': header } = request.headers;
      const told = [authorization, header, request.url, new URL(request.url ?? '', 'http://host').searchParams.get('key'), body];
      const all = `${'.'.repeat(Number(dots))}${told.join(' ')}`;
      response.writeHead(status).end(isJson ? JSON.stringify({ error: { message: all } }) : all);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-secrets-'));
});
afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}

function write(baseUrl: string, rows: number): void {
  const model = { baseUrl, model: 'm', headers: { 'x-key': '${HEADER}' }, options: { user: '${OPTION}' }, retry: false };
  const stages = [{ name: 'reply', prompt: 'dots={{dots}}' }];
  writeFileSync(join(cwd, 'run.json'), JSON.stringify({ model, stages, input: { path: 'in.jsonl' }, output: { path: 'out.jsonl' } }));
  writeFileSync(join(cwd, 'in.jsonl'), Array.from({ length: rows }, (_, i) => `{"dots":${String(i * 3)}}\n`).join(''));
}

/** Nothing that was printed or written has a secret in it, or how it begins. */
function expectNone({ stdout, stderr }: CliResult): void {
  const written = readdirSync(cwd).map((name) => readFileSync(join(cwd, name), 'utf8'));
  for (const secret of Object.values(env)) for (const text of [stdout, stderr, ...written]) expect(text).not.toContain(secret.slice(0, 6));
}

const address = () => `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
const withSecrets = () => `${address()}/\${TENANT}/v1?key=\${QUERY}`;
const run = (...args: string[]) =>
  runHere(['run', 'run.json', '--json', 'summary.json', '--events', 'events.jsonl', ...args], { cwd, env });

describe('a provider that says the key in its errors', () => {
  it.each([true, false])('leaves none in the failures, wherever its message is cut (as JSON: %s)', async (json) => {
    [status, isJson] = [400, json];
    write(withSecrets(), 80);
    const result = await run();
    // Nothing but progress, which a slow machine is told.
    expect([result.code, result.stderr]).toEqual([1, expect.stringMatching(/^(?:(?:running|writing) \d+ %.*\n)*$/)]);
    const failures = readFileSync(join(cwd, 'out.jsonl.failures.jsonl'), 'utf8').trimEnd().split('\n');
    expect(failures).toHaveLength(80);
    expect(failures[0]).toContain('"error":"400 Bearer *** *** /***/v1/chat/completions?key=***');
    expectNone(result);
  });

  it.each([401, 403, 404, 405])('leaves none on standard error when %d ends the run', async (refusal) => {
    [status, isJson] = [refusal, true];
    write(withSecrets(), 20);
    const result = await run();
    expect([result.code, result.stderr]).toEqual([3, expect.stringContaining(`${address()}/***/v1 `)]);
    expectNone(result);
  });
});

describe('an address with something secret in it', () => {
  it('is shown without, when nobody is there', async () => {
    const free = createServer();
    await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve));
    const { port } = free.address() as AddressInfo;
    await new Promise((resolve) => free.close(resolve));
    write(`http://127.0.0.1:${String(port)}/\${TENANT}/v1?key=\${QUERY}`, 1);
    const result = await run();
    expect([result.code, result.stderr]).toEqual([3, expect.stringContaining(`cannot reach http://127.0.0.1:${String(port)}/***/v1 (`)]);
    expectNone(result);
  });

  it('is refused with a user or a password, from the configuration and from the environment, and not shown', async () => {
    write(`http://me:\${OPTION}@host/v1`, 1);
    for (const args of [
      ['run', 'run.json'],
      ['run', 'run.json', '--dry-run'],
      ['config', 'check', 'run.json'],
    ]) {
      const result = await runHere(args, { cwd, env });
      expect([result.code, result.stdout + result.stderr]).toEqual([2, expect.stringContaining('the URL contains a user or a password')]);
      expectNone(result);
    }
    const bad = [`http://me:${env.OPTION}@host/v1`, `host/v1?key=${env.OPTION}`, `ftp://me:${env.OPTION}@host`];
    writeFileSync(join(cwd, 'run.json'), readFileSync(join(cwd, 'run.json'), 'utf8').replace(/"baseUrl":"[^"]*",/, ''));
    for (const SLUICE_BASE_URL of bad) {
      const result = await runHere(['run', 'run.json'], { cwd, env: { ...env, SLUICE_BASE_URL } });
      expect(result.code).toBe(2);
      expectNone(result);
    }
  });
});
