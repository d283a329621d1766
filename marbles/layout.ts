import type { MarblePicture, Mark, Recording, Run } from './spec.js';
import { specOf } from './spec.js';

/** Silence of more frames than this, in every row, is drawn as its length. */
const LONGEST_SILENCE = 12;

/** Names for values that are not letters themselves, in the order they are given out. */
const NAMES = 'xyzwvutsrqponmlkjihgfedcbaXYZWVUTSRQPONMLKJIHGFEDCBA';

export type Values = Readonly<Record<string, unknown>>;

/** A stream, or the call that stands between those that go in and those that come out. */
export type Row = Run | { readonly label: string };

/** What a drawing shows, independent of the output format. */
export interface Layout {
  readonly rows: readonly Row[];
  readonly runs: readonly Run[];
  /** What is drawn at each frame of a run at which something happens: letters of values, `|`, `#` and `!`. */
  readonly letters: ReadonlyMap<Run, ReadonlyMap<number, string>>;
  /** What letters stand for, in the order they were first drawn. */
  readonly legend: readonly string[];
}

/** A frame at which something happens, or a silence in all rows. */
export interface Column {
  readonly frame: number;
  readonly width: number;
  readonly silentMs?: number;
}

/** Inputs in the order they are declared, the call, inner streams in the order they were subscribed to, the result. */
export function rowsOf(picture: MarblePicture, recording: Recording): Row[] {
  const { inputs: declared, label, lanes } = specOf(picture);
  const names = Object.keys(declared);
  const inputs = [...recording.inputs]
    .sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name))
    .flatMap((run) => (run.name === lanes?.input ? lanes.names.map((lane) => laneOf(run, lane, lanes.of)) : [run]));
  return [...inputs, { label }, ...recording.inners, recording.result];
}

/** The part of an input that belongs to one lane; every lane ends when the input does. */
function laneOf(run: Run, lane: string, of: (item: never) => string): Run {
  return { ...run, name: lane, marks: run.marks.filter((mark) => mark.kind !== 'next' || of(mark.value as never) === lane) };
}

export function layOut(rows: readonly Row[], values: Values = {}): Layout {
  const runs = rows.filter((row) => 'marks' in row);
  const names = new Names(runs, values);
  const letters = new Map(runs.map((run) => [run, lettersOf(run, names)]));
  return { rows, runs, letters, legend: names.legend() };
}

/** When a run is over: it ended or was left; Infinity when it goes on. */
export function endOf({ marks, leftAt }: Pick<Run, 'marks' | 'leftAt'>): number {
  const last = marks.at(-1);
  return Math.min(leftAt, last === undefined || last.kind === 'next' ? Infinity : last.frame);
}

/** The time axis; a frame is one wide, one with a group as wide as `widthOf` says. */
export function columnsOf(
  { runs, letters }: Layout,
  widthOf: (letters: string) => number,
  widthOfSilence: (ms: number) => number,
): Column[] {
  const widths = new Map<number, number>([[0, 1]]);
  const widen = (frame: number, width: number): void => {
    widths.set(frame, Math.max(widths.get(frame) ?? 1, width));
  };
  for (const run of runs) {
    widen(run.from, 1);
    if (run.waitingFrom !== undefined) widen(run.waitingFrom, 1);
    for (const [frame, text] of letters.get(run) ?? []) widen(frame, widthOf(text));
  }
  const columns: Column[] = [];
  let next = 0;
  const frames = [...widths.keys()].sort((a, b) => a - b);
  for (const [index, frame] of frames.entries()) {
    const silentMs = frame - next;
    if (silentMs > LONGEST_SILENCE) columns.push({ frame: next, width: widthOfSilence(silentMs), silentMs });
    else if (silentMs > 0) columns.push({ frame: next, width: silentMs });
    const width = widths.get(frame) ?? 1;
    columns.push({ frame, width });
    // A group lasts as many frames as it has characters, as in RxJS; only a frame that is needed sooner stretches time.
    next = Math.min(frame + width, frames[index + 1] ?? Infinity);
  }
  // One frame more shows which rows go on.
  return [...columns, { frame: next, width: 1 }];
}

function lettersOf(run: Run, names: Names): Map<number, string> {
  const letters = new Map<number, string>();
  const put = (frame: number, letter: string): void => {
    letters.set(frame, (letters.get(frame) ?? '') + letter);
  };
  for (const mark of run.marks) put(mark.frame, names.letterOf(mark));
  if (run.leftAt !== Infinity) put(run.leftAt, '!');
  return letters;
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
  return typeof value === 'string' && /^[^\s\-|#()^!.]$/u.test(value);
}

export function textOf(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (isMatcher(value)) return value.toAsymmetricMatcher?.() ?? `${value.toString()} ${textOf(value.sample)}`;
  // `undefined` and functions have no JSON, which the type of `stringify` does not say.
  const json = JSON.stringify(value, (_key, part: unknown) => (part instanceof Error || isMatcher(part) ? textOf(part) : part)) as
    | string
    | undefined;
  return json ?? String(value);
}

/** What test runners call an asymmetric matcher, `expect.objectContaining(…)`: something that stands for the values it accepts. */
interface Matcher {
  readonly sample?: unknown;
  toAsymmetricMatcher?(): string;
  toString(): string;
}

function isMatcher(value: unknown): value is Matcher {
  return typeof value === 'object' && value !== null && 'asymmetricMatch' in value;
}
