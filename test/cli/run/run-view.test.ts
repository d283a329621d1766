import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type RunView, runViewLine, runViewText } from '../../../src/cli/run/run-view.js';

const view: RunView = {
  phase: 'running',
  progress: { finished: 1880, total: 5500, isEstimate: true, share: 0.34, etaMs: 200_000 },
  failed: 2,
  earlier: 1200,
  levels: [
    { level: 'rows', queued: 0, heldByRate: 0, heldBySlot: 0, executing: 3, done: 678, failed: 2 },
    { level: 'answer', queued: 20, heldByRate: 12, heldBySlot: 8, executing: 5, done: 13_560, failed: 0 },
    { level: 'requests', queued: 20, heldByRate: 12, heldBySlot: 8, executing: 10 },
  ],
  rowsPerMinute: 1,
  resultsPerMinute: 480,
  callsPerMinute: 1240,
  tokensPerMinute: 96_500,
  retries: 12,
  expanded: 680,
  costUsd: 0.4199,
  pausedForMs: 0,
  lastFailure: undefined,
};
const troubled: RunView = { ...view, pausedForMs: 11_200, lastFailure: '400 not this\none' };
const wide = { columns: 100, rows: 24, colour: false };

/** What a terminal shows of it. */
const shown = (text: string): string => stripVTControlCharacters(text);

describe('the view of a run', () => {
  it('shows each level, the pace and the rest of the time', () => {
    expect(runViewText(view, wide).split('\n')).toEqual([
      'running [########................] 34 %  1,880 of about 5,500 rows, 2 failed, ETA 3 min 20 s',
      'level     queued  held by rate  held by slot  executing  done  failed',
      'rows           0             0             0          3   678       2',
      'answer        20            12             8          5  13,560       0',
      'requests      20            12             8         10',
      'per minute: 1 row, 480 results, 1,240 calls, 96,500 tokens',
      'so far: 12 retries, 680 split into several items, 1,200 rows of earlier runs, 0.4199 USD',
    ]);
  });

  it('keeps the time at 80 columns, with a shorter bar', () => {
    const [head = ''] = runViewText(view, { ...wide, columns: 80 }).split('\n');
    expect([head, head.length]).toEqual(['running [####........] 34 %  1,880 of about 5,500 rows, 2 failed, ETA 3 min 20 s', 80]);
  });

  it('says when the provider has asked for a pause, and why the latest failure failed', () => {
    expect(runViewText(troubled, wide).split('\n').slice(-2)).toEqual([
      'paused by the provider (429 or retry-after), 12 s left',
      'last failure: 400 not this\\u000aone',
    ]);
    expect(runViewLine(troubled)).toMatch(
      /; paused by the provider \(429 or retry-after\), 12 s left; last failure: 400 not this\\u000aone$/,
    );
  });

  it('has short lines and no table where that does not fit: narrow, low, or with many stages', () => {
    const lines = [
      'running 34 %, ETA 3 min 20 s',
      '1,880 of about 5,500 rows, 2 failed',
      'paused by the provider, 12 s left',
      'calls: 10 executing, 20 queued',
      '480 results per minute, 0.4199 USD',
      'last failure: 400 not this\\u000aone',
    ];
    expect(runViewText(troubled, { ...wide, columns: 40 }).split('\n')).toEqual(lines);
    expect(runViewText(troubled, { ...wide, rows: 10 }).split('\n')).toEqual(lines);
    expect(runViewText(troubled, { ...wide, rows: 4 }).split('\n')).toEqual(lines.slice(0, 3));
    const levels = Array.from({ length: 20 }, () => view.levels[1] as RunView['levels'][number]);
    expect(runViewText({ ...troubled, levels: [...levels, view.levels[2]!] }, wide).split('\n')).toEqual(lines);
  });

  it('has nothing to show of levels before they are there', () => {
    const progress = { finished: 0, total: undefined, isEstimate: false, share: 0, etaMs: undefined };
    const early: RunView = { ...view, phase: 'reading the journal', progress, levels: [] };
    expect(shown(runViewText(early, { ...wide, colour: true }))).toMatch(/^reading the journal \[\.{24}\] 0 % {2}0 rows, 2 failed$/);
    expect(runViewText(early, { ...wide, columns: 40 }).split('\n')).toHaveLength(2);
  });

  it('is as wide and as high as the terminal at the most, and says the same with colours and without', () => {
    const [size, share] = [fc.integer({ min: 1, max: 120 }), fc.double({ min: 0, max: 1, noNaN: true })];
    fc.assert(
      fc.property(size, size, share, fc.boolean(), (columns, rows, part, isTroubled) => {
        const given = { ...(isTroubled ? troubled : view), progress: { ...view.progress, share: part } };
        const plain = runViewText(given, { columns, rows, colour: false });
        for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
        expect(plain.split('\n').length).toBeLessThanOrEqual(Math.max(1, rows - 1));
        expect(shown(runViewText(given, { columns, rows, colour: true }))).toBe(plain);
      }),
    );
    expect(runViewText(view, { ...wide, colour: true })).toContain('\u001b[31mrows');
    expect(runViewText(view, wide)).not.toContain('\u001b');
  });

  it('fits on one line for a log', () => {
    expect(runViewLine(view)).toBe(
      'running 34 %, 1,880 of about 5,500 rows, 2 failed, ETA 3 min 20 s; ' +
        'rows: 0 queued, 0 held by rate, 0 held by slot, 3 executing; answer: 20 queued, 12 held by rate, 8 held by slot, 5 executing; ' +
        'requests: 20 queued, 12 held by rate, 8 held by slot, 10 executing; ' +
        'per minute: 1 row, 480 results, 1,240 calls, 96,500 tokens; so far: 12 retries, 680 split into several items, 1,200 rows of earlier runs, 0.4199 USD',
    );
  });
});
