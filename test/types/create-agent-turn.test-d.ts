import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { type Observable, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import * as z from 'zod';
import type { Store } from '../../operators/index.js';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import type { AnthropicTurnBlock } from '../../src/frontend/turn-messages.js';
import type { AgentTurns, ToolCall, ToolContext, TurnEvent, TurnMessage, TurnView } from '../../src/index.js';
import { chatCompletions, createModelCaller, createToolRunner, defineTool, toMessages } from '../../src/index.js';

const parameters = z.object({ path: z.string() });
const read = defineTool({ name: 'read', description: 'Reads.', parameters, execute: ({ path }) => path.length });
interface User {
  readonly user: string;
}
const mine = defineTool({
  name: 'mine',
  description: 'Mine.',
  parameters,
  execute: (_args, { context }: ToolContext<User>) => context.user,
});

async function* words(): AsyncGenerator<string> {
  yield await Promise.resolve('word');
}

describe('createAgentTurn', () => {
  it('takes the streams of clients as they are', () => {
    const openai = new OpenAI({ apiKey: 'x' });
    createAgentTurn({
      model: (messages, { signal }) => {
        expectTypeOf(messages).toEqualTypeOf<readonly TurnMessage[]>();
        expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
        return openai.chat.completions.create({ model: 'm', stream: true, messages: toMessages(messages, 'chat') }, { signal });
      },
    });
    const anthropic = new Anthropic({ apiKey: 'x' });
    createAgentTurn({
      model: (messages, { signal }) =>
        anthropic.messages.stream({ model: 'm', max_tokens: 9, messages: toMessages(messages, 'anthropic') }, { signal }),
    });
    const caller = createModelCaller({ call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }) });
    createAgentTurn({ model: (messages, { signal }) => caller.stream({ messages: toMessages(messages, 'chat') }, { signal }) });
    // @ts-expect-error a model answers
    createAgentTurn({ model: () => undefined });
    // @ts-expect-error there is no model
    createAgentTurn({ tools: createToolRunner({ tools: [read] }) });
  });

  it('has events that are told apart by their type', () => {
    const turns = createAgentTurn({ model: words });
    expectTypeOf(turns).toEqualTypeOf<AgentTurns>();
    expectTypeOf(turns.ask('hello')).toEqualTypeOf<Observable<TurnEvent>>();
    expectTypeOf(turns).toExtend<AsyncDisposable>();
    const look = (event: TurnEvent): unknown => {
      if (event.type === 'toolCall') return expectTypeOf(event.call).toEqualTypeOf<ToolCall>();
      if (event.type === 'failed') return expectTypeOf(event.error).toBeUnknown();
      // @ts-expect-error not of every event
      return event.text as unknown;
    };
    expectTypeOf(look).returns.toBeUnknown();
  });

  it('needs the context that its tools need, in every question', () => {
    const turns = createAgentTurn({ model: words, tools: createToolRunner({ tools: [read, mine] }) });
    void turns.ask('hello', { context: { user: 'ada' } });
    // @ts-expect-error there is no context
    void turns.ask('hello');
    // @ts-expect-error another context
    void turns.resume({ context: { user: 5 } });
    const runner = createToolRunner({ tools: [mine] });
    // @ts-expect-error that of a runner, too
    void createAgentTurn({ model: words, tools: runner }).ask('hello');
    void createAgentTurn({ model: (_messages, { context }: { context: User }) => of(context.user) }).ask('a', {
      context: { user: 'ada' },
    });
  });

  it('is asked with a text or with parts', () => {
    const turns = createAgentTurn({ model: words });
    void turns.ask('hello');
    void turns.ask([{ type: 'text', text: 'hello' }]);
    // @ts-expect-error neither a text nor parts
    void createAgentTurn({ model: words }).ask(5);
  });

  it('has stores, of its own view and of yours', () => {
    const turns = createAgentTurn({ model: words });
    expectTypeOf(turns.store('a')).toEqualTypeOf<Store<TurnView>>();
    const count = (sum: number, event: TurnEvent): number => sum + (event.type === 'delta' ? 1 : 0);
    expectTypeOf(turns.store('a', count, 0, { pace: 'frame', stopsTurn: false })).toEqualTypeOf<Store<number>>();
    // @ts-expect-error a view of another type
    turns.store('a', count, '');
  });
});

describe('toMessages', () => {
  it('has the type of its protocol', () => {
    expectTypeOf(toMessages([], 'chat')[0]!.role).toEqualTypeOf<'user' | 'assistant' | 'tool'>();
    expectTypeOf(toMessages([], 'anthropic')[0]!.content).toEqualTypeOf<AnthropicTurnBlock[]>();
    // @ts-expect-error there is no such protocol
    toMessages([], 'grpc');
  });
});
