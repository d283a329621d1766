import type { Stages } from '../../pipelines/stages/stages-types.js';
import { formatTime } from '../explain-text.js';
import { counted, formatCount, formatShare } from '../format.js';
import { visibleName } from '../visible.js';
import { formatUsd } from './run-summary.js';

/** What waits and runs at one level. */
export interface LevelView {
  readonly level: string;
  readonly queued: number;
  readonly heldByRate: number;
  readonly heldBySlot: number;
  readonly executing: number;
  /** Undefined where it is not counted. */
  readonly done?: number;
  readonly failed?: number;
}

/** What is going on right now. */
export interface RunView {
  readonly phase: 'reading the journal' | 'running' | 'stopping' | 'writing';
  /** How much of the input is through, from 0 to 1. */
  readonly share: number;
  readonly rows: { readonly done: number; readonly failed: number; readonly earlier: number };
  /** Undefined while it cannot be known. */
  readonly etaMs: number | undefined;
  readonly levels: readonly LevelView[];
  /** Items that came through the last stage. */
  readonly resultsPerMinute: number;
  readonly callsPerMinute: number;
  readonly tokensPerMinute: number;
  readonly retries: number;
  readonly expanded: number;
  /** Undefined where a model has no price. */
  readonly costUsd: number | undefined;
}

export interface ViewOptions {
  /** Longer lines are cut: a line that is wrapped could not be written over. */
  readonly columns: number;
  readonly colour: boolean;
}

/** What waits and runs in the stages, at every level. */
export function levelsOf(pipeline: Pick<Stages<never, unknown>, 'snapshot'>): LevelView[] {
  const { documents, stages, requests } = pipeline.snapshot();
  return [
    { level: 'rows', ...documents },
    ...Object.entries(stages).map(([level, load]) => ({ level, ...load })),
    { level: 'calls', ...requests },
  ];
}

const BAR_WIDTH = 24;
const COLUMNS = ['queued', 'held by rate', 'held by slot', 'executing', 'done', 'failed'] as const;

/** The live display. Pure: the terminal is the printer's business. */
export function runViewText(view: RunView, { columns, colour }: ViewOptions): string {
  const paint = (code: number, text: string): string => (colour && text !== '' ? `\u001b[${String(code)}m${text}\u001b[0m` : text);
  const cut = (text: string): string => text.slice(0, Math.max(1, columns));
  const levels = view.levels.map((level) => ({ ...level, level: visibleName(level.level) }));
  const width = Math.max(...levels.map(({ level }) => level.length), 'level'.length);
  const table = levels.map((level) => ({ text: cut(tableLine(level, width)), failed: (level.failed ?? 0) > 0 }));
  return [
    headLine(view, columns, (text) => paint(32, text)),
    ...(table.length === 0 ? [] : [paint(2, cut(['level'.padEnd(width), ...COLUMNS].join('  ')))]),
    ...table.map(({ text, failed }) => (failed ? paint(31, text) : text)),
    ...(table.length === 0 ? [] : [cut(ratesLine(view))]),
  ].join('\n');
}

/** The same on one line, for logs. */
export function runViewLine(view: RunView): string {
  const levels = view.levels.map(({ level, queued, heldByRate, heldBySlot, executing }) => {
    const held = `${String(queued)} queued, ${String(heldByRate)} held by rate, ${String(heldBySlot)} held by slot`;
    return `${visibleName(level)}: ${held}, ${String(executing)} executing`;
  });
  return [`${view.phase} ${formatShare(view.share)}, ${rowsText(view)}`, ...levels, ratesLine(view)].join('; ');
}

function headLine(view: RunView, columns: number, paint: (text: string) => string): string {
  const full = Math.round(Math.min(1, view.share) * BAR_WIDTH);
  const bar = `${'#'.repeat(full)}${'.'.repeat(BAR_WIDTH - full)}`;
  const [before, after] = [`${view.phase} [`, `] ${formatShare(view.share)}  ${rowsText(view)}`];
  const room = columns - before.length;
  if (room < bar.length) return `${before}${bar}${after}`.slice(0, Math.max(1, columns));
  return `${before}${paint(bar)}${after.slice(0, room - bar.length)}`;
}

function rowsText({ rows: { done, failed, earlier }, etaMs }: RunView): string {
  const before = earlier === 0 ? '' : `, ${formatCount(earlier)} from earlier runs`;
  const eta = etaMs === undefined ? '' : `, ETA ${formatTime(Math.ceil(etaMs / 1000) * 1000)}`;
  return `${counted(done, 'row')} done, ${formatCount(failed)} failed${before}${eta}`;
}

function tableLine(level: LevelView, width: number): string {
  const { queued, heldByRate, heldBySlot, executing, done, failed } = level;
  const cells = [queued, heldByRate, heldBySlot, executing, done, failed].map((value, i) =>
    (value === undefined ? '' : formatCount(value)).padStart(COLUMNS[i]?.length ?? 0),
  );
  return [level.level.padEnd(width), ...cells].join('  ').trimEnd();
}

function ratesLine({ resultsPerMinute, callsPerMinute, tokensPerMinute, retries, expanded, costUsd }: RunView): string {
  const cost = costUsd === undefined ? '' : `, ${formatUsd(costUsd)}`;
  return `per min: ${formatCount(resultsPerMinute)} results, ${formatCount(callsPerMinute)} calls, ${formatCount(tokensPerMinute)} tokens; ${counted(retries, 'retry', 'retries')}, ${formatCount(expanded)} expanded${cost}`;
}
