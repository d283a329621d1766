import { describe, expect, it } from 'vitest';
import * as exported from '../operators/index.js';
import { behaviourPage } from './matrix/page.js';
import type { Row } from './matrix/rows.js';
import { ROWS } from './matrix/rows.js';
import { matrix } from './matrix/table.js';

/** Functions that no event can happen to, and why. */
const WITHOUT_ROWS: Readonly<Record<string, string>> = {
  classifyError: 'answers at once, and keeps nothing',
  isFlowError: 'answers at once, and keeps nothing',
  show: 'answers at once, and keeps nothing',
  splitItem: 'a value for an option',
};

const rows = Object.keys(ROWS) as Row[];

describe('the behaviour matrix', () => {
  it('has every operator', () => {
    // Classes are errors and records; options have their defaults in capitals.
    const operators = Object.entries(exported).flatMap(([name, value]) =>
      typeof value === 'function' && /^[a-z]/.test(name) ? [name] : [],
    );
    expect(Object.keys(matrix).toSorted()).toEqual(operators.filter((name) => !(name in WITHOUT_ROWS)).toSorted());
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
