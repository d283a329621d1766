import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

/** One thing an agent does: an event, bytes as they are, a pause, a cut socket, or waiting until its caller leaves. */
export type Step = { readonly type: string; readonly [field: string]: unknown } | { readonly raw: string } | number | 'cut' | 'hang';

export interface AgentRun {
  readonly threadId: string;
  readonly runId: string;
  /** The last thing the user said. */
  readonly prompt: string;
  /** As it was sent. */
  readonly input: Readonly<Record<string, unknown>>;
  end: 'running' | 'completed' | 'aborted' | 'cut' | 'refused';
}

/** What an agent says to one request: a status other than 200, or its steps. */
export type Agent = (run: AgentRun) => number | readonly Step[];

export interface AguiServer {
  readonly url: string;
  /** In the order of their requests. */
  readonly runs: readonly AgentRun[];
  /** What was posted to `/stop`. */
  readonly stopped: readonly unknown[];
  /** Resolves when no run goes on. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** An agent behind HTTP on 127.0.0.1, which streams AG-UI's events and fails where it is told to. */
export async function startAguiServer(agent: Agent): Promise<AguiServer> {
  const runs: AgentRun[] = [];
  const stopped: unknown[] = [];
  const server = createServer((request, response) => {
    void answer(request, response);
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const input = JSON.parse(await readText(request)) as AgentRun['input'];
    if (request.url === '/stop') {
      stopped.push(input);
      response.end('{}');
      return;
    }
    const { threadId, runId, messages } = input as { threadId: string; runId: string; messages: readonly { readonly content: string }[] };
    const run: AgentRun = { threadId, runId, prompt: messages.at(-1)?.content ?? '', input, end: 'running' };
    runs.push(run);
    const left = new AbortController();
    response.on('close', () => {
      if (run.end === 'running') run.end = 'aborted';
      left.abort();
    });
    const steps = agent(run);
    if (typeof steps === 'number') {
      run.end = 'refused';
      response.writeHead(steps, { 'content-type': 'application/json' }).end('{"error":"no"}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.flushHeaders();
    await play(steps, run, response, left.signal);
  }

  async function play(steps: readonly Step[], run: AgentRun, response: ServerResponse, left: AbortSignal): Promise<void> {
    for (const step of steps) {
      if (left.aborted) return;
      if (step === 'hang') {
        await new Promise((resolve) => {
          left.addEventListener('abort', resolve);
        });
      } else if (step === 'cut') {
        // What was written before is to arrive.
        await sleep(20);
        run.end = 'cut';
        response.destroy();
        return;
      } else if (typeof step === 'number') {
        await sleep(step, undefined, { signal: left }).catch(() => undefined);
      } else {
        response.write('raw' in step ? (step.raw as string) : `data: ${JSON.stringify(step)}\n\n`);
      }
    }
    if (left.aborted) return;
    run.end = 'completed';
    response.end();
  }

  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    runs,
    stopped,
    async idle() {
      while (runs.some(({ end }) => end === 'running')) await sleep(5);
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}

/** A run that says the pieces in one message and finishes; `more` comes before its end. */
export function speech(
  { threadId, runId }: Pick<AgentRun, 'threadId' | 'runId'>,
  pieces: readonly string[],
  ...more: readonly Step[]
): Step[] {
  const messageId = `${runId}:text`;
  return [
    { type: 'RUN_STARTED', threadId, runId },
    { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' },
    ...pieces.map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta })),
    ...more,
    { type: 'TEXT_MESSAGE_END', messageId },
    { type: 'RUN_FINISHED', threadId, runId },
  ];
}
