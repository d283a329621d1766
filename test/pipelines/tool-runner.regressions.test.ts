import type { ChatCompletionMessage } from 'openai/resources/chat/completions';
import { NEVER, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { virtualTime } from '../../marbles/virtual.js';
import { createLimiter, isFlowError } from '../../operators/index.js';
import { createBatchTool } from '../../src/edge/batch-tool.js';
import type { ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { fromChatToolCalls } from '../../src/pipelines/tools/tool-formats.js';
import type { Tool, ToolContext, ToolResult } from '../../src/pipelines/tools/tool-types.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { after, calls, said, tool } from './tool-kit.js';

expectNoUnhandledRejections();

const fail = (): never => {
  throw new Error('hands off');
};
const untouchable: object = new Proxy({}, { get: fail, has: fail, getPrototypeOf: fail, ownKeys: fail });

/** One call of a tool; also that no slot is left in use. */
async function one(made: Tool, options: Partial<ToolRunnerOptions> = {}, input: unknown = {}): Promise<ToolResult> {
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
        await one(
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
    expect(said(await one(open, { timeoutMs: 20 }))).toBe('timeout');
    expect(cancelled).toBe(1);
  });
});

describe('arguments', () => {
  const seen = async (parameters: Tool['parameters'], input: unknown): Promise<Record<string, unknown>> => {
    let got: unknown;
    await one(
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
    await one(tool('t', look, { parameters }), { guard: ({ input }) => look(input) });
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
    expect(said(await one(tool('t', () => 'ok', { parameters })))).toBe('invalid_arguments');
  });
});

describe('options', () => {
  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'take tools with the names of what every object has: %s',
    async (name) => {
      const made = tool(name, () => 'ok');
      expect(said(await one(made))).toBe('ok');
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
