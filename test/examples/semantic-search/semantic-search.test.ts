import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Asker, type Questions, readQuestions } from '../../../examples/semantic-search/asker.js';
import { readCorpus, readList } from '../../../examples/semantic-search/documents.js';
import { openEmbedder } from '../../../examples/semantic-search/embedder.js';
import { type IndexResult, indexDocuments } from '../../../examples/semantic-search/index-documents.js';
import { appendToJournal, type IndexedPassage, readIndex, readVectors, writeIndex } from '../../../examples/semantic-search/index-file.js';
import { passagesOf } from '../../../examples/semantic-search/passages.js';
import { hitText, reportText } from '../../../examples/semantic-search/report.js';
import { search } from '../../../examples/semantic-search/search.js';
import { estimateTokens } from '../../../src/index.js';
import { type FakeProvider, type FakeProviderOptions, startFakeProvider } from '../../support/fake-provider.js';

let folder: string;
let output: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'semantic-search-'));
  output = join(folder, 'index.jsonl');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function write(name: string, text: string | Uint8Array): string {
  const path = join(folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const words = (count: number, word: string): string => Array.from({ length: count }, () => word).join(' ');

describe('passages', () => {
  const texts = (text: string): string[] => Array.from(passagesOf('a.md', text), (passage) => passage.text);
  const ink = (text: string): string => text.replaceAll(/\s+/g, '');
  const line = fc.oneof(
    fc.lorem({ maxCount: 12 }),
    fc.constantFrom('', '# Title', '```', '   '),
    fc.string({ unit: 'grapheme', maxLength: 900 }).map((text) => text.replaceAll(/[\r\n]/g, '')),
  );

  it('hold every text once and in order, and name its lines', () => {
    fc.assert(
      fc.property(fc.array(line, { maxLength: 80 }), (lines) => {
        const passages = [...passagesOf('a.md', lines.join('\n'))];
        expect(passages.map(({ text }) => ink(text)).join('')).toBe(ink(lines.join('')));
        for (const { startLine, endLine, text } of passages) expect(ink(lines.slice(startLine - 1, endLine).join(''))).toContain(ink(text));
      }),
    );
  });

  it('stay below 200 tokens for ordinary text', () => {
    const passages = texts(Array.from({ length: 300 }, (_, i) => words(i % 40, 'word')).join('\n'));
    expect(passages.length).toBeGreaterThan(10);
    for (const text of passages) expect(estimateTokens(text)).toBeLessThanOrEqual(200);
  });

  it('begin at a heading, but not at a comment in code', () => {
    expect(texts(`${words(80, 'one')}\n# Two\n${words(50, 'two')}`)[1]).toMatch(/^# Two\ntwo/);
    expect(texts(`${words(80, 'one')}\n\`\`\`\n# two\n${words(20, 'two')}\n\`\`\``)).toHaveLength(1);
  });

  it('never cut a character in two', () => {
    for (const text of texts(`a${'😀'.repeat(2000)}`)) expect(text).not.toMatch(/\p{Surrogate}/u);
  });
});

describe('documents', () => {
  it('are the texts of a folder, without node_modules, dot files and links, and all files that are named', async () => {
    for (const name of ['b.md', 'a/z.txt', 'code.ts', 'node_modules/x/README.md', '.git/notes.md']) write(name, name);
    symlinkSync(folder, join(folder, 'a', 'again'));
    const { passages } = await readCorpus([folder, join(folder, 'code.ts')]);
    expect(passages.map(({ file }) => file)).toEqual(['a/z.txt', 'b.md', 'code.ts'].map((name) => join(folder, name)));
  });

  it('are named when they are skipped; without any text, and for a missing path, reading fails', async () => {
    const latin = write('latin.txt', Uint8Array.of(0xe4));
    await expect(readCorpus([folder])).rejects.toThrow(`no text found in: ${folder}`);
    write('a.md', 'text');
    expect((await readCorpus([folder])).skipped).toEqual([{ file: latin, reason: 'not UTF-8 text' }]);
    await expect(readCorpus([join(folder, 'missing')])).rejects.toThrow('ENOENT');
  });

  it('may come from a list', async () => {
    expect(await readList(write('list', '# some\na.md\r\n\n  b/c.md  \n'))).toEqual(['a.md', 'b/c.md']);
  });
});

function entry(text: string, ...vector: number[]): IndexedPassage {
  const [passage] = passagesOf(`${text}.md`, text);
  if (passage === undefined) throw new Error('expected a text');
  return { ...passage, vector: Float32Array.from(vector) };
}

describe('the index file', () => {
  const index = { model: 'm', passages: [entry('one', 0.5, -0.25), entry('two \u2028', 1, 2)] };

  it('comes back as it was written, and leaves nothing beside it', async () => {
    appendToJournal(output, 'm', index.passages[0]?.sha256 ?? '', Float32Array.of(1));
    await writeIndex(output, index);
    expect(await readIndex(output)).toEqual(index);
    expect(readdirSync(folder)).toEqual(['index.jsonl']);
  });

  it('is refused wherever it is cut off', async () => {
    await writeIndex(output, index);
    const whole = readFileSync(output);
    await fc.assert(
      // Without its last line feed nothing is missing.
      fc.asyncProperty(fc.nat(whole.length - 2), async (at) => {
        writeFileSync(output, whole.subarray(0, at));
        await expect(readIndex(output)).rejects.toThrow(/is not an index|is damaged/);
      }),
    );
  });

  it.each([
    ['half a vector', 'AAAAPwAAgL4=', 'AAAAPwAA', 'is damaged at line 2: `vector`'],
    ['no file', '"file"', '"fail"', 'is damaged at line 2: `file`'],
  ])('is refused with %s', async (_, from, to, problem) => {
    await writeIndex(output, index);
    writeFileSync(output, readFileSync(output, 'utf8').replace(from, to));
    await expect(readIndex(output)).rejects.toThrow(problem);
  });

  it('is reused for its own model, and no other file is taken for one', async () => {
    await writeIndex(output, index);
    expect((await readVectors(output, 'm')).get(index.passages[1]?.sha256 ?? '')).toEqual(Float32Array.of(1, 2));
    expect((await readVectors(output, 'other')).size).toBe(0);
    await expect(readVectors(write('thesis.md', '# My thesis\n'), 'm')).rejects.toThrow('is not an index');
  });

  it('has a journal that loses the torn line alone, and can be continued', async () => {
    const hash = (i: number): string => i.toString(16).padStart(64, '0');
    for (const i of [1, 2, 3]) appendToJournal(output, 'm', hash(i), Float32Array.of(i));
    const journal = readFileSync(`${output}.journal`);
    await fc.assert(
      fc.asyncProperty(fc.nat(journal.length), async (at) => {
        writeFileSync(`${output}.journal`, journal.subarray(0, at));
        appendToJournal(output, 'm', hash(9), Float32Array.of(9));
        const numbers = Array.from((await readVectors(output, 'm')).values(), ([number]) => number);
        const entries = journal.toString().split('\n').slice(1);
        const whole = entries.filter((_, i) => entries.slice(0, i + 1).reduce((bytes, text) => bytes + text.length + 1, 0) <= at).length;
        expect(numbers).toEqual([...[1, 2, 3].slice(0, whole), 9]);
      }),
      { numRuns: 50 },
    );
  });
});

describe('search', () => {
  const found = (passages: readonly IndexedPassage[], top: number) =>
    search(passages, Float32Array.of(5, 0), top).map(({ passage }) => passage.text);

  it('puts the closest direction first, whatever the length', () => {
    const passages = [entry('far', 0, 9), entry('near', 3, 0.1), entry('opposite', -1, 0), entry('half', 1, 1)];
    expect(found(passages, 10)).toEqual(['near', 'half', 'far', 'opposite']);
    expect(found(passages, 2)).toEqual(['near', 'half']);
  });

  it('scores 1 for itself and 0 for a vector without direction', () => {
    const [itself, nothing] = search([entry('a', 3, 4), entry('b', 0, 0)], Float32Array.of(3, 4), 2);
    expect(itself?.score).toBeCloseTo(1, 6);
    expect(nothing?.score).toBe(0);
  });

  it('refuses vectors of another length', () => {
    expect(() => found([entry('a', 1)], 1)).toThrow('expected vectors of 2 numbers, found 1');
  });

  it('prints score, place and the first lines', () => {
    const text = Array.from({ length: 8 }, (_, i) => `line ${i}`).join('\n');
    expect(hitText({ passage: { ...entry('a'), text, endLine: 8 }, score: 0.51239 })).toBe(
      '0.512  a.md:1-8\n  line 0\n  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  … 2 more lines\n',
    );
  });
});

describe('indexing', () => {
  let provider: FakeProvider;
  afterEach(() => provider.close());

  const MODEL = 'm';
  const letters = (i: number): string => String(i).replace(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
  const textOf = (i: number): string => `topic${letters(i)} ${letters(i * 7)} ${letters(i * 31)}`;
  const pathOf = (i: number): string => join(folder, 'docs', `${String(i).padStart(3, '0')}.md`);

  async function serve(count: number, options: FakeProviderOptions = {}): Promise<void> {
    provider = await startFakeProvider(options);
    for (let i = 0; i < count; i++) write(`docs/${String(i).padStart(3, '0')}.md`, textOf(i));
  }

  interface Run {
    readonly result: IndexResult;
    readonly asker: Asker;
    readonly report: string;
  }

  async function index({
    questions = [],
    stop = new AbortController().signal,
  }: {
    questions?: Questions;
    stop?: AbortSignal;
  } = {}): Promise<Run> {
    const limits = { concurrency: 2, requestsPerMinute: Infinity, tokensPerMinute: Infinity };
    const embedder = openEmbedder({ baseUrl: provider.baseUrl, model: MODEL, maxBatch: 12, ...limits });
    const asker = new Asker(embedder, questions);
    try {
      const corpus = await readCorpus([join(folder, 'docs')]);
      const result = await indexDocuments({ corpus, output, model: MODEL, embedder, asker, stop });
      const flow = embedder.snapshot();
      return { result, asker, report: reportText({ corpus, result, asker, questions, flow, passageCalls: flow.calls, durationMs: 1234 }) };
    } finally {
      embedder.close();
    }
  }

  it('batches what it embeds, and embeds only what changed', async () => {
    await serve(40);
    const { report } = await index();
    expect(provider.calls.length).toBeLessThanOrEqual(6);
    expect(provider.maxOpen).toBeLessThanOrEqual(2);
    expect(report).toContain('documents: 40, passages: 40 (40 sent, 0 reused, 0 failed)');
    expect(report).toContain('accepted 40, lost 0; took 1.2 s');
    const first = readFileSync(output, 'utf8');
    expect((await index()).result).toMatchObject({ accepted: 0, reused: 40 });
    expect(readFileSync(output, 'utf8')).toBe(first);
    write('docs/005.md', 'something new');
    write('docs/041.md', 'something new');
    expect((await index()).result).toMatchObject({ accepted: 1, reused: 39 });
    expect((await readIndex(output)).passages).toHaveLength(41);
  });

  it('gets everything through 429s, failures and cut connections', async () => {
    await serve(100, {
      answer: ({ index: i }) => {
        if (i % 7 === 2) return { status: 429, message: 'slow down', retryAfterSeconds: 0.01 };
        if (i % 7 === 4) return { status: 503, message: 'overloaded' };
        return i % 7 === 6 ? 'cut' : undefined;
      },
    });
    expect((await index()).result).toMatchObject({ accepted: 100, settled: 100, failed: [], indexed: { length: 100 } });
  });

  it.each([true, false])('leaves out a refused passage and nothing else, its index named: %s', async (namePoison) => {
    await serve(36, { poison: (text) => text === textOf(13), namePoison });
    const { result, report } = await index();
    expect(result.indexed).toHaveLength(35);
    expect(result.failed.map(({ passage }) => passage.file)).toEqual([pathOf(13)]);
    expect(report).toMatch(/^left out .*013\.md:1-1: 400 .*invalid/);
  });

  it('asks before and while it indexes, and says which document came first', async () => {
    await serve(60, { delayMs: 20 });
    const questions = [
      { question: textOf(7), expected: pathOf(7) },
      { question: textOf(33), expected: 'elsewhere.md' },
    ];
    const { asker, report } = await index({ questions });
    expect(asker.idleMs).toHaveLength(2);
    expect(asker.busyMs.length).toBeGreaterThanOrEqual(1);
    expect(report).toContain(`hit   ${textOf(7)} -> ${pathOf(7)}\n`);
    expect(report).toContain(`miss  ${textOf(33)} -> ${pathOf(33)}, expected elsewhere.md\n`);
    expect(report).toContain('questions: 1 of 2 found their document first; 0 failed');
    expect(report).toContain(`accepted ${62 + asker.busyMs.length}, lost 0`);
  });

  it('sends nothing more once it is stopped, keeps what came, and continues', async () => {
    const stop = new AbortController();
    const until = ({ index: i }: { readonly index: number }): undefined => {
      if (i === 1) stop.abort();
    };
    await serve(200, { until });
    const { result } = await index({ stop: stop.signal });
    expect(result).toMatchObject({ indexed: [], accepted: result.settled });
    expect(result.accepted).toBeLessThan(200);
    expect(existsSync(output)).toBe(false);
    expect((await index()).result).toMatchObject({ reused: result.accepted, indexed: { length: 200 } });
    expect(existsSync(`${output}.journal`)).toBe(false);
  });

  it.each<readonly [string, FakeProviderOptions, RegExp]>([
    ['a refused key', { apiKey: 'right' }, /^401 Incorrect API key/],
    ['an unknown model', { model: 'other' }, /^404 The model/],
  ])('ends at once with %s, and keeps the old index', async (_, options, message) => {
    await serve(30);
    await index();
    const old = readFileSync(output, 'utf8');
    await provider.close();
    await serve(31, options);
    await expect(index()).rejects.toThrow(message);
    expect(provider.calls).toHaveLength(1);
    expect(readFileSync(output, 'utf8')).toBe(old);
  });

  it('ends at once when the server is not there', async () => {
    await serve(30);
    await provider.close();
    await expect(index()).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
    await expect(index({ questions: [{ question: 'why?', expected: 'a.md' }] })).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  it('keeps the old index when no passage can be embedded', async () => {
    await serve(1, { poison: (text) => text === 'bad' });
    await index();
    const old = readFileSync(output, 'utf8');
    write('docs/000.md', 'bad');
    await expect(index()).rejects.toThrow(/^no passage was embedded: 400 /);
    expect(readFileSync(output, 'utf8')).toBe(old);
  });
});

it('questions are refused when they are something else', async () => {
  await expect(readQuestions(write('questions.json', '[{ "question": "why?" }]'))).rejects.toThrow(
    /does not hold questions .*`0\.expected`/,
  );
});
