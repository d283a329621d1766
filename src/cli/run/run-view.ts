import type { Stages } from '../../pipelines/stages/stages-types.js';
import { formatTime } from '../explain-text.js';
import { counted, formatCount, formatShare } from '../format.js';
import { visibleName } from '../visible.js';
import type { Progress } from './run-progress.js';
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
  readonly progress: Progress;
  /** Rows that failed in this run. */
  readonly failed: number;
  /** Rows that earlier runs were through with. */
  readonly earlier: number;
  readonly levels: readonly LevelView[];
  readonly rowsPerMinute: number;
  /** Items that came through the last stage. */
  readonly resultsPerMinute: number;
  readonly callsPerMinute: number;
  readonly tokensPerMinute: number;
  readonly retries: number;
  readonly expanded: number;
  /** Undefined where a model has no price. */
  readonly costUsd: number | undefined;
  /** How much longer the provider has asked to wait; 0 when it has not. */
  readonly pausedForMs: number;
  /** Why the latest row or item failed. */
  readonly lastFailure: string | undefined;
}

export interface ViewOptions {
  /** Longer lines are cut: a line that is wrapped could not be written over. */
  readonly columns: number;
  /** Lines of the terminal. With few of them, or few columns, the view has no table. */
  readonly rows: number;
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

const BAR_WIDTH = { most: 24, least: 8 };
const COLUMNS = ['queued', 'held by rate', 'held by slot', 'executing', 'done', 'failed'] as const;
/** What the table needs. */
const LEAST = { columns: 60, rows: 12 };

interface Line {
  readonly text: string;
  readonly code?: number;
}

/** The live display. Pure: the terminal is the printer's business. */
export function runViewText(view: RunView, { columns, rows, colour }: ViewOptions): string {
  const paint = (code: number | undefined, text: string): string =>
    colour && code !== undefined && text !== '' ? `\u001b[${String(code)}m${text}\u001b[0m` : text;
  const cut = (text: string): string => text.slice(0, Math.max(1, columns));
  const isSmall = columns < LEAST.columns || rows < LEAST.rows;
  const wide = isSmall ? [] : [...tableLines(view), ...paceLines(view), ...troubleLines(view)];
  // The line below the last one has the cursor.
  if (isSmall || wide.length + 1 >= rows)
    return smallLines(view)
      .slice(0, Math.max(1, rows - 1))
      .map(({ text, code }) => paint(code, cut(text)))
      .join('\n');
  return [headLine(view, columns, (text) => paint(32, text)), ...wide.map(({ text, code }) => paint(code, cut(text)))].join('\n');
}

/** The same on one line, for logs. */
export function runViewLine(view: RunView): string {
  const levels = view.levels.map(({ level, queued, heldByRate, heldBySlot, executing }) => {
    const held = `${String(queued)} queued, ${String(heldByRate)} held by rate, ${String(heldBySlot)} held by slot`;
    return `${visibleName(level)}: ${held}, ${String(executing)} executing`;
  });
  return [headText(view), ...levels, ...[...paceLines(view), ...troubleLines(view)].map(({ text }) => text)].join('; ');
}

function headText({ phase, progress, ...view }: RunView): string {
  return `${phase} ${formatShare(progress.share)}, ${rowsText({ progress, ...view })}`;
}

function headLine(view: RunView, columns: number, paint: (text: string) => string): string {
  const { phase, progress } = view;
  const [before, after] = [`${phase} [`, `] ${formatShare(progress.share)}  ${rowsText(view)}`];
  const free = columns - before.length - after.length;
  const width = Math.min(BAR_WIDTH.most, Math.max(BAR_WIDTH.least, free));
  const full = Math.round(Math.min(1, progress.share) * width);
  const room = Math.max(0, columns - before.length - width);
  return `${before}${paint(`${'#'.repeat(full)}${'.'.repeat(width - full)}`)}${after.slice(0, room)}`;
}

function rowsText({ progress: { finished, total, isEstimate, etaMs }, failed }: Pick<RunView, 'failed' | 'progress'>): string {
  const of =
    total === undefined ? counted(finished, 'row') : `${formatCount(finished)} of ${isEstimate ? 'about ' : ''}${counted(total, 'row')}`;
  return `${of}, ${formatCount(failed)} failed${etaText(etaMs)}`;
}

function etaText(etaMs: number | undefined): string {
  return etaMs === undefined ? '' : `, ETA ${formatTime(Math.ceil(etaMs / 1000) * 1000)}`;
}

function tableLines({ levels }: RunView): Line[] {
  if (levels.length === 0) return [];
  const named = levels.map((level) => ({ ...level, level: visibleName(level.level) }));
  const width = Math.max(...named.map(({ level }) => level.length), 'level'.length);
  return [
    { text: ['level'.padEnd(width), ...COLUMNS].join('  '), code: 2 },
    ...named.map((level) => ({ text: tableLine(level, width), ...((level.failed ?? 0) > 0 && { code: 31 }) })),
  ];
}

function tableLine(level: LevelView, width: number): string {
  const { queued, heldByRate, heldBySlot, executing, done, failed } = level;
  const cells = [queued, heldByRate, heldBySlot, executing, done, failed].map((value, i) =>
    (value === undefined ? '' : formatCount(value)).padStart(COLUMNS[i]?.length ?? 0),
  );
  return [level.level.padEnd(width), ...cells].join('  ').trimEnd();
}

function paceLines(view: RunView): Line[] {
  if (view.levels.length === 0) return [];
  const { rowsPerMinute, resultsPerMinute, callsPerMinute, tokensPerMinute, retries, expanded, earlier, costUsd } = view;
  const pace = [
    counted(rowsPerMinute, 'row'),
    counted(resultsPerMinute, 'result'),
    counted(callsPerMinute, 'call'),
    counted(tokensPerMinute, 'token'),
  ];
  const sofar = [
    counted(retries, 'retry', 'retries'),
    ...(expanded === 0 ? [] : [`${formatCount(expanded)} split into several items`]),
    ...(earlier === 0 ? [] : [`${counted(earlier, 'row')} of earlier runs`]),
    ...(costUsd === undefined ? [] : [formatUsd(costUsd)]),
  ];
  return [{ text: `per minute: ${pace.join(', ')}` }, { text: `so far: ${sofar.join(', ')}` }];
}

function troubleLines({ pausedForMs, lastFailure }: RunView): Line[] {
  return [
    ...(pausedForMs > 0 ? [{ text: `paused by the provider (429 or retry-after), ${secondsText(pausedForMs)} left`, code: 33 }] : []),
    ...(lastFailure === undefined ? [] : [{ text: `last failure: ${visibleName(lastFailure)}`, code: 31 }]),
  ];
}

function secondsText(ms: number): string {
  return formatTime(Math.ceil(ms / 1000) * 1000);
}

/** For a terminal that the table does not fit on: short lines, the most important first. */
function smallLines(view: RunView): Line[] {
  const { phase, progress, failed, levels, pausedForMs, lastFailure, resultsPerMinute, costUsd } = view;
  const { finished, total, isEstimate, etaMs, share } = progress;
  const of = total === undefined ? '' : ` of ${isEstimate ? 'about ' : ''}${formatCount(total)}`;
  const calls = levels.at(-1);
  return [
    { text: `${phase} ${formatShare(share)}${etaText(etaMs)}` },
    { text: `${formatCount(finished)}${of} rows, ${formatCount(failed)} failed` },
    ...(pausedForMs > 0 ? [{ text: `paused by the provider, ${secondsText(pausedForMs)} left`, code: 33 }] : []),
    ...(calls === undefined ? [] : [{ text: `calls: ${formatCount(calls.executing)} executing, ${formatCount(calls.queued)} queued` }]),
    ...(calls === undefined
      ? []
      : [{ text: `${counted(resultsPerMinute, 'result')} per minute${costUsd === undefined ? '' : `, ${formatUsd(costUsd)}`}` }]),
    ...(lastFailure === undefined ? [] : [{ text: `last failure: ${visibleName(lastFailure)}`, code: 31 }]),
  ];
}
