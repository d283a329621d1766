import type { RunAgentInput } from '@ag-ui/core';
import type Anthropic from '@anthropic-ai/sdk';
import type Anthropic0 from 'anthropic0';
import type OpenAI from 'openai';
import type OpenAI6 from 'openai6';
import { describe, expectTypeOf, it } from 'vitest';
import type {
  ChatCompletion,
  ChatMessage,
  ChatRequest,
  ToolResult,
  ToolRun,
  ToolRunner,
  TurnContext,
  TurnMessage,
} from '../../src/index.js';
import { fromChatToolCalls, toMessages, toToolDefinitions, toToolResults } from '../../src/index.js';

declare const history: readonly TurnMessage[];
declare const run: ToolRun;
declare const runner: ToolRunner;
declare const turn: TurnContext;

describe('messages, results and definitions fit the clients as they are', () => {
  it('of OpenAI, chat completions: the newest and the one before', () => {
    expectTypeOf(toMessages(history, 'chat')).toExtend<OpenAI.ChatCompletionMessageParam[]>();
    expectTypeOf(toMessages(history, 'chat')).toExtend<OpenAI6.ChatCompletionMessageParam[]>();
    expectTypeOf(toToolResults(run.results, 'chat')).toExtend<OpenAI.ChatCompletionMessageParam[]>();
    expectTypeOf(toToolResults(run.results, 'chat')).toExtend<OpenAI6.ChatCompletionMessageParam[]>();
    expectTypeOf(toToolDefinitions(runner.tools, 'chat')).toExtend<OpenAI.ChatCompletionTool[]>();
    expectTypeOf(toToolDefinitions(turn.tools, 'chat')).toExtend<OpenAI6.ChatCompletionTool[]>();
  });

  it('of OpenAI, Responses: the newest and the one before', () => {
    expectTypeOf(toMessages(history, 'responses')).toExtend<OpenAI.Responses.ResponseInput>();
    expectTypeOf(toMessages(history, 'responses')).toExtend<OpenAI6.Responses.ResponseInput>();
    expectTypeOf(toToolResults(run.results, 'responses')).toExtend<OpenAI.Responses.ResponseInputItem[]>();
    expectTypeOf(toToolResults(run.results, 'responses')).toExtend<OpenAI6.Responses.ResponseInputItem[]>();
    expectTypeOf(toToolDefinitions(runner.tools, 'responses')).toExtend<OpenAI.Responses.Tool[]>();
    expectTypeOf(toToolDefinitions(turn.tools, 'responses')).toExtend<OpenAI6.Responses.Tool[]>();
  });

  it('of Anthropic: the newest and the oldest of the range', () => {
    expectTypeOf(toMessages(history, 'anthropic')).toExtend<Anthropic.MessageParam[]>();
    expectTypeOf(toMessages(history, 'anthropic')).toExtend<Anthropic0.MessageParam[]>();
    expectTypeOf(toToolResults(run.results, 'anthropic')).toExtend<Anthropic.MessageParam[]>();
    expectTypeOf(toToolResults(run.results, 'anthropic')).toExtend<Anthropic0.MessageParam[]>();
    expectTypeOf(toToolDefinitions(runner.tools, 'anthropic')).toExtend<Anthropic.Tool[]>();
    expectTypeOf(toToolDefinitions(turn.tools, 'anthropic')).toExtend<Anthropic0.Tool[]>();
  });

  it('of AG-UI', () => {
    expectTypeOf(toMessages(history, 'ag-ui')).toExtend<RunAgentInput['messages']>();
    expectTypeOf(toToolResults(run.results, 'ag-ui')).toExtend<RunAgentInput['messages']>();
    expectTypeOf(toToolDefinitions(runner.tools, 'ag-ui')).toExtend<RunAgentInput['tools']>();
  });

  it('of our own chat API, and its answer goes back into the next request', () => {
    expectTypeOf(toMessages(history, 'chat')).toExtend<ChatMessage[]>();
    expectTypeOf(toToolResults(run.results, 'chat')).toExtend<ChatMessage[]>();
    const next = (answer: ChatCompletion, results: readonly ToolResult[]): ChatRequest => ({
      messages: [
        ...toMessages(history, 'chat'),
        ...answer.choices.slice(0, 1).map(({ message }) => message),
        ...toToolResults(results, 'chat'),
      ],
      tools: toToolDefinitions(runner.tools, 'chat'),
    });
    expectTypeOf(next).returns.toEqualTypeOf<ChatRequest>();
  });
});

describe('what clients answer is taken as it is', () => {
  it('the calls of a chat completion, of the clients and of our own API', () => {
    expectTypeOf(fromChatToolCalls).toBeCallableWith({} as OpenAI.ChatCompletionMessage['tool_calls']);
    const calls = (answer: ChatCompletion) => answer.choices.flatMap(({ message }) => fromChatToolCalls(message.tool_calls));
    expectTypeOf(runner.runAllAsync).toBeCallableWith(calls({} as ChatCompletion));
  });

  it('the blocks of a message of Anthropic', () => {
    const calls = (message: Anthropic.Message) => message.content.filter((block) => block.type === 'tool_use');
    const older = (message: Anthropic0.Message) => message.content.filter((block) => block.type === 'tool_use');
    expectTypeOf(runner.runAllAsync).toBeCallableWith(calls({} as Anthropic.Message));
    expectTypeOf(runner.runAllAsync).toBeCallableWith(older({} as Anthropic0.Message));
  });
});
