import type { FlowCounters } from './counters.js';
import type { Attributes } from './dom.js';
import { make, time, told, words, write } from './dom.js';
import type { SluiceInspector } from './inspector-types.js';
import type { LimitView } from './limits.js';
import type { Box, Colours, Places } from './picture.js';
import { tables } from './tables.js';
import { createTrees } from './tree-view.js';

const STAGES = [
  ['Lanes', 'What waits. The most urgent lane goes first.'],
  ['Batches', 'A batch closes when a call is free. One that fails comes back in parts.'],
  ['Calls', 'A call carries a whole batch. Each outline is room for one.'],
  ['Done', 'Every item gets its own answer, or the reason why not.'],
] as const;

/** Of what was answered, failed, or was given up. */
const COLOURS = ['ok', 'bad', 'soft'] as const;

export const MOST_LANES = 6;

/** What stands above the picture. */
const FACTS =
  'waiting executing calls callsSaved meanSize meanFill firstLane p50Ms p99Ms throttled retries splits tokens cancelled dropped expired lost';

/** Everything but the marks. */
export interface Page {
  readonly canvas: HTMLCanvasElement;
  readonly root: HTMLElement;
  /** Writes what has changed. */
  show(element: SluiceInspector): void;
  /** A new source: nothing of the old one stays. */
  readonly clear: () => void;
  /** Where everything is, in the coordinates of the canvas. */
  places(): Places;
  colours(): Colours;
}

/** @param changed - something else is to be seen */
export function createPage(element: SluiceInspector, changed: () => void): Page {
  const canvas = make('canvas', { 'aria-hidden': 'true' });
  const heading = make('h2');
  const status = make('p');
  const pause = make('button', { 'data-pause': '' });
  const save = make('button', { 'data-export': '' }, 'Export');
  const facts = make('dl');
  const areas = STAGES.map(() => make('div', { class: 'area' })) as unknown as readonly [Element, Element, Element, Element];
  const [lanes, batches, calls, done] = areas;
  const columns = STAGES.map(([title, text], i) =>
    make('div', { class: 'col' }, make('h3', {}, `${i + 1} ${title}`), make('p', {}, text), areas[i] as Element),
  );
  const stage = make('div', { class: 'stage' }, canvas, ...columns);
  const limits = make('div', { class: 'limits' });
  const trees = createTrees();
  const inside = make('div', { tabindex: 0, role: 'group', 'aria-label': 'lanes and calls' });
  const table = make('details', {}, make('summary', { 'data-table': '' }, 'Table'), inside);
  const header = make('header', {}, heading, status, pause, save);
  const root = make('section', {}, header, facts, stage, limits, trees.element, table);
  table.ontoggle = changed;
  pause.onclick = () => {
    if (element.paused) element.resume();
    else element.pause();
  };
  save.onclick = () => {
    const href = URL.createObjectURL(new Blob([element.export()], { type: 'application/json' }));
    Object.assign(document.createElement('a'), { href, download: 'sluice-recording.json' }).click();
    URL.revokeObjectURL(href);
  };

  return {
    canvas,
    root,
    clear: () => {
      trees.show([]);
    },
    show: ({ model, heading: title, paused, source }) => {
      const { counters, laneParts } = model;
      const { fulfilled, rejected, cancelled, lost } = counters;
      write(heading, title);
      root.ariaLabel = title;
      write(pause, paused ? 'Resume' : 'Pause');
      write(status, source ? (model.version > 0 ? '' : 'waiting for the first event') : 'no source yet');
      const lines = (FACTS.split(' ') as (keyof FlowCounters)[]).map((name) => [
        name === 'throttled' ? '429s' : words(name),
        counters[name],
      ]);
      list(facts, lines, () => make('div', {}, make('dt'), make('dd')));
      (facts.lastElementChild as Element).className = lost > 0 ? 'bad' : 'ok';
      const more = laneParts.length - MOST_LANES;
      const shown = laneParts.slice(0, MOST_LANES).map(({ name, waiting }, i) => {
        const others = i === MOST_LANES - 1 && more > 0 ? `, ${told(more)} more lanes` : '';
        return [name, `${told(waiting.size)} waiting${others}`];
      });
      list(lanes, shown.length > 0 ? shown : [[]], (i) => row(`l${i % 4}`));
      list(
        done,
        [
          ['answered', fulfilled],
          ['failed', rejected],
          ['given up', cancelled + lost],
        ],
        (i) => row(COLOURS[i] ?? ''),
      );
      limits.replaceChildren(...model.limits.map(limit));
      trees.show(model.trees);
      if (table.open) inside.replaceChildren(...tables(model));
    },
    places: () => {
      const { left, top, width, height } = stage.getBoundingClientRect();
      const box = (part: Element): Box => {
        const at = part.getBoundingClientRect();
        return { x: at.left - left, y: at.top - top, w: at.width, h: at.height };
      };
      const each = ({ children }: Element): Box[] => [...children].map(box);
      return { width, height, lanes: each(lanes), batches: box(batches), calls: box(calls), done: each(done) };
    },
    colours: () => {
      const read = (name: string): string => {
        root.style.setProperty('outline-color', `var(--${name})`);
        return getComputedStyle(root).outlineColor;
      };
      return { done: COLOURS.map(read), line: read('line'), lanes: ['l0', 'l1', 'l2', 'l3'].map(read) };
    },
  };
}

/** Writes lines of texts into an element; those that stand there stay. */
function list(into: Element, lines: readonly (readonly unknown[])[], add: (i: number) => Element): void {
  lines.forEach((texts, i) => {
    const line = into.children[i] ?? into.appendChild(add(i));
    texts.forEach((text, at) => {
      write(line.children[at] as Element, told(text));
    });
  });
  while (into.children.length > lines.length) into.lastElementChild?.remove();
}

function row(colour: string): Element {
  const made = make('div', { class: 'row' }, make('b'), ' ', make('span'));
  made.style.setProperty('--mark', `var(--${colour})`);
  return made;
}

function limit({ name, executing, concurrency, rates, heldByRate, heldBySlot, pausedForMs }: LimitView): Element {
  const held = [
    pausedForMs > 0 && `paused${pausedForMs < Infinity ? ` for ${time(pausedForMs)}` : ''}`,
    heldByRate > 0 && `${told(heldByRate)} held by the rate`,
    heldBySlot > 0 && `${told(heldBySlot)} held by the slots`,
  ];
  const bars = rates.map(({ unit, left, amount, level }) => {
    const of = amount === undefined ? '' : ` of ${told(amount)}`;
    return bar(`${unit}: ${told(left)} left${of}`, { value: level, low: 0.1, optimum: 1 });
  });
  if (concurrency < Infinity)
    bars.unshift(bar(`slots: ${told(executing)} of ${told(concurrency)} taken`, { value: executing / concurrency }));
  return make('div', {}, make('b', {}, name), make('span', { class: 'held' }, held.filter(Boolean).join(', ')), ...bars);
}

function bar(text: string, level: Attributes): Element {
  return make('label', {}, `${text} `, make('meter', level));
}
