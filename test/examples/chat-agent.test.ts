import { request } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { scriptedModel } from '../../examples/chat-agent/models.js';
import { type ChatServer, startChatServer } from '../../examples/chat-agent/server.js';

let server: ChatServer;
beforeAll(async () => {
  server = await startChatServer({ model: scriptedModel });
}, 120_000);
afterAll(() => server.close());

const input = { threadId: 't', runId: 'r', messages: [{ role: 'user', content: 'hello' }], tools: [] };

interface Asked {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The status alone: a stream is left at once. */
function statusOf({ path, method = 'GET', headers = {}, body }: Asked): Promise<number | undefined> {
  const { port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
      resolve(answer.statusCode);
      answer.destroy();
    });
    asking.on('error', reject).end(body);
  });
}

const host = (): string => new URL(server.url).host;
const agent = { path: '/agent', method: 'POST', body: JSON.stringify(input) };
const strangers: readonly (readonly [string, () => Readonly<Record<string, string>>])[] = [
  ['a name that points here', () => ({ host: 'evil.example' })],
  ['its name with our port', () => ({ host: `evil.example:${new URL(server.url).port}` })],
  ['a page of another site', () => ({ host: host(), origin: 'https://evil.example' })],
  ['a page without an origin', () => ({ host: host(), origin: 'null' })],
  ['another server on this machine', () => ({ host: host(), origin: 'http://127.0.0.1:1' })],
  ['a request across sites', () => ({ host: host(), 'sec-fetch-site': 'cross-site', 'content-type': 'text/plain' })],
];

it.each(strangers)('refuses %s, whatever it asks for', async (_, headers) => {
  for (const asked of [agent, { path: '/log' }, { path: '/' }])
    expect([asked.path, await statusOf({ ...asked, headers: headers() })]).toEqual([asked.path, 403]);
  expect(server.log).toEqual([]);
});

it('answers requests of its own page, and of clients that are no browser', async () => {
  expect(await statusOf({ ...agent, headers: { origin: server.url, 'sec-fetch-site': 'same-origin' } })).toBe(200);
  expect(await statusOf({ path: '/log', headers: { host: host().replace('127.0.0.1', 'localhost') } })).toBe(200);
  expect(await statusOf({ path: '/' })).toBe(200);
});

it('bounds what it reads, and rejects invalid input', async () => {
  expect(await statusOf({ ...agent, body: '{' })).toBe(400);
  expect(await statusOf({ ...agent, body: '[]' })).toBe(400);
  const large = JSON.stringify({ ...input, more: 'x'.repeat(2 << 20) });
  // The answer may be lost to a connection that is cut while it is still sent.
  expect([413, undefined]).toContain(await statusOf({ ...agent, body: large }).catch(() => undefined));
});
