import { AsyncLocalStorage } from 'node:async_hooks';
import OpenAI from 'openai';
import { Observable, of, VirtualTimeScheduler } from 'rxjs';
import { expect, it } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { createFetch } from '../../src/adapters/fetch.js';
import { limitOpenAI, openAIChat } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';

const T = { timeout: 15000 };
const retry = { initialMs: 1, jitter: 'none' } as const;
const unhandled: unknown[] = [];
process.on('unhandledRejection', (e) => unhandled.push(e));
const tick = (ms = 20) => new Promise((r) => setTimeout(r, ms));
const req = (o = {}): any => ({ input: 'x', modelSettings: {}, tools: [], handoffs: [], outputType: 'text', tracing: false, ...o });
const d = (t: string): any => ({ type: 'output_text_delta', delta: t });

it('virtual time', T, async () => {
  const scheduler = new VirtualTimeScheduler();
  const limiter = createLimiter({ concurrency: 1, scheduler });
  let n = 0;
  const signals: AbortSignal[] = [];
  const f = createFetch({ limiter, scheduler, attemptTimeoutMs: 100, retry, fetch: (async (_: any, init: any) => { signals.push(init.signal); if (++n === 1) await new Promise((_, rej) => init.signal.addEventListener('abort', () => rej(init.signal.reason))); return new Response('ok'); }) as any });
  const p = f('http://x').then((r) => r.text(), (e) => e);
  scheduler.flush();
  await tick();
  scheduler.flush();
  await tick();
  console.log('virtual', n, signals.map((s) => s.aborted), await Promise.race([p, tick(100).then(() => 'HANG')]), limiter.executing);
});

it('held each misuse', T, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  let opened = 0, left = 0;
  const model: any = { getResponse: async () => ({ usage: undefined, output: [] }), async *getStreamedResponse() { opened++; try { yield d('a'); await tick(5); yield d('b'); yield d('c'); } finally { left++; } } };
  const m = limitModel(model, { limiter, retry });
  let g: any = m.getStreamedResponse(req());
  console.log('return before', await g.return(), await g.next(), opened, limiter.executing);
  g = m.getStreamedResponse(req());
  console.log('throw before', await g.throw(new Error('t')).catch((e: any) => e.message), opened, limiter.executing);
  g = m.getStreamedResponse(req());
  console.log('two nexts', (await Promise.all([g.next(), g.next()])).map((x: any) => x.value.delta), limiter.executing);
  console.log('return', await g.return(), limiter.executing, opened, left);
  g = m.getStreamedResponse(req());
  const p = [g.next(), g.return()];
  console.log('next+return', (await Promise.all(p)).map((x: any) => x.value?.delta ?? x.done), limiter.executing, left);
  g = m.getStreamedResponse(req());
  await g.next();
  console.log('throw mid', await g.throw(new Error('t')).catch((e: any) => e.message), limiter.executing, opened, left, limiter.snapshot().queued);
  g = m.getStreamedResponse(req());
  for await (const _ of g) break;
  let c = 0; for await (const _ of g) c++;
  console.log('iterated twice', c, limiter.executing);
  // return hangs
  const hang: any = { getResponse: model.getResponse, getStreamedResponse: () => ({ [Symbol.asyncIterator]: () => ({ next: async () => ({ done: false, value: d('x') }), return: () => new Promise(() => {}) }) }) };
  g = limitModel(hang, { limiter, retry }).getStreamedResponse(req());
  await g.next();
  console.log('return hangs', await Promise.race([g.return(), tick(50).then(() => 'hangs')]), limiter.executing);
  // lane throws
  const lanes = limitModel(model, { limiter, lane: () => { throw new Error('lane!'); } });
  try { const s: any = lanes.getStreamedResponse(req()); console.log('lane throws: no sync throw', await s.next().catch((e: any) => e.name)); } catch (e: any) { console.log('lane throws SYNC', e.name); }
  // usage undefined
  console.log('usage undefined', await m.getResponse(req()).then((x) => x, (e) => `${e.name} ${e.message}`), limiter.executing);
  const odd: any = { getResponse: model.getResponse, async *getStreamedResponse() { yield { type: 'response_done', response: { id: 'x', output: [] } }; } };
  g = limitModel(odd, { limiter: createLimiter(), retry }).getStreamedResponse(req());
  console.log('usage undefined stream', await g.next().then((x: any) => x.value.type, (e: any) => `${e.name} ${e.message}`));
  // open throws sync / non iterable
  g = limitModel({ ...model, getStreamedResponse: () => { throw new Error('sync'); } }, { limiter, retry }).getStreamedResponse(req());
  console.log('open throws', await g.next().catch((e: any) => e.message), limiter.executing);
  // abort while queued, then next
  const lease = limiter.tryAcquire();
  const ac = new AbortController();
  g = m.getStreamedResponse(req({ signal: ac.signal }));
  const nx = g.next().catch((e: any) => e.name);
  await tick(); ac.abort();
  console.log('abort queued', await nx, limiter.snapshot().queued);
  lease?.release();
  // signal already aborted
  g = m.getStreamedResponse(req({ signal: AbortSignal.abort() }));
  console.log('aborted before', await g.next().catch((e: any) => e.name), limiter.executing);
  // left while queued via return()
  const lease2 = limiter.tryAcquire();
  g = m.getStreamedResponse(req());
  void g.next(); const rt = g.return();
  console.log('return while queued', await Promise.race([rt.then(() => 'returned'), tick(50).then(() => 'waits')]), limiter.snapshot().queued);
  lease2?.release(); await rt; console.log(limiter.executing);
  console.log('unhandled', unhandled);
});

it('embedder calls', T, async () => {
  const run = async (name: string, call: any, o: any = {}) => {
    let n = 0;
    const em = createEmbedder({ call: (t: any, c: any) => { n++; return call(t, c); }, retry, ...o });
    const rs = await Promise.race([Promise.allSettled(['a', 'b', 'c', 'd'].map((t) => em.embedAsync(t))), tick(2000).then(() => 'HANG' as const)]);
    console.log('CALL', name, n, rs === 'HANG' ? rs : rs.map((r) => (r.status === 'rejected' ? `${r.reason?.name}: ${r.reason?.message}` : [...r.value].join()))[0]);
    em.close();
  };
  await run('few', async () => [[1]]);
  await run('many', async () => [[1], [1], [1], [1], [1]]);
  await run('undefined', async () => undefined);
  await run('sync undefined', () => undefined);
  await run('sync array', (t: string[]) => t.map(() => [1, 2]));
  await run('strings', async (t: string[]) => t);
  await run('empty obs', () => new Observable((s) => s.complete()));
  await run('several', () => of([[0], [0], [0], [0]], [[1], [2], [3], [4]]));
  await run('sync throw', () => { throw Object.assign(new Error('no'), { status: 401 }); });
  await run('reject undefined', () => Promise.reject(undefined));
  await run('generator', async function* () { yield [[1], [2], [3], [4]]; });
  await run('nulls', async (t: string[]) => t.map(() => null));
  await run('nan length', async (t: string[]) => t.map(() => ({ length: NaN })));
  await run('huge length', async (t: string[]) => t.map(() => ({ length: 1e12 })));
  await run('negative', async (t: string[]) => t.map(() => ({ length: -1 })));
});

it('overhead', { timeout: 60000 }, async () => {
  const text = JSON.stringify({ id: 'x', object: 'chat.completion', choices: [{ index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }], usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 } });
  const mk = () => new OpenAI({ apiKey: 'x', fetch: async () => new Response(text, { headers: { 'content-type': 'application/json' } }) });
  const measure = async (c: OpenAI, n: number) => {
    const a = process.cpuUsage();
    for (let i = 0; i < n; i++) await c.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'what is 2 + 2? '.repeat(10) }] });
    const b = process.cpuUsage(a);
    return (b.user + b.system) / 1000;
  };
  const plain = mk(), lim = limitOpenAI(mk(), { limiter: createLimiter({ concurrency: 8, requestsPerMinute: 1e9, tokensPerMinute: 1e12 }) });
  await measure(plain, 300); await measure(lim, 300);
  for (let i = 0; i < 3; i++) {
    const p = await measure(plain, 2000), l = await measure(lim, 2000);
    console.log('OVERHEAD plain', p.toFixed(0), 'ms limited', l.toFixed(0), 'ms ratio', (l / p).toFixed(2), 'µs/call more', ((l - p) / 2).toFixed(0));
  }
});

it('chat defaults', T, async () => {
  const bodies: any[] = [];
  const c = new OpenAI({ apiKey: 'x', fetch: async (_, i) => { bodies.push(JSON.parse(i!.body as string)); return Response.json({ choices: [] }); } });
  const m = createModelCaller({ ...openAIChat(c, { model: 'm', stream_options: { include_obfuscation: false } }), retry });
  await m.callAsync({ messages: [] });
  console.log('call body', bodies[0]);
});

it('als', T, async () => {
  const als = new AsyncLocalStorage<string>();
  const limiter = createLimiter({ concurrency: 1 });
  const seen: any[] = [];
  const m = limitModel({ getResponse: async () => ({} as any), async *getStreamedResponse(r: any) { seen.push([r.input, als.getStore()]); yield d('a'); await tick(2); seen.push([r.input, als.getStore()]); yield d('b'); } } as any, { limiter, retry });
  await Promise.all(['p', 'q', 'r'].map((n) => als.run(n, async () => { for await (const _ of m.getStreamedResponse(req({ input: n }))) seen.push([n, als.getStore()]); })));
  console.log('als', seen.filter(([a, b]) => a !== b).length, seen.length);
});
