import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isFlowError } from '../../operators/errors.js';
import type { StageLoad, ThroughputPlan } from '../../src/pipelines/throughput.js';
import { explainThroughput } from '../../src/pipelines/throughput.js';

const paper = (scope: 'shared' | 'perBatch'): readonly StageLoad[] => [
  { name: 'generate', concurrency: 1, scope, secondsPerCall: 60 },
  { name: 'answer', concurrency: 5, scope, itemsPerDocument: 20, secondsPerCall: 30 },
  { name: 'grade', concurrency: 3, scope, itemsPerDocument: 20, secondsPerCall: 20 },
];
const papers = (scope: 'shared' | 'perBatch'): ThroughputPlan => ({
  documents: 100,
  batches: { concurrency: 3 },
  stages: paper(scope),
  limits: { concurrency: 10, requestsPerMinute: 300, burst: 10 },
});
const minutes = (ms: number) => ms / 60_000;

describe('a hundred papers', () => {
  it('with stages per paper are bound by ten requests: 177 minutes, not the 143 of waves', () => {
    const { makespanMs, bottleneck, calls, items, raise } = explainThroughput(papers('perBatch'));
    expect([calls, items]).toEqual([4100, 2000]);
    // 1060 s of calls a paper; nine requests of ten at the most until the first answers come, and at the end.
    expect(makespanMs).toBe((100 * 1060 * 1000 + 7 * 60_000 + 20_000) / 10);
    expect(minutes(makespanMs)).toBeCloseTo(177.4, 1);
    expect(bottleneck).toMatchObject({ level: 'requests', setting: 'limits.concurrency', limit: 10, utilisation: 1 });
    expect(raise).toEqual({ setting: 'limits.concurrency', from: 10, to: 14, makespanMs: 34 * 230_000, next: 'batches.concurrency' });
  });

  it('with stages that all papers share are bound by the grading', () => {
    const { makespanMs, bottleneck, raise } = explainThroughput(papers('shared'));
    expect(makespanMs).toBe((60 + 30 + Math.ceil(2000 / 3) * 20) * 1000);
    expect(bottleneck.setting).toBe('stages.grade.concurrency');
    expect(raise).toMatchObject({ from: 3, to: 4, next: 'stages.answer.concurrency' });
  });

  it('say how near every other level is', () => {
    const { levels } = explainThroughput(papers('perBatch'));
    expect(levels.map(({ setting, boundMs, utilisation }) => [setting, boundMs / 1000, utilisation.toFixed(2)])).toEqual([
      ['batches.concurrency', 7820, '0.73'],
      ['stages.generate.concurrency', 2090, '0.20'],
      ['stages.answer.concurrency', 4100, '0.39'],
      ['stages.grade.concurrency', 4550, '0.43'],
      ['limits.concurrency', 10_644, '1.00'],
      ['limits.requestsPerMinute', expect.closeTo(988, 0) as number, '0.09'],
    ]);
  });
});

describe('a level', () => {
  const of = (plan: Partial<ThroughputPlan>) =>
    explainThroughput({ documents: 600, stages: [{ name: 's', secondsPerCall: 2, tokensPerCall: 500 }], ...plan });

  it('of requests per minute: what is saved up goes at once, the rest as it comes in', () => {
    expect(of({ limits: { requestsPerMinute: 60, headroom: 1, burst: 10 } }).makespanMs).toBe(590_000 + 2000);
    expect(of({ limits: { requestsPerMinute: 60, headroom: 1 } }).makespanMs).toBe(598_000 + 2000);
    expect(of({ limits: { requestsPerMinute: 60 } }).makespanMs).toBeCloseTo((600 - 1.8) / 0.9e-3 + 2000, 3);
  });

  it('of tokens per minute counts a call that is larger than what can be saved up', () => {
    expect(of({ limits: { tokensPerMinute: 30_000, headroom: 1 } }).makespanMs).toBe((300_000 - 1000) / 0.5 + 2000);
    expect(of({ limits: { tokensPerMinute: 3000, headroom: 1 } }).makespanMs).toBe((300_000 - 500) / 0.05 + 2000);
  });

  it('of documents in progress takes the way of one document as often as there are rounds', () => {
    const stages = [
      { name: 'a', secondsPerCall: 1, callsPerItem: 3 },
      { name: 'b', secondsPerCall: 5, itemsPerDocument: 4, concurrency: 2, scope: 'perBatch' as const },
    ];
    expect(explainThroughput({ documents: 7, batches: { concurrency: 3 }, stages }).makespanMs).toBe(3 * (3000 + 2 * 5000));
  });

  it('that nothing can be done about has nothing to raise', () => {
    expect(of({ documents: 1 })).toMatchObject({ makespanMs: 2000, bottleneck: { level: 'batches', limit: Infinity } });
    expect(of({ documents: 1 })).not.toHaveProperty('raise');
  });

  it('inside one document is what is raised when all documents are in progress', () => {
    const stages = [{ name: 'a', secondsPerCall: 1, itemsPerDocument: 12, concurrency: 3, scope: 'perBatch' as const }];
    expect(explainThroughput({ documents: 2, stages }).raise).toEqual({
      setting: 'stages.a.concurrency',
      from: 3,
      to: 12,
      makespanMs: 1000,
      next: 'batches.concurrency',
    });
  });

  it('of nothing at all takes no time', () => {
    expect(of({ documents: 0, batches: { concurrency: 3 }, limits: { concurrency: 2, requestsPerMinute: 5 } }).makespanMs).toBe(0);
  });
});

describe('options', () => {
  it.each<[object, string]>([
    [{ documents: -1 }, '`documents` to be a finite number >= 0, got `-1`'],
    [{ documents: 1, stages: [] }, '`stages` to be a list of at least one stage'],
    [{ documents: 1, stages: [{ name: 's', secondsPerCal: 1 }] }, '`stages[0].secondsPerCal` to be absent'],
    [{ documents: 1, stages: [{ name: 's', scope: 'perDocument' }] }, '`stages[0].scope` to be one of'],
    [{ documents: 1, limits: { concurrency: 0 } }, '`limits.concurrency` to be a number > 0 or Infinity'],
  ])('%j is refused', (plan, message) => {
    let error: unknown;
    try {
      explainThroughput({ documents: 0, stages: [{ name: 's' }], ...plan } as ThroughputPlan);
    } catch (thrown) {
      error = thrown;
    }
    expect(isFlowError(error, 'FLOW_CONFIG_INVALID')).toBe(true);
    expect((error as Error).message).toContain(message);
  });
});
