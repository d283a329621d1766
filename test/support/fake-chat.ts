import { setImmediate } from 'node:timers/promises';
import type { ChatAnswer, ChatJob, ChatRuntime } from '../../examples/model-server/index.mjs';

export const CHAT_MODEL = 'tinyllama-1.1b-chat';

/** Stands in for the model and nothing else: a token is a word, `prompt` the contents of all messages. */
export interface FakeRuntime extends ChatRuntime {
  readonly started: { readonly prompt: string; readonly job: ChatJob }[];
  running: number;
  mostRunning: number;
  closed: boolean;
}

export function fakeRuntime(generate: (prompt: string, job: ChatJob) => Promise<ChatAnswer> = echo): FakeRuntime {
  const vocabulary: string[] = [];
  const runtime: FakeRuntime = {
    model: CHAT_MODEL,
    owner: 'test',
    name: 'fake',
    contextTokens: 50,
    started: [],
    running: 0,
    mostRunning: 0,
    closed: false,
    encode: (messages) => messages.flatMap(({ content }) => content.split(' ').map((word) => vocabulary.push(word) - 1)),
    generate: async (tokens, job) => {
      const prompt = tokens.map((token) => vocabulary[token]).join(' ');
      runtime.started.push({ prompt, job });
      runtime.mostRunning = Math.max(runtime.mostRunning, ++runtime.running);
      try {
        return await generate(prompt, job);
      } finally {
        runtime.running--;
      }
    },
    close: () => {
      runtime.closed = true;
      return Promise.resolve();
    },
  };
  return runtime;
}

/** Says the prompt again, a word at a time. */
async function echo(prompt: string, { maxTokens, onText }: ChatJob): Promise<ChatAnswer> {
  const words = prompt.split(' ');
  const said = words.slice(0, maxTokens);
  for (const [index, word] of said.entries()) {
    onText(index === 0 ? word : ` ${word}`);
    await setImmediate();
  }
  return { tokens: said.length, finishReason: said.length < words.length ? 'length' : 'stop' };
}

/** Says one word, and no more until the client leaves. */
export function hang(_prompt: string, { onText, signal }: ChatJob): Promise<ChatAnswer> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
    onText('first');
  });
}

/** The prompt decides: `hang` and `break` do what they say, others come back. */
export async function moody(prompt: string, job: ChatJob): Promise<ChatAnswer> {
  if (prompt === 'hang') return hang(prompt, job);
  if (prompt === 'break late') job.onText('first');
  if (prompt.startsWith('break')) throw new Error(`broken at ${prompt}`);
  return echo(prompt, job);
}
