import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');
const job = join(root, 'examples/semantic-search');

interface LockedPackage {
  readonly optional?: boolean;
  readonly peer?: boolean;
  readonly os?: readonly string[];
}

const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as { packages: Record<string, LockedPackage> };
const files = readFileSync(join(job, 'corpus.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const questions = JSON.parse(readFileSync(join(job, 'questions.json'), 'utf8')) as { question: string; expected: string }[];

function words(text: string): string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** The first heading of each kind Markdown knows: `# …`, underlined, `<h1>`. */
function titles(markdown: string): string[] {
  const kinds = [/^#{1,6} +(.+)$/m, /^(.+)\n(?:=+|-+)$/m, /<h1[^>]*>(.*?)<\/h1>/is];
  return kinds.flatMap((kind) => kind.exec(markdown)?.[1] ?? []);
}

function packageOf(file: string): string {
  return file.replace(/^node_modules\//, '').replace(/\/[^/]+$/, '');
}

describe('the corpus of the demo', () => {
  it('lists 40 to 70 files, each once and in order', () => {
    expect(files.length).toBeGreaterThanOrEqual(40);
    expect(files.length).toBeLessThanOrEqual(70);
    expect(files).toEqual([...new Set(files)].sort());
  });

  it.each(files)('%s comes with `npm ci` on every machine', (file) => {
    const locked = lock.packages[`node_modules/${packageOf(file)}`];
    expect(locked).toBeDefined();
    expect(locked).not.toMatchObject({ optional: true });
    expect(locked).not.toMatchObject({ peer: true });
    expect(locked?.os).toBeUndefined();
    expect(existsSync(join(root, file))).toBe(true);
    expect(statSync(join(root, file)).size).toBeGreaterThan(500);
  });
});

describe('the questions of the demo', () => {
  it('are fifteen, each with its own answer in the corpus', () => {
    expect(questions).toHaveLength(15);
    expect(new Set(questions.map((q) => q.question)).size).toBe(15);
    expect(new Set(questions.map((q) => q.expected)).size).toBe(15);
    for (const { expected } of questions) expect(files).toContain(expected);
  });

  it.each(questions)('"$question" shares no word with the name or the title of its answer', ({ question, expected }) => {
    const title = titles(readFileSync(join(root, expected), 'utf8'));
    expect(title).not.toEqual([]);
    const given = new Set([packageOf(expected).toLowerCase(), ...words(packageOf(expected)), ...title.flatMap(words)]);
    expect(words(question).filter((word) => given.has(word))).toEqual([]);
  });
});
