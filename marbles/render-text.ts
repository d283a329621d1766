import type { Column, Layout, Row, Values } from './layout.js';
import { columnsOf, endOf, layOut, rowsOf } from './layout.js';
import type { MarblePicture, Recording, Run } from './spec.js';

/**
 * Draws what happened: inputs, the call, inner streams where they were really subscribed to (dots while their items waited for that),
 * the result, and a legend.
 *
 * @stable
 * @example
 * ```ts
 * import { delay } from 'rxjs';
 * import { record, renderText } from 'sluice/marbles';
 *
 * const spec = { label: 'delay(3)', inputs: { source: '-a|' }, build: ({ input }) => input('source').pipe(delay(3)) };
 * renderText(spec, record(spec)).split('\n'); // => ['source  -a|', '        delay(3)', 'result  ----(a|)']
 * ```
 */
export function renderText(spec: MarblePicture, recording: Recording): string {
  return drawText(rowsOf(spec, recording), spec.values);
}

/** Draws some runs one under the other, with a legend. */
export function renderRuns(runs: readonly Run[], values?: Values): string {
  return drawText(runs, values);
}

/**
 * All drawings of one operator, as the text of one file. `source` is the file of their specs.
 */
export function renderPage(source: string, drawings: readonly { readonly title: string; readonly text: string }[]): string {
  const parts = drawings.map(({ title, text }) => `## ${title}\n\n${text}\n`);
  return [`Generated from ${source} by running it: do not edit.\n`, ...parts].join('\n');
}

function drawText(rows: readonly Row[], values?: Values): string {
  const layout = layOut(rows, values);
  const columns = columnsOf(
    layout,
    (letters) => tokenOf(letters).length,
    (ms) => silence(ms).length,
  );
  const indent = Math.max(...layout.runs.map((run) => run.name.length)) + 2;
  const lines = rows.map((row) => {
    if ('label' in row) return ' '.repeat(indent) + row.label;
    return (row.name.padEnd(indent) + lineOf(row, layout, columns)).trimEnd();
  });
  return [...lines, ...layout.legend.map((line) => ' '.repeat(indent) + line)].join('\n');
}

/** Marbles of one frame, in parentheses when they are several. */
function tokenOf(letters: string): string {
  return Array.from(letters).length > 1 ? `(${letters})` : letters;
}

function silence(ms: number): string {
  return ` ${String(ms)}ms `;
}

function lineOf(run: Run, { letters }: Layout, columns: readonly Column[]): string {
  const endsAt = endOf(run);
  const waitingFrom = run.waitingFrom ?? run.from;
  return columns
    .map(({ frame, width, silentMs }) => {
      if (frame < waitingFrom || frame > endsAt) return ' '.repeat(width);
      const marbles = silentMs === undefined ? tokenOf(letters.get(run)?.get(frame) ?? '') : silence(silentMs);
      if (frame < run.from) return marbles.padEnd(width, '.');
      return frame === endsAt ? marbles.padEnd(width) : marbles.padEnd(width, '-');
    })
    .join('');
}
