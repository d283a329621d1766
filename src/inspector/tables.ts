import { make } from './dom.js';
import type { FlowModel } from './flow-model.js';

/** A line of a table, by column. */
type Line = Readonly<Record<string, unknown>>;

/** Everything in numbers: what the picture shows, for who reads or copies it. */
export function tables({ counters, lanes, slots, ended, limits }: FlowModel): HTMLElement[] {
  return [
    table(
      'Totals',
      'what now',
      Object.entries<unknown>({ ...counters }).map(([name, now]) => ({ what: words(name), now })),
    ),
    table('Lanes', 'name accepted waiting executing settled p50Ms p99Ms', lanes),
    table(
      'Calls under way',
      'items lane operator size attempt',
      slots.flatMap((call) => (call ? [{ ...call, items: call.label, lane: call.lane.name }] : [])),
    ),
    table(
      'The last calls',
      'items outcome size attempt cut latencyMs',
      ended
        .slice(-20)
        .reverse()
        .map((call) => ({ ...call, items: call.label, cut: call.depth })),
    ),
    table(
      'Limits',
      'name executing queued heldByRate heldBySlot left',
      limits.map((limit) => ({ ...limit, left: limit.rates.map(({ unit, left }) => `${unit} ${figure(left)}`).join(', ') })),
    ),
  ];
}

/** @param columns their names, most of them those of the fields in them */
function table(caption: string, columns: string, lines: readonly object[]): HTMLElement {
  const names = columns.split(' ');
  const heads = names.map((name) => make('th', { scope: 'col' }, words(name)));
  const rows = (lines.length > 0 ? (lines as readonly Line[]) : [{ [names[0] as string]: 'none' }]).map((line) =>
    make(
      'tr',
      {},
      ...names.map((name, i) => (i > 0 ? make('td', {}, figure(line[name])) : make('th', { scope: 'row' }, figure(line[name])))),
    ),
  );
  return make('table', {}, make('caption', {}, caption), make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...rows));
}

/** `callsSaved`: calls saved. */
function words(name: string): string {
  return name.replace(/Ms$/, ', ms').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function figure(value: unknown): string {
  if (typeof value === 'number') return String(Math.round(value * 100) / 100);
  return typeof value === 'string' ? value : '';
}
