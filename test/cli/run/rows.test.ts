import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type InputOptions, openRows } from '../../../src/cli/run/open-rows.js';
import type { BadRow, Row } from '../../../src/cli/run/row.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-rows-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

async function rowsOf(name: string, content?: string | Uint8Array, more: Partial<InputOptions> = {}): Promise<(Row | BadRow)[]> {
  const path = join(folder, name);
  if (content !== undefined) writeFileSync(path, content);
  const source = await openRows({ path, shown: name, format: undefined, id: undefined, exclude: new Set(), ...more });
  const rows: (Row | BadRow)[] = [];
  for await (const row of source.rows()) rows.push(row);
  expect(source.share()).toBe(1);
  return rows;
}

/** Number, id unless that is the key, and fields or what is wrong. */
const seen = (rows: readonly (Row | BadRow)[]): unknown[] =>
  rows.map((row) => [row.number, row.id === row.key ? undefined : row.id, 'problem' in row ? row.problem : row.fields]);

describe('lines of JSON', () => {
  it('are rows by their line; what is none is told in its place', async () => {
    const text = '\uFEFF{"id":"a","t":1}\n\n{"id":7}\nnonsense\n[1]\n{"t":"\u2028"}';
    expect(seen(await rowsOf('in.jsonl', text))).toEqual([
      [1, 'a', { id: 'a', t: 1 }],
      [3, '7', { id: 7 }],
      [4, undefined, 'it is not JSON'],
      [5, undefined, 'it is not a JSON object'],
      [6, undefined, { t: '\u2028' }],
    ]);
  });

  it('are UTF-8', async () => {
    const text = Buffer.from('{"t":"\u00fc"}\n{"t":"\ufffd"}\n{"t":"', 'utf8');
    const rows = await rowsOf('in.jsonl', Buffer.concat([text, Buffer.from([0xfc]), Buffer.from('"}\n{"t":"x"}')]));
    expect(seen(rows)).toEqual([
      [1, undefined, { t: '\u00fc' }],
      [2, undefined, { t: '\ufffd' }],
      [3, undefined, 'it is not UTF-8'],
      [4, undefined, { t: 'x' }],
    ]);
  });

  it('go by the field that was named, and by nothing else', async () => {
    const rows = await rowsOf('in.ndjson', '{"id":1,"paper":"x"}\n{"id":2}\n{"paper":{}}\n', { id: 'paper' });
    expect(seen(rows)).toEqual([
      [1, 'x', { id: 1, paper: 'x' }],
      [2, undefined, 'it has no `paper` to be known by'],
      [3, undefined, 'it has no `paper` to be known by'],
    ]);
  });

  it('are known by id and content, wherever they stand', async () => {
    const [a, b, c, d] = await rowsOf('in.jsonl', '{"t":1}\n{"t":2}\n{"t":1}\n{"id":"x","t":1}\n');
    expect(a?.key).toMatch(/^[0-9a-f]{16}$/);
    expect(c?.key).toBe(a?.key);
    expect(new Set([a?.key, b?.key, d?.key]).size).toBe(3);
  });
});

describe('a table', () => {
  it('has a header, quoted fields, and rows that do not fit it', async () => {
    const text = '\uFEFFid,text\r\na,"one, ""two""\nthree"\r\n\r\nb\r\nc,say "it"\r\nd,e,f\r\n';
    expect(seen(await rowsOf('in.csv', text))).toEqual([
      [1, 'a', { id: 'a', text: 'one, "two"\nthree' }],
      [2, undefined, 'it has 1 fields, and the header 2'],
      [3, 'c', { id: 'c', text: 'say "it"' }],
      [4, undefined, 'it has 3 fields, and the header 2'],
    ]);
  });

  it.each([';', '\t'])('may be divided by %j', async (delimiter) => {
    expect(seen(await rowsOf('in.csv', `id${delimiter}t${delimiter}a,b\nx${delimiter}y${delimiter}1,5\n`))).toEqual([
      [1, 'x', { id: 'x', t: 'y', 'a,b': '1,5' }],
    ]);
  });

  it('is UTF-8, or UTF-16 with its mark, and nothing else', async () => {
    const rows = [[1, undefined, { text: 'Müller' }]];
    expect(seen(await rowsOf('in.csv', 'text\nMüller\n'))).toEqual(rows);
    expect(seen(await rowsOf('in.csv', Buffer.from('\ufefftext\nMüller\n', 'utf16le')))).toEqual(rows);
    const latin = rowsOf('in.csv', Buffer.from('text\nMüller\n', 'latin1'));
    await expect(latin).rejects.toMatchObject({ exitCode: 2, message: '`in.csv` is not UTF-8: save it as that' });
  });

  it('says where a quote is never closed', async () => {
    expect(seen(await rowsOf('in.csv', 'id,text\na,1\nb,"open\nc,3\n'))).toEqual([
      [1, 'a', { id: 'a', text: '1' }],
      [2, undefined, 'a quote in it is never closed, which takes all that follows with it'],
    ]);
  });

  it.each([
    ['', /has no header/],
    ['a,b,a\n1,2,3\n', /has `a` twice/],
    ['a,,b\n1,2,3\n', /a field without a name/],
  ])('is refused with the header %j', async (text, message) => {
    await expect(rowsOf('in.csv', text)).rejects.toMatchObject({ exitCode: 2, message: expect.stringMatching(message) as string });
  });

  it('gives back whatever was written into it', async () => {
    const field = fc.string({ unit: fc.constantFrom('a', ',', '"', '\n', ' ', 'é') });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(field, field), { minLength: 1 }), async (records) => {
        const quote = (text: string): string => `"${text.replaceAll('"', '""')}"`;
        const text = [['p', 'q'], ...records].map((record) => record.map(quote).join(',')).join('\n');
        const rows = await rowsOf('in.csv', text);
        expect(rows.map((row) => ('fields' in row ? [row.fields['p'], row.fields['q']] : row))).toEqual(records);
      }),
      { numRuns: 50 },
    );
  });
});

describe('a folder', () => {
  it('has a row for each text in it, in the order of the names, and a word for all else', async () => {
    mkdirSync(join(folder, 'docs/b'), { recursive: true });
    mkdirSync(join(folder, 'docs/node_modules'));
    for (const [name, text] of Object.entries({
      'c.md': 'C',
      'a.txt': 'A',
      'b/x.md': 'X',
      '.hidden': 'H',
      'node_modules/m.md': 'M',
      out: 'O',
    }))
      writeFileSync(join(folder, 'docs', name), text);
    writeFileSync(join(folder, 'docs', 'logo.png'), Uint8Array.of(0, 1, 2));
    symlinkSync('..', join(folder, 'docs/b/loop'));
    symlinkSync('nowhere', join(folder, 'docs/gone'));
    symlinkSync('docs', join(folder, 'linked'));
    const all = await Promise.all(
      ['docs', 'linked'].flatMap((input) =>
        ['docs', 'linked'].map((output) => rowsOf(input, undefined, { exclude: new Set([join(folder, output, 'out')]) })),
      ),
    );
    for (const rows of all)
      expect(seen(rows)).toEqual([
        [1, 'a.txt', { path: 'a.txt', name: 'a.txt', text: 'A' }],
        [2, 'b/x.md', { path: 'b/x.md', name: 'x.md', text: 'X' }],
        [3, 'c.md', { path: 'c.md', name: 'c.md', text: 'C' }],
        [4, 'gone', 'no such file or folder'],
        [5, 'logo.png', 'binary (contains NUL bytes)'],
      ]);
  });
});

describe('an input', () => {
  it.each<readonly [string, Partial<InputOptions>, RegExp]>([
    ['missing.jsonl', {}, /^cannot read the input `missing\.jsonl`: there is no such file or folder$/],
    ['in.txt', {}, /^what is in `in\.txt`\? .* give `input\.format`$/],
    ['in.txt', { format: 'folder' }, /^`input\.format` is folder, and `in\.txt` is no folder$/],
    ['.', { format: 'csv' }, /^`input\.format` is csv, and `\.` is a folder$/],
    ['.', { id: 'x' }, /^`input\.id` names a field/],
  ])('%s with %j is refused', async (name, more, message) => {
    writeFileSync(join(folder, 'in.txt'), 'text');
    await expect(rowsOf(name, undefined, more)).rejects.toMatchObject({ exitCode: 2, message: expect.stringMatching(message) as string });
  });

  it('of another name is what it is said to be', async () => {
    expect(seen(await rowsOf('in.txt', '{"id":"a"}\n', { format: 'jsonl' }))).toEqual([[1, 'a', { id: 'a' }]]);
  });
});
