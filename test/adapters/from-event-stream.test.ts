import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import fc from 'fast-check';
import { firstValueFrom, lastValueFrom, take, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { isFlowError } from '../../operators/index.js';
import type { EventStreamContext, EventStreamOptions, ServerEvent } from '../../src/adapters/fetch.js';
import { fromEventStream, limitFetch } from '../../src/adapters/fetch.js';
import { ProviderError } from '../../src/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

const TYPE = { 'content-type': 'text/event-stream' };
const event = (data: string, lastEventId = '', type = 'message'): ServerEvent => ({ type, data, lastEventId });

/** An answer whose body comes in these pieces. */
function answered(pieces: readonly (string | Uint8Array)[], headers: Record<string, string> = TYPE): typeof fetch {
  return () =>
    Promise.resolve(
      new Response(
        new ReadableStream<Uint8Array>({
          start: (controller) => {
            for (const piece of pieces) controller.enqueue(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece);
            controller.close();
          },
        }),
        { headers },
      ),
    );
}

const all = (options: EventStreamOptions): Promise<ServerEvent[]> =>
  lastValueFrom(fromEventStream('http://host/', options).pipe(toArray()));

describe('a body', () => {
  it.each<[string, string, readonly ServerEvent[]]>([
    ['with a name, an id and lines', 'event: add\nid: 7\ndata: a\ndata: b\n\n', [event('a\nb', '7', 'add')]],
    ['with comments and unknown fields', ': hi\n\n:\nfoo: 1\ndata: a\n: more\n\n', [event('a')]],
    [
      'whose id goes on until another comes',
      'id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: x\0\ndata: d\n\n',
      [event('a', '1'), event('b', '1'), event('c'), event('d')],
    ],
    ['with empty data', 'data\n\ndata:\n\n\n\nevent: x\n\n', [event(''), event('')]],
    ['with one space taken, and colons left', 'data:  a: b\ndata:c\n\n', [event(' a: b\nc')]],
    ['that begins with a BOM', '\uFEFFdata: a\n\n', [event('a')]],
    ['with CRLF', 'data: a\r\ndata: b\r\n\r\n', [event('a\nb')]],
    ['with CR', 'data: a\rdata: b\r\r', [event('a\nb')]],
    ['with all three', 'data: a\r\ndata: b\rdata: c\n\r\n', [event('a\nb\nc')]],
    ['that ends within an event', 'data: a\n\ndata: b\n', [event('a')]],
    ['with nothing in it', '', []],
    ['with a BOM in the middle', 'data: \uFEFFa\n\n', [event('\uFEFFa')]],
  ])('%s', async (_what, body, events) => {
    expect(await all({ fetch: answered([body]) })).toEqual(events);
  });

  const line = fc.oneof(
    fc.constantFrom('', 'data', ': c', 'id: 1', 'event: x', 'retry: 9', 'data: ü€😀'),
    fc.string({ unit: 'binary', maxLength: 6 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
  );

  it('says the same wherever its bytes are cut, and with any line ends', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 12 }),
        fc.constantFrom('\n', '\r\n', '\r'),
        fc.array(fc.nat({ max: 80 }), { maxLength: 6 }),
        async (lines, end, cuts) => {
          const body = lines.map((one) => one + end).join('');
          const bytes = new TextEncoder().encode(body);
          const ends = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
          const pieces = [0, ...ends].map((start, i) => bytes.slice(start, ends[i] ?? bytes.length));
          const whole = await all({ fetch: answered([lines.map((one) => `${one}\n`).join('')]) });
          expect(await all({ fetch: answered(pieces) })).toEqual(whole);
        },
      ),
    );
  });

  it('takes events of as many characters as are allowed, and no longer one, wherever its bytes are cut', async () => {
    const max = 10;
    const prefix = 'data: '.length;
    const text = (least: number, most: number): fc.Arbitrary<string> =>
      fc.string({ unit: fc.constantFrom('x', ' ', ':'), minLength: least, maxLength: most });
    const long = fc.oneof(
      text(0, 4).map((end) => `data: ${'d'.repeat(8)}${end}`),
      text(0, 12).map((data) => `data:${data}`),
      text(prefix, 12).map((end) => `: ${end}`),
      text(prefix, 12).map((end) => `id: ${end}`),
      fc.constantFrom('', '', 'data', 'data: ab', 'event: add', 'x'.repeat(max + prefix), `: ${'x'.repeat(5000)}`),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(long, { maxLength: 8 }),
        fc.boolean(),
        fc.array(fc.nat({ max: 5100 }), { maxLength: 6 }),
        async (lines, isOpen, cuts) => {
          let data: readonly string[] = [];
          const expected: unknown[] = [];
          for (const [i, line] of lines.entries()) {
            const hasEnd = !isOpen || i < lines.length - 1;
            if (hasEnd && /^data(:|$)/.test(line)) data = [...data, line.replace(/^data:? ?/, '')];
            const isTooLong = line.length > max + prefix || data.join('\n').length > max;
            if (isTooLong) {
              expected.push('an event is longer than 10 characters');
              break;
            }
            if (line !== '' || !hasEnd) continue;
            if (data.length > 0) expected.push(data.join('\n'));
            data = [];
          }
          const body = new TextEncoder().encode(lines.join('\n') + (isOpen || lines.length === 0 ? '' : '\n'));
          const ends = [...new Set(cuts.map((cut) => cut % (body.length + 1)))].sort((a, b) => a - b);
          for (const pieces of [
            [body],
            [0, ...ends].map((start, i) => body.slice(start, ends[i] ?? body.length)),
            [...body].map((byte) => Uint8Array.of(byte)),
          ]) {
            const seen: unknown[] = [];
            await fromEventStream('http://host/', { fetch: answered(pieces), maxEventChars: max })
              .forEach((one) => void seen.push(one.data))
              .catch((error: unknown) => void seen.push((error as Error).message));
            expect(seen).toEqual(expected);
          }
        },
      ),
    );
  });

  it('says an event at the CR that ends it, and does not wait for what follows', async () => {
    let send = (_text: string): void => undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        send = (text) => {
          controller.enqueue(new TextEncoder().encode(text));
        };
      },
    });
    const seen: ServerEvent[] = [];
    const subscription = fromEventStream('http://host/', { fetch: () => Promise.resolve(new Response(body, { headers: TYPE })) }).subscribe(
      (one) => seen.push(one),
    );
    await expect.poll(() => body.locked).toBe(true);
    send('data: a\r\r');
    await expect.poll(() => seen).toEqual([event('a')]);
    send('\ndata: b\r\n');
    send('\r');
    await expect.poll(() => seen).toEqual([event('a'), event('b')]);
    subscription.unsubscribe();
  });

  it('that ends, breaks or is left at any byte has emitted the events complete by then, and nothing else', async () => {
    const text = 'id: 1\ndata: ü€😀\n\n: c\r\ndata: a\r\ndata: b\r\n\r\nevent: x\rdata: 😀\r\r';
    const bytes = new TextEncoder().encode(text);
    const whole = [event('ü€😀', '1'), event('a\nb', '1'), event('😀', '1', 'x')];
    // A CRLF may be cut: its CR is an end already.
    const ends = ['data: ü€😀\n\n', 'b\r\n\r', text].map(
      (part) => new TextEncoder().encode(text.slice(0, text.indexOf(part) + part.length)).length,
    );
    for (let at = 0; at <= bytes.length; at++) {
      const expected = whole.slice(0, ends.filter((end) => end <= at).length);
      for (const how of ['ends', 'breaks', 'is left'] as const) {
        const broken = new Error('cut');
        let cancelled = false;
        const body = new ReadableStream<Uint8Array>({
          pull: (controller) => {
            if (pulled++ === 0) controller.enqueue(bytes.slice(0, at));
            else if (how === 'ends') controller.close();
            else if (how === 'breaks') controller.error(broken);
          },
          cancel: () => void (cancelled = true),
        });
        let pulled = 0;
        const seen: unknown[] = [];
        await new Promise<void>((over) => {
          const reading = fromEventStream('http://host/', {
            fetch: () => Promise.resolve(new Response(body, { headers: TYPE })),
          }).subscribe({
            next: (one) => seen.push(one),
            error: (error: unknown) => {
              seen.push(error);
              over();
            },
            complete: over,
          });
          if (how !== 'is left') return;
          setTimeout(() => {
            reading.unsubscribe();
            over();
          });
        });
        expect([at, how, seen]).toEqual([at, how, how === 'breaks' ? [...expected, broken] : expected]);
        expect(cancelled).toBe(how === 'is left');
      }
    }
  });

  it('that never ends an event ends with an error, and is left', async () => {
    let cancelled = false;
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        pulled++;
        controller.enqueue(new TextEncoder().encode('data: x'.repeat(100)));
      },
      cancel: () => {
        cancelled = true;
      },
    });
    const endless = fromEventStream('http://host/', {
      fetch: () => Promise.resolve(new Response(body, { headers: TYPE })),
      maxEventChars: 10_000,
      reconnect: { delayMs: 0 },
    });
    await expect(lastValueFrom(endless)).rejects.toThrow('an event is longer than 10000 characters');
    expect(cancelled).toBe(true);
    expect(pulled).toBeLessThan(20);
  });
});

/** A server whose connections are told what to do one after the other; the last one again and again. */
async function serverOf(...plays: readonly ((request: IncomingMessage, response: ServerResponse) => unknown)[]) {
  const seen: {
    readonly id: string | undefined;
    readonly method: string | undefined;
    readonly accept: string | undefined;
    readonly at: number;
    closed: boolean;
    body: string;
  }[] = [];
  const server = createServer((request, response) => {
    const one = {
      id: request.headers['last-event-id'] as string | undefined,
      method: request.method,
      accept: request.headers.accept,
      at: performance.now(),
      closed: false,
      body: '',
    };
    seen.push(one);
    response.on('close', () => {
      one.closed = !response.writableFinished;
    });
    void readText(request).then(
      (body) => {
        one.body = body;
      },
      () => undefined,
    );
    plays[Math.min(seen.length, plays.length) - 1]?.(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`, seen };
}

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const says = (text: string) => (_request: IncomingMessage, response: ServerResponse) => response.writeHead(200, TYPE).end(text);
const begins = (text: string) => (_request: IncomingMessage, response: ServerResponse) => response.writeHead(200, TYPE).write(text);
const cuts = (text: string) => (_request: IncomingMessage, response: ServerResponse) =>
  response.writeHead(200, TYPE).write(text, () => setTimeout(() => response.destroy(), 20));
const refuses =
  (status: number, headers: Record<string, string> = {}) =>
  (_request: IncomingMessage, response: ServerResponse) =>
    response.writeHead(status, headers).end('{"error":{"message":"no"}}');

describe('over a real connection', () => {
  const quick = { delayMs: 1, jitter: 'none' } as const;

  it('sends nothing before it is subscribed to, and once for each subscriber, with method and body', async () => {
    const { url, seen } = await serverOf(says('data: a\n\n'));
    const stream = fromEventStream(new Request(url, { method: 'POST', body: '{"stream":true}' }));
    expect(seen).toEqual([]);
    expect(await Promise.all([firstValueFrom(stream), firstValueFrom(stream)])).toEqual([event('a'), event('a')]);
    await expect
      .poll(() => seen.map(({ method, body, accept }) => [method, body, accept]))
      .toEqual([
        ['POST', '{"stream":true}', 'text/event-stream'],
        ['POST', '{"stream":true}', 'text/event-stream'],
      ]);
  });

  it.each<[string, (url: string) => string | URL | ((context: EventStreamContext) => Promise<Response>)]>([
    ['an address', (url) => url],
    ['a URL', (url) => new URL(url)],
    [
      'a factory',
      (url) =>
        ({ signal }) =>
          fetch(url, { signal }),
    ],
  ])('leaving %s closes the connection at the server, also when nothing comes', async (_what, request) => {
    const { url, seen } = await serverOf(begins('data: a\n\n'));
    const got: ServerEvent[] = [];
    const subscription = fromEventStream(request(url)).subscribe((one) => got.push(one));
    await expect.poll(() => got).toEqual([event('a')]);
    subscription.unsubscribe();
    await expect.poll(() => seen[0]?.closed).toBe(true);
    expect(await firstValueFrom(fromEventStream(request(url)).pipe(take(1)))).toEqual(event('a'));
    await expect.poll(() => seen[1]?.closed).toBe(true);
  });

  it('left before the headers came, it closes the connection too', async () => {
    const { url, seen } = await serverOf(() => undefined);
    const subscription = fromEventStream(url).subscribe();
    await expect.poll(() => seen).toHaveLength(1);
    subscription.unsubscribe();
    await expect.poll(() => seen[0]?.closed).toBe(true);
  });

  it('left while a factory is deaf to its signal, it cancels what comes too late', async () => {
    let answer = (_response: Response): void => undefined;
    let cancelled = false;
    const late = new Promise<Response>((resolve) => {
      answer = resolve;
    });
    const subscription = fromEventStream(() => late).subscribe();
    subscription.unsubscribe();
    answer(new Response(new ReadableStream({ cancel: () => void (cancelled = true) }), { headers: TYPE }));
    await expect.poll(() => cancelled).toBe(true);
  });

  it('fails with the signal of the request', async () => {
    const { url, seen } = await serverOf(begins('data: a\n\n'));
    const controller = new AbortController();
    const ended = lastValueFrom(fromEventStream(new Request(url, { signal: controller.signal }), { reconnect: quick }));
    await expect.poll(() => seen).toHaveLength(1);
    controller.abort();
    await expect(ended).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => seen[0]?.closed).toBe(true);
    expect(seen).toHaveLength(1);
  });

  it.each([400, 401, 404, 429, 500, 503])('a status of %i is a ProviderError, with what the server says', async (status) => {
    const { url } = await serverOf(refuses(status));
    const error: unknown = await lastValueFrom(fromEventStream(url)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ status, message: `${String(status)} no` });
  });

  it.each(['text/html', 'application/json', 'text/event-streams', ''])(
    'an answer of type %o is no event stream, and is not asked for again',
    async (type) => {
      const { url, seen } = await serverOf((_request, response) =>
        response.writeHead(200, type === '' ? {} : { 'content-type': type }).end('<html>'),
      );
      await expect(lastValueFrom(fromEventStream(url, { reconnect: quick }))).rejects.toThrow(
        `the answer is no text/event-stream but \`${type}\``,
      );
      expect(seen).toHaveLength(1);
    },
  );

  it('a type with parameters in any case is right', async () => {
    expect(await all({ fetch: answered(['data: a\n\n'], { 'content-type': 'Text/Event-Stream; charset=utf-8' }) })).toEqual([event('a')]);
  });

  it('a status of 204 is the end', async () => {
    const { url } = await serverOf((_request, response) => response.writeHead(204).end());
    expect(await lastValueFrom(fromEventStream(url, { reconnect: quick, reconnectAtEnd: true }).pipe(toArray()))).toEqual([]);
  });

  it('a cut socket is an error, behind all that came', async () => {
    const { url } = await serverOf(cuts('data: a\n\ndata: b'));
    const got: ServerEvent[] = [];
    const error = await new Promise((resolve) => {
      fromEventStream(url).subscribe({ next: (one) => got.push(one), error: resolve });
    });
    expect(got).toEqual([event('a')]);
    expect(error).toBeInstanceOf(TypeError);
  });

  it('goes on where it was cut: the last id, the pause the server asked for, and no event twice', async () => {
    const { url, seen } = await serverOf(
      cuts('retry: 60\nid: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: lost'),
      refuses(503),
      cuts('id: 3\ndata: c\n\n'),
      says('data: d\n\n'),
    );
    expect(await lastValueFrom(fromEventStream(url, { reconnect: quick }).pipe(toArray()))).toEqual([
      event('a', '1'),
      event('b', '2'),
      event('c', '3'),
      event('d', '3'),
    ]);
    expect(seen.map(({ id }) => id)).toEqual([undefined, '2', '2', '3']);
    expect((seen[1]?.at ?? 0) - (seen[0]?.at ?? 0)).toBeGreaterThanOrEqual(55);
  });

  it('a Request with a body is sent again whole', async () => {
    const { url, seen } = await serverOf(refuses(503), says('data: a\n\n'));
    expect(await firstValueFrom(fromEventStream(new Request(url, { method: 'POST', body: 'all of it' }), { reconnect: quick }))).toEqual(
      event('a'),
    );
    await expect.poll(() => seen.map(({ body }) => body)).toEqual(['all of it', 'all of it']);
  });

  it('gives up after so many attempts in a row, and an event begins anew', async () => {
    const { url, seen } = await serverOf(refuses(500), refuses(500), cuts('data: a\n\n'), refuses(500));
    await expect(lastValueFrom(fromEventStream(url, { reconnect: { ...quick, maxAttempts: 3 } }))).rejects.toMatchObject({ status: 500 });
    expect(seen).toHaveLength(5);
  });

  it('does not ask again for what is refused for good', async () => {
    const { url, seen } = await serverOf(refuses(404));
    await expect(lastValueFrom(fromEventStream(url, { reconnect: quick }))).rejects.toMatchObject({ status: 404 });
    expect(seen).toHaveLength(1);
  });

  it('as EventSource, goes on after the end, until 204', async () => {
    const { url, seen } = await serverOf(says('id: 1\ndata: a\n\n'), says('id: 2\ndata: b\n\n'), (_request, response) =>
      response.writeHead(204).end(),
    );
    expect(await lastValueFrom(fromEventStream(url, { reconnect: quick, reconnectAtEnd: true }).pipe(toArray()))).toEqual([
      event('a', '1'),
      event('b', '2'),
    ]);
    expect(seen.map(({ id }) => id)).toEqual([undefined, '1', '2']);
  });

  it('left in a pause, it connects no more', async () => {
    const { url, seen } = await serverOf(refuses(503));
    const subscription = fromEventStream(url, { reconnect: { delayMs: 600, jitter: 'none' } }).subscribe({ error: () => undefined });
    await expect.poll(() => seen).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    subscription.unsubscribe();
    await new Promise((resolve) => setTimeout(resolve, 900));
    expect(seen).toHaveLength(1);
  });

  it('tells a factory the attempt and the last id', async () => {
    const { url } = await serverOf(refuses(503), cuts('id: 9\ndata: a\n\n'), says('data: b\n\n'));
    const told: (readonly [number, string])[] = [];
    const stream = fromEventStream(
      ({ signal, attempt, lastEventId }) => {
        told.push([attempt, lastEventId]);
        return fetch(url, { signal });
      },
      { reconnect: quick },
    );
    expect(await lastValueFrom(stream.pipe(toArray()))).toEqual([event('a', '9'), event('b', '9')]);
    expect(told).toEqual([
      [1, ''],
      [2, ''],
      [2, '9'],
    ]);
  });

  it('a missing server, a factory that throws and an invalid random number are errors', async () => {
    const failure = new Error('mine');
    await expect(lastValueFrom(fromEventStream('http://127.0.0.1:9/'))).rejects.toThrow();
    await expect(lastValueFrom(fromEventStream(() => Promise.reject(failure)))).rejects.toBe(failure);
    await expect(
      lastValueFrom(
        fromEventStream(() => {
          throw failure;
        }),
      ),
    ).rejects.toBe(failure);
    const { url } = await serverOf(refuses(503));
    const error: unknown = await lastValueFrom(fromEventStream(url, { reconnect: {}, random: () => 7 })).catch((reason: unknown) => reason);
    expect(isFlowError(error, 'FLOW_CALLBACK')).toBe(true);
  });

  it.each([undefined, null, 5, 'data: x', {}, { status: 200 }, { status: 200, headers: {} }, new Headers()])(
    'what gives no response but %o is asked once, and is told so',
    async (given) => {
      let asked = 0;
      const gives = () => {
        asked++;
        return given as never;
      };
      for (const [callback, stream] of [
        ['request', fromEventStream(gives, { reconnect: {} })],
        ['fetch', fromEventStream('http://host/', { fetch: gives, reconnect: {} })],
      ] as const) {
        const error: unknown = await lastValueFrom(stream).catch((reason: unknown) => reason);
        expect(error).toMatchObject({ code: 'FLOW_CALLBACK', operator: 'fromEventStream', callback });
      }
      expect(asked).toBe(2);
    },
  );

  it('keeps to a limiter through its `fetch`', async () => {
    const { url, seen } = await serverOf(refuses(503), says('data: a\n\n'));
    const limited = limitFetch({ retry: { delayMs: 1 } });
    expect(await firstValueFrom(fromEventStream(url, { fetch: limited }))).toEqual(event('a'));
    expect(seen).toHaveLength(2);
  });
});
