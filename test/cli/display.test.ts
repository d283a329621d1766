import { describe, expect, it } from 'vitest';
import { formatCount, formatMs, formatShare } from '../../src/cli/format.js';
import type { JobProgress } from '../../src/cli/index-job.js';
import type { IndexSummary } from '../../src/cli/index-summary.js';
import { summarizeLatencies } from '../../src/cli/latency.js';
import { progressLine, progressText } from '../../src/cli/progress.js';
import { summaryText } from '../../src/cli/summary.js';

const none = { count: 0, p50Ms: undefined, p99Ms: undefined };

const progress: JobProgress = {
  phase: 'embedding',
  done: 512,
  total: 1024,
  meanFill: 0.987,
  flow: {
    queued: 24,
    heldByRate: 12,
    heldBySlot: 0,
    executing: 2,
    calls: 43,
    throttled: 1,
    retries: 2,
    splits: 3,
    fulfilled: 512,
    rejected: 0,
    meanFill: 0.6,
  },
  p0: { count: 30, p50Ms: 41.2, p99Ms: 12_345 },
};

const summary: IndexSummary = {
  exitCode: 0,
  interrupted: false,
  index: 'i.jsonl',
  journal: 'i.jsonl.journal',
  model: 'm',
  documents: 3,
  chunks: 1500,
  indexed: 1499,
  embedded: 1400,
  reused: 98,
  duplicates: 1,
  calls: 120,
  callsWithoutBatching: 1440,
  meanFill: 0.97,
  throttled: 4,
  retries: 5,
  splits: 6,
  backgroundCalls: { count: 105, p50Ms: 400, p99Ms: 1234.5 },
  poisoned: [{ file: 'a.md', startLine: 3, endLine: 9, reason: '400 bad text' }],
  failed: [],
  skipped: [{ file: 'logo.png', reason: 'binary (contains NUL bytes)' }],
  p0Idle: { count: 15, p50Ms: 30, p99Ms: 60 },
  p0WhileIndexing: { count: 40, p50Ms: 300, p99Ms: 900 },
  questionsFailed: 0,
  questions: [
    { question: 'Why?', expected: 'a.md', found: 'a.md', score: 0.61, hit: true },
    { question: 'How?', expected: 'b.md', found: 'a.md', score: 0.4, hit: false },
    { question: 'Who?', expected: 'c.md', found: undefined, score: undefined, hit: false },
  ],
  accepted: 1440,
  settled: 1440,
  lost: 0,
  notes: ['2 damaged lines of the journal were skipped'],
  durationMs: 65_432,
};

describe('progressText', () => {
  it('shows what is going on in four lines', () => {
    expect(progressText(progress)).toBe(
      [
        'embedding [############............] 512/1,024 passages',
        'calls 43, 2 in flight, batches 99 % full',
        'queued 24, held by rate 12, 429s 1, retries 2, splits 3',
        'questions: p50 41 ms, p99 12.3 s (last 30)',
      ].join('\n'),
    );
  });

  it('leaves out what there is not', () => {
    expect(progressText({ phase: 'reading', done: 0, total: 0, meanFill: 0, flow: undefined, p0: none })).toBe('reading');
  });

  it('fits on one line for a log', () => {
    expect(progressLine(progress)).not.toContain('\n');
    expect(progressLine(progress)).toMatch(/^embedding .*; calls 43, .*; questions: /);
  });
});

describe('summaryText', () => {
  it('names everything that went wrong, every question and all totals', () => {
    expect(summaryText(summary)).toBe(
      [
        'note: 2 damaged lines of the journal were skipped',
        'skipped: logo.png: binary (contains NUL bytes)',
        'poisoned, left out: a.md:3-9: 400 bad text',
        'hit   Why? -> a.md (0.610)',
        'miss  How? -> a.md (0.400), expected b.md',
        'miss  Who? -> no answer, expected c.md',
        'questions: 1 of 3 found their document first',
        'documents: 3, passages: 1,500 (1,400 embedded, 98 reused, 1 equal to another)',
        'calls: 120, without batching 1,440; batches 97 % full',
        '429s: 4, retries: 5, splits: 6, poisoned: 1, failed: 0',
        'questions answered: idle p50 30 ms, p99 60 ms (15 asked); while indexing p50 300 ms, p99 900 ms (40 asked); failed 0',
        'background calls: p50 400 ms, p99 1,235 ms (105 made)',
        'accepted 1,440, settled 1,440, lost 0; took 65.4 s',
        'wrote i.jsonl: 1,499 of 1,500 passages',
      ].join('\n'),
    );
  });

  it('says how to go on after an interrupt', () => {
    const text = summaryText({ ...summary, interrupted: true, questions: [], p0Idle: none });
    expect(text).toMatch(
      /interrupted: no index written; what was embedded is kept in i.jsonl.journal, run the same command again to go on$/,
    );
    expect(text).not.toContain('questions');
  });
});

describe('summarizeLatencies', () => {
  it('takes percentiles by nearest rank', () => {
    const hundred = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(summarizeLatencies(hundred)).toEqual({ count: 100, p50Ms: 50, p99Ms: 99 });
    expect(summarizeLatencies([7])).toEqual({ count: 1, p50Ms: 7, p99Ms: 7 });
    expect(summarizeLatencies([])).toEqual(none);
  });
});

it('formats numbers for people', () => {
  expect([0, 999, 1000, 1_234_567].map(formatCount)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect([undefined, 0.4, 9999, 10_000].map(formatMs)).toEqual(['-', '0 ms', '9,999 ms', '10.0 s']);
  expect(formatShare(0.125)).toBe('13 %');
});
