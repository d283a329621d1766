import { firstValueFrom, lastValueFrom } from 'rxjs';
import { AttemptStats } from '../../src/metrics/attempt-stats.js';
/* eslint-disable rxjs-x/no-nested-subscribe -- urgent calls are made while others are answered */

import { getEventListeners } from 'node:events';
import { concat, from, map, mergeMap, NEVER, Observable, of, throwError, timer, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, WorkResult } from '../../operators/index.js';
import { createBreaker, createLimiter, hedging, isFlowError, lanes } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import type { ModelCallerOptions, ModelClient, ModelContext } from '../../src/pipelines/create-model-caller.js';
import { callAll, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { presets } from '../../src/pipelines/presets.js';
import { accountedCaller } from '../support/accounted-caller.js';

/** What a client answers, and the tokens it counted. */
interface Answer {
  readonly text: string;
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number };
}

const status = (code: number, headers: Record<string, string> = {}): Error =>
  Object.assign(new Error(`status ${code}`), { status: code, headers });
const network = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
const after = (ms: number, answer: string): Observable<Answer> =>
  timer(ms).pipe(map(() => ({ text: answer, usage: { inputTokens: 850, outputTokens: 120 } })));
const failsAfter = (ms: number, error: Error): Observable<never> => timer(ms).pipe(mergeMap(() => throwError(() => error)));

type Fields = Pick<ModelClient<string, Answer, string>, 'stream' | 'usage' | 'cost'>;
type Options = Partial<ModelCallerOptions<string, Answer, string, string> & Fields & { readonly requestsPerMinute: number }>;

/** A caller over a script, and what it wrote down. `call` is told the request, and how often it was asked for it before. */
function scripted(
  now: () => number,
  call: (request: string, times: number, context: ModelContext) => WorkResult<Answer>,
  { stream, cost, usage = (answer) => (typeof answer === 'string' ? undefined : answer.usage), ...options }: Options = {},
) {
  const log: string[] = [];
  const records: CallRecord[] = [];
  const times = new Map<string, number>();
  const caller = accountedCaller<string, Answer, string, string>({
    call: {
      send: (request, context) => {
        const before = times.get(request) ?? 0;
        times.set(request, before + 1);
        log.push(`${request} sent at ${now()}`);
        context.signal.addEventListener('abort', () => log.push(`${request} aborted at ${now()}`));
        return call(request, before, context);
      },
      usage,
      model: 'gpt-4',
      ...(stream && { stream }),
      ...(cost && { cost }),
    },
    parse: ({ text }) => text,
    retry: { delayMs: 100, jitter: 'none' },
    onRecord: (record) => records.push(record),
    ...options,
  });
  const note = (name: string) => ({
    next: (value: unknown) => log.push(`${name}: ${JSON.stringify(value)} at ${now()}`),
    error: (error: unknown) => log.push(`${name}: ${isFlowError(error) ? error.code : (error as Error).message} at ${now()}`),
  });
  return { caller, log, records, note };
}

describe('one call', () => {
  it('answers, and writes down every field of its record', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, () => after(2341, 'twelve'));
      caller.call('count drugs', { lane: 'user', name: 'approved_drug_count', traceId: '3f5d6c1c' }).subscribe(note('result'));
      flush();
      expect(log).toEqual(['count drugs sent at 0', 'result: "twelve" at 2341']);
      expect(records).toEqual([
        {
          traceId: '3f5d6c1c',
          spanId: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
          name: 'approved_drug_count',
          lane: 'user',
          model: 'gpt-4',
          attempt: 1,
          latencyMs: 2341,
          queuedMs: 0,
          status: 'success',
          errorCode: null,
          promptTokens: 850,
          completionTokens: 120,
          ...{ key: null, cacheReadTokens: null, cacheWriteTokens: 0, reasoningTokens: null, costUsd: null, isEstimated: false },
        },
      ]);
    });
  });

  it.each([
    ['500', status(500), 'HTTP_500'],
    ['503', status(503), 'HTTP_503'],
    ['a broken connection', network, 'ECONNRESET'],
    ['a fetch that failed', new TypeError('fetch failed', { cause: network }), 'ECONNRESET'],
  ])('is made again after %s, 100 and then 200 ms later', (_what, error, errorCode) => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, () => failsAfter(10, error));
      caller.call('a').subscribe(note('result'));
      flush();
      expect(log).toEqual(['a sent at 0', 'a sent at 110', 'a sent at 320', `result: ${error.message} at 330`]);
      expect(records.map((record) => [record.attempt, record.status, record.errorCode, record.latencyMs])).toEqual([
        [1, 'error', errorCode, 10],
        [2, 'error', errorCode, 10],
        [3, 'error', errorCode, 10],
      ]);
      expect(new Set(records.map((record) => record.traceId)).size).toBe(1);
      expect(new Set(records.map((record) => record.spanId)).size).toBe(3);
      expect(records.map((record) => record.promptTokens)).toEqual([null, null, null]);
    });
  });

  it('is made again after a timeout, which is a status of its own', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, (_request, times) => (times === 0 ? NEVER : after(10, 'late')), {
        timeoutMs: 1000,
      });
      caller.call('a').subscribe(note('result'));
      flush();
      expect(log).toEqual(['a sent at 0', 'a aborted at 1000', 'a sent at 1100', 'result: "late" at 1110']);
      expect(records.map((record) => [record.status, record.errorCode, record.latencyMs])).toEqual([
        ['timeout', 'FLOW_ATTEMPT_TIMEOUT', 1000],
        ['success', null, 10],
      ]);
    });
  });

  it.each([
    ['400', status(400), 'HTTP_400'],
    ['401', status(401), 'HTTP_401'],
    ['404', status(404), 'HTTP_404'],
    ['an answer that is no JSON', new SyntaxError('Unexpected token <'), 'PARSE_FAILED'],
    ['something of your own', new Error('missing parameter'), 'ITEM_FAULT'],
  ])('is not made again after %s', (_what, error, errorCode) => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, () => failsAfter(10, error));
      caller.call('a').subscribe(note('result'));
      flush();
      expect(log).toEqual(['a sent at 0', `result: ${error.message} at 10`]);
      expect(records.map((record) => record.errorCode)).toEqual([errorCode]);
    });
  });

  it('is not made again when `parse` fails, whatever it throws, and counts as a failure with what was spent', () => {
    virtualTime(({ flush, now }) => {
      const metrics = createMetrics();
      // Looks like something worth another try; the answer has come, though.
      const missing = status(503);
      const { caller, log, records, note } = scripted(now, () => after(10, '{}'), {
        parse: () => {
          throw missing;
        },
      });
      let thrown: unknown;
      caller.call('a').subscribe({ error: (error: unknown) => (thrown = error) });
      caller.call('b').subscribe(note('result'));
      flush();
      expect(thrown).toBe(missing);
      expect(log).toEqual(['a sent at 0', 'b sent at 0', 'result: status 503 at 10']);
      expect(records.map((record) => [record.status, record.errorCode, record.promptTokens])).toEqual([
        ['error', 'PARSE_FAILED', 850],
        ['error', 'PARSE_FAILED', 850],
      ]);
      records.forEach(metrics.record);
      expect(metrics.snapshot().calls).toMatchObject({ failureRate: 1, byCode: { PARSE_FAILED: { count: 2, rate: 1 } } });
    });
  });

  it('ends at its deadline with DeadlineError, waiting and pauses included, and is not made again', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, () => NEVER, {
        timeoutMs: 10_000,
        deadlineMs: 25_000,
        retry: { delayMs: 100, maxAttempts: 9, jitter: 'none' },
      });
      caller.call('a').subscribe(note('result'));
      flush();
      expect(log).toEqual([
        'a sent at 0',
        'a aborted at 10000',
        'a sent at 10100',
        'a aborted at 20100',
        'a sent at 20300',
        'a aborted at 25000',
        'result: FLOW_DEADLINE at 25000',
      ]);
      expect(records.map((record) => [record.status, record.errorCode])).toEqual([
        ['timeout', 'FLOW_ATTEMPT_TIMEOUT'],
        ['timeout', 'FLOW_ATTEMPT_TIMEOUT'],
        ['timeout', 'FLOW_DEADLINE'],
      ]);
    });
  });

  it('gives its slot away while it pauses, and says how long each attempt has waited', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(
        now,
        (request, times) => (request === 'bad' && times === 0 ? failsAfter(10, status(503)) : after(200, request)),
        { concurrency: 1 },
      );
      for (const request of ['bad', 'good']) caller.call(request).subscribe(note('result'));
      flush();
      expect(log).toEqual(['bad sent at 0', 'good sent at 10', 'result: "good" at 210', 'bad sent at 210', 'result: "bad" at 410']);
      // Its pause was over at 110.
      expect(records.map(({ attempt, queuedMs }) => [attempt, queuedMs])).toEqual([
        [1, 0],
        [1, 10],
        [2, 100],
      ]);
    });
  });

  it('waits as long as the server asks, and so does every other call', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(
        now,
        (_request, times) => (now() === 0 && times === 0 ? throwError(() => status(429, { 'retry-after-ms': '500' })) : after(1, 'ok')),
        { concurrency: 1, random: () => 0 },
      );
      for (const request of ['a', 'b']) caller.call(request).subscribe(note(request));
      flush();
      expect(log.filter((line) => line.includes('sent')).map((line) => Number(line.split(' at ')[1]))).toEqual([0, 500, 501]);
    });
  });

  it('that its consumer leaves is aborted, and is no failure', () => {
    virtualTime(({ advance, now }) => {
      const { caller, log, records } = scripted(now, () => NEVER);
      const subscription = caller.call('a').subscribe();
      advance(30);
      expect(caller.snapshot()).toMatchObject({ executing: 1, queued: 0 });
      subscription.unsubscribe();
      expect(log).toEqual(['a sent at 0', 'a aborted at 30']);
      expect(records).toMatchObject([{ status: 'cancelled', errorCode: 'CANCELLED', latencyMs: 30 }]);
      expect(caller.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });

  it('is sent anew for each subscriber, under a trace id of its own', () => {
    virtualTime(({ flush, now }) => {
      const { caller, records } = scripted(now, () => after(1, 'ok'));
      const call = caller.call('a');
      call.subscribe();
      call.subscribe();
      flush();
      expect(records.map((record) => record.traceId.length)).toEqual([32, 32]);
      expect(new Set(records.map((record) => record.traceId)).size).toBe(2);
    });
  });

  it('pays what it was estimated to cost, then what it did cost', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createAccount({
        tokensPerMinute: 60_000,
        headroom: 1,
        burstSeconds: 60,
        lanes: [{ name: 'user', reserve: 0 }, 'normal', 'background'],
      });
      const { caller } = scripted(now, () => after(1, 'ok'), { limiter, cost: () => 5000 });
      caller.call('a').subscribe();
      expect(limiter.snapshot().tokens).toBe(55_000);
      flush();
      expect(limiter.snapshot().tokens).toBeCloseTo(60_000 - 970 + 1, 6);
    });
  });

  it('errors when a callback throws or answers nonsense, and the next call succeeds', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(now, () => after(1, 'ok'), { cost: (request) => (request === 'a' ? NaN : 1) });
      caller.call('a').subscribe(note('a'));
      caller.call('b').subscribe(note('b'));
      flush();
      expect(log).toEqual(['a: FLOW_CALLBACK at 0', 'b sent at 0', 'b: "ok" at 1']);
    });
  });

  it('does not mind listeners that throw', () => {
    virtualTime(({ flush, now }) => {
      const rude = (): never => {
        throw new Error('telemetry is down');
      };
      const { caller, log, note } = scripted(now, () => after(1, 'ok'), { onRecord: rude, onEvent: rude });
      caller.call('a').subscribe(note('a'));
      flush();
      expect(log).toEqual(['a sent at 0', 'a: "ok" at 1']);
    });
  });
});

describe('the breaker', () => {
  it('hears of each attempt, and stops the others', () => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const { caller, log, note } = scripted(now, () => throwError(() => status(503)), {
        breaker: createBreaker({ opens: { minCalls: 2 }, openMs: 5000, onEvent: (event) => events.push(event) }),
        retry: false,
      });
      for (const request of ['a', 'b', 'c']) caller.call(request).subscribe(note(request));
      flush();
      expect(log).toEqual(['a sent at 0', 'a: status 503 at 0', 'b sent at 0', 'b: status 503 at 0', 'c: FLOW_BREAKER_OPEN at 0']);
      expect(events.filter(({ type }) => type === 'breakerChanged')).toMatchObject([{ state: 'open', openMs: 5000 }]);
    });
  });

  it('may be shared with others', () => {
    virtualTime(({ now }) => {
      const breaker = createBreaker();
      const { caller, log, note } = scripted(now, () => of({ text: 'ok' }), { breaker });
      breaker.trip();
      caller.call('a').subscribe(note('a'));
      breaker.reset();
      caller.call('a').subscribe(note('a'));
      expect(log).toEqual(['a: FLOW_BREAKER_OPEN at 0', 'a sent at 0', 'a: "ok" at 0']);
    });
  });
});

describe('a group of calls', () => {
  it('is all or nothing: the first failure aborts the others at once, and is the result', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(
        now,
        (request) => (request === 'bad' ? failsAfter(50, status(400)) : after(1000, request)),
        { concurrency: 3 },
      );
      const requests = { one: 'first', two: 'bad', three: 'third', four: 'never sent' };
      callAll(caller, requests).subscribe(note('result'));
      flush();
      expect(log).toEqual([
        'first sent at 0',
        'bad sent at 0',
        'third sent at 0',
        'result: status 400 at 50',
        'first aborted at 50',
        'third aborted at 50',
      ]);
      expect(records.map(({ name, status: end }) => `${name} ${end}`).sort()).toEqual(['one cancelled', 'three cancelled', 'two error']);
      expect(new Set(records.map((record) => record.traceId)).size).toBe(1);
      expect(caller.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    });
  });

  it('has its results by name, in the order of the requests', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(now, (request) => after(request.length, request));
      callAll(caller, { slow: 'a long one', fast: 'short' }, { lane: 'user' }).subscribe(note('all'));
      callAll(caller, {}).subscribe(note('none'));
      flush();
      expect(log.filter((line) => !line.includes('sent'))).toEqual(['none: {} at 0', 'all: {"slow":"a long one","fast":"short"} at 10']);
    });
  });

  it("has every result under mode 'settle'", () => {
    virtualTime(({ flush, now }) => {
      const { caller } = scripted(now, (request) => (request === 'bad' ? throwError(() => status(400)) : after(5, request)));
      const seen: unknown[] = [];
      callAll(caller, { one: 'good', two: 'bad' }, { errors: 'settle' }).subscribe(({ one, two }) => seen.push(one, two));
      flush();
      expect(seen).toMatchObject([
        { status: 'fulfilled', value: 'good', input: 'good' },
        { status: 'rejected', reason: { status: 400 }, input: 'bad' },
      ]);
    });
  });

  it('ends at its total time limit with DeadlineError, which is not tried again', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(now, () => NEVER, {
        ...presets.modelCaller.production,
        retry: { maxAttempts: 9, delayMs: 100, jitter: 'none', maxShare: Infinity },
      });
      const requests = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`p${i}`, `r${i}`]));
      callAll(caller, requests, { deadlineMs: 12_000 }).subscribe(note('result'));
      flush();
      expect(log).toContain('result: FLOW_DEADLINE at 12000');
      expect(log.filter((line) => line.includes('sent')).length).toBe(8);
      expect(log.filter((line) => line.endsWith('aborted at 12000')).length).toBe(4);
    });
  });

  it('has the deadline of the caller as its total, however many calls it has and however many there may be at a time', () => {
    virtualTime(({ flush, now }) => {
      // Two attempts of 10 s, eight calls, four at a time: without a total that is more than 40 s.
      const { caller, log, note } = scripted(now, () => NEVER, { ...presets.modelCaller.production });
      callAll(caller, Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`p${i}`, `r${i}`]))).subscribe(note('result'));
      flush();
      expect(log).toContain('result: FLOW_DEADLINE at 30000');
      expect(now()).toBe(30_000);
    });
  });

  it('is left with its consumer, or its signal', () => {
    virtualTime(({ advance, now }) => {
      const { caller, log, note } = scripted(now, () => NEVER, { concurrency: 1 });
      const leave = new AbortController();
      callAll(caller, { one: 'a', two: 'b' }, { signal: leave.signal }).subscribe(note('one'));
      const other = callAll(caller, { three: 'c' }).subscribe(note('other'));
      advance(5);
      leave.abort();
      advance(0);
      other.unsubscribe();
      expect(log).toEqual(['a sent at 0', 'a aborted at 5', 'one: This operation was aborted at 5', 'c sent at 5', 'c aborted at 5']);
      expect(caller.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    });
  });
});

describe('the presets', () => {
  it('have the numbers of their situations, and three attempts', () => {
    const numbers = Object.entries(presets.modelCaller).map(([name, { concurrency, timeoutMs, deadlineMs, retry }]) => [
      name,
      concurrency,
      timeoutMs,
      deadlineMs,
      retry.maxAttempts,
    ]);
    expect(numbers).toEqual([
      ['production', 4, 10_000, 30_000, 3],
      ['highConcurrency', 8, 8000, 30_000, 3],
      ['lowLatency', 3, 5000, 20_000, 3],
      ['test', 2, 15_000, 60_000, 3],
    ]);
  });

  it('are plain data: what JSON and structuredClone make of one is the same', () => {
    expect(JSON.parse(JSON.stringify(presets.modelCaller))).toEqual(presets.modelCaller);
    expect(structuredClone(presets.modelCaller)).toEqual(presets.modelCaller);
  });

  it('share a limiter: each takes so many of its slots, and gives them back when it is closed', () => {
    virtualTime(({ advance, now }) => {
      const limiter = createAccount({ concurrency: 6 });
      const of = () => scripted(now, () => NEVER, { ...presets.modelCaller.production, limiter }).caller;
      const [first, second] = [of(), of()];
      for (const caller of [first, second]) for (let i = 0; i < 5; i++) caller.call('a').subscribe({ error: () => undefined });
      advance(1);
      expect([first.snapshot().executing, second.snapshot().executing, limiter.executing]).toEqual([4, 2, 6]);
      first.close();
      advance(1);
      expect([second.snapshot().executing, limiter.executing]).toEqual([4, 4]);
      second.close();
      expect([limiter.executing, limiter.snapshot().queued]).toEqual([0, 0]);
      limiter.close();
    });
  });

  it.each(Object.keys(presets.modelCaller) as (keyof typeof presets.modelCaller)[])('%s works after a way through JSON', async (name) => {
    const preset = JSON.parse(JSON.stringify(presets.modelCaller[name])) as (typeof presets.modelCaller)[typeof name];
    let calls = 0;
    const models = accountedCaller({
      call: (question: string) => (++calls < 3 ? Promise.reject(status(503)) : Promise.resolve(question)),
      ...preset,
      random: () => 0,
    });
    expect([await models.callAsync('a'), calls]).toEqual(['a', 3]);
    models.close();
  });

  it.each(Object.entries(presets.modelCaller))('%s pauses 100 and 200 ms without jitter, and less with it', (_name, preset) => {
    const sentAt = (options: Partial<Options>): number[] =>
      virtualTime(({ flush, now }) => {
        const { caller, log } = scripted(now, () => throwError(() => status(503)), { ...preset, ...options });
        caller.call('a').subscribe({ error: () => undefined });
        flush();
        return log.map((line) => Number(line.split(' at ')[1]));
      });
    expect(sentAt({ retry: { ...preset.retry, jitter: 'none' } })).toEqual([0, 100, 300]);
    expect(sentAt({ random: () => 0.5 })).toEqual([0, 50, 150]);
  });
});

describe('a stream', () => {
  const words = (gapMs: number, ...list: string[]): Observable<string> => concat(...list.map((word) => timer(gapMs).pipe(map(() => word))));

  it('holds its permit to its end, and writes one record', () => {
    virtualTime(({ advance, flush, now }) => {
      const { caller, log, records, note } = scripted(now, () => NEVER, {
        concurrency: 1,
        stream: () => words(10, 'to', 'be'),
        usage: (chunk) => (chunk === 'be' ? { inputTokens: 3, outputTokens: 2 } : undefined),
      });
      caller.stream('a').subscribe(note('a'));
      caller.stream('b').subscribe(note('b'));
      advance(15);
      expect(caller.snapshot()).toMatchObject({ queued: 1, heldBySlot: 1, heldByRate: 0, executing: 1 });
      flush();
      expect(log).toEqual(['a: "to" at 10', 'a: "be" at 20', 'b: "to" at 30', 'b: "be" at 40']);
      expect(records).toMatchObject([
        { status: 'success', latencyMs: 20, queuedMs: 0, promptTokens: 3, completionTokens: 2 },
        { status: 'success', latencyMs: 20, queuedMs: 20 },
      ]);
    });
  });

  it('that is left gives its permit back at once, and its client is told', () => {
    virtualTime(({ advance, now }) => {
      const aborted: number[] = [];
      const { caller, records } = scripted(now, () => NEVER, {
        concurrency: 1,
        stream: (_request, { signal }) => {
          signal.addEventListener('abort', () => aborted.push(now()));
          return concat(of('to'), NEVER);
        },
      });
      const subscription = caller.stream('a').subscribe();
      advance(7);
      subscription.unsubscribe();
      expect([aborted, caller.snapshot().executing, caller.snapshot().queued]).toEqual([[7], 0, 0]);
      expect(records).toMatchObject([{ status: 'cancelled', latencyMs: 7 }]);
    });
  });

  it('is opened again when it fails before its first chunk, and never after it', () => {
    virtualTime(({ flush, now }) => {
      let times = 0;
      const { caller, log, records, note } = scripted(now, () => NEVER, {
        stream: (request) => {
          if (times++ === 0) return failsAfter(5, status(503));
          return request === 'a' ? words(5, 'to', 'be') : concat(words(5, 'to'), failsAfter(5, network));
        },
      });
      caller.stream('a').subscribe(note('a'));
      flush();
      caller.stream('b').subscribe(note('b'));
      flush();
      expect(log).toEqual(['a: "to" at 110', 'a: "be" at 115', 'b: "to" at 120', 'b: socket hang up at 125']);
      expect(records.map((record) => record.errorCode)).toEqual(['HTTP_503', null, 'ECONNRESET']);
    });
  });

  it('that is silent for too long is given up, its client told; one that goes on may take as long as it likes', () => {
    virtualTime(({ flush, now }) => {
      const aborted: number[] = [];
      const { caller, log, records, note } = scripted(now, () => NEVER, {
        timeoutMs: 100,
        retry: false,
        stream: (request, { signal }) => {
          signal.addEventListener('abort', () => aborted.push(now()));
          return request === 'long' ? words(90, 'a', 'b', 'c') : concat(words(90, 'a'), NEVER);
        },
      });
      caller.stream('long').subscribe(note('long'));
      flush();
      caller.stream('stalled').subscribe(note('stalled'));
      flush();
      expect(log).toEqual([
        'long: "a" at 90',
        'long: "b" at 180',
        'long: "c" at 270',
        'stalled: "a" at 360',
        'stalled: FLOW_ATTEMPT_TIMEOUT at 460',
      ]);
      expect(aborted).toEqual([460]);
      expect(records.map((record) => [record.status, record.errorCode])).toEqual([
        ['success', null],
        ['timeout', 'FLOW_ATTEMPT_TIMEOUT'],
      ]);
    });
  });

  it('may be an async iterable, a promise of one, or a ReadableStream; leaving reaches it', async () => {
    async function* endless(signal: AbortSignal): AsyncGenerator<string> {
      for (let i = 0; !signal.aborted; i++) yield await Promise.resolve(`chunk ${i}`);
    }
    const signals: AbortSignal[] = [];
    const caller = createModelCaller<string, never, string>({
      call: {
        send: () => NEVER,
        stream: (request, { signal }) => {
          signals.push(signal);
          if (request === 'iterable') return endless(signal);
          if (request === 'promise') return Promise.resolve(endless(signal));
          return new Response('chunk 0').body!.pipeThrough(new TextDecoderStream());
        },
      },
    });
    for (const request of ['iterable', 'promise', 'readable']) {
      const first = await new Promise((resolve) => {
        const subscription = caller.stream(request).subscribe((chunk) => {
          resolve(chunk);
          subscription.unsubscribe();
        });
      });
      expect(first).toBe('chunk 0');
    }
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
    expect(caller.snapshot().executing).toBe(0);
  });

  it('needs a client that can', () => {
    const caller = createModelCaller({ call: (request: string) => of(request) });
    expect(() => caller.stream('a')).toThrow('createModelCaller: expected `call.stream` to be a function');
  });
});

describe('a hedge', () => {
  it('asks again when the first attempt is slow, each with a permit and a record of its own', () => {
    virtualTime(({ advance, flush, now }) => {
      const events: FlowEvent[] = [];
      const { caller, log, records, note } = scripted(now, (_request, times) => (times === 0 ? NEVER : after(20, 'second')), {
        hedge: hedging({ delayMs: 50 }),
        onEvent: (event) => events.push(event),
      });
      caller.call('a', { lane: 'user' }).subscribe(note('result'));
      advance(60);
      expect(caller.snapshot()).toMatchObject({ executing: 2, queued: 0 });
      flush();
      expect(log).toEqual(['a sent at 0', 'a sent at 50', 'a aborted at 70', 'result: "second" at 70']);
      expect(records.map(({ attempt, status: end, latencyMs, queuedMs }) => [attempt, end, latencyMs, queuedMs])).toEqual([
        [2, 'success', 20, 0],
        [1, 'cancelled', 70, 0],
      ]);
      expect(events.filter(({ type }) => type === 'hedged')).toMatchObject([{ operator: 'createModelCaller', lane: 'user', afterMs: 50 }]);
      expect(events.filter(({ type }) => type === 'settled')).toMatchObject([{ operator: 'createModelCaller', lane: 'user' }]);
      expect(caller.snapshot()).toMatchObject({ executing: 0 });
    });
  });

  it('is for the most urgent lane, or those that are named, and not for a `parse` that fails', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log } = scripted(now, () => after(100, 'ok'), { hedge: hedging({ delayMs: 50 }) });
      caller.call('a', { lane: 'normal' }).subscribe();
      flush();
      const named = scripted(now, () => after(100, 'ok'), { hedge: hedging({ delayMs: 50, lanes: ['normal'] }) });
      named.caller.call('b', { lane: 'normal' }).subscribe();
      flush();
      const broken = scripted(now, () => after(10, 'ok'), {
        hedge: hedging({ delayMs: 50 }),
        parse: () => {
          throw new Error('no');
        },
      });
      broken.caller.call('c', { lane: 'user' }).subscribe(broken.note('c'));
      flush();
      expect([log.length, named.log.length, broken.log]).toEqual([1, 3, ['c sent at 200', 'c: no at 210']]);
    });
  });

  it('is tried again as a whole, cut off attempt by attempt, as long as the next pause ends before the deadline', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(now, () => NEVER, { hedge: hedging({ delayMs: 30 }), timeoutMs: 100, deadlineMs: 500 });
      caller.call('a', { lane: 'user' }).subscribe(note('result'));
      flush();
      expect(log.filter((line) => line.includes('sent'))).toEqual(['a sent at 0', 'a sent at 30', 'a sent at 230', 'a sent at 260']);
      expect(log.at(-1)).toBe('result: FLOW_DEADLINE at 360');
    });
  });

  it('waits for the permit of its first attempt before it counts its delay', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, records, note } = scripted(now, (request) => after(request === 'slow' ? 200 : 10, request), {
        concurrency: 1,
        hedge: hedging({ delayMs: 50 }),
      });
      caller.call('slow').subscribe();
      caller.call('a', { lane: 'user' }).subscribe(note('result'));
      flush();
      expect(log).toEqual(['slow sent at 0', 'a sent at 200', 'result: "a" at 210']);
      expect(records.at(-1)).toMatchObject({ queuedMs: 200, attempt: 1 });
    });
  });
});

describe('the lanes', () => {
  it('give user exactly the next free slot, with 2,000 of background before it', () => {
    virtualTime(({ flush, now }) => {
      const sent: string[] = [];
      const caller = createModelCaller({
        call: (request: string) => {
          sent.push(request);
          return timer(5).pipe(map(() => request));
        },
        concurrency: 4,
        maxQueued: Infinity,
      });
      for (let i = 0; i < 2000; i++) caller.call(`background ${i}`, { lane: 'background' }).subscribe();
      const urgent: { askedAt: number; sentBefore: number; answeredAt: number; name: string }[] = [];
      const asking = timer(2, 20).subscribe((n) => {
        const name = `user ${n}`;
        const one = { askedAt: now(), sentBefore: sent.length, answeredAt: 0, name };
        urgent.push(one);
        caller.call(name, { lane: 'user' }).subscribe(() => (one.answeredAt = now()));
        if (n === 99) asking.unsubscribe();
      });
      flush();
      expect(urgent.length).toBe(100);
      // Slots come free at 5, 10, 15, …: the very next call that is sent is this one.
      for (const { askedAt, sentBefore, answeredAt, name } of urgent) {
        expect(sent[sentBefore]).toBe(name);
        expect(answeredAt).toBe(Math.ceil((askedAt + 0.5) / 5) * 5 + 5);
      }
      // And the others lose nothing by it: 2,100 calls, four at a time.
      expect(sent.length).toBe(2100);
      expect(now()).toBe((2100 / 4) * 5);
    });
  });

  it('leave every lower lane its floor while user alone is too much', () => {
    virtualTime(({ advance, now }) => {
      const done = { user: 0, normal: 0, background: 0 };
      const { caller } = scripted(now, () => after(5, 'ok'), { concurrency: 4, maxQueued: Infinity });
      for (const lane of ['normal', 'background'] as const)
        for (let i = 0; i < 2000; i++) caller.call(lane, { lane }).subscribe({ next: () => done[lane]++, error: () => undefined });
      // 1,600 a second, twice what four slots can do.
      const flood = timer(0, 5)
        .pipe(mergeMap(() => from(Array.from({ length: 8 }, () => caller.call('user', { lane: 'user' }))).pipe(mergeMap((call) => call))))
        .subscribe(() => done.user++);
      advance(5000);
      const all = done.user + done.normal + done.background;
      expect(all).toBeGreaterThan(3980);
      expect(done.normal / all).toBeGreaterThanOrEqual(0.0995);
      expect(done.background / all).toBeGreaterThanOrEqual(0.0995);
      expect(done.user / all).toBeGreaterThan(0.79);
      flood.unsubscribe();
      caller.close();
      advance(10);
    });
  });

  it('may be those of a shared limiter, which has its own, or none', () => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const onEvent = (event: FlowEvent): number => events.push(event);
      const laned = scripted(now, () => after(1, 'ok'), {
        limiter: createLimiter({ queue: lanes([{ name: 'now' }, { name: 'later' }]) }),
        onEvent,
      });
      laned.caller.call('a').subscribe(laned.note('a'));
      laned.caller.call('b', { lane: 'user' }).subscribe(laned.note('b'));
      const plain = scripted(now, () => after(1, 'ok'), { limiter: createLimiter(), onEvent });
      plain.caller.call('c').subscribe(plain.note('c'));
      flush();
      expect(laned.log).toEqual(['a sent at 0', 'b: FLOW_LANE_UNKNOWN at 0', 'a: "ok" at 1']);
      expect(events.flatMap((event) => (event.type === 'attemptStarted' ? [event.lane] : []))).toEqual(['later', 'default']);
      expect(plain.log).toEqual(['c sent at 0', 'c: "ok" at 1']);
    });
  });
});

describe('a signal that lives on', () => {
  it('has one listener, however many calls are made with it, and none when they are over', async () => {
    const session = new AbortController();
    const caller = createModelCaller({ call: (request: number) => Promise.resolve(request), concurrency: 10, maxQueued: Infinity });
    let most = 0;
    const calls = Array.from({ length: 10_000 }, (_, i) => {
      const answer = caller.callAsync(i, { signal: session.signal });
      most = Math.max(most, getEventListeners(session.signal, 'abort').length);
      return answer;
    });
    expect((await Promise.all(calls)).length).toBe(10_000);
    expect([most, getEventListeners(session.signal, 'abort').length]).toEqual([1, 0]);
  });

  it('ends what waits and what runs, with its reason, and nothing more is sent with it', () => {
    virtualTime(({ advance, now }) => {
      const { caller, log, note } = scripted(now, () => NEVER, { concurrency: 1 });
      const leave = new AbortController();
      const reason = new Error('the user has left');
      for (const request of ['a', 'b']) caller.call(request, { signal: leave.signal }).subscribe(note(request));
      leave.abort(reason);
      caller.call('c', { signal: leave.signal }).subscribe(note('c'));
      advance(1);
      expect(log).toEqual([
        'a sent at 0',
        'a: the user has left at 0',
        'a aborted at 0',
        'b: the user has left at 0',
        'c: the user has left at 0',
      ]);
    });
  });
});

describe('the end', () => {
  it('drains: what was accepted is answered, what comes later refused', async () => {
    const caller = createModelCaller({ call: (request: string) => Promise.resolve(request), concurrency: 1 });
    const events: string[] = [];
    caller.events.subscribe({ next: ({ type }) => events.push(type), complete: () => events.push('complete') });
    const answers = [caller.callAsync('a'), caller.callAsync('b')];
    const drained = caller.drain();
    await expect(caller.callAsync('c')).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    expect(await Promise.all(answers)).toEqual(['a', 'b']);
    expect(await drained).toEqual({ done: 2, aborted: 0, dropped: 0 });
    expect(events.slice(-2)).toEqual(['drained', 'complete']);
  });

  it('closes: what runs is aborted, what waits dropped, and both are told', async () => {
    const aborted: string[] = [];
    const caller = createModelCaller({
      call: (request: string, { signal }) => {
        signal.addEventListener('abort', () => aborted.push(request));
        return NEVER;
      },
      concurrency: 1,
    });
    const answers = ['a', 'b'].map((request) => caller.callAsync(request).catch((error: unknown) => (error as { code: string }).code));
    caller.close();
    expect(await Promise.all(answers)).toEqual(['FLOW_CLOSED', 'FLOW_CLOSED']);
    expect(aborted).toEqual(['a']);
    expect(await caller.drain()).toEqual({ done: 0, aborted: 1, dropped: 1 });
  });

  it('comes with a signal, and with `await using`; a shared limiter goes on', async () => {
    const limiter = createLimiter();
    const stop = new AbortController();
    const one = createModelCaller({ call: (request: string) => Promise.resolve(request), limiter }).shutdownOn(stop.signal);
    stop.abort();
    await expect(one.callAsync('a')).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    expect(getEventListeners(stop.signal, 'abort').length).toBe(0);
    const two = createModelCaller({ call: (request: string) => Promise.resolve(request), limiter });
    await two[Symbol.asyncDispose]();
    expect(limiter.tryAcquire()).toBeDefined();
  });

  it('leaves no unhandled rejection', async () => {
    const caller = createModelCaller({ call: () => Promise.reject(status(400)) });
    const unheard: unknown[] = [];
    const listen = (reason: unknown): void => void unheard.push(reason);
    process.on('unhandledRejection', listen);
    void caller.callAsync('a');
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off('unhandledRejection', listen);
    expect(unheard).toEqual([]);
  });
});

describe('what is told', () => {
  it('goes to metrics: events for the flow, records for the calls, and the four numbers', () => {
    virtualTime(({ advance, flush, now }) => {
      const metrics = createMetrics();
      const { caller } = scripted(
        now,
        (request, times) => (request === 'bad' && times === 0 ? throwError(() => status(503)) : after(1000, request)),
        {
          concurrency: 2,
          requestsPerMinute: 150,
          onEvent: metrics.sink,
          onRecord: metrics.record,
        },
      );
      metrics.observe('models', caller);
      for (const request of ['bad', 'a', 'b', 'c', 'd', 'e', 'f']) caller.call(request).subscribe();
      advance(50);
      // 4.5 saved up (150 a minute, a headroom of 0.9, two seconds): three are spent, one more could be paid, the others could not, and one pauses.
      expect(metrics.snapshot()).toMatchObject({ queued: 5, heldBySlot: 1, heldByRate: 3, executing: 2 });
      flush();
      const { flow, calls, lanes } = metrics.snapshot();
      expect(flow).toMatchObject({ accepted: 7, retries: 1, fulfilled: 7, rejected: 0, calls: 8, peakExecuting: 2 });
      expect(calls).toMatchObject({
        attempts: 8,
        retries: 1,
        retryRate: 1 / 8,
        failures: 1,
        byCode: { HTTP_503: { count: 1, rate: 1 / 8 } },
      });
      expect(calls.latencyMs.p50).toBeGreaterThan(980);
      expect(lanes['background']).toMatchObject({ attempts: 8, promptTokens: 7 * 850, completionTokens: 7 * 120 });
    });
  });

  it('names this caller in events, and the lane', () => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const { caller } = scripted(now, () => after(1, 'ok'), { onEvent: (event) => events.push(event) });
      caller.call('a', { lane: 'normal' }).subscribe();
      flush();
      expect(events.map((event) => `${event.type} ${event.operator} ${'lane' in event ? event.lane : ''}`)).toEqual([
        'accepted createModelCaller normal',
        'attemptStarted createModelCaller normal',
        'attemptEnded createModelCaller normal',
        'settled createModelCaller normal',
      ]);
    });
  });

  it('collects answers in order with `concatMap` and friends like any Observable', () => {
    virtualTime(({ flush, now }) => {
      const { caller, log, note } = scripted(now, (request) => after(request.length, request));
      from(['aaa', 'b'])
        .pipe(
          mergeMap((request) => caller.call(request)),
          toArray(),
        )
        .subscribe(note('all'));
      flush();
      expect(log.at(-1)).toBe('all: ["b","aaa"] at 3');
    });
  });
});

const answersAfter = (ms: number, answer: string): Observable<string> => timer(ms).pipe(map(() => answer));
type OverOptions = Partial<ModelCallerOptions<string, string, string> & Pick<ModelClient<string, string, string>, 'stream' | 'usage'>>;
/** A caller over a function, with a log of what it sent and when, and its records in short. */
function over(
  now: () => number,
  call: (request: string, context: ModelContext) => WorkResult<string>,
  { stream, usage, ...options }: OverOptions = {},
) {
  const log: string[] = [];
  const records: CallRecord[] = [];
  const models = accountedCaller<string, string, string>({
    call: {
      send: (request, context) => {
        log.push(`${request} at ${now()}`);
        return call(request, context);
      },
      ...(stream && { stream }),
      ...(usage && { usage }),
    },
    retry: { delayMs: 100, jitter: 'none' },
    onRecord: (record) => records.push(record),
    ...options,
  });
  const failed = { error: (error: unknown) => log.push(`${(error as Error).message} at ${now()}`) };
  return { models, log, records, ends: () => records.map((record) => `${record.name} ${record.status}`), failed };
}

describe('a hedged call', () => {
  it('sends no other call of its group when one fails', () => {
    virtualTime(({ flush, now }) => {
      const { models, log, ends, failed } = over(
        now,
        (request) => (request === 'bad' ? failsAfter(50, status(400)) : answersAfter(1000, request)),
        {
          concurrency: 2,
          hedge: hedging({ delayMs: 500 }),
        },
      );
      callAll(models, { a: 'a', b: 'bad', c: 'c', d: 'd' }, { lane: 'user' }).subscribe(failed);
      flush();
      expect(log).toEqual(['a at 0', 'bad at 0', 'status 400 at 50']);
      expect(ends()).toEqual(['b error', 'a cancelled']);
    });
  });

  it('is not made again after 400, and after 503 only with the pause of a retry', () => {
    virtualTime(({ flush, now }) => {
      const refused = over(now, () => failsAfter(10, status(400)), { hedge: hedging({ delayMs: 500 }) });
      refused.models.call('a', { lane: 'user' }).subscribe(refused.failed);
      flush();
      expect(refused.log).toEqual(['a at 0', 'status 400 at 10']);
      const down = over(now, () => failsAfter(10, status(503)), { hedge: hedging({ delayMs: 500 }) });
      down.models.call('b', { lane: 'user' }).subscribe(down.failed);
      flush();
      expect(down.log).toEqual(['b at 10', 'b at 120', 'b at 330', 'status 503 at 340']);
    });
  });

  it('waits for the other attempt when one breaks', () => {
    virtualTime(({ flush, now }) => {
      let sent = 0;
      const { models, log, records } = over(now, () => (++sent === 1 ? failsAfter(80, status(503)) : answersAfter(50, 'second')), {
        hedge: hedging({ delayMs: 50 }),
      });
      models.call('a', { lane: 'user' }).subscribe((answer) => log.push(`${answer} at ${now()}`));
      flush();
      expect(log).toEqual(['a at 0', 'a at 50', 'second at 100']);
      expect(records.map(({ attempt, errorCode }) => [attempt, errorCode])).toEqual([
        [1, 'HTTP_503'],
        [2, null],
      ]);
    });
  });

  it('tells of its slower attempt as an attempt, not as a call that was cancelled', () => {
    virtualTime(({ flush, now }) => {
      const types: string[] = [];
      const { models } = over(now, () => answersAfter(100, 'a'), {
        hedge: hedging({ delayMs: 50 }),
        onEvent: ({ type }) => types.push(type),
      });
      models.call('a', { lane: 'user' }).subscribe();
      flush();
      expect(types).toEqual(['accepted', 'attemptStarted', 'hedged', 'attemptStarted', 'attemptEnded', 'attemptEnded', 'settled']);
    });
  });

  it('names lanes that there are', () => {
    const call = () => of('a');
    expect(() => createModelCaller({ call, hedge: hedging({ lanes: ['P9'] }) })).toThrow(
      '`hedge.lanes` to be a list of known lanes (user, normal, background)',
    );
  });
});

describe('a call that a listener ends when its attempt is told', () => {
  it('is not sent, has its record, and holds nothing', () => {
    virtualTime(({ flush, now }) => {
      const { models, log, ends, failed } = over(now, () => NEVER, {
        onEvent: ({ type }) => {
          if (type === 'attemptStarted') models.close();
        },
      });
      models.call('a').subscribe(failed);
      flush();
      expect([log, ends()]).toEqual([['createModelCaller: closed; it accepts no more work at 0'], ['call cancelled']]);
      expect(models.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });
});

describe('an answer', () => {
  it('is the last value of an Observable, parsed once; taking it is no cancellation', async () => {
    const records: CallRecord[] = [];
    let parsed = 0;
    const parse = (n: number): number => n * ++parsed;
    const models = createModelCaller({
      call: (_request: string) => of(1, 2, 3),
      parse,
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    expect(await lastValueFrom(models.call('a').pipe(toArray()))).toEqual([3]);
    expect(await firstValueFrom(models.call('b'))).toBe(6);
    expect(records.map((record) => record.status)).toEqual(['success', 'success']);
  });

  it('that comes at once is the answer itself, be it a text or a list', async () => {
    const records: CallRecord[] = [];
    const models = createModelCaller({
      call: (request: string) => [request, request],
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    expect(await models.callAsync('a')).toEqual(['a', 'a']);
    expect(await createModelCaller({ call: (request: string) => `${request}!` }).callAsync('a')).toBe('a!');
    expect(records).toMatchObject([{ status: 'success' }]);
  });
});

describe('a record', () => {
  it('leaves out tokens that cannot be, and keeps what was said before', () => {
    const records: CallRecord[] = [];
    const says: readonly unknown[] = [
      { inputTokens: -5, outputTokens: NaN },
      { inputTokens: '12', outputTokens: Infinity },
      { inputTokens: 7 },
      { inputTokens: undefined, outputTokens: 3 },
    ];
    const models = createModelCaller<string, string, number>({
      call: { send: () => of('a'), stream: () => of(0, 1, 2, 3), usage: (chunk) => says[chunk as number] as never },
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    models.stream('a').subscribe();
    expect(records).toMatchObject([{ status: 'success', promptTokens: 7, completionTokens: 3 }]);
  });

  it('has a model, or there is no call', async () => {
    const models = createModelCaller({ call: () => of('a'), model: (() => undefined) as never });
    await expect(models.callAsync('a')).rejects.toThrow('`model` must return a non-empty string');
  });

  it('says `timeout` when the time of the whole group is over', () => {
    virtualTime(({ flush, now }) => {
      const { models, records } = over(now, () => NEVER);
      callAll(models, { a: 'a', b: 'b' }, { deadlineMs: 300 }).subscribe({ error: () => undefined });
      flush();
      expect(records.map((record) => [record.status, record.errorCode])).toEqual([
        ['timeout', 'FLOW_DEADLINE'],
        ['timeout', 'FLOW_DEADLINE'],
      ]);
    });
  });
});

describe('an error', () => {
  it('names the caller, and not what it is made of', () => {
    virtualTime(({ flush, now }) => {
      const cut = over(now, () => NEVER, { timeoutMs: 20, retry: false });
      cut.models.call('a').subscribe(cut.failed);
      const late = over(now, () => NEVER, { deadlineMs: 30 });
      late.models.call('b').subscribe(late.failed);
      flush();
      expect(cut.log[1]).toBe('createModelCaller: the attempt took longer than 20 ms and was aborted at 20');
      expect(late.log[1]).toBe('createModelCaller: not settled within 30 ms (30 ms elapsed) at 30');
    });
  });

  it('never shows the key of an endpoint that was given to the caller itself', () => {
    const make = (): unknown => createModelCaller({ model: 'small', apiKey: 'sk-secret' } as never);
    expect(make).toThrow('createModelCaller: unknown option `apiKey`. Use `call: chatCompletions({ … })`.');
    expect(make).not.toThrow('sk-secret');
  });

  it('of a group names its options', () => {
    const models = createModelCaller({ call: () => of('a') });
    expect(() => callAll(models, {}, null as never)).toThrow('callAll: expected `options` to be an object, got `null`');
  });
});

describe('a stream', () => {
  it('whose client throws, whose usage throws, or that fails later, has one record, and frees its slot', () => {
    const fault = new Error('fault');
    const throws = (): never => {
      throw fault;
    };
    const streams: readonly OverOptions[] = [
      { stream: throws },
      { stream: () => of('a'), usage: throws },
      {
        stream: () =>
          concat(
            of('a'),
            throwError(() => fault),
          ),
      },
    ];
    for (const options of streams) {
      const { models, records, log, failed } = over(Date.now, () => of('a'), { ...options, retry: false, concurrency: 1 });
      models.stream('a').subscribe(failed);
      expect([records.length, log.length, models.snapshot().executing]).toEqual([1, 1, 0]);
    }
  });

  it('has one timer however fast its chunks come, and none when it is over', () => {
    virtualTime(({ advance, pending, now, scheduler }) => {
      const chunks = new Observable<string>((subscriber) => {
        for (let n = 0; n < 100; n++) subscriber.next(String(n));
      });
      const { models } = over(now, () => NEVER, { stream: () => chunks, timeoutMs: 100, scheduler });
      const reading = models.stream('a').subscribe();
      advance(50);
      expect(pending()).toBe(1);
      reading.unsubscribe();
      expect(pending()).toBe(0);
    });
  });
});

describe('a client that does not look at the signal', () => {
  it('costs none, and has its record when it is left', () => {
    const made: unknown[] = [];
    const { AbortController } = globalThis;
    globalThis.AbortController = class extends AbortController {
      constructor() {
        super();
        made.push(this);
      }
    };
    try {
      const { models, ends } = over(Date.now, (request) => (request === 'left' ? NEVER : of('a')));
      models.call('a').subscribe();
      models.call('left').subscribe().unsubscribe();
      expect([made.length, ends()]).toEqual([0, ['call success', 'call cancelled']]);
    } finally {
      globalThis.AbortController = AbortController;
    }
  });
});

describe('metrics', () => {
  it('count an attempt with invalid times', () => {
    const stats = new AttemptStats(5);
    stats.add({ code: 'HTTP_500' }, 1, NaN);
    stats.add('ok', 1, 5);
    expect(stats.snapshot()).toMatchObject({ attempts: 2, failures: 1, failureRate: 0.5, latencyMs: { count: 1 } });
  });

  it('count what has a text for its name as `other`', () => {
    const metrics = createMetrics();
    const models = createModelCaller({
      call: () => of('a'),
      model: (request: string) => request,
      onRecord: metrics.record,
      limiter: createAccount({ concurrency: 4 }),
    });
    models.call('x'.repeat(10_000)).subscribe();
    models.call('small').subscribe();
    expect(Object.keys(metrics.snapshot().models)).toEqual(['other', 'small']);
  });
});
