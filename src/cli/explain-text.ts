import type { Throughput, ThroughputLevel, ThroughputPlan } from '../pipelines/throughput.js';
import { formatCount } from './format.js';

/** What bounds a configuration, for people. */
export function explainText(plan: ThroughputPlan, assumed: readonly string[], explained: Throughput): string {
  const { documents, items, calls, tokens, makespanMs, bottleneck, raise } = explained;
  const work = [
    `${formatCount(documents)} documents`,
    `${formatCount(items)} results`,
    `${formatCount(calls)} calls`,
    `${formatCount(tokens)} tokens`,
  ];
  const rows = explained.levels.map((level) => [
    level.setting,
    limitText(plan, level),
    formatTime(level.boundMs),
    `${formatRate(level.itemsPerSecond)}/s`,
    `${String(Math.round(level.utilisation * 100))} %`,
    level.setting === bottleneck.setting ? '<- bottleneck' : '',
  ]);
  const heads = ['limit', 'is', 'takes at least', 'results', 'used', ''];
  const then = raise?.next === raise?.setting ? 'and more gains next to nothing' : `then \`${String(raise?.next)}\` is the bottleneck`;
  const next = raise
    ? `Raise \`${raise.setting}\` from ${formatRate(raise.from)} to ${formatRate(raise.to)}: ${formatTime(raise.makespanMs)}, ${then}.`
    : 'No limit is in the way: only shorter calls, or fewer in a row, would help.';
  return [
    `${work.join(', ')}: at least ${formatTime(makespanMs)}, ${formatRate(explained.itemsPerSecond)} results a second.`,
    '',
    ...table([heads, ...rows]),
    '',
    next,
    ...(assumed.length > 0 ? [`Assumed, as nothing says otherwise: ${assumed.join(', ')}.`] : []),
  ].join('\n');
}

function limitText({ limits = {}, stages }: ThroughputPlan, { level, setting, limit }: ThroughputLevel): string {
  if (limit === Infinity) return 'none';
  const shown = formatRate(limit);
  const { headroom = 0.9, burst } = limits;
  if (level === 'stage') {
    const isEach = stages.some(({ name, scope }) => scope === 'perBatch' && setting === `stages.${name}.concurrency`);
    return isEach ? `${shown} each` : shown;
  }
  if (level !== 'requestRate' && level !== 'tokenRate') return shown;
  const ahead = level === 'requestRate' && burst !== undefined ? `, ${formatRate(burst)} at once` : '';
  return `${shown}/min${headroom === 1 ? '' : ` x ${String(headroom)}`}${ahead}`;
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows.map((row) =>
    `  ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  ')}`.trimEnd(),
  );
}

/** Three digits that count. */
function formatRate(value: number): string {
  if (value === Infinity) return 'any';
  return value >= 1000 ? formatCount(value) : String(Number(value.toPrecision(3)));
}

/** `2 h 57 min`, `3 min 5 s`, `12.3 s`. */
export function formatTime(ms: number): string {
  if (ms === Infinity) return 'for ever';
  const seconds = ms / 1000;
  if (seconds < 60) return `${String(Number(seconds.toFixed(1)))} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${String(minutes)} min ${String(Math.round(seconds) % 60)} s`;
  return `${formatCount(Math.floor(Math.round(seconds / 60) / 60))} h ${String(Math.round(seconds / 60) % 60)} min`;
}
