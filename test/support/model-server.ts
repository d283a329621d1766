import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { onTestFinished } from 'vitest';
import type { ModelServer, ModelServerOptions } from '../../examples/model-server/index.mjs';
import { startModelServer } from '../../examples/model-server/index.mjs';

export const EXAMPLE = fileURLToPath(new URL('../../examples/model-server/', import.meta.url));

/** The chat model is installed by those who want it; most machines do without. */
export const hasChatModel = existsSync(`${EXAMPLE}chat/node_modules/node-llama-cpp`);

/** For `cp`: the example without what was installed into it. */
export function isOwnFile(path: string): boolean {
  return !path.endsWith('node_modules');
}

/** A server for one test, closed at its end. */
export async function serverFor(options: ModelServerOptions): Promise<ModelServer> {
  const server = await startModelServer({ workers: 1, ...options });
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
