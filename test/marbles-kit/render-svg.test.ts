import { concatMap, map, merge, NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { draw, drawSvg } from '../../marbles/draw.js';
import { seededRandom } from '../../marbles/random.js';
import type { MarblePicture } from '../../marbles/spec.js';

const passes: MarblePicture = { inputs: { source: '-a-b|' }, build: ({ input }) => input('source') };
const picture = (spec: Partial<MarblePicture> = {}): string => drawSvg({ ...passes, ...spec });

/** The row of one stream. */
const rowOf = (svg: string, name: string): string => svg.split('\n').find((line) => line.includes(`class="n">${name}</text>`)) ?? '';
const count = (text: string, piece: string): number => text.split(piece).length - 1;

describe('renderSvg', () => {
  it('is an image with a title and a description in words', () => {
    const svg = picture({ operator: 'pass', title: 'hands on <everything> & more' });
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" .*role="img" aria-labelledby="t d">/);
    expect(svg).toContain('<title id="t">pass: hands on &lt;everything> &amp; more</title>');
    expect(svg).toContain(
      '<desc id="d">source: a at 1 ms, b at 3 ms, completes at 4 ms. result: a at 1 ms, b at 3 ms, completes at 4 ms.</desc>',
    );
  });

  it('says in words which rows wait, start late, error, are left or do nothing', () => {
    const svg = picture({
      inputs: { source: 'ab', other: '-', broken: '----#' },
      inners: { a: '---r|', b: '-------r|' },
      build: ({ input, inner }) => merge(input('source').pipe(concatMap((name) => inner(name))), input('other'), input('broken')),
    });
    expect(svg).toContain('other: is left at 4 ms. broken: errors at 4 ms. a: r at 3 ms, is left at 4 ms.');
    const waits = picture({
      inputs: { source: 'ab' },
      inners: { a: '--r|', b: '-r' },
      build: ({ input, inner }) => input('source').pipe(concatMap((name) => inner(name))),
    });
    expect(waits).toContain('b: waits from 1 ms, starts at 3 ms, r at 4 ms.');
    expect(picture({ inputs: { source: '-' } })).toContain('source: silent.');
  });

  it('has colours for light and for dark pages', () => {
    const svg = picture();
    expect(svg).toMatch(/svg\{--i:#[0-9a-f]+/);
    expect(svg).toMatch(/@media\(prefers-color-scheme:dark\)\{svg\{--i:#[0-9a-f]+/);
    expect(svg).not.toMatch(/<(circle|path)[^>]*#[0-9a-f]{3}/);
  });

  it('shifts a completion that shares its frame with a value', () => {
    const together = rowOf(picture({ inputs: { source: '-a(b|)' } }), 'result');
    const circles = [...together.matchAll(/<circle cx="([\d.]+)"/g)].map(([, x]) => Number(x));
    const bar = Number(/<path class="e" d="M([\d.]+) /.exec(together)?.[1]);
    expect(circles).toHaveLength(2);
    expect(bar - (circles[1] ?? 0)).toBe(18);
  });

  it('frames a group, and only a group', () => {
    expect(count(picture({ inputs: { source: '-(ab)-|' } }), '<rect class="g"')).toBe(2);
    expect(count(picture({ inputs: { source: '-a(b|)' } }), '<rect class="g"')).toBe(0);
  });

  it('draws an error as a cross and a stream that is left as a slash', () => {
    const failing = picture({ inputs: { source: '-a-#' } });
    expect(rowOf(failing, 'result')).toMatch(/<path class="e" d="M[\d.]+ [\d.]+l10 10m0-10l-10 10"\/>/);
    expect(failing).toContain('# = "error"');
    expect(rowOf(picture({ inputs: { source: '-a-' }, unsub: '^--!' }), 'source')).toMatch(/<path d="M[\d.]+ [\d.]+l8-16"\/>/);
  });

  it('draws what waits as a dashed line up to where it starts', () => {
    const svg = picture({
      inputs: { source: 'ab---|' },
      inners: { a: '---r|', b: '-r|' },
      build: ({ input, inner }) => input('source').pipe(concatMap((name) => inner(name))),
    });
    expect(rowOf(svg, 'a')).not.toContain('class="w"');
    const [, from, to] = /<path class="w" d="M([\d.]+) [\d.]+H([\d.]+)"\/><path d="M\2 /.exec(rowOf(svg, 'b')) ?? [];
    expect(Number(to) - Number(from)).toBe(3 * 18);
  });

  it('writes long silence as its length', () => {
    expect(picture({ inputs: { source: '-a 500ms b|' } })).toContain('>500 ms</text>');
  });

  it('has a row for each lane, and names values that have no letter', () => {
    const svg = picture({
      inputs: { source: '-aB|' },
      lanes: { input: 'source', names: ['urgent', 'later'], of: (letter: string) => (letter === 'B' ? 'urgent' : 'later') },
      label: 'lanes',
      build: ({ input }) => input('source').pipe(map((letter) => [letter])),
    });
    expect(count(rowOf(svg, 'urgent'), '<circle')).toBe(1);
    expect(rowOf(svg, 'urgent')).toContain('>B</text>');
    expect(rowOf(svg, 'later')).toContain('>a</text>');
    expect(svg).toContain('>x = ["a"]</text>');
    expect(svg).toContain('>lanes</text>');
  });

  it('breaks a long line of the legend', () => {
    const long = { text: 'x'.repeat(100) };
    const svg = picture({ inputs: { source: 'a|' }, values: { a: long } });
    expect(count(svg, '<text class="k"')).toBe(2);
    expect(Number(/width="(\d+)"/.exec(svg)?.[1])).toBeLessThan(700);
  });

  it('is small and well-formed', () => {
    const svg = picture({ build: ({ input }) => merge(input('source'), NEVER) });
    expect(svg.length).toBeLessThan(2000);
    const open: string[] = [];
    for (const [, close, name = '', rest = ''] of svg.matchAll(/<(\/?)(\w+)([^>]*)>/g)) {
      if (close === '/') expect(open.pop()).toBe(name);
      else if (!rest.endsWith('/')) open.push(name);
    }
    expect(open).toEqual([]);
  });
});

describe('draw', () => {
  it('draws lanes as rows, and any stream that is watched', () => {
    const text = draw({
      label: 'pass',
      inputs: { source: '-aB-|' },
      lanes: { input: 'source', names: ['urgent', 'later'], of: (letter: string) => (letter === 'B' ? 'urgent' : 'later') },
      build: ({ input, watch }) => input('source').pipe(concatMap((letter) => watch(letter, input('source')))),
    });
    expect(text.split('\n').slice(0, 3)).toEqual(['urgent  --B-|', 'later   -a--|', 'urgent   --B-|']);
    expect(text).toContain('\nB         ...-aB-|');
  });
});

describe('seededRandom', () => {
  it('draws evenly from 0 to 1, the same for the same seed', () => {
    const random = seededRandom(3);
    const draws = Array.from({ length: 10_000 }, random);
    expect(Math.min(...draws)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...draws)).toBeLessThan(1);
    for (const tenth of Array.from({ length: 10 }, (_, index) => index / 10)) {
      const share = draws.filter((draw) => draw >= tenth && draw < tenth + 0.1).length / draws.length;
      expect(Math.abs(share - 0.1)).toBeLessThan(0.015);
    }
    const again = seededRandom(3);
    expect(draws.slice(0, 100)).toEqual(Array.from({ length: 100 }, again));
  });
});
