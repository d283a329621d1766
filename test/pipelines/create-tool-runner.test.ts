import type { ChatCompletionMessage } from 'openai/resources/chat/completions';
import { concat, defer, EMPTY, from, NEVER, Observable, of, Subject, take, throwError } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { leakCheck } from '../../marbles/leak-check.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, RetryOptions } from '../../operators/index.js';
import { adaptiveLimit, createAccount, createLimiter, isFlowError, lanes } from '../../operators/index.js';
import { createBatchTool } from '../../src/edge/batch-tool.js';
import type { ToolRunner, ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { toToolDefinitions } from '../../src/pipelines/tools/tool-definitions.js';
import { fromChatToolCalls, toToolResults } from '../../src/pipelines/tools/tool-formats.js';
import type { GuardedCall, Tool, ToolContext, ToolFailure, ToolResult } from '../../src/pipelines/tools/tool-types.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';
import { after, busy, calls, said, tool } from './tool-kit.js';

expectNoUnhandledRejections();

const echo = tool('echo', (input) => input);

function runner(options: Partial<ToolRunnerOptions> = {}): ToolRunner {
  return createToolRunner({ tools: [echo], ...options });
}

async function one(execute: Tool['execute'], options: Partial<Tool> = {}): Promise<ToolResult> {
  const { results } = await runner({ tools: [tool('t', execute, options)] }).runAllAsync([{ id: 'a', name: 't', input: {} }]);
  expect(results).toHaveLength(1);
  return results[0]!;
}

/** Runs in virtual time until nothing is scheduled any more; answers what came out, and when. */
function ran(made: ToolRunner, ...given: Parameters<ToolRunner['run']>): string[] {
  return virtualTime(({ flush, now }) => {
    const seen: string[] = [];
    made.run(...given).subscribe({
      next: (result) => seen.push(`${String(now())} ${result.tool_use_id}: ${said(result)}`),
      complete: () => seen.push(`${String(now())} end`),
    });
    flush();
    return seen;
  });
}

describe('results', () => {
  it('come as calls end, and from runAllAsync in the order of the calls, each with the id of its own call', async () => {
    const wait = tool('wait', (ms) => after(ms as number, `after ${String(ms)}`));
    const asked = [30, 10, 20].map((ms) => ({ id: `id ${String(ms)}`, name: 'wait', input: ms }));
    expect(ran(runner({ tools: [wait] }), asked)).toEqual(['10 id 10: after 10', '20 id 20: after 20', '30 id 30: after 30', '30 end']);
    const { results, summary } = await runner({ tools: [wait] }).runAllAsync(asked);
    expect(results.map(({ tool_use_id, index, content }) => [tool_use_id, index, content])).toEqual([
      ['id 30', 0, 'after 30'],
      ['id 10', 1, 'after 10'],
      ['id 20', 2, 'after 20'],
    ]);
    expect(summary).toEqual({
      total: 3,
      successful: 3,
      failed: 0,
      durationMs: expect.any(Number) as number,
      details: asked.map(({ id }) => ({ id, tool: 'wait', success: true })),
    });
    expect(summary.durationMs).toBeGreaterThanOrEqual(29);
  });

  it('are there at once for no calls', async () => {
    expect(await runner().runAllAsync([])).toEqual({
      results: [],
      summary: { total: 0, successful: 0, failed: 0, durationMs: expect.any(Number) as number, details: [] },
    });
    expect(ran(runner(), [])).toEqual(['0 end']);
  });

  it.each<[string, Tool['execute'], string, unknown]>([
    ['a text', () => 'text', 'text', 'text'],
    ['a list', () => [1, 'b'], '[1,"b"]', [1, 'b']],
    ['an object', () => ({ a: 1 }), '{"a":1}', { a: 1 }],
    ['null', () => null, 'null', null],
    ['nothing', () => undefined, '', undefined],
    ['a promise', () => Promise.resolve('later'), 'later', 'later'],
    ['a stream: its last value', () => of('a', 'b'), 'b', 'b'],
    ['an empty stream', () => EMPTY, '', undefined],
    [
      'an async generator: its last value',
      async function* () {
        yield await Promise.resolve('part');
        yield 'whole';
      },
      'whole',
      'whole',
    ],
    ['a ReadableStream: its last value', () => new Blob(['x']).stream().pipeThrough(new TextDecoderStream()), 'x', 'x'],
  ])('take %s', async (_what, execute, content, value) => {
    expect(await one(execute)).toEqual({
      type: 'tool_result',
      tool_use_id: 'a',
      name: 't',
      index: 0,
      attempts: 1,
      durationMs: expect.any(Number) as number,
      content,
      is_error: false,
      value,
      isTruncated: false,
    });
  });

  it('are written as their tool says', async () => {
    expect(said(await one(() => ({ rows: 3 }), { format: (value) => `${String((value as { rows: number }).rows)} rows` }))).toBe('3 rows');
  });

  it.each<[string, unknown, Partial<Tool>]>([
    ['a number JSON does not know', 10n, {}],
    ['a symbol', Symbol('s'), {}],
    ['a function', () => 'text', {}],
    ['what says that it is nothing in JSON', { toJSON: () => undefined }, {}],
    ['a circle', Object.assign([] as unknown[], { 0: 0 }).concat([]), { format: () => JSON.stringify(circle()) }],
    ['a format that throws', 1, { format: () => fail('no') }],
  ])('that cannot be written are failures: %s', async (_what, value, options) => {
    const result = await one(() => value, options);
    expect(said(result)).toBe('unreadable_result');
    expect((result as ToolFailure).cause).toBeInstanceOf(Error);
  });

  it.each<[string, () => never, string]>([
    ['an Error', () => fail('it broke'), 'it broke'],
    ['a text', () => toss('just text'), 'just text'],
    ['undefined', () => toss(undefined), 'failed without saying why'],
    ['null', () => toss(null), 'failed without saying why'],
    ['an object with a message', () => toss({ message: 'said so' }), 'said so'],
    ['an object without one', () => toss({ why: 1 }), 'failed without saying why'],
    [
      'an object whose message cannot be read',
      () =>
        toss({
          get message() {
            return fail('hands off');
          },
        }),
      'failed without saying why',
    ],
  ])('of a tool that throws %s tell its message', async (_what, throws, message) => {
    for (const execute of [throws, async () => Promise.resolve().then(throws), () => defer(throws)]) {
      const result = await one(execute);
      expect(result).toMatchObject({ is_error: true, attempts: 1, error: { code: 'failed', message } });
      expect(JSON.parse(result.content)).toEqual({ error: { code: 'failed', message } });
    }
  });

  it('of one failure leave the others alone', async () => {
    const sometimes = tool('sometimes', (input) => (input === 1 ? fail('no') : input));
    const { results, summary } = await runner({ tools: [sometimes] }).runAllAsync(calls(3, 'sometimes'));
    expect(results.map(said)).toEqual(['0', 'failed', '2']);
    expect(summary).toMatchObject({ total: 3, successful: 2, failed: 1 });
    expect(summary.details.map(({ success }) => success)).toEqual([true, false, true]);
  });

  it('are kept whole, and cut for the model only when asked', async () => {
    const long = tool('long', () => `${'a'.repeat(9)}😀${'b'.repeat(490)}`);
    const whole = (await runner({ tools: [long] }).runAllAsync(calls(1, 'long'))).results[0]!;
    expect(whole).toMatchObject({ isTruncated: false });
    expect(whole.content).toHaveLength(501);
    const cut = (await runner({ tools: [long], maxResultChars: 10 }).runAllAsync(calls(1, 'long'))).results[0]!;
    expect(cut).toMatchObject({ isTruncated: true, content: 'aaaaaaaaa\n[cut: only the first 9 of 501 characters]', value: whole.content });
  });

  it('become what the APIs take', async () => {
    const { results } = await runner().runAllAsync([
      { id: 'a', name: 'echo', input: 'hi' },
      { id: 'b', name: 'none', input: {} },
    ]);
    expect(toToolResults(results, 'anthropic')[0]?.content[0]).toEqual({
      type: 'tool_result',
      tool_use_id: 'a',
      content: 'hi',
      is_error: false,
    });
    expect(toToolResults(results, 'chat')[0]).toEqual({ role: 'tool', tool_call_id: 'a', content: 'hi' });
    const openAI = ['{"a":1}', '', 'not JSON'].map((text, i) => ({ id: String(i), function: { name: 'echo', arguments: text } }));
    expect(fromChatToolCalls(openAI).map(({ input }) => input)).toEqual([{ a: 1 }, {}, 'not JSON']);
    const parsed = [{ a: 1 }, [1], 5, null, undefined].map((given) => ({ id: 'a', function: { name: 'echo', arguments: given as never } }));
    expect(fromChatToolCalls(parsed).map(({ input }) => input)).toEqual([{ a: 1 }, [1], 5, {}, {}]);
  });
});

describe('calls that are not made', () => {
  const never = vi.fn();
  const read = tool('read', never, { parameters: z.object({ path: z.string(), lines: z.array(z.number()).optional() }) });

  afterEach(() => {
    expect(never).not.toHaveBeenCalled();
  });

  it('name the tools there are when theirs is unknown', async () => {
    const { results } = await runner({ tools: [read, echo] }).runAllAsync([{ id: 'a', name: 'raed', input: {} }]);
    expect(results[0]).toMatchObject({
      is_error: true,
      attempts: 0,
      error: { code: 'unknown_tool', available: ['read', 'echo'], message: 'there is no such tool; there are: read, echo' },
    });
  });

  it('say what is wrong with their arguments and where, and no value', async () => {
    const input = { path: 4711, lines: [1, 'secret'] };
    const { results } = await runner({ tools: [read] }).runAllAsync([{ id: 'a', name: 'read', input }]);
    expect(results[0]).toMatchObject({ is_error: true, error: { code: 'invalid_arguments' } });
    const { error } = JSON.parse(results[0]!.content) as ToolFailure;
    expect(error.issues?.map(({ path }) => path)).toEqual(['path', 'lines.1']);
    expect(results[0]!.content).not.toMatch(/4711|secret/);
  });

  it('are no plain data', async () => {
    const { results } = await runner({ tools: [read] }).runAllAsync([{ id: 'a', name: 'read', input: { path: () => 'x' } }]);
    expect(results[0]).toMatchObject({ error: { code: 'invalid_arguments', issues: [{ path: '', message: 'expected plain data' }] } });
  });

  it('have a schema that throws', async () => {
    const parameters = { safeParse: () => fail('broken') };
    const { results } = await runner({ tools: [{ ...read, parameters }] }).runAllAsync([{ id: 'a', name: 'read', input: {} }]);
    expect(results[0]).toMatchObject({ error: { code: 'failed', message: 'the arguments could not be checked' } });
    expect((results[0] as ToolFailure).cause).toMatchObject({ code: 'FLOW_CALLBACK', callback: 'parameters' });
  });

  it('repeat an id: the second is refused, and the first has its result', async () => {
    const asked = [...calls(2, 'echo'), { id: 'echo-0', name: 'echo', input: 'again' }];
    const { results } = await runner().runAllAsync(asked);
    expect(results.map((result) => [result.tool_use_id, result.index, said(result)])).toEqual([
      ['echo-0', 0, '0'],
      ['echo-1', 1, '1'],
      ['echo-0', 2, 'duplicate_id'],
    ]);
  });

  it('come after the end', async () => {
    const made = runner();
    made.close();
    const { results } = await made.runAllAsync(calls(1, 'echo'));
    expect(results.map(said)).toEqual(['closed']);
    expect((results[0] as ToolFailure).cause).toSatisfy((cause) => isFlowError(cause, 'FLOW_CLOSED'));
  });
});

describe('arguments', () => {
  it('are what the schema makes of them', async () => {
    const parameters = z.object({ n: z.coerce.number(), unit: z.string().default('ms') });
    const { results } = await runner({ tools: [{ ...echo, parameters }] }).runAllAsync([
      { id: 'a', name: 'echo', input: { n: '5', more: 1 } },
    ]);
    expect(results.map(said)).toEqual(['{"n":5,"unit":"ms"}']);
  });

  it('may be checked by any Standard Schema, also one that takes its time', async () => {
    const validate = (input: unknown) =>
      Promise.resolve(input === 'good' ? { value: 'GOOD' } : { issues: [{ message: 'bad', path: [{ key: 'a' }, 0] }] });
    const made = runner({ tools: [{ ...echo, parameters: { '~standard': { validate } } }] });
    const { results } = await made.runAllAsync([
      { id: 'a', name: 'echo', input: 'good' },
      { id: 'b', name: 'echo', input: 'no' },
    ]);
    expect(results.map(said)).toEqual(['GOOD', 'invalid_arguments']);
    expect((results[1] as ToolFailure).error.issues).toEqual([{ path: 'a.0', message: 'bad' }]);
  });

  it('are frozen through and through, and no longer those of the caller', async () => {
    const input = { list: [{ deep: 1 }], when: new Date(0) };
    let seen: unknown;
    const made = runner({ tools: [tool('t', (args) => (seen = args))] });
    const run = made.runAllAsync([{ id: 'a', name: 't', input }]);
    input.list[0]!.deep = 2;
    await run;
    expect(seen).toEqual({ list: [{ deep: 1 }], when: new Date(0) });
    const { list } = seen as typeof input;
    expect([seen, list, list[0]].every((part) => Object.isFrozen(part))).toBe(true);
  });

  it('that are nested as deep as memory allows do not break it', async () => {
    let deep: unknown = 'bottom';
    for (let i = 0; i < 3000; i++) deep = [deep];
    const { results } = await runner({ tools: [tool('t', () => 'ok')] }).runAllAsync([{ id: 'a', name: 't', input: deep }]);
    expect(results).toHaveLength(1);
  });
});

describe('limits', () => {
  it('hold with fifty calls: five at a time, and all have their results', () => {
    let running = 0;
    let peak = 0;
    const slow = tool('slow', (input) => {
      peak = Math.max(peak, ++running);
      return new Observable((subscriber) => {
        const sub = after(10, input).subscribe(subscriber);
        return () => {
          running--;
          sub.unsubscribe();
        };
      });
    });
    const seen = ran(runner({ tools: [slow] }), calls(50, 'slow'));
    expect(seen).toHaveLength(51);
    expect(peak).toBe(5);
    expect(seen.at(-1)).toBe('100 end');
  });

  it('of one tool leave the others alone: one that is full never blocks another', () => {
    const image = tool('image', () => after(100, 'image'), { concurrency: 1 });
    const search = tool('search', () => after(10, 'found'));
    const asked = [...calls(3, 'image'), ...calls(4, 'search')];
    expect(ran(runner({ tools: [image, search], concurrency: 3 }), asked)).toEqual([
      '10 search-0: found',
      '10 search-1: found',
      '20 search-2: found',
      '20 search-3: found',
      '100 image-0: image',
      '200 image-1: image',
      '300 image-2: image',
      '300 end',
    ]);
  });

  it('may be shared: a limiter counts calls of several runners, and its rate holds them', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 2, queue: lanes([{ name: 'now' }, { name: 'later' }]) });
      const slow = tool('slow', () => after(10, 'ok'));
      const [first, second] = [runner({ tools: [slow], limiter }), runner({ tools: [slow], limiter, lane: 'now' })];
      const order: string[] = [];
      first.run(calls(4, 'slow', (i) => i)).subscribe(() => order.push('first'));
      second.run(calls(2, 'slow')).subscribe(() => order.push('second'));
      expect([limiter.executing, first.snapshot().queued, second.snapshot().queued]).toEqual([2, 2, 2]);
      advance(100);
      expect(order).toEqual(['first', 'first', 'second', 'second', 'first', 'first']);
      first.close();
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('refuse the call too many, and only that', () => {
    const slow = tool('slow', () => after(10, 'ok'));
    const seen = ran(runner({ tools: [slow], concurrency: 1, maxQueued: 1 }), calls(4, 'slow'));
    expect(seen).toEqual(['0 slow-2: queue_full', '0 slow-3: queue_full', '10 slow-0: ok', '20 slow-1: ok', '20 end']);
    expect(ran(runner({ tools: [slow], concurrency: 1, maxQueued: 0 }), calls(2, 'slow'))).toEqual([
      '0 slow-1: queue_full',
      '10 slow-0: ok',
      '10 end',
    ]);
  });

  it('of a closed shared limiter end in an error for each call', async () => {
    const limiter = createLimiter();
    limiter.close();
    const { results } = await runner({ limiter }).runAllAsync(calls(2, 'echo'));
    expect(results.map(said)).toEqual(['closed', 'closed']);
  });

  it('follow the calls when they may: fewer after a refusal, more while it goes well', () => {
    virtualTime(({ advance }) => {
      const changes: number[] = [];
      const onEvent = (event: FlowEvent): void => {
        if (event.type === 'limitChanged') changes.push(event.concurrency);
      };
      let isBusy = true;
      const api = tool('api', () => (isBusy ? throwError(() => busy()) : after(10, 'ok')));
      const limiter = createLimiter({ onEvent });
      const adapting = adaptiveLimit(limiter);
      const made = runner({ tools: [api], limiter, retry: false, maxQueued: 20 });
      made.run(calls(1, 'api')).subscribe();
      expect(changes).toEqual([4, 3]);
      isBusy = false;
      for (let i = 0; i < 3; i++) {
        made.run(calls(12, 'api')).subscribe();
        advance(100);
      }
      expect(changes.slice(0, 4)).toEqual([4, 3, 4, 5]);
      made.close();
      adapting.unsubscribe();
    });
  });

  it('do not grow the stack: 20,000 calls that take no time', { timeout: 60_000 }, () => {
    let count = 0;
    runner({ maxQueued: Infinity })
      .run(calls(20_000, 'echo'))
      .subscribe(() => count++);
    expect(count).toBe(20_000);
    const gate = new Subject<string>();
    const waits = tool('waits', () => gate.pipe(take(1)));
    runner({ tools: [waits], concurrency: 1, maxQueued: Infinity })
      .run(calls(1, 'waits'))
      .subscribe(() => count++);
    gate.next('open');
    expect(count).toBe(20_001);
  });
});

describe('time limits', () => {
  it('start with the slot, and not with the wait for it', () => {
    const slow = tool('slow', () => after(8, 'ok'));
    expect(ran(runner({ tools: [slow], concurrency: 1, timeoutMs: 10 }), calls(3, 'slow'))).toEqual([
      '8 slow-0: ok',
      '16 slow-1: ok',
      '24 slow-2: ok',
      '24 end',
    ]);
  });

  it('abort the call, and end in an error the model understands', () => {
    const aborted: unknown[] = [];
    const hangs = tool('hangs', (_args, { signal }) => {
      signal.addEventListener('abort', () => aborted.push((signal.reason as Error).name));
      return NEVER;
    });
    const [result] = virtualTime(({ flush }) => {
      const seen: ToolResult[] = [];
      runner({ tools: [hangs], timeoutMs: 50 })
        .run(calls(1, 'hangs'))
        .subscribe((settled) => seen.push(settled));
      flush();
      return seen;
    });
    expect(result).toMatchObject({ is_error: true, attempts: 1, durationMs: 50 });
    expect((result as ToolFailure).error).toEqual({ code: 'timeout', message: 'the tool took longer than 50 ms' });
    expect(aborted).toEqual(['AbortError']);
  });

  it('may be those of the tool', () => {
    const hangs = tool('hangs', () => NEVER, { timeoutMs: 20 });
    expect(ran(runner({ tools: [hangs] }), calls(1, 'hangs'))).toEqual(['20 hangs-0: timeout', '20 end']);
  });

  it('leave no timer behind: not after a result, an error, a refusal or a cancelled call', () => {
    virtualTime(({ pending }) => {
      const made = runner({
        tools: [echo, tool('throws', () => fail('no')), tool('hangs', () => NEVER)],
        guard: ({ id }) => id !== 'echo-1',
      });
      made.run([...calls(2, 'echo'), ...calls(1, 'throws')], { deadlineMs: 1000 }).subscribe();
      expect(pending()).toBe(0);
      const left = made.run(calls(2, 'hangs'), { deadlineMs: 1000 }).subscribe();
      expect(pending()).toBe(3);
      left.unsubscribe();
      expect(pending()).toBe(0);
      made.close();
    });
  });

  it('for all calls together end those that are not over, and only those', () => {
    const slow = tool('slow', (ms) => after(ms as number, 'ok'));
    const asked = [5, 50, 5].map((input, i) => ({ id: String(i), name: 'slow', input }));
    const made = runner({ tools: [slow], concurrency: 1 });
    expect(ran(made, asked, { deadlineMs: 20 })).toEqual(['5 0: ok', '20 1: timeout', '20 2: timeout', '20 end']);
    expect(made.snapshot()).toMatchObject({ open: 0, executing: 0, queued: 0 });
  });

  it('leave a promise its slot until it has ended, or for a while: it cannot be stopped', () => {
    virtualTime(({ advance }) => {
      const stuck = tool('stuck', () => new Promise(() => undefined), { concurrency: 1 });
      const made = runner({ tools: [stuck, echo], timeoutMs: 10, abortGraceMs: 100 });
      const seen: string[] = [];
      made.run([...calls(2, 'stuck')]).subscribe((result) => seen.push(said(result)));
      advance(15);
      expect([seen, made.snapshot().tools['stuck']]).toEqual([['timeout'], { queued: 1, heldByRate: 0, heldBySlot: 1, executing: 1 }]);
      advance(100);
      expect(made.snapshot().tools['stuck']).toMatchObject({ queued: 0, executing: 1 });
      advance(200);
      expect([seen, made.snapshot().executing]).toEqual([['timeout', 'timeout'], 0]);
    });
  });
});

describe('giving up', () => {
  it('by a signal ends what is not over, aborts what runs, starts nothing more', () => {
    virtualTime(({ advance, pending }) => {
      const stop = new AbortController();
      const signals: AbortSignal[] = [];
      const slow = tool('slow', (ms, { signal }) => {
        signals.push(signal);
        return after(ms as number, 'ok');
      });
      const made = runner({ tools: [slow], concurrency: 2 });
      const seen: string[] = [];
      made
        .run(
          calls(4, 'slow', (i) => 10 * (i + 1)),
          { signal: stop.signal },
        )
        .subscribe({
          next: (result) => seen.push(`${result.tool_use_id} ${said(result)}`),
          complete: () => seen.push('end'),
        });
      advance(12);
      stop.abort();
      expect(seen).toEqual(['slow-0 ok', 'slow-1 cancelled', 'slow-2 cancelled', 'slow-3 cancelled', 'end']);
      expect(signals.map(({ aborted }) => aborted)).toEqual([false, true, true]);
      expect([pending(), made.snapshot().open, made.snapshot().executing]).toEqual([0, 0, 0]);
    });
  });

  it('before the start makes no call', async () => {
    const { results } = await runner().runAllAsync(calls(2, 'echo'), { signal: AbortSignal.abort() });
    expect(results.map((result) => [said(result), result.attempts])).toEqual([
      ['cancelled', 0],
      ['cancelled', 0],
    ]);
  });

  it('by unsubscribing emits nothing and leaves nothing', () => {
    virtualTime(({ advance, pending }) => {
      const events: string[] = [];
      const torn: unknown[] = [];
      const hangs = tool('hangs', (input, { signal }) => {
        signal.addEventListener('abort', () => torn.push(input));
        return NEVER;
      });
      const made = runner({ tools: [hangs], concurrency: 2, onEvent: ({ type }) => events.push(type) });
      const seen: unknown[] = [];
      const left = made.run(calls(4, 'hangs')).subscribe((result) => seen.push(result));
      advance(5);
      left.unsubscribe();
      advance(100_000);
      expect([seen, torn, pending()]).toEqual([[], [0, 1], 0]);
      expect(events.filter((type) => type === 'cancelled')).toHaveLength(4);
      expect(made.snapshot()).toMatchObject({ open: 0, queued: 0, executing: 0 });
    });
  });

  it('from within: a consumer that has enough, a listener that aborts, a tool that ends its own run', () => {
    virtualTime(({ flush }) => {
      const executed: unknown[] = [];
      const counts = tool('counts', (input) => executed.push(input));
      runner({ tools: [counts] })
        .run(calls(5, 'counts'))
        .pipe(take(2))
        .subscribe();
      expect(executed).toEqual([0, 1]);

      const stop = new AbortController();
      const seen: string[] = [];
      const onEvent = ({ type }: FlowEvent): void => {
        if (type === 'attemptStarted') stop.abort();
      };
      executed.length = 0;
      runner({ tools: [counts], onEvent })
        .run(calls(2, 'counts'), { signal: stop.signal })
        .subscribe((result) => seen.push(said(result)));
      expect([seen, executed]).toEqual([['cancelled', 'cancelled'], []]);

      const own = new AbortController();
      const ends = tool('ends', () => {
        own.abort();
        return 'too late';
      });
      seen.length = 0;
      runner({ tools: [ends] })
        .run(calls(2, 'ends'), { signal: own.signal })
        .subscribe((result) => seen.push(said(result)));
      flush();
      expect(seen).toEqual(['cancelled', 'cancelled']);
    });
  });

  it('costs a session signal one listener, however many calls wait on it', { timeout: 60_000 }, () => {
    virtualTime(({ flush }) => {
      const many = sized(1000, 10_000);
      const { signal } = new AbortController();
      const added = vi.spyOn(signal, 'addEventListener');
      const removed = vi.spyOn(signal, 'removeEventListener');
      const slow = tool('slow', () => after(1, 'ok'));
      const made = runner({ tools: [slow], maxQueued: Infinity, concurrency: 100 });
      let done = 0;
      for (let i = 0; i < many; i++) made.run([{ id: 'a', name: 'slow', input: i }], { signal }).subscribe(() => done++);
      flush();
      expect([done, added.mock.calls.length, removed.mock.calls.length]).toEqual([many, 1, 1]);
    });
  });
});

describe('the guard', () => {
  it.each<[string, NonNullable<ToolRunnerOptions['guard']>, string]>([
    ['false', () => false, 'permission denied'],
    ['a reason', () => 'not on Sundays', 'permission denied: not on Sundays'],
    ['an empty reason', () => '', 'permission denied'],
    ['a throw', () => fail('secret'), 'permission denied'],
    ['a rejection', () => Promise.reject(new Error('secret')), 'permission denied'],
    ['an error', () => throwError(() => new Error('secret')), 'permission denied'],
    ['a stream without an answer', () => EMPTY, 'permission denied'],
    ['something that is only like a yes', () => 1 as never, 'permission denied'],
    ['a late no', () => Promise.resolve(false), 'permission denied'],
    ['a stream that ends in a no', () => of(true, false), 'permission denied'],
  ])('refuses with %s, and nothing is made', async (_what, guard, message) => {
    const execute = vi.fn();
    const { results } = await runner({ tools: [tool('t', execute, { readOnly: true })], guard }).runAllAsync([
      { id: 'a', name: 't', input: {} },
    ]);
    expect(results[0]).toMatchObject({ is_error: true, attempts: 0, error: { code: 'permission_denied', message } });
    expect(results[0]!.content).not.toContain('secret');
    expect(execute).not.toHaveBeenCalled();
  });

  it.each<[string, NonNullable<ToolRunnerOptions['guard']>]>([
    ['true', () => true],
    ['a promise of true', () => Promise.resolve(true)],
    ['a stream that ends in true', () => of(false, true)],
  ])('lets a call go with %s', async (_what, guard) => {
    const { results } = await runner({ guard }).runAllAsync(calls(1, 'echo'));
    expect(results.map(said)).toEqual(['0']);
  });

  it('sees the very arguments that are executed: the same object, which neither the caller nor the guard can change', async () => {
    const asked: GuardedCall[] = [];
    const made: unknown[] = [];
    const input = { path: 'notes.md' };
    const guard = async (call: GuardedCall): Promise<boolean> => {
      asked.push(call);
      // Between the check and the use.
      input.path = '/etc/passwd';
      expect(() => ((call.input as typeof input).path = '/etc/passwd')).toThrow(TypeError);
      expect(() => ((call as { input: unknown }).input = {})).toThrow(TypeError);
      await settle();
      return true;
    };
    const read = tool('read', (args) => made.push(args) && 'text', { parameters: z.looseObject({ path: z.string() }) });
    const { results } = await runner({ tools: [read], guard }).runAllAsync([{ id: 'a', name: 'read', input }]);
    expect(results.map(said)).toEqual(['text']);
    expect(made).toEqual([{ path: 'notes.md' }]);
    expect(made[0]).toBe(asked[0]?.input);
    expect(asked.map(({ id, name }) => [id, name])).toEqual([['a', 'read']]);
  });

  it('judges the tool that is executed, whatever becomes of the call while its arguments are checked', async () => {
    const asked: string[] = [];
    const made: string[] = [];
    const validate = async (input: unknown) => {
      await settle();
      return { value: input };
    };
    const tools = ['read', 'remove'].map((name) => tool(name, () => made.push(name), { parameters: { '~standard': { validate } } }));
    const call = { id: 'a', name: 'remove', input: {} };
    const run = runner({ tools, guard: ({ name }) => asked.push(name) > 0 && name === 'read' }).runAllAsync([call]);
    call.name = 'read';
    expect((await run).results.map(({ name, is_error }) => [name, is_error])).toEqual([['remove', true]]);
    expect([asked, made]).toEqual([['remove'], []]);
  });

  it('is asked with the slot in hand, in the moment the call is to start, and not for calls that wait', () => {
    const asked: string[] = [];
    const slow = tool('slow', () => after(10, 'ok'));
    virtualTime(({ flush, now }) => {
      let isAllowed = true;
      const guard = ({ id }: GuardedCall): boolean => {
        asked.push(`${String(now())} ${id}`);
        return isAllowed;
      };
      const seen: string[] = [];
      runner({ tools: [slow], concurrency: 1, guard })
        .run(calls(3, 'slow'))
        .subscribe((result) => {
          seen.push(said(result));
          // What was allowed when the calls were handed in is not any more.
          isAllowed = false;
        });
      flush();
      expect(seen).toEqual(['ok', 'permission_denied', 'permission_denied']);
    });
    expect(asked).toEqual(['0 slow-0', '10 slow-1', '10 slow-2']);
  });

  it('is asked anew before every attempt, and its no ends the attempts', () => {
    const attempts: unknown[] = [];
    const flaky = tool('flaky', () => throwError(() => busy()), { readOnly: true });
    const guard: ToolRunnerOptions['guard'] = (call, { attempt, tool: { readOnly } }) => {
      attempts.push([call.id, attempt, readOnly]);
      return attempt < 3;
    };
    const seen = ran(runner({ tools: [flaky], guard, retry: { maxAttempts: 5, jitter: 'none', delayMs: 10 } }), calls(1, 'flaky'));
    expect(attempts).toEqual([1, 2, 3].map((attempt) => ['flaky-0', attempt, true]));
    expect(seen).toEqual(['30 flaky-0: permission_denied', '30 end']);
  });

  it('is told when its answer is of no use any more, and one that comes too late starts nothing', async () => {
    const execute = vi.fn();
    let signal: AbortSignal | undefined;
    let answer: (allowed: boolean) => void = () => undefined;
    const guard: ToolRunnerOptions['guard'] = (_call, context) => {
      ({ signal } = context);
      return new Promise((resolve) => (answer = resolve));
    };
    const stop = new AbortController();
    const made = runner({ tools: [tool('t', execute)], guard, concurrency: 1 });
    const run = made.runAllAsync([{ id: 'a', name: 't', input: {} }], { signal: stop.signal });
    expect(made.snapshot()).toMatchObject({ executing: 1 });
    stop.abort();
    answer(true);
    expect((await run).results.map(said)).toEqual(['cancelled']);
    await settle();
    expect([signal?.aborted, execute.mock.calls.length, made.snapshot().executing]).toEqual([true, 0, 0]);
  });

  it('is not asked for calls that are given up together with the one in the slot', () => {
    virtualTime(({ advance }) => {
      const asked: string[] = [];
      const guard = ({ id }: GuardedCall): Observable<never> => (asked.push(id), NEVER);
      const made = runner({ guard, concurrency: 1 });
      const stop = new AbortController();
      for (const id of ['a', 'b']) made.run([{ id, name: 'echo', input: 0 }, ...calls(2, 'echo')], { signal: stop.signal }).subscribe();
      stop.abort();
      const left = made.run(calls(3, 'echo')).subscribe();
      advance(1);
      left.unsubscribe();
      advance(1);
      made.run(calls(3, 'echo')).subscribe();
      advance(1);
      made.close();
      expect(asked).toEqual(['a', 'echo-0', 'echo-0']);
    });
  });

  it('that never answers is waited for no longer than a call may take', () => {
    const seen = ran(runner({ guard: () => NEVER, timeoutMs: 40 }), calls(1, 'echo'));
    expect(seen).toEqual(['40 echo-0: timeout', '40 end']);
  });

  it('gives back what a shared limiter had charged when it says no', () => {
    virtualTime(() => {
      const limiter = createAccount({ requestsPerMinute: 60, burstSeconds: 2, headroom: 1 });
      runner({ limiter, guard: () => false })
        .run(calls(2, 'echo'))
        .subscribe();
      expect(limiter.snapshot()).toMatchObject({ executing: 0, requests: 2 });
    });
  });
});

describe('another attempt', () => {
  const retry = { maxAttempts: 3, delayMs: 100, jitter: 'none' } as const;
  const slowDown = Object.assign(new Error('slow down'), { status: 429 });

  function flaky(failures: number, options: Partial<Tool> = {}, error: unknown = busy()): Tool & { calls: number } {
    const made: Tool & { calls: number } = {
      ...tool('flaky', () => (++made.calls <= failures ? defer(() => toss(error)) : of(`at attempt ${String(made.calls)}`)), options),
      calls: 0,
    };
    return made;
  }

  /** What `createToolRunner` is given has no fields of ours. */
  const plain = ({ calls: _calls, ...rest }: Tool & { calls: number }): Tool => rest;

  it.each<[string, Partial<Tool>, string]>([
    ['says nothing of the kind', {}, '0 flaky-0: failed'],
    ['only reads', { readOnly: true }, '300 flaky-0: at attempt 3'],
    ['may be run twice', { idempotent: true }, '300 flaky-0: at attempt 3'],
    ['reads but must not be run twice', { readOnly: true, idempotent: false }, '0 flaky-0: failed'],
    ['says how', { retry: { delayMs: 7, jitter: 'none' } }, '21 flaky-0: at attempt 3'],
    ['says never', { readOnly: true, retry: false }, '0 flaky-0: failed'],
  ])('is made for a tool that %s', (_what, options, end) => {
    expect(ran(runner({ tools: [plain(flaky(2, options))], retry }), calls(1, 'flaky'))[0]).toBe(end);
  });

  it.each<[string, unknown, number]>([
    ['a failure that may pass', busy(), 3],
    ['a wrong argument', Object.assign(new Error('what?'), { status: 400 }), 1],
    ['a missing right', Object.assign(new Error('who?'), { status: 401 }), 1],
    ['an abort', new DOMException('stopped', 'AbortError'), 1],
    ['anything else', new Error('broke'), 1],
  ])('after %s: %s', (_what, error, attempts) => {
    const made = flaky(9, { readOnly: true }, error);
    const [end] = ran(runner({ tools: [plain(made)], retry }), calls(1, 'flaky'));
    expect(end).toContain('failed');
    expect(made.calls).toBe(attempts);
  });

  it('comes after a timeout, with a signal of its own', () => {
    const signals: AbortSignal[] = [];
    const slow = tool(
      'slow',
      (_args, { signal }) => {
        signals.push(signal);
        return signals.length === 1 ? NEVER : of('ok');
      },
      { idempotent: true },
    );
    expect(ran(runner({ tools: [slow], timeoutMs: 50, retry }), calls(1, 'slow'))).toEqual(['150 slow-0: ok', '150 end']);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('waits without a slot: others run meanwhile', () => {
    const made = runner({ tools: [plain(flaky(1, { readOnly: true })), tool('slow', () => after(10, 'ok'))], concurrency: 1, retry });
    expect(ran(made, [...calls(1, 'flaky'), ...calls(2, 'slow')])).toEqual([
      '10 slow-0: ok',
      '20 slow-1: ok',
      '100 flaky-0: at attempt 2',
      '100 end',
    ]);
  });

  it('waits at least as long as it is asked to, and so do other calls of that tool, and of no other', () => {
    const inHalfASecond = Object.assign(new Error('slow down'), { status: 429, headers: { 'retry-after-ms': '500' } });
    let count = 0;
    const api = tool('api', () => (++count === 1 ? throwError(() => inHalfASecond) : of('ok')), { idempotent: true });
    const made = runner({ tools: [api, echo], random: () => 0, retry: {} });
    expect(ran(made, [...calls(2, 'api'), ...calls(1, 'echo')])).toEqual(['0 echo-0: 0', '500 api-1: ok', '500 api-0: ok', '500 end']);
  });

  it('takes no attempt after a refusal for the rate, and nothing of the share of retries', () => {
    const made = flaky(70, { readOnly: true }, slowDown);
    const results = virtualTime(({ flush }) => {
      const all: ToolResult[] = [];
      const own = runner({ tools: [plain(made)], retry: { ...retry, maxShare: 0.1 }, concurrency: 20 });
      own.run(calls(20, 'flaky')).subscribe((result) => all.push(result));
      flush();
      return all;
    });
    expect(results).toHaveLength(20);
    expect(results.filter(({ is_error }) => is_error)).toEqual([]);
    expect(new Set(results.map(({ attempts }) => attempts))).toEqual(new Set([1]));
    expect(made.calls).toBe(90);
  });

  it('is waited for after refusals up to a bound: ten minutes, or the one that was given', () => {
    const endOf = (own: RetryOptions, deadlineMs = Infinity) =>
      virtualTime(({ flush, now }) => {
        const made = runner({ tools: [plain(flaky(9999, { readOnly: true }, slowDown))], retry: { ...retry, ...own } });
        const seen: string[] = [];
        made.run(calls(1, 'flaky'), { deadlineMs }).subscribe((result) => seen.push(`${String(now())} ${said(result)}`));
        flush();
        return seen;
      });
    expect(endOf({ maxThrottledMs: 0 })).toEqual(['0 failed']);
    expect(endOf({ maxThrottledMs: 700 })).toEqual(['700 failed']);
    expect(endOf({ delayMs: 200_000, maxMs: 200_000 })).toEqual(['600000 failed']);
    // The next pause would go beyond it.
    expect(endOf({ delayMs: 200_000, maxMs: 200_000 }, 3_000_000)).toEqual(['2800000 timeout']);
  });

  it('is not made when its caller gives up while it waits', () => {
    virtualTime(({ advance, pending }) => {
      const made = flaky(9, { readOnly: true });
      const run = runner({ tools: [plain(made)], retry });
      const seen: string[] = [];
      const stop = new AbortController();
      run.run(calls(1, 'flaky'), { signal: stop.signal }).subscribe((result) => seen.push(said(result)));
      advance(50);
      expect(run.snapshot()).toMatchObject({ open: 1, backingOff: 1, queued: 0, executing: 0 });
      stop.abort();
      expect([seen, pending(), made.calls]).toEqual([['cancelled'], 0, 1]);
    });
  });

  it('keeps within its budget', () => {
    let count = 0;
    const down = tool('down', () => (count++, throwError(() => busy())), { readOnly: true });
    const seen = ran(runner({ tools: [down], concurrency: 20, retry: { ...retry, maxAttempts: 2, maxShare: 0.1 } }), calls(20, 'down'));
    expect(seen).toHaveLength(21);
    expect(count).toBe(23);
  });

  it('is the last when there is no chance to draw', () => {
    const made = flaky(9, { readOnly: true });
    ran(runner({ tools: [plain(made)], random: () => NaN }), calls(1, 'flaky'));
    expect(made.calls).toBe(1);
  });
});

describe('calls as a stream', () => {
  it('are made as they come, and an id is free again when its call is over', () => {
    virtualTime(({ advance }) => {
      const source = new Subject<{ id: string; name: string; input: unknown }>();
      const seen: string[] = [];
      const slow = tool('slow', (input) => after(10, input));
      source.pipe(runner({ tools: [slow] }).mapCalls()).subscribe({
        next: (result) => seen.push(`${String(result.index)} ${said(result)}`),
        complete: () => seen.push('end'),
      });
      source.next({ id: 'a', name: 'slow', input: 'one' });
      source.next({ id: 'a', name: 'slow', input: 'two' });
      advance(10);
      source.next({ id: 'a', name: 'slow', input: 'three' });
      source.complete();
      expect(seen).toEqual(['1 duplicate_id', '0 one']);
      advance(10);
      expect(seen).toEqual(['1 duplicate_id', '0 one', '2 three', 'end']);
    });
  });

  it('end with an error of their source, which aborts what runs', () => {
    let signal: AbortSignal | undefined;
    const hangs = tool('hangs', (_args, context) => (({ signal } = context), NEVER));
    const broken = new Error('source');
    const ends: unknown[] = [];
    concat(
      from(calls(1, 'hangs')),
      throwError(() => broken),
    )
      .pipe(runner({ tools: [hangs] }).mapCalls())
      .subscribe({ error: (error: unknown) => ends.push(error) });
    expect([ends, signal?.aborted]).toEqual([[broken], true]);
  });

  it('end with an error when something among them is no call', () => {
    const ends: unknown[] = [];
    of({ id: '', name: 'echo', input: 0 })
      .pipe(runner().mapCalls())
      .subscribe({ error: (error: unknown) => ends.push((error as { code: string }).code) });
    expect(ends).toEqual(['FLOW_CONFIG_INVALID']);
  });

  it('may feed themselves', () => {
    const source = new Subject<{ id: string; name: string; input: unknown }>();
    const seen: string[] = [];
    source.pipe(runner().mapCalls()).subscribe((result) => {
      seen.push(said(result));
      if (seen.length < 1000) source.next({ id: 'a', name: 'echo', input: seen.length });
    });
    source.next({ id: 'a', name: 'echo', input: 0 });
    expect(seen).toHaveLength(1000);
  });
});

describe('a tool that makes calls', () => {
  const both = (runsTools: boolean): Tool =>
    tool('both', (_args, { id, run }) => run([1, 2].map((n) => ({ id: `${id}/${String(n)}`, name: 'echo', input: n }))), {
      runsTools,
      format: (value) => JSON.stringify((value as { summary: unknown }).summary),
    });

  it('has their results, and needs no slot while it waits for them', () => {
    expect(ran(runner({ tools: [echo, both(true)], concurrency: 1 }), calls(2, 'both'))).toEqual([
      expect.stringContaining('"total":2,"successful":2,"failed":0'),
      expect.stringContaining('both-1/2'),
      '0 end',
    ]);
  });

  it('has to say so: with a slot in hand it would wait for itself', async () => {
    const { results } = await runner({ tools: [echo, both(false)], concurrency: 1 }).runAllAsync(calls(1, 'both'));
    expect((results[0] as ToolFailure).error.message).toContain('`runsTools` to be true for a tool that makes calls');
  });

  it('cannot go on when its own call is over', async () => {
    const late: unknown[] = [];
    const keeps = tool(
      'keeps',
      (_args, { run }) => {
        setTimeout(() => {
          try {
            void run([]);
          } catch (error) {
            late.push((error as { code: string }).code);
          }
        }, 1);
        return 'over';
      },
      { runsTools: true },
    );
    await runner({ tools: [keeps] }).runAllAsync(calls(1, 'keeps'));
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(late).toEqual(['FLOW_CLOSED']);
  });

  it('takes its calls with it when it is given up, also when it waits for them with a promise', async () => {
    const signals: AbortSignal[] = [];
    const hangs = tool('hangs', (_args, { signal }) => (signals.push(signal), NEVER));
    const waits = tool(
      'waits',
      async (_args, { run }) => {
        await new Promise((resolve, reject) => {
          run(calls(2, 'hangs')).subscribe({ next: resolve, error: reject });
        });
      },
      { runsTools: true },
    );
    const stop = new AbortController();
    const made = runner({ tools: [hangs, waits] });
    const run = made.runAllAsync(calls(1, 'waits'), { signal: stop.signal });
    expect(signals).toHaveLength(2);
    stop.abort();
    expect((await run).results.map(said)).toEqual(['cancelled']);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect(made.snapshot()).toMatchObject({ open: 0, executing: 0 });
  });
});

describe('a context', () => {
  it('reaches the guard and the tool as it is, in every attempt and in each of the three ways to run', async () => {
    const context = { user: 'ada' };
    const seen: unknown[] = [];
    let attempts = 0;
    const flaky = tool(
      'flaky',
      (_args, given) => {
        seen.push(given.context);
        if (attempts++ === 0) throw busy();
        return 'ok';
      },
      { readOnly: true, retry: { maxAttempts: 2, delayMs: 1 } },
    );
    const made = runner({ tools: [flaky], guard: (_call, given) => seen.push(given.context) > 0 });
    const asked = calls(1, 'flaky');
    await made.runAllAsync(asked, { context });
    expect(seen).toHaveLength(4);
    await new Promise((resolve) =>
      made.run(asked, { context }).subscribe({
        complete: () => {
          resolve(undefined);
        },
      }),
    );
    await new Promise((resolve) =>
      from(asked)
        .pipe(made.mapCalls({ context }))
        .subscribe({
          complete: () => {
            resolve(undefined);
          },
        }),
    );
    expect(seen).toHaveLength(8);
    expect(seen.every((one) => one === context)).toBe(true);
  });

  it('is that of its own run, side by side, and undefined without one', async () => {
    const who = tool('who', (_args, { context }) => String(context));
    const made = runner({ tools: [who] });
    const runs = await Promise.all([undefined, 'ada', 'bob'].map((context) => made.runAllAsync(calls(1, 'who'), { context })));
    expect(runs.map(({ results }) => said(results[0]))).toEqual(['undefined', 'ada', 'bob']);
  });
});

describe('tools that come and go', () => {
  it('can be called from when they are added until they are removed', async () => {
    const made = runner();
    const late = tool('late', () => 'here');
    const asked = calls(1, 'late');
    const before = made.tools;
    expect(said((await made.runAllAsync(asked)).results[0])).toBe('unknown_tool');
    made.addTools([late]);
    expect([made.tools.map(({ name }) => name), before.map(({ name }) => name)]).toEqual([['echo', 'late'], ['echo']]);
    expect(said((await made.runAllAsync(asked)).results[0])).toBe('here');
    made.removeTools(['late', 'late', 'never there']);
    const { results } = await made.runAllAsync(asked);
    expect(results[0]).toMatchObject({ error: { code: 'unknown_tool', available: ['echo'] } });
    made.addTools([tool('late', () => 'again')]);
    expect(said((await made.runAllAsync(asked)).results[0])).toBe('again');
  });

  it('are added all or none', () => {
    const made = runner();
    expect(() => {
      made.addTools([tool('a', () => 1), tool('echo', () => 1)]);
    }).toThrow('two tools are called');
    expect(made.tools.map(({ name }) => name)).toEqual(['echo']);
    made.close();
    expect(() => {
      made.addTools([tool('a', () => 1)]);
    }).toThrow(expect.objectContaining({ code: 'FLOW_CLOSED' }) as Error);
  });

  it('are gone for new calls at once, while what was accepted is made, under its own limits, and counted', () => {
    virtualTime(({ advance, flush, pending }) => {
      const slow = tool('slow', (ms) => after(ms as number, 'old'), { concurrency: 1 });
      const made = runner({ tools: [slow] });
      const seen: string[] = [];
      const say = (result: ToolResult): void => void seen.push(`${result.tool_use_id} ${said(result)}`);
      made.run(calls(2, 'slow', () => 10)).subscribe(say);
      made.removeTools(['slow']);
      expect(made.snapshot()).toMatchObject({ open: 2, executing: 1, queued: 1, tools: { slow: { executing: 1, queued: 1 } } });
      made.run([{ id: 'no', name: 'slow', input: 1 }]).subscribe(say);
      made.addTools([tool('slow', () => after(5, 'new'))]);
      made.run([{ id: 'yes', name: 'slow', input: 1 }]).subscribe(say);
      expect(made.snapshot().tools['slow']).toMatchObject({ executing: 2, queued: 1 });
      advance(12);
      expect(made.snapshot().tools['slow']).toMatchObject({ executing: 1, queued: 0 });
      flush();
      expect(seen).toEqual(['no unknown_tool', 'yes new', 'slow-0 old', 'slow-1 old']);
      expect([made.snapshot().open, pending()]).toEqual([0, 0]);
    });
  });

  it('share the limits of all, and leave nothing in a limiter that others share', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const made = createToolRunner({ tools: [], limiter });
    for (let i = 0; i < 100; i++) {
      made.addTools([tool('t', () => i)]);
      expect(said((await made.runAllAsync(calls(1, 't'))).results[0])).toBe(String(i));
      made.removeTools(['t']);
    }
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    await made.drain();
  });

  it('try again while they go: a second attempt of an accepted call is made', () => {
    virtualTime(({ flush }) => {
      let attempts = 0;
      const flaky = tool('flaky', () => (attempts++ === 0 ? throwError(() => busy()) : of('ok')), { idempotent: true });
      const made = runner({ tools: [flaky], random: () => 0.5 });
      const seen: string[] = [];
      made.run(calls(1, 'flaky')).subscribe((result) => seen.push(said(result)));
      made.removeTools(['flaky']);
      flush();
      expect(seen).toEqual(['ok']);
    });
  });
});

describe('a tool that sorts its own failures', () => {
  it('is tried again by its own rule, and the others by that of the runner', async () => {
    const odd = new Error('come back');
    const made: Record<string, number> = {};
    const count =
      (name: string): Tool['execute'] =>
      () => {
        made[name] = (made[name] ?? 0) + 1;
        throw odd;
      };
    const retry = { maxAttempts: 2, delayMs: 1 };
    const own = tool('own', count('own'), { retry, classify: () => ({ class: 'transient' }) });
    const shared = tool('shared', count('shared'), { retry });
    await runner({ tools: [own, shared], classify: () => ({ class: 'fatal' }) }).runAllAsync([...calls(1, 'own'), ...calls(1, 'shared')]);
    expect(made).toEqual({ own: 2, shared: 1 });
  });
});

describe('the handle', () => {
  it('counts what waits, and for what, and what runs', () => {
    virtualTime(({ advance, flush }) => {
      const slow = tool('slow', () => after(10, 'ok'), { concurrency: 1 });
      const other = tool('other', () => after(10, 'ok'));
      const made = runner({ tools: [slow, other], concurrency: 2 });
      made.run([...calls(3, 'slow'), ...calls(2, 'other')]).subscribe();
      expect(made.snapshot()).toEqual({
        open: 5,
        queued: 3,
        heldByRate: 0,
        heldBySlot: 3,
        executing: 2,
        backingOff: 0,
        tools: {
          slow: { queued: 2, heldByRate: 0, heldBySlot: 2, executing: 1 },
          other: { queued: 1, heldByRate: 0, heldBySlot: 1, executing: 1 },
        },
      });
      advance(100);
      expect(made.snapshot()).toMatchObject({ open: 0, queued: 0, executing: 0 });
      flush();
    });
  });

  it('drains: what was accepted has its result, what comes is refused, a batch may finish its calls', async () => {
    const slow = tool('slow', (_args, { id }) => new Promise((resolve) => setTimeout(resolve, 5, id)));
    const batch = tool('batch', (_args, { run }) => run(calls(2, 'slow')), { runsTools: true, format: () => 'batch' });
    const made = runner({ tools: [slow, batch], concurrency: 1 });
    const run = made.runAllAsync([...calls(2, 'slow'), ...calls(1, 'batch')]);
    const drained = made.drain();
    expect((await made.runAllAsync(calls(1, 'slow'))).results.map(said)).toEqual(['closed']);
    expect((await run).results.map(said)).toEqual(['slow-0', 'slow-1', 'batch']);
    expect(await drained).toEqual({ done: 5, aborted: 0, dropped: 0 });
  });

  it('closes: every call has its error at once, and it tells what was under way', async () => {
    const hangs = tool('hangs', () => NEVER);
    const made = runner({ tools: [hangs], concurrency: 1 });
    const run = made.runAllAsync(calls(3, 'hangs'));
    const drained = made.drain();
    made.close();
    expect((await run).results.map(said)).toEqual(['closed', 'closed', 'closed']);
    expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 2 });
  });

  it('drains on a signal, within a time, and when it is disposed of', async () => {
    const stop = new AbortController();
    const made = runner({ tools: [tool('hangs', () => NEVER)] }).shutdownOn(stop.signal, { timeoutMs: 5 });
    const run = made.runAllAsync(calls(1, 'hangs'));
    stop.abort();
    expect((await run).results.map(said)).toEqual(['closed']);
    const left = runner();
    await left[Symbol.asyncDispose]();
    expect((await left.runAllAsync(calls(1, 'echo'))).results.map(said)).toEqual(['closed']);
  });

  it('tells of everything, by the name of the tool, and of nothing a model has said', () => {
    const told: FlowEvent[] = [];
    const streamed: FlowEvent[] = [];
    let count = 0;
    const flaky = tool('flaky', () => (++count === 1 ? throwError(() => busy('secret')) : of('ok')), { readOnly: true });
    const made = runner({
      tools: [flaky],
      retry: { jitter: 'none', delayMs: 10 },
      onEvent: (event) => {
        told.push(event);
        throw new Error('a listener of its own');
      },
    });
    let isOver = false;
    made.events.subscribe({ next: (event) => streamed.push(event), complete: () => (isOver = true) });
    ran(made, [...calls(1, 'flaky', () => 'secret'), { id: 'b', name: 'secret', input: 'secret' }]);
    made.close();
    expect(told.map(({ type }) => type)).toEqual([
      'accepted',
      'attemptStarted',
      'attemptEnded',
      'retryScheduled',
      'accepted',
      'settled',
      'attemptStarted',
      'attemptEnded',
      'settled',
      'drained',
    ]);
    expect(streamed).toEqual(told);
    expect(isOver).toBe(true);
    expect(told.every(({ operator }) => operator === 'createToolRunner')).toBe(true);
    expect(new Set(told.flatMap((event) => ('lane' in event ? [event.lane] : [])))).toEqual(new Set(['flaky', 'default']));
    expect(JSON.stringify(told)).not.toContain('secret');
  });

  it('hands out its tools, for the definitions a model wants', () => {
    const read = tool('read', () => 'text', { parameters: z.object({ path: z.string() }) });
    const definitions = toToolDefinitions(runner({ tools: [read] }).tools, 'anthropic');
    expect(definitions).toMatchObject([{ name: 'read', description: 'read', input_schema: { properties: { path: { type: 'string' } } } }]);
  });
});

describe('ten thousand runs', () => {
  beforeEach(() => {
    vi.useRealTimers();
  });

  it('leave nothing: they ended, failed, timed out, were refused, cancelled or left', { timeout: 60_000 }, async () => {
    const many = sized(1000, 10_000);
    const clock = new CountingScheduler();
    const { signal } = new AbortController();
    const delayed = tool(
      'delayed',
      (input) =>
        new Observable((to) =>
          clock.schedule(() => {
            to.next(input);
            to.complete();
          }, 5),
        ),
    );
    const never = tool('never', () => NEVER, { timeoutMs: 20 });
    const made = createToolRunner({
      tools: [echo, delayed, never, tool('fails', () => fail('no'))],
      guard: ({ input }) => input !== 'refused',
      maxQueued: Infinity,
      scheduler: clock,
    });
    const leaks = leakCheck({ scheduler: clock, holders: { runner: made } });
    try {
      let settled = 0;
      for (let n = 0; n < many; n++) {
        const own = new AbortController();
        const names = ['echo', 'delayed', 'never', 'fails'] as const;
        const input = n % 5 === 0 ? 'refused' : n;
        const left = made
          .run([{ id: 'a', name: names[n % 4]!, input }], n % 2 === 0 ? { signal } : { signal: own.signal })
          .subscribe(() => settled++);
        if (n % 7 === 0) left.unsubscribe();
        if (n % 11 === 0) own.abort();
        if (n % 100 === 0) clock.flush();
      }
      clock.flush();
      await settle();
      expect(leaks.left()).toEqual([]);
      expect(made.snapshot().open).toBe(0);
      expect(settled).toBeGreaterThan(0.8 * many);
    } finally {
      leaks[Symbol.dispose]();
    }
  });
});

function fail(message: string): never {
  throw new Error(message);
}

function toss(reason: unknown): never {
  throw reason;
}

function circle(): unknown {
  const list: unknown[] = [];
  list.push(list);
  return list;
}

const handsOff = (): never => {
  throw new Error('hands off');
};
const untouchable: object = new Proxy({}, { get: handsOff, has: handsOff, getPrototypeOf: handsOff, ownKeys: handsOff });
/** The result of one call of a tool. Expects that no slot is left in use. */
async function runOne(made: Tool, options: Partial<ToolRunnerOptions> = {}, input: unknown = {}): Promise<ToolResult> {
  const runner = createToolRunner({ tools: [made], ...options });
  const { results } = await runner.runAllAsync([{ id: 'a', name: made.name, input }]);
  expect(results).toHaveLength(1);
  expect(runner.snapshot()).toMatchObject({ open: 0, executing: 0, queued: 0 });
  return results[0]!;
}

describe('a call that is over', () => {
  const given = (up: (abort: AbortController, leave: () => void) => void) =>
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      const ends: string[] = [];
      const abort = new AbortController();
      let starts = 0;
      const listens = ({ signal }: ToolContext): void => {
        starts++;
        signal.addEventListener('abort', () => {
          up(abort, () => {
            running.unsubscribe();
          });
        });
      };
      const stuck = tool('stuck', (_, context) => (listens(context), NEVER), { readOnly: true });
      const runner = createToolRunner({
        tools: [stuck],
        timeoutMs: 100,
        onEvent: (event) => {
          if (event.type === 'attemptEnded') ends.push(event.outcome);
        },
      });
      const running = runner.run(calls(1, 'stuck'), { signal: abort.signal }).subscribe((result) => seen.push(said(result)));
      flush();
      expect(now()).toBe(100);
      return { starts, seen, ends, open: runner.snapshot().open };
    });

  it('is not tried again when the signal of its timeout made its caller abort', () => {
    expect(
      given((abort) => {
        abort.abort();
      }),
    ).toEqual({ starts: 1, seen: ['cancelled'], ends: ['cancelled'], open: 0 });
  });

  it('is not tried again when the signal of its timeout made its caller leave', () => {
    expect(
      given((_, leave) => {
        leave();
      }),
    ).toEqual({ starts: 1, seen: [], ends: ['cancelled'], open: 0 });
  });

  it('is not even started when a listener to its acceptance left', () => {
    let starts = 0;
    const runner = createToolRunner({
      tools: [tool('t', () => starts++)],
      onEvent: ({ type }) => {
        if (type === 'accepted') running.unsubscribe();
      },
    });
    const source = new Subject<{ id: string; name: string; input: unknown }>();
    const running = source.pipe(runner.mapCalls()).subscribe();
    source.next({ id: 'a', name: 't', input: {} });
    expect([starts, runner.snapshot().open]).toEqual([0, 0]);
  });
});

describe('answers of tools, guards and schemas', () => {
  const thrower = {
    then: (): never => {
      throw new Error('no');
    },
  };

  const rejecter = {
    then: (_: unknown, rejected: (reason: unknown) => void): void => {
      rejected(untouchable);
    },
  };

  it.each<[string, Partial<Tool>, Partial<ToolRunnerOptions>, string]>([
    ['a tool answers an unreadable object', { execute: () => untouchable }, {}, 'failed'],
    ['a tool throws an unreadable object', { execute: () => rejecter }, {}, 'failed'],
    ['a tool answers a promise that throws when it is asked', { execute: () => thrower }, {}, 'failed'],
    ['a guard answers an unreadable object', {}, { guard: () => untouchable as never }, 'permission_denied'],
    ['a guard answers a promise that throws when it is asked', {}, { guard: () => thrower as never }, 'permission_denied'],
    ['a schema answers a promise that throws when it is asked', { parameters: { '~standard': { validate: () => thrower } } }, {}, 'failed'],
    ['a format answers no text', { format: () => Promise.resolve('late') as never }, {}, 'unreadable_result'],
    ['a format fails late', { format: () => Promise.reject(new Error('late')) as never }, {}, 'unreadable_result'],
  ])('are an error of this call only: %s', async (_what, part, options, code) => {
    expect(
      said(
        await runOne(
          tool('t', () => 'ok', part),
          options,
        ),
      ),
    ).toBe(code);
  });

  it('that start their work when they are asked are asked once, also when they take too long', async () => {
    await virtualTime(({ flush }) => {
      let asked = 0;
      const query = {
        then: () => {
          asked++;
        },
      };
      const runner = createToolRunner({ tools: [tool('query', () => query)], timeoutMs: 10 });
      const seen: string[] = [];
      runner.run(calls(1, 'query')).subscribe((result) => seen.push(said(result)));
      flush();
      expect(seen).toEqual(['timeout']);
      return Promise.resolve().then(() => {
        expect(asked).toBe(1);
      });
    });
  });

  it('of a schema are not waited for longer than for a tool', () => {
    virtualTime(({ flush, now }) => {
      const parameters = { '~standard': { validate: () => new Promise<never>(() => undefined) } };
      const runner = createToolRunner({ tools: [tool('t', () => 'ok', { parameters })], timeoutMs: 50 });
      const seen: string[] = [];
      runner.run(calls(1, 't')).subscribe((result) => seen.push(`${String(now())} ${said(result)}`));
      flush();
      expect([seen, runner.snapshot().open]).toEqual([['50 timeout'], 0]);
    });
  });

  it('that are async generators keep their slot until they end, like promises', async () => {
    let running = 0;
    let most = 0;
    const ends: (() => void)[] = [];
    const part = (): Promise<void> => new Promise((end) => ends.push(end));
    const parts = tool('parts', async function* () {
      most = Math.max(most, ++running);
      try {
        await part();
        yield 'part';
        await part();
      } finally {
        running--;
      }
    });
    const runner = createToolRunner({ tools: [parts], concurrency: 1, timeoutMs: 20 });
    const { results } = await runner.runAllAsync(calls(1, 'parts'));
    expect([said(results[0]), running, runner.snapshot().executing]).toEqual(['timeout', 1, 1]);
    ends[0]?.();
    await new Promise((resolve) => setImmediate(resolve));
    expect([most, running, ends.length, runner.snapshot().executing]).toEqual([1, 0, 1, 0]);
  });

  it('that are ReadableStreams are cancelled at once', async () => {
    let cancelled = 0;
    const never = (): Promise<void> => new Promise(() => undefined);
    const open = tool('open', () => new ReadableStream({ pull: never, cancel: () => (cancelled++, undefined) }));
    expect(said(await runOne(open, { timeoutMs: 20 }))).toBe('timeout');
    expect(cancelled).toBe(1);
  });
});

describe('arguments', () => {
  const seen = async (parameters: Tool['parameters'], input: unknown): Promise<Record<string, unknown>> => {
    let got: unknown;
    await runOne(
      tool('t', (args) => (got = args), { parameters, format: () => '' }),
      {},
      input,
    );
    return got as Record<string, unknown>;
  };

  it('may be a list of hundreds of thousands of objects', async () => {
    const list = Array.from({ length: 200_000 }, () => ({}));
    const got = (await seen(z.unknown(), list)) as unknown as object[];
    expect([got.length, Object.isFrozen(got[199_999])]).toEqual([200_000, true]);
  });

  it('are frozen without freezing what the schema took from the program', async () => {
    const config = { tags: ['a'] };
    const got = await seen(
      z.object({}).transform(() => ({ config })),
      {},
    );
    expect(got).toEqual({ config: { tags: ['a'] } });
    expect([Object.isFrozen(got['config']), Object.isFrozen(config), Object.isFrozen(config.tags)]).toEqual([true, false, false]);
  });

  it('answer the guard and the tool the same, also when the schema makes a getter', async () => {
    let reads = 0;
    const parameters = {
      safeParse: () => ({
        success: true as const,
        data: {
          get path() {
            return reads++ === 0 ? 'allowed' : 'secret';
          },
        },
      }),
    };
    const paths: unknown[] = [];
    const look = (input: unknown): true => {
      paths.push((input as { path: string }).path);
      return true;
    };
    await runOne(tool('t', look, { parameters }), { guard: ({ input }) => look(input) });
    expect(paths).toEqual(['allowed', 'allowed']);
  });

  it('keep circles, and `__proto__` as a field that changes no prototype', async () => {
    const input = JSON.parse('{"__proto__":{"isAdmin":true},"path":"a"}') as Record<string, unknown>;
    input['self'] = input;
    const got = await seen(z.unknown(), input);
    expect(got['self']).toBe(got);
    expect([Object.getPrototypeOf(got), got['isAdmin'], Object.hasOwn(got, '__proto__')]).toEqual([Object.prototype, undefined, true]);
  });

  it('are refused with a text, whatever the schema says about them', async () => {
    const parameters = { safeParse: () => ({ success: false as const, error: { issues: [{ message: 1n as never, path: ['a'] }] } }) };
    expect(said(await runOne(tool('t', () => 'ok', { parameters })))).toBe('invalid_arguments');
  });
});

describe('options', () => {
  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'take tools with the names of what every object has: %s',
    async (name) => {
      const made = tool(name, () => 'ok');
      expect(said(await runOne(made))).toBe('ok');
      const load = { queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
      expect(Object.entries(createToolRunner({ tools: [made] }).snapshot().tools)).toEqual([[name, load]]);
    },
  );

  it('name the tool whose `retry` is wrong, and the limit of a tool that takes no slot', () => {
    const wrong = tool('t', () => 'ok', { retry: { attempts: 3 } as never });
    expect(() => createToolRunner({ tools: [wrong] })).toThrow(
      'unknown option `tools[0].retry.attempts`. Did you mean `tools[0].retry.maxAttempts`?',
    );
    expect(() => createToolRunner({ tools: [{ ...createBatchTool(), concurrency: 2 }] })).toThrow(
      '`tools[0].concurrency` cannot be combined with `runsTools`',
    );
  });

  it('of the batch tool are checked where it is made, and have defaults when they are undefined', () => {
    const given = { name: undefined, timeoutMs: undefined } as never;
    expect(createBatchTool(given)).toMatchObject({ name: 'batch', timeoutMs: Infinity });
    expect(() => createBatchTool({ mostCalls: 3 } as never)).toThrow('createBatchTool: unknown option `mostCalls`');
    expect(() => createBatchTool({ timeoutMs: 0 })).toThrow('createBatchTool: expected `timeoutMs`');
  });
});

describe('fromChatToolCalls', () => {
  it('takes the `tool_calls` of a message as they are: none, of functions, of custom tools', () => {
    const message: Pick<ChatCompletionMessage, 'tool_calls'> = {
      tool_calls: [
        { id: 'a', type: 'function', function: { name: 'read', arguments: '' } },
        { id: 'b', type: 'custom', custom: { name: 'shell', input: 'ls' } },
      ],
    };
    expect(fromChatToolCalls(message.tool_calls)).toEqual([
      { id: 'a', name: 'read', input: {} },
      { id: 'b', name: 'shell', input: 'ls' },
    ]);
    expect([fromChatToolCalls(undefined), fromChatToolCalls(null)]).toEqual([[], []]);
  });
});

describe('the tools of a runner', () => {
  it('are a frozen copy: neither list changes what it runs', async () => {
    const given = [tool('read', () => 'ok')];
    const runner = createToolRunner({ tools: given });
    given.push(tool('late', () => 'ok'));
    expect(() => (runner.tools as Tool[]).push(tool('later', () => 'ok'))).toThrow(TypeError);
    expect(runner.tools.map(({ name }) => name)).toEqual(['read']);
    const { results } = await runner.runAllAsync([{ id: '1', name: 'late', input: {} }]);
    expect(results[0]).toMatchObject({ is_error: true, error: { code: 'unknown_tool' } });
  });
});

describe('closing', () => {
  it('leaves what cannot be stopped its slot of a shared limiter, for as long as it may keep it', () => {
    virtualTime(({ advance, flush }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const stuck = tool('stuck', () => new Promise(() => undefined));
      const runner = createToolRunner({ tools: [stuck], limiter, abortGraceMs: 500 });
      const seen: string[] = [];
      runner.run(calls(3, 'stuck')).subscribe((result) => seen.push(said(result)));
      runner.close();
      expect([seen, limiter.executing]).toEqual([['closed', 'closed', 'closed'], 2]);
      advance(501);
      expect(limiter.executing).toBe(0);
      limiter.close();
      flush();
    });
  });

  it('within the callback of a result answers every call once', () => {
    virtualTime(({ flush }) => {
      const runner = createToolRunner({ tools: [tool('t', (i) => after(10 * (i as number), 'ok'))], concurrency: 3 });
      const seen: string[] = [];
      runner.run(calls(10, 't')).subscribe({
        next: (result) => {
          seen.push(said(result));
          if (seen.length === 2) runner.close();
        },
        complete: () => seen.push('end'),
      });
      flush();
      expect(seen).toEqual(['ok', 'ok', ...Array.from({ length: 8 }, () => 'closed'), 'end']);
    });
  });
});

describe('isFlowError', () => {
  it('is false for an unreadable object', () => {
    expect(isFlowError(untouchable)).toBe(false);
  });
});
