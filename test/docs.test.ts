import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { specs as exercises } from '../examples/exercises/drawings.js';
import { draw, drawSvg } from '../marbles/draw.js';
import { roster } from '../marbles/roster.js';
import { docComments, examplesInPage, examplesInSource, fences, runExample, withDrawing } from './support/doctest.js';
import { camelCase, marbleFiles } from './support/marble-files.js';

const ROOT = new URL('../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, ROOT), 'utf8');
const list = (folder: string, end: string): string[] =>
  existsSync(new URL(folder, ROOT))
    ? readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith(end))
        .map((name) => `${folder}/${name}`)
        .sort()
    : [];

const CONTRACT = ['Emits when', 'Holds at most', 'Completes when', 'Errors when', 'On unsubscribe'];
const HEADINGS = ['Contract', 'Defaults', 'Telemetry', 'Diagram', 'Patterns', 'Anti-patterns'];

// Whether the specs hold is the matter of test/marbles.test.ts.
const allSpecs = [...(await marbleFiles()).flatMap(({ specs }) => specs), ...exercises];
const drawings = new Map(
  allSpecs.flatMap((spec) => {
    const text = draw(spec);
    return [[`${spec.operator} ${spec.title}`, text] as const, ...(spec.cover ? [[spec.operator, text] as const] : [])];
  }),
);

/** Every `text marbles/<operator>` block (the cover) and `text marbles/<operator> <title>` block (one example) of a text. */
function drawn(text: string): { readonly name: string; readonly code: string }[] {
  return [...text.matchAll(/^```text marbles\/(.+)$/gm)].flatMap(([, name = '']) =>
    fences(text, `text marbles/${name}`).map(({ code }) => ({ name, code })),
  );
}

/** Every picture of a page: what it says it shows, and its file. */
function pictures(page: string): { readonly name: string; readonly file: string }[] {
  return [...page.matchAll(/^!\[(.*)\]\((?:\.\.\/)+(marbles\/diagrams\/.+\.svg)\)$/gm)].map(([, name = '', file = '']) => ({ name, file }));
}

async function showsWhatHappens({ name, file }: { readonly name: string; readonly file: string }): Promise<void> {
  const spec = allSpecs.find(({ operator, title }) => name === `${operator}: ${title}`);
  if (spec === undefined) throw new Error(`no example is called '${name}'`);
  await expect(drawSvg(spec)).toMatchFileSnapshot(`../${file}`);
}

function sourceOf(operator: string): string {
  const path = list('operators', '.ts').find((file) => camelCase(file.replace(/^operators\/(.+)\.ts$/, '$1')) === operator);
  if (path === undefined) throw new Error(`no file in operators/ is named after ${operator}`);
  return path;
}

describe.each(roster)('the doc comment of $operator', ({ operator }) => {
  const source = read(sourceOf(operator));
  const declared = source.indexOf(`export function ${operator}`);
  const comment = docComments(source).findLast(({ end }) => end < declared)?.text ?? '';

  it.each(CONTRACT)('says: %s', (line) => {
    expect(comment).toMatch(new RegExp(`^- \\*\\*${line}\\*\\* \\S`, 'm'));
  });

  it('shows the drawing of its cover example, and runs', () => {
    const [first] = drawn(comment);
    expect(first).toEqual({ name: operator, code: drawings.get(operator) });
    expect(fences(comment, 'ts')).not.toHaveLength(0);
  });
});

describe.each(list('docs/operators', '.md'))('%s', (path) => {
  const page = read(path);
  const operator = camelCase(path.replace(/^docs\/operators\/(.+)\.md$/, '$1'));

  it('starts with which operator to choose', () => {
    const beginning = page.replace(/^(# \w+\n\n)```ts doctest\n[^]*?\n```\n\n/, '$1');
    expect(beginning).toMatch(new RegExp(`^# ${operator}\\n\\nTake \`${operator}\` when \\S`));
  });

  it('has the same sections as every operator page', () => {
    expect([...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)).toEqual(HEADINGS);
  });

  it('shows drawings of what really happens', () => {
    const blocks = drawn(page);
    // What reads promises or is no stream has no drawing; which those are, and why, stands in test/package.
    if (drawings.has(operator)) expect(blocks).toContainEqual({ name: operator, code: drawings.get(operator) });
    expect(blocks.filter(({ name, code }) => code !== drawings.get(name))).toEqual([]);
  });

  it('shows the picture of its cover example, and those of others as they really run', async () => {
    const [cover, ...others] = pictures(page);
    expect(cover?.file).toBe(drawings.has(operator) ? `marbles/diagrams/${operator}.svg` : undefined);
    if (cover) expect(existsSync(new URL(cover.file, ROOT))).toBe(true);
    for (const picture of others) await showsWhatHappens(picture);
  });
});

describe.each([
  'README.md',
  ...list('docs/guides', '.md'),
  'docs/exercises.md',
  'docs/frontends.md',
  'docs/react.md',
  'docs/devtools.md',
  'docs/pipelines/create-agent-turn.md',
])('%s', (path) => {
  const page = read(path);

  it('shows drawings and pictures of what really happens', async () => {
    expect(drawn(page).filter(({ name, code }) => code !== drawings.get(name))).toEqual([]);
    for (const picture of pictures(page)) await showsWhatHappens(picture);
  });

  it('shows files of examples/ as they stand there, with imports as a user writes them', () => {
    for (const [, file = ''] of page.matchAll(/^```tsx? (examples\/.+)$/gm)) {
      const asUsed = read(file).replaceAll(
        /'(?:\.\.\/)+(?:src\/)?(?:(operators|marbles|frontend|inspector)\/)?(index|react|devtools|recordings)\.js'/g,
        (_all, folder: string, name: string) => `'sluice/${name === 'index' ? folder : name}'`,
      );
      const info = `${file.split('.').at(-1)!} ${file}`;
      expect(fences(page, info).map(({ code }) => `${code}\n`)).toEqual([asUsed]);
    }
  });
});

describe.each(list('examples/frontends', '.ts'))('%s', (file) => {
  it('has at most ten lines', () => {
    const own = read(file)
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('import ') && !line.startsWith('/**'));
    expect(own.length).toBeLessThanOrEqual(10);
  });
});

const examples = [
  ...['operators', 'marbles', 'src'].flatMap((folder) => list(folder, '.ts')).flatMap((path) => examplesInSource(path, read(path))),
  ...[...list('docs', '.md'), 'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md'].flatMap((path) =>
    examplesInPage(path, read(path)).map((example) => withDrawing(example, read(path))),
  ),
];

describe('the examples', () => {
  it.each(examples)('$where', async (example) => {
    const checks = await runExample(example);
    expect(checks, 'an example needs a line `expression; // => value`').not.toHaveLength(0);
    for (const { line, actual, expected } of checks) expect(actual, `line ${String(line)}`).toEqual(expected);
  });
});
