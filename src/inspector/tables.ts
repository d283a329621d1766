import { make, told, words } from './dom.js';
import type { FlowModel } from './flow-model.js';
import type { FlowBatch } from './flow-parts.js';

/** A line of a table, by column. */
type Line = Readonly<Record<string, unknown>>;

/** Everything in numbers: what the picture shows, for who reads or copies it. */
export function tables({ lanes, slots, ended }: FlowModel): HTMLElement[] {
  return [
    table('Lanes', 'name accepted waiting executing settled p50Ms p99Ms', lanes),
    table('Calls under way', 'label lane operator size attempt', slots.flatMap(lineOf)),
    table('The last calls', 'label lane outcome size attempt depth latencyMs', ended.flatMap(lineOf).reverse()),
  ];
}

function lineOf(call: FlowBatch | undefined): object[] {
  return call ? [{ ...call, lane: call.lane.name }] : [];
}

/** @param columns their names, most of them those of the fields in them */
function table(caption: string, columns: string, lines: readonly object[]): HTMLElement {
  const names = columns.split(' ');
  const heads = names.map((name) => make('th', { scope: 'col' }, words(name)));
  const rows = (lines.length > 0 ? (lines as readonly Line[]) : [{ [names[0] as string]: 'none' }]).map((line) =>
    make('tr', {}, ...names.map((name, i) => (i > 0 ? make('td', {}, told(line[name])) : make('th', { scope: 'row' }, told(line[name]))))),
  );
  return make('table', {}, make('caption', {}, caption), make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...rows));
}
