import * as v1 from '@ag-ui/client';
import * as v0 from 'ag-ui-client0';
import { afterEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import type { AbandonedRun, AguiFlowEvent, AguiFlowOptions } from '../../src/adapters/ag-ui.js';
import { aguiFlow } from '../../src/adapters/ag-ui.js';
import { createToolRunner, defineTool } from '../../src/index.js';
import type { Agent, AguiServer } from '../fakes/ag-ui-server.js';
import { speech, startAguiServer } from '../fakes/ag-ui-server.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

/** The client before 1.0, as the one after it; what is used here is the same in both. */
const versions: readonly (readonly [string, typeof v1])[] = [
  ['1.0.0', v1],
  ['0.0.59', v0 as unknown as typeof v1],
];

let server: AguiServer;
afterEach(async () => {
  await server.close();
  vi.restoreAllMocks();
});
expectNoUnhandledRejections();

/** An agent with everything, and what was told of its runs. */
async function withFlow(client: typeof v1, agent: Agent, options: AguiFlowOptions = {}) {
  server = await startAguiServer(agent);
  const flow = aguiFlow(options);
  const told: AguiFlowEvent[] = [];
  flow.events.subscribe((event) => told.push(event));
  const http = new client.HttpAgent({ url: server.url, threadId: 't', fetch: flow.fetch });
  http.use(flow.coalesce, flow.switchRuns, flow.runTools);
  const seen: Record<string, unknown>[] = [];
  const ask = (content: string, runId: string) => {
    http.addMessage({ id: `ask ${runId}`, role: 'user', content });
    return http.runAgent({ runId }, { onEvent: ({ event }) => void seen.push(event) });
  };
  return { agent: http, flow, told, seen, ask, ends: () => told.flatMap((event) => (event.type === 'runEnded' ? [event.outcome] : [])) };
}

const typesOf = (events: readonly Record<string, unknown>[]) => events.map(({ type }) => type);
const textOf = (agent: v1.HttpAgent, runId: string) => agent.messages.find(({ id }) => id === `${runId}:text`)?.content;

describe.each(versions)('an agent of @ag-ui/client %s', (version, client) => {
  it('says the same in fewer events', async () => {
    const pieces = Array.from({ length: 500 }, (_, i) => `${String(i)} `);
    const { agent, ask, seen, told } = await withFlow(client, (run) => speech(run, pieces));
    await ask('count', 'r');
    expect(textOf(agent, 'r')).toBe(pieces.join(''));
    expect(seen.length).toBeLessThan(50);
    expect(told.at(-1)).toMatchObject({ type: 'runEnded', runId: 'r', outcome: 'finished', chunks: 500 });
  });

  it('three overlapping questions: the server completes one, and sees two aborted', async () => {
    const { agent, ask, seen, ends } = await withFlow(client, (run) =>
      speech(run, [`for ${run.prompt}`], ...(run.prompt === 'c' ? [] : ['hang' as const])),
    );
    const first = ask('a', '1');
    await vi.waitFor(() => {
      expect(textOf(agent, '1')).toBe('for a');
    });
    const second = ask('b', '2');
    await vi.waitFor(() => {
      expect(server.runs).toHaveLength(2);
    });
    const third = ask('c', '3');
    await Promise.all([first, second, third]);
    await server.idle();
    expect(server.runs.map(({ end }) => end)).toEqual(['aborted', 'aborted', 'completed']);
    expect(ends()).toEqual(['superseded', 'superseded', 'finished']);
    expect(textOf(agent, '3')).toBe('for c');
    expect(agent.isRunning).toBe(false);
    const finished = seen.filter(({ type }) => type === 'RUN_FINISHED');
    expect(finished.map(({ runId }) => runId)).toEqual(['1', '2', '3']);
    expect(finished[0]?.['outcome']).toEqual({ type: 'cancelled' });
  });

  it('a question whose predecessor was left in the middle of everything ends all of it', async () => {
    const { ask, seen } = await withFlow(client, ({ runId, threadId, prompt }) =>
      prompt === 'last'
        ? speech({ runId, threadId }, ['x'])
        : [
            { type: 'RUN_STARTED', threadId, runId },
            { type: 'STEP_STARTED', stepName: 'tools' },
            { type: 'SUBAGENT_STARTED', subagentRunId: 's', name: 'helper' },
            { type: 'STEP_STARTED', stepName: 'tools', subagentRunId: 's' },
            { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant', subagentRunId: 's' },
            { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'half a', subagentRunId: 's' },
            { type: 'REASONING_START', messageId: 'th' },
            { type: 'REASONING_MESSAGE_START', messageId: 'th', role: 'reasoning' },
            { type: 'REASONING_MESSAGE_CONTENT', messageId: 'th', delta: 'hm' },
            { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'look' },
            { type: 'TOOL_CALL_ARGS', toolCallId: 'c', delta: '{"a' },
            { type: 'TEXT_MESSAGE_CHUNK', messageId: 'short', delta: 'in short' },
            'hang',
          ],
    );
    const first = ask('first', '1');
    await vi.waitFor(() => {
      expect(typesOf(seen)).toContain('TOOL_CALL_START');
    });
    await ask('last', '2');
    await first;
    const ofFirst = seen.slice(0, typesOf(seen).indexOf('RUN_FINISHED') + 1);
    const ends = ofFirst
      .slice(-9)
      .map(({ type, messageId, toolCallId, stepName, subagentRunId }) => [type, messageId ?? toolCallId ?? stepName, subagentRunId]);
    expect(ends).toEqual([
      ['TEXT_MESSAGE_END', 'short', undefined],
      ['TOOL_CALL_END', 'c', undefined],
      ['REASONING_MESSAGE_END', 'th', undefined],
      ['REASONING_END', 'th', undefined],
      ['TEXT_MESSAGE_END', 'm', 's'],
      ['STEP_FINISHED', 'tools', 's'],
      ['SUBAGENT_ERROR', undefined, 's'],
      ['STEP_FINISHED', 'tools', undefined],
      ['RUN_FINISHED', undefined, undefined],
    ]);
  });

  it('leaving reaches the server: by abortRun and by detaching', async () => {
    const left: AbandonedRun[] = [];
    const onSupersede = (run: AbandonedRun) => left.push(run);
    const { agent, ask, ends } = await withFlow(client, (run) => speech(run, ['x'], 'hang'), { onSupersede });
    const leave: readonly (() => Promise<void>)[] = [
      () => {
        agent.abortRun();
        return Promise.resolve();
      },
      () => agent.detachActiveRun(),
    ];
    for (const [index, go] of leave.entries()) {
      const runId = String(index);
      const run = ask('go', runId).catch(() => undefined);
      await vi.waitFor(() => {
        expect(textOf(agent, runId)).toBe('x');
      });
      await go();
      await run;
      await server.idle();
    }
    expect(server.runs.map(({ end }) => end)).toEqual(['aborted', 'aborted']);
    expect(ends()).toEqual(['cancelled', 'left']);
    expect(left.map(({ runId, reason }) => [runId, reason])).toEqual([
      ['0', 'cancelled'],
      ['1', 'left'],
    ]);
  });

  it('leaving by abortRun gives up the tools that work on after the server has ended', async () => {
    let signal: AbortSignal | undefined;
    const slow = defineTool({
      name: 'slow',
      description: 'slow',
      parameters: z.object({}),
      execute: (_args, context) => {
        ({ signal } = context);
        return new Promise(() => undefined);
      },
    });
    const ids = { threadId: 't', runId: '1' };
    const events = [
      { type: 'RUN_STARTED', ...ids },
      { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'slow' },
      { type: 'TOOL_CALL_END', toolCallId: 'c' },
      { type: 'RUN_FINISHED', ...ids },
    ];
    const body = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    const fetch = () => Promise.resolve(new Response(body));
    const { agent, ask, seen, ends } = await withFlow(client, () => 500, { fetch, tools: createToolRunner({ tools: [slow] }) });
    const ended = ask('go', '1');
    await vi.waitFor(() => {
      expect(signal).not.toBe(undefined);
    });
    // All of the answer is read.
    for (let i = 0; i < 5; i++) await settle();
    agent.abortRun();
    expect(signal?.aborted).toBe(true);
    await ended;
    expect(ends()).toEqual(['cancelled']);
    expect(seen.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'cancelled' } });
  });

  describe('a run that fails', () => {
    const failures: Readonly<
      Record<string, { agent: (run: Parameters<Agent>[0]) => ReturnType<Agent>; ends: string; error?: string; rejects?: RegExp }>
    > = {
      'a refusal': { agent: () => 503, ends: 'failed', rejects: /HTTP 503/ },
      'a cut socket': { agent: (run) => [...speech(run, ['half']).slice(0, 3), 'cut'], ends: 'failed', error: 'network' },
      'a socket cut inside of a frame': {
        agent: (run) => [...speech(run, ['half']).slice(0, 3), { raw: 'data: {"type":"TEXT_MESS' }, 'cut'],
        ends: 'failed',
        error: 'network',
      },
      'a stream that just ends': { agent: (run) => speech(run, ['half']).slice(0, 3), ends: 'failed', error: 'incomplete' },
      'a stream of nothing': { agent: () => [], ends: 'failed', error: 'incomplete' },
      'a RUN_ERROR': {
        agent: (run) => [...speech(run, ['half']).slice(0, 3), { type: 'RUN_ERROR', message: 'no', code: 'model' }],
        ends: 'failed',
        error: 'model',
      },
      'a malformed event': {
        agent: (run) => [...speech(run, ['half']).slice(0, 3), { raw: 'data: {"type":\n\n' }, 'hang'],
        ends: 'failed',
        rejects: /JSON/,
      },
      'a forbidden event': {
        agent: (run) => [...speech(run, ['half']).slice(0, 3), { type: 'TEXT_MESSAGE_END', messageId: 'other' }, 'hang'],
        ends: 'left',
        rejects: /No active text message/,
      },
      'an event after the end': {
        agent: (run) => [...speech(run, ['whole']), { type: 'CUSTOM', name: 'late', value: 1 }],
        ends: 'finished',
      },
    };

    it.each(Object.entries(failures))('%s: the next question works', async (_name, { agent: failing, ends: end, error, rejects }) => {
      vi.spyOn(console, 'error').mockReturnValue(undefined);
      const { ask, agent, seen, ends } = await withFlow(client, (run) => (run.prompt === 'fail' ? failing(run) : speech(run, ['fine'])));
      const failed = ask('fail', '1');
      if (rejects === undefined) await failed;
      else await expect(failed).rejects.toThrow(rejects);
      if (error !== undefined) expect(seen.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: error });
      await ask('again', '2');
      expect(textOf(agent, '2')).toBe('fine');
      expect(ends()).toEqual([end, 'finished']);
      await server.idle();
      expect(server.runs[0]?.end).not.toBe('running');
    });

    it('a signal that aborts with a reason of its own', async () => {
      const { agent, seen } = await withFlow(client, (run) => speech(run, ['x'], 'hang'));
      const abortController = new AbortController();
      const ended = agent.runAgent({ runId: '1', abortController }, { onEvent: ({ event }) => void seen.push(event) });
      await vi.waitFor(() => {
        expect(textOf(agent, '1')).toBe('x');
      });
      abortController.abort(new DOMException('too late', 'TimeoutError'));
      await ended;
      expect(seen.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'abort', message: 'TimeoutError: too late' });
      await server.idle();
      expect(server.runs[0]?.end).toBe('aborted');
    });

    it('a signal that aborts before the server has answered', async () => {
      const { agent, seen, ends } = await withFlow(client, () => ['hang'], {
        fetch: (_url, init) =>
          new Promise((_resolve, reject) => {
            init.signal?.addEventListener('abort', () => {
              reject(init.signal?.reason as Error);
            });
          }),
      });
      const abortController = new AbortController();
      const ended = agent.runAgent({ runId: '1', abortController }, { onEvent: ({ event }) => void seen.push(event) });
      await settle();
      abortController.abort(new DOMException('too late', 'TimeoutError'));
      await ended;
      expect(seen).toMatchObject([{ type: 'RUN_ERROR', code: 'abort', message: 'TimeoutError: too late' }]);
      expect(ends()).toEqual(['cancelled']);
    });

    it('a binary stream that is cut', async () => {
      const body = () =>
        new ReadableStream({
          pull: (to) => {
            to.enqueue(new Uint8Array([0, 0]));
            to.error(new TypeError('terminated'));
          },
        });
      const headers = { 'content-type': 'application/vnd.ag-ui.event+proto' };
      const { ask, seen, ends } = await withFlow(client, () => [], { fetch: () => Promise.resolve(new Response(body(), { headers })) });
      await ask('fail', '1');
      expect(seen).toMatchObject([{ type: 'RUN_ERROR', code: 'network' }]);
      expect(ends()).toEqual(['failed']);
    });

    it('a server that is not there', async () => {
      const { ask, seen } = await withFlow(client, () => 500);
      await server.close();
      await ask('fail', '1');
      expect(seen).toMatchObject([{ type: 'RUN_ERROR', code: 'network' }]);
    });
  });

  it(`a superseded run can end as an error, for ${version}`, async () => {
    const { ask, seen, agent } = await withFlow(client, (run) => speech(run, ['x'], ...(run.prompt === 'a' ? ['hang' as const] : [])), {
      cancelledAs: 'error',
    });
    const first = ask('a', '1');
    await vi.waitFor(() => {
      expect(textOf(agent, '1')).toBe('x');
    });
    await ask('b', '2');
    await first;
    expect(typesOf(seen).filter((type) => String(type).startsWith('RUN_'))).toEqual([
      'RUN_STARTED',
      'RUN_ERROR',
      'RUN_STARTED',
      'RUN_FINISHED',
    ]);
  });
});
