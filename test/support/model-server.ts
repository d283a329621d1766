import { EventEmitter } from 'node:events';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { onTestFinished } from 'vitest';
import type { EmbeddingsEngine, InferenceThread, ModelServer, ModelServerOptions } from '../../examples/model-server/index.mjs';
import { startModelServer } from '../../examples/model-server/index.mjs';

export const EXAMPLE = fileURLToPath(new URL('../../examples/model-server/', import.meta.url));

/** The chat model is optional; most machines do without. */
export const hasChatModel = existsSync(`${EXAMPLE}chat/node_modules/node-llama-cpp`);

/** For `cp`: the example without what was installed into it. */
export function isOwnFile(path: string): boolean {
  return !path.endsWith('node_modules');
}

/** Stands in for the model and nothing else: a token is a word, and one at either end; the vectors tell texts apart. */
export const fakeEngine: EmbeddingsEngine = {
  name: 'fake',
  encode: (text) => [1, ...(text.match(/\S+/g) ?? []).map((word) => word.length), 2],
  startThread: () => new FakeThread(),
};

class FakeThread extends EventEmitter implements InferenceThread {
  constructor() {
    super();
    setImmediate(() => this.emit('message', { ready: true }));
  }

  postMessage({ tokenIds, crash }: Parameters<InferenceThread['postMessage']>[0]): void {
    if (crash) setImmediate(() => this.emit('exit', 1));
    else this.work(() => this.emit('message', { vector: new Float32Array(384).fill(tokenIds.length) }));
  }

  /** Does the work of a text, sooner or later. */
  protected work(done: () => void): void {
    setImmediate(done);
  }

  terminate(): Promise<void> {
    return Promise.resolve();
  }
}

/** Threads that work on a text for as long as they are told. */
export function heldEngine(): { readonly engine: EmbeddingsEngine; step(): void } {
  const open: (() => void)[] = [];
  class HeldThread extends FakeThread {
    protected override work(done: () => void): void {
      open.push(done);
    }
  }
  return { engine: { ...fakeEngine, startThread: () => new HeldThread() }, step: () => open.shift()?.() };
}

/** A server for one test, closed at its end; without the real model, if nothing else is said. */
export async function serverFor(options: ModelServerOptions): Promise<ModelServer> {
  const server = await startModelServer({ workers: 1, engine: fakeEngine, ...options });
  onTestFinished(() => server.close());
  return server;
}

export function clientOf(server: ModelServer, apiKey = 'any'): OpenAI {
  return new OpenAI({ baseURL: server.baseUrl, apiKey, maxRetries: 0 });
}

export async function refusal(answer: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await answer.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof OpenAI.APIError)) throw new Error('expected the request to be refused', { cause: error });
  return error;
}
