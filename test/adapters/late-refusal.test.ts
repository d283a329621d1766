import { describe, expect, it } from 'vitest';
import { withLateRefusal } from '../../src/adapters/support/late-refusal.js';
import { limitedFetch } from '../../src/adapters/support/limited-fetch.js';

const encoder = new TextEncoder();
const event = (type: string, data: object): string => `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const start = event('message_start', { type: 'message_start' });
const ping = event('ping', { type: 'ping' });
const piece = event('content_block_start', { type: 'content_block_start' });
const overloaded = event('error', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });
const other = event('error', { type: 'error', error: { type: 'invalid_request_error', message: 'no' } });

/** A stream in pieces of so many bytes. */
function streamed(
  text: string,
  size: number,
  headers: Readonly<Record<string, string>> = { 'content-type': 'text/event-stream' },
): Response {
  const bytes = encoder.encode(text);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.slice(at, (at += size)));
    },
  });
  return new Response(body, { headers });
}

describe.each([1, 7, 4096])('a stream in pieces of %i bytes', (size) => {
  it.each([
    ['at once', overloaded],
    ['after its start', start + overloaded],
    ['after a ping', start + ping + overloaded + piece],
  ])('that is overloaded %s is a 529', async (_when, text) => {
    const response = await withLateRefusal(streamed(text, size));
    expect(response.status).toBe(529);
    expect(await response.json()).toMatchObject({ error: { type: 'overloaded_error' } });
  });

  it.each([
    ['has shown a piece', start + piece + overloaded],
    ['fails in another way', start + other],
    ['goes well', start + ping + piece + event('message_stop', {})],
    ['is empty', ''],
  ])('that %s comes through whole', async (_what, text) => {
    const response = await withLateRefusal(streamed(text, size));
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    expect(await response.text()).toBe(text);
  });
});

it('a response that is no stream of events is not changed', async () => {
  const response = streamed(overloaded, 10, { 'content-type': 'application/json' });
  expect(await withLateRefusal(response)).toBe(response);
});

it('a stream that is left is cancelled at its source', async () => {
  let cancelled = false;
  const source = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      controller.enqueue(encoder.encode(piece));
    },
    cancel: () => {
      cancelled = true;
    },
  });
  const response = await withLateRefusal(new Response(source, { headers: { 'content-type': 'text/event-stream' } }));
  await response.body?.cancel();
  expect(cancelled).toBe(true);
});

it('under the rules it is sent again', async () => {
  let sent = 0;
  const send = async (): Promise<Response> => withLateRefusal(streamed(++sent === 1 ? start + overloaded : start + piece, 16));
  const limited = limitedFetch('limitFetch', { retry: { delayMs: 0 } }, send);
  const response = await limited('http://host/v1/messages', { method: 'POST', body: '{}' });
  expect(await response.text()).toBe(start + piece);
  expect(sent).toBe(2);
});
