import { describe, expect, it } from 'vitest';
import * as own from '../operators/index.js';
import * as interop from '../operators/interop.js';
import { behaviourPage } from './matrix/page.js';
import type { Row } from './matrix/rows.js';
import { ROWS } from './matrix/rows.js';
import { matrix } from './matrix/table.js';
import { fileOf, operators } from './package/files.js';

/** An operator that no event can happen to: it answers at once, and keeps nothing. */
const WITHOUT_ROWS = ['classifyError'];

const rows = Object.keys(ROWS) as Row[];

describe('the behaviour matrix', () => {
  it('has every operator', () => {
    // What has no page is a value for an option, or an error.
    const names = Object.keys({ ...own, ...interop }).filter((name) => operators.includes(fileOf(name)) && !WITHOUT_ROWS.includes(name));
    expect(names.length).toBeGreaterThan(25);
    expect(Object.keys(matrix).toSorted()).toEqual(names.toSorted());
  });

  it('gives a reason for what has no meaning', () => {
    const reasons = Object.values(matrix).flatMap((cells) =>
      rows.map((row) => cells[row]).flatMap((cell) => ('na' in cell ? [cell.na] : [])),
    );
    expect(reasons.filter((reason) => reason.length < 10)).toEqual([]);
  });

  it('stands in docs/behaviour.md (`npx vitest run test/matrix.test.ts -u` writes it)', async () => {
    await expect(behaviourPage(matrix)).toMatchFileSnapshot('../docs/behaviour.md');
  });
});

describe.each(Object.keys(matrix))('%s', (operator) => {
  const asked = rows.flatMap((row) => {
    const cell = matrix[operator]?.[row];
    return cell && 'check' in cell ? [{ event: ROWS[row].toLowerCase(), what: cell.what, check: cell.check }] : [];
  });

  it.each(asked)('$event: $what', { timeout: 60_000 }, async ({ check }) => {
    await check();
  });
});
