import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'sluice-exit-'));
const bundle = join(folder, 'sluice.mjs');

beforeAll(async () => {
  const contents = [
    ...['create-batcher', 'create-intake', 'create-limiter', 'rates'].map((name) => `export * from './operators/${name}.js';`),
    "export * from './src/pipelines/create-embedder.js';",
    "export { embeddings } from './src/index.js';",
    "export * from './src/pipelines/create-model-caller.js';",
    "export * from './src/pipelines/create-tool-runner.js';",
  ].join('\n');
  await build({
    stdin: { contents, resolveDir: project },
    outfile: bundle,
    bundle: true,
    format: 'esm',
    platform: 'node',
    logLevel: 'silent',
  });
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Handles as programs have them. A call takes no time, so whatever keeps the process alive is ours. */
const HANDLES = `
  const batcher = createBatcher(async (items) => items, { window: () => 600 });
  const limiter = createLimiter({ rates: [perMinute('requests', 300, { burst: 1 })], headroom: 1 });
  const intake = createIntake({ maxQueued: 1 });
  const fetch = async () => Response.json({ data: [{ index: 0, embedding: [1] }] });
  const embedder = createEmbedder({ call: embeddings({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch }), window: () => 600 });
  const echo = { name: 'echo', description: 'Echo.', parameters: { safeParse: (data) => ({ success: true, data }) }, execute: async (input) => input };
  const runner = createToolRunner({ tools: [echo] });
  const models = createModelCaller({ call: async (text) => text, timeoutMs: 60_000, deadlineMs: 60_000 });
  const say = (what) => () => console.log(what);
`;

/** Runs a program to its end; answers what it printed, and how long it lived after its last line had run. */
async function run(program: string): Promise<{ readonly said: string[]; readonly livedMs: number }> {
  const source = `
    import { createBatcher, createEmbedder, createIntake, createLimiter, createModelCaller, createToolRunner, embeddings, perMinute } from ${JSON.stringify(bundle)};
    ${HANDLES}
    ${program}
    const startedAt = performance.now();
    process.on('exit', () => console.log('lived ' + Math.round(performance.now() - startedAt)));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', source], { timeout: 20_000 });
  const lines = stdout.trim().split('\n');
  const last = lines.pop() ?? '';
  expect(last).toMatch(/^lived \d+$/);
  return { said: lines, livedMs: Number(last.slice('lived '.length)) };
}

describe('a process', () => {
  it.each([
    ['idle handles', ''],
    [
      'handles that listen to a signal',
      'for (const each of [batcher, limiter, intake, embedder, runner, models]) each.shutdownOn(new AbortController().signal, { timeoutMs: 60_000 });',
    ],
    ['a consumer of an intake without offers', 'void intake[Symbol.asyncIterator]().next().then(say("never"));'],
    [
      'a batch, a permit and an embedding that have settled',
      `
      void batcher.loadAsync('a');
      batcher.flush();
      void embedder.embedAsync('a', { lane: 'user' });
      limiter.tryAcquire().release();
      await models.callAsync('a', { lane: 'user' });
      await runner.runAllAsync([{ id: 'a', name: 'echo', input: 1 }]);
      await new Promise((resolve) => setTimeout(resolve, 50));`,
    ],
    [
      'handles that have drained with time to spare',
      `
      await Promise.all([batcher, limiter, intake, embedder, runner, models].map((each) => each.drain({ timeoutMs: 60_000 })));`,
    ],
    [
      'handles that were closed with work waiting',
      `
      void batcher.loadAsync('a').catch(() => undefined);
      void embedder.embedAsync('a').catch(() => undefined);
      limiter.tryAcquire().release();
      void limiter.acquireAsync().catch(() => undefined);
      for (const each of [batcher, limiter, intake, embedder, runner, models]) each.close();`,
    ],
  ])('with %s exits at once', async (_what, program) => {
    const { said, livedMs } = await run(program);
    expect(said).toEqual([]);
    expect(livedMs).toBeLessThan(500);
  });

  it.each([
    ['a batch that waits for its window', `void batcher.loadAsync('a').then(say('settled'));`],
    ['a text that waits for its window', `void embedder.embedAsync('a').then(say('settled'));`],
    [
      'a call that waits for its permit',
      `
      limiter.tryAcquire().release();
      void limiter.runAsync(async () => 1).then(say('settled'));`,
    ],
    [
      'a drain whose time runs',
      `
      limiter.tryAcquire();
      void limiter.drain({ timeoutMs: 150 }).then(say('settled'));`,
    ],
  ])('with %s does not exit before it has settled', async (_what, program) => {
    const { said, livedMs } = await run(program);
    expect(said).toEqual(['settled']);
    expect(livedMs).toBeGreaterThan(100);
  });
});
