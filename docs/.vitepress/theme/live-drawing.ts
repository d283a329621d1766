import { parseMarbles } from '../../../marbles/parse.js';
import { renderSvg } from '../../../marbles/render-svg.js';
import { renderText } from '../../../marbles/render-text.js';
import { recordWith } from '../../../marbles/run.js';
import type { MarbleSpec, Recording } from '../../../marbles/spec.js';

/** Silence that is written as its length. */
const LONG_SILENCE_MS = 12;

/** What a reader has changed of an example. */
export interface Changes {
  readonly inputs: Readonly<Record<string, string>>;
  readonly options: Readonly<Record<string, number>>;
}

/** An example as it runs with the changes of a reader. */
export interface LiveDrawing {
  readonly spec: MarbleSpec;
  readonly recording: Recording;
  readonly svg: string;
  readonly text: string;
}

/** Runs the real operator in virtual time. Calls that the example does not name take as long as its first one. */
export function liveDrawing(example: MarbleSpec, { inputs, options }: Changes): LiveDrawing {
  const spec: MarbleSpec = {
    ...example,
    inputs: { ...example.inputs, ...inputs },
    options: { ...example.options, ...options },
    label: Object.entries(options).reduce(
      (label, [name, value]) => label.replace(new RegExp(`\\b${name}: \\d+`), `${name}: ${String(value)}`),
      example.label,
    ),
  };
  const [likeTheFirst = '---(r|)'] = Object.values(example.inners ?? {});
  const recording = recordWith(spec, () => likeTheFirst);
  // Inside a page a style holds for all of it.
  const svg = renderSvg(spec, recording)
    .replace(/<style>(.*?)<\/style>/s, '<style>.live-drawing{$1}</style>')
    // An image has no controls inside; here marbles are some.
    .replace('role="img"', 'role="group"');
  return { spec, recording, svg, text: renderText(spec, recording) };
}

/** A marble that can be moved: the place of its circle in the drawing, and what it is. */
export interface Handle {
  readonly input: string;
  /** Its number among the marbles of the input, from 0. */
  readonly index: number;
  readonly letter: string;
  readonly atMs: number;
}

/** The marbles of the input rows, row by row, as `renderSvg` draws them. Hot inputs have none: they play without a subscriber. */
export function handlesOf({ spec, recording }: LiveDrawing): Handle[][] {
  const names = Object.keys(spec.inputs);
  const runs = [...recording.inputs].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name));
  return runs.flatMap((run) => {
    const { lanes } = spec;
    const marbles = spec.inputs[run.name] ?? '';
    const letters = marksOf(marbles).filter(({ letter }) => !isEnd(letter));
    const items = run.marks.filter((mark) => mark.kind === 'next');
    const handles = items.map((mark, index) => ({
      input: run.name,
      index,
      letter: letters[index]?.letter ?? '',
      atMs: mark.frame,
      value: mark.value,
    }));
    const rows =
      run.name === lanes?.input ? lanes.names.map((lane) => handles.filter(({ value }) => lanes.of(value as never) === lane)) : [handles];
    return rows.map((row) => (marbles.includes('^') ? [] : row.map(({ value: _, ...handle }) => handle)));
  });
}

/**
 * The marbles with one of them moved. A group takes as many milliseconds as it has characters, so what follows it moves on; an end stays
 * behind the last item.
 */
export function moveMarble(marbles: string, index: number, byMs: number): string {
  const marks = marksOf(marbles);
  const items = marks.filter(({ letter }) => !isEnd(letter));
  const moved = items[index];
  if (moved === undefined) return marbles;
  const others = marks.filter((mark) => mark !== moved);
  const frame = Math.max(0, moved.frame + byMs);
  return marblesOf([...others, { ...moved, frame }]);
}

interface Letter {
  readonly frame: number;
  readonly letter: string;
}

function marksOf(marbles: string): Letter[] {
  return parseMarbles(marbles).map((mark) => ({
    frame: mark.frame,
    letter: mark.kind === 'next' ? String(mark.value) : mark.kind === 'error' ? '#' : '|',
  }));
}

function marblesOf(marks: readonly Letter[]): string {
  const last = Math.max(0, ...marks.filter(({ letter }) => !isEnd(letter)).map(({ frame }) => frame));
  const groups = new Map<number, string>();
  const put = ({ frame, letter }: Letter): void => {
    groups.set(frame, (groups.get(frame) ?? '') + letter);
  };
  for (const mark of marks) if (!isEnd(mark.letter)) put(mark);
  for (const mark of marks) if (isEnd(mark.letter)) put({ ...mark, frame: Math.max(mark.frame, last) });
  let text = '';
  let nowMs = 0;
  for (const [frame, letters] of [...groups].sort(([a], [b]) => a - b)) {
    const silentMs = Math.max(0, frame - nowMs);
    text += silentMs > LONG_SILENCE_MS ? ` ${String(silentMs)}ms ` : '-'.repeat(silentMs);
    text += letters.length > 1 ? `(${letters})` : letters;
    nowMs += silentMs + (letters.length > 1 ? letters.length + 2 : 1);
  }
  return text;
}

function isEnd(letter: string): boolean {
  return letter === '|' || letter === '#';
}
