import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDocument, walkFolder } from '../../src/cli/documents.js';

let cwd: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-documents-'));
});
afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

function write(name: string, content: string | Uint8Array = 'text'): string {
  const path = join(cwd, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, content);
  return path;
}

describe('walkFolder', () => {
  const names = async (exclude: readonly string[] = []): Promise<string[]> => {
    const found: string[] = [];
    for await (const { name } of walkFolder(cwd, new Set(exclude))) found.push(name);
    return found;
  };

  it('hands out files in order, without node_modules and names that start with a dot', async () => {
    for (const name of ['b.md', 'a/z.txt', 'a/b.txt', 'node_modules/x/index.js', '.git/config', '.env', 'a/.cache/y', 'Z.md']) write(name);
    expect(await names()).toEqual(['Z.md', 'a/b.txt', 'a/z.txt', 'b.md']);
  });

  it('survives links that lead back, and leaves out what is excluded', async () => {
    write('a/b.md');
    const index = write('out.jsonl');
    symlinkSync(join(cwd, 'a'), join(cwd, 'a/again'));
    expect(await names([index])).toEqual(['a/b.md']);
  });

  it('hands out what is no file, and readDocument says so without opening it', async () => {
    write('a.md');
    execFileSync('mkfifo', [join(cwd, 'pipe')]);
    symlinkSync('/dev/zero', join(cwd, 'zero'));
    const read: unknown[] = [];
    for await (const file of walkFolder(cwd, new Set())) read.push([file.name, await readDocument(file)]);
    expect(read).toEqual([
      ['a.md', { text: expect.any(String) as string }],
      ['pipe', { reason: 'neither a file nor a folder' }],
      ['zero', { reason: 'neither a file nor a folder' }],
    ]);
  });
});

describe('readDocument', () => {
  const read = (name: string, content: string | Uint8Array, maxBytes?: number) =>
    readDocument({ path: write(name, content), name }, maxBytes);

  it('reads UTF-8, with or without a byte order mark', async () => {
    expect(await read('a.md', 'Grüße 😀')).toEqual({ text: 'Grüße 😀' });
    expect(await read('b.md', '\uFEFFtext')).toEqual({ text: 'text' });
  });

  it.each([
    ['binary (contains NUL bytes)', Uint8Array.of(0x89, 0x50, 0, 1)],
    ['not UTF-8 text', Uint8Array.of(0x47, 0x72, 0xfc, 0xdf, 0x65)],
    ['empty', ' \n\t\n'],
  ])('skips a file that is %s', async (reason, content) => {
    expect(await read('file', content)).toEqual({ reason });
  });

  it('skips a file that is too large', async () => {
    expect(await read('big.txt', 'x'.repeat(11), 10)).toEqual({ reason: 'larger than 10 bytes' });
  });

  it('skips a file that has gone', async () => {
    expect(await readDocument({ path: join(cwd, 'gone'), name: 'gone' })).toEqual({ reason: 'no such file or folder' });
  });

  it.skipIf(process.getuid?.() === 0)('skips a file it may not read', async () => {
    const path = write('secret.txt');
    chmodSync(path, 0);
    expect(await readDocument({ path, name: 'secret.txt' })).toEqual({ reason: 'permission denied' });
  });
});
