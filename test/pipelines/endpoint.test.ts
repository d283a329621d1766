import { describe, expect, it } from 'vitest';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { embeddings } from '../../src/pipelines/embeddings-api.js';

const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'hi' } }], data: [{ index: 0, embedding: [1] }] };

/** What is asked for at an address. */
async function asked(name: 'chat' | 'embeddings', baseUrl: string): Promise<string> {
  let url = '';
  const options = {
    baseUrl,
    model: 'm',
    fetch: ((to: string) => {
      url = to;
      return Promise.resolve(Response.json(answer));
    }) as typeof fetch,
  };
  if (name === 'chat') {
    const models = createModelCaller({ call: chatCompletions(options) });
    await models.callAsync({ messages: [] });
    models.close();
  } else {
    const embedder = createEmbedder({ call: embeddings(options) });
    await embedder.embedAsync('text');
    embedder.close();
  }
  return url;
}

const hosts = ['https://host', 'http://127.0.0.1:8787'];
const paths = ['', '/', '/v1', '/v1/', '/openai/deployments/a%20b//'];
const queries = ['', '?api-version=2024-10-21', '?a=1/2&b=%2F'];
const addresses = hosts.flatMap((host) => paths.flatMap((path) => queries.map((query) => [host, path, query] as const)));

describe('the address of a request', () => {
  it.each(addresses)('%s%s%s has the path at its end, and the query behind it', async (host, path, query) => {
    const base = `${host}${path}`.replace(/\/+$/, '');
    expect(await asked('chat', `${host}${path}${query}`)).toBe(`${base}/chat/completions${query}`);
    expect(await asked('embeddings', `${host}${path}${query}`)).toBe(`${base}/embeddings${query}`);
  });

  it.each(['https://me:planted@host/v1', 'https://planted@host', 'host/v1?key=planted', 'me:planted@host', '//host?planted'])(
    'with a user, a password or a key in it is refused, and not quoted: %s',
    (baseUrl) => {
      for (const make of [
        () => createModelCaller({ call: chatCompletions({ baseUrl, model: 'm' }) }),
        () => createEmbedder({ call: embeddings({ baseUrl, model: 'm' }) }),
      ]) {
        expect(make).toThrow('expected `baseUrl` to be an http(s) URL such as `https://host/v1`');
        expect(make).not.toThrow('planted');
      }
    },
  );
});
