import { getEventListeners } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic, { toFile } from '@anthropic-ai/sdk';
import OpenAI, { AzureOpenAI } from 'openai';
import { lastValueFrom, toArray } from 'rxjs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { anthropicChat, limitAnthropic, createAnthropicMiddleware } from '../../src/adapters/anthropic.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';

const retry = { initialMs: 1, jitter: 'none' } as const;
const T = { timeout: 20000 };
const soon = { timeout: 3000 };
const unhandled: unknown[] = [];
process.on('unhandledRejection', (e) => unhandled.push(e));
const tick = (ms = 20) => new Promise((r) => setTimeout(r, ms));
let raw: { url: string; stop(): Promise<void>; bodies: string[]; reply: (res: any, req: any) => void; aborted: number };
beforeEach(async () => {
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => (body += d));
    res.on('close', () => { if (!res.writableFinished) raw.aborted++; });
    req.on('end', () => { raw.bodies.push(body); raw.reply(res, req); });
  });
  await new Promise<void>((r) => server.listen(0, '127.0.0.1', r));
  raw = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies: [], aborted: 0, reply: (res) => res.end('{}'),
    stop: async () => { server.closeAllConnections(); await new Promise((d) => server.close(d)); } };
});
afterEach(async () => { await raw.stop(); });
const oai = (o = {}) => new OpenAI({ apiKey: 'x', baseURL: raw.url, ...o });
const ant = (o = {}) => new Anthropic({ apiKey: 'x', baseURL: raw.url, ...o });
const msgs = (c: string) => [{ role: 'user' as const, content: c }];
const sse = (...events: string[]) => (res: any) => { res.writeHead(200, { 'content-type': 'text/event-stream' }); for (const e of events) res.write(`${e}\n\n`); };
const json = (o: any) => (res: any) => res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(o));

it('bad streams (never ended by the server)', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const c = limitOpenAI(oai(), { limiter, retry });
  for (const [n, reply] of Object.entries({
    error: sse('data: {"choices":[]}', 'data: {"error":{"message":"late","code":"server_error"}}'),
    malformed: sse('data: {"choices":[]}', 'data: {nope'),
    done: sse('data: {"choices":[]}', 'data: [DONE]'),
    doneFirst: sse('data: [DONE]'),
  })) {
    raw.reply = reply;
    const e = await c.chat.completions.create({ model: 'm', messages: [], stream: true }).then(async (s) => { for await (const _ of s); return 'ended'; }).catch((x) => `${x.constructor.name} ${x.message}`);
    await expect.poll(() => limiter.executing, soon).toBe(0).catch(() => console.log('LEAK', n));
    console.log('openai', n, e, limiter.executing, raw.aborted);
  }
  const a = limitAnthropic(ant(), { limiter, retry });
  for (const [n, reply] of Object.entries({
    error: sse('event: ping\ndata: {"type":"ping"}', 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"late"}}'),
    malformed: sse('event: message_start\ndata: {nope'),
  })) {
    raw.reply = reply;
    const e = await a.messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true }).then(async (s) => { for await (const _ of s); return 'ended'; }).catch((x) => `${x.constructor.name} ${x.message}`);
    await expect.poll(() => limiter.executing, soon).toBe(0).catch(() => console.log('LEAK', n));
    console.log('anthropic', n, e, limiter.executing);
    const h = a.messages.stream({ model: 'm', max_tokens: 1, messages: [] });
    console.log('helper', await h.finalMessage().catch((x) => `${x.constructor.name} ${x.message}`), limiter.executing);
    await expect.poll(() => limiter.executing, soon).toBe(0).catch(() => console.log('LEAK helper', n));
  }
  // batches results jsonl
  raw.reply = (res, req) => (req.url.includes('results') ? res.writeHead(200, { 'content-type': 'application/x-jsonl' }).write('{"custom_id":"1"}\n{"custom_id":"2"}\n') : json({ id: 'b', results_url: `${raw.url}/v1/results` })(res));
  for await (const r of await a.messages.batches.results('b')) { console.log('batch', r.custom_id); break; }
  await expect.poll(() => limiter.executing, soon).toBe(0).catch(() => console.log('LEAK batch'));
  console.log('batches', limiter.executing);
  console.log('unhandled', unhandled);
});

it('uploads anthropic', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  let n = 0;
  raw.reply = (res) => (++n < 3 ? res.writeHead(529).end('{}') : json({ id: 'f' })(res));
  const f: any = await limitAnthropic(ant(), { limiter, retry }).beta.files.upload({ file: await toFile(Buffer.from('hello'), 'a.txt') });
  console.log('anthropic upload', f.id, raw.bodies.map((b) => b.includes('hello')), limiter.executing);
});

it('listeners', T, async () => {
  const limiter = createLimiter({ concurrency: 4 });
  raw.reply = json({ choices: [], content: [], data: [] });
  const c = limitOpenAI(oai(), { limiter, retry }), a = limitAnthropic(ant(), { limiter, retry });
  const ac = new AbortController();
  for (let i = 0; i < 30; i++) { await c.chat.completions.create({ model: 'm', messages: [] }, { signal: ac.signal }); await a.messages.create({ model: 'm', max_tokens: 1, messages: [] }, { signal: ac.signal }); }
  console.log('listeners', getEventListeners(ac.signal, 'abort').length);
  const ac2 = new AbortController();
  const p = oai();
  for (let i = 0; i < 30; i++) await p.chat.completions.create({ model: 'm', messages: [] }, { signal: ac2.signal });
  console.log('listeners plain', getEventListeners(ac2.signal, 'abort').length);
});

it('drain with waiters; closed in pause', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  raw.reply = async (res) => { await tick(30); json({ choices: [] })(res); };
  const c = limitOpenAI(oai(), { limiter, retry });
  const ps = [1, 2, 3].map(() => c.chat.completions.create({ model: 'm', messages: [] }).then(() => 'ok', (e) => `${e.constructor.name} ${e.cause?.name}`));
  await expect.poll(() => limiter.snapshot().queued, soon).toBe(2);
  const d = limiter.drain();
  console.log('drain', await Promise.all(ps), await d);
  console.log('after', await c.get('/x').catch((e) => `${e.constructor.name} ${e.cause?.name} ${e.message}`));
});

it('retry false and maxRetries; stacked', T, async () => {
  raw.reply = (res) => res.writeHead(503, { 'retry-after-ms': '1' }).end('{}');
  const c = limitOpenAI(oai({ maxRetries: 5 }), { retry: false });
  await c.get('/x').catch(() => {}); console.log('retry false', raw.bodies.length); raw.bodies.length = 0;
  await c.get('/x', { maxRetries: 2 }).catch(() => {}); console.log('retry false, maxRetries 2', raw.bodies.length); raw.bodies.length = 0;
  const l = createLimiter({ concurrency: 1 });
  const mw = ant({ maxRetries: 2, middleware: [createAnthropicMiddleware({ limiter: l, retry: { ...retry, maxAttempts: 2 } })] });
  await mw.get('/x').catch((e) => console.log(e.constructor.name)); console.log('mw', raw.bodies.length); raw.bodies.length = 0;
  raw.reply = (res) => res.socket.destroy();
  await mw.get('/x').catch((e) => console.log(e.constructor.name)); console.log('mw cut', raw.bodies.length); raw.bodies.length = 0;
  // upload once, cut with client's retries
  const az = new AzureOpenAI({ apiKey: 'k', apiVersion: 'v', endpoint: raw.url, maxRetries: 4 });
  await limitOpenAI(az, { retry }).chat.completions.create({ model: 'dep', messages: [] }).catch((e) => console.log('azure', e.constructor.name)); console.log('azure', raw.bodies.length); raw.bodies.length = 0;
  await limitOpenAI(az, { retry }).withOptions({ timeout: 1000, maxRetries: 0 }).chat.completions.create({ model: 'dep', messages: [] }).catch(() => {}); console.log('azure withOptions', raw.bodies.length); raw.bodies.length = 0;
  // brokenBody
  raw.reply = (res) => { res.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' }); res.write('{"h', () => res.socket.destroy()); };
  const e1: any = await limitOpenAI(oai(), { retry }).get('/x').catch((e) => e);
  const e2: any = await oai().get('/x').catch((e) => e);
  console.log('broken body', e1.constructor.name, e1.message, '| plain', e2.constructor.name, e2.message);
});

it('aborts', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const reason = new Error('my reason');
  raw.reply = () => {};
  for (const [n, mk] of Object.entries({
    openai: (s: AbortSignal) => limitOpenAI(oai(), { limiter, retry }).get('/x', { signal: s }),
    openaiPlain: (s: AbortSignal) => oai().get('/x', { signal: s }),
    anthropic: (s: AbortSignal) => limitAnthropic(ant(), { limiter, retry }).get('/x', { signal: s }),
    anthropicPlain: (s: AbortSignal) => ant().get('/x', { signal: s }),
    chat: (s: AbortSignal) => createModelCaller({ ...openAIChat(oai(), { model: 'm' }), limiter, retry }).callAsync({ messages: [] }, { signal: s }),
    stream: (s: AbortSignal) => lastValueFrom(createModelCaller({ ...openAIChat(oai(), { model: 'm' }), limiter, retry }).stream({ messages: [] }, { signal: s }).pipe(toArray())),
    anchat: (s: AbortSignal) => createModelCaller({ ...anthropicChat(ant()), limiter, retry }).callAsync({ model: 'm', max_tokens: 1, messages: [] }, { signal: s }),
    embed: (s: AbortSignal) => createEmbedder({ ...openAIEmbeddings(oai(), { model: 'm' }), limiter, retry }).embedAsync('x', { signal: s }),
  })) {
    const ac = new AbortController();
    raw.bodies.length = 0; const before = raw.aborted;
    const p = mk(ac.signal).catch((e: any) => e);
    await expect.poll(() => raw.bodies.length, soon).toBe(1);
    ac.abort(reason);
    const e: any = await p;
    await expect.poll(() => limiter.executing, soon).toBe(0).catch(() => console.log('LEAK'));
    await expect.poll(() => raw.aborted - before, soon).toBe(1).catch(() => console.log('NOT ABORTED'));
    console.log('abort', n, e.constructor.name, e === reason, e.message, e.cause?.message);
  }
  // mid stream
  raw.reply = sse('data: {"choices":[{"delta":{"content":"a"}}]}');
  const ac = new AbortController();
  const got: any[] = [];
  const e: any = await new Promise((r) => createModelCaller({ ...openAIChat(oai(), { model: 'm' }), limiter, retry }).stream({ messages: [] }, { signal: ac.signal }).subscribe({ next: (x) => { got.push(x); ac.abort(reason); }, error: r, complete: () => r('complete') }));
  console.log('mid', got.length, e === reason, limiter.executing);
  const s = await limitOpenAI(oai(), { limiter, retry, deadlineMs: 100 }).chat.completions.create({ model: 'm', messages: [], stream: true });
  console.log('deadline mid', await (async () => { for await (const _ of s); return 'ended'; })().catch((x) => `${x.constructor.name} ${x.message}`), limiter.executing);
  const ab = new AbortController();
  const s2 = await limitAnthropic(ant(), { limiter, retry }).messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true }, { signal: ab.signal });
  setTimeout(() => ab.abort(reason), 50);
  console.log('anthropic abort mid', await (async () => { for await (const _ of s2); return 'ended'; })().catch((x) => `${x.constructor.name} ${x.message}`), limiter.executing);
  const s3 = await ant().messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true }, { signal: (() => { const c = new AbortController(); setTimeout(() => c.abort(reason), 50); return c.signal; })() });
  console.log('anthropic plain abort mid', await (async () => { for await (const _ of s3); return 'ended'; })().catch((x) => `${x.constructor.name} ${x.message}`));
  const oc = new AbortController(); setTimeout(() => oc.abort(reason), 80);
  const s4 = await limitOpenAI(oai(), { limiter, retry }).chat.completions.create({ model: 'm', messages: [], stream: true }, { signal: oc.signal });
  console.log('openai abort mid', await (async () => { for await (const _ of s4); return 'ended'; })().catch((x) => `${x.constructor.name} ${x.message}`), limiter.executing);
  const od = new AbortController(); setTimeout(() => od.abort(reason), 80);
  const s5 = await oai().chat.completions.create({ model: 'm', messages: [], stream: true }, { signal: od.signal });
  console.log('openai plain abort mid', await (async () => { for await (const _ of s5); return 'ended'; })().catch((x) => `${x.constructor.name} ${x.message}`));
  console.log('unhandled', unhandled);
});
