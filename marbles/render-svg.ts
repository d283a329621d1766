import type { Column, Layout } from './layout.js';
import { columnsOf, endOf, layOut, rowsOf } from './layout.js';
import type { MarblePicture, Recording, Run } from './spec.js';
import { specOf } from './spec.js';

/** One frame, which holds one marble; all lengths are in px. */
const FRAME = 18;
const ROW = 28;
const RADIUS = 8;
const PADDING = 10;
const TEXT = 12;
const LEGEND = 17;
const LETTER_WIDTH = 0.62 * TEXT;
const SILENCE_FRAMES = 3;

/** Characters of a line of the legend; the rest goes below. */
const LEGEND_CHARACTERS = /.{1,80}/gsu;

/** Colours of a light page, and of a dark one: ink, silent ink, page, and the marbles of inputs, inner streams and the result. */
const LIGHT = '--i:#1f2328;--s:#6e7781;--p:#fff;--a:#cfe5ff;--b:#ffe9b8;--c:#c5f0cf';
const DARK = '--i:#e6edf3;--s:#8b949e;--p:#0d1117;--a:#1c4270;--b:#5c4500;--c:#175a2a';

const STYLE = [
  `svg{${LIGHT};font:${String(TEXT)}px ui-monospace,monospace}`,
  `@media(prefers-color-scheme:dark){svg{${DARK}}}`,
  'text{fill:var(--i)}.m text{text-anchor:middle}.m .n{text-anchor:start}.k,.q{fill:var(--s)}.q{text-anchor:middle;font-size:10px}',
  'path,rect,circle{stroke:var(--i);fill:none}.w{stroke:var(--s);stroke-dasharray:2 4}.g{stroke:var(--s)}.e{stroke-width:2}',
  ...['a', 'b', 'c'].map((kind) => `.${kind} circle{fill:var(--${kind})}`),
].join('');

/**
 * Draws what happened as an SVG image, for light and dark pages: the same rows as {@link renderText}. A dashed line is an item that
 * waits, a group is framed, `|` completes, `×` is an error and `/` marks an unsubscription.
 */
export function renderSvg(picture: MarblePicture, recording: Recording): string {
  const spec = specOf(picture);
  const rows = rowsOf(spec, recording);
  const layout = layOut(rows, spec.values);
  const columns = columnsOf(
    layout,
    (letters) => letters.length,
    () => SILENCE_FRAMES,
  );
  const lines = layout.legend.flatMap((line) => line.match(LEGEND_CHARACTERS) ?? []);
  const left = PADDING + Math.ceil(Math.max(...layout.runs.map(({ name }) => widthOf(name)))) + PADDING;
  const time = new Axis(columns, left);
  const right = Math.ceil(Math.max(time.end, left + widthOf(spec.label) + 2 * PADDING));
  const width = Math.max(right, ...lines.map((line) => Math.ceil(left + widthOf(line)))) + PADDING;
  const top = (row: number): number => PADDING + ROW * (row + 0.5);
  const bottom = PADDING + ROW * rows.length;
  const height = bottom + PADDING + LEGEND * lines.length;

  const body = rows.map((row, index) => {
    if ('label' in row) return labelBox(row.label, left, top(index), right - left);
    const kind = recording.inners.includes(row) ? 'b' : row === recording.result ? 'c' : 'a';
    return runOf(row, kind, top(index), time, layout);
  });
  const silences = columns.flatMap(({ frame, silentMs }) =>
    silentMs === undefined
      ? []
      : [`<text class="q" x="${px(time.at(frame) + (SILENCE_FRAMES * FRAME) / 2)}" y="9">${String(silentMs)} ms</text>`],
  );
  const legend = lines.map((line, index) => text(line, left, bottom + LEGEND * (index + 0.5), 'k'));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${px(width)}" height="${px(height)}" viewBox="0 0 ${px(width)} ${px(height)}" role="img" aria-labelledby="t d">`,
    `<title id="t">${escape(`${spec.operator}: ${spec.title}`)}</title>`,
    `<desc id="d">${escape(inWords(layout))}</desc>`,
    `<style>${STYLE}</style>`,
    `<rect width="100%" height="100%" rx="6" style="fill:var(--p);stroke:none"/>`,
    ...body,
    ...silences,
    ...legend,
    '</svg>\n',
  ].join('\n');
}

/** Where a frame is drawn. */
class Axis {
  readonly #starts: ReadonlyMap<number, number>;
  readonly end: number;

  constructor(columns: readonly Column[], left: number) {
    const starts = new Map<number, number>();
    let x = left;
    for (const { frame, width } of columns) {
      starts.set(frame, x);
      x += width * FRAME;
    }
    this.#starts = starts;
    this.end = x;
  }

  at(frame: number): number {
    return this.#starts.get(frame) ?? this.end;
  }
}

function runOf(run: Run, kind: string, y: number, time: Axis, { letters }: Layout): string {
  const endsAt = endOf(run);
  const groups = [...(letters.get(run) ?? [])].map(([frame, marbles]) => ({ x: time.at(frame), marbles }));
  const last = groups.at(-1);
  const from = time.at(run.from);
  // What ends a run stands behind the values of its frame.
  const to = endsAt === Infinity || last === undefined ? time.end : centre(last.x, last.marbles.length - 1);
  const waiting = run.waitingFrom === undefined ? '' : `<path class="w" d="M${px(time.at(run.waitingFrom))} ${px(y)}H${px(from)}"/>`;
  return [
    `<g class="m ${kind}">`,
    `<text x="${px(PADDING)}" y="${px(y + 4)}" class="n">${escape(run.name)}</text>`,
    waiting,
    `<path d="M${px(from)} ${px(y)}H${px(to)}"/>`,
    ...groups.map(({ x, marbles }) => groupOf(marbles, x, y)),
    '</g>',
  ].join('');
}

function groupOf(marbles: string, x: number, y: number): string {
  const values = Array.from(marbles).filter((letter) => !'|#!'.includes(letter)).length;
  const frame =
    values < 2
      ? ''
      : `<rect class="g" x="${px(x - 2)}" y="${px(y - RADIUS - 3)}" width="${px(values * FRAME + 4)}" height="${px(2 * RADIUS + 6)}" rx="11"/>`;
  return frame + Array.from(marbles, (letter, index) => marbleOf(letter, centre(x, index), y)).join('');
}

function marbleOf(letter: string, x: number, y: number): string {
  if (letter === '|') return `<path class="e" d="M${px(x)} ${px(y - RADIUS)}v${px(2 * RADIUS)}"/>`;
  if (letter === '#') return `<path class="e" d="M${px(x - 5)} ${px(y - 5)}l10 10m0-10l-10 10"/>`;
  if (letter === '!') return `<path d="M${px(x - 4)} ${px(y + RADIUS)}l8-${px(2 * RADIUS)}"/>`;
  return `<circle cx="${px(x)}" cy="${px(y)}" r="${px(RADIUS)}"/><text x="${px(x)}" y="${px(y + 4)}">${escape(letter)}</text>`;
}

function labelBox(label: string, x: number, y: number, width: number): string {
  const box = `<rect x="${px(x)}" y="${px(y - 11)}" width="${px(width)}" height="22" rx="4"/>`;
  return box + text(label, x + PADDING, y, '');
}

function text(content: string, x: number, y: number, kind: string): string {
  return `<text${kind === '' ? '' : ` class="${kind}"`} x="${px(x)}" y="${px(y + 4)}">${escape(content)}</text>`;
}

function widthOf(content: string): number {
  return content.length * LETTER_WIDTH;
}

/** The middle of the marble at a place in its group. */
function centre(x: number, place: number): number {
  return x + FRAME * (place + 0.5);
}

/** The drawing for who does not see it: what each stream does, and when. */
function inWords({ runs, letters }: Layout): string {
  const lines = runs.map((run) => {
    const marks = [...(letters.get(run) ?? [])].map(
      ([frame, marbles]) => `${Array.from(marbles, inWord).join(', ')} at ${String(frame)} ms`,
    );
    const waits = run.waitingFrom === undefined ? [] : [`waits from ${String(run.waitingFrom)} ms`];
    const starts = run.from === 0 ? [] : [`starts at ${String(run.from)} ms`];
    return `${run.name}: ${[...waits, ...starts, ...marks].join(', ') || 'silent'}.`;
  });
  return lines.join(' ');
}

function inWord(letter: string): string {
  return { '|': 'completes', '#': 'errors', '!': 'is left' }[letter] ?? letter;
}

function px(length: number): string {
  return String(Math.round(length * 10) / 10);
}

function escape(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
