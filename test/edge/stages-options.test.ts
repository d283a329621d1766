import { map, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { type Config, parseConfig, stagesOptions } from '../../src/edge/index.js';
import { createStages, type StageResult } from '../../src/pipelines/create-stages.js';

function configOf(text: string): Config {
  const parsed = parseConfig(text);
  if ('problems' in parsed) throw new Error(parsed.problems.map(({ message }) => message).join('\n'));
  return parsed.value;
}

const LEVELS = configOf(`
concurrency:
  batch_level: { max_concurrent_batches: 3, questions_per_batch: 20, scheduling: fair }
  stage_level:
    generation: { concurrency: 1, batch_mode: true }
    answering: { concurrency: 5, timeout: 120, allow_partial_failure: true }
    grading: { concurrency: 3, timeout: 60, allow_partial_failure: true }
  request_level:
    max_concurrent_requests: 10
    rate_limit: { requests_per_second: 5.0, burst_size: 10 }
`);

const same = (item: unknown): unknown => item;

describe('stagesOptions', () => {
  it('gives every stage what the file says of it, and the account, the documents and the retries', () => {
    const { stages, options } = stagesOptions(LEVELS, { generation: same, answering: same, grading: same });
    expect(stages.map(({ work: _, ...rules }) => rules)).toEqual([
      { name: 'generation', concurrency: 1, scope: 'perBatch', expands: true },
      { name: 'answering', concurrency: 5, scope: 'perBatch', expands: false, timeoutMs: 120_000, allowPartialFailure: true },
      { name: 'grading', concurrency: 3, scope: 'perBatch', expands: false, timeoutMs: 60_000, allowPartialFailure: true },
    ]);
    expect(options.limiter?.snapshot()).toMatchObject({ concurrency: 10, requestsPerMinute: 300, requests: 10 });
    expect(options.batches).toEqual({ concurrency: 3, scheduling: 'fair' });
  });

  it('takes what a stage leaves out from the model, makes a cut a local stage, and lets an object say more', () => {
    const config = configOf(`
name: nightly
lane: later
limits: { lanes: [now, later] }
model: { timeoutMs: 9000, deadlineMs: 20000, retry: { maxAttempts: 3, delayMs: 100, jitter: none } }
batches: { scheduling: priority, priority: rank, maxQueued: 7 }
stages: [{ name: cut, chunk: { field: text } }, { name: ask, timeoutMs: 5000 }, { name: grade, deadlineMs: 1 }]
`);
    const steps = same;
    const { stages, options } = stagesOptions<{ rank: unknown }>(config, {
      cut: same,
      ask: { steps, cost: { tokens: 5 }, retry: false },
      grade: same,
    });
    expect(stages).toEqual([
      { name: 'cut', expands: true, local: true, retry: false, deadlineMs: 20_000, work: same },
      { name: 'ask', expands: false, timeoutMs: 5000, deadlineMs: 20_000, retry: false, steps, cost: { tokens: 5 } },
      {
        name: 'grade',
        expands: false,
        timeoutMs: 9000,
        deadlineMs: 1,
        retry: { maxAttempts: 3, delayMs: 100, jitter: 'none' },
        work: same,
      },
    ]);
    expect(options).toMatchObject({ name: 'nightly', lane: 'later', batches: { scheduling: 'priority', maxQueued: 7 } });
    const priority = options.batches?.priority;
    expect([{ rank: 3 }, { rank: '4' }, { rank: 'high' }, undefined].map((document) => priority?.(document as never))).toEqual([
      3, 4, 0, 0,
    ]);
    expect(createStages(stages, options).snapshot().documents.concurrency).toBe(4);
  });

  it('drives code by a file: papers, never beyond what each level says', () => {
    virtualTime(({ flush, scheduler }) => {
      const running = { generation: 0, answering: 0, grading: 0 };
      const peaks = { ...running };
      const call =
        (stage: keyof typeof running, ms: number, answer: (item: string) => unknown) =>
        (item: string): unknown => {
          peaks[stage] = Math.max(peaks[stage], ++running[stage]);
          return timer(ms).pipe(
            map(() => {
              running[stage]--;
              return answer(item);
            }),
          );
        };
      const { stages, options } = stagesOptions(LEVELS, {
        generation: call('generation', 60_000, (paper) => Array.from({ length: 20 }, (_, i) => `${paper}${String(i)}`)),
        answering: call('answering', 30_000, (question) => question.toUpperCase()),
        grading: call('grading', 20_000, (answer) => answer.length),
      });
      const results: StageResult<unknown, unknown>[] = [];
      // The limiter of the configuration has a clock of its own.
      createStages(stages, { ...options, limiter: undefined, scheduler } as never)
        .run(['a', 'b', 'c', 'd'])
        .subscribe((result) => results.push(result));
      flush();
      expect(results.filter(({ type }) => type === 'item')).toHaveLength(80);
      expect(peaks).toEqual({ generation: 3, answering: 15, grading: 9 });
    });
  });

  it.each<readonly [string, unknown, object, string]>([
    ['a stage without work', LEVELS, { generation: same, answering: same }, 'the stage `grading` has no work. Add `grading` to `work`.'],
    [
      'work of a stage that is misspelt',
      LEVELS,
      { generation: same, answering: same, gradin: same },
      'unknown option `work.gradin`. Did you mean `work.grading`?',
    ],
    [
      'work for no stage',
      LEVELS,
      { generation: same, answering: same, grading: same, publish: same },
      'unknown option `work.publish`. Known options: generation, answering, grading.',
    ],
    [
      'work that is no function',
      LEVELS,
      { generation: 5, answering: same, grading: same },
      'expected `work.generation` to be a function, got ',
    ],
    ['no stages', { limits: {} }, {}, 'expected `config.stages` to be a list of at least one stage, got '],
    ['no configuration', undefined, {}, 'expected `config.stages` to be a list of at least one stage, got '],
    ['no work at all', LEVELS, undefined as never, 'there is no `work`. Pass an object that has a function for each stage, by its name.'],
    ['work that is no object', LEVELS, 5 as never, 'expected `work` to be an object, got '],
    ...['papers.yaml', 'stages: [{ name: ask }]'].map(
      (text) =>
        [
          `the text ${text}`,
          text,
          {},
          '`config` is a text. Read the file, and pass `value` of what `parseConfig(text)` answers: `stagesOptions(parsed.value, work)`.',
        ] as const,
    ),
    [
      'the whole answer of `parseConfig`',
      parseConfig('stages: [{ name: ask }]'),
      {},
      '`config` is the whole answer of `parseConfig`. Pass its `value`.',
    ],
    ['problems', parseConfig('stages: []'), {}, '`config` has problems. Correct what '],
    [
      'work that every object has',
      configOf('stages: [{ name: toString }]'),
      {},
      'the stage `toString` has no work. Add `toString` to `work`.',
    ],
  ])('refuses %s', (_, config, work, message) => {
    expect(() => stagesOptions(config as Config, work as never)).toThrow(`stagesOptions: ${message}`);
  });
});
