import type { FlowCounters } from './counters.js';
import { make, several, time, whole, write } from './dom.js';
import type { FlowModel } from './flow-model.js';
import type { LimitView } from './limits.js';
import type { Box, Colours, Places } from './picture.js';
import { TreeView } from './tree-view.js';

const STAGES = [
  ['lanes', 'Lanes', 'What waits, in its own queue. The most urgent lane goes first.'],
  ['batches', 'Batches', 'A batch closes when a call is free. One that fails comes back, in parts.'],
  ['calls', 'Calls', 'One call carries a whole batch. Each outline is room for one call.'],
  ['done', 'Done', 'Every item gets an answer of its own, or the reason why not.'],
] as const;

const OUTCOMES = [
  ['answered', '--ok'],
  ['failed', '--bad'],
  ['given up', '--gone'],
] as const;

export const MOST_LANES = 6;

type Fact = readonly [label: string, text: (counters: FlowCounters) => string, hint: string];

/** What stands above the picture. */
const FACTS: readonly Fact[] = [
  ['waiting', ({ waiting }) => whole(waiting), 'accepted, and in no call'],
  ['calls under way', ({ executing }) => whole(executing), 'on their way to the backend now'],
  ['calls made', ({ calls }) => whole(calls), 'repeats and parts included'],
  ['calls saved', ({ callsSaved }) => whole(callsSaved), 'one call for each item would have been so many more'],
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
  ['429s', ({ throttled }) => whole(throttled), 'calls that were refused because of their rate'],
  ['retries', ({ retries }) => whole(retries), 'calls sent again'],
  ['splits', ({ splits }) => whole(splits), 'batches cut up to find the bad item'],
  ['tokens', ({ tokens }) => whole(tokens), 'as they are counted, or the weight that was sent'],
  ['cancelled', ({ cancelled }) => whole(cancelled), 'nobody wanted them any more'],
  ['lost', ({ lost }) => (lost === 0 ? '0 ✓' : whole(lost)), 'accepted, and never heard of again'],
];

/** What its buttons do. */
interface Actions {
  readonly pause: () => void;
  readonly step: () => void;
  readonly save: () => void;
  readonly open: (text: string) => void;
  readonly seek: (ms: number) => void;
  readonly table: () => void;
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
  #lanes: readonly HTMLElement[] = [];
  readonly #limits = make('div', { class: 'limits' });
  readonly #trees = new TreeView();
  readonly #tables = make('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'the same as tables' });
  readonly #stage: HTMLElement;
  readonly #probe = make('i');
  readonly #range = make('input', {
    type: 'range',
    class: 'play',
    hidden: '',
    min: '0',
    step: '1',
    'aria-label': 'position in the recording, in ms',
  });
  readonly #pause: HTMLButtonElement;
  readonly #table: HTMLButtonElement;

  constructor(on: Actions) {
    const file = make('input', { type: 'file', accept: '.json,.jsonl', 'aria-label': 'a recording' });
    file.hidden = true;
    file.addEventListener('change', () => {
      void file.files?.[0]?.text().then(on.open);
      file.value = '';
    });
    const button = (label: string, name: string, act: () => void): HTMLButtonElement => {
      const made = make('button', { type: 'button', [`data-${name}`]: '', class: /^[psi]/.test(name) ? 'play' : '' }, label);
      made.addEventListener('click', act);
      return made;
    };
    this.#pause = button('Pause', 'pause', on.pause);
    this.#table = button('Table', 'table', () => {
      this.#tables.hidden = !this.#tables.hidden;
      this.#table.setAttribute('aria-expanded', String(!this.#tables.hidden));
      on.table();
    });
    this.#table.setAttribute('aria-expanded', 'false');
    this.#tables.hidden = true;
    this.#range.addEventListener('input', () => {
      on.seek(Number(this.#range.value));
    });
    const bar = make('div', { class: 'bar' }, this.#pause, button('Step', 'step', on.step), this.#table);
    bar.append(
      button('Export', 'export', on.save),
      button('Import', 'import', () => {
        file.click();
      }),
      file,
    );
    this.#stage = make('div', { class: 'stage' }, this.canvas);
    STAGES.forEach(([name, title, text], i) => {
      const number = make('b', {}, String(i + 1));
      this.#stage.append(
        make('div', { class: `col ${name}` }, make('h3', {}, number, title), make('p', {}, text), this.#areas[i] as HTMLElement),
      );
    });
    this.#areas[3]?.append(...this.#outcomes);
    const header = make('header', {}, this.#heading, this.#status, bar);
    const facts = make('dl', {}, ...this.#facts);
    this.root.append(header, this.#alert, this.#range, facts, this.#stage, this.#limits, this.#trees.element, this.#tables, this.#probe);
    this.#probe.hidden = true;
  }

  /** A new source: nothing of the old one stays. */
  clear(): void {
    this.#trees.clear();
    this.fault('');
  }

  fault(text: string): void {
    write(this.#alert, text);
    this.#alert.hidden = text === '';
  }

  /** Writes what has changed. */
  show(
    model: FlowModel,
    about: { heading: string; status: string; isPaused: boolean; clock: number; positionMs?: number; lengthMs?: number },
  ): void {
    const { counters, laneParts } = model;
    write(this.#heading, about.heading);
    this.root.setAttribute('aria-label', about.heading);
    write(this.#pause, about.isPaused ? 'Resume' : 'Pause');
    this.#range.hidden = about.lengthMs === undefined;
    if (about.lengthMs !== undefined) {
      this.#range.max = String(Math.ceil(about.lengthMs));
      this.#range.value = String(about.positionMs);
    }
    const pausedMs = model.pausedUntil - about.clock;
    const held =
      pausedMs > 0
        ? `refused for the rate: all wait ${time(pausedMs)} more`
        : model.breaker === 'open'
          ? 'the breaker is open: nothing is sent'
          : '';
    write(this.#status, held || about.status);
    FACTS.forEach(([label, text], i) => {
      const fact = this.#facts[i] as HTMLElement;
      const [term, value] = fact.children as unknown as [Element, Element];
      write(value, text(counters));
      if (label === 'p50 · p99' && counters.firstLane !== undefined) write(term, `${counters.firstLane} ${label}`);
      if (label === 'lost') fact.className = counters.lost > 0 ? 'lost bad' : 'lost';
    });
    const shown = laneParts.slice(0, MOST_LANES);
    if (this.#lanes.length !== Math.max(1, shown.length)) {
      this.#lanes = (shown.length > 0 ? shown : [{}]).map((_, i) => rowOf('', `--l${String(i % 4)}`));
      this.#areas[0]?.replaceChildren(...this.#lanes);
    }
    shown.forEach(({ name, waiting }, i) => {
      const more = i === MOST_LANES - 1 ? laneParts.length - MOST_LANES : 0;
      fill(this.#lanes[i] as HTMLElement, name, `${whole(waiting.size)} waiting${more > 0 ? `, and ${several(more, 'lane')} more` : ''}`);
    });
    const { fulfilled, rejected, cancelled, lost } = counters;
    [fulfilled, rejected, cancelled + lost].forEach((count, i) => {
      fill(this.#outcomes[i] as HTMLElement, OUTCOMES[i]?.[0] ?? '', whole(count));
    });
    this.canvas.setAttribute(
      'aria-label',
      `${several(counters.waiting, 'item')} waiting, ${several(counters.executing, 'call')} under way, ${whole(counters.settled)} settled`,
    );
    this.#showLimits(model.limits);
    this.#trees.show(model.trees);
    if (!this.#tables.hidden) this.#showTables(model, counters);
  }

  #showLimits(limits: readonly LimitView[]): void {
    this.#limits.hidden = limits.length === 0;
    const rows = limits.map(({ name, executing, concurrency, rates, heldByRate, heldBySlot, pausedForMs }) => {
      const why = [
        pausedForMs > 0 ? `paused${pausedForMs < Infinity ? ` for ${time(pausedForMs)}` : ''}` : [],
        heldByRate > 0 ? `${whole(heldByRate)} held by the rate` : [],
        heldBySlot > 0 ? `${whole(heldBySlot)} held by the slots` : [],
      ].flat();
      const bars = rates.map(({ unit, left, amount, windowMs, level }) => {
        const of = amount === undefined ? '' : ` of ${whole(amount)}${windowMs === undefined ? '' : ` in ${time(windowMs)}`}`;
        return bar(`${unit}: ${whole(left)} left${of}`, level, level < 0.1);
      });
      if (concurrency < Infinity)
        bars.unshift(bar(`slots: ${whole(executing)} of ${whole(concurrency)} taken`, executing / concurrency, false));
      return make('div', { class: 'limit' }, make('b', {}, name), make('span', { class: 'held' }, why.join(', ')), ...bars);
    });
    this.#limits.replaceChildren(...rows);
  }

  #showTables(model: FlowModel, counters: FlowCounters): void {
    const totals = Object.entries<number | string | undefined>({ ...counters }).map(([name, value]) => [
      words(name),
      typeof value === 'number' ? figure(value) : (value ?? ''),
    ]);
    const lanes = model.lanes.map((lane) => [
      lane.name,
      ...[lane.accepted, lane.waiting, lane.executing, lane.settled, lane.p50Ms, lane.p99Ms].map(figure),
    ]);
    const calls = model.slots.flatMap((call) =>
      call ? [[call.label, call.lane.name, call.operator, figure(call.size), figure(call.attempt)]] : [],
    );
    const over = model.ended.slice(-20).reverse();
    const ended = over.map((call) => [
      call.label,
      call.outcome,
      figure(call.size),
      figure(call.attempt),
      figure(call.depth),
      figure(call.latencyMs),
    ]);
    const limits = model.limits.map(({ name, executing, queued, heldByRate, heldBySlot, rates }) => [
      ...[
        name,
        ...[executing, queued, heldByRate, heldBySlot].map(figure),
        rates.map(({ unit, left }) => `${unit} ${figure(left)}`).join(', '),
      ],
    ]);
    this.#tables.replaceChildren(
      table('Totals', ['what', 'now'], totals),
      table('Lanes', ['lane', 'accepted', 'waiting', 'in calls', 'settled', 'p50, ms', 'p99, ms'], lanes),
      table('Calls under way', ['items', 'lane', 'operator', 'size', 'attempt'], calls),
      table('The last calls', ['items', 'outcome', 'size', 'attempt', 'cut', 'took, ms'], ended),
      table('Limits', ['limit', 'executing', 'queued', 'held by rate', 'held by slot', 'left'], limits),
    );
  }

  /** Where the page has put everything, in the coordinates of the canvas. */
  places(): Places {
    const { left, top, width, height } = this.#stage.getBoundingClientRect();
    const box = (element?: Element): Box => {
      const at = (element ?? this.#stage).getBoundingClientRect();
      return { x: at.left - left, y: at.top - top, w: at.width, h: at.height };
    };
    const [batches, calls] = [box(this.#areas[1]), box(this.#areas[2])];
    return { width, height, lanes: this.#lanes.map(box), batches, calls, done: this.#outcomes.map(box) };
  }

  colours(): Colours {
    const read = (name: string): string => {
      this.#probe.style.setProperty('color', `var(--${name})`);
      return getComputedStyle(this.#probe).color;
    };
    return {
      lanes: ['l0', 'l1', 'l2', 'l3'].map(read),
      ok: read('ok'),
      bad: read('bad'),
      gone: read('gone'),
      line: read('line'),
    };
  }
}

function rowOf(name: string, colour: string): HTMLElement {
  const mark = make('i');
  mark.style.setProperty('--mark', `var(${colour})`);
  return make('div', { class: 'row' }, mark, make('b', {}, name), make('span'));
}

function fill(row: Element, name: string, text: string): void {
  write(row.children[1] as Element, name);
  write(row.children[2] as Element, text);
}

function bar(text: string, level: number, isLow: boolean): HTMLElement {
  const filled = make('i');
  filled.style.setProperty('--level', String(Math.max(0, Math.min(1, level))));
  return make('span', { class: 'rate' }, text, make('span', { class: isLow ? 'level low' : 'level' }, filled));
}

function table(caption: string, heads: readonly string[], rows: readonly (readonly string[])[]): HTMLElement {
  const row = (cells: readonly string[], isHead: boolean): HTMLElement =>
    make(
      'tr',
      {},
      ...cells.map((cell, i) => make(isHead || i === 0 ? 'th' : 'td', isHead ? { scope: 'col' } : i === 0 ? { scope: 'row' } : {}, cell)),
    );
  const body = rows.length > 0 ? rows : [['none']];
  return make(
    'table',
    {},
    make('caption', {}, caption),
    make('thead', {}, row(heads, true)),
    make('tbody', {}, ...body.map((cells) => row(cells, false))),
  );
}

/** `callsSaved`: calls saved. */
function words(name: string): string {
  return name.replace(/Ms$/, ', ms').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function figure(value: number): string {
  return String(Math.round(value * 100) / 100);
}
