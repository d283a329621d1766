import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MOST_CHARS, MOST_DEPTH, MOST_VALUES } from '../../src/edge/config/depth.js';
import { parseConfig } from '../../src/edge/index.js';

function problemsOf(input: unknown, format: 'yaml' | 'json' = 'yaml') {
  const parsed = parseConfig(input, { format });
  return 'problems' in parsed ? parsed.problems : [];
}

const tooDeep = `At most ${String(MOST_DEPTH)} levels are allowed.`;

/** Each line is inside the one before it. */
const block =
  (mark: string, longest = 1) =>
  (depth: number) =>
    Array.from({ length: depth }, (_, i) => `${' '.repeat(i)}${mark.replace('k', 'k'.repeat(Math.max(1, longest - 2 * i)))}\n`).join('');

const deep: readonly (readonly [string, (depth: number) => string])[] = [
  ['lists', (depth) => '['.repeat(depth)],
  ['lists, on lines', (depth) => '[\n'.repeat(depth)],
  ['lists that end', (depth) => `${'['.repeat(depth)}${']'.repeat(depth)}`],
  ['mappings', (depth) => '{a: '.repeat(depth)],
  ['mappings as JSON', (depth) => '{"a":'.repeat(depth)],
  ['lists in a mapping', (depth) => `a:\n  b: ${'['.repeat(depth)}`],
  ['marks of lists', (depth) => '- '.repeat(depth)],
  ['marks of keys', (depth) => '? '.repeat(depth)],
  ['lists below each other', block('-')],
  ['keys below each other', block('k:')],
  ['long keys below each other', block('k:', 4000)],
  ['keys and lists by turns', (depth) => Array.from({ length: depth }, (_, i) => `${' '.repeat(i)}k:\n${' '.repeat(i)}-\n`).join('')],
  ['behind brackets in texts', (depth) => `a: "]]]"\nb: |\n  ]]]]\nc: ${'['.repeat(depth)}`],
];

describe('a configuration that is too deep', () => {
  it.each(deep)('is one problem with its place: %s', (_, make) => {
    for (const depth of [MOST_DEPTH + 10, 1000, 5000]) {
      // Some versions of Node end the process when this is repeated.
      if (make(depth).length > MOST_CHARS) continue;
      for (let i = 0; i < 5; i++) {
        const problems = problemsOf(make(depth));
        expect(problems).toHaveLength(1);
        expect(problems[0]).toMatchObject({ path: '', expected: tooDeep });
        expect(problems[0]?.line).toBeGreaterThan(0);
        expect(problems[0]?.column).toBeGreaterThan(0);
      }
    }
  });

  it('is found where it gets too deep', () => {
    expect(problemsOf(`a: 1\nb:\n  ${'['.repeat(200)}`)[0]).toMatchObject({ line: 3, column: 2 + MOST_DEPTH });
  });

  it('as a value: not more than a text may be', () => {
    let value: unknown = 1;
    for (let i = 0; i < 100_000; i++) value = [value];
    expect(problemsOf(value)).toHaveLength(1);
    const itself: Record<string, unknown> = {};
    itself['again'] = itself;
    expect(problemsOf(itself)).toHaveLength(1);
  });

  it('brackets in texts are text', () => {
    const brackets = '['.repeat(300);
    for (const text of [
      `name: "${brackets}"`,
      `name: '${brackets}'`,
      `name: x${brackets}`,
      `name: |\n  ${brackets}`,
      `name: x # ${brackets}`,
      `name: >-\n\n  ${brackets}\n`,
    ])
      expect(
        problemsOf(text).filter(({ expected }) => expected === tooDeep),
        text.slice(0, 20),
      ).toEqual([]);
  });

  it('anything of brackets, marks and texts is answered', () => {
    const piece = fc.constantFrom(
      '[',
      ']',
      '{',
      '}',
      '- ',
      '? ',
      'a: ',
      '\n',
      '  ',
      '"',
      "'",
      '|\n',
      '#',
      '&x ',
      '*x',
      ',',
      '!!map ',
      '---\n',
      '\t',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 300 }), (pieces) => {
        parseConfig(pieces.join(''));
      }),
      { numRuns: 200 },
    );
  });
});

describe('a configuration that is too large', () => {
  it('is one problem', () => {
    expect(problemsOf(`name: ${'x'.repeat(MOST_CHARS)}`)).toMatchObject([{ expected: `At most ${String(MOST_CHARS)} are allowed.` }]);
  });

  it('counts what anchors stand for', () => {
    const many = `a: &a [${'1,'.repeat(MOST_VALUES / 20)}]\nb: [${Array.from({ length: 30 }, () => '*a').join(',')}]\n`;
    expect(problemsOf(many)).toMatchObject([{ expected: expect.stringContaining(`At most ${String(MOST_VALUES)} values`) as string }]);
    const laughs = Array.from(
      { length: 12 },
      (_, i) => `a${String(i)}: &a${String(i)} [${Array.from({ length: 9 }, () => (i === 0 ? 'x' : `*a${String(i - 1)}`)).join(',')}]`,
    );
    expect(problemsOf(laughs.join('\n'))).toHaveLength(1);
  });
});
