import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CliError, diskError } from '../../src/cli/exit.js';
import { type IndexContent, readIndex, writeIndex } from '../../src/cli/index-file.js';
import { decodeVector, encodeVector } from '../../src/cli/vectors.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-index-'));
  path = join(folder, 'index.jsonl');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function entry(text: string, startLine = 1, vector = [0.5, -0.25]): IndexContent['entries'][number] {
  const sha256 = createHash('sha256').update(text).digest('hex');
  return { file: 'a.md', startLine, endLine: startLine, sha256, text, vector: Float32Array.from(vector) };
}

const content: IndexContent = { model: 'm', documents: 1, entries: [entry('one', 1), entry('two \u2028 three\r', 2), entry('four', 3)] };

/** Rewrites one line of the index, from 1. */
function edit(line: number, change: (text: string) => string): void {
  const lines = readFileSync(path, 'utf8').split('\n');
  lines[line - 1] = change(lines[line - 1] as string);
  writeFileSync(path, lines.join('\n'));
}

describe('an index file', () => {
  it('comes back as it was written', async () => {
    await writeIndex(path, content);
    expect(await readIndex(path)).toMatchObject({ ...content, dimensions: 2 });
    expect(readdirSync(folder)).toEqual(['index.jsonl']);
  });

  it('is read with the mark of a byte order in front of it, too', async () => {
    await writeIndex(path, content);
    edit(1, (text) => `\uFEFF${text}`);
    expect(await readIndex(path)).toMatchObject(content);
  });

  it('has a header, a line per passage and a footer, the same bytes every time', async () => {
    await writeIndex(path, content);
    const first = readFileSync(path, 'utf8');
    await writeIndex(path, content);
    expect(readFileSync(path, 'utf8')).toBe(first);
    const lines = first.trimEnd().split('\n');
    expect(lines).toHaveLength(5);
    expect(lines[0]).toBe('{"format":"sluice-index","version":1,"model":"m","dimensions":2,"documents":1,"chunks":3}');
    expect(JSON.parse(lines[1] as string)).toMatchObject({ file: 'a.md', startLine: 1, text: 'one', vector: 'AAAAPwAAgL4=' });
    const before = first.slice(0, first.lastIndexOf('{"count"'));
    expect(JSON.parse(lines[4] as string)).toEqual({ count: 3, sha256: createHash('sha256').update(before).digest('hex') });
  });

  it('may be large', async () => {
    const entries = Array.from({ length: 3000 }, (_, i) => entry(`${'x'.repeat(1000)}${String(i)}`, i + 1));
    await writeIndex(path, { ...content, entries });
    expect((await readIndex(path)).entries).toEqual(entries);
  });

  it.each<readonly [string, () => void, RegExp]>([
    [
      'an empty file',
      () => {
        writeFileSync(path, '');
      },
      /line 1: the file is empty/,
    ],
    [
      'something else',
      () => {
        writeFileSync(path, '# Title\n');
      },
      /line 1: not the header of an index \(not JSON\)/,
    ],
    [
      'a newer version',
      () => {
        edit(1, (text) => text.replace('"version":1', '"version":2'));
      },
      /line 1: not the header of an index \(`version`/,
    ],
    [
      'a line that is no JSON',
      () => {
        edit(3, (text) => text.slice(0, 20));
      },
      /line 3: not JSON/,
    ],
    [
      'a line without its file',
      () => {
        edit(3, (text) => text.replace('"file"', '"fail"'));
      },
      /line 3: `file`/,
    ],
    [
      'a changed text',
      () => {
        edit(3, (text) => text.replace('two', 'too'));
      },
      /line 3: the text does not match its SHA-256/,
    ],
    [
      'a short vector',
      () => {
        edit(4, (text) => text.replace('AAAAPwAAgL4=', 'AAAAPw=='));
      },
      /line 4: the vector does not hold 2 numbers/,
    ],
    [
      'a changed vector',
      () => {
        edit(4, (text) => text.replace('AAAAPwAAgL4=', 'AACAPwAAgL4='));
      },
      /line 5: the lines before do not match/,
    ],
    [
      'a wrong count',
      () => {
        edit(5, (text) => text.replace('"count":3', '"count":4'));
      },
      /line 5: the footer counts 4 passages/,
    ],
    [
      'a missing line',
      () => {
        edit(2, () => '');
      },
      /line 2: not JSON/,
    ],
    [
      'text after the footer',
      () => {
        edit(6, () => 'more\n');
      },
      /line 6: there is text after the last line/,
    ],
    [
      'a missing footer',
      () => {
        truncateSync(path, readFileSync(path).lastIndexOf('{"count"'));
      },
      /line 5: the file ends after 3 of 3 passages, before its last line/,
    ],
  ])('is refused with %s', async (_name, damage, message) => {
    await writeIndex(path, content);
    damage();
    const error: unknown = await readIndex(path).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CliError);
    expect(error).toMatchObject({ exitCode: 2 });
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).toContain(`index \`${path}\` is damaged at line `);
    expect((error as Error).message).toMatch(/; run `sluice index` again$/);
  });

  it('is refused wherever it is cut off or a byte has changed', async () => {
    await writeIndex(path, content);
    const whole = readFileSync(path);
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), fc.boolean(), async (at, flip, cut) => {
        const damaged = Buffer.from(cut ? whole.subarray(0, at) : whole);
        if (!cut) damaged[at] = (damaged[at] as number) ^ flip;
        writeFileSync(path, damaged);
        await expect(readIndex(path)).rejects.toThrow(/is damaged at line \d+/);
      }),
    );
  });

  it('is missed with a sentence', async () => {
    await expect(readIndex(path)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(/there is no such file; make one with `sluice index`/) as string,
    });
  });

  it('keeps the old one when it cannot be written', async () => {
    await writeIndex(path, content);
    const old = readFileSync(path, 'utf8');
    const broken = {
      ...content,
      entries: [
        ...content.entries,
        {
          ...entry('five'),
          get vector(): Float32Array {
            throw diskError('x', Object.assign(new Error('full'), { code: 'ENOSPC' }));
          },
        },
      ],
    };
    await expect(writeIndex(path, broken)).rejects.toMatchObject({ exitCode: 4 });
    expect(readFileSync(path, 'utf8')).toBe(old);
    expect(readdirSync(folder)).toEqual(['index.jsonl']);
  });

  it('does not replace a folder', async () => {
    mkdirSync(path);
    await expect(writeIndex(path, content)).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringMatching(/cannot write the index .*: there is a folder of that name \(EISDIR\)/) as string,
    });
    expect(readdirSync(folder)).toEqual(['index.jsonl']);
  });
});

describe('diskError', () => {
  it.each([
    ['ENOSPC', 'cannot write the index `i`: the disk is full (ENOSPC)'],
    ['EACCES', 'cannot write the index `i`: permission denied (EACCES)'],
    ['EROFS', 'cannot write the index `i`: the file system is read-only (EROFS)'],
    ['EIO', 'cannot write the index `i`: the system refused (EIO)'],
  ])('says what %s means', (code, message) => {
    const error = diskError('write the index `i`', Object.assign(new Error('system'), { code }));
    expect(error).toMatchObject({ exitCode: 4, message });
  });

  it('leaves other errors alone', () => {
    const bug = new TypeError('bug');
    expect(diskError('write', bug)).toBe(bug);
  });
});

describe('encodeVector', () => {
  it('keeps every float', () => {
    fc.assert(
      fc.property(fc.float32Array({ noNaN: true, noDefaultInfinity: true }), (vector) => {
        expect(decodeVector(encodeVector(vector))).toEqual(vector);
      }),
    );
  });

  it('refuses what are no whole, finite floats', () => {
    expect(decodeVector(Buffer.alloc(5).toString('base64'))).toBeUndefined();
    expect(decodeVector(encodeVector(Float32Array.of(1, NaN)))).toBeUndefined();
  });
});
