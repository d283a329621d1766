import type { Observable } from 'rxjs';
import { EMPTY, expand } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createLimiter, tokenBucket } from '../../operators/index.js';
import type { BatchRules } from '../../src/pipelines/create-stages.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import { explainThroughput } from '../../src/pipelines/throughput.js';
import type { Limits } from './stages-kit.js';
import { Watched } from './stages-kit.js';

const QUESTIONS = 20;

type Scheduling = NonNullable<BatchRules<number>['scheduling']>;
type Scope = 'shared' | 'perBatch';

interface Run {
  readonly makespanMs: number;
  readonly boundMs: number;
  readonly watched: Watched;
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

/** Papers: 60 s to ask 20 questions, 30 s for an answer, 20 s for its grade. */
function papers(count: number, scope: Scope, scheduling: Scheduling): Run {
  const limits: Limits = {
    documents: 3,
    requests: 10,
    perSecond: 5,
    burst: 10,
    stages: {
      generate: { concurrency: 1, scope: 'perBatch' },
      answer: { concurrency: 5, scope },
      grade: { concurrency: 3, scope },
    },
  };
  const seconds = { generate: 60, answer: 30, grade: 20 };
  const { makespanMs: boundMs } = explainThroughput({
    documents: count,
    batches: { concurrency: limits.documents },
    limits: { concurrency: 10, requestsPerMinute: 300, burst: 10, headroom: 1 },
    stages: (['generate', 'answer', 'grade'] as const).map((name) => ({
      name,
      ...(limits.stages[name] as { concurrency: number; scope: Scope }),
      secondsPerCall: seconds[name],
      itemsPerDocument: name === 'generate' ? 1 : QUESTIONS,
    })),
  });
  return virtualTime(({ scheduler, flush }) => {
    const watched = new Watched(limits, scheduler);
    const call = <R>(stage: keyof typeof seconds, paper: number, value: R) => watched.call(stage, paper, seconds[stage], value);
    const limiter = createLimiter({
      concurrency: 10,
      rates: [tokenBucket({ unit: 'requests', amount: 5, windowMs: 1000, burst: 10 })],
      headroom: 1,
      scheduler,
    });
    const stages = createStages(
      [
        {
          name: 'generate',
          ...limits.stages['generate'],
          expands: true,
          work: (paper: number) => call('generate', paper, upTo(QUESTIONS)),
        },
        { name: 'answer', ...limits.stages['answer'], work: (question, { document }) => call('answer', document, question) },
        { name: 'grade', ...limits.stages['grade'], work: (answer, { document }) => call('grade', document, answer) },
      ],
      {
        limiter,
        scheduler,
        batches: { concurrency: 3, scheduling, ...(scheduling === 'priority' && { priority: (paper: number) => paper % 7, maxQueued: 0 }) },
      },
    );
    let makespanMs = 0;
    stages.run(watched.read(upTo(count))).subscribe({
      next: (result) => {
        watched.heard(result);
      },
      complete: () => {
        makespanMs = scheduler.now();
      },
    });
    flush();
    return { makespanMs, boundMs, watched };
  });
}

describe('papers', () => {
  const COUNT = 100;

  // As the docs say it.
  it.each<{ scope: Scope; scheduling: Scheduling; seconds: number; bound: number }>([
    { scope: 'shared', scheduling: 'fair', seconds: 13_430, bound: 13_430 },
    { scope: 'perBatch', scheduling: 'fair', seconds: 10_760, bound: 10_644 },
    { scope: 'shared', scheduling: 'roundRobin', seconds: 13_440, bound: 13_430 },
    { scope: 'perBatch', scheduling: 'roundRobin', seconds: 12_100, bound: 10_644 },
    { scope: 'shared', scheduling: 'priority', seconds: 14_510, bound: 13_430 },
    { scope: 'perBatch', scheduling: 'priority', seconds: 11_180, bound: 10_644 },
  ])('slots of answers and grades $scope, scheduling $scheduling', ({ scope, scheduling, seconds, bound }) => {
    const { makespanMs, boundMs, watched } = papers(COUNT, scope, scheduling);
    expect(watched.items.filter(({ type, status }) => type === 'item' && status === 'fulfilled')).toHaveLength(COUNT * QUESTIONS);
    expect(watched.items.filter(({ type, status }) => type === 'document' && status === 'fulfilled')).toHaveLength(COUNT);
    expect(watched.calls).toBe(COUNT * (1 + 2 * QUESTIONS));
    expect([makespanMs / 1000, boundMs / 1000].map(Math.round)).toEqual([seconds, bound]);
    expect(watched.peaks.documents).toBe(3);
  });
});

describe('documents whose chunks are gleaned', () => {
  const CHUNKS = 10;

  /** Every chunk: one extraction and two rounds more, each after the one before. */
  function documents(count: number, seconds: (round: number) => number): Run & { readonly rounds: string[] } {
    const limits: Limits = { documents: 2, requests: 4, stages: { extract: { concurrency: 4, scope: 'perBatch' } } };
    const { makespanMs: boundMs } = explainThroughput({
      documents: count,
      batches: { concurrency: 2 },
      limits: { concurrency: 4 },
      stages: [{ name: 'extract', concurrency: 4, scope: 'perBatch', itemsPerDocument: CHUNKS, callsPerItem: 3, secondsPerCall: 10 }],
    });
    return virtualTime(({ scheduler, flush }) => {
      const watched = new Watched(limits, scheduler);
      const rounds: string[] = [];
      const stages = createStages(
        [
          { name: 'chunk', local: true, expands: true, work: (_document: number) => upTo(CHUNKS) },
          {
            name: 'extract',
            ...limits.stages['extract'],
            steps: (chunk, context) => {
              const round = (n: number): Observable<number> =>
                context.request(() => {
                  rounds.push(`${String(context.document)}.${String(chunk)}.${String(n)}`);
                  return watched.call('extract', context.document, seconds(n), n);
                });
              return round(0).pipe(expand((n) => (n < 2 ? round(n + 1) : EMPTY)));
            },
          },
        ],
        { limiter: createLimiter({ concurrency: 4, scheduler }), scheduler, batches: { concurrency: 2 } },
      );
      let makespanMs = 0;
      stages.run(watched.read(upTo(count))).subscribe({
        next: (result) => {
          watched.heard(result);
          const { stages: load, requests } = stages.snapshot();
          expect(requests.executing).toBeLessThanOrEqual(4);
          expect(load['extract']?.admitted).toBeLessThanOrEqual(2 * CHUNKS);
        },
        complete: () => {
          makespanMs = scheduler.now();
        },
      });
      flush();
      return { makespanMs, boundMs, watched, rounds };
    });
  }

  it('keep all four requests busy, never more, and finish chunks before they begin others', () => {
    const { makespanMs, boundMs, watched, rounds } = documents(12, () => 10);
    expect(watched.peaks).toEqual({ documents: 2, requests: 4 });
    expect(makespanMs / boundMs).toBeLessThanOrEqual(1.05);
    // At any time no more chunks are half done than there are requests.
    const open = new Set<string>();
    for (const round of rounds) {
      const chunk = round.slice(0, round.lastIndexOf('.'));
      if (round.endsWith('.2')) open.delete(chunk);
      else open.add(chunk);
      expect(open.size).toBeLessThanOrEqual(4);
    }
  });

  it('take the rounds of a chunk in turn, however long each takes', () => {
    const { rounds, watched } = documents(3, (n) => [13, 5, 7][n] as number);
    expect(rounds).toHaveLength(3 * CHUNKS * 3);
    for (const document of upTo(3)) {
      for (const chunk of upTo(CHUNKS)) {
        const own = rounds.filter((round) => round.startsWith(`${String(document)}.${String(chunk)}.`));
        expect(own.map((round) => Number(round.at(-1)))).toEqual([0, 1, 2]);
      }
    }
    expect(watched.items.filter(({ type }) => type === 'document')).toHaveLength(3);
  });
});
