import type OpenAI from 'openai';
import type { OpenAI as OpenAI6 } from 'openai6';
import type { Observable, OperatorFunction } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import * as z from 'zod';
import { createBatchTool } from '../../src/edge/batch-tool.js';
import type { ToolRunner, ToolRunnerOptions } from '../../src/pipelines/create-tool-runner.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { fromChatToolCalls } from '../../src/pipelines/tools/tool-formats.js';
import type { Tool, ToolCall, ToolContext, ToolErrorCode, ToolResult, ToolRun } from '../../src/pipelines/tools/tool-types.js';
import { defineTool } from '../../src/pipelines/tools/tool-types.js';

const read = defineTool({
  name: 'read',
  description: 'Reads.',
  parameters: z.object({ path: z.string(), lines: z.number().default(10) }),
  execute: (args, context) => {
    expectTypeOf(args).toEqualTypeOf<{ path: string; lines: number }>();
    expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
    expectTypeOf(context.attempt).toEqualTypeOf<number>();
    return Promise.resolve(args.path.length);
  },
  format: (value) => {
    expectTypeOf(value).toEqualTypeOf<number>();
    return String(value);
  },
});

describe('defineTool', () => {
  it('infers the arguments from the schema and the value from the answer', () => {
    expectTypeOf(read).toEqualTypeOf<Tool<{ path: string; lines: number }, number>>();
    const parameters = z.object({ n: z.number() });
    expectTypeOf(defineTool({ name: 'a', description: 'a', parameters, execute: ({ n }) => n })).toEqualTypeOf<
      Tool<{ n: number }, number>
    >();
    expectTypeOf(defineTool({ name: 'a', description: 'a', parameters, execute: ({ n }) => of(String(n)) })).toEqualTypeOf<
      Tool<{ n: number }, string>
    >();
  });

  it('takes anything with a safeParse, and a Standard Schema', () => {
    const safeParse = (input: unknown) => ({ success: true, data: String(input) }) as const;
    expectTypeOf(defineTool({ name: 'a', description: 'a', parameters: { safeParse }, execute: (text) => text.length })).toEqualTypeOf<
      Tool<string, number>
    >();
    const validate = (input: unknown) => Promise.resolve({ value: Number(input) });
    const standard = { '~standard': { validate } };
    expectTypeOf(defineTool({ name: 'a', description: 'a', parameters: standard, execute: (n) => n > 0 })).toExtend<
      Tool<number, boolean>
    >();
  });

  it('refuses wrong tools', () => {
    const parameters = z.object({ path: z.string() });
    // @ts-expect-error not a field of the schema
    defineTool({ name: 'a', description: 'a', parameters, execute: ({ file }) => String(file) });
    // @ts-expect-error no description
    defineTool({ name: 'a', parameters, execute: () => 1 });
    // @ts-expect-error not a schema
    defineTool({ name: 'a', description: 'a', parameters: { type: 'object' }, execute: () => 1 });
    // @ts-expect-error not an option of a tool
    defineTool({ name: 'a', description: 'a', parameters, execute: () => 1, timeout: 5 });
  });
});

describe('createToolRunner', () => {
  it('takes tools of every kind, and makes calls in three ways', () => {
    const runner = createToolRunner({ tools: [read, createBatchTool()] });
    const calls: ToolCall[] = [{ id: 'a', name: 'read', input: {} }];
    expectTypeOf(runner).toEqualTypeOf<ToolRunner>();
    expectTypeOf(runner.run(calls)).toEqualTypeOf<Observable<ToolResult>>();
    expectTypeOf(runner.runAllAsync(calls)).toEqualTypeOf<Promise<ToolRun>>();
    expectTypeOf(runner.mapCalls()).toEqualTypeOf<OperatorFunction<ToolCall, ToolResult>>();
    expectTypeOf(runner.snapshot().tools).toExtend<Readonly<Record<string, { readonly executing: number }>>>();
    expectTypeOf(runner).toExtend<AsyncDisposable>();
  });

  it('tells a success from a failure', () => {
    const look = (result: ToolResult): unknown => {
      if (result.is_error) {
        expectTypeOf(result.error.code).toEqualTypeOf<ToolErrorCode>();
        // @ts-expect-error a failure has no value
        return result.value as unknown;
      }
      // @ts-expect-error a success has no error
      return result.error as unknown;
    };
    expectTypeOf(look).returns.toBeUnknown();
  });

  it('takes guards that answer at once or later, and calls with more than it reads', () => {
    createToolRunner({ tools: [read], guard: () => true });
    createToolRunner({ tools: [read], guard: async ({ input }, { attempt }) => Promise.resolve(input === attempt || 'no') });
    createToolRunner({ tools: [read], guard: () => of(false) });
    const blocks = [{ type: 'tool_use', id: 'a', name: 'read', input: {}, caller: 'model' }] as const;
    void createToolRunner({ tools: [read] }).runAllAsync(blocks);
  });

  it('refuses wrong options', () => {
    // @ts-expect-error there are no tools
    createToolRunner({});
    // @ts-expect-error a guard answers
    createToolRunner({ tools: [read], guard: () => undefined });
    // @ts-expect-error not a number
    createToolRunner({ tools: [{ ...read, concurrency: '1' }] });
    // @ts-expect-error not an option
    createToolRunner({ tools: [read], timeout: 5 });
    // @ts-expect-error not a call
    void createToolRunner({ tools: [read] }).runAllAsync([{ name: 'read' }]);
  });

  it('has readonly options', () => {
    expectTypeOf<ToolRunnerOptions>().toEqualTypeOf<Readonly<ToolRunnerOptions>>();
  });
});

describe('a context', () => {
  const parameters = z.object({ n: z.number() });
  const about = { description: 'a', parameters };
  interface User {
    readonly user: string;
  }
  interface Db {
    readonly db: number;
  }
  const plain = defineTool({ name: 'plain', ...about, execute: ({ n }) => n });
  const ofUser = defineTool({ name: 'user', ...about, execute: ({ n }, { context }: ToolContext<User>) => context.user + String(n) });
  const ofDb = defineTool({ name: 'db', ...about, execute: ({ n }, { context }: ToolContext<Db>) => context.db + n });

  it('is what the tools need, and then every run has to have it', () => {
    const runner = createToolRunner({ tools: [plain, ofUser] });
    expectTypeOf(runner).toEqualTypeOf<ToolRunner<User>>();
    void runner.runAllAsync([], { context: { user: 'a' } });
    // @ts-expect-error there is no context
    void runner.runAllAsync([]);
    // @ts-expect-error the options have none
    void runner.run([], {});
    // @ts-expect-error another context
    runner.mapCalls({ context: { user: 1 } });
  });

  it('is what the guard needs', () => {
    const runner = createToolRunner({ tools: [plain], guard: (_call, { context }: { readonly context: User }) => context.user === 'a' });
    expectTypeOf(runner).toEqualTypeOf<ToolRunner<User>>();
  });

  it('is named where several tools need different ones', () => {
    const runner = createToolRunner<User & Db>({ tools: [plain, ofUser, ofDb], guard: (_call, { context }) => context.db > 0 });
    void runner.runAllAsync([], { context: { user: 'a', db: 1 } });
    // @ts-expect-error one is missing
    void runner.runAllAsync([], { context: { user: 'a' } });
    // @ts-expect-error neither is all of it
    createToolRunner({ tools: [ofUser, ofDb] });
  });

  it('is anything for tools that do not read it', () => {
    void createToolRunner({ tools: [plain] }).runAllAsync([], { context: 5 });
    createToolRunner({ tools: [{ name: 'a', ...about, execute: (_args, { context }) => expectTypeOf(context).toBeUnknown() }] });
  });

  it('keeps a tool that needs one out of a runner without', () => {
    // @ts-expect-error needs a user
    const tools: Tool[] = [ofUser];
    // @ts-expect-error needs a user
    createToolRunner({ tools: [plain] }).addTools([ofUser]);
    createToolRunner({ tools: [plain, ofUser] }).addTools([plain, ofUser]);
    expectTypeOf(tools).toEqualTypeOf<Tool[]>();
  });
});

describe('fromChatToolCalls', () => {
  it('takes the types of the SDK, and what is written as its API has it', () => {
    expectTypeOf(fromChatToolCalls).toBeCallableWith({} as OpenAI.ChatCompletionMessage['tool_calls']);
    expectTypeOf(fromChatToolCalls).toBeCallableWith({} as OpenAI6.ChatCompletionMessage['tool_calls']);
    expectTypeOf(fromChatToolCalls).toBeCallableWith({} as OpenAI.ChatCompletionMessageToolCall[]);
    expectTypeOf(fromChatToolCalls).toBeCallableWith([
      { id: 'a', type: 'function', function: { name: 'read', arguments: '{}' } },
      { id: 'b', type: 'custom', custom: { name: 'shell', input: 'ls' } },
    ]);
  });
});
