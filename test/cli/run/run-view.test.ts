import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type RunView, runViewLine, runViewText } from '../../../src/cli/run/run-view.js';

const view: RunView = {
  phase: 'running',
  share: 0.34,
  rows: { done: 678, failed: 2, earlier: 1200 },
  etaMs: 200_000,
  levels: [
    { level: 'rows', queued: 0, heldByRate: 0, heldBySlot: 0, executing: 3, done: 678, failed: 2 },
    { level: 'answer', queued: 20, heldByRate: 12, heldBySlot: 8, executing: 5, done: 13_560, failed: 0 },
    { level: 'requests', queued: 20, heldByRate: 12, heldBySlot: 8, executing: 10 },
  ],
  resultsPerMinute: 480,
  callsPerMinute: 1240,
  tokensPerMinute: 96_500,
  retries: 12,
  expanded: 680,
  costUsd: 0.4199,
};

/** What a terminal shows of it. */
const shown = (text: string): string => stripVTControlCharacters(text);

describe('the view of a run', () => {
  it('shows each level, the pace and the rest of the time', () => {
    expect(runViewText(view, { columns: 100, colour: false })).toBe(
      [
        'running [########................] 34 %  678 rows done, 2 failed, 1,200 from earlier runs, ETA 3 min 20 s',
        'level     queued  held by rate  held by slot  executing  done  failed',
        'rows           0             0             0          3   678       2',
        'answer        20            12             8          5  13,560       0',
        'requests      20            12             8         10',
        'per min: 480 results, 1,240 calls, 96,500 tokens; 12 retries, 680 expanded, $0.4199',
      ]
        .map((line) => line.slice(0, 100))
        .join('\n'),
    );
  });

  it('has nothing to show of levels before they are there', () => {
    const early: RunView = {
      ...view,
      phase: 'reading the journal',
      share: 0,
      levels: [],
      etaMs: undefined,
      rows: { done: 0, failed: 0, earlier: 0 },
    };
    expect(runViewText(early, { columns: 100, colour: true }).split('\n')).toHaveLength(1);
  });

  it('is as wide as the terminal at the most, and says the same with colours and without', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 120 }), fc.double({ min: 0, max: 1, noNaN: true }), (columns, share) => {
        const plain = runViewText({ ...view, share }, { columns, colour: false });
        for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
        expect(shown(runViewText({ ...view, share }, { columns, colour: true }))).toBe(plain);
      }),
    );
    expect(runViewText(view, { columns: 100, colour: true })).toContain('\u001b[31mrows');
    expect(runViewText(view, { columns: 100, colour: false })).not.toContain('\u001b');
  });

  it('fits on one line for a log', () => {
    expect(runViewLine(view)).toBe(
      'running 34 %, 678 rows done, 2 failed, 1,200 from earlier runs, ETA 3 min 20 s; ' +
        'rows: 0 queued, 0 held by rate, 0 held by slot, 3 executing; answer: 20 queued, 12 held by rate, 8 held by slot, 5 executing; ' +
        'requests: 20 queued, 12 held by rate, 8 held by slot, 10 executing; ' +
        'per min: 480 results, 1,240 calls, 96,500 tokens; 12 retries, 680 expanded, $0.4199',
    );
  });
});
