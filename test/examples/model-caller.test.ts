import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { lastValueFrom, reduce } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { MissingParamsError, startModels } from '../../examples/model-caller/properties.js';
import type { LogFields } from '../../src/metrics/log-fields.js';

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface Body {
  readonly messages: readonly { readonly content: string }[];
  readonly stream: boolean;
}

/** A model that answers JSON, and fails the first time it is asked about `flaky`. */
async function program(afterMs = 5) {
  const asked: string[] = [];
  const reply = (response: ServerResponse, { messages, stream }: Body): void => {
    const content = messages[0]?.content ?? '';
    asked.push(content);
    const isFirst = asked.filter((other) => other === content).length === 1;
    if (content.includes('flaky') && isFirst) {
      response.writeHead(503).end('busy');
      return;
    }
    if (stream) {
      const parts = ['Because ', 'of limits.'].map(
        (text) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`,
      );
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`${parts.join('')}data: [DONE]\n\n`);
      return;
    }
    const answer = content.includes('useless') ? '{}' : content.includes('operator') ? '{"ids":[1]}' : '{"start":1,"end":2}';
    const body = {
      choices: [{ index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 40, completion_tokens: 8 },
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (part: Buffer) => (text += part.toString()));
    request.on('end', () => setTimeout(reply, afterMs, response, JSON.parse(text) as Body));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const log: LogFields[] = [];
  const models = startModels(`http://127.0.0.1:${port}/v1`, (line) => log.push(line));
  open.push(
    () => new Promise((done) => server.close(done)),
    () => models.stop(),
  );
  return { models, log, asked };
}

describe('parameters for several properties', () => {
  it('come all at once, with a line in the log for each attempt', async () => {
    const { models, log } = await program();
    const params = await models.generateParams({
      approved_drug_count: { type: 'metric', question: 'how many drugs last year' },
      similar_drugs: { type: 'operator', question: 'flaky: which are alike' },
    });
    expect(params).toEqual({ approved_drug_count: { start: 1, end: 2 }, similar_drugs: { ids: [1] } });
    expect(log.map(({ property, attempt, status, error_code }) => [property, attempt, status, error_code]).sort()).toEqual([
      ['approved_drug_count', 1, 'success', null],
      ['similar_drugs', 1, 'error', 'HTTP_503'],
      ['similar_drugs', 2, 'success', null],
    ]);
    expect(new Set(log.map(({ trace_id }) => trace_id)).size).toBe(1);
    expect(log.every((line) => line['llm_model'] === 'small' && line['lane'] === 'user')).toBe(true);
    const { calls } = models.metrics();
    expect(calls).toMatchObject({ attempts: 3, retries: 1, failures: 1, promptTokens: 80, completionTokens: 16 });
  });

  it('fail as a whole when something is left out, without asking again', async () => {
    const { models, asked } = await program();
    const params = models.generateParams({ good: { type: 'metric', question: 'fine' }, bad: { type: 'metric', question: 'useless' } });
    await expect(params).rejects.toBeInstanceOf(MissingParamsError);
    expect(asked.length).toBe(2);
  });

  it('go before a report in the background', async () => {
    const { models, log } = await program();
    const report = Promise.all(Array.from({ length: 40 }, (_, i) => models.summarize(`chapter ${i}`)));
    await models.generateParams({ one: { type: 'metric', question: 'urgent' } });
    expect(log.findIndex(({ property }) => property === 'one')).toBeLessThan(12);
    expect((await report).length).toBe(40);
    expect(models.metrics()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('stop with the request they belong to', async () => {
    const { models, log } = await program(200);
    const leave = new AbortController();
    const params = models.generateParams({ one: { type: 'metric', question: 'slow' } }, leave.signal);
    setTimeout(() => {
      leave.abort();
    }, 20);
    await expect(params).rejects.toMatchObject({ name: 'AbortError' });
    expect(log.map(({ status }) => status)).toEqual(['cancelled']);
  });

  it('may be explained as it is written', async () => {
    const { models } = await program();
    const text = await lastValueFrom(models.explain('why').pipe(reduce((all, { choices }) => all + (choices[0]?.delta.content ?? ''), '')));
    expect(text).toBe('Because of limits.');
  });
});
