import { concat, map, NEVER, of, throwError, timer } from 'rxjs';
import { expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import { createBreaker, hedging } from '../../operators/index.js';
import { answerCache, callAll, createAccount } from '../../src/index.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import type { ModelEntry } from '../../src/pipelines/create-model-caller.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const CALLS = sized(1000, 4000);
const SHARED = sized(400, 1000);

it('many model calls and streams that completed, failed, were hedged, or left in the middle leave nothing', {
  timeout: 60_000,
}, () => {
  const clock = new CountingScheduler();
  const metrics = createMetrics({ scheduler: clock });
  const { signal } = new AbortController();
  const answer = (request: string) => {
    if (request === 'bad') return throwError(() => Object.assign(new Error('bad'), { status: 503 }));
    return request === 'never' ? NEVER : of(request);
  };
  const models = createModelCaller({
    call: { send: answer, stream: (request: string) => concat(of('first'), answer(request)) },
    hedge: hedging({ delayMs: 5, maxShare: Infinity }),
    breaker: createBreaker({ opens: { minCalls: Infinity } }),
    deadlineMs: 60_000,
    scheduler: clock,
    onEvent: metrics.sink,
    onRecord: metrics.record,
    limiter: createAccount({ concurrency: 3, maxQueued: Infinity }),
  });
  const leaks = leakCheck({ scheduler: clock, holders: { models } });
  const stop = metrics.observe('models', models);
  const listening = metrics.metrics$.subscribe();
  const ignore = { error: () => undefined };
  try {
    for (let n = 0; n < CALLS; n += 10) {
      const left = [
        models.call('never', { signal }).subscribe(ignore),
        models.call('never', { lane: 'user', signal }).subscribe(ignore),
        models.stream('never', { signal }).subscribe(ignore),
        callAll(models, { one: 'never', two: 'good' }, { signal }).subscribe(ignore),
      ];
      for (const request of ['good', 'bad']) {
        models.call(request, { signal }).subscribe(ignore);
        models.call(request, { lane: 'user', signal }).subscribe(ignore);
        models.stream(request, { signal }).subscribe(ignore);
      }
      clock.maxFrames = clock.frame + 20;
      clock.flush();
      for (const each of left) each.unsubscribe();
      clock.maxFrames = Infinity;
      clock.flush();
    }
    listening.unsubscribe();
    stop();
    expect(leaks.left()).toEqual([]);
    expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  } finally {
    leaks[Symbol.dispose]();
  }
});

it('many requests that shared answers, were repaired, looked up, forgotten and left leave nothing, and a drain has nothing to wait for', {
  timeout: 60_000,
}, async () => {
  const clock = new CountingScheduler();
  const { signal } = new AbortController();
  const later = <V>(value: () => V) => timer(2, clock).pipe(map(value));
  const entries = new Map<string, ModelEntry<number>>();
  const models = createModelCaller({
    call: (request: string) => (request.startsWith('never') ? NEVER : later(() => (request.startsWith('bad') ? 'text' : '7'))),
    parse: (answer) => {
      if (answer === 'text') throw new Error('no number');
      return Number(answer);
    },
    fixAnswer: { ask: (request) => (request.endsWith('!') ? request : `${request}!`) },
    cache: answerCache<string, number>({
      key: (request) => request,
      storage: {
        get: (key) => (key.endsWith('0') ? (NEVER as never) : (later(() => entries.get(key)) as never)),
        set: (key, entry) => later(() => entries.set(key, entry)),
        delete: (key) => entries.delete(key),
      },
      ttlMs: 5,
      timeoutMs: 10,
    }),
    concurrency: 3,
    maxQueued: Infinity,
    deadlineMs: 50,
    scheduler: clock,
  });
  const leaks = leakCheck({ scheduler: clock, holders: { models } });
  const ignore = { error: () => undefined };
  try {
    for (let n = 0; n < SHARED; n += 8) {
      const left = ['never', 'good', 'bad'].flatMap((request) => [
        models.call(`${request} ${n % 20}`, { signal }).subscribe(ignore),
        models.call(`${request} ${n % 20}`, { lane: 'user' }).subscribe(ignore),
      ]);
      callAll(models, { one: `bad ${n}`, two: 'good' }, { errors: 'collect', signal }).subscribe(ignore);
      if (n % 24 === 0) models.forget(`good ${n % 20}`);
      clock.maxFrames = clock.frame + (n % 12);
      clock.flush();
      for (const each of left) each.unsubscribe();
      clock.maxFrames = Infinity;
      clock.flush();
    }
    expect(leaks.left()).toEqual([]);
    expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    expect(await models.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
  } finally {
    leaks[Symbol.dispose]();
  }
});
