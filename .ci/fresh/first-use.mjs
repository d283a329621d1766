// From nothing to limited calls, with the files of examples/first-use as they stand, the SDKs' own settings and a model API on this machine.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transform } from 'esbuild';
import { tsImport } from 'tsx/esm/api';
import { project } from '../consumer.mjs';

const { startModelApi } = await tsImport('../../test/fakes/model-api.ts', import.meta.url);

const MOST_LINES = 8;
const folder = join(project, 'examples', 'first-use');

export const examples = readdirSync(folder)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ file, code: readFileSync(join(folder, file), 'utf8') }));

/** Short, limited, with lanes, and stopped by its spend cap before a request. */
export async function checkFirstUse(consumer, { file, code }) {
  const lines = code.split('\n').filter((line) => !/^\s*(\/\/.*)?$/.test(line)).length;
  assert.ok(lines <= MOST_LINES, `examples/first-use/${file} has ${lines} lines, more than ${MOST_LINES}`);
  const cwd = join(consumer, `first-use-${file}`);
  mkdirSync(cwd);
  const api = await startModelApi({ latencyMs: 50 });
  const env = { ...process.env, OPENAI_BASE_URL: api.baseUrl, ANTHROPIC_BASE_URL: file === 'ai-sdk.ts' ? api.baseUrl : api.url };
  try {
    const start = (name, text) => runProgram(cwd, name, text, { ...env, OPENAI_API_KEY: 'any', ANTHROPIC_API_KEY: 'any' });
    const first = await start('as-it-stands', code);
    assert.equal(first.error, null, first.output);
    assert.match(first.output, /What is 2 \+ 2\?/, 'the API says again what it is told');
    assert.equal(api.requests.length, 2);
    assert.equal(api.maxInFlight, 2, 'calls under way at a time');

    api.clear();
    const many = changed(code, /ask\('background', '.*?'\)/, Array.from({ length: 6 }, (_, i) => `ask('background', '${i}')`).join(', '));
    const limited = await start('one-at-a-time', changed(many, 'concurrency: 4', 'concurrency: 1'));
    assert.equal(limited.error, null, limited.output);
    assert.equal(api.requests.length, 7);
    assert.equal(api.maxInFlight, 1, 'calls under way at a time, with one slot');
    const place = api.requests.findIndex(({ body }) => JSON.stringify(body).includes('2 + 2'));
    assert.ok(place <= 1, `the call of the user is the last one made, and number ${place + 1} at the server`);

    api.clear();
    const broke = await start('spent', changed(code, 'usd: 5', 'usd: 0.000001'));
    assert.notEqual(broke.error, null, 'a call is made beyond the spend cap');
    assert.match(broke.output, /BudgetExceededError/);
    assert.equal(api.requests.length, 0, 'requests beyond the spend cap');
    return `${lines} lines`;
  } finally {
    await api.stop();
  }
}

function changed(code, what, by) {
  const text = code.replace(what, by);
  assert.notEqual(text, code, `${what} is not in the example`);
  return text;
}

async function runProgram(cwd, name, text, env) {
  writeFileSync(join(cwd, `${name}.mjs`), (await transform(text, { loader: 'ts', format: 'esm', target: 'es2022' })).code);
  return new Promise((resolve) => {
    execFile(process.execPath, [`${name}.mjs`], { cwd, env, timeout: 30_000 }, (error, stdout, stderr) =>
      resolve({ error, output: stdout + stderr }),
    );
  });
}
