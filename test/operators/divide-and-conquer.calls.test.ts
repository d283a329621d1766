import { readFileSync } from 'node:fs';
import { of, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { type DivideStrategy, divideAndConquer, sequentialSearch } from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { wholeList } from '../support/whole-list.js';

const SIZE = 100;
const refused = Object.assign(new Error('refused'), { status: 400 });

/** By the name that the page has for them. */
const strategies: Record<string, { strategy?: DivideStrategy }> = {
  none: {},
  '`sequentialSearch()`': { strategy: sequentialSearch() },
};

function callsFor(bad: ReadonlySet<number>, options: { strategy?: DivideStrategy }): number {
  let calls = 0;
  const work = (items: readonly number[]) => {
    calls++;
    return items.some((item) => bad.has(item)) ? throwError(() => refused) : of(items);
  };
  const rejected: number[] = [];
  const all = Array.from({ length: SIZE }, (_, item) => item);
  wholeList(work, { repair: divideAndConquer(options) })(all).subscribe((results) => {
    for (const { status, input } of results) if (status === 'rejected') rejected.push(input);
  });
  expect(rejected).toEqual([...bad].sort((a, b) => a - b));
  return calls;
}

/** Every place for one bad item; for more of them a sample that is always the same. */
function placements(count: number): Set<number>[] {
  if (count === 1) return Array.from({ length: SIZE }, (_, item) => new Set([item]));
  let state = 1;
  const item = () => (state = (state * 48_271) % 2_147_483_647) % SIZE;
  return Array.from({ length: sized(250, 500) }, () => {
    const bad = new Set<number>();
    while (bad.size < count) bad.add(item());
    return bad;
  });
}

/** The mean numbers of calls that the page gives for 1, 2 and 5 bad items among 100. */
function onThePage(strategy: string): number[] {
  const page = readFileSync(new URL('../../docs/values.md', import.meta.url), 'utf8');
  expect(page).toContain('calls for 1, 2, 5 bad among 100');
  const row = page.split('\n').find((line) => line.startsWith(`| ${strategy} |`));
  expect(row, `a row for ${strategy}`).toBeDefined();
  return row?.split('|')[3]?.split(',').map(Number) ?? [];
}

describe.each(Object.entries(strategies))('the calls of a division with strategy %s', (name, options) => {
  it.each([1, 2, 5])('for %d bad items among 100 are those on the page', (count) => {
    const bads = placements(count);
    const mean = bads.reduce((sum, bad) => sum + callsFor(bad, options), 0) / bads.length;
    expect(Math.abs(mean - (onThePage(name)[[1, 2, 5].indexOf(count)] ?? NaN))).toBeLessThan(count === 1 ? 0.05 : 0.25);
  });
});
