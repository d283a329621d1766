import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server, type ServerResponse, request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createParser } from 'eventsource-parser';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { exportRecording } from '../../src/inspector/export-recording.js';
import { FlowModel } from '../../src/inspector/flow-model.js';
import { importRecording, replay } from '../../src/inspector/recording.js';
import { buildCli, type Cli, type CliHere, runHere, startHere } from '../support/cli.js';
import { asLines, recordedRun } from '../support/recorded-run.js';

const PATIENT = { timeout: 20_000, interval: 5 };

let cli: Cli;
let cwd: string;
const EVENTS = recordedRun({ items: 60, throttledEvery: 5, poisoned: [11] });

beforeAll(async () => {
  cli = await buildCli();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-inspect-'));
});
afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

const file = (name: string): string => join(cwd, name);

/** Starts the command; it is stopped at the end of the test. */
async function inspect(...args: string[]): Promise<{ readonly run: CliHere; readonly url: string }> {
  const run = startHere(['inspect', ...args], { cwd });
  const [, url = ''] = await run.prints(/^inspector of .* on (http:\/\/127\.0\.0\.1:\d+\/)\n/);
  return { run, url };
}

interface Told {
  readonly name: string;
  readonly data: string;
}

/** What a page is told. */
function listen(url: string): { readonly told: readonly Told[]; model(): FlowModel; status(): string } {
  const told: Told[] = [];
  const stop = new AbortController();
  onTestFinished(() => {
    stop.abort();
  });
  const parser = createParser({ onEvent: ({ event, data }) => told.push({ name: event ?? '', data }) });
  void (async () => {
    const { body } = await fetch(`${url}events`, { signal: stop.signal });
    const decoder = new TextDecoder();
    for await (const piece of body!) parser.feed(decoder.decode(piece, { stream: true }));
  })().catch(() => undefined);
  return {
    told,
    status: () => told.findLast(({ name }) => name === 'status')?.data ?? '',
    model: () => {
      const from = told.findLastIndex(({ name }) => name === 'recording');
      const model = from === -1 ? new FlowModel() : replay(importRecording(told[from]!.data));
      for (const { name, data } of told.slice(from + 1))
        if (name === 'events') for (const event of JSON.parse(data) as FlowEvent[]) model.add(event);
      return model;
    },
  };
}

function modelOf(events: readonly FlowEvent[]): FlowModel {
  const model = new FlowModel();
  for (const event of events) model.add(event);
  return model;
}

/** An address that streams what `answer` writes. */
async function serveStream(answer: (response: ServerResponse) => void): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((_request, response) => {
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/flow`, server };
}

describe('a file of events', () => {
  it('is served with the numbers of its events, and the command stops when it is told', async () => {
    writeFileSync(file('events.jsonl'), asLines(EVENTS));
    const { run, url } = await inspect('events.jsonl');
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.status()).toBe('following');
    }, PATIENT);
    expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
    expect(page.model().counters).toMatchObject({ accepted: 60, fulfilled: 59, rejected: 1, lost: 0 });
    run.kill('SIGINT');
    expect(await run.ended).toMatchObject({ code: 0, stderr: 'stopping\n' });
  });

  it('is followed while it grows, line by line, whatever the pieces', async () => {
    const lines = asLines(EVENTS);
    writeFileSync(file('events.jsonl'), '');
    const { url } = await inspect('events.jsonl');
    const page = listen(url);
    for (let i = 0; i < lines.length; i += Math.ceil(lines.length / 7)) {
      appendFileSync(file('events.jsonl'), lines.slice(i, i + Math.ceil(lines.length / 7)));
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    await vi.waitFor(() => {
      expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
    }, PATIENT);
    const late = listen(url);
    await vi.waitFor(() => {
      expect(late.model().counters).toEqual(modelOf(EVENTS).counters);
    }, PATIENT);
  });

  it('takes a last line without a line feed, once', async () => {
    writeFileSync(file('events.jsonl'), asLines(EVENTS).trimEnd());
    const { url } = await inspect('events.jsonl');
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
    }, PATIENT);
    appendFileSync(file('events.jsonl'), `\n${asLines(EVENTS.slice(0, 1))}`);
    await vi.waitFor(() => {
      expect(page.model().counters.accepted).toBe(61);
    }, PATIENT);
    expect(page.model().events).toHaveLength(EVENTS.length + 1);
  });

  it.each([
    [
      'cut',
      () => {
        truncateSync(file('events.jsonl'));
        appendFileSync(file('events.jsonl'), asLines(EVENTS.slice(0, 5)));
      },
    ],
    [
      'replaced',
      () => {
        writeFileSync(file('new.jsonl'), asLines(EVENTS.slice(0, 5)));
        renameSync(file('new.jsonl'), file('events.jsonl'));
      },
    ],
  ])('begins anew when it is %s', async (_what, change) => {
    writeFileSync(file('events.jsonl'), asLines(EVENTS));
    const { url } = await inspect('events.jsonl');
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.model().counters.accepted).toBe(60);
    }, PATIENT);
    change();
    await vi.waitFor(() => {
      expect(page.model().events).toHaveLength(5);
    }, PATIENT);
    expect(page.status()).toMatch(/^following/);
  });

  it('tells of lines that are no events and come later, and goes on', async () => {
    writeFileSync(file('events.jsonl'), asLines(EVENTS.slice(0, 3)));
    const { run, url } = await inspect('events.jsonl');
    const page = listen(url);
    appendFileSync(file('events.jsonl'), `{"half":\n${asLines(EVENTS.slice(3))}`);
    await run.prints(/sluice: `events\.jsonl` line 4 is not JSON\n/);
    await vi.waitFor(() => {
      expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
    }, PATIENT);
    expect(page.status()).toBe('following; 1 line was no event');
  });

  it('ends with a sentence when a line grows without an end', async () => {
    writeFileSync(file('events.jsonl'), asLines(EVENTS));
    const { run } = await inspect('events.jsonl');
    appendFileSync(file('events.jsonl'), 'x'.repeat(3_000_000));
    const { code, stderr } = await run.ended;
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^sluice: `events\.jsonl` line \d+ is longer than/) as string,
    });
  });

  it('may be an export of the inspector', async () => {
    writeFileSync(file('export.json'), exportRecording(modelOf(EVENTS), 'mine'));
    const { url } = await inspect('export.json');
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.status()).toBe('the whole recording');
    }, PATIENT);
    expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
  });
});

describe('a running pipeline', () => {
  const asMessages = (events: readonly FlowEvent[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');

  it('is watched by its server-sent events, and again after its server was away', async () => {
    const streams = new Set<ServerResponse>();
    const { url: source } = await serveStream((response) => {
      response
        .writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
        .write(`: hello\n\n${asMessages(EVENTS.slice(0, 20))}`);
      streams.add(response);
    });
    const { run, url } = await inspect(`${source}?token=secret`);
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.model().events).toHaveLength(20);
    }, PATIENT);
    for (const stream of streams) stream.write(asMessages(EVENTS.slice(20)));
    await vi.waitFor(() => {
      expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
    }, PATIENT);
    for (const stream of streams) stream.destroy();
    await vi.waitFor(() => {
      expect(page.status()).toBe('the connection is lost; trying again');
    }, PATIENT);
    await vi.waitFor(() => {
      expect(page.status()).toBe('following a new run');
    }, PATIENT);
    await vi.waitFor(() => {
      expect(page.model().events).toHaveLength(20);
    }, PATIENT);
    run.kill('SIGTERM');
    const ended = await run.ended;
    expect(ended).toMatchObject({ code: 0, stderr: 'stopping\n' });
    expect(JSON.stringify([ended, page.told])).not.toContain('secret');
  });

  it('is read to its end as lines', async () => {
    const { url: source } = await serveStream((response) => {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(asLines(EVENTS).trimEnd());
    });
    const { url } = await inspect(source);
    const page = listen(url);
    await vi.waitFor(() => {
      expect(page.status()).toBe('the whole recording');
    }, PATIENT);
    expect(page.model().counters).toEqual(modelOf(EVENTS).counters);
  });
});

describe('what can be wrong', () => {
  it.each<readonly [string, readonly string[], RegExp, () => void]>([
    ['a missing file', ['none.jsonl'], /^sluice: there is no file `none\.jsonl`\n$/, () => undefined],
    [
      'a folder',
      ['folder'],
      /^sluice: `folder` is no file that can be read again; give a file of events\n$/,
      () => {
        mkdirSync(file('folder'));
      },
    ],
    [
      'a line that is not JSON',
      ['e.jsonl'],
      /^sluice: `e\.jsonl` line 3 is not JSON\n$/,
      () => {
        writeFileSync(file('e.jsonl'), `${asLines(EVENTS.slice(0, 2))}secret\n`);
      },
    ],
    [
      'JSON that is no event',
      ['e.jsonl'],
      /^sluice: `e\.jsonl` line 2 is not an event of Sluice: no event has its `type`\n$/,
      () => {
        writeFileSync(file('e.jsonl'), `${asLines(EVENTS.slice(0, 1))}{"type":"secret","operator":"x"}\n`);
      },
    ],
    [
      'an event without a field',
      ['e.jsonl'],
      /^sluice: `e\.jsonl` line 1 is not an event of Sluice: its `queued` is no number\n$/,
      () => {
        writeFileSync(file('e.jsonl'), '{"type":"accepted","operator":"batchMap","lane":"user","queued":"secret"}\n');
      },
    ],
    [
      'bytes',
      ['photo.jpg'],
      /^sluice: `photo\.jpg` line 1 is not JSON\n$/,
      () => {
        writeFileSync(file('photo.jpg'), Uint8Array.of(0xff, 0xd8, 10, 0));
      },
    ],
    [
      'a line without an end',
      ['long.jsonl'],
      /^sluice: `long\.jsonl` line 1 is longer than 1048576 bytes/,
      () => {
        writeFileSync(file('long.jsonl'), 'x'.repeat(3_000_000));
      },
    ],
    [
      'an export that is broken',
      ['x.json'],
      /^sluice: `x\.json`: .+\n$/,
      () => {
        writeFileSync(file('x.json'), '{"format":"sluice-recording","version":1,');
      },
    ],
    [
      'an export of a later version',
      ['x.json'],
      /^sluice: `x\.json`: .+\n$/,
      () => {
        writeFileSync(file('x.json'), '{"format":"sluice-recording","version":9,"events":[]}');
      },
    ],
    ['a port that is none', ['e.jsonl', '--port', '-1'], /Expected a whole number from 0 to 65535/, () => undefined],
    [
      'a port for a page',
      ['e.jsonl', '--port', '0', '--html', 'x.html'],
      /^sluice: `--html` serves nothing, so there is no `--port`\n$/,
      () => undefined,
    ],
    ['an address of another kind', ['ftp://host/x'], /^sluice: an address begins with http:\/\/ or https:\/\/\n$/, () => undefined],
    ['nothing', [], /missing required argument 'events'/, () => undefined],
    ['an option nobody knows', ['e.jsonl', '--hmtl', 'x'], /unknown option '--hmtl'/, () => undefined],
    [
      'a report of no events',
      ['e.jsonl', '--html', 'x.html'],
      /^sluice: there are no events in `e\.jsonl`\n$/,
      () => {
        writeFileSync(file('e.jsonl'), '\n');
      },
    ],
    [
      'a report over the recording',
      ['e.jsonl', '--html', 'e.jsonl'],
      /^sluice: `e\.jsonl` is there already and is not a report of `sluice inspect`; give another name, or remove it first\n$/,
      () => {
        writeFileSync(file('e.jsonl'), asLines(EVENTS));
      },
    ],
  ])('%s is said in a sentence, with exit code 2', async (_what, args, message, prepare) => {
    prepare();
    const { code, stderr, stdout } = await runHere(['inspect', ...args], { cwd });
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: '', stderr: expect.stringMatching(message) as string });
    expect(stderr).not.toContain('secret');
    expect(existsSync(file('x.html'))).toBe(false);
  });

  it.each<readonly [string, (response: ServerResponse) => void, number, RegExp]>([
    ['404', (response) => response.writeHead(404).end(), 3, /`http:.*\/flow` answers 404\n$/],
    ['a redirect', (response) => response.writeHead(302, { location: '/' }).end(), 3, /answers 302\n$/],
    [
      'a page',
      (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
      3,
      /answers with a page, not with events\n$/,
    ],
    [
      'another stream',
      (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[]}\n\n'),
      2,
      /message 1 is not an event of Sluice: it has no `type`\n$/,
    ],
    [
      'lines of something else',
      (response) => response.writeHead(200, { 'content-type': 'text/plain' }).end('hello\n'),
      2,
      /line 1 is not JSON\n$/,
    ],
    [
      'a message without an end',
      (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${'x'.repeat(2_000_000)}`),
      2,
      /message 1 is longer than 1048576 bytes/,
    ],
  ])('an address that answers with %s', async (_what, answer, exit, message) => {
    const { url } = await serveStream(answer);
    const { code, stderr } = await runHere(['inspect', `${url}?key=secret`]);
    expect({ code, stderr }).toEqual({ code: exit, stderr: expect.stringMatching(message) as string });
    expect(stderr).not.toContain('secret');
  });

  it('a pipe, which could not be read again', async () => {
    execFileSync('mkfifo', [file('pipe')]);
    const { code, stderr } = await runHere(['inspect', 'pipe'], { cwd });
    expect({ code, stderr }).toEqual({ code: 2, stderr: 'sluice: `pipe` is no file that can be read again; give a file of events\n' });
  });

  it('an address where nobody is', async () => {
    const { url, server } = await serveStream(() => undefined);
    await new Promise((resolve) => server.close(resolve));
    const { code, stderr } = await runHere(['inspect', url]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: `sluice: \`${url}\` cannot be reached (ECONNREFUSED)\n` });
  });

  it.each(['65536', '99999', '-1', '1.5', '', 'NaN'])('a port that there is not: %s', async (port) => {
    writeFileSync(file('e.jsonl'), asLines(EVENTS));
    const { code, stderr } = await runHere(['inspect', 'e.jsonl', `--port=${port}`], { cwd });
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining(`'${port}' is invalid. Expected a whole number from 0 to 65535.`) as string,
    });
  });

  it('a port that is taken', async () => {
    const { url } = await serveStream(() => undefined);
    const { port } = new URL(url);
    writeFileSync(file('e.jsonl'), asLines(EVENTS));
    const { code, stderr } = await runHere(['inspect', 'e.jsonl', '--port', port], { cwd });
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: `sluice: port ${port} is taken; choose another with \`--port\`, or leave it out for a free one\n`,
    });
  });

  it.runIf(process.getuid?.() === 0)('a file that may not be read, and a folder that may not be written', async () => {
    writeFileSync(file('e.jsonl'), asLines(EVENTS), { mode: 0o600 });
    chmodSync(cwd, 0o755);
    const refused = await cli.start(['inspect', 'e.jsonl', '--html', 'x.html'], { cwd, uid: 65_534 }).ended;
    expect(refused).toMatchObject({ code: 2, stderr: 'sluice: cannot read `e.jsonl` (EACCES)\n' });
    const { code, stderr } = await runHere(['inspect', file('e.jsonl'), '--html', 'no/such/folder/x.html'], { cwd });
    expect({ code, stderr }).toEqual({
      code: 4,
      stderr: 'sluice: cannot write `no/such/folder/x.html`: the folder does not exist (ENOENT)\n',
    });
  });
});

describe('the server', () => {
  const ask = (url: string, { method = 'GET', path = '/', host }: { method?: string; path?: string; host?: string } = {}) =>
    new Promise<{ status: number; headers: Readonly<Record<string, unknown>>; body: string }>((resolve, reject) => {
      const { port, hostname } = new URL(url);
      const request = sendRequest({ hostname, port, method, path, headers: { host: host ?? `127.0.0.1:${port}` } }, (response) => {
        let body = '';
        response.setEncoding('utf8').on('data', (text: string) => (body += text));
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
        });
      });
      request.on('error', reject).end();
    });

  it('answers this machine alone, by its own names, and only what it has', async () => {
    writeFileSync(file('e.jsonl'), asLines(EVENTS));
    const { url } = await inspect('e.jsonl');
    const { port } = new URL(url);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) expect(await ask(url, { host })).toMatchObject({ status: 200 });
    for (const host of ['attacker.example', `attacker.example:${port}`, '127.0.0.1', `0.0.0.0:${port}`]) {
      for (const path of ['/', '/events']) expect(await ask(url, { host, path }), host).toMatchObject({ status: 403 });
    }
    for (const path of ['/../package.json', '/e.jsonl', '//', '/?x', '/events/'])
      expect(await ask(url, { path }), path).toMatchObject({ status: 404 });
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) expect(await ask(url, { method }), method).toMatchObject({ status: 405 });
    const { headers, body } = await ask(url);
    expect(headers).toMatchObject({
      'content-security-policy': expect.stringMatching(
        /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; /,
      ) as string,
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
    expect(body).not.toMatch(/(src|href)="(?!data:)/);
  });
});

describe('--html', () => {
  it('writes a page, over an older one, and the same one each time', async () => {
    writeFileSync(file('e.jsonl'), asLines(EVENTS));
    const first = await runHere(['inspect', 'e.jsonl', '--html', 'run.html'], { cwd });
    expect(first).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/^wrote run\.html: \d+ calls of e\.jsonl\n$/) as string,
    });
    const page = readFileSync(file('run.html'), 'utf8');
    expect(await runHere(['inspect', 'e.jsonl', '--html', 'run.html'], { cwd })).toMatchObject({ code: 0 });
    expect(readFileSync(file('run.html'), 'utf8')).toBe(page);
    expect(page).not.toContain('Aggregated');
  });

  it('reads what begins with the mark of a byte order', async () => {
    for (const text of [asLines(EVENTS), exportRecording(modelOf(EVENTS))]) {
      writeFileSync(file('e.jsonl'), `\uFEFF${text}`);
      const { code, stdout, stderr } = await runHere(['inspect', 'e.jsonl', '--html', 'x.html'], { cwd });
      expect([code, stderr, stdout]).toEqual([0, '', expect.stringMatching(/^wrote x\.html: \d+ calls of e\.jsonl\n$/)]);
    }
  });

  it('leaves out a last line that was cut off, and says so', async () => {
    writeFileSync(file('e.jsonl'), `${asLines(EVENTS)}{"type":"sett`);
    const { code, stderr } = await runHere(['inspect', 'e.jsonl', '--html', 'run.html'], { cwd });
    expect({ code, stderr }).toEqual({ code: 0, stderr: `sluice: \`e.jsonl\` line ${String(EVENTS.length + 1)} is not JSON\n` });
  });

  it('reads a stream to its end', async () => {
    const { url } = await serveStream((response) => {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end(asLines(EVENTS));
    });
    expect(await runHere(['inspect', `${url}?key=secret`, '--html', 'run.html'], { cwd })).toMatchObject({ code: 0 });
    expect(readFileSync(file('run.html'), 'utf8')).not.toContain('secret');
  });

  it('writes what a stream has told so far when it is interrupted', async () => {
    const { url } = await serveStream((response) => {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' }).write(`${asLines(EVENTS)}nonsense\n`);
    });
    const run = startHere(['inspect', url, '--html', 'run.html'], { cwd });
    await run.prints(/is not JSON/);
    run.kill('SIGINT');
    expect(await run.ended).toMatchObject({ code: 0 });
    expect(readFileSync(file('run.html'), 'utf8')).toContain('60');
  });
});
