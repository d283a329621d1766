import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import type { ChatOptions } from '../model-server/index.mjs';
import { startModelServer } from '../model-server/index.mjs';

export interface Said {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** What writes the answers. */
export interface Model {
  readonly name: string;
  answer(conversation: readonly Said[], signal: AbortSignal): AsyncIterable<string>;
  close(): Promise<void>;
}

/** The chat model is installed by those who want it: `npm ci --prefix examples/model-server/chat`. */
export const hasChatModel = existsSync(new URL('../model-server/chat/node_modules/node-llama-cpp', import.meta.url));

const MS_PER_WORD = 40;

/** Stands in for a model: an answer of some eighty words, at the pace at which people read. */
export const scriptedModel: Model = {
  name: 'a script',
  async *answer(conversation, signal) {
    const { role, text } = conversation.at(-1) ?? { role: 'user', text: '' };
    const words = (role === 'tool' ? `It says: ${text}.` : `You asked: "${text}". ${SPEECH}`).split(' ');
    for (const [i, word] of words.entries()) {
      await sleep(MS_PER_WORD, undefined, { signal });
      yield i === 0 ? word : ` ${word}`;
    }
  },
  close: () => Promise.resolve(),
};

const SPEECH =
  `I am a script, and I say the same to everybody, a word every ${MS_PER_WORD} ms, so that there is time to interrupt me. Ask something
 else while I speak: my run is aborted at the server before the new one starts, and the log beside this text says after how many words. Press Stop, or close
 the page, and it says so too. Ask me for the time or to roll dice, and a tool in your browser answers.`.replaceAll('\n', '');

/** The chat model of the model server, which runs on this machine. */
export async function realModel(chat: true | ChatOptions = true): Promise<Model> {
  const server = await startModelServer({ workers: 1, chat });
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: 'none', maxRetries: 0 });
  const [name = ''] = (await client.models.list()).data.map(({ id }) => id).filter((id) => !id.includes('MiniLM'));
  return {
    name,
    async *answer(conversation, signal) {
      // It has a short memory: 2,048 tokens.
      const messages = conversation
        .slice(-6)
        .map(({ role, text }) =>
          role === 'tool' ? ({ role: 'user', content: `The tool says: ${text}. Tell me.` } as const) : { role, content: text },
        );
      const stream = await client.chat.completions.create({ model: name, messages, stream: true, max_completion_tokens: 200 }, { signal });
      for await (const { choices } of stream) yield choices[0]?.delta.content ?? '';
    },
    close: () => server.close(),
  };
}
