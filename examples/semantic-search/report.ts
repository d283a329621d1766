import type { EmbedderSnapshot } from '../../src/index.js';
import type { Asker, Questions } from './asker.js';
import type { Corpus } from './documents.js';
import type { IndexResult } from './index-documents.js';
import { type Hit, search } from './search.js';

export interface Report {
  readonly corpus: Corpus;
  readonly result: IndexResult;
  readonly asker: Asker;
  readonly questions: Questions;
  readonly flow: EmbedderSnapshot;
  /** Calls with passages, retries included. */
  readonly passageCalls: number;
  readonly durationMs: number;
}

/** One line about a run under way. */
export function progressText(done: number, total: number, flow: EmbedderSnapshot): string {
  const { calls, executing, queued, heldByRate, throttled, retries, splits } = flow;
  const passages = `${done} of ${total} passages; ${calls} calls, ${executing} in flight`;
  return `${passages}; ${queued} texts waiting (${heldByRate} for the rate); 429s ${throttled}, retries ${retries}, splits ${splits}`;
}

/** What a run did: failures first, then each question, then the totals. */
export function reportText({ corpus, result, asker, questions, flow, passageCalls, durationMs }: Report): string {
  const { accepted, settled, indexed, reused, failed } = result;
  const answers = questions.map(({ question, expected }) => {
    const vector = asker.vectors.get(question);
    const found = vector && search(indexed, vector, 1)[0]?.passage.file;
    return { hit: found === expected, text: `${question} -> ${found ?? 'no answer'}${found === expected ? '' : `, expected ${expected}`}` };
  });
  const files = new Set(corpus.passages.map(({ file }) => file)).size;
  const texts = accepted + asker.asked;
  const lost = texts - settled - asker.idleMs.length - asker.busyMs.length - asker.failed;
  const lines = [
    ...corpus.skipped.map(({ file, reason }) => `skipped ${file}: ${reason}`),
    ...failed.map(({ passage, reason }) => `left out ${placeOf(passage)}: ${reason}`),
    ...answers.map(({ hit, text }) => `${hit ? 'hit  ' : 'miss '} ${text}`),
    `documents: ${files}, passages: ${corpus.passages.length} (${accepted} sent, ${reused} reused, ${failed.length} failed)`,
    `calls: ${flow.calls}, one call per text would be ${texts}; ${(accepted / Math.max(1, passageCalls)).toFixed(1)} passages per call`,
    `429s: ${flow.throttled}, retries: ${flow.retries}, splits: ${flow.splits}`,
  ];
  if (questions.length > 0)
    lines.push(
      `questions: ${answers.filter(({ hit }) => hit).length} of ${questions.length} found their document first; ${asker.failed} failed`,
      `answered: idle ${latencies(asker.idleMs)}; while indexing ${latencies(asker.busyMs)}`,
    );
  lines.push(`accepted ${texts}, lost ${lost}; took ${(durationMs / 1000).toFixed(1)} s`);
  return lines.join('\n');
}

/** Enough lines to recognise a passage by. */
const PREVIEW_LINES = 6;

export function hitText({ passage, score }: Hit): string {
  const lines = passage.text.split('\n');
  const preview = lines.slice(0, PREVIEW_LINES).map((line) => `  ${line}`.trimEnd());
  if (lines.length > PREVIEW_LINES) preview.push(`  … ${lines.length - PREVIEW_LINES} more lines`);
  return `${score.toFixed(3)}  ${placeOf(passage)}\n${preview.join('\n')}\n`;
}

function placeOf({ file, startLine, endLine }: Hit['passage'] | IndexResult['failed'][number]['passage']): string {
  return `${file}:${startLine}-${endLine}`;
}

function latencies(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const [median, slowest] = [sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0];
  return `${sorted.length} times, median ${median.toFixed(0)} ms, slowest ${slowest.toFixed(0)} ms`;
}
