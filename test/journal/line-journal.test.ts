import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Journal, type JournalContent, readJournal } from '../../src/journal/line-journal.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-journal-'));
  path = join(folder, 'out.jsonl.journal');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function write(from: number, to: number, length = 0): Promise<void> {
  const journal = await Journal.open(path, length);
  for (let number = from; number < to; number += 1) void journal.add({ number });
  await journal.close();
}

/** Entries are understood when they have a number. */
async function read(): Promise<JournalContent & { readonly numbers: readonly number[] }> {
  const numbers: number[] = [];
  const content = await readJournal(path, 'out.jsonl.journal', 'remove it first', (json) => {
    const { number } = JSON.parse(json) as { number?: number };
    return number !== undefined && numbers.push(number) > 0;
  });
  return { ...content, numbers };
}

async function numbers(): Promise<readonly number[]> {
  return (await read()).numbers;
}

describe('a journal', () => {
  it('gives back what was added', async () => {
    await write(0, 200);
    expect(await read()).toMatchObject({ damagedLines: 0, numbers: Array.from({ length: 200 }, (_, i) => i) });
  });

  it('is read, and gone on with, behind the mark of a byte order', async () => {
    await write(0, 2);
    writeFileSync(path, `\uFEFF${readFileSync(path, 'utf8')}`);
    expect(await numbers()).toEqual([0, 1]);
    await write(2, 3, (await read()).length);
    expect(await read()).toMatchObject({ damagedLines: 0, numbers: [0, 1, 2] });
  });

  it('has results in the file before it is closed', async () => {
    const journal = await Journal.open(path, 0);
    void journal.add({ number: 1 });
    await expect.poll(numbers).toEqual([1]);
    await journal.close();
  });

  it('goes on where it stopped', async () => {
    await write(0, 3);
    await write(3, 5, (await read()).length);
    expect(await numbers()).toEqual([0, 1, 2, 3, 4]);
  });

  it('is empty when it is not there, and leaves no empty file', async () => {
    expect(await read()).toEqual({ numbers: [], damagedLines: 0, length: 0 });
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
        const { damagedLines, length } = await read();
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
    lines[1] = (lines[1] as string).replace('1}', '7}');
    lines[2] = 'noise';
    writeFileSync(path, lines.join('\n'));
    expect((await read()).damagedLines).toBe(2);
    expect(await numbers()).toEqual([0, 3]);
  });

  it('is not fooled by a line whose checksum is right and whose content is not', async () => {
    appendFileSync(path, '44136fa355b3678a {}\n'); // the checksum of `{}`
    expect(await read()).toMatchObject({ damagedLines: 1, numbers: [] });
  });

  it('is refused when the file is something else', async () => {
    writeFileSync(path, 'Dear diary,\n');
    await expect(read()).rejects.toMatchObject({
      fault: 'foreign',
      message: '`out.jsonl.journal` is there already and is not a journal; remove it first',
    });
  });

  it('says when it cannot be opened', async () => {
    await expect(Journal.open(join(path, 'x'), 0)).rejects.toMatchObject({
      fault: 'disk',
      message: expect.stringMatching(/cannot open the journal .*folder does not exist/) as string,
    });
  });

  it.runIf(existsSync('/dev/full'))('reports a full disk at the next result and at the end', async () => {
    const journal = await Journal.open('/dev/full', 0);
    void journal.add({ number: 1 });
    await expect
      .poll(() => {
        try {
          void journal.add({ number: 2 });
          return undefined;
        } catch (error) {
          return error;
        }
      })
      .toMatchObject({ fault: 'disk', message: 'cannot write the journal `/dev/full`: the disk is full (ENOSPC)' });
    await expect(journal.close()).rejects.toMatchObject({ fault: 'disk' });
  });
});
