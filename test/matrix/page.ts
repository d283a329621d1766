import type { Cell, Cells, Row } from './rows.js';
import { ROWS } from './rows.js';

/** The matrix in words: a table for every event. */
export function behaviourPage(matrix: Readonly<Record<string, Cells>>): string {
  const operators = Object.keys(matrix).toSorted();
  const tables = (Object.keys(ROWS) as Row[]).flatMap((row) => {
    const cells = operators.flatMap((operator) => {
      const found = matrix[operator]?.[row];
      return found === undefined ? [] : [[operator, found] as const];
    });
    return [
      `## ${ROWS[row]}`,
      '',
      '| operator | what happens |',
      '| --- | --- |',
      ...cells.map(([operator, found]) => `| \`${operator}\` | ${text(found)} |`),
      '',
    ];
  });
  return [
    '# What every operator does when',
    '',
    'Fourteen events, and what each operator makes of them. Every line is a test: `npx vitest run test/matrix.test.ts` runs them, and with',
    '`-u` it writes this page. A dash says that the event has no meaning for the operator, and why.',
    '',
    ...tables,
  ]
    .join('\n')
    .trimEnd()
    .concat('\n');
}

function text(cell: Cell): string {
  return 'na' in cell ? `– (${cell.na})` : cell.what;
}
