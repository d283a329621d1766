import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type CliResult, runHere } from '../support/cli.js';
import { type FakeProvider, startFakeProvider } from '../support/fake-provider.js';

let cwd: string;
let provider: FakeProvider;

beforeAll(async () => {
  provider = await startFakeProvider({});
});
afterAll(async () => {
  await provider.close();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-overwrite-'));
  mkdirSync(join(cwd, 'docs'));
  writeFileSync(join(cwd, 'docs', 'a.md'), 'what was decided about retries\n');
});
afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

const index = (...more: string[]): Promise<CliResult> => runHere(['index', 'docs', '--base-url', provider.baseUrl, ...more], { cwd });

/** Everything in the folder, byte for byte. */
function files(): Record<string, string> {
  const entries = readdirSync(cwd, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    entries.map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name)).toString('base64')]),
  );
}

describe('sluice index leaves alone what it did not write', () => {
  it.each<readonly [string, string, string | Uint8Array, readonly string[], RegExp]>([
    [
      'a text as index',
      'thesis.md',
      '# My thesis\n\nTen years of work.\n',
      ['-o', 'thesis.md'],
      /`thesis\.md` is there already and is not an index/,
    ],
    ['one of its own documents as index', 'docs/a.md', 'worth keeping\n', ['-o', 'docs/a.md'], /`docs\/a\.md` .* is not an index/],
    ['somebody else’s JSON lines as index', 'rows.jsonl', '{"format":"rows"}\n', ['-o', 'rows.jsonl'], /`rows\.jsonl` .* is not an index/],
    ['bytes as index', 'photo.jpg', Uint8Array.of(0xff, 0xd8, 0xff, 0, 7), ['-o', 'photo.jpg'], /`photo\.jpg` .* is not an index/],
    ['one byte as index', 'flag', '1', ['-o', 'flag'], /`flag` .* is not an index/],
    ['a text where the journal goes', 'i.jsonl.journal', 'Dear diary,\n', ['-o', 'i.jsonl'], /`i\.jsonl\.journal` .* is not a journal/],
    [
      'a text without a line feed where the journal goes',
      'i.jsonl.journal',
      'Dear',
      ['-o', 'i.jsonl'],
      /`i\.jsonl\.journal` .* is not a journal/,
    ],
    [
      'a text where the lock goes',
      'i.jsonl.lock',
      '1e3 secrets\n',
      ['-o', 'i.jsonl'],
      /`.*i\.jsonl\.lock` is there already and is not a lock/,
    ],
    ['a text as summary', 'notes.md', 'notes\n', ['-o', 'i.jsonl', '--json', 'notes.md'], /`notes\.md` .* is not a summary/],
  ])('%s', async (_what, name, content, args, message) => {
    writeFileSync(join(cwd, name), content);
    const before = files();
    const { code, stderr } = await index(...args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) as string });
    expect(stderr).not.toContain('secrets');
    expect(stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(files()).toEqual(before);
  });

  it.each(['i.jsonl', 'i.jsonl.journal', 'i.jsonl.lock'])('the summary is not written over its own %s', async (json) => {
    const before = files();
    const { code, stderr } = await index('-o', 'i.jsonl', '--json', json);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`\`--json ${json}\``) as string });
    expect(files()).toEqual(before);
  });

  it('an empty file, an older index and an older summary are replaced, also behind the mark of a byte order', async () => {
    writeFileSync(join(cwd, 'i.jsonl'), '');
    writeFileSync(join(cwd, 'summary.json'), '');
    for (const text of ['first', 'second', 'third']) {
      writeFileSync(join(cwd, 'docs', 'a.md'), `${text}\n`);
      expect(await index('-o', 'i.jsonl', '--json', 'summary.json')).toMatchObject({ code: 0 });
      expect(readFileSync(join(cwd, 'i.jsonl'), 'utf8')).toContain(`"text":"${text}"`);
      expect(JSON.parse(readFileSync(join(cwd, 'summary.json'), 'utf8'))).toMatchObject({ indexed: 1, lost: 0 });
      for (const name of ['i.jsonl', 'summary.json']) writeFileSync(join(cwd, name), `\uFEFF${readFileSync(join(cwd, name), 'utf8')}`);
    }
    expect(existsSync(join(cwd, 'i.jsonl.lock'))).toBe(false);
  });
});
