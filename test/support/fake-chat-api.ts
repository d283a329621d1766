import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What to answer instead of a text: an HTTP error, or `cut` to close the connection without one. */
export type ChatFault = 'cut' | { readonly status: number; readonly message: string };

/** One message of a request. */
export interface ChatTurn {
  readonly role: string;
  readonly content: string;
}

export interface FakeChatOptions {
  /** Refuses every other key with 401. @defaultValue any key or none will do */
  readonly apiKey?: string;
  /** Refuses every other model with 404. @defaultValue any model will do */
  readonly model?: string;
  /** What is said to a prompt, the last of the messages. @defaultValue the prompt in capitals */
  readonly answer?: (prompt: string, messages: readonly ChatTurn[]) => string;
  /** The whole body of an answer with status 200, and its type; asked as `choice` is. @defaultValue none */
  readonly body?: (prompt: string, times: number) => { readonly type: string; readonly text: string } | undefined;
  /** The first choice of an answer, asked with how often its prompt has come; undefined for a text that ends by itself. @defaultValue none */
  readonly choice?: (prompt: string, times: number) => object | undefined;
  /** What an answer says it took. @defaultValue the tokens of prompt and answer */
  readonly usage?: (prompt: string) => unknown;
  /** Time an answer takes. @defaultValue 0 */
  readonly delayMs?: number | (() => number);
  /** Nothing is answered before it resolves. @defaultValue at once */
  readonly until?: Promise<void>;
  /** Asked for every call with how often its prompt has come; undefined lets it pass. @defaultValue none */
  readonly fault?: (prompt: string, times: number) => ChatFault | undefined;
}

export interface FakeChat {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  readonly port: number;
  /** How often each prompt was sent, and answered with a success. */
  readonly sent: ReadonlyMap<string, number>;
  readonly answered: ReadonlyMap<string, number>;
  /** Calls that are open. */
  readonly open: number;
  readonly calls: number;
  readonly maxOpen: number;
  close(): Promise<void>;
}

/** An OpenAI-compatible chat server for tests, on 127.0.0.1. Four characters are a token. */
export async function startFakeChat(options: FakeChatOptions = {}, port = 0): Promise<FakeChat> {
  const sent = new Map<string, number>();
  const answered = new Map<string, number>();
  const counts = { open: 0, calls: 0, maxOpen: 0 };
  const { answer = (prompt) => prompt.toUpperCase(), delayMs = 0 } = options;

  const server = createServer((request, response) => {
    const send = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    const refuse = (status: number, message: string): void => {
      send(status, { error: { message, type: 'fake_error' } });
    };
    const chat = async (): Promise<void> => {
      const body = JSON.parse(await textOf(request)) as {
        readonly model: string;
        readonly messages: readonly ChatTurn[];
      };
      const prompt = body.messages.at(-1)?.content ?? '';
      const times = (sent.get(prompt) ?? 0) + 1;
      sent.set(prompt, times);
      counts.calls += 1;
      if (options.apiKey !== undefined && request.headers.authorization !== `Bearer ${options.apiKey}`) {
        refuse(401, 'Incorrect API key provided');
        return;
      }
      if (options.model !== undefined && body.model !== options.model) {
        refuse(404, `The model \`${body.model}\` does not exist`);
        return;
      }
      await options.until;
      const ms = typeof delayMs === 'number' ? delayMs : delayMs();
      if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
      const fault = options.fault?.(prompt, times);
      if (fault === 'cut') request.socket.destroy();
      else if (fault !== undefined) refuse(fault.status, fault.message);
      else if (options.body?.(prompt, times) !== undefined) {
        const { type, text } = options.body(prompt, times) as { readonly type: string; readonly text: string };
        response.writeHead(200, { 'content-type': type }).end(text);
      } else {
        const content = answer(prompt, body.messages);
        answered.set(prompt, (answered.get(prompt) ?? 0) + 1);
        const counted = { prompt_tokens: Math.ceil(prompt.length / 4), completion_tokens: Math.ceil(content.length / 4) };
        const usage = options.usage === undefined ? counted : options.usage(prompt);
        const choice = options.choice?.(prompt, times) ?? { message: { role: 'assistant', content }, finish_reason: 'stop' };
        send(200, { choices: [{ index: 0, ...choice }], usage });
      }
    };
    counts.open += 1;
    counts.maxOpen = Math.max(counts.maxOpen, counts.open);
    response.on('close', () => (counts.open -= 1));
    if (request.method !== 'POST' || request.url !== '/v1/chat/completions') refuse(404, `no route ${String(request.url)}`);
    else chat().catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const bound = (server.address() as AddressInfo).port;
  return {
    baseUrl: `http://127.0.0.1:${String(bound)}/v1`,
    port: bound,
    sent,
    answered,
    get open() {
      return counts.open;
    },
    get calls() {
      return counts.calls;
    },
    get maxOpen() {
      return counts.maxOpen;
    },
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) =>
        server.close(() => {
          resolve();
        }),
      );
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}
