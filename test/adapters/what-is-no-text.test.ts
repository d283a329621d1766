import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany } from 'ai';
import { describe, expect, it } from 'vitest';
import { embedSettled, limitEmbeddingModel } from '../../src/adapters/ai-sdk.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

let sent: unknown[] = [];
const vectorsOf = (texts: readonly string[]): number[][] => {
  sent.push(...texts);
  return texts.map((text) => [text.length]);
};
const fetch = (async (_url: unknown, { body }: { body: string }) => {
  const { input } = JSON.parse(body) as { input: string[] };
  return Response.json({ data: vectorsOf(input).map((embedding) => ({ embedding })) });
}) as never;
const model = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch }).embeddingModel('m');
const wrapped = limitEmbeddingModel(model);
const flow = limitEmbeddings({
  embedDocuments: async (texts) => vectorsOf(texts),
  embedQuery: async (text) => vectorsOf([text])[0] as number[],
});

const config = { name: 'FlowConfigError', code: 'FLOW_CONFIG_INVALID' };
const NO_TEXTS: readonly unknown[] = [undefined, null, 0, 5, true, {}, ['a'], new Map(), () => 'a', new String('a')];
const NO_LISTS: readonly unknown[] = [undefined, null, 0, 5, true, {}, new Set(['a']), () => ['a'], 'a secret text'];

describe.each(NO_TEXTS.map((given) => ({ given })))('$given in the place of a text', ({ given }) => {
  expectNoUnhandledRejections();

  it.each([
    ['limitEmbeddings.embedQuery', () => flow.embedQuery(given as string), 'limitEmbeddings: expected `text` to be a string, got '],
    [
      'limitEmbeddings.embedDocuments',
      () => flow.embedDocuments(['a', given as string]),
      'limitEmbeddings: expected `texts[1]` to be a string, got ',
    ],
    [
      'limitEmbeddingModel',
      () => embedMany({ model: wrapped, values: ['a', given as string], maxRetries: 0 }),
      'limitEmbeddingModel: expected `values[1]` to be a string, got ',
    ],
  ])('is refused by %s, and nothing is sent', async (_, ask, message) => {
    sent = [];
    await expect(ask()).rejects.toMatchObject({ ...config, message: expect.stringContaining(message) as string });
    expect(sent).toEqual([]);
  });

  it.each([
    ['limitEmbeddings.embedSettled', (values: string[]) => flow.embedSettled(values), 'texts'],
    ['embedSettled', (values: string[]) => embedSettled({ model, values }), 'values'],
  ])('is rejected by %s, and every other text gets its vector', async (_, settle, option) => {
    sent = [];
    const [first, second, third] = await settle(['a', given as string, 'abc']);
    expect(first).toMatchObject({ status: 'fulfilled', value: [1], input: 'a', index: 0, id: '0' });
    expect(second).toMatchObject({ status: 'rejected', input: given, index: 1, id: '1', attempts: 0 });
    expect((second as PromiseRejectedResult).reason).toMatchObject({
      ...config,
      message: expect.stringContaining(`expected \`${option}[1]\` to be a string, got `) as string,
    });
    expect(third).toMatchObject({ status: 'fulfilled', value: [3], input: 'abc', index: 2, id: '2' });
    expect(sent).toEqual(['a', 'abc']);
  });
});

describe.each(NO_LISTS.map((given) => ({ given })))('$given in the place of a list', ({ given }) => {
  it.each([
    ['limitEmbeddings.embedDocuments', async () => flow.embedDocuments(given as string[])],
    ['limitEmbeddings.embedSettled', async () => flow.embedSettled(given as string[])],
    ['embedSettled', async () => embedSettled({ model, values: given as string[] })],
  ])('is refused by %s, and not quoted', async (_, ask) => {
    const error = (await ask().then(
      () => undefined,
      (thrown: unknown) => thrown,
    )) as Error;
    expect(error).toMatchObject(config);
    expect(error.message).toMatch(/expected `(texts|values)` to be an array of strings, got /);
    expect(error.message).not.toContain('secret');
  });
});
