import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { limitOpenAI, openAIEmbeddings } from '../../src/adapters/openai.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';

const retry = { initialMs: 1, jitter: 'none' } as const;
const T = { timeout: 15000 };
const soon = { timeout: 3000 };
let api: ModelApi;
let raw: { url: string; stop(): Promise<void>; bodies: string[]; reply: (res: any, req: any) => void; aborted: number };
const unhandled: unknown[] = [];
process.on('unhandledRejection', (e) => unhandled.push(e));
beforeAll(async () => {});
beforeEach(async () => {
  api = await startModelApi({ chunks: 30, chunkGapMs: 5 });
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => (body += d));
    res.on('close', () => { if (!res.writableFinished) raw.aborted++; });
    req.on('end', () => { raw.bodies.push(body); raw.reply(res, req); });
  });
  await new Promise<void>((r) => server.listen(0, '127.0.0.1', r));
  raw = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies: [], aborted: 0,
    reply: (res) => res.end('{}'),
    stop: async () => { server.closeAllConnections(); await new Promise((d) => server.close(d)); },
  };
});
afterEach(async () => { await api.stop(); await raw.stop(); });
const oai = (baseURL: string, o = {}) => new OpenAI({ apiKey: 'x', baseURL, ...o });
const msgs = (c: string) => [{ role: 'user' as const, content: c }];
const LONG = 'word '.repeat(60);

it('content-length 0', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const c = limitOpenAI(oai(raw.url), { limiter, retry });
  raw.reply = (res) => res.writeHead(200, { 'content-type': 'application/json', 'content-length': '0' }).end();
  await c.delete('/x');
  console.log('CL0 executing', limiter.executing);
  const l2 = createLimiter({ concurrency: 1 });
  const a = limitAnthropic(new Anthropic({ apiKey: 'x', baseURL: raw.url }), { limiter: l2, retry });
  await a.delete('/x');
  console.log('CL0 anthropic executing', l2.executing);
  // plain 200 with no type, length 0
  const l3 = createLimiter({ concurrency: 1 });
  raw.reply = (res) => res.writeHead(200, { 'content-length': '0' }).end();
  await limitOpenAI(oai(raw.url), { limiter: l3, retry }).delete('/x');
  console.log('CL0 no type', l3.executing);
  raw.reply = (res) => res.writeHead(204).end();
  await limitOpenAI(oai(raw.url), { limiter: l3, retry }).delete('/x');
  console.log('204', l3.executing);
});

it('usage of a GET', T, async () => {
  const limiter = createLimiter({ tokensPerMinute: 60000, burstSeconds: 60, headroom: 1, learn: false });
  const c = limitOpenAI(oai(raw.url), { limiter, retry });
  raw.reply = (res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[{"results":[{"input_tokens":50000000,"output_tokens":7}]}]}');
  await c.get('/organization/usage/completions');
  console.log('GET usage: tokens', limiter.snapshot().tokens);
  const l = createLimiter({ tokensPerMinute: 60000, burstSeconds: 60, headroom: 1, learn: false });
  raw.reply = (res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":20000}');
  const a = limitAnthropic(new Anthropic({ apiKey: 'x', baseURL: raw.url }), { limiter: l, retry, cost: () => ({ tokens: 0 }) });
  await a.messages.countTokens({ model: 'm', messages: msgs('x') });
  console.log('count_tokens: tokens', l.snapshot().tokens);
});

it('uploads', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const c = limitOpenAI(oai(raw.url), { limiter, retry });
  let n = 0;
  raw.reply = (res) => (++n < 3 ? res.writeHead(503).end('{}') : res.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"f"}'));
  const f = await c.files.create({ purpose: 'assistants', file: await toFile(Readable.from([Buffer.from('hello')]), 'a.txt') });
  console.log('upload', f.id, raw.bodies.map((b) => b.includes('hello')), limiter.executing);
  raw.bodies.length = 0; n = 0;
  const r = await c.files.create({ purpose: 'assistants', file: new Response('world') as any }).catch((e) => e);
  console.log('upload2', r.id, raw.bodies.map((b) => b.includes('world')), limiter.executing);
  // streaming raw body
  n = 0; raw.bodies.length = 0;
  const s = await c.post('/x', { body: Readable.from([Buffer.from('str')]) as any, headers: { 'content-type': 'application/octet-stream' } }).catch((e) => e);
  console.log('stream body', s.constructor.name, s.status, raw.bodies, limiter.executing);
  n = 5; raw.bodies.length = 0;
  raw.reply = (res) => res.writeHead(200, { 'content-type': 'audio/mpeg' }).end(Buffer.alloc(100000, 1));
  const sp = await c.audio.speech.create({ model: 'm', voice: 'alloy', input: 'x' });
  console.log('speech before', limiter.executing, (await sp.arrayBuffer()).byteLength, limiter.executing);
  const sp2 = await c.audio.speech.create({ model: 'm', voice: 'alloy', input: 'x' });
  await sp2.body!.cancel();
  console.log('speech cancel', limiter.executing);
});

it('streams', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const c = limitOpenAI(oai(api.baseUrl), { limiter, retry });
  const mk = () => c.chat.completions.create({ model: 'm', messages: msgs(LONG), stream: true });
  let s = await mk();
  s.controller.abort();
  await expect.poll(() => limiter.executing, soon).toBe(0);
  s = await mk();
  const [a, b] = s.tee();
  for await (const _ of a) break;
  for await (const _ of b) break;
  console.log('tee broken executing', limiter.executing, api.aborted);
  s.controller.abort();
  await expect.poll(() => limiter.executing, soon).toBe(0);
  s = await mk();
  const rs = s.toReadableStream();
  const rd = rs.getReader(); await rd.read(); await rd.cancel();
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const w = await c.chat.completions.create({ model: 'm', messages: msgs(LONG), stream: true }).withResponse();
  for await (const _ of w.data) break;
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const r = await c.chat.completions.create({ model: 'm', messages: msgs(LONG), stream: true }).asResponse();
  await r.body!.cancel();
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const h = c.responses.stream({ model: 'm', input: LONG });
  for await (const e of h) if (e.type === 'response.output_text.delta') break;
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const h2 = c.responses.stream({ model: 'm', input: LONG });
  h2.on('response.output_text.delta', () => h2.abort());
  await h2.done().catch(() => {});
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const h3 = c.chat.completions.stream({ model: 'm', messages: msgs(LONG) });
  h3.once('content', () => h3.abort());
  await h3.done().catch((e) => console.log('chat helper', e.constructor.name));
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const h4 = c.responses.stream({ model: 'm', input: 'short' });
  console.log('final', (await h4.finalResponse()).output_text, limiter.executing);
  await expect.poll(() => limiter.executing, soon).toBe(0);
  api.fail({ cutStream: 2 });
  s = await mk();
  await (async () => { for await (const _ of s); })().catch((e) => console.log('cut', e.constructor.name, e.message));
  await expect.poll(() => limiter.executing, soon).toBe(0);
  await expect.poll(() => api.inFlight, soon).toBe(0);
  // dropped & aborted
  const ac = new AbortController();
  void c.chat.completions.create({ model: 'm', messages: msgs('a'), stream: true }, { signal: ac.signal }).catch(() => {});
  void c.chat.completions.create({ model: 'm', messages: msgs('b'), stream: true }, { signal: ac.signal }).catch(() => {});
  ac.abort();
  await expect.poll(() => limiter.executing, soon).toBe(0);
  await new Promise((r) => setTimeout(r, 100));
  console.log('unhandled', unhandled.length, limiter.snapshot().queued);
  const an = limitAnthropic(new Anthropic({ apiKey: 'x', baseURL: api.url }), { limiter, retry });
  const as = await an.beta.messages.create({ model: 'm', max_tokens: 10, messages: msgs(LONG), stream: true });
  for await (const _ of as) break;
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const as2 = an.beta.messages.stream({ model: 'm', max_tokens: 10, messages: msgs(LONG) });
  for await (const e of as2) if (e.type === 'content_block_delta') break;
  await expect.poll(() => limiter.executing, soon).toBe(0);
  const as3 = an.messages.stream({ model: 'm', max_tokens: 10, messages: msgs(LONG) });
  as3.controller.abort();
  await as3.done().catch((e) => console.log('an', e.constructor.name));
  await expect.poll(() => limiter.executing, soon).toBe(0);
  console.log('unhandled', unhandled.length);
});

it('timeouts, limiter closing', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const c = limitOpenAI(oai(raw.url, { timeout: 150 }), { limiter, retry });
  raw.reply = (res) => { res.writeHead(200, { 'content-type': 'application/json' }); res.write('{"a":'); };
  let e: any = await c.get('/x').catch((x) => x);
  console.log('body timeout', e.constructor.name, limiter.executing);
  await expect.poll(() => raw.aborted, soon).toBe(1);
  raw.reply = () => {};
  e = await c.get('/x').catch((x) => x);
  console.log('timeout', e.constructor.name, limiter.executing, raw.bodies.length);
  e = await c.get('/x', { maxRetries: 1 }).catch((x) => x);
  console.log('timeout maxRetries 1', e.constructor.name, limiter.executing, raw.bodies.length);
  const l2 = createLimiter({ concurrency: 1 });
  const c2 = limitOpenAI(oai(raw.url), { limiter: l2, retry });
  const first = c2.get('/x').catch((x) => x);
  await expect.poll(() => l2.executing, soon).toBe(1);
  const second = c2.get('/x').catch((x) => x);
  await expect.poll(() => l2.snapshot().queued, soon).toBe(1);
  l2.close();
  e = await second;
  console.log('closed', e.constructor.name, e.cause?.name);
  e = await Promise.race([first, new Promise((r) => setTimeout(r, 1000, 'still running'))]);
  console.log('first', e?.constructor?.name, e?.cause?.name ?? e, l2.executing);
});

it('embeddings odd', T, async () => {
  for (const [name, body] of Object.entries({
    badBase64: '{"data":[{"index":0,"embedding":"*"},{"index":1,"embedding":"*"},{"index":2,"embedding":"*"},{"index":3,"embedding":"*"}]}',
    nullBody: 'null',
    nullEntry: '{"data":[null,null,null,null]}',
    empty: '{}',
    odd: '{"data":[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":"AAAA"},{"index":2,"embedding":"AAAA"},{"index":3,"embedding":"AAAA"}]}',
    text: 'NOTJSON',
  })) {
    raw.bodies.length = 0;
    raw.reply = (res) => res.writeHead(200, { 'content-type': name === 'text' ? 'text/html' : 'application/json' }).end(body);
    for (const [kind, em] of [
      ['client', createEmbedder({ ...openAIEmbeddings(oai(raw.url), { model: 'm' }), retry })],
      ['own', createEmbedder({ baseUrl: raw.url, model: 'm', retry })],
    ] as const) {
      raw.bodies.length = 0;
      const rs = await Promise.allSettled(['a', 'b', 'c', 'd'].map((t) => em.embedAsync(t)));
      console.log('EMB', name, kind, raw.bodies.length, rs.map((r) => r.status === 'rejected' ? `${r.reason.name}: ${r.reason.message}` : 'ok')[0]);
      await em.drain();
    }
  }
});

it('agents: model that ignores the signal', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const req: any = { input: 'x', modelSettings: {}, tools: [], handoffs: [], outputType: 'text', tracing: false };
  let n = 0;
  const m = limitModel({ getResponse: async () => ({}) as any, async *getStreamedResponse() {
    n++; yield { type: 'output_text_delta', delta: 'a' } as any; await new Promise(() => {}); } }, { limiter, attemptTimeoutMs: 50, retry });
  const it2 = (async () => { const out = []; for await (const e of m.getStreamedResponse(req)) out.push(e); return out; })().catch((x) => x);
  const e: any = await Promise.race([it2, new Promise((r) => setTimeout(r, 1000, 'HANGS'))]);
  console.log('ignores signal', e?.name ?? e, limiter.executing, limiter.snapshot());
});
