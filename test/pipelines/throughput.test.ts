import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isFlowError } from '../../operators/index.js';
import type { StageLoad, ThroughputPlan } from '../../src/pipelines/throughput.js';
import { explainThroughput } from '../../src/pipelines/throughput.js';
import { sized } from '../support/deep.js';

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
    expect(raise).toEqual({
      setting: 'limits.concurrency',
      from: 10,
      to: 14,
      isStep: false,
      makespanMs: 34 * 230_000,
      next: 'batches.concurrency',
    });
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
    const stages = [{ name: 'a', secondsPerCall: 1, itemsPerDocument: 12, concurrency: 6, scope: 'perBatch' as const }];
    expect(explainThroughput({ documents: 2, stages }).raise).toEqual({
      setting: 'stages.a.concurrency',
      from: 6,
      to: 12,
      isStep: false,
      makespanMs: 1000,
      next: 'batches.concurrency',
    });
  });

  it('is raised by a step: at most to twice of what it is', () => {
    const plan = (concurrency: number) =>
      ({ documents: 1000, batches: { concurrency }, stages: [{ name: 'ask', secondsPerCall: 5 }] }) as const;
    expect(explainThroughput(plan(3)).raise).toEqual({
      setting: 'batches.concurrency',
      from: 3,
      to: 6,
      isStep: true,
      makespanMs: Math.ceil(1000 / 6) * 5000,
      next: 'batches.concurrency',
    });
    expect(explainThroughput(plan(1)).raise).toMatchObject({ from: 1, to: 2, isStep: true });
    expect(explainThroughput(plan(500)).raise).toMatchObject({ from: 500, to: 1000, isStep: false, makespanMs: 5000 });
  });

  it('that could gain less than a hundredth is not in the way', () => {
    const explained = explainThroughput({
      documents: 4,
      stages: [{ name: 'ask', concurrency: 3, callsPerItem: 3, secondsPerCall: 9 }],
      limits: { requestsPerMinute: 4800, burst: 2, headroom: 1 },
    });
    expect(explained.bottleneck.setting).toBe('limits.requestsPerMinute');
    expect(explained).not.toHaveProperty('raise');
  });

  it('of nothing at all takes no time', () => {
    expect(of({ documents: 0, batches: { concurrency: 3 }, limits: { concurrency: 2, requestsPerMinute: 5 } }).makespanMs).toBe(0);
  });
});

/** When everything is done if each call starts as early as it can, later stages and earlier documents first. */
function workedOff({ documents, batches, stages, limits = {} }: ThroughputPlan): number {
  const free = { documents: batches?.concurrency ?? Infinity, requests: limits.concurrency ?? Infinity };
  const perMs = ((limits.requestsPerMinute ?? Infinity) * (limits.headroom ?? 0.9)) / 60_000;
  const burst = limits.burst ?? Math.max(1, perMs * 1000 * (limits.burstSeconds ?? 2));
  let [now, saved, begun] = [0, burst, 0];
  const used = new Map<string, number>();
  const waiting: { readonly document: number; readonly stage: number; readonly calls: number }[] = [];
  const running: { readonly document: number; readonly stage: number; readonly calls: number; readonly end: number }[] = [];
  const left = new Map<number, number>();
  const slotOf = ({ document, stage }: { readonly document: number; readonly stage: number }) =>
    stages[stage]?.scope === 'perBatch' ? `${String(stage)}/${String(document)}` : String(stage);
  const add = (document: number, stage: number, items: number): void => {
    for (let i = 0; i < items; i++) waiting.push({ document, stage, calls: stages[stage]?.callsPerItem ?? 1 });
  };
  const leave = (document: number): void => {
    const rest = (left.get(document) ?? 0) - 1;
    left.set(document, rest);
    if (rest === 0) free.documents++;
  };
  for (;;) {
    while (begun < documents && free.documents > 0) {
      free.documents--;
      left.set(begun, stages.at(-1)?.itemsPerDocument ?? 1);
      add(begun++, 0, stages[0]?.itemsPerDocument ?? 1);
    }
    waiting.sort((one, other) => other.stage - one.stage || one.document - other.document);
    for (let i = 0; i < waiting.length; ) {
      const job = waiting[i] as (typeof waiting)[number];
      const slot = slotOf(job);
      const isFree = (used.get(slot) ?? 0) < (stages[job.stage]?.concurrency ?? Infinity) && free.requests > 0 && saved > 1 - 1e-6;
      if (!isFree) {
        i++;
        continue;
      }
      waiting.splice(i, 1);
      used.set(slot, (used.get(slot) ?? 0) + 1);
      free.requests--;
      if (perMs !== Infinity) saved--;
      running.push({ ...job, calls: job.calls - 1, end: now + (stages[job.stage]?.secondsPerCall ?? 0) * 1000 });
    }
    if (running.length === 0 && waiting.length === 0) return now;
    const rateAt = waiting.length > 0 && saved <= 1 - 1e-6 ? now + (1 - saved) / perMs : Infinity;
    const next = Math.min(rateAt, ...running.map(({ end }) => end));
    if (perMs !== Infinity) saved = Math.min(burst, saved + (next - now) * perMs);
    now = next;
    for (const job of running.filter(({ end }) => end <= now)) {
      running.splice(running.indexOf(job), 1);
      used.set(slotOf(job), (used.get(slotOf(job)) ?? 0) - 1);
      free.requests++;
      if (job.calls > 0) {
        waiting.push(job);
        continue;
      }
      const [here, there] = [stages[job.stage]?.itemsPerDocument ?? 1, stages[job.stage + 1]?.itemsPerDocument];
      // One makes many, and then each makes one.
      if (there === undefined) leave(job.document);
      else add(job.document, job.stage + 1, there / here);
    }
  }
}

describe('a bound', () => {
  const limit = fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined });
  const given = <T extends object>(record: T) => Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
  const plans = fc
    .record({
      documents: fc.integer({ min: 1, max: 12 }),
      inProgress: limit,
      many: fc.integer({ min: 1, max: 8 }),
      stages: fc.array(
        fc.record({
          concurrency: limit,
          scope: fc.constantFrom('shared', 'perBatch'),
          secondsPerCall: fc.integer({ min: 1, max: 9 }),
          callsPerItem: fc.integer({ min: 1, max: 3 }),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      limits: fc.record({
        concurrency: limit,
        requestsPerMinute: fc.option(fc.integer({ min: 5, max: 200 }), { nil: undefined }),
        burst: limit,
      }),
    })
    .map(
      ({ documents, inProgress, many, stages, limits }): ThroughputPlan => ({
        documents,
        ...(inProgress !== undefined && { batches: { concurrency: inProgress } }),
        stages: stages.map((stage, i) => ({ ...given(stage), name: `s${String(i)}`, itemsPerDocument: i === 0 ? 1 : many })),
        limits: given({ ...limits, burst: limits.requestsPerMinute === undefined ? undefined : limits.burst, headroom: 1 }),
      }),
    );

  it('is never missed, whatever the plan, and is mostly near', () => {
    const ratios: number[] = [];
    fc.assert(
      fc.property(plans, (plan) => {
        const { makespanMs } = explainThroughput(plan);
        const took = workedOff(plan);
        ratios.push(took / makespanMs);
        expect(took, JSON.stringify(plan)).toBeGreaterThanOrEqual(makespanMs - 1);
      }),
      { numRuns: sized(150, 500) },
    );
    expect(ratios.sort((a, b) => a - b)[Math.floor(ratios.length / 2)]).toBeLessThan(1.1);
  });

  it('of a hundred papers is reached within 5 %, with stages of each and with shared ones', () => {
    for (const scope of ['perBatch', 'shared'] as const) {
      const plan = papers(scope);
      expect(workedOff(plan) / explainThroughput(plan).makespanMs).toBeLessThan(1.05);
    }
  });

  it('gets no longer when the limit is raised that it says, and is then another', () => {
    fc.assert(
      fc.property(plans, (plan) => {
        const { raise, makespanMs } = explainThroughput(plan);
        if (raise === undefined) return;
        expect(raise.to).toBeGreaterThan(raise.from);
        expect(raise.to).toBeLessThan(1e9 * raise.from);
        if (raise.isStep) expect(raise.to).toBe(Math.max(1, 2 * Math.floor(raise.from)));
        expect(raise.makespanMs).toBeLessThan(makespanMs);
      }),
      { numRuns: sized(300, 1000) },
    );
  });

  it('is nearly reached by a rate that only has to be no longer in the way', () => {
    const { bottleneck, raise } = explainThroughput({
      documents: 4,
      stages: [{ name: 'ask', concurrency: 3, callsPerItem: 3, secondsPerCall: 9 }],
      limits: { requestsPerMinute: 48, burst: 2, headroom: 1 },
    });
    expect([bottleneck.setting, bottleneck.boundMs]).toEqual(['limits.requestsPerMinute', 37_250]);
    // 1,250 ms more than without; a hundredth of them at a hundred times the rate.
    expect(raise).toMatchObject({ from: 48, to: 96, isStep: true, makespanMs: 36_625 });
  });
});

describe('options', () => {
  it.each<[object, string]>([
    [{ documents: -1 }, '`documents` to be a finite number >= 0, got `-1`'],
    [{ documents: 1, stages: [] }, '`stages` to be a list of at least one stage'],
    [
      { documents: 1, stages: [{ name: 's', secondsPerCal: 1 }] },
      'unknown option `stages[0].secondsPerCal`. Did you mean `stages[0].secondsPerCall`?',
    ],
    [{ documents: 1, stages: [{ name: 's', scope: 'perDocument' }] }, '`stages[0].scope` to be one of'],
    [{ documents: 1, limits: { concurrency: 0 } }, '`limits.concurrency` to be a number > 0 or Infinity'],
  ])('%j is refused', (plan, message) => {
    let error: unknown;
    try {
      explainThroughput({ documents: 0, stages: [{ name: 's' }], ...plan });
    } catch (thrown) {
      error = thrown;
    }
    expect(isFlowError(error, 'FLOW_CONFIG_INVALID')).toBe(true);
    expect((error as Error).message).toContain(message);
  });
});
