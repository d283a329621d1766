import { setTimeout as sleep } from 'node:timers/promises';
import { lastValueFrom } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BreakerOpenError,
  ClosedError,
  createAccount,
  createBreaker,
  createLimiter,
  DeadlineError,
  OverflowError,
} from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { McpCaller, McpCallerOptions, McpCallOptions } from '../../src/adapters/mcp.js';
import { toolsOf } from '../../src/adapters/mcp.js';
import type { McpProgress } from '../../src/adapters/support/mcp-types.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Orders } from '../fakes/mcp-brain.js';
import { serveMcp } from '../fakes/mcp-http.js';
import type { McpWorld } from '../fakes/mcp-worlds.js';
import { inMemory, overHttp } from '../fakes/mcp-worlds.js';
import { isDeep } from '../support/deep.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const POLL = { timeout: 10_000, interval: 2 };
const SOON = { delayMs: 1, jitter: 'none' } as const;
const worlds = Object.entries({ ...inMemory, ...overHttp });

/** Calls a tool and keeps what became of it. */
function calling(caller: McpCaller, tool: string, orders: Orders = {}, options?: McpCallOptions) {
  const kept: { text?: unknown; error?: unknown } = {};
  const over = caller.callToolAsync({ name: tool, arguments: { ...orders } }, options).then(
    ({ content }) => {
      kept.text = content[0]?.text;
    },
    (error: unknown) => {
      kept.error = error;
    },
  );
  return { kept, over };
}

async function errorOf(promise: Promise<unknown>): Promise<Error & { readonly code?: unknown }> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('the call should have failed');
}

/** Counts the listeners of a signal. */
function countListeners(signal: AbortSignal): () => number {
  const add = vi.spyOn(signal, 'addEventListener');
  const remove = vi.spyOn(signal, 'removeEventListener');
  return () => add.mock.calls.length - remove.mock.calls.length;
}

describe.each(worlds)('%s', (name, openWorld) => {
  /** What waits for real timers: once for each client, in `npm run test:deep` with each transport. */
  const patient = it.runIf(isDeep || name in inMemory);

  let world: McpWorld;
  const callers: McpCaller[] = [];
  const open = (options: McpCallerOptions<never> = {}): McpCaller => {
    const caller = world.caller(options);
    callers.push(caller);
    return caller;
  };
  /** Of the calls under way, sorted: what is sent together may arrive in any order. */
  const ids = (): string[] => world.brain.executing.map(({ id }) => String(id)).sort();

  expectNoUnhandledRejections();

  beforeEach(async () => {
    world = await openWorld();
  });

  afterEach(async () => {
    for (const caller of callers.splice(0)) caller.close();
    // What was given up may have begun just before.
    world.brain.open();
    await world.close();
    const { _timeoutInfo, _responseHandlers, fallbackNotificationHandler } = world.client;
    expect([_timeoutInfo.size, _responseHandlers.size, fallbackNotificationHandler]).toEqual([0, 0, undefined]);
  });

  it('runs read-only tools beside each other, all others one after the other, in their order', async () => {
    const caller = open({ readConcurrency: 3 });
    const reads = [1, 2, 3, 4].map((n) => calling(caller, n === 2 ? 'peek' : 'look', { id: `r${String(n)}`, hold: true }));
    const writes = ['write', 'put', 'unlisted'].map((tool, n) => calling(caller, tool, { id: `w${String(n)}`, hold: true }));
    await expect.poll(ids, POLL).toEqual(expect.arrayContaining(['r1', 'r2', 'r3', 'w0']));
    expect(caller.snapshot()).toMatchObject({ open: 7, reads: { executing: 3, queued: 1 }, writes: { executing: 1, queued: 2 } });
    expect(ids()).toHaveLength(4);
    for (const next of ['w1', 'w2']) {
      world.brain.open();
      await expect.poll(ids, POLL).toContain(next);
      expect(world.brain.executing.filter(({ id }) => id?.startsWith('w'))).toHaveLength(1);
    }
    await expect
      .poll(() => {
        world.brain.open();
        return caller.snapshot().open;
      }, POLL)
      .toBe(0);
    await Promise.all([...reads, ...writes].map(({ over }) => over));
    expect(reads.map(({ kept }) => kept.text)).toEqual(['look r1', 'peek r2', 'look r3', 'look r4']);
    expect(writes.map(({ kept }) => kept.text)).toEqual(['write w0', 'put w1', 'unlisted w2']);
  }, 20_000);

  it('asks for the tools once, all pages, and again when they have changed', async () => {
    const caller = open();
    const tools = await caller.listTools();
    expect(tools.map((tool) => tool.name)).toEqual(['look', 'put', 'write', 'peek']);
    await Promise.all([calling(caller, 'look').over, calling(caller, 'peek').over]);
    expect(world.brain.lists).toBe(2);
    world.brain.tools = world.brain.tools.map((tool) => ({ ...tool, annotations: { readOnlyHint: true } }));
    if (world.tellChange) await world.tellChange();
    else caller.refreshTools();
    await expect
      .poll(async () => {
        const { over } = calling(caller, 'write', { id: 'after' });
        await over;
        return world.brain.lists;
      }, POLL)
      .toBe(4);
    const both = [1, 2].map((n) => calling(caller, 'write', { id: `b${String(n)}`, hold: true }));
    await expect.poll(ids, POLL).toEqual(['b1', 'b2']);
    world.brain.open();
    await Promise.all(both.map(({ over }) => over));
  }, 20_000);

  it('believes the tools it is given, and asks for none', async () => {
    const tools = [{ name: 'write', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }] as const;
    const caller = open({ tools: tools as never });
    const both = [1, 2].map((n) => calling(caller, 'write', { id: `b${String(n)}`, hold: true }));
    await expect.poll(ids, POLL).toEqual(['b1', 'b2']);
    caller.refreshTools();
    expect(await caller.listTools()).toEqual(tools);
    world.brain.open();
    await Promise.all(both.map(({ over }) => over));
    expect(world.brain.lists).toBe(0);
  }, 20_000);

  it('rejects invalid tools', () => {
    for (const tools of ['look', ['look'], [{}], [null]])
      expect(() => open({ tools: tools as never })).toThrow(/^limitMcp: expected `tools` to be a list of tools/);
  });

  it('makes calls all the same when the tools cannot be listed: as of tools that are not read-only', async () => {
    vi.spyOn(world.brain, 'list').mockImplementation(() => {
      throw new Error('no list today');
    });
    const caller = open({ retry: false });
    const both = [1, 2].map((n) => calling(caller, 'look', { id: `b${String(n)}`, hold: true }));
    await expect.poll(ids, POLL).toEqual(['b1']);
    expect((await errorOf(caller.listTools())).message).toContain('no list today');
    world.brain.open();
    await expect.poll(ids, POLL).toEqual(['b2']);
    world.brain.open();
    await Promise.all(both.map(({ over }) => over));
    expect(both.map(({ kept }) => kept.text)).toEqual(['look b1', 'look b2']);
  }, 20_000);

  it('tells the server of an abort; the caller has its own reason, and nothing is tried again', async () => {
    const caller = open({ retry: SOON });
    const controller = new AbortController();
    const listeners = countListeners(controller.signal);
    const { kept, over } = calling(caller, 'look', { id: 'a', hold: true }, { signal: controller.signal });
    await expect.poll(ids, POLL).toEqual(['a']);
    const reason = new Error('changed my mind');
    controller.abort(reason);
    await over;
    expect(kept.error).toBe(reason);
    await expect.poll(() => world.brain.seen('a')[0]?.aborted, POLL).toBe(true);
    await expect.poll(() => caller.snapshot().reads.executing, POLL).toBe(0);
    expect(world.brain.seen('a')).toHaveLength(1);
    expect(listeners()).toBe(0);
  }, 20_000);

  it('tells the server when the subscriber has left, and emits nothing', async () => {
    const caller = open({ retry: SOON });
    const told: unknown[] = [];
    const subscription = caller.callTool({ name: 'write', arguments: { id: 'a', hold: true } }).subscribe({
      next: (value) => told.push(value),
      error: (error: unknown) => told.push(error),
      complete: () => told.push('complete'),
    });
    await expect.poll(ids, POLL).toEqual(['a']);
    subscription.unsubscribe();
    await expect.poll(() => world.brain.seen('a')[0]?.aborted, POLL).toBe(true);
    // The place is free again.
    expect((await caller.callToolAsync({ name: 'write', arguments: { id: 'b' } })).content).toEqual([{ type: 'text', text: 'write b' }]);
    expect(told).toEqual([]);
    expect(world.brain.seen('a')).toHaveLength(1);
  }, 20_000);

  it('never sends a call that is given up while it waits, and takes no permit for it', async () => {
    const limiter = createAccount({ requestsPerMinute: 600, headroom: 1, burstSeconds: 60 });
    const caller = open({ limiter });
    await caller.listTools();
    const first = calling(caller, 'write', { id: 'first', hold: true });
    await expect.poll(ids, POLL).toEqual(['first']);
    const controller = new AbortController();
    const second = calling(caller, 'write', { id: 'second' }, { signal: controller.signal });
    const third = caller.callTool({ name: 'write', arguments: { id: 'third' } }).subscribe();
    expect(caller.snapshot().writes.queued).toBe(2);
    const { requests } = limiter.snapshot();
    controller.abort();
    third.unsubscribe();
    await second.over;
    expect(second.kept.error).toBe(controller.signal.reason);
    expect(caller.snapshot().writes.queued).toBe(0);
    world.brain.open();
    await first.over;
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    expect(world.brain.calls.map(({ id }) => id)).toEqual(['first']);
  }, 20_000);

  it('gives up at once what is called with a signal that has aborted', async () => {
    const caller = open();
    const error = await errorOf(caller.callToolAsync({ name: 'look' }, { signal: AbortSignal.abort('no') }));
    expect(error).toBe('no');
    expect([world.brain.lists, world.brain.calls.length]).toEqual([0, 0]);
  });

  patient(
    "tries a real timeout again where that does no harm, else hands on the client's own error",
    async () => {
      const caller = open({ retry: SOON, maxSilenceMs: 1000 });
      await caller.listTools();
      const calls = ['look', 'put', 'write'].map((tool) => calling(caller, tool, { id: tool, silentTimes: 1 }));
      await Promise.all(calls.map(({ over }) => over));
      const [look, put, write] = calls.map(({ kept }) => kept);
      expect([look?.text, put?.text]).toEqual(['look look', 'put put']);
      expect(['look', 'put', 'write'].map((id) => world.brain.seen(id).length)).toEqual([2, 2, 1]);
      expect(write?.error).toBeInstanceOf(world.timeout);
      expect((write?.error as Error).message).toContain('Request timed out');
      expect(['REQUEST_TIMEOUT', -32_001]).toContain((write?.error as { code: unknown }).code);
      await expect.poll(() => world.brain.seen('write')[0]?.aborted, POLL).toBe(true);
    },
    20_000,
  );

  patient(
    'makes as many attempts as it is told, and none when retries are off',
    async () => {
      const caller = open({ retry: { ...SOON, maxAttempts: 4 }, maxSilenceMs: 200 });
      await errorOf(caller.callToolAsync({ name: 'look', arguments: { id: 'four', silentTimes: 9 } }));
      const once = open({ retry: false, maxSilenceMs: 200 });
      await errorOf(once.callToolAsync({ name: 'look', arguments: { id: 'one', silentTimes: 9 } }));
      await expect.poll(() => [world.brain.seen('four').length, world.brain.seen('one').length], POLL).toEqual([4, 1]);
    },
    20_000,
  );

  patient(
    'lets no time limit run while a call waits',
    async () => {
      const caller = open({ maxSilenceMs: 1000, retry: false });
      const first = calling(caller, 'write', { id: 'first', hold: true }, { maxSilenceMs: 15_000 });
      const second = calling(caller, 'write', { id: 'second' });
      await expect.poll(ids, POLL).toEqual(['first']);
      await sleep(1300);
      world.brain.open();
      await Promise.all([first.over, second.over]);
      expect([first.kept.text, second.kept.text]).toEqual(['write first', 'write second']);
    },
    20_000,
  );

  patient(
    'keeps a slow call alive while it reports progress, with or without a listener',
    async () => {
      const caller = open({ maxSilenceMs: 1000, retry: false });
      await caller.listTools();
      const heard: McpProgress[] = [];
      const slow = { steps: 9, stepMs: 150 };
      const listened = calling(caller, 'look', { id: 'a', ...slow }, { onProgress: (progress) => heard.push(progress) });
      const unheard = calling(caller, 'look', { id: 'b', ...slow });
      await Promise.all([listened.over, unheard.over]);
      expect([listened.kept.text, unheard.kept.text]).toEqual(['look a', 'look b']);
      expect(heard.map(({ progress }) => progress)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    },
    20_000,
  );

  patient(
    'ends an attempt that takes too long, whatever it reports',
    async () => {
      const strict = open({ retry: false, timeoutMs: 60 });
      for (const [id, how] of Object.entries({ talks: { steps: 100, stepMs: 40 }, silent: { silentTimes: 1 } })) {
        const cut = await errorOf(strict.callToolAsync({ name: 'look', arguments: { id, ...how } }));
        expect(cut).toBeInstanceOf(AttemptTimeoutError);
        await expect.poll(() => world.brain.seen(id)[0]?.aborted, POLL).toBe(true);
      }
    },
    20_000,
  );

  it("hands on the server's own error; other calls are not affected", async () => {
    const caller = open({ retry: SOON });
    const before = calling(caller, 'look', { id: 'before', hold: true });
    const refused = calling(caller, 'look', { id: 'refused', code: -32_602 });
    const after = calling(caller, 'look', { id: 'after', hold: true });
    await refused.over;
    expect(refused.kept.error).toBeInstanceOf(world.refusal);
    expect(refused.kept.error).toMatchObject({ code: -32_602, message: expect.stringContaining('no refused') as string });
    await expect.poll(ids, POLL).toEqual(['after', 'before']);
    world.brain.open();
    await Promise.all([before.over, after.over]);
    expect([before.kept.text, after.kept.text]).toEqual(['look before', 'look after']);
    expect(world.brain.seen('refused')).toHaveLength(1);
  }, 20_000);

  it('tries again after an error inside the server, but not a tool that may have done its work by then', async () => {
    const caller = open({ retry: SOON });
    const broken = { code: -32_603, failTimes: 1 };
    const calls = ['look', 'put', 'write'].map((tool) => calling(caller, tool, { id: tool, ...broken }));
    await Promise.all(calls.map(({ over }) => over));
    expect(calls.map(({ kept }) => kept.text)).toEqual(['look look', 'put put', undefined]);
    expect(calls[2]?.kept.error).toMatchObject({ code: -32_603 });
    expect(['look', 'put', 'write'].map((id) => world.brain.seen(id).length)).toEqual([2, 2, 1]);
  }, 20_000);

  it('does not take what a tool has met for what the call has: the tool has run', async () => {
    const refused = Object.assign(new Error('no'), { code: -32_603, data: { code: 'ECONNREFUSED' } });
    const call = vi.spyOn(world.brain, 'call').mockRejectedValue(refused);
    const caller = open({ retry: SOON });
    expect(await errorOf(caller.callToolAsync({ name: 'write' }))).toMatchObject({ code: -32_603 });
    expect(call).toHaveBeenCalledTimes(1);
  });

  it('takes a result with `isError` for a result', async () => {
    const caller = open({ retry: SOON });
    const result = await caller.callToolAsync({ name: 'look', arguments: { id: 'a', isError: true } });
    expect(result.isError).toBe(true);
    expect(world.brain.seen('a')).toHaveLength(1);
  });

  it('holds to its bounds: the queue, the deadline, the breaker', async () => {
    const caller = open({ maxQueued: 1, deadlineMs: 200 });
    await caller.listTools();
    const calls = [1, 2, 3].map((n) => calling(caller, 'write', { id: `w${String(n)}`, hold: true }));
    await Promise.all(calls.map(({ over }) => over));
    expect(calls.map(({ kept }) => kept.error)).toEqual([expect.any(DeadlineError), expect.any(DeadlineError), expect.any(OverflowError)]);
    const breaker = createBreaker();
    breaker.trip();
    expect(await errorOf(open({ breaker, retry: false }).callToolAsync({ name: 'look' }))).toBeInstanceOf(BreakerOpenError);
    expect(world.brain.seen('w3')).toEqual([]);
  }, 20_000);

  it('has a bound for what waits until the tools are known', async () => {
    const caller = open({ readConcurrency: 1, maxQueued: 1 });
    const calls = [1, 2, 3].map((n) => calling(caller, 'look', { id: `r${String(n)}` }));
    await Promise.all(calls.map(({ over }) => over));
    expect(calls.map(({ kept }) => kept.text)).toEqual(['look r1', 'look r2', undefined]);
    expect(calls[2]?.kept.error).toBeInstanceOf(OverflowError);
  });

  it('shares a limiter with another server and with fetch', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const other = await openWorld();
    const callers = [open({ limiter }), other.caller({ limiter })] as const;
    await Promise.all(callers.map((caller) => caller.listTools()));
    let fetching = 0;
    const limitedFetch = limitFetch({
      limiter,
      fetch: async () => {
        fetching++;
        await new Promise<void>((resolve) => {
          answers.push(resolve);
        });
        fetching--;
        return Response.json({});
      },
    });
    const answers: (() => void)[] = [];
    const busy = (): number => world.brain.executing.length + other.brain.executing.length + fetching;
    const calls = callers.flatMap((caller, n) =>
      ['look', 'look', 'write'].map((tool, i) => calling(caller, tool, { id: `${String(n)}${String(i)}`, hold: true })),
    );
    const fetched = [1, 2].map(async (): Promise<unknown> => (await limitedFetch('http://host/')).json());
    // All of it is held, so this is what the limiter lets through.
    await expect.poll(busy, POLL).toBe(2);
    let most = 0;
    await expect
      .poll(() => {
        most = Math.max(most, busy());
        expect(limiter.executing).toBeLessThanOrEqual(2);
        world.brain.open(1);
        other.brain.open(1);
        answers.pop()?.();
        return callers.map((caller) => caller.snapshot().open);
      }, POLL)
      .toEqual([0, 0]);
    await expect
      .poll(() => {
        answers.pop()?.();
        return limiter.executing;
      }, POLL)
      .toBe(0);
    await Promise.all([...calls.map(({ over }) => over), ...fetched]);
    expect(calls.filter(({ kept }) => kept.text === undefined)).toEqual([]);
    expect(most).toBe(2);
    callers[1].close();
    await other.close();
  }, 20_000);

  it('gives up everything when it is closed, and tells what became of it', async () => {
    const caller = open();
    const running = calling(caller, 'write', { id: 'running', hold: true });
    const waiting = calling(caller, 'write', { id: 'waiting' });
    await expect.poll(ids, POLL).toEqual(['running']);
    const drained = caller.drain();
    caller.close();
    expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 1 });
    await Promise.all([running.over, waiting.over]);
    expect([running.kept.error, waiting.kept.error]).toEqual([expect.any(ClosedError), expect.any(ClosedError)]);
    await expect.poll(() => world.brain.seen('running')[0]?.aborted, POLL).toBe(true);
    expect(world.brain.seen('waiting')).toEqual([]);
    expect(await errorOf(caller.callToolAsync({ name: 'look' }))).toBeInstanceOf(ClosedError);
    expect(await errorOf(caller.listTools())).toBeInstanceOf(ClosedError);
    expect(world.client._timeoutInfo.size).toBe(0);
  }, 20_000);

  it('finishes what it has begun when it drains', async () => {
    const caller = open();
    const calls = ['write', 'write'].map((tool, n) => calling(caller, tool, { id: String(n) }));
    expect(await caller.drain()).toEqual({ done: 2, aborted: 0, dropped: 0 });
    expect(calls.map(({ kept }) => kept.text)).toEqual(['write 0', 'write 1']);
    expect(world.client.fallbackNotificationHandler).toBeUndefined();
  });

  it('leaves nothing behind: no listener to a signal, no timer, no handler of the client', async () => {
    const controller = new AbortController();
    const listeners = countListeners(controller.signal);
    const limiter = createLimiter({ concurrency: 4 });
    const caller = open({ limiter, retry: SOON });
    const how = { signal: controller.signal };
    const calls = Array.from({ length: 20 }, (_, n) => calling(caller, n % 2 === 0 ? 'look' : 'write', { id: String(n) }, how));
    await Promise.all(calls.map(({ over }) => over));
    expect(calls.filter(({ kept }) => kept.error !== undefined)).toEqual([]);
    expect(listeners()).toBe(0);
    expect([limiter.executing, caller.snapshot().open]).toEqual([0, 0]);
    const { _timeoutInfo, _progressHandlers, _responseHandlers } = world.client;
    expect([_timeoutInfo.size, _progressHandlers.size, _responseHandlers.size]).toEqual([0, 0, 0]);
    controller.abort();
    // A call that is over is not cancelled.
    await calling(caller, 'look', { id: 'last' }).over;
    expect(world.brain.calls.filter(({ aborted }) => aborted)).toEqual([]);
  }, 20_000);

  it('calls on a handler of the owner, and leaves it as it was', async () => {
    const heard: string[] = [];
    const own = (notification: { readonly method: string }): Promise<void> => {
      heard.push(notification.method);
      return Promise.resolve();
    };
    world.client.fallbackNotificationHandler = own;
    const caller = open();
    await caller.listTools();
    await world.tellChange?.();
    if (world.tellChange) await expect.poll(() => heard, POLL).toEqual(['notifications/tools/list_changed']);
    caller.close();
    expect(world.client.fallbackNotificationHandler).toBe(own);
    delete world.client.fallbackNotificationHandler;
  }, 20_000);

  it('tells every attempt, and calls again for each subscriber', async () => {
    const events: FlowEvent[] = [];
    const caller = open({ retry: SOON, onEvent: (event) => events.push(event) });
    const call = caller.callTool({ name: 'look', arguments: { id: 'a', code: -32_603, failTimes: 1 } });
    await lastValueFrom(call);
    await lastValueFrom(call);
    expect(world.brain.seen('a')).toHaveLength(3);
    const outcomes = events.flatMap((event) => (event.type === 'attemptEnded' ? [event.outcome] : []));
    // The first is the list of tools.
    expect(outcomes).toEqual(['ok', 'transient', 'ok', 'ok']);
    expect(new Set(events.map((event) => ('operator' in event ? event.operator : '')))).toEqual(new Set(['limitMcp']));
  }, 20_000);

  it('hands on what the client says when it is not connected', async () => {
    const caller = open({ retry: SOON });
    await world.close();
    expect((await errorOf(caller.callToolAsync({ name: 'look' }))).message).toBe('Not connected');
    world = await openWorld();
  }, 20_000);

  it('asks again for tools after a list without any, as a client gives that is not connected', async () => {
    const { tools } = world.brain;
    world.brain.tools = [];
    const caller = open();
    expect(await caller.listTools()).toEqual([]);
    world.brain.tools = tools;
    expect(await caller.listTools()).toHaveLength(4);
  });
});

describe.each(Object.entries(overHttp))('%s: what HTTP does', (_name, openWorld) => {
  let world: McpWorld;
  const limiter = () => createAccount({ concurrency: 8 });
  const attempts = (): number => world.http?.posts.length ?? 0;

  expectNoUnhandledRejections();

  beforeEach(async () => {
    world = await openWorld();
  });
  afterEach(() => world.close());

  it('sends again what was refused with a 429: the tool has not run', async () => {
    const caller = world.caller({ retry: SOON });
    await caller.listTools();
    world.http?.fail({ status: 429 }, { status: 429 });
    expect((await caller.callToolAsync({ name: 'write', arguments: { id: 'a' } })).content).toHaveLength(1);
    expect([attempts(), world.brain.seen('a').length]).toEqual([3, 1]);
    caller.close();
  }, 20_000);

  it('waits as long as the server asks, when its limiter sees the answers', async () => {
    const shared = limiter();
    await world.close();
    world = await openWorld(async (input, init) => {
      const response = await fetch(input, init);
      shared.observe(response);
      return response;
    });
    const caller = world.caller({ retry: SOON, limiter: shared });
    await caller.listTools();
    world.http?.fail({ status: 429, headers: { 'retry-after-ms': '250' } });
    await caller.callToolAsync({ name: 'look', arguments: { id: 'a' } });
    const [refused = 0, again = 0] = world.http?.posts ?? [];
    expect(attempts()).toBe(2);
    expect(again - refused).toBeGreaterThanOrEqual(240);
    caller.close();
  }, 20_000);

  it.each([['a 503', { status: 503 }] as const, ['a connection that is cut', 'cutSocket' as const] as const])(
    '%s leaves open whether the tool has run: only some are called again',
    async (_what, failure) => {
      const caller = world.caller({ retry: SOON });
      await caller.listTools();
      for (const [tool, made] of Object.entries({ look: 2, put: 2, write: 1 })) {
        const before = attempts();
        world.http?.fail(failure);
        const { kept, over } = calling(caller, tool, { id: tool });
        await over;
        expect([tool, attempts() - before, kept.error instanceof Error]).toEqual([tool, made, tool === 'write']);
      }
      caller.close();
    },
    20_000,
  );

  it('sends again what never arrived', async () => {
    const gone = await serveMcp(() => Promise.resolve(new Response()));
    await gone.stop();
    await world.close();
    let refused = 0;
    world = await openWorld(async (input, init) => {
      if (typeof init?.body !== 'string' || !init.body.includes('"tools/call"') || refused === 2) return fetch(input, init);
      refused++;
      return fetch(gone.url, init);
    });
    const caller = world.caller({ retry: SOON });
    await calling(caller, 'write', { id: 'a' }).over;
    expect([refused, world.brain.seen('a').length]).toEqual([2, 1]);
    caller.close();
  }, 20_000);
});

/** With real clients, but no server that matters. */
describe('toolsOf', () => {
  let world: McpWorld;

  expectNoUnhandledRejections();

  beforeEach(async () => {
    world = await (inMemory['client 2, in memory'] as () => Promise<McpWorld>)();
  });
  afterEach(() => world.close());

  it("makes a server's tools tools of a runner, which are called once and in their lanes", async () => {
    const caller = world.caller({ retry: SOON });
    const tools = await toolsOf(caller, { prefix: 'far_' });
    expect(tools.map(({ name, description, readOnly, idempotent }) => [name, description, readOnly, idempotent])).toEqual([
      ['far_look', 'Looks.', true, true],
      ['far_put', 'put', false, true],
      ['far_write', 'write', false, false],
      ['far_peek', 'peek', true, true],
    ]);
    expect(tools[0]?.parameters.inputSchema).toEqual({ type: 'object' });
    const runner = createToolRunner({ tools, concurrency: Infinity, timeoutMs: 20 });
    const run = runner.runAllAsync([
      { id: '1', name: 'far_look', input: { id: 'a', steps: 3, stepMs: 20 } },
      { id: '2', name: 'far_write', input: { id: 'b', isError: true } },
      { id: '3', name: 'far_look', input: { id: 'c', code: -32_603 } },
      { id: '4', name: 'far_look', input: ['d'] },
    ]);
    const { results } = await run;
    expect(results.map(({ content }) => content)).toEqual([
      'look a',
      '{"error":{"code":"failed","message":"write b"}}',
      expect.stringContaining('no c'),
      expect.stringContaining('expected an object'),
    ]);
    expect(results[0]).toMatchObject({ value: { content: [{ type: 'text', text: 'look a' }] } });
    // The caller's attempts, and not those of the runner on top.
    expect(['a', 'b', 'c', 'd'].map((id) => world.brain.seen(id).length)).toEqual([1, 1, 3, 0]);
    caller.close();
  }, 20_000);

  it('gives calls up with the runner', async () => {
    const caller = world.caller();
    const runner = createToolRunner({ tools: await toolsOf(caller) });
    const controller = new AbortController();
    const run = runner.runAllAsync([{ id: '1', name: 'look', input: { id: 'a', hold: true } }], { signal: controller.signal });
    await expect.poll(() => world.brain.seen('a').length, POLL).toBe(1);
    controller.abort();
    expect((await run).results[0]).toMatchObject({ is_error: true, error: { code: 'cancelled' } });
    await expect.poll(() => world.brain.seen('a')[0]?.aborted, POLL).toBe(true);
    caller.close();
  }, 20_000);

  it('rejects unknown options and an empty prefix', async () => {
    const caller = world.caller();
    const said = async (options: unknown): Promise<string> => (await errorOf(toolsOf(caller, options as never))).message;
    expect(await said({ prefix: '' })).toBe('toolsOf: expected `prefix` to be a non-empty string, got an empty string');
    expect(await said({ Prefix: 1 })).toContain('toolsOf: unknown option `Prefix`. Did you mean `prefix`?');
    caller.close();
  });

  it('writes what is no text as its kind, and structure as JSON', async () => {
    const caller = world.caller();
    const [look] = await toolsOf(caller);
    const image = { type: 'image' };
    expect(look?.format?.({ content: [{ type: 'text', text: 'a' }, image] })).toBe('a\n[image]');
    expect(look?.format?.({ content: [], structuredContent: { n: 1 } })).toBe('{"n":1}');
    expect(look?.format?.({ content: [] })).toBe('');
    caller.close();
  });
});

it('stops asking a server of version 1 whose list has no end', async () => {
  const world = await (inMemory['sdk 1, in memory'] as () => Promise<McpWorld>)();
  const [first] = world.brain.tools;
  vi.spyOn(world.brain, 'list').mockImplementation(() => {
    world.brain.lists++;
    return { tools: first ? [first] : [], nextCursor: 'more' };
  });
  const warnings: string[] = [];
  const collect = ({ name }: Error): void => {
    warnings.push(name);
  };
  process.on('warning', collect);
  const caller = world.caller();
  expect((await caller.listTools()).map(({ name }) => name)).toEqual(['look']);
  expect(world.brain.lists).toBe(64);
  await sleep(0);
  process.off('warning', collect);
  // Of listeners to one signal.
  expect(warnings).toEqual([]);
  caller.close();
  await world.close();
});

it('takes every client apart from others: two callers leave it as it was, in whatever order they close', async () => {
  const world = await (inMemory['client 2, in memory'] as () => Promise<McpWorld>)();
  const [first, second] = [world.caller(), world.caller()];
  await Promise.all([first.listTools(), second.listTools()]);
  expect(world.brain.lists).toBe(4);
  await world.tellChange?.();
  await expect
    .poll(async () => {
      await Promise.all([first.listTools(), second.listTools()]);
      return world.brain.lists;
    }, POLL)
    .toBe(8);
  first.close();
  expect(world.client.fallbackNotificationHandler).toBeTypeOf('function');
  second.close();
  expect(world.client.fallbackNotificationHandler).toBeUndefined();
  await world.close();
});

it('leaves nothing at a client whose callers follow each other without a gap', async () => {
  const world = await (inMemory['client 2, in memory'] as () => Promise<McpWorld>)();
  const own = (): Promise<void> => Promise.resolve();
  world.client.fallbackNotificationHandler = own;
  let last = world.caller();
  for (let i = 0; i < 20; i++) {
    const next = world.caller();
    last.close();
    last = next;
  }
  expect(Reflect.get(world.client.fallbackNotificationHandler, 'next')).toBe(own);
  last.close();
  expect(world.client.fallbackNotificationHandler).toBe(own);
  await world.close();
});
