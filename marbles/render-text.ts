import type { MarbleSpec, Mark, Recording, Run } from './spec.js';

/** Silence of more frames than this, in every row, is drawn as its length. */
const LONGEST_SILENCE = 12;

/** Names for values that are not letters themselves, in the order they are given out. */
const NAMES = 'xyzwvutsrqponmlkjihgfedcbaXYZWVUTSRQPONMLKJIHGFEDCBA';

type Values = Readonly<Record<string, unknown>>;

/** Draws what happened: inputs, the call, inner streams where they were really subscribed to, the result, and a legend. */
export function renderText(spec: MarbleSpec, recording: Recording): string {
  const { inputs, inners, result } = recording;
  const declared = Object.keys(spec.inputs);
  const inOrder = [...inputs].sort((a, b) => declared.indexOf(a.name) - declared.indexOf(b.name));
  return draw([...inOrder, { label: spec.label }, ...inners, result], spec.values);
}

/** Draws some runs one under the other, with a legend. */
export function renderRuns(runs: readonly Run[], values?: Values): string {
  return draw(runs, values);
}

/** All drawings of one operator, as the text of one file. */
export function renderPage(source: string, drawings: readonly { readonly title: string; readonly text: string }[]): string {
  const parts = drawings.map(({ title, text }) => `## ${title}\n\n${text}\n`);
  return [`Generated from ${source} by running it: do not edit.\n`, ...parts].join('\n');
}

type Row = Run | { readonly label: string };

function draw(rows: readonly Row[], values: Values = {}): string {
  const runs = rows.filter((row) => 'marks' in row);
  const names = new Names(runs, values);
  const tokens = new Map(runs.map((run) => [run, tokensOf(run, names)]));
  const columns = columnsOf(runs, tokens);
  const indent = Math.max(...runs.map((run) => run.name.length)) + 2;
  const lines = rows.map((row) => {
    if ('label' in row) return ' '.repeat(indent) + row.label;
    return (row.name.padEnd(indent) + lineOf(row, tokens.get(row) ?? new Map(), columns)).trimEnd();
  });
  return [...lines, ...names.legend().map((line) => ' '.repeat(indent) + line)].join('\n');
}

/** What is drawn at each frame of a run at which something happens. */
function tokensOf(run: Run, names: Names): Map<number, string> {
  const letters = new Map<number, string>();
  const put = (frame: number, letter: string): void => {
    letters.set(frame, (letters.get(frame) ?? '') + letter);
  };
  for (const mark of run.marks) put(mark.frame, names.letterOf(mark));
  if (run.leftAt !== Infinity) put(run.leftAt, '!');
  return new Map([...letters].map(([frame, text]) => [frame, text.length > 1 ? `(${text})` : text]));
}

/** A frame at which something happens, or a silence in all rows. */
type Column = { readonly frame: number; readonly width: number; readonly silence?: string };

function columnsOf(runs: readonly Run[], tokens: ReadonlyMap<Run, ReadonlyMap<number, string>>): Column[] {
  const widths = new Map<number, number>([[0, 1]]);
  for (const run of runs) {
    widths.set(run.from, widths.get(run.from) ?? 1);
    for (const [frame, token] of tokens.get(run) ?? []) widths.set(frame, Math.max(widths.get(frame) ?? 1, token.length));
  }
  const columns: Column[] = [];
  let next = 0;
  const frames = [...widths.keys()].sort((a, b) => a - b);
  for (const [index, frame] of frames.entries()) {
    const silent = frame - next;
    if (silent > LONGEST_SILENCE) {
      const silence = ` ${String(silent)}ms `;
      columns.push({ frame: next, width: silence.length, silence });
    } else if (silent > 0) {
      columns.push({ frame: next, width: silent });
    }
    const width = widths.get(frame) ?? 1;
    columns.push({ frame, width });
    // A group lasts as many frames as it has characters, as in RxJS; only a frame that is needed sooner stretches time.
    next = Math.min(frame + width, frames[index + 1] ?? Infinity);
  }
  // One frame more shows which rows go on.
  return [...columns, { frame: next, width: 1 }];
}

function lineOf(run: Run, tokens: ReadonlyMap<number, string>, columns: readonly Column[]): string {
  const last = run.marks.at(-1);
  const endsAt = Math.min(run.leftAt, last === undefined || last.kind === 'next' ? Infinity : last.frame);
  return columns
    .map(({ frame, width, silence }) => {
      if (frame < run.from || frame > endsAt) return ' '.repeat(width);
      const text = silence ?? tokens.get(frame) ?? '';
      return frame === endsAt ? text.padEnd(width) : text.padEnd(width, '-');
    })
    .join('');
}

/** Gives every value a letter: its own if it is one, that of the spec if it has one, else a free one. */
class Names {
  readonly #letters = new Map<string, string>();
  readonly #used = new Set<string>();
  readonly #taken: Set<string>;

  constructor(runs: readonly Run[], values: Values) {
    for (const [letter, value] of Object.entries(values)) this.#letters.set(textOf(value), letter);
    const seen = runs.flatMap((run) => run.marks).flatMap((mark) => (mark.kind === 'next' && isLetter(mark.value) ? [mark.value] : []));
    this.#taken = new Set([...seen, ...Object.keys(values)]);
  }

  letterOf(mark: Mark): string {
    if (mark.kind === 'complete') return '|';
    if (mark.kind === 'error') {
      this.#used.add(`# = ${textOf(mark.error)}`);
      return '#';
    }
    if (isLetter(mark.value)) return mark.value;
    const text = textOf(mark.value);
    const letter = this.#letters.get(text) ?? this.#free();
    this.#letters.set(text, letter);
    this.#used.add(`${letter} = ${text}`);
    return letter;
  }

  /** What the drawn letters stand for, in the order they were first drawn. */
  legend(): string[] {
    return [...this.#used];
  }

  #free(): string {
    const letter = Array.from(NAMES).find((name) => !this.#taken.has(name));
    if (letter === undefined) throw new Error(`a drawing can name ${String(NAMES.length)} different values, this one needs more`);
    this.#taken.add(letter);
    return letter;
  }
}

function isLetter(value: unknown): value is string {
  return typeof value === 'string' && /^[^\s\-|#()^!]$/u.test(value);
}

function textOf(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  // `undefined` and functions have no JSON, which the type of `stringify` does not say.
  const json = JSON.stringify(value, (_key, part: unknown) => (part instanceof Error ? textOf(part) : part)) as string | undefined;
  return json ?? String(value);
}
