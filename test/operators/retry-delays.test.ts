import type { Observable } from 'rxjs';
import { from, map, of, throwError, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { RetryOptions, Settled } from '../../operators/index.js';
import { batchMap, isFlowError, policy, retryFailed } from '../../operators/index.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { createStages } from '../../src/pipelines/create-stages.js';

const busy = (status = 503, headers = {}): Error => Object.assign(new Error(`status ${String(status)}`), { status, headers });
const linear = (attempt: number): number => attempt * 100;
const fibonacci = (attempt: number): number => (attempt <= 2 ? 100 : fibonacci(attempt - 1) + fibonacci(attempt - 2));

/** When the attempts of a call begin that fails until the last one. */
function attemptsOf(retry: RetryOptions, error = busy(), random = 1): number[] {
  return virtualTime(({ flush, now }) => {
    const times: number[] = [];
    policy({ timeoutMs: Infinity, retry: retryFailed({ maxAttempts: 5, jitter: 'none', ...retry }), random: () => random })(() => {
      times.push(now());
      return times.length < 5 ? throwError(() => error) : of('done');
    }).subscribe();
    flush();
    return times;
  });
}

describe('delayMs as a function', () => {
  it('makes delays that grow by a step, stay, or grow in any other way', () => {
    expect(attemptsOf({ delayMs: linear })).toEqual([0, 100, 300, 600, 1000]);
    expect(attemptsOf({ delayMs: () => 50 })).toEqual([0, 50, 100, 150, 200]);
    expect(attemptsOf({ delayMs: fibonacci })).toEqual([0, 100, 200, 400, 700]);
    expect(attemptsOf({ delayMs: (attempt) => 100 * 2 ** (attempt - 1) })).toEqual(attemptsOf({ delayMs: 100 }));
  });

  it('has the jitter of other delays, full by default', () => {
    const half = (jitter?: RetryOptions['jitter']) => {
      const { delayMs, maxAttempts } = { delayMs: linear, maxAttempts: 5 };
      return virtualTime(({ flush, now }) => {
        const times: number[] = [];
        policy({ retry: retryFailed({ delayMs, maxAttempts, ...(jitter && { jitter }) }), random: () => 0.5 })(() => {
          times.push(now());
          return times.length < 3 ? throwError(() => busy()) : of('done');
        }).subscribe();
        flush();
        return times;
      });
    };
    expect([half(), half('full'), half('equal'), half('none')]).toEqual([
      [0, 50, 150],
      [0, 50, 150],
      [0, 75, 225],
      [0, 100, 300],
    ]);
  });

  it('is bounded by maxMs when that is given, and by nothing else', () => {
    expect(attemptsOf({ delayMs: linear, maxMs: 150 })).toEqual([0, 100, 250, 400, 550]);
    expect(attemptsOf({ delayMs: () => 60_000 })).toEqual([0, 60_000, 120_000, 180_000, 240_000]);
  });

  it('counts refusals in a row, and never waits less than they ask for', () => {
    expect(attemptsOf({ delayMs: linear, maxAttempts: 1 }, busy(429))).toEqual([0, 100, 300, 600, 1000]);
    expect(attemptsOf({ delayMs: linear }, busy(429, { 'retry-after': '1' }), 0)).toEqual([0, 1000, 2000, 3000, 4000]);
    // Without a pause refusals would follow each other as fast as they can.
    expect(attemptsOf({ delayMs: () => 0 }, busy(429))).toEqual([0, 1, 2, 3, 4]);
  });

  it.each([NaN, -1, Infinity, '100', undefined, null])('ends the call with CallbackError when it answers %s', (answer) => {
    const seen: unknown[] = [];
    let attempts = 0;
    policy({ retry: retryFailed({ delayMs: () => answer as number }) })(() => {
      attempts += 1;
      return throwError(() => busy());
    }).subscribe({
      error: (error) => {
        seen.push(error);
      },
    });
    const shown = typeof answer === 'number' ? String(answer) : `a ${typeof answer}`;
    expect([attempts, String(seen[0])]).toEqual([
      1,
      `CallbackError: policy: \`delayMs\` must return a finite number >= 0, returned ${shown}`,
    ]);
  });

  it('rejects only the items of the failed batch when it throws, and the others go on', () => {
    const results: Settled<string, string>[] = [];
    const work = (items: readonly string[]) => (items.includes('bad') ? throwError(() => busy()) : of(items));
    const delayMs = (): number => {
      throw new Error('no idea');
    };
    virtualTime(({ flush }) => {
      from(['a', 'bad', 'c'])
        .pipe(batchMap(work, { maxSize: 1, concurrency: 1, repair: retryFailed({ delayMs }) }), toArray())
        .subscribe((all) => results.push(...all));
      flush();
    });
    const outcome = ({ input, ...settled }: Settled<string, string>): string => {
      if (settled.status === 'fulfilled') return `${input} fulfilled`;
      return `${input} ${String(isFlowError(settled.reason, 'FLOW_CALLBACK') && (settled.reason.cause as Error).message)}`;
    };
    expect(results.map(outcome)).toEqual(['a fulfilled', 'bad no idea', 'c fulfilled']);
  });

  it('is taken by batches, pipelines and stages alike', () => {
    const retry = { delayMs: linear, jitter: 'none', maxAttempts: 4 } as const;
    const timesOf = (run: (attempt: () => Observable<string>) => Observable<unknown>): number[] =>
      virtualTime(({ flush, now }) => {
        const times: number[] = [];
        run(() => {
          times.push(now());
          return times.length < 4 ? throwError(() => busy()) : of('done');
        }).subscribe();
        flush();
        return times;
      });
    const batches = timesOf((attempt) =>
      from(['a']).pipe(batchMap(() => attempt().pipe(map((answer) => [answer])), { repair: retryFailed(retry) })),
    );
    const models = timesOf((attempt) => createModelCaller({ call: attempt, retry }).call('x'));
    const stages = timesOf((attempt) => createStages([{ name: 'one', work: attempt, retry }]).run(['a']));
    expect({ batches, models, stages }).toEqual({ batches: [0, 100, 300, 600], models: [0, 100, 300, 600], stages: [0, 100, 300, 600] });
  });
});
