import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';

/** What a run says. Each field can be given in the query of a request too: `/ag-ui?chunks=2000&everyMs=2`. */
export interface Script {
  /** Pieces of text. @defaultValue 20 */
  readonly chunks?: number;
  /** Time from one piece to the next, in ms; 0 sends all at once. @defaultValue 0 */
  readonly everyMs?: number;
  /** Tool calls after the text, their arguments in ten pieces each. @defaultValue 0 */
  readonly tools?: number;
  /** The run fails after so many pieces, as its protocol says it. @defaultValue never */
  readonly failAt?: number;
  /** The socket is cut after so many pieces. @defaultValue never */
  readonly cutAt?: number;
}

export interface Run {
  readonly route: Route;
  /** What the protocol calls the run; a number where it has no name. */
  readonly id: string;
  /** The last thing the user said. */
  readonly prompt: string;
  end: 'running' | 'completed' | 'aborted' | 'failed' | 'cut';
  /** Pieces of text that were sent. */
  sent: number;
}

export interface AgentServer {
  readonly url: string;
  /** All runs so far, in the order of their requests. */
  readonly runs: readonly Run[];
  /** What the runs from now on say. */
  say(script: Script): void;
  /** How many runs ended in which way, of those that `which` lets through. */
  ends(which?: (run: Run) => boolean): Partial<Record<Run['end'], number>>;
  close(): Promise<void>;
}

type Route = keyof typeof protocols;
type Settings = Required<Script>;

/** The frames of a protocol around and for the pieces of text. */
interface Protocol {
  readonly headers?: Readonly<Record<string, string>>;
  begin(run: RunInput): readonly object[];
  piece(text: string, run: RunInput): object;
  /** Behind the last piece. */
  endOfText(run: RunInput): readonly object[];
  tool(index: number, run: RunInput): readonly object[];
  end(run: RunInput): readonly (object | '[DONE]')[];
  failure(run: RunInput): readonly object[];
}

interface RunInput {
  readonly runId: string;
  readonly threadId: string;
  readonly messageId: string;
}

const args = (index: number): readonly string[] =>
  Array.from({ length: 10 }, (_, i) => (i === 0 ? `{"n":"${index}` : i === 9 ? '"}' : '0'));

const agUi: Protocol = {
  begin: ({ runId, threadId, messageId }) => [
    { type: 'RUN_STARTED', threadId, runId },
    { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' },
  ],
  piece: (delta, { messageId }) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta }),
  endOfText: ({ messageId }) => [{ type: 'TEXT_MESSAGE_END', messageId }],
  tool: (index, { messageId, runId }) => {
    const toolCallId = `${runId}-call-${index}`;
    return [
      { type: 'TOOL_CALL_START', toolCallId, toolCallName: `tool${index}`, parentMessageId: messageId },
      ...args(index).map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId, delta })),
      { type: 'TOOL_CALL_END', toolCallId },
    ];
  },
  end: ({ runId, threadId }) => [{ type: 'RUN_FINISHED', threadId, runId }],
  failure: ({ runId, threadId }) => [{ type: 'RUN_ERROR', threadId, runId, message: 'the model gave up', code: 'model' }],
};

const aiSdk: Protocol = {
  headers: { 'x-vercel-ai-ui-message-stream': 'v1' },
  begin: ({ messageId }) => [{ type: 'start', messageId }, { type: 'start-step' }, { type: 'text-start', id: messageId }],
  piece: (delta, { messageId }) => ({ type: 'text-delta', id: messageId, delta }),
  endOfText: ({ messageId }) => [{ type: 'text-end', id: messageId }],
  tool: (index, { runId }) => {
    const toolCallId = `${runId}-call-${index}`;
    return [
      { type: 'tool-input-start', toolCallId, toolName: `tool${index}` },
      ...args(index).map((inputTextDelta) => ({ type: 'tool-input-delta', toolCallId, inputTextDelta })),
      { type: 'tool-input-available', toolCallId, toolName: `tool${index}`, input: JSON.parse(args(index).join('')) as object },
    ];
  },
  end: () => [{ type: 'finish-step' }, { type: 'finish' }, '[DONE]'],
  failure: () => [{ type: 'error', errorText: 'the model gave up' }],
};

const chat: Protocol = {
  begin: () => [{ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] }],
  piece: (content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
  endOfText: () => [],
  tool: (index, { runId }) =>
    args(index).map((piece, i) => ({
      choices: [
        {
          index: 0,
          delta: {
            tool_calls: [
              i === 0
                ? { index, id: `${runId}-call-${index}`, type: 'function', function: { name: `tool${index}`, arguments: piece } }
                : { index, function: { arguments: piece } },
            ],
          },
          finish_reason: null,
        },
      ],
    })),
  end: () => [{ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }, '[DONE]'],
  failure: () => [{ error: { message: 'the model gave up', type: 'server_error', code: 'model' } }],
};

const protocols = { 'ag-ui': agUi, 'ai-sdk': aiSdk, chat } as const;

const defaults: Settings = { chunks: 20, everyMs: 0, tools: 0, failAt: Infinity, cutAt: Infinity };

/**
 * Streams made-up answers from 127.0.0.1 as AG-UI (`POST /ag-ui`), as messages of the AI SDK (`/ai-sdk`) and as chat completions
 * (`/chat`), and writes down how each run ended: a client that leaves is a run that was aborted.
 */
export async function startAgentServer(script: Script = {}): Promise<AgentServer> {
  const runs: Run[] = [];
  let said = script;
  const server = createServer((request, response) => {
    void answer(request, response, said, runs);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    runs,
    say: (next) => {
      said = next;
    },
    ends: (which = () => true) => {
      const counts: Partial<Record<Run['end'], number>> = {};
      for (const { end } of runs.filter(which)) counts[end] = (counts[end] ?? 0) + 1;
      return counts;
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

const anyOrigin = { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*', 'access-control-max-age': '600' };

async function answer(request: IncomingMessage, response: ServerResponse, script: Script, runs: Run[]): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const route = pathname.slice(1);
  if (request.method !== 'POST' || !isRoute(route)) {
    const isPreflight = request.method === 'OPTIONS';
    response.writeHead(isPreflight ? 204 : 404, anyOrigin).end();
    return;
  }
  const given = Object.fromEntries([...searchParams].map(([name, value]) => [name, Number(value)]));
  const body = JSON.parse(await readText(request)) as Body;
  const number = String(runs.length + 1);
  const input = { runId: body.runId ?? number, threadId: body.threadId ?? 'thread', messageId: `message-${number}` };
  const run: Run = { route, id: input.runId, prompt: promptOf(body), end: 'running', sent: 0 };
  runs.push(run);
  const protocol: Protocol = protocols[route];
  response.writeHead(200, { ...anyOrigin, ...protocol.headers, 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  play(protocol, { ...defaults, ...script, ...given }, input, run, response);
}

function isRoute(name: string): name is Route {
  return Object.hasOwn(protocols, name);
}

/** Sends as many pieces as are due, again and again: the rate holds however late a timer is. */
function play(protocol: Protocol, settings: Settings, input: RunInput, run: Run, response: ServerResponse): void {
  const { chunks, everyMs, tools, failAt, cutAt } = settings;
  const begun = performance.now();
  const send = (...frames: readonly (object | '[DONE]')[]): void => {
    response.write(frames.map((frame) => `data: ${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n\n`).join(''));
  };
  const over = (end: Run['end']): void => {
    run.end = end;
    clearTimeout(timer);
  };
  const go = (): void => {
    const due = everyMs === 0 ? chunks : Math.floor((performance.now() - begun) / everyMs);
    const until = Math.min(due, chunks, failAt, cutAt);
    const pieces = Array.from({ length: Math.max(0, until - run.sent) }, (_, i) => protocol.piece(`w${run.sent + i} `, input));
    if (pieces.length > 0) send(...pieces);
    run.sent += pieces.length;
    if (run.sent >= cutAt) {
      over('cut');
      response.destroy();
    } else if (run.sent >= failAt) {
      over('failed');
      send(...protocol.failure(input));
      response.end();
    } else if (run.sent >= chunks) {
      over('completed');
      const calls = Array.from({ length: tools }, (_, index) => protocol.tool(index, input)).flat();
      send(...protocol.endOfText(input), ...calls, ...protocol.end(input));
      response.end();
    } else {
      timer = setTimeout(go, Math.max(1, everyMs));
    }
  };
  let timer: NodeJS.Timeout | undefined;
  response.on('close', () => {
    if (run.end === 'running') over('aborted');
  });
  send(...protocol.begin(input));
  go();
}

/** What is read of a request of any of the protocols. */
interface Body {
  readonly runId?: string;
  readonly threadId?: string;
  readonly messages?: readonly {
    readonly role: string;
    readonly content?: unknown;
    readonly parts?: readonly { readonly text?: string }[];
  }[];
}

function promptOf({ messages = [] }: Body): string {
  const last = messages.findLast(({ role }) => role === 'user');
  if (last === undefined) return '';
  return typeof last.content === 'string' ? last.content : (last.parts ?? []).map(({ text = '' }) => text).join('');
}
