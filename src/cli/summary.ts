import { formatCount, formatMs, formatShare } from './format.js';
import type { IndexSummary, LostPassage, QuestionResult } from './index-summary.js';
import type { LatencySummary } from './latency.js';
import { visibleName } from './visible.js';

/** What a run did, for people. */
export function summaryText(summary: IndexSummary): string {
  return [
    ...list('note', summary.notes),
    ...list(
      'skipped',
      summary.skipped.map(({ file, reason }) => `${file}: ${reason}`),
    ),
    ...list('poisoned, left out', summary.poisoned.map(passage)),
    ...list('failed, left out', summary.failed.map(passage)),
    ...questionLines(summary.questions),
    ...totals(summary),
    outcome(summary),
  ].join('\n');
}

function list(label: string, items: readonly string[]): string[] {
  return items.map((item) => `${label}: ${visibleName(item)}`);
}

function passage({ file, startLine, endLine, reason }: LostPassage): string {
  return `${file}:${String(startLine)}-${String(endLine)}: ${reason}`;
}

function questionLines(questions: readonly QuestionResult[]): string[] {
  if (questions.length === 0) return [];
  const lines = questions.map(({ question, expected, found, score, hit }) => {
    const result = found === undefined ? 'no answer' : `${found} (${(score ?? 0).toFixed(3)})`;
    return visibleName(hit ? `hit   ${question} -> ${result}` : `miss  ${question} -> ${result}, expected ${expected}`);
  });
  const hits = questions.filter(({ hit }) => hit).length;
  return [...lines, `questions: ${String(hits)} of ${String(questions.length)} found their document first`];
}

function totals(summary: IndexSummary): string[] {
  const { documents, chunks, embedded, reused, duplicates, calls, callsWithoutBatching, meanFill, throttled, retries, splits } = summary;
  const lines = [
    `documents: ${formatCount(documents)}, passages: ${formatCount(chunks)} (${formatCount(embedded)} embedded, ${formatCount(reused)} reused, ${formatCount(duplicates)} equal to another)`,
    `calls: ${formatCount(calls)}, without batching ${formatCount(callsWithoutBatching)}; batches ${formatShare(meanFill)} full`,
    `429s: ${formatCount(throttled)}, retries: ${formatCount(retries)}, splits: ${formatCount(splits)}, poisoned: ${formatCount(summary.poisoned.length)}, failed: ${formatCount(summary.failed.length)}`,
  ];
  if (summary.p0Idle.count > 0) {
    lines.push(
      `questions answered: idle ${latencies(summary.p0Idle, 'asked')}; while indexing ${latencies(summary.p0WhileIndexing, 'asked')}; failed ${formatCount(summary.questionsFailed)}`,
    );
  }
  lines.push(
    `background calls: ${latencies(summary.backgroundCalls, 'made')}`,
    `accepted ${formatCount(summary.accepted)}, settled ${formatCount(summary.settled)}, lost ${formatCount(summary.lost)}; took ${formatMs(summary.durationMs)}`,
  );
  return lines;
}

function latencies({ count, p50Ms, p99Ms }: LatencySummary, what: string): string {
  return `p50 ${formatMs(p50Ms)}, p99 ${formatMs(p99Ms)} (${formatCount(count)} ${what})`;
}

function outcome({ interrupted, index, journal, chunks, indexed }: IndexSummary): string {
  if (interrupted) return `interrupted: no index written; what was embedded is kept in ${journal}, run the same command again to go on`;
  return `wrote ${index}: ${formatCount(indexed)} of ${formatCount(chunks)} passages`;
}
