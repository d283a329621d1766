import * as v1 from '@ag-ui/client';
import * as v0 from 'ag-ui-client0';
import { Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import type { AguiEvent, AguiFlowOptions } from '../../src/adapters/ag-ui.js';
import { aguiFlow } from '../../src/adapters/ag-ui.js';
import type { Tool } from '../../src/index.js';
import { createToolRunner, defineTool } from '../../src/index.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

const versions: readonly (readonly [string, typeof v1])[] = [
  ['1.0.0', v1],
  ['0.0.59', v0 as unknown as typeof v1],
];
expectNoUnhandledRejections();

/** Tools that answer when they are told to, and what is going on in them. */
function workshop(...names: readonly string[]) {
  const calls: {
    readonly id: string;
    readonly args: unknown;
    readonly signal: AbortSignal;
    answer: (value: unknown) => void;
    fail: (error: Error) => void;
  }[] = [];
  const tools = names.map((name) =>
    defineTool({
      name,
      description: name,
      parameters: z.object({ q: z.string() }),
      execute: (args, { id, signal }) =>
        new Promise((answer, fail) => {
          calls.push({ id, args, signal, answer, fail });
        }),
    }),
  );
  return { calls, tools: tools as readonly Tool[] };
}

/** An agent whose events are pushed by the test. */
function pushed(client: typeof v1, options: AguiFlowOptions) {
  const runs: Subject<AguiEvent>[] = [];
  const agent = new (class extends client.AbstractAgent {
    run() {
      const run = new Subject<AguiEvent>();
      runs.push(run);
      return run as never;
    }
  })({ threadId: 't' });
  const flow = aguiFlow({ coalesce: { maxWaitMs: 0 }, ...options });
  agent.use(flow.coalesce, flow.switchRuns, flow.runTools);
  const seen: AguiEvent[] = [];
  const run = (runId: string) => agent.runAgent({ runId }, { onEvent: ({ event }) => void seen.push(event) });
  const say = async (...events: readonly AguiEvent[]) => {
    for (const event of events) runs.at(-1)?.next(event);
    await settled();
  };
  return {
    agent,
    runs,
    seen,
    run,
    say,
    typesSeen: () => seen.map(({ type, toolCallId }) => (toolCallId === undefined ? type : `${type} ${toolCallId as string}`)),
  };
}

/** Every stage of the client waits for promises. */
async function settled(): Promise<void> {
  for (let i = 0; i < 5; i++) await settle();
}

const started = { type: 'RUN_STARTED', threadId: 't', runId: 'r' };
const finished = { type: 'RUN_FINISHED', threadId: 't', runId: 'r' };
const call = (toolCallId: string, toolCallName: string, args = '{"q":"x"}'): AguiEvent[] => [
  { type: 'TOOL_CALL_START', toolCallId, toolCallName },
  ...[args.slice(0, 3), args.slice(3)].map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId, delta })),
  { type: 'TOOL_CALL_END', toolCallId },
];

describe.each(versions)('runTools with @ag-ui/client %s', (_version, client) => {
  it('results go in as they come, and the end waits for the last one', async () => {
    const { calls, tools } = workshop('search', 'db');
    const limited = tools.map((tool) => (tool.name === 'db' ? { ...tool, concurrency: 1 } : tool));
    const { agent, run, runs, say, typesSeen, seen } = pushed(client, { tools: createToolRunner({ tools: limited }) });
    const ended = run('r');
    await settled();
    await say(started, ...call('a', 'db'), ...call('b', 'db'), ...call('c', 'search'), ...call('d', 'unknown'));
    // The lane of `db` is one call wide.
    expect(calls.map(({ id }) => id)).toEqual(['a', 'c']);
    await say({ ...finished, outcome: { type: 'success', pendingToolCallIds: ['a', 'b', 'c', 'd'] } });
    runs[0]?.complete();
    calls[1]?.answer('for c');
    await settled();
    expect(typesSeen().at(-1)).toBe('TOOL_CALL_RESULT c');
    calls[0]?.fail(new Error('no rows'));
    await settled();
    expect(calls[2]?.id).toBe('b');
    calls[2]?.answer({ rows: 1 });
    await ended;
    expect(typesSeen().slice(-4)).toEqual(['TOOL_CALL_RESULT c', 'TOOL_CALL_RESULT a', 'TOOL_CALL_RESULT b', 'RUN_FINISHED']);
    expect(seen.at(-1)?.['outcome']).toEqual({ type: 'success', pendingToolCallIds: ['d'] });
    const results = agent.messages.filter(({ role }) => role === 'tool') as { toolCallId: string; content: string }[];
    expect(Object.fromEntries(results.map(({ toolCallId, content }) => [toolCallId, content]))).toEqual({
      a: '{"error":{"code":"failed","message":"no rows"}}',
      b: '{"rows":1}',
      c: 'for c',
    });
  });

  it('a call that was answered here has no second answer', async () => {
    const { calls, tools } = workshop('search');
    const { agent, run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    await say(started, ...call('a', 'search'));
    calls[0]?.answer('ours');
    await settled();
    await say({ type: 'TOOL_CALL_RESULT', messageId: 'm', toolCallId: 'a', content: 'theirs' }, finished);
    runs[0]?.complete();
    await ended;
    expect(agent.messages.filter(({ role }) => role === 'tool')).toMatchObject([{ toolCallId: 'a', content: 'ours' }]);
  });

  describe('a picture of all messages', () => {
    const asked = { id: 'q', role: 'assistant', toolCalls: [{ id: 'a', type: 'function', function: { name: 'search', arguments: '{}' } }] };
    const question = { id: 'u', role: 'user', content: 'q' };
    const answer = { id: 'a:result', role: 'tool', toolCallId: 'a', content: 'found' };

    it.each([
      ['lacks the result that was handed on', [question, asked], ['u', 'q', 'a:result']],
      ['has it', [question, asked, answer], ['u', 'q', 'a:result']],
      ['has neither call nor result', [question], ['u']],
    ])('that %s', async (_what, messages, ids) => {
      const { calls, tools } = workshop('search');
      const { agent, run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
      const ended = run('r');
      await settled();
      await say(started, ...call('a', 'search'));
      calls[0]?.answer('found');
      await settled();
      // Twice, as some servers send it after each step.
      await say({ type: 'MESSAGES_SNAPSHOT', messages }, { type: 'MESSAGES_SNAPSHOT', messages }, finished);
      runs[0]?.complete();
      await ended;
      // Where one stands that it had before is for the client to say.
      expect(agent.messages.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    });

    it('that comes before the result changes nothing', async () => {
      const { calls, tools } = workshop('search');
      const { agent, run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
      const ended = run('r');
      await settled();
      await say(started, ...call('a', 'search'), { type: 'MESSAGES_SNAPSHOT', messages: [question, asked] }, finished);
      runs[0]?.complete();
      calls[0]?.answer('found');
      await ended;
      expect(agent.messages.map(({ id }) => id)).toEqual(['u', 'q', 'a:result']);
    });
  });

  it.each([
    ['in front of it', [true, false]],
    ['behind it', [false, true]],
    ['on both sides', [true, true]],
    ['nowhere', [false, false]],
  ] as const)('a result is found among the new messages of its run, with a text %s', async (_where, [before, behind]) => {
    const { calls, tools } = workshop('search');
    const { run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
    const text = (messageId: string): AguiEvent[] => [
      { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' },
      { type: 'TEXT_MESSAGE_CONTENT', messageId, delta: 'well' },
      { type: 'TEXT_MESSAGE_END', messageId },
    ];
    const ended = run('r');
    await settled();
    await say(started, ...(before ? text('before') : []), ...call('a', 'search'));
    calls[0]?.answer('found');
    await settled();
    await say(...(behind ? text('behind') : []), finished);
    runs[0]?.complete();
    const { newMessages } = await ended;
    expect(newMessages.filter(({ id }) => id.endsWith(':result'))).toMatchObject([{ role: 'tool', toolCallId: 'a', content: 'found' }]);
    expect(newMessages.at(-1)?.role).toBe(behind ? 'assistant' : 'tool');
  });

  it('makes calls that come in the short form, and never cuts off a text by a result', async () => {
    const { calls, tools } = workshop('search');
    const { agent, run, runs, say, typesSeen } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    await say(
      started,
      { type: 'TOOL_CALL_CHUNK', toolCallId: 'a', toolCallName: 'search', delta: '{"q"' },
      { type: 'TOOL_CALL_CHUNK', delta: ':"x"}' },
    );
    expect(calls).toHaveLength(0);
    await say({ type: 'TEXT_MESSAGE_CHUNK', messageId: 'm', delta: 'one ' });
    expect(calls.map(({ id, args }) => [id, args])).toEqual([['a', { q: 'x' }]]);
    calls[0]?.answer('found');
    await settled();
    await say({ type: 'TEXT_MESSAGE_CHUNK', delta: 'message' });
    expect(typesSeen()).not.toContain('TOOL_CALL_RESULT a');
    await say({ type: 'TOOL_CALL_CHUNK', toolCallId: 'b', toolCallName: 'search', delta: '{"q":"y"}' }, finished);
    calls[1]?.answer('again');
    runs[0]?.complete();
    await ended;
    expect(typesSeen().slice(-3)).toEqual(['TOOL_CALL_RESULT a', 'TOOL_CALL_RESULT b', 'RUN_FINISHED']);
    expect(agent.messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)).toContain('one message');
  });

  it('a result goes beside the texts of other sub-agents', async () => {
    const { calls, tools } = workshop('search');
    const { run, runs, say, typesSeen, seen } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    const short = { type: 'TOOL_CALL_CHUNK', toolCallId: 'a', toolCallName: 'search', delta: '{"q":"x"}', subagentRunId: 's1' };
    await say(
      started,
      short,
      { type: 'TEXT_MESSAGE_CHUNK', messageId: 'm', delta: 'text', subagentRunId: 's2' },
      { type: 'STEP_STARTED', stepName: 'x', subagentRunId: 's1' },
    );
    calls[0]?.answer('found');
    await settled();
    expect(typesSeen().at(-1)).toBe('TOOL_CALL_RESULT a');
    expect(seen.at(-1)).toMatchObject({ subagentRunId: 's1' });
    await say(
      { type: 'TEXT_MESSAGE_CHUNK', delta: ' goes on', subagentRunId: 's2' },
      { type: 'STEP_FINISHED', stepName: 'x', subagentRunId: 's1' },
      finished,
    );
    runs[0]?.complete();
    await ended;
    expect(typesSeen().filter((type) => type === 'TEXT_MESSAGE_START')).toHaveLength(1);
  });

  it('an answer of the server goes before ours, and a call is made once', async () => {
    const { calls, tools } = workshop('search');
    const { agent, run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    await say(started, ...call('a', 'search'));
    await say({ type: 'TOOL_CALL_RESULT', messageId: 'res', toolCallId: 'a', content: 'by the server' }, ...call('a', 'search'), finished);
    runs[0]?.complete();
    await ended;
    expect(calls.map(({ signal }) => signal.aborted)).toEqual([true]);
    expect(agent.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual(['by the server']);
  });

  it.each<[string, (flow: ReturnType<typeof pushed>) => unknown]>([
    ['superseded', ({ run }) => void run('next').catch(() => undefined)],
    ['failed', ({ say }) => say({ type: 'RUN_ERROR', message: 'no' })],
    ['broken', ({ runs }) => runs[0]?.error(new Error('broken'))],
    ['detached', ({ agent }) => agent.detachActiveRun()],
    ['cancelled', ({ say }) => say({ ...finished, outcome: { type: 'cancelled' } })],
  ])('a run that is %s gives up its calls', async (_how, leave) => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const { calls, tools } = workshop('search');
    const flow = pushed(client, { tools: createToolRunner({ tools }) });
    void flow.run('r').catch(() => undefined);
    await settled();
    await flow.say(started, ...call('a', 'search'));
    expect(calls[0]?.signal.aborted).toBe(false);
    await leave(flow);
    await settled();
    expect(calls[0]?.signal.aborted).toBe(true);
    calls[0]?.answer('late');
    await settled();
    expect(flow.typesSeen()).not.toContain('TOOL_CALL_RESULT a');
    vi.restoreAllMocks();
  });

  it('superseding also stops a run that has finished and waits for its tools', async () => {
    const { calls, tools } = workshop('search');
    const { run, say, seen } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    await say(started, ...call('a', 'search'), finished);
    void run('next').catch(() => undefined);
    await ended;
    expect(calls[0]?.signal.aborted).toBe(true);
    expect(seen.find(({ type }) => type === 'RUN_FINISHED')?.['outcome']).toEqual({ type: 'cancelled' });
  });

  it('arguments that are no JSON are a result the model can act on', async () => {
    const { tools } = workshop('search');
    const { agent, run, runs, say } = pushed(client, { tools: createToolRunner({ tools }) });
    const ended = run('r');
    await settled();
    await say(started, ...call('a', 'search', '{"q":'), finished);
    runs[0]?.complete();
    await ended;
    expect(agent.messages.find(({ role }) => role === 'tool')?.content).toContain('invalid_arguments');
  });
});
