import type { Counts } from '../engine/setting.js';
import type { Side } from '../engine/sides.js';
import { SIDES } from '../engine/sides.js';
import { h, write } from './dom.js';

const NUMBERS: readonly (readonly [name: keyof Counts, label: string, about: string])[] = [
  ['lost', 'Lost', 'callers who never hear of their item again'],
  ['p99Ms', '99 % of user calls within', 'from arrival to answer, or so far'],
  ['p50Ms', 'Half of user calls within', 'from arrival to answer, or so far'],
  ['calls', 'Calls', 'requests to the provider, repeats included'],
  ['throttled', '429s', 'calls the provider refused for its rates'],
  ['wasted', 'Wasted calls', 'answered in full when nobody wanted it'],
  ['tokens', 'Tokens sent', 'by all calls'],
  ['answered', 'Answered', 'items with an answer'],
  ['refused', 'Refused', 'items whose caller was told an error'],
  ['left', 'Replaced', 'by a newer item before the answer'],
];

export const SIDE_NAMES: Readonly<Record<Side, string>> = { plain: 'Plain RxJS', sluice: 'Sluice' };

export interface Numbers {
  readonly element: HTMLElement;
  /** Which of them tell the story: they come first. */
  tell(names: readonly (keyof Counts)[]): void;
  show(counts: Readonly<Record<Side, Counts>>): void;
}

/** The same numbers of both boards, beside each other. */
export function numbers(): Numbers {
  const cards = new Map(
    NUMBERS.map(([name, label, about]) => {
      const values = { plain: h('td'), sluice: h('td') };
      const bars = { plain: h('span', { class: 'bar plain' }), sluice: h('span', { class: 'bar sluice' }) };
      const rows = SIDES.map((side) => {
        const value = values[side];
        value.dataset['number'] = `${side}.${name}`;
        return h(
          'tr',
          {},
          h('th', { scope: 'row' }, SIDE_NAMES[side]),
          h('td', { class: 'track', 'aria-hidden': 'true' }, bars[side]),
          value,
        );
      });
      const table = h('table', { title: about }, h('caption', {}, label), h('tbody', {}, ...rows));
      return [name, { table, values, bars }] as const;
    }),
  );
  const first = h('div', { class: 'numbers' });
  const others = h('div', { class: 'numbers' });
  const element = h(
    'section',
    { class: 'comparison', 'aria-label': 'Numbers' },
    first,
    h('details', {}, h('summary', {}, 'More numbers'), others),
  );
  return {
    element,
    tell: (names) => {
      const tables = (tell: boolean): HTMLElement[] =>
        [...cards].filter(([name]) => names.includes(name) === tell).map(([, { table }]) => table);
      first.replaceChildren(...tables(true));
      others.replaceChildren(...tables(false));
    },
    show: (counts) => {
      for (const [name, { values, bars }] of cards) {
        const most = Math.max(1, counts.plain[name], counts.sluice[name]);
        for (const side of SIDES) {
          write(values[side], shown(name, counts[side][name]));
          bars[side].style.transform = `scaleX(${String(Math.round((1000 * counts[side][name]) / most) / 1000)})`;
        }
      }
    },
  };
}

function shown(name: keyof Counts, value: number): string {
  if (name === 'p50Ms' || name === 'p99Ms') return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${String(Math.round(value))} ms`;
  return value >= 100_000 ? `${String(Math.round(value / 1000))} k` : value.toLocaleString('en');
}
