import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

const kinds = [
  'ECMAScript modules',
  'CommonJS modules',
  'TypeScript 5.9.3',
  'TypeScript 6.0.3',
  'TypeScript 7.0.2',
  'Next',
  'Vite with React',
  'a web worker',
];
const firstUse = readdirSync(join(project, 'examples/first-use'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => `first use: ${file}`);

/** What `npm run check:fresh` says. */
let said: readonly string[] = [];

beforeAll(async () => {
  said = await new Promise<string[]>((resolve) => {
    execFile(process.execPath, ['.ci/check-fresh.mjs'], { cwd: project, maxBuffer: 1e8 }, (_error, stdout, stderr) => {
      // A failure stands in a row of its own.
      resolve(`${stdout}${stderr}`.split('\n'));
    });
  });
}, 1_800_000);

describe('the packed package with the code of the README, in a fresh project', () => {
  it.each([...kinds, ...firstUse])('%s', (name) => {
    const at = said.findIndex((line) => line.startsWith(`ok   ${name}: `) || line === `FAIL ${name}`);
    expect(at === -1 ? said.join('\n') : said.slice(at, at + 30).join('\n')).toMatch(/^ok {3}/);
  });

  it('of no other kind', () => {
    expect(said.filter((line) => /^(?:ok {3}|FAIL )/.test(line))).toHaveLength(kinds.length + firstUse.length);
  });
});
