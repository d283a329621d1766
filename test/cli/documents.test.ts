import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCorpus } from '../../src/cli/corpus.js';
import { findFiles, readDocument, readFileList, walkFolder } from '../../src/cli/documents.js';

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

async function names(...paths: string[]): Promise<string[]> {
  return (await findFiles(paths, { cwd })).files.map((file) => file.name);
}

describe('findFiles', () => {
  it('walks folders in order, without node_modules and names that start with a dot', async () => {
    for (const name of ['b.md', 'a/z.txt', 'a/b.txt', 'node_modules/x/index.js', '.git/config', '.env', 'a/.cache/y', 'Z.md']) write(name);
    expect(await names('.')).toEqual(['Z.md', 'a/b.txt', 'a/z.txt', 'b.md']);
  });

  it('takes what is named, wherever it is', async () => {
    for (const name of ['node_modules/x/README.md', '.hidden/notes.md', '.env']) write(name);
    expect(await names('node_modules/x', '.hidden/notes.md', '.env')).toEqual(['.env', '.hidden/notes.md', 'node_modules/x/README.md']);
  });

  it('takes a file once, however often it is reached', async () => {
    write('a/b.md');
    symlinkSync(join(cwd, 'a/b.md'), join(cwd, 'link.md'));
    expect(await names('a', 'a/b.md', 'link.md')).toEqual(['a/b.md']);
  });

  it('survives links that lead back', async () => {
    write('a/b.md');
    symlinkSync(join(cwd, 'a'), join(cwd, 'a/again'));
    symlinkSync('loop', join(cwd, 'a/loop'));
    const found = await findFiles(['a'], { cwd });
    expect(found.files.map((file) => file.name)).toEqual(['a/b.md']);
    expect(found.skipped).toEqual([{ file: 'a/loop', reason: 'a link that leads back to itself' }]);
  });

  it('names a broken link and what is neither file nor folder', async () => {
    symlinkSync('nowhere', join(cwd, 'broken'));
    execFileSync('mkfifo', [join(cwd, 'pipe')]);
    expect((await findFiles(['.'], { cwd })).skipped).toEqual([
      { file: 'broken', reason: 'no such file or folder' },
      { file: 'pipe', reason: 'neither a file nor a folder' },
    ]);
  });

  it('leaves out what is excluded', async () => {
    const index = write('index.jsonl');
    write('a.md');
    expect((await findFiles(['.'], { cwd, exclude: [index] })).files.map((file) => file.name)).toEqual(['a.md']);
  });

  it('refuses a path that does not exist', async () => {
    await expect(names('missing.md')).rejects.toMatchObject({
      exitCode: 2,
      message: 'cannot index `missing.md`: no such file or folder',
    });
  });
});

describe('readFileList', () => {
  it('reads one path per line, without blank lines and comments', async () => {
    write('list.txt', '# documents\na.md\r\n\n  b/c.md  \n#d.md\n');
    expect(await readFileList('list.txt', cwd)).toEqual(['a.md', 'b/c.md']);
  });

  it('reads UTF-8 alone, with or without a byte order mark', async () => {
    write('list.txt', '\uFEFFa.md\n');
    expect(await readFileList('list.txt', cwd)).toEqual(['a.md']);
    write('latin.txt', Buffer.from('\u00fc.md\n', 'latin1'));
    await expect(readFileList('latin.txt', cwd)).rejects.toMatchObject({
      exitCode: 2,
      message: 'cannot read the list `latin.txt`: it is not UTF-8',
    });
  });

  it('refuses a missing and an empty list', async () => {
    write('empty.txt', '# nothing\n');
    await expect(readFileList('missing.txt', cwd)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/cannot read the list `missing.txt`/) as string,
    });
    await expect(readFileList('empty.txt', cwd)).rejects.toMatchObject({ exitCode: 2, message: 'the list `empty.txt` names no files' });
  });
});

describe('walkFolder', () => {
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
    expect(await read('big.txt', 'x'.repeat(11), 10)).toEqual({ reason: 'larger than 10 bytes (`--max-file-bytes`)' });
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

describe('readCorpus', () => {
  const options = { filesFrom: undefined, exclude: [], maxFileBytes: 1000, maxChunkTokens: 100 };

  it('cuts all documents, in order, and names what it skips', async () => {
    write('b.md', 'bee');
    write('a.md', 'ay');
    write('c.bin', Uint8Array.of(0));
    const corpus = await readCorpus({ ...options, cwd, paths: ['.'] });
    expect(corpus.chunks.map(({ file, text }) => [file, text])).toEqual([
      ['a.md', 'ay'],
      ['b.md', 'bee'],
    ]);
    expect(corpus.skipped).toEqual([{ file: 'c.bin', reason: 'binary (contains NUL bytes)' }]);
  });

  it('says why there is nothing to index', async () => {
    mkdirSync(join(cwd, 'empty'));
    const corpus = (...paths: string[]) => readCorpus({ ...options, cwd, paths });
    await expect(corpus()).rejects.toMatchObject({ exitCode: 2, message: expect.stringMatching(/name files or folders/) as string });
    await expect(corpus('empty')).rejects.toMatchObject({ exitCode: 2, message: 'nothing to index in empty: no files found' });
    write('empty/c.bin', Uint8Array.of(0));
    await expect(corpus('empty')).rejects.toMatchObject({
      message: 'nothing to index in empty: skipped empty/c.bin (binary (contains NUL bytes))',
    });
  });
});
