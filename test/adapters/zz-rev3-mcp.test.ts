import { describe, expect, it, vi } from 'vitest';
import { lastValueFrom } from 'rxjs';
import { createLimiter } from '../../operators/create-limiter.js';
import { toolsOf } from '../../src/adapters/mcp.js';
import type { McpWorld } from '../fakes/mcp-worlds.js';
import { inMemory, overHttp } from '../fakes/mcp-worlds.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
const worlds = Object.entries({ ...inMemory, ...overHttp });
const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));
const settled = (p: Promise<any>) => p.then((v) => ['ok', v?.content?.[0]?.text ?? v], (e) => ['err', e?.name, e?.message, e?.code]);

describe.each(worlds)('%s', (name, openWorld: any) => {
  expectNoUnhandledRejections();
  it('rolling callers leave handlers', { timeout: 30_000 }, async () => {
    const world: McpWorld = await openWorld();
    let last: any = world.caller({});
    for (let i = 0; i < 2000; i++) { const next = world.caller({}); last.close(); last = next; }
    let depth = 0;
    for (let h: any = world.client.fallbackNotificationHandler; h; h = h.next) depth++;
    console.log(name, 'chain', depth);
    last.close();
    console.log(name, 'after', world.client.fallbackNotificationHandler);
    await world.close();
  });
  it('maxQueued 0', { timeout: 30_000 }, async () => {
    const world: McpWorld = await openWorld();
    const caller: any = world.caller({ maxQueued: 0, retry: false });
    await caller.listTools();
    const a = settled(caller.callToolAsync({ name: 'write', arguments: { id: 'a', hold: true } }));
    await sleep(20);
    console.log(name, 'second', await settled(caller.callToolAsync({ name: 'write', arguments: { id: 'b' } })));
    world.brain.open();
    await a;
    const caller2: any = world.caller({ maxQueued: 0 });
    console.log(name, 'default retry', JSON.stringify(await Promise.all([1, 2, 3].map((i) => settled(caller2.callToolAsync({ name: 'write', arguments: { id: 'c' + i } }))))));
    caller.close(); caller2.close();
    await world.close();
  });
  it('one signal, many calls; children', { timeout: 60_000 }, async () => {
    const world: McpWorld = await openWorld();
    const limiter = createLimiter({ concurrency: 4 });
    const ctl = new AbortController();
    const add = vi.spyOn(ctl.signal, 'addEventListener'); const rem = vi.spyOn(ctl.signal, 'removeEventListener');
    const N = name.includes('memory') ? 10_000 : 500;
    const caller: any = world.caller({ limiter, maxQueued: N + 10 });
    const t = Date.now();
    await Promise.all(Array.from({ length: N }, (_, i) => caller.callToolAsync({ name: i % 2 ? 'look' : 'write', arguments: { id: String(i) } }, { signal: ctl.signal })));
    console.log(name, N, 'calls', Date.now() - t, 'ms; listeners', add.mock.calls.length - rem.mock.calls.length, limiter.executing, caller.snapshot().open, process.getActiveResourcesInfo().filter((x) => x === 'Timeout').length);
    caller.close();
    if (name.includes('memory')) {
      const refs: WeakRef<any>[] = [];
      for (let i = 0; i < 300; i++) { const c: any = world.caller({ limiter }); await c.callToolAsync({ name: 'look', arguments: { id: 'x' + i } }); c.close(); refs.push(new WeakRef(c)); }
      await sleep(20);
      (globalThis as any).gc?.();
      await sleep(20);
      (globalThis as any).gc?.();
      console.log(name, 'gc', typeof (globalThis as any).gc, 'alive', refs.filter((r) => r.deref()).length);
    }
    await world.close();
  });
  it('close while list under way; signals', { timeout: 30_000 }, async () => {
    const world: McpWorld = await openWorld();
    const caller: any = world.caller({});
    const p = [settled(caller.callToolAsync({ name: 'look', arguments: { id: 'a' } })), settled(caller.listTools()), settled(toolsOf(caller))];
    caller.close();
    console.log(name, JSON.stringify(await Promise.all(p)));
    caller.callToolAsync({ name: 'look' }).catch(() => undefined);
    const c2: any = world.caller({});
    const ctl = new AbortController();
    const q = settled(c2.callToolAsync({ name: 'look', arguments: { id: 'z' } }, { signal: ctl.signal }));
    ctl.abort(new Error('mine'));
    console.log(name, JSON.stringify(await q), JSON.stringify(await settled(c2.callToolAsync({ name: 'look', arguments: { id: 'zz' } }, { signal: AbortSignal.timeout(0) }))));
    c2.close();
    await world.close();
  });
  it('onProgress that throws', { timeout: 30_000 }, async () => {
    const world: McpWorld = await openWorld();
    const errors: any[] = [];
    (world.client as any).onerror = (e: any) => errors.push(e.message);
    const caller: any = world.caller({});
    console.log(name, JSON.stringify(await settled(caller.callToolAsync({ name: 'look', arguments: { id: 'p', progress: 3, everyMs: 30 } }, { onProgress: () => { throw new Error('boom'); } }))), errors);
    caller.close();
    await world.close();
  });
});
