import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerMessage, StreamPlan } from './stream-plan.js';

// A process of its own: what it sees of a connection, it sees when it is its turn, as a real server does.

let inFlight = 0;

const tell = (message: ServerMessage): void => {
  process.send?.(message);
};

const server = createServer((request, response) => {
  const arrived = ++inFlight;
  let id = '';
  response.once('close', () => {
    inFlight--;
    tell({ type: 'ended', id, at: Date.now(), inFlight });
  });
  const named = (its: string): void => {
    id = its;
    tell({ type: 'begun', id, inFlight: arrived });
  };
  serve(request, response, named).catch(() => response.destroy());
});

async function serve(request: IncomingMessage, response: ServerResponse, named: (id: string) => void): Promise<void> {
  let body = '';
  request.setEncoding('utf8');
  for await (const part of request) body += part as string;
  const plan = planIn(body);
  named(plan.id);
  const frames = request.url?.startsWith('/v1/messages') ? MESSAGES : CHAT;
  const write = (frame: string): void => {
    if (!response.destroyed) response.write(frame);
  };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  write(frames.head);
  for (let i = 0; i < plan.chunks || plan.then === 'more'; i++) {
    if (plan.gapMs > 0) await sleep(plan.gapMs);
    if (response.destroyed) return;
    write(frames.chunk(`word${String(i)} `));
  }
  if (plan.then === 'cut') {
    await sleep(2);
    response.destroy();
  }
  if (plan.then === 'error') write(frames.error);
  if (plan.then === 'end') write(frames.tail);
  if (plan.then === 'cut' || plan.then === 'silence') return;
  if (plan.tailMs > 0) await sleep(plan.tailMs);
  response.end();
}

/** The question, wherever it is in the body. */
function planIn(body: string): StreamPlan {
  const [, json = ''] = /PLAN(\{.*?\})NALP/.exec(body.replaceAll('\\"', '"')) ?? [];
  return JSON.parse(json) as StreamPlan;
}

const event = (data: object | '[DONE]', name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

const chunk = (delta: object, finish: string | null = null): string =>
  event({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  });

const CHAT = {
  head: chunk({ role: 'assistant', content: '' }),
  chunk: (content: string) => chunk({ content }),
  error: event({ error: { message: 'overloaded', type: 'server_error', code: null } }),
  tail: chunk({}, 'stop') + event('[DONE]'),
};

const named = (data: { readonly type: string; readonly [field: string]: unknown }): string => event(data, data.type);

const MESSAGES = {
  head:
    named({
      type: 'message_start',
      message: {
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    }) + named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  chunk: (text: string) => named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
  error: named({ type: 'error', error: { type: 'overloaded_error', message: 'overloaded' } }),
  tail:
    named({ type: 'content_block_stop', index: 0 }) +
    named({ type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } }) +
    named({ type: 'message_stop' }),
};

// Kept connections outlast every test.
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  tell({ type: 'listening', port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
