import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeJournal } from '../../src/cli/journal.js';
import { readVectorJournal, VectorJournal, vectorKey } from '../../src/cli/vector-journal.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-journal-'));
  path = join(folder, 'index.jsonl.journal');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const sha = (i: number): string => i.toString(16).padStart(64, '0');
const vector = (i: number): Float32Array => Float32Array.of(i, -i);

async function write(from: number, to: number, length = 0): Promise<void> {
  const journal = await VectorJournal.open(path, length);
  for (let i = from; i < to; i += 1) journal.add('m', sha(i), vector(i));
  await journal.close();
}

async function numbers(): Promise<number[]> {
  return [...(await readVectorJournal(path)).vectors.values()].map((v) => v[0] as number);
}

describe('a journal', () => {
  it('gives back what was added, by model and text', async () => {
    await write(0, 200);
    const { vectors, damagedLines } = await readVectorJournal(path);
    expect(damagedLines).toBe(0);
    expect(vectors.size).toBe(200);
    expect(vectors.get(vectorKey('m', sha(7)))).toEqual(vector(7));
    expect(vectors.get(vectorKey('other', sha(7)))).toBeUndefined();
  });

  it('is read, and gone on with, behind the mark of a byte order', async () => {
    await write(0, 2);
    writeFileSync(path, `\uFEFF${readFileSync(path, 'utf8')}`);
    expect(await numbers()).toEqual([0, 1]);
    await write(2, 3, (await readVectorJournal(path)).length);
    expect(await readVectorJournal(path)).toMatchObject({ damagedLines: 0, vectors: { size: 3 } });
  });

  it('has results in the file before it is closed', async () => {
    const journal = await VectorJournal.open(path, 0);
    journal.add('m', sha(1), vector(1));
    await expect.poll(numbers).toEqual([1]);
    await journal.close();
  });

  it('goes on where it stopped', async () => {
    await write(0, 3);
    await write(3, 5, (await readVectorJournal(path)).length);
    expect(await numbers()).toEqual([0, 1, 2, 3, 4]);
  });

  it('is empty when it is not there, and leaves no empty file', async () => {
    expect(await readVectorJournal(path)).toEqual({ vectors: new Map(), damagedLines: 0, length: 0 });
    await write(0, 0);
    expect(existsSync(path)).toBe(false);
  });

  it('loses only the torn line wherever it is cut off, and can be continued', async () => {
    await write(0, 4);
    const whole = readFileSync(path);
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), async (at) => {
        writeFileSync(path, whole.subarray(0, at));
        const complete = whole.subarray(0, at).toString().split('\n').length - 1;
        const { damagedLines, length } = await readVectorJournal(path);
        expect(damagedLines).toBe(0);
        await write(9, 10, length);
        expect(await numbers()).toEqual([0, 1, 2, 3].slice(0, complete).concat(9));
      }),
      { numRuns: 50 },
    );
  });

  it('skips and counts a damaged line in the middle', async () => {
    await write(0, 4);
    const lines = readFileSync(path, 'utf8').split('\n');
    lines[1] = (lines[1] as string).replace('"vector":"', '"vector":"A');
    lines[2] = 'noise';
    writeFileSync(path, lines.join('\n'));
    expect((await readVectorJournal(path)).damagedLines).toBe(2);
    expect(await numbers()).toEqual([0, 3]);
  });

  it('is not fooled by a line whose checksum is right and whose content is not', async () => {
    appendFileSync(path, '44136fa355b3678a {}\n'); // the checksum of `{}`
    expect(await readVectorJournal(path)).toMatchObject({ damagedLines: 1, vectors: new Map() });
  });

  it('goes when its work is done', async () => {
    await write(0, 1);
    await removeJournal(path);
    await removeJournal(path);
    expect(existsSync(path)).toBe(false);
  });

  it('says when it cannot be opened', async () => {
    await expect(VectorJournal.open(join(path, 'x'), 0)).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringMatching(/cannot open the journal .*folder does not exist/) as string,
    });
  });

  it.runIf(existsSync('/dev/full'))('reports a full disk at the next result and at the end', async () => {
    const journal = await VectorJournal.open('/dev/full', 0);
    journal.add('m', sha(1), vector(1));
    await expect
      .poll(() => {
        try {
          journal.add('m', sha(2), vector(2));
          return undefined;
        } catch (error) {
          return error;
        }
      })
      .toMatchObject({ exitCode: 4, message: 'cannot write the journal `/dev/full`: the disk is full (ENOSPC)' });
    await expect(journal.close()).rejects.toMatchObject({ exitCode: 4 });
  });
});
