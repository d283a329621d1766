import type { Preset } from '../engine/preset.js';
import type { Field, NumberName } from '../engine/scenario.js';
import { FAIRNESS, FIELDS, wrongIn } from '../engine/scenario.js';
import type { Scenario } from '../engine/setting.js';
import { h, write } from './dom.js';

const GROUPS: readonly (readonly [title: string, names: readonly (NumberName | 'fairness')[]])[] = [
  ['Load', ['p0', 'p1', 'p2', 'burst', 'tokens']],
  ['Pipeline', ['windowMs', 'maxSize', 'concurrency', 'fairness']],
  ['Provider', ['latencyMs', 'spread', 'requestsPerMinute', 'tokensPerMinute', 'slowdown']],
  ['Faults', ['poison', 'failures']],
  ['Run', ['seconds', 'seed']],
];
const WHOLE: readonly string[] = ['seed', 'concurrency', 'maxSize'];
const LOADS: readonly string[] = ['p0', 'p1', 'p2'];

export interface Controls {
  readonly element: HTMLElement;
  /** Shows what may be set of this preset, and how it is. */
  show(preset: Preset, scenario: Scenario): void;
}

/** Everything that a scenario says, to be set; `set` is told of a whole scenario that is in order. */
export function controls(set: (scenario: Scenario) => void): Controls {
  let current: Scenario | undefined;
  const rows = new Map<string, { readonly row: HTMLElement; readonly label: HTMLElement; readonly write: (scenario: Scenario) => void }>();
  const change = (part: Partial<Scenario>): void => {
    if (!current) return;
    current = { ...current, ...part };
    set(current);
  };
  for (const [name, field] of Object.entries(FIELDS)) {
    rows.set(
      name,
      numberRow(name, field, (value) => {
        change({ [name]: value });
      }),
    );
  }
  rows.set(
    'fairness',
    choiceRow((fairness) => {
      change({ fairness });
    }),
  );

  const groups = GROUPS.map(([title, names]) => {
    const inside = names.map((name) => rows.get(name)?.row as HTMLElement);
    return { names, set: h('fieldset', {}, h('legend', {}, title), ...inside) };
  });
  return {
    element: h('form', { class: 'controls', 'aria-label': 'Settings', submit: stop }, ...groups.map((group) => group.set)),
    show: ({ pipeline, lanes }, scenario) => {
      current = scenario;
      const used: readonly string[] = [...pipeline.fields, ...(pipeline.hasFairness ? ['fairness'] : [])];
      for (const [name, row] of rows) {
        row.row.hidden = !used.includes(name);
        row.write(scenario);
        const lane = lanes[LOADS.indexOf(name)];
        if (lane !== undefined) write(row.label, lane === '–' ? `Lane ${name.toUpperCase()}` : `${name.toUpperCase()} · ${lane}`);
      }
      for (const { names, set: group } of groups) group.hidden = !names.some((name) => used.includes(name));
    },
  };
}

function stop(event: Event): void {
  event.preventDefault();
}

/** A slider for the hand and a field for the exact number, of the same thing. */
function numberRow(name: string, field: Field, set: (value: number) => void) {
  const { label, unit, min, max, step, about } = field;
  const id = `set-${name}`;
  const scale = max / Math.max(min, step) > 1000 || max > 1000 ? LOG : LINEAR;
  const number = h('input', {
    id,
    type: 'number',
    min,
    max,
    step: WHOLE.includes(name) ? 1 : 'any',
    inputmode: 'decimal',
    'aria-describedby': `${id}-about ${id}-wrong`,
  });
  const slider = h('input', {
    type: 'range',
    min: 0,
    max: 1000,
    step: 1,
    'aria-label': `${label}, slider`,
    'aria-describedby': `${id}-about`,
  });
  const wrong = h('span', { id: `${id}-wrong`, class: 'wrong', role: 'status' });
  const caption = h('span', {}, label);
  const show = (value: number): void => {
    number.value = String(value);
    slide(value);
  };
  const slide = (value: number): void => {
    slider.value = String(Math.round(1000 * scale.toShare(value, field)));
    slider.setAttribute('aria-valuetext', `${String(value)} ${unit}`.trim());
  };
  number.addEventListener('change', () => {
    const problem = wrongIn(field, number.value, WHOLE.includes(name));
    write(wrong, problem === undefined ? '' : `${label} ${problem}`);
    number.setAttribute('aria-invalid', String(problem !== undefined));
    if (problem !== undefined) return;
    slide(Number(number.value));
    set(Number(number.value));
  });
  slider.addEventListener('input', () => {
    const value = rounded(scale.fromShare(Number(slider.value) / 1000, field), field);
    show(value);
    write(wrong, '');
    set(value);
  });
  const row = h(
    'div',
    { class: 'row' },
    h('label', { for: id }, caption),
    h('span', { class: 'value' }, number, h('span', { class: 'unit' }, unit)),
    slider,
    h('span', { id: `${id}-about`, class: 'about' }, about),
    wrong,
  );
  return {
    row,
    label: caption,
    write: (scenario: Scenario) => {
      show(scenario[name as NumberName]);
      write(wrong, '');
    },
  };
}

function choiceRow(set: (fairness: Scenario['fairness']) => void) {
  const select = h('select', { id: 'set-fairness' }, ...Object.entries(FAIRNESS).map(([value, text]) => h('option', { value }, text)));
  select.addEventListener('change', () => {
    set(select.value as Scenario['fairness']);
  });
  const caption = h('span', {}, 'Lanes');
  return {
    row: h('div', { class: 'row' }, h('label', { for: 'set-fairness' }, caption), h('span', { class: 'value' }, select)),
    label: caption,
    write: ({ fairness }: Scenario) => {
      select.value = fairness;
    },
  };
}

interface Scale {
  toShare(value: number, field: Field): number;
  fromShare(share: number, field: Field): number;
}

const LINEAR: Scale = {
  toShare: (value, { min, max }) => (value - min) / (max - min),
  fromShare: (share, { min, max }) => min + share * (max - min),
};

/** The lower half of a wide range is as long as its upper half. */
const LOG: Scale = {
  toShare: (value, { min, max, step }) => Math.log((value - min + step) / step) / Math.log((max - min + step) / step),
  fromShare: (share, { min, max, step }) => min - step + step * ((max - min + step) / step) ** share,
};

/** To the field's step, and to two digits where it is large. */
function rounded(value: number, { min, max, step }: Field): number {
  const digits = Math.max(step, 10 ** (Math.floor(Math.log10(Math.max(value, step))) - 1));
  const near = Math.round(value / digits) * digits;
  return Math.min(max, Math.max(min, Math.round(near * 100) / 100));
}
