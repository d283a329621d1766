import { NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { virtualTime } from '../../marbles/virtual.js';
import { batchToolSchema, createBatchTool } from '../../src/edge/batch-tool.js';
import type { ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Tool, ToolFailure, ToolResult, ToolRun, ToolSuccess } from '../../src/pipelines/tools/tool-types.js';
import { after, said, tool } from '../pipelines/tool-kit.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { numbers } from '../traps/tools.js';

expectNoUnhandledRejections();

const read = tool('read', (args) => `text of ${(args as { path: string }).path}`, { parameters: z.object({ path: z.string() }) });

interface Inner {
  readonly tool: string;
  readonly parameters: unknown;
}

const reads = (...paths: string[]): Inner[] => paths.map((path) => ({ tool: 'read', parameters: { path } }));

async function batched(tool_calls: readonly unknown[], options: Partial<ToolRunnerOptions> = {}): Promise<ToolResult> {
  const runner = createToolRunner({ tools: [read, createBatchTool()], ...options });
  const { results } = await runner.runAllAsync([{ id: 'b', name: 'batch', input: { tool_calls } }]);
  expect(results).toHaveLength(1);
  return results[0]!;
}

const inner = (result: ToolResult): ToolRun => (result as ToolSuccess).value as ToolRun;

describe('the batch tool', () => {
  it('tells a model what it takes', () => {
    expect(z.toJSONSchema(batchToolSchema)).toMatchObject({
      type: 'object',
      required: ['tool_calls'],
      properties: {
        tool_calls: {
          type: 'array',
          minItems: 1,
          maxItems: 10,
          items: {
            type: 'object',
            required: ['tool', 'parameters'],
            properties: { tool: { type: 'string' }, parameters: { type: 'object' } },
          },
        },
      },
    });
    expect(createBatchTool()).toMatchObject({ name: 'batch', runsTools: true });
    expect(createBatchTool({ name: 'together', description: 'All at once.' })).toMatchObject({
      name: 'together',
      description: 'All at once.',
    });
  });

  it('has a result for every call, under its number, tool and id, and a summary', async () => {
    const result = await batched([...reads('a', 'b'), { tool: 'none', parameters: {} }, { tool: 'read', parameters: {} }]);
    expect(inner(result).summary).toEqual({
      total: 4,
      successful: 2,
      failed: 2,
      durationMs: expect.any(Number) as number,
      details: [
        { id: 'b.1', tool: 'read', success: true },
        { id: 'b.2', tool: 'read', success: true },
        { id: 'b.3', tool: 'none', success: false },
        { id: 'b.4', tool: 'read', success: false },
      ],
    });
    expect(inner(result).results.map(said)).toEqual(['text of a', 'text of b', 'unknown_tool', 'invalid_arguments']);
    const [head, ...sections] = result.content.split('\n\n');
    expect(head).toMatch(/^4 calls in \d+ ms: 2 ok, 2 failed$/);
    expect(sections.slice(0, 2)).toEqual(['[1] read (b.1): ok\ntext of a', '[2] read (b.2): ok\ntext of b']);
    expect(sections[2]).toMatch(/^\[3\] none \(b\.3\): failed\n\{"error":\{"code":"unknown_tool"/);
    expect(result.is_error).toBe(false);
  });

  it.each<[string, unknown]>([
    ['none', []],
    ['eleven', reads(...numbers(11).map(String))],
    ['one without a tool', [{ parameters: {} }]],
    ['one whose arguments are no object', [{ tool: 'read', parameters: 'a' }]],
    ['no list', 'read'],
  ])('refuses %s, and makes none', async (_what, tool_calls) => {
    expect(said(await batched(tool_calls as unknown[]))).toBe('invalid_arguments');
  });

  it('takes ten', async () => {
    expect(inner(await batched(reads(...numbers(10).map(String)))).summary.successful).toBe(10);
  });

  it('does not call itself, nor another of its kind, and makes the other calls', async () => {
    const other = createBatchTool({ name: 'other' });
    const nested = { tool_calls: reads('x') };
    const result = await batched([{ tool: 'batch', parameters: nested }, { tool: 'other', parameters: nested }, ...reads('a')], {
      tools: [read, createBatchTool(), other],
    });
    expect(inner(result).results.map(said)).toEqual(['nested_batch', 'nested_batch', 'text of a']);
  });

  it('takes as many calls as you say, and tells the model', async () => {
    const small = createBatchTool({ maxCalls: 2 });
    const tools = [read, small];
    expect(small.description).toContain('up to 2 tool calls');
    expect(z.toJSONSchema(small.parameters as z.ZodType)).toMatchObject({ properties: { tool_calls: { maxItems: 2 } } });
    expect(said(await batched(reads('a', 'b', 'c'), { tools }))).toBe('invalid_arguments');
    expect(inner(await batched(reads('a', 'b'), { tools })).summary.successful).toBe(2);
    const any = createBatchTool({ maxCalls: Infinity });
    expect(inner(await batched(reads(...numbers(40).map(String)), { tools: [read, any], concurrency: 50 })).summary.successful).toBe(40);
  });

  it('answers what may not be in a batch, makes the others, and has every result at the place of its call', async () => {
    const write = tool('write', () => 'written');
    const batch = createBatchTool({ disallow: ['write', 'pay'] });
    expect(batch.description).toMatch(/It cannot call itself, `write`, `pay`\.$/);
    const of = (name: string) => ({ tool: name, parameters: { path: name } });
    const result = await batched([of('write'), of('read'), of('pay'), of('read')], { tools: [read, write, batch] });
    const run = inner(result);
    expect(run.results.map(said)).toEqual(['permission_denied', 'text of read', 'permission_denied', 'text of read']);
    expect(run.results.map(({ index, tool_use_id }) => [index, tool_use_id])).toEqual([
      [0, 'b.1'],
      [1, 'b.2'],
      [2, 'b.3'],
      [3, 'b.4'],
    ]);
    expect(run.summary).toMatchObject({ total: 4, successful: 2, failed: 2 });
    expect(run.results[0]).toMatchObject({ error: { message: '`write` cannot be called in a batch; call it directly' }, attempts: 0 });
    expect(inner(await batched([of('pay')], { tools: [read, batch] })).results.map(said)).toEqual(['permission_denied']);
  });

  it.each<[string, unknown, string]>([
    ['maxCalls', 0, 'a whole number >= 1 or Infinity'],
    ['maxCalls', 1.5, 'a whole number >= 1 or Infinity'],
    ['disallow', 'write', 'an array of non-empty strings'],
    ['disallow', [''], 'an array of non-empty strings'],
    ['description', '', 'a non-empty string'],
  ])('refuses %s: %j', (option, value, expected) => {
    expect(() => createBatchTool({ [option]: value })).toThrow(`createBatchTool: expected \`${option}\` to be ${expected}`);
  });

  it('refuses an option that it does not have', () => {
    expect(() => createBatchTool({ maxCall: 5 } as never)).toThrow('createBatchTool: unknown option `maxCall`. Did you mean `maxCalls`?');
  });

  it('hands on the context of the run', async () => {
    const seen: unknown[] = [];
    const look = tool('look', (_args, { context }) => seen.push(context));
    const runner = createToolRunner({ tools: [look, createBatchTool()] });
    const tool_calls = [1, 2].map(() => ({ tool: 'look', parameters: {} }));
    await runner.runAllAsync([{ id: 'b', name: 'batch', input: { tool_calls } }], { context: 'mine' });
    expect(seen).toEqual(['mine', 'mine']);
  });

  it('keeps long texts whole', async () => {
    const long = tool('long', () => 'x'.repeat(100_000));
    const calls = [1, 2].map(() => ({ tool: 'long', parameters: {} }));
    expect((await batched(calls, { tools: [long, createBatchTool()] })).content.length).toBeGreaterThan(200_000);
    const cut = await batched(calls, { tools: [long, createBatchTool()], maxResultChars: 50 });
    // Each result by itself: the second is not lost because the first is long.
    expect(cut.content.match(/\[cut: only the first 50 of 100000 characters\]/g)).toHaveLength(2);
  });

  it('is never in its own way: two batches and one slot', () => {
    const seen = virtualTime(({ flush, now }) => {
      let peak = 0;
      let running = 0;
      const slow = tool('slow', () => {
        peak = Math.max(peak, ++running);
        return after(10, running--);
      });
      const runner = createToolRunner({ tools: [slow, createBatchTool()], concurrency: 1 });
      const tool_calls = [1, 2].map(() => ({ tool: 'slow', parameters: {} }));
      const ends: string[] = [];
      runner
        .run(['a', 'b'].map((id) => ({ id, name: 'batch', input: { tool_calls } })))
        .subscribe((result) => ends.push(`${String(now())} ${result.tool_use_id}`));
      flush();
      expect(peak).toBe(1);
      return ends;
    });
    expect(seen).toEqual(['20 a', '40 b']);
  });

  it('passes every call by the guard, the batch and each of its own, at the moment it starts', async () => {
    const asked: string[] = [];
    const guard: ToolRunnerOptions['guard'] = ({ id, input }) => {
      asked.push(id);
      return JSON.stringify(input) !== '{"path":"secret"}';
    };
    const result = await batched(reads('a', 'secret'), { guard, concurrency: 1 });
    expect(asked).toEqual(['b', 'b.1', 'b.2']);
    expect(inner(result).results.map(said)).toEqual(['text of a', 'permission_denied']);
    const refused = await batched(reads('a'), { guard: ({ name }) => name !== 'batch' });
    expect((refused as ToolFailure).error.code).toBe('permission_denied');
  });

  it('holds its calls to the limits of their tools, and aborts them with itself', () => {
    virtualTime(({ advance, pending }) => {
      const signals: AbortSignal[] = [];
      const hangs: Tool = tool('hangs', (_args, { signal }) => (signals.push(signal), NEVER), { concurrency: 2 });
      const runner = createToolRunner({ tools: [hangs, createBatchTool({ timeoutMs: 50 })] });
      const tool_calls = [1, 2, 3].map(() => ({ tool: 'hangs', parameters: {} }));
      const seen: string[] = [];
      const left = runner.run([{ id: 'a', name: 'batch', input: { tool_calls } }]).subscribe();
      expect(runner.snapshot()).toMatchObject({ open: 4, executing: 2, queued: 1 });
      left.unsubscribe();
      expect([signals.length, signals.every(({ aborted }) => aborted), pending()]).toEqual([2, true, 0]);
      runner.run([{ id: 'b', name: 'batch', input: { tool_calls } }]).subscribe((result) => seen.push(said(result)));
      advance(60);
      expect([seen, signals.every(({ aborted }) => aborted), pending()]).toEqual([['timeout'], true, 0]);
      expect(runner.snapshot()).toMatchObject({ open: 0, executing: 0, queued: 0 });
    });
  });
});
