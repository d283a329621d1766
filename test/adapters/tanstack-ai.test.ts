import { ChatClient, fetchServerSentEvents, stream } from '@tanstack/ai-client';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isFlowError } from '../../operators/index.js';
import type { DeltaOptions } from '../../src/adapters/tanstack-ai.js';
import { flowStream } from '../../src/adapters/tanstack-ai.js';
import type { AgentServer } from '../support/agent-server.js';
import { startAgentServer } from '../support/agent-server.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

expectNoUnhandledRejections();

let server: AgentServer;

beforeEach(async () => {
  server = await startAgentServer();
});

afterEach(() => server.close());

type Connection = ReturnType<typeof fetchServerSentEvents>;

describe('a chat of TanStack AI', () => {
  const chatOf = (connection: Connection | ReturnType<typeof stream>) => {
    const heard = { changes: 0, errors: [] as Error[], statuses: [] as string[] };
    const chat = new ChatClient({
      connection,
      onMessagesChange: () => {
        heard.changes++;
      },
      onError: (error) => heard.errors.push(error),
      onStatusChange: (status) => heard.statuses.push(status),
    });
    const text = (): string =>
      chat
        .getMessages()
        .at(-1)
        ?.parts.map((part) => (part.type === 'text' ? part.content : ''))
        .join('') ?? '';
    return { chat, heard, text };
  };
  const url = (query: string): string => `${server.url}/ag-ui?${query}`;

  it('is told of a burst of 600 deltas in a few events, with the same text', async () => {
    const said = async (connection: Connection) => {
      const { chat, heard, text } = chatOf(connection);
      await chat.sendMessage('go on');
      expect(heard.errors).toEqual([]);
      return { text: text(), changes: heard.changes };
    };
    const flowing = await said(flowStream(fetchServerSentEvents(url('chunks=600&tools=3'))));
    const plain = await said(fetchServerSentEvents(url('chunks=600&tools=3')));
    expect(flowing.text).toBe(plain.text);
    expect(flowing.text.length).toBeGreaterThan(2000);
    expect(flowing.changes).toBeLessThan(plain.changes / 10);
  }, 60_000);

  it.each([
    ['a connection', (query: string) => flowStream(fetchServerSentEvents(url(query)))],
    [
      'a factory',
      (query: string) =>
        stream(flowStream((...given: Parameters<Connection['connect']>) => fetchServerSentEvents(url(query)).connect(...given))),
    ],
  ])('stopped, over %s, is aborted at the server, and answers the next question', async (_what, connect) => {
    const { chat, heard, text } = chatOf(connect('chunks=60&everyMs=5'));
    const first = chat.sendMessage('one');
    await expect.poll(() => server.runs[0]?.sent ?? 0).toBeGreaterThan(3);
    chat.stop();
    await first;
    await expect.poll(() => server.ends()).toEqual({ aborted: 1 });
    await chat.sendMessage('two');
    expect(server.ends()).toEqual({ aborted: 1, completed: 1 });
    expect(text()).toMatch(/^w0 .*w59 $/);
    expect(heard.errors).toEqual([]);
  });

  it.each(['failAt=5', 'cutAt=5'])('that fails (%s) says so, and answers the next question', async (how) => {
    const { chat, heard } = chatOf(flowStream(fetchServerSentEvents(url(`chunks=20&everyMs=2&${how}`))));
    await chat.sendMessage('one');
    expect(heard.errors.length).toBeGreaterThan(0);
    expect(chat.getStatus()).toBe('error');
    await chat.sendMessage('two');
    expect(server.runs).toHaveLength(2);
  });
});

interface Event {
  readonly type: string;
  readonly messageId?: string;
  readonly toolCallId?: string;
  readonly delta?: string;
  readonly rawEvent?: unknown;
  readonly metadata?: object;
}

const piece = (delta: string, messageId = 'm'): Event => ({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta });

async function all<E>(events: AsyncIterable<E>): Promise<E[]> {
  const seen: E[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

describe('flowStream', () => {
  const from = (events: readonly Event[], options?: DeltaOptions) =>
    flowStream(async function* (_messages: unknown[]) {
      for (const event of events) yield await Promise.resolve(event);
    }, options)([]);

  const event = fc.oneof(
    fc.record({ type: fc.constant('TEXT_MESSAGE_CONTENT'), messageId: fc.constantFrom('a', 'b'), delta: fc.string({ maxLength: 3 }) }),
    fc.record({ type: fc.constant('TOOL_CALL_ARGS'), toolCallId: fc.constantFrom('a', 'b'), delta: fc.string({ maxLength: 3 }) }),
    fc.constantFrom<Event>({ type: 'CUSTOM' }, { type: 'TEXT_MESSAGE_END', messageId: 'a' }, { ...piece('raw'), rawEvent: {} }),
  ) as fc.Arbitrary<Event>;

  it('keeps every text and the place of everything else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 30 }), fc.constantFrom(1, 4, 4096), async (events, maxChars) => {
        expect(sections(await all(from(events, { maxChars, maxWaitMs: 0 })))).toEqual(sections(events));
      }),
    );
  });

  /** What each text got between two events that are no plain delta. */
  function sections(events: readonly Event[]): unknown[] {
    const found: unknown[] = [];
    let texts: Record<string, string> = {};
    for (const one of events) {
      if (one.delta === undefined || one.rawEvent !== undefined) {
        found.push(texts, one);
        texts = {};
      } else {
        const key = `${one.type} ${one.messageId ?? one.toolCallId ?? ''}`;
        texts[key] = (texts[key] ?? '') + one.delta;
      }
    }
    return [...found, texts];
  }

  it('merges metadata, later keys first', async () => {
    const events = [{ ...piece('x'), metadata: { a: 1, b: 1 } }, { ...piece('y'), metadata: { b: 2 } }, piece('z')];
    expect(await all(from(events))).toEqual([{ ...piece('xyz'), metadata: { a: 1, b: 2 } }]);
  });

  it('opens nothing before it is read, and anew for every reader', async () => {
    let opened = 0;
    const flowing = flowStream((_messages: unknown[]) => {
      opened++;
      return (async function* () {
        yield await Promise.resolve(piece('x'));
      })();
    })([]);
    expect(opened).toBe(0);
    expect([await all(flowing), await all(flowing)]).toEqual([[piece('x')], [piece('x')]]);
    expect(opened).toBe(2);
  });

  /** A source that says one thing and then nothing more, whatever its signal says. */
  function stalled() {
    const seen: { signal: AbortSignal | undefined; left: boolean } = { signal: undefined, left: false };
    const factory = (_messages: unknown[], _data?: unknown, signal?: AbortSignal): AsyncIterable<Event> => {
      seen.signal = signal;
      let said = false;
      return {
        [Symbol.asyncIterator]: () => ({
          next: () => {
            if (said) return new Promise(() => undefined);
            said = true;
            return Promise.resolve({ done: false, value: piece('x') });
          },
          return: () => {
            seen.left = true;
            return Promise.resolve({ done: true, value: undefined });
          },
        }),
      };
    };
    return { seen, factory };
  }

  it('leaving aborts the signal of the source at once, also while it stalls', async () => {
    const { seen, factory } = stalled();
    for await (const one of flowStream(factory, { maxWaitMs: 1 })([])) {
      expect(one).toEqual(piece('x'));
      break;
    }
    expect(seen.left).toBe(true);
    expect(seen.signal?.reason).toMatchObject({ name: 'AbortError' });
    const iterator = flowStream(stalled().factory, { maxWaitMs: Infinity })([])[Symbol.asyncIterator]();
    const pending = iterator.next();
    await iterator.return?.();
    expect(await pending).toEqual({ done: true, value: undefined });
  });

  it('ends with the reason of the chat signal, behind what waits, when the source does not hear it', async () => {
    const { seen, factory } = stalled();
    const controller = new AbortController();
    const iterator = flowStream(factory, { maxWaitMs: Infinity })([], undefined, controller.signal)[Symbol.asyncIterator]();
    const first = iterator.next();
    await new Promise((resolve) => setTimeout(resolve, 5));
    controller.abort();
    expect(await first).toEqual({ done: false, value: piece('x') });
    await expect(iterator.next()).rejects.toBe(controller.signal.reason);
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(seen).toMatchObject({ left: true, signal: { aborted: true } });
  });

  it('passes the error of its source behind what waits', async () => {
    const failure = new Error('cut');
    const iterator = flowStream(async function* (_messages: unknown[]) {
      yield await Promise.resolve(piece('x'));
      throw failure;
    })([])[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toEqual(piece('x'));
    await expect(iterator.next()).rejects.toBe(failure);
  });

  it('keeps what else a connection has', () => {
    const connection = flowStream({ ...fetchServerSentEvents('/api'), extra: 5 });
    expect(connection.extra).toBe(5);
    expect(Object.keys(connection)).toEqual(Object.keys({ ...fetchServerSentEvents('/api'), extra: 5 }));
  });

  it.each([undefined, null, 5, '/api/chat', {}, { connect: 5 }])('refuses %o for a source', (source) => {
    let thrown: unknown;
    try {
      flowStream(source as never);
    } catch (error) {
      thrown = error;
    }
    expect(isFlowError(thrown, 'FLOW_CONFIG_INVALID') && thrown.option).toBe('source');
  });
});
