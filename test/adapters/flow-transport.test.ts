import { Chat } from '@ai-sdk/react';
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';
import { DefaultChatTransport } from 'ai';
import { Chat as Chat3 } from 'ai-react3';
import { DefaultChatTransport as DefaultChatTransport6 } from 'ai6';
import fc from 'fast-check';
import { asyncScheduler } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FlowTransportOptions } from '../../src/adapters/ai-sdk.js';
import { flowTransport } from '../../src/adapters/ai-sdk.js';
import type { AgentServer } from '../support/agent-server.js';
import { startAgentServer } from '../support/agent-server.js';
import { sized } from '../support/deep.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

let server: AgentServer;

expectNoUnhandledRejections();

beforeEach(async () => {
  server = await startAgentServer();
});

afterEach(async () => {
  await server.close();
});

const SDKS = [
  ['AI SDK 7', Chat, DefaultChatTransport],
  // Another package with the same names: to the types they are strangers.
  ['AI SDK 6', Chat3 as unknown as typeof Chat, DefaultChatTransport6 as unknown as typeof DefaultChatTransport],
] as const;

describe.each(SDKS)('a chat of %s', (_name, ChatOf, TransportOf) => {
  const chatOf = (query: string, options?: FlowTransportOptions, id = 'chat') => {
    const finished: { readonly isAbort: boolean; readonly isError: boolean; readonly text: string }[] = [];
    const errors: Error[] = [];
    const transport = flowTransport(new TransportOf<UIMessage>({ api: `${server.url}/ai-sdk?${query}` }), options);
    const chat = new ChatOf<UIMessage>({
      id,
      transport,
      onFinish: ({ isAbort, isError, message }) => finished.push({ isAbort, isError, text: textOf(message) }),
      onError: (error) => errors.push(error),
    });
    return { chat, finished, errors };
  };

  it('has the same message as without', async () => {
    const { chat } = chatOf('chunks=600&tools=3');
    await chat.sendMessage({ text: 'go on' });
    const plain = new ChatOf<UIMessage>({
      id: 'plain',
      transport: new TransportOf<UIMessage>({ api: `${server.url}/ai-sdk?chunks=600&tools=3` }),
    });
    await plain.sendMessage({ text: 'go on' });
    const shape = ({ parts }: UIMessage) => parts.map((part) => ({ ...part, toolCallId: undefined }));
    expect(chat.messages.map(shape)).toEqual(plain.messages.map(shape));
    expect(textOf(chat.lastMessage).length).toBeGreaterThan(2000);
    expect(server.ends()).toEqual({ completed: 2 });
  }, 30_000);

  it('of three overlapping sends the server completes one and sees two aborted', async () => {
    const { chat, finished, errors } = chatOf('chunks=200&everyMs=5');
    const statuses: string[] = [];
    const sent: Promise<void>[] = [];
    for (const text of ['one', 'two', 'three']) {
      sent.push(chat.sendMessage({ text }));
      await expect.poll(() => server.runs.at(-1)?.prompt === text && (server.runs.at(-1)?.sent ?? 0) > 3).toBe(true);
      statuses.push(chat.status);
    }
    await Promise.all(sent);
    await expect.poll(() => server.ends()).toEqual({ aborted: 2, completed: 1 });
    expect(server.runs.map(({ end }) => end)).toEqual(['aborted', 'aborted', 'completed']);
    expect(statuses).toEqual(['streaming', 'streaming', 'streaming']);
    expect(finished.map(({ isAbort }) => isAbort)).toEqual([true, true, false]);
    expect(finished.at(-1)?.text).toMatch(/^w0 .*w199 $/);
    expect(chat.status).toBe('ready');
    expect(errors).toEqual([]);
  });

  it('is never ready while a newer message waits for its answer', async () => {
    const { chat } = chatOf('chunks=50&everyMs=5');
    const first = chat.sendMessage({ text: 'one' });
    await expect.poll(() => server.runs[0]?.sent ?? 0).toBeGreaterThan(3);
    const held = holdBack(server);
    const second = chat.sendMessage({ text: 'two' });
    await expect.poll(() => server.ends().aborted).toBe(1);
    const statuses = new Set<string>();
    for (let i = 0; i < 10; i++) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      statuses.add(chat.status);
    }
    expect(statuses).not.toContain('ready');
    held();
    await Promise.all([first, second]);
    expect(chat.status).toBe('ready');
  });

  it('aborts at the server what is stopped, also right after it superseded another', async () => {
    const { chat, finished } = chatOf('chunks=500&everyMs=5');
    const first = chat.sendMessage({ text: 'one' });
    await expect.poll(() => server.runs[0]?.sent ?? 0).toBeGreaterThan(3);
    const second = chat.sendMessage({ text: 'two' });
    await expect.poll(() => server.runs).toHaveLength(2);
    await chat.stop();
    await Promise.all([first, second]);
    await expect.poll(() => server.ends().running ?? 0).toBe(0);
    expect(server.ends().completed).toBeUndefined();
    expect(finished.map(({ isAbort }) => isAbort)).toEqual([true, true]);
    expect(chat.status).toBe('ready');
  });

  it('answers on after a run that failed, a socket that was cut and a server that is not there', async () => {
    const { chat, errors, finished } = chatOf('chunks=50&everyMs=2&cutAt=20');
    await chat.sendMessage({ text: 'one' });
    expect(chat.status).toBe('error');
    expect(errors).toHaveLength(1);
    await chat.sendMessage({ text: 'two' });
    expect(errors).toHaveLength(2);
    expect(finished.map(({ isError }) => isError)).toEqual([true, true]);
    const gone = chatOf('', {}, 'gone');
    await server.close();
    await gone.chat.sendMessage({ text: 'three' });
    expect(gone.errors).toHaveLength(1);
    expect(gone.chat.status).toBe('error');
  });

  it('leaves other chats alone, and itself without `supersede`', async () => {
    const one = chatOf('chunks=40&everyMs=5', {}, 'one');
    const two = chatOf('chunks=40&everyMs=5', {}, 'two');
    await Promise.all([one.chat.sendMessage({ text: 'a' }), two.chat.sendMessage({ text: 'b' })]);
    const all = chatOf('chunks=40&everyMs=5', { supersede: false });
    await Promise.all([all.chat.sendMessage({ text: 'a' }), all.chat.sendMessage({ text: 'b' })]);
    expect(server.ends()).toEqual({ completed: 4 });
  });
});

/** Keeps answers from beginning until the returned function is called. */
function holdBack({ url }: AgentServer): () => void {
  const real = globalThis.fetch;
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  globalThis.fetch = async (...given) => {
    if (typeof given[0] === 'string' && given[0].startsWith(url)) await released;
    return real(...given);
  };
  return () => {
    globalThis.fetch = real;
    release();
  };
}

function textOf(message: UIMessage | undefined): string {
  return (message?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
}

const ASKED = { chatId: 'c', messages: [] as UIMessage[], trigger: 'submit-message' as const, messageId: undefined };

/** A transport whose streams are ours to fill. */
function byHand() {
  const opened: {
    readonly signal: AbortSignal | undefined;
    readonly controller: ReadableStreamDefaultController<UIMessageChunk>;
    cancelled: unknown;
  }[] = [];
  const open = (abortSignal: AbortSignal | undefined) => {
    const stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => {
        opened.push({ signal: abortSignal, controller, cancelled: undefined });
      },
      cancel: (reason) => {
        (opened.at(-1) as { cancelled: unknown }).cancelled = reason;
      },
    });
    return Promise.resolve(stream);
  };
  const transport: ChatTransport<UIMessage> = {
    sendMessages: ({ abortSignal }) => open(abortSignal),
    reconnectToStream: ({ abortSignal }) => open(abortSignal),
  };
  return { opened, transport };
}

async function readAll(stream: ReadableStream<UIMessageChunk>): Promise<UIMessageChunk[]> {
  const reader = stream.getReader();
  const chunks: UIMessageChunk[] = [];
  for (let read = await reader.read(); !read.done; read = await reader.read()) chunks.push(read.value);
  return chunks;
}

describe('a stream', () => {
  const chunk = fc.oneof(
    fc.record({
      type: fc.constantFrom('text-delta' as const, 'reasoning-delta' as const),
      id: fc.constantFrom('a', 'b'),
      delta: fc.string({ maxLength: 3 }),
    }),
    fc.record({
      type: fc.constant('tool-input-delta' as const),
      toolCallId: fc.constantFrom('a', 'b'),
      inputTextDelta: fc.string({ maxLength: 3 }),
    }),
    fc.record({
      type: fc.constant('text-delta' as const),
      id: fc.constant('a'),
      delta: fc.string(),
      providerMetadata: fc.constant({ p: { n: 1 } }),
    }),
    fc.constantFrom<UIMessageChunk>({ type: 'start-step' }, { type: 'data-x', data: 1 }, { type: 'text-end', id: 'a' }),
  ) as fc.Arbitrary<UIMessageChunk>;
  const delta = (of: UIMessageChunk): string | undefined =>
    'providerMetadata' in of
      ? undefined
      : of.type === 'tool-input-delta'
        ? of.inputTextDelta
        : of.type === 'text-delta' || of.type === 'reasoning-delta'
          ? of.delta
          : undefined;

  it('keeps every text and the place of everything else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(chunk, { maxLength: 30 }), fc.constantFrom(1, 4, 4096), async (chunks, maxChars) => {
        const { opened, transport } = byHand();
        const stream = await flowTransport(transport, { maxChars, maxWaitMs: 0 }).sendMessages({ ...ASKED, abortSignal: undefined });
        for (const each of chunks) opened[0]?.controller.enqueue(each);
        opened[0]?.controller.close();
        expect(sections(await readAll(stream))).toEqual(sections(chunks));
      }),
      { numRuns: sized(60, 200) },
    );
  });

  /** What each part got between two chunks that are no plain delta. */
  function sections(chunks: readonly UIMessageChunk[]): unknown[] {
    const all: unknown[] = [];
    let texts: Record<string, string> = {};
    for (const each of chunks) {
      const text = delta(each);
      if (text === undefined) {
        all.push(texts, each);
        texts = {};
      } else {
        const { type, id, toolCallId } = each as { type: string; id?: string; toolCallId?: string };
        const key = `${type} ${id ?? toolCallId ?? ''}`;
        texts[key] = (texts[key] ?? '') + text;
      }
    }
    return [...all, texts];
  }

  it('waits `maxWaitMs` for more, on the clock it is given', async () => {
    const { opened, transport } = byHand();
    const stream = await flowTransport(transport, { maxWaitMs: 25, scheduler: asyncScheduler }).sendMessages({
      ...ASKED,
      abortSignal: undefined,
    });
    const reader = stream.getReader();
    const first = reader.read();
    opened[0]?.controller.enqueue({ type: 'text-delta', id: 'a', delta: 'x' });
    await new Promise((resolve) => setTimeout(resolve, 5));
    opened[0]?.controller.enqueue({ type: 'text-delta', id: 'a', delta: 'y' });
    expect((await first).value).toEqual({ type: 'text-delta', id: 'a', delta: 'xy' });
    await reader.cancel();
  });

  it('that is cancelled aborts the request', async () => {
    const { opened, transport } = byHand();
    const stream = await flowTransport(transport).sendMessages({ ...ASKED, abortSignal: undefined });
    await stream.cancel('left');
    expect(opened[0]?.signal?.aborted).toBe(true);
    expect(opened[0]?.signal?.reason).toMatchObject({ name: 'AbortError' });
  });

  it('that is never read does not hold back the next one', async () => {
    const { opened, transport } = byHand();
    const flow = flowTransport(transport);
    await flow.sendMessages({ ...ASKED, abortSignal: undefined });
    const second = await flow.sendMessages({ ...ASKED, abortSignal: undefined });
    expect(opened[0]?.signal?.aborted).toBe(true);
    opened[1]?.controller.enqueue({ type: 'start' });
    opened[1]?.controller.close();
    expect(await readAll(second)).toEqual([{ type: 'start' }]);
  });

  it('whose transport hears no signal ends all the same, in all its stages', async () => {
    const { opened, transport } = byHand();
    let never = true;
    const deaf = flowTransport<UIMessage>({
      ...transport,
      sendMessages: (given) => (never ? new Promise(() => undefined) : transport.sendMessages(given)),
    });
    const controller = new AbortController();
    const pending = deaf.sendMessages({ ...ASKED, abortSignal: controller.signal });
    controller.abort();
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' });
    never = false;
    const again = new AbortController();
    const stream = await deaf.sendMessages({ ...ASKED, abortSignal: again.signal });
    const read = stream.getReader().read();
    again.abort();
    await expect(read).rejects.toMatchObject({ name: 'AbortError' });
    expect(opened[0]?.cancelled).toMatchObject({ name: 'AbortError' });
  });

  it.each([
    ['stopped', undefined, [], 'AbortError'],
    ['stopped', undefined, ['x'], 'AbortError'],
    ['stopped', undefined, ['x', 'y'], 'AbortError'],
    ['stopped', new TypeError('too long'), ['x', 'y'], 'TypeError'],
    ['superseded', undefined, ['x', 'y'], 'AbortError'],
    ['cancelled', undefined, ['x', 'y'], 'done'],
  ] as const)(
    'that is %s (reason: %s) while %j waits gives it before it ends, unless its reader has left',
    async (how, reason, ids, end) => {
      const { opened, transport } = byHand();
      const flow = flowTransport(transport, { maxWaitMs: Infinity });
      const controller = new AbortController();
      const reader = (await flow.sendMessages({ ...ASKED, abortSignal: controller.signal })).getReader();
      const seen: unknown[] = [];
      const reading = (async (): Promise<void> => {
        for (let read = await reader.read(); !read.done; read = await reader.read()) seen.push(read.value);
      })().then(
        () => 'done',
        (error: unknown) => (error as Error).name,
      );
      const chunks = ids.map((id) => ({ type: 'text-delta', id, delta: 'waits' }) as const);
      for (const each of chunks) opened[0]?.controller.enqueue(each);
      await new Promise((resolve) => setTimeout(resolve, 5));
      expect(seen).toEqual([]);
      if (how === 'stopped') {
        controller.abort(reason);
      } else if (how === 'cancelled') {
        await reader.cancel();
      } else {
        const newer = await flow.sendMessages({ ...ASKED, abortSignal: undefined });
        opened[1]?.controller.enqueue({ type: 'start' });
        await newer.getReader().read();
      }
      expect(await reading).toBe(end);
      expect(seen).toEqual(how === 'cancelled' ? [] : chunks);
      expect(opened[0]?.signal?.aborted).toBe(true);
    },
  );

  it('that comes after its request was left is cancelled unread', async () => {
    const { opened, transport } = byHand();
    const controller = new AbortController();
    const late = flowTransport<UIMessage>({
      ...transport,
      sendMessages: async (given) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return transport.sendMessages(given);
      },
    });
    const pending = late.sendMessages({ ...ASKED, abortSignal: controller.signal });
    controller.abort();
    await expect(pending).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => opened[0]?.cancelled).toMatchObject({ name: 'AbortError' });
  });

  it('of a reconnection gives way to a newer one and to a message, never the other way round', async () => {
    const { opened, transport } = byHand();
    const flow = flowTransport(transport);
    await flow.reconnectToStream({ chatId: 'c' });
    await flow.reconnectToStream({ chatId: 'c' });
    await flow.sendMessages({ ...ASKED, abortSignal: undefined });
    await flow.reconnectToStream({ chatId: 'c' });
    expect(opened.map(({ signal }) => signal?.aborted)).toEqual([true, true, false, false]);
    const none = flowTransport<UIMessage>({ ...transport, reconnectToStream: () => Promise.resolve(null) });
    expect(await none.reconnectToStream({ chatId: 'c' })).toBeNull();
  });

  it('passes an error of its source behind what waits, and one of the request', async () => {
    const { opened, transport } = byHand();
    const stream = await flowTransport(transport, { maxWaitMs: Infinity }).sendMessages({ ...ASKED, abortSignal: undefined });
    const reader = stream.getReader();
    const first = reader.read();
    opened[0]?.controller.enqueue({ type: 'text-delta', id: 'a', delta: 'x' });
    const failure = new TypeError('network error');
    await new Promise((resolve) => setTimeout(resolve, 5));
    opened[0]?.controller.error(failure);
    expect((await first).value).toEqual({ type: 'text-delta', id: 'a', delta: 'x' });
    await expect(reader.read()).rejects.toBe(failure);
    const broken = flowTransport<UIMessage>({ ...transport, sendMessages: () => Promise.reject(failure) });
    await expect(broken.sendMessages({ ...ASKED, abortSignal: undefined })).rejects.toBe(failure);
  });
});
