import type { FlowCounters } from './counters.js';
import { make, several, time, whole, write } from './dom.js';
import type { FlowModel } from './flow-model.js';
import type { LimitView } from './limits.js';
import type { Box, Colours, Places } from './picture.js';
import { tables } from './tables.js';
import { TreeView } from './tree-view.js';

const STAGES = [
  ['Lanes', 'What waits, in its own queue. The most urgent lane goes first.'],
  ['Batches', 'A batch closes when a call is free. One that fails comes back, in parts.'],
  ['Calls', 'One call carries a whole batch. Each outline is room for one call.'],
  ['Done', 'Every item gets an answer of its own, or the reason why not.'],
] as const;

const OUTCOMES = [
  ['answered', 'ok'],
  ['failed', 'bad'],
  ['given up', 'gone'],
] as const;

export const MOST_LANES = 6;

type Fact = readonly [label: string, value: (counters: FlowCounters) => number | string, hint: string];

/** What stands above the picture. */
const FACTS: readonly Fact[] = [
  ['waiting', ({ waiting }) => waiting, 'accepted, and in no call'],
  ['calls under way', ({ executing }) => executing, 'on their way to the backend now'],
  ['calls made', ({ calls }) => calls, 'repeats and parts included'],
  ['calls saved', ({ callsSaved }) => callsSaved, 'one call for each item would have been so many more'],
  [
    'items per call',
    ({ meanSize, meanFill }) => `${meanSize.toFixed(1)}${meanFill === undefined ? '' : ` · ${whole(meanFill * 100)} %`}`,
    'mean size of a batch, and how full that is',
  ],
  [
    'p50 · p99',
    ({ p50Ms, p99Ms }) => `${time(p50Ms)} · ${time(p99Ms)}`,
    'half, and 99 of 100, of the first lane took no longer from acceptance to answer',
  ],
  ['429s', ({ throttled }) => throttled, 'calls that were refused because of their rate'],
  ['retries', ({ retries }) => retries, 'calls sent again'],
  ['splits', ({ splits }) => splits, 'batches cut up to find the bad item'],
  ['tokens', ({ tokens }) => tokens, 'as they are counted, or the weight that was sent'],
  ['cancelled', ({ cancelled }) => cancelled, 'nobody wanted them any more'],
  ['lost', ({ lost }) => (lost === 0 ? '0 ✓' : lost), 'accepted, and never heard of again'],
];

interface Actions {
  readonly pause: () => void;
  readonly step: () => void;
  readonly save: () => void;
  readonly open: (text: string) => void;
  readonly seek: (ms: number) => void;
  /** Something else is to be seen. */
  readonly look: () => void;
}

/** Everything but the marks. */
export class Page {
  readonly canvas = make('canvas', { role: 'img', 'aria-label': 'nothing yet' });
  readonly root = make('section');
  readonly #heading = make('h2');
  readonly #status = make('p');
  readonly #alert = make('p', { role: 'alert' });
  readonly #facts = FACTS.map(([label, , title]) => make('div', { title }, make('dt', {}, label), make('dd')));
  readonly #areas = STAGES.map(() => make('div', { class: 'area' }));
  readonly #outcomes = OUTCOMES.map(([name, colour]) => rowOf(name, colour));
  readonly #stage = make('div', { class: 'stage' }, this.canvas);
  readonly #limits = make('div', { class: 'limits' });
  readonly #trees = new TreeView();
  readonly #tables = make('div', { class: 'wide', hidden: '', tabindex: 0, role: 'region', 'aria-label': 'the same as tables' });
  readonly #probe = make('i', { hidden: '' });
  readonly #range = make('input', { type: 'range', class: 'play', min: 0, step: 1, 'aria-label': 'position in the recording, in ms' });
  readonly #pause: HTMLElement;
  #lanes: readonly HTMLElement[] = [];

  constructor(on: Actions) {
    const file = make('input', { type: 'file', hidden: '', accept: '.json,.jsonl', 'aria-label': 'a recording' });
    file.onchange = () => {
      void file.files?.[0]?.text().then(on.open);
      file.value = '';
    };
    const button = (label: string, act: () => void): HTMLButtonElement => {
      const made = make('button', { [`data-${label.toLowerCase()}`]: '', class: /^[PSI]/.test(label) ? 'play' : '' }, label);
      made.onclick = act;
      return made;
    };
    this.#pause = button('Pause', on.pause);
    const table = button('Table', () => {
      const isHidden = this.#tables.toggleAttribute('hidden');
      table.ariaExpanded = String(!isHidden);
      on.look();
    });
    table.ariaExpanded = 'false';
    this.#range.oninput = () => {
      on.seek(this.#range.valueAsNumber);
    };
    const choose = (): void => {
      file.click();
    };
    const bar = [this.#pause, button('Step', on.step), table, button('Export', on.save), button('Import', choose), file];
    STAGES.forEach(([title, text], i) => {
      const head = make('h3', {}, `${String(i + 1)} ${title}`);
      this.#stage.append(make('div', { class: 'col' }, head, make('p', {}, text), this.#areas[i] as HTMLElement));
    });
    this.#areas[3]?.append(...this.#outcomes);
    const header = make('header', {}, this.#heading, this.#status, make('div', { class: 'bar' }, ...bar));
    const facts = make('dl', {}, ...this.#facts);
    this.root.append(header, this.#alert, this.#range, facts, this.#stage, this.#limits, this.#trees.element, this.#tables, this.#probe);
    this.fault('');
  }

  /** A new source: nothing of the old one stays. */
  clear(): void {
    this.#trees.show([]);
    this.fault('');
  }

  fault(text: string): void {
    write(this.#alert, text);
    this.#alert.hidden = text === '';
  }

  /** Writes what has changed. */
  show(
    model: FlowModel,
    about: {
      heading: string;
      status: string;
      isPaused: boolean;
      clock: number;
      positionMs: number | undefined;
      lengthMs: number | undefined;
    },
  ): void {
    const { counters, laneParts, trees } = model;
    const { heading, clock, lengthMs } = about;
    write(this.#heading, heading);
    this.root.ariaLabel = heading;
    write(this.#pause, about.isPaused ? 'Resume' : 'Pause');
    this.#range.hidden = lengthMs === undefined;
    if (lengthMs !== undefined) {
      this.#range.max = String(Math.ceil(lengthMs));
      this.#range.value = String(about.positionMs);
    }
    const pausedMs = model.pausedUntil - clock;
    const isOpen = model.breaker === 'open';
    const held =
      pausedMs > 0 ? `refused for the rate: all wait ${time(pausedMs)} more` : isOpen ? 'the breaker is open: nothing is sent' : '';
    write(this.#status, held || about.status);
    FACTS.forEach(([label, valueOf], i) => {
      const fact = this.#facts[i] as HTMLElement;
      const [term, text] = fact.children as unknown as [Element, Element];
      const value = valueOf(counters);
      write(text, typeof value === 'number' ? whole(value) : value);
      if (label === 'p50 · p99' && counters.firstLane !== undefined) write(term, `${counters.firstLane} ${label}`);
      if (label === 'lost') fact.className = counters.lost > 0 ? 'bad' : 'ok';
    });
    const shown = laneParts.slice(0, MOST_LANES);
    if (this.#lanes.length !== Math.max(1, shown.length)) {
      this.#lanes = (shown.length > 0 ? shown : [{}]).map((_, i) => rowOf('', `l${String(i % 4)}`));
      this.#areas[0]?.replaceChildren(...this.#lanes);
    }
    shown.forEach(({ name, waiting }, i) => {
      const more = i === MOST_LANES - 1 ? laneParts.length - MOST_LANES : 0;
      fill(this.#lanes[i], `${whole(waiting.size)} waiting${more > 0 ? `, and ${several(more, 'lane')} more` : ''}`, name);
    });
    const { fulfilled, rejected, cancelled, lost, waiting, executing, settled } = counters;
    [fulfilled, rejected, cancelled + lost].forEach((count, i) => {
      fill(this.#outcomes[i], whole(count));
    });
    this.canvas.ariaLabel = `${several(waiting, 'item')} waiting, ${several(executing, 'call')} under way, ${whole(settled)} settled`;
    this.#showLimits(model.limits);
    this.#trees.show(trees);
    if (!this.#tables.hidden) this.#tables.replaceChildren(...tables(model));
  }

  #showLimits(limits: readonly LimitView[]): void {
    this.#limits.hidden = limits.length === 0;
    const rows = limits.map(({ name, executing, concurrency, rates, heldByRate, heldBySlot, pausedForMs }) => {
      const why = [
        pausedForMs > 0 && `paused${pausedForMs < Infinity ? ` for ${time(pausedForMs)}` : ''}`,
        heldByRate > 0 && `${whole(heldByRate)} held by the rate`,
        heldBySlot > 0 && `${whole(heldBySlot)} held by the slots`,
      ];
      const bars = rates.map(({ unit, left, amount, windowMs, level }) => {
        const of = amount === undefined ? '' : ` of ${whole(amount)}${windowMs === undefined ? '' : ` in ${time(windowMs)}`}`;
        return bar(`${unit}: ${whole(left)} left${of}`, level, level < 0.1);
      });
      const slots =
        concurrency < Infinity ? [bar(`slots: ${whole(executing)} of ${whole(concurrency)} taken`, executing / concurrency, false)] : [];
      return make('div', {}, make('b', {}, name), make('span', { class: 'held' }, why.filter(Boolean).join(', ')), ...slots, ...bars);
    });
    this.#limits.replaceChildren(...rows);
  }

  /** Where the page has put everything, in the coordinates of the canvas. */
  places(): Places {
    const { left, top, width, height } = this.#stage.getBoundingClientRect();
    const box = (element: Element): Box => {
      const at = element.getBoundingClientRect();
      return { x: at.left - left, y: at.top - top, w: at.width, h: at.height };
    };
    const [, batches, calls] = this.#areas.map(box) as [Box, Box, Box];
    return { width, height, lanes: this.#lanes.map(box), batches, calls, done: this.#outcomes.map(box) };
  }

  colours(): Colours {
    const read = (name: string): string => {
      this.#probe.style.setProperty('color', `var(--${name})`);
      return getComputedStyle(this.#probe).color;
    };
    const [ok, bad, gone, line, ...lanes] = ['ok', 'bad', 'gone', 'line', 'l0', 'l1', 'l2', 'l3'].map(read) as [
      string,
      string,
      string,
      string,
    ];
    return { ok, bad, gone, line, lanes };
  }
}

function rowOf(name: string, colour: string): HTMLElement {
  const mark = make('i');
  mark.style.setProperty('--mark', `var(--${colour})`);
  return make('div', { class: 'row' }, mark, make('b', {}, name), make('span'));
}

function fill(row: Element | undefined, text: string, name?: string): void {
  const [, head, rest] = (row?.children ?? []) as unknown as [Element, Element, Element];
  if (name !== undefined) write(head, name);
  write(rest, text);
}

function bar(text: string, level: number, isLow: boolean): HTMLElement {
  const filled = make('i');
  filled.style.setProperty('--level', String(Math.max(0, Math.min(1, level))));
  return make('span', {}, text, make('span', { class: isLow ? 'level low' : 'level' }, filled));
}
