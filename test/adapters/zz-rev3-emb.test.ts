import { describe, expect, it, vi } from 'vitest';
import { OpenAIEmbeddings } from '@langchain/openai';
import { createLimiter } from '../../operators/create-limiter.js';
import { FlowEmbeddings } from '../../src/adapters/langchain.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));
const settled = (p: Promise<any>) => p.then((v) => ['ok', v], (e) => ['err', e?.name, e?.message]);
const retry = { initialMs: 1, jitter: 'none' } as const;
const inner = (over: any = {}) => ({ embedDocuments: async (t: string[]) => t.map((x) => [x.length]), embedQuery: async (t: string) => [t.length], ...over });
describe('emb', { timeout: 60_000 }, () => {
  expectNoUnhandledRejections();
  it('wrong number', async () => {
    for (const give of [[], [[1]], [[1], [2], [3], [4]], undefined, null, 'ab', { length: 2 }]) {
      const e = new FlowEmbeddings({ embeddings: inner({ embedDocuments: async () => give }), retry });
      console.log(JSON.stringify(give), await settled(e.embedDocuments(['a', 'b'])), JSON.stringify(await e.embedSettled(['a', 'b'])));
    }
    for (const give of [undefined, null]) console.log('query', await settled(new FlowEmbeddings({ embeddings: inner({ embedQuery: async () => give }), retry }).embedQuery('a')));
  });
  it('sync throw, empty, sparse, equal', async () => {
    const e = new FlowEmbeddings({ embeddings: inner({ embedDocuments: () => { throw new Error('sync'); }, embedQuery: () => { throw new Error('syncq'); } }), retry });
    console.log(await settled(e.embedDocuments(['a', 'b'])), await settled(e.embedQuery('a')), await settled(e.embedDocuments([])), await e.embedSettled([]));
    const f = new FlowEmbeddings({ embeddings: inner(), retry });
    console.log(await settled(f.embedDocuments(['a', 'a', 'bb', 'a'])), await settled(f.embedDocuments('abc' as any)), await settled((f as any).embedSettled('abc')));
    console.log(await settled(f.embedDocuments(['a'], { lane: 'zz' })), await settled(f.embedDocuments(['a'], { bla: 1 } as any)));
    // factories
    let n = 0;
    const g = new FlowEmbeddings({ embeddings: () => { if (n++) throw new Error('factory'); return inner() as any; }, retry });
    console.log(await settled(g.embedDocuments(['a'])), await settled(g.embedQuery('a')));
    const frozen = Object.freeze({ ...inner(), caller: 1 });
    try { const h = new FlowEmbeddings({ embeddings: frozen as any }); console.log(await settled(h.embedDocuments(['a']))); } catch (err) { console.log('frozen', String(err)); }
  });
  it('two callers same text, one aborts', async () => {
    let calls = 0;
    const e = new FlowEmbeddings({ embeddings: inner({ embedDocuments: async (t: string[]) => { calls++; await sleep(30); return t.map((x) => [x.length]); } }), retry });
    const c = new AbortController();
    const a = settled(e.embedDocuments(['x', 'y'], { signal: c.signal }));
    const b = settled(e.embedDocuments(['x', 'z']));
    setTimeout(() => c.abort(new Error('mine')), 10);
    console.log(await a, await b, calls, e.snapshot());
    const p = [settled(e.embedDocuments(['q1', 'q2'])), settled(e.embedQuery('q3'))];
    await sleep(5);
    const d = e.drain();
    console.log(await d, await Promise.all(p), await settled(e.embedDocuments(['late'])), await settled(e.embedQuery('late')), await settled(e.embedDocuments([])));
  });
  it('many', async () => {
    const e = new FlowEmbeddings({ embeddings: inner(), retry });
    const t = Date.now();
    const r = await settled(e.embedDocuments(Array.from({ length: 20_000 }, (_, i) => `t${i}`)));
    console.log('20000', r[0] === 'ok' ? r[1].length : r, Date.now() - t);
    const r2 = await e.embedSettled(Array.from({ length: 20_000 }, (_, i) => `t${i}`));
    console.log('settled', r2.filter((x) => x.status === 'rejected').length);
  });
  it('leaks', async () => {
    const ctl = new AbortController();
    const add = vi.spyOn(ctl.signal, 'addEventListener'); const rem = vi.spyOn(ctl.signal, 'removeEventListener');
    const limiter = createLimiter({ concurrency: 4 });
    const e = new FlowEmbeddings({ embeddings: inner(), limiter, retry });
    await Promise.all(Array.from({ length: 10_000 }, (_, i) => i % 2 ? e.embedQuery('t' + i, { signal: ctl.signal }) : e.embedDocuments(['t' + i], { signal: ctl.signal })));
    console.log(add.mock.calls.length - rem.mock.calls.length, limiter.executing, limiter.snapshot().queued, e.snapshot());
  });
  it('1000 made and closed on one limiter', async () => {
    const limiter = createLimiter({ concurrency: 4 });
    const refs: WeakRef<any>[] = [];
    for (let i = 0; i < 500; i++) { const e = new FlowEmbeddings({ embeddings: inner(), limiter }); await e.embedQuery('a'); i % 2 ? e.close() : await e.drain(); refs.push(new WeakRef(e)); }
    for (let i = 0; i < 500; i++) { const e = new FlowEmbeddings({ embeddings: inner(), limiter }); await e.embedDocuments(['a']); refs.push(new WeakRef(e)); }
    await sleep(200); (globalThis as any).gc(); await sleep(20); (globalThis as any).gc();
    console.log('alive', refs.filter((r) => r.deref()).length);
  });
  it('inside a tool lease: same limiter', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const e = new FlowEmbeddings({ embeddings: inner(), limiter, retry, itemDeadlineMs: 500 });
    console.log(await settled(limiter.runAsync(() => e.embedQuery('a'))), limiter.executing);
  });
  it('vector store', async () => {
    const { MemoryVectorStore } = await import('/tmp/rev3-provs/node_modules/@langchain/classic/dist/vectorstores/memory.js' as string);
    const e = new FlowEmbeddings({ embeddings: inner(), retry });
    const store = await MemoryVectorStore.fromTexts(['a', 'bb', 'ccc'], [{}, {}, {}], e);
    console.log(await store.similaritySearch('bb', 1), (await store.asRetriever(1).invoke('x')).length);
    const { CacheBackedEmbeddings } = await import('/tmp/rev3-provs/node_modules/@langchain/classic/dist/embeddings/cache_backed.js' as string);
    const { InMemoryStore } = await import('@langchain/core/stores' as string);
    const cb = CacheBackedEmbeddings.fromBytesStore(e, new InMemoryStore(), { namespace: 'x' });
    console.log(await cb.embedDocuments(['a', 'bb']), await cb.embedDocuments(['a', 'bb', 'ccc']));
  });
  it('close in flight', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const e = new FlowEmbeddings({ embeddings: inner({ embedDocuments: () => new Promise(() => undefined) }), limiter, retry });
    const p = settled(e.embedDocuments(['a'])); const q = settled(e.embedQuery('b'));
    await sleep(100); console.log(limiter.executing, e.snapshot());
    e.close(); console.log(await p, await q, limiter.executing); await sleep(1200); console.log(limiter.executing);
  });
});
