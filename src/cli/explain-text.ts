import type { Spelling } from '../edge/config/spelling.js';
import type { Throughput, ThroughputLevel, ThroughputPlan } from '../pipelines/throughput.js';
import type { Advice } from './explain-advice.js';
import { counted, formatCount, formatRate } from './format.js';

/** What bounds a configuration, and what to change, for people. */
export interface Explained {
  readonly plan: ThroughputPlan;
  readonly assumed: readonly string[];
  readonly throughput: Throughput;
  readonly advice: readonly Advice[];
  /** How the configuration writes a setting. */
  readonly spelled: (setting: string) => Spelling;
}

export function explainText({ plan, assumed, throughput: explained, advice, spelled }: Explained): string {
  const { documents, items, calls, tokens, makespanMs, bottleneck, raise } = explained;
  const work = [counted(documents, 'document'), counted(items, 'result'), counted(calls, 'call'), counted(tokens, 'token')];
  const rows = explained.levels.map((level) => [
    spelled(level.setting).name,
    limitText(plan, level, spelled(level.setting)),
    formatTime(level.boundMs),
    `${formatRate(level.itemsPerSecond)}/s`,
    `${String(Math.round(level.utilisation * 100))} %`,
    level.setting === bottleneck.setting ? '<- bottleneck' : '',
  ]);
  const heads = ['limit', 'is', 'takes at least', 'results', 'used', ''];
  const next = raise ? raiseText(raise, spelled) : 'No limit is in the way: only shorter calls, or fewer in a row, would help.';
  return [
    `${work.join(', ')}: at least ${formatTime(makespanMs)}, ${formatRate(explained.itemsPerSecond)} results a second.`,
    '',
    ...table([heads, ...rows]),
    '',
    next,
    '',
    'If you see …',
    ...table(
      advice.map(({ seen, change }) => [seen, change]),
      'left',
    ),
    ...(assumed.length > 0 ? [''] : []),
    ...(assumed.length > 0 ? [`Assumed, as nothing says otherwise: ${assumed.join(', ')}.`] : []),
  ].join('\n');
}

function raiseText(
  { setting, from, to, isStep, makespanMs, next }: NonNullable<Throughput['raise']>,
  spelled: Explained['spelled'],
): string {
  const { name, factor } = spelled(setting);
  const step = `Raise \`${name}\` from ${formatRate(from / factor)} to ${formatRate(to / factor)}: ${formatTime(makespanMs)}`;
  if (isStep)
    return `${step}, and it is still the bottleneck. Look at errors and memory before you raise it again: nothing here knows those limits.`;
  return next === setting ? `${step}, and more gains next to nothing.` : `${step}, then \`${spelled(next).name}\` is the bottleneck.`;
}

function limitText(
  { limits = {}, stages }: ThroughputPlan,
  { level, setting, limit }: ThroughputLevel,
  { factor, unit }: Spelling,
): string {
  if (limit === Infinity) return 'none';
  const shown = formatRate(limit);
  const { headroom = 0.9, burst } = limits;
  if (level === 'stage') {
    const isEach = stages.some(({ name, scope }) => scope === 'perBatch' && setting === `stages.${name}.concurrency`);
    return isEach ? `${shown} each` : shown;
  }
  if (level !== 'requestRate' && level !== 'tokenRate') return shown;
  const ahead = level === 'requestRate' && burst !== undefined ? `, ${formatRate(burst)} at once` : '';
  return `${formatRate(limit / factor)}${unit}${headroom === 1 ? '' : ` x ${String(headroom)}`}${ahead}`;
}

function table(rows: readonly (readonly string[])[], numbers: 'left' | 'right' = 'right'): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows.map((row) =>
    `  ${row.map((cell, i) => (i === 0 || numbers === 'left' ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join('  ')}`.trimEnd(),
  );
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
