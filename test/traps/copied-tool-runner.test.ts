import { describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { adaptiveLimit, createLimiter } from '../../operators/index.js';
import { createBatchTool } from '../../src/edge/batch-tool.js';
import type { RunToolsOptions, ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Tool, ToolCall, ToolResult } from '../../src/pipelines/tools/tool-types.js';
import type { CopiedTool } from './copied-tools.js';
import {
  AdaptiveConcurrency,
  batchExecute,
  batchTool,
  batchWithTimeout,
  ConcurrencyLimiter,
  parallelLimit,
  processResults,
  toToolResults,
  withRetry,
  withTimeout,
} from './copied-tools.js';
import { hostTime, numbers, sleep, stateOf } from './tools.js';

// What a runner of tools must do, said once and asked of two: the copied code, which fails, and `createToolRunner`.

type Task = (signal?: AbortSignal) => Promise<string>;
type Pass = (ms: number) => Promise<void>;

/** Fails with theirs, holds with ours: the same demand, in host time that stands still. */
async function demand<S>(theirs: S, ours: S, check: (subject: S, pass: Pass) => Promise<void>): Promise<void> {
  await expect(hostTime((pass) => check(theirs, pass))).rejects.toThrow();
  await hostTime((pass) => check(ours, pass));
}

/** Runs each task as a call of a tool of ours. */
function runOurs(tasks: readonly Task[], options: Partial<ToolRunnerOptions> = {}, tool: Partial<Tool> = {}, run: RunToolsOptions = {}) {
  const task: Tool = {
    name: 'task',
    description: 'Runs a task.',
    parameters: z.number(),
    execute: (i, { signal }) => (tasks[i as number] as Task)(signal),
    ...tool,
  };
  return createToolRunner({ tools: [task], ...options }).runAllAsync(
    tasks.map((_, i) => ({ id: `id ${String(i)}`, name: 'task', input: i })),
    run,
  );
}

/** Contents in the order of the tasks; `undefined` for one without a result. */
type Contents = readonly (string | undefined)[];

const contents = (results: readonly ToolResult[]): Contents =>
  results.map((result) => (result.is_error ? result.error.message : result.content));
const settled = (results: readonly PromiseSettledResult<string>[], count: number): Contents =>
  numbers(count).map((i) => {
    const result = results[i];
    return result?.status === 'rejected' ? (result.reason as Error).message : result?.value;
  });

describe('a limit on tool calls', () => {
  const theirs = async (tasks: readonly Task[], limit: number): Promise<Contents> =>
    settled(await parallelLimit(tasks, limit), tasks.length);
  const ours = async (tasks: readonly Task[], concurrency: number): Promise<Contents> =>
    contents((await runOurs(tasks, { concurrency })).results);

  it('that takes the wrong promise out of its list does not hold; the runner’s does', () =>
    demand(theirs, ours, async (run, pass) => {
      let running = 0;
      let peak = 0;
      const tasks = numbers(20).map((i) => async () => {
        peak = Math.max(peak, ++running);
        // The first in the list is the last to end.
        await sleep(i === 0 ? 1000 : 5);
        running--;
        return 'ok';
      });
      const all = run(tasks, 3);
      await pass(5000);
      await all;
      expect(peak).toBe(3);
    }));

  it('that waits for the wrong promises returns without a result; the runner has all', () =>
    demand(theirs, ours, async (run, pass) => {
      const tasks = numbers(6).map((i) => async () => {
        await sleep(i === 0 ? 100 : 1);
        return String(i);
      });
      const all = run(tasks, 2);
      await pass(1000);
      expect(await all).toEqual(['0', '1', '2', '3', '4', '5']);
    }));

  it('that a task breaks by throwing takes the others’ results with it; the runner has a result for each', () =>
    demand(theirs, ours, async (run, pass) => {
      const breaks = (): never => {
        throw new Error('broke');
      };
      const all = run([() => Promise.resolve('a'), breaks, () => Promise.resolve('c')], 2);
      all.catch(() => undefined);
      await pass(10);
      expect(await all).toEqual(['a', 'broke', 'c']);
    }));
});

describe('a limit that follows the outcomes', () => {
  /** Makes calls while there is no load: one at a time. Then all at once; answers how many ran at a time. */
  type Adaptive = (tasks: readonly Task[]) => { all: Promise<unknown> };

  const theirs: Adaptive = (tasks) => {
    const adaptive = new AdaptiveConcurrency();
    const limiter = new ConcurrencyLimiter(adaptive.limit);
    const all = Promise.allSettled(
      tasks.map((task) =>
        limiter.run(() =>
          task().then(
            (value) => {
              adaptive.onSuccess();
              return value;
            },
            (error: unknown) => {
              adaptive.onFailure();
              throw error;
            },
          ),
        ),
      ),
    );
    return { all };
  };
  const ours: Adaptive = (tasks) => {
    const limiter = createLimiter();
    adaptiveLimit(limiter);
    return { all: runOurs(tasks, { limiter, maxQueued: Infinity }) };
  };

  it('and is never read lets as many calls go after refusals as before; the runner’s lets fewer', () =>
    demand(theirs, ours, async (run, pass) => {
      const overloaded = Object.assign(new Error('overloaded'), { status: 503 });
      let running = 0;
      let peak = 0;
      const tasks = numbers(60).map((i) => async () => {
        running++;
        if (i >= 40 && i < 46) peak = Math.max(peak, running);
        await sleep(10);
        running--;
        if (i < 40) throw overloaded;
        return 'ok';
      });
      const { all } = run(tasks);
      await pass(10_000);
      await all;
      expect(peak).toBeLessThan(4);
    }));

  it('and stops at ten never finds out that there is room for more; the runner’s goes on', () =>
    demand(theirs, ours, async (run, pass) => {
      let running = 0;
      let peak = 0;
      const tasks = numbers(600).map(() => async () => {
        peak = Math.max(peak, ++running);
        await sleep(10);
        running--;
        return 'ok';
      });
      const { all } = run(tasks);
      await pass(10_000);
      await all;
      expect(peak).toBeGreaterThan(10);
    }));
});

describe('waves of tool calls', () => {
  type Waves = (calls: readonly ToolCall[], size: number, execute: (...args: unknown[]) => Promise<string>) => Promise<readonly unknown[]>;
  const theirs: Waves = async (calls, size, execute) => {
    const all: unknown[] = [];
    for await (const wave of batchExecute(calls, size, execute)) all.push(...wave);
    return all;
  };
  const ours: Waves = async (calls, concurrency, execute) => {
    const task: Tool = { name: 'task', description: 'A task.', parameters: z.unknown(), execute };
    return (await createToolRunner({ tools: [task], concurrency }).runAllAsync(calls)).results;
  };
  const calls = numbers(9).map((i): ToolCall => ({ id: `id ${String(i)}`, name: 'task', input: { i } }));

  it('wait for the slowest of each; the runner takes a slot again as soon as it is free', () =>
    demand(theirs, ours, async (run, pass) => {
      let count = 0;
      const startedAt = Date.now();
      let endedAt = Infinity;
      const all = run(calls, 3, async () => {
        await sleep(count++ % 3 === 0 ? 10 : 1);
        return 'ok';
      }).then(() => (endedAt = Date.now()));
      await pass(100);
      await all;
      expect(endedAt - startedAt).toBeLessThan(25);
    }));

  it('hand a tool its place and the whole list; the runner hands it its arguments and a context', () =>
    demand(theirs, ours, async (run) => {
      const seen: unknown[][] = [];
      await run(calls.slice(0, 2), 2, (...args) => {
        seen.push(args);
        return Promise.resolve('ok');
      });
      expect(seen).toHaveLength(2);
      for (const args of seen) expect([args.length, Array.isArray(args[2])]).toEqual([2, false]);
    }));

  it('yield values that are no tool results, whatever their type says; the runner’s are', () =>
    demand(theirs, ours, async (run) => {
      const [result] = await run(calls.slice(0, 1), 1, () => Promise.resolve('ok'));
      expect(result).toMatchObject({ type: 'tool_result', tool_use_id: 'id 0', content: 'ok', is_error: false });
    }));
});

describe('a class that counts running calls', () => {
  const theirs = (tasks: readonly Task[], most: number, _signal?: AbortSignal): { all: Promise<unknown>[]; waiting: () => number } => {
    const limiter = new ConcurrencyLimiter(most);
    let started = 0;
    const all = tasks.map((task) =>
      limiter.run(() => {
        started++;
        return task();
      }),
    );
    for (const each of all) each.catch(() => undefined);
    return { all, waiting: () => tasks.length - started };
  };
  const ours: typeof theirs = (tasks, concurrency, signal) => {
    const task: Tool = { name: 'task', description: 'A task.', parameters: z.number(), execute: (i) => (tasks[i as number] as Task)() };
    const runner = createToolRunner({ tools: [task], concurrency });
    const all = tasks.map((_, i) => runner.runAllAsync([{ id: 'id', name: 'task', input: i }], signal ? { signal } : {}));
    return { all, waiting: () => runner.snapshot().queued };
  };

  it.each([0, NaN])('takes a limit of %s, and nothing ever starts; the runner refuses it', (most) =>
    demand(theirs, ours, async (run) => {
      const start = async (): Promise<string> => stateOf(run([() => Promise.resolve('ok')], most).all[0] as Promise<unknown>);
      expect(await start().catch(() => 'refused')).toBe('refused');
    }),
  );

  it('lets any number of calls wait; the runner has a bound', () =>
    demand(theirs, ours, async (run) => {
      const { waiting } = run(
        numbers(1500).map(() => () => new Promise<string>(() => undefined)),
        1,
      );
      await Promise.resolve();
      expect(waiting()).toBeLessThanOrEqual(1000);
    }));

  it('cannot be left by a call that waits; the runner’s call leaves, and has its result', () =>
    demand(theirs, ours, async (run) => {
      const stop = new AbortController();
      const { all } = run([() => new Promise<string>(() => undefined), () => Promise.resolve('ok')], 1, stop.signal);
      stop.abort();
      expect(await stateOf(all[1] as Promise<unknown>)).toBe('fulfilled');
    }));
});

describe('a race between a tool and a timer', () => {
  type Timed = (tasks: readonly Task[], timeoutMs: number, limit: number) => Promise<Contents>;
  const theirs: Timed = async (tasks, timeoutMs, limit) => {
    const limiter = new ConcurrencyLimiter(limit);
    // What it is handed is under way, or in line.
    const work = tasks.map((task) => limiter.run(task));
    return settled(await batchWithTimeout(work, timeoutMs), tasks.length);
  };
  const ours: Timed = async (tasks, timeoutMs, concurrency) => contents((await runOurs(tasks, { timeoutMs, concurrency })).results);

  it('leaves its timer behind when the tool wins; the runner clears it', () =>
    demand(theirs, ours, async (run) => {
      expect(await run([() => Promise.resolve('ok')], 30_000, 1)).toEqual(['ok']);
      expect(vi.getTimerCount()).toBe(0);
    }));

  it('lets the tool run on when the timer wins; the runner aborts its signal', () =>
    demand(theirs, ours, async (run, pass) => {
      let isStopped = false;
      const task: Task = (signal) =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => {
            isStopped = true;
            reject(new Error('stopped'));
          });
        });
      const all = run([task], 10, 1);
      await pass(100);
      await all;
      expect(isStopped).toBe(true);
    }));

  it('starts its clock while the call still waits for its slot; the runner’s starts with the slot', () =>
    demand(theirs, ours, async (run, pass) => {
      const task: Task = async () => {
        await sleep(8);
        return 'ok';
      };
      const all = run([task, task, task], 10, 1);
      await pass(100);
      expect(await all).toEqual(['ok', 'ok', 'ok']);
    }));

  it('for calls that run already can neither limit nor stop them; the runner starts them itself', () =>
    demand<(tasks: readonly Task[], timeoutMs: number, limit: number) => Promise<unknown>>(
      (tasks, timeoutMs) =>
        batchWithTimeout(
          tasks.map((task) => task()),
          timeoutMs,
        ),
      ours,
      async (run, pass) => {
        let running = 0;
        let peak = 0;
        const all = run(
          numbers(10).map(() => async () => {
            peak = Math.max(peak, ++running);
            await sleep(5);
            running--;
            return 'ok';
          }),
          100,
          2,
        );
        await pass(1000);
        await all;
        expect(peak).toBe(2);
      },
    ));

  it('around all attempts leaves the second what the first has left; the runner times each attempt', () =>
    demand<(task: Task) => Promise<unknown>>(
      // Retries inside, the limit outside: the second attempt has what the first has left.
      (task) => withTimeout(withRetry(task, 3, 10), 30),
      (task) =>
        runOurs([task], { timeoutMs: 30 }, { retry: { delayMs: 10, jitter: 'none' } }).then(({ results }) => {
          if (results[0]?.is_error) throw new Error(results[0].error.message);
        }),
      async (run, pass) => {
        let attempt = 0;
        const end = run(async () => {
          await sleep(20);
          if (++attempt === 1) throw Object.assign(new Error('busy'), { status: 503 });
          return 'ok';
        });
        end.catch(() => undefined);
        await pass(1000);
        await end;
      },
    ));
});

describe('a loop that tries a tool again', () => {
  type Retried = (task: Task, attempts: number, delayMs: number) => Promise<unknown>;
  const theirs: Retried = (task, attempts, delayMs) => withRetry(task, attempts, delayMs).catch((error: unknown) => error);
  const ours: Retried = (task, maxAttempts, delayMs) => runOurs([task], { random: () => 0.999_999 }, { retry: { maxAttempts, delayMs } });
  const failing = (error: unknown) => {
    const at: number[] = [];
    const task: Task = () => {
      at.push(Date.now());
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- whatever a tool rejects with
      return Promise.reject(error);
    };
    return { at, task };
  };

  it('waits longer by the same amount, where twice as long was meant; the runner doubles', () =>
    demand(theirs, ours, async (run, pass) => {
      const { at, task } = failing(Object.assign(new Error('busy'), { status: 503 }));
      const end = run(task, 4, 1000);
      await pass(20_000);
      await end;
      expect(at.map((ms) => Math.round(ms / 100) * 100)).toEqual([0, 1000, 3000, 7000]);
    }));

  it('waits the same in all callers, who come back together; the runner’s pauses differ', () =>
    demand<Retried>(
      theirs,
      (task, maxAttempts, delayMs) => runOurs([task], {}, { retry: { maxAttempts, delayMs } }),
      async (run, pass) => {
        const all = numbers(20).map(() => failing(Object.assign(new Error('busy'), { status: 503 })));
        const ends = all.map(({ task }) => run(task, 2, 1000));
        await pass(20_000);
        await Promise.all(ends);
        expect(new Set(all.map(({ at }) => at[1])).size).toBeGreaterThan(10);
      },
    ));

  it.each([
    ['a call that was aborted', new DOMException('stopped', 'AbortError')],
    ['a wrong key', Object.assign(new Error('who are you'), { status: 401 })],
    ['wrong arguments', Object.assign(new Error('what'), { status: 400 })],
  ])('tries %s again; the runner does not', (_what, error) =>
    demand(theirs, ours, async (run, pass) => {
      const { at, task } = failing(error);
      const end = run(task, 3, 10);
      await pass(1000);
      await end;
      expect(at).toHaveLength(1);
    }),
  );

  it('throws null when told never to try; the runner refuses such a number', () =>
    demand<(attempts: number) => Promise<unknown>>(
      (attempts) => withRetry(() => Promise.resolve('ok'), attempts),
      async (maxAttempts) => runOurs([() => Promise.resolve('ok')], {}, { retry: { maxAttempts } }),
      async (run) => {
        const reason: unknown = await run(0).catch((error: unknown) => error);
        expect(reason).toBeInstanceOf(Error);
        expect((reason as Error).message).toContain('retry.maxAttempts`');
      },
    ));
});

describe('results of tools', () => {
  const theirs = async (tasks: readonly Task[]): Promise<readonly unknown[]> => {
    const { successful, failed } = processResults(await Promise.allSettled(tasks.map((task) => task())));
    return [...successful, ...failed];
  };
  const ours = async (tasks: readonly Task[]): Promise<readonly unknown[]> => (await runOurs(tasks)).results;
  const reject =
    (reason: unknown): Task =>
    () => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- whatever a tool rejects with
      return Promise.reject(reason);
    };

  it('sorted into two lists lose their calls; the runner’s have the ids of their calls', () =>
    demand(theirs, ours, async (run) => {
      const results = await run([reject(new Error('gone')), () => Promise.resolve('text')]);
      expect(results).toMatchObject([
        { tool_use_id: 'id 0', is_error: true },
        { tool_use_id: 'id 1', content: 'text' },
      ]);
    }));

  it.each([undefined, null])('break code that reads the message of %s; the runner says something', (reason) =>
    demand<(tasks: readonly Task[]) => Promise<readonly unknown[]>>(
      async (tasks) =>
        toToolResults(
          tasks.map((_, i) => ({ id: `id ${String(i)}` })),
          await Promise.allSettled(tasks.map((task) => task())),
        ),
      ours,
      async (run) => {
        expect(await run([reject(reason)])).toMatchObject([{ tool_use_id: 'id 0', is_error: true, content: expect.any(String) as string }]);
      },
    ),
  );
});

describe('a tool that runs tools', () => {
  type Batch = (
    tools: readonly CopiedTool[],
    calls: readonly { tool: string; parameters: unknown }[],
    options?: Pick<ToolRunnerOptions, 'guard' | 'concurrency'>,
    signal?: AbortSignal,
  ) => Promise<string>;
  const theirs: Batch = (tools, calls) => batchTool(tools, calls);
  const ours: Batch = async (tools, tool_calls, options = {}, signal = new AbortController().signal) => {
    const all = tools.map(
      ({ name, execute }): Tool => ({
        name,
        description: name,
        parameters: z.looseObject({}),
        execute: (args, context) => execute({ ...(args as object), signal: context.signal } as never),
      }),
    );
    const runner = createToolRunner({ tools: [...all, createBatchTool()], ...options });
    const { results } = await runner.runAllAsync([{ id: 'id', name: 'batch', input: { tool_calls } }], { signal });
    return String(results[0]?.content);
  };
  const reads = (count: number) => numbers(count).map((i) => ({ tool: 'read', parameters: { path: String(i) } }));

  it('knows no limit; the runner’s holds inside it, too', () =>
    demand(theirs, ours, async (run, pass) => {
      let running = 0;
      let peak = 0;
      const execute = async (): Promise<string> => {
        peak = Math.max(peak, ++running);
        await sleep(5);
        running--;
        return 'ok';
      };
      const all = run([{ name: 'read', execute }], reads(10), { concurrency: 2 });
      await pass(1000);
      await all;
      expect(peak).toBe(2);
    }));

  it('checks no permission; the runner’s guard is asked for each of its calls', () =>
    demand(theirs, ours, async (run) => {
      const made: string[] = [];
      const execute = ({ path }: { path: string }): Promise<string> => {
        made.push(path);
        return Promise.resolve('ok');
      };
      await run([{ name: 'read', execute }], reads(3), { guard: ({ input }) => (input as { path?: string }).path !== '1' });
      expect(made).toEqual(['0', '2']);
    }));

  it('cannot be stopped; the runner aborts its calls', () =>
    demand(theirs, ours, async (run) => {
      const stop = new AbortController();
      let isStopped = false;
      const execute = ({ signal }: { signal?: AbortSignal }): Promise<string> =>
        new Promise((_, reject) => {
          signal?.addEventListener('abort', () => {
            isStopped = true;
            reject(new Error('stopped'));
          });
        });
      const all = run([{ name: 'read', execute }], reads(1), {}, stop.signal);
      stop.abort();
      expect(await stateOf(all)).toBe('fulfilled');
      expect(isStopped).toBe(true);
    }));

  it('names results after their tool alone; the runner’s tell two calls of one tool apart', () =>
    demand(theirs, ours, async (run) => {
      const text = await run([{ name: 'read', execute: () => Promise.resolve('text') }], reads(2));
      const labels = text.split('\n').filter((line) => line.startsWith('['));
      expect([labels.length, new Set(labels).size]).toEqual([2, 2]);
    }));

  it('cuts texts off at 500 characters, unasked; the runner keeps them', () =>
    demand(theirs, ours, async (run) => {
      const long = 'x'.repeat(20_000);
      expect(await run([{ name: 'read', execute: () => Promise.resolve(long) }], reads(1))).toContain(long);
    }));
});
