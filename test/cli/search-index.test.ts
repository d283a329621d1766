import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { IndexEntry } from '../../src/cli/index-file.js';
import { hitText } from '../../src/cli/search-command.js';
import { searchIndex } from '../../src/cli/search-index.js';

function entry(file: string, startLine: number, ...vector: number[]): IndexEntry {
  return { file, startLine, endLine: startLine, sha256: '', text: `${file} ${String(startLine)}`, vector: Float32Array.from(vector) };
}

const places = (entries: readonly IndexEntry[], question: number[], top = 10): string[] =>
  searchIndex(entries, Float32Array.from(question), top).map((hit) => hit.entry.text);

it('puts the closest direction first, whatever the length', () => {
  const entries = [entry('far', 1, 0, 9), entry('near', 1, 3, 0.1), entry('opposite', 1, -1, 0), entry('half', 1, 1, 1)];
  expect(places(entries, [5, 0])).toEqual(['near 1', 'half 1', 'far 1', 'opposite 1']);
  expect(places(entries, [5, 0], 2)).toEqual(['near 1', 'half 1']);
});

it('orders equal scores by file and line', () => {
  const entries = [entry('b', 2, 1, 0), entry('b', 10, 1, 0), entry('a', 3, 1, 0), entry('b', 1, 1, 0)];
  expect(places(entries, [1, 0])).toEqual(['a 3', 'b 1', 'b 2', 'b 10']);
});

it('scores 1 for itself and 0 for a vector without direction', () => {
  const [itself, nothing] = searchIndex([entry('a', 1, 3, 4), entry('b', 1, 0, 0)], Float32Array.of(3, 4), 2);
  expect(itself?.score).toBeCloseTo(1, 6);
  expect(nothing?.score).toBe(0);
});

it('finds nothing in nothing', () => {
  expect(searchIndex([], Float32Array.of(1), 5)).toEqual([]);
});

it('finds the same whatever order the passages come in', () => {
  const vectors = fc.array(fc.tuple(fc.integer({ min: -3, max: 3 }), fc.integer({ min: -3, max: 3 })), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(vectors, fc.integer({ min: 1, max: 25 }), (all, top) => {
      const entries = all.map(([x, y], i) => entry(i % 2 === 0 ? 'a' : 'b', i, x, y));
      expect(places(entries.toReversed(), [1, 2], top)).toEqual(places(entries, [1, 2], top));
    }),
  );
});

it('prints score, place and the first lines', () => {
  const text = Array.from({ length: 8 }, (_, i) => `line ${String(i)}`).join('\n');
  expect(hitText({ entry: { ...entry('a.md', 3), endLine: 10, text }, score: 0.51239 })).toBe(
    '0.512  a.md:3-10\n  line 0\n  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  … 2 more lines\n\n',
  );
});
