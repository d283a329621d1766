import { map, NEVER, Observable, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { virtualTime } from '../../marbles/virtual.js';
import { isFlowError } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { modelCallerOptions, parseConfig } from '../../src/edge/index.js';
import { logFields } from '../../src/metrics/log-fields.js';
import { callAll, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { presets } from '../../src/pipelines/presets.js';

/** Files as `sluice config preset` prints them, and what each has to do with eight properties. */
const situations = [
  { name: 'production', concurrency: 4, attemptMs: 10_000, totalMs: 30_000 },
  { name: 'highConcurrency', concurrency: 8, attemptMs: 8000, totalMs: 30_000 },
  { name: 'lowLatency', concurrency: 3, attemptMs: 5000, totalMs: 20_000 },
  { name: 'test', concurrency: 2, attemptMs: 15_000, totalMs: 60_000 },
] as const;

const properties = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`p${String(i)}`, `p${String(i)}`]));
const status = (code: number) => Object.assign(new Error(`status ${String(code)}`), { status: code });

interface Attempt {
  readonly property: string;
  readonly at: number;
  end?: number;
  aborted?: true;
}

/** Calls by a configuration: each answer is made by the number of the attempt. */
function calls(
  name: (typeof situations)[number]['name'],
  now: () => number,
  answer: (property: string, attempt: number) => Observable<string>,
) {
  const parsed = parseConfig(stringify(presets.llmProperties[name]));
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const { limits, model } = parsed.value;
  const attempts: Attempt[] = [];
  const records: object[] = [];
  const limiter = createAccount(limits);
  const caller = createModelCaller({
    ...modelCallerOptions(model),
    // Without the jitter, so that pauses can be told.
    retry: { ...(model?.retry || {}), jitter: 'none' },
    limiter,
    model: 'm',
    parse: (text: string) => JSON.parse(text) as number,
    onRecord: (record) => records.push(logFields(record)),
    call: (property: string, { attempt }) =>
      new Observable<string>((subscriber) => {
        const sent: Attempt = { property, at: now() };
        attempts.push(sent);
        const call = answer(property, attempt).subscribe(subscriber);
        return () => {
          sent.end = now();
          if (!subscriber.closed || !call.closed) sent.aborted = true;
          call.unsubscribe();
        };
      }),
  });
  return { caller, limiter, attempts, records };
}

const most = (attempts: readonly Attempt[]): number =>
  Math.max(...attempts.map(({ at }) => attempts.filter((other) => other.at <= at && at < (other.end ?? Infinity)).length));

describe.each(situations)('properties, $name', ({ name, concurrency, attemptMs, totalMs }) => {
  it('are asked for so many at a time, and answered together', () => {
    virtualTime(({ flush, now }) => {
      const { caller, attempts } = calls(name, now, () => timer(2000).pipe(map(() => '7')));
      let answered: unknown;
      callAll(caller, properties).subscribe((all) => (answered = [all, now()]));
      flush();
      expect(most(attempts)).toBe(concurrency);
      expect(answered).toEqual([Object.fromEntries(Object.keys(properties).map((key) => [key, 7])), Math.ceil(8 / concurrency) * 2000]);
    });
  });

  it('have so long for one attempt; the next ones come 100 and 200 ms later, and there are three', () => {
    virtualTime(({ flush, now }) => {
      const { caller, attempts } = calls(name, now, () => NEVER);
      let failed: unknown;
      caller.call('p0').subscribe({ error: (error: unknown) => (failed = [isFlowError(error, 'FLOW_DEADLINE'), now()]) });
      flush();
      const starts = [0, attemptMs + 100, 2 * attemptMs + 300].filter((at) => at < totalMs);
      expect(attempts.map(({ at }) => at)).toEqual(starts);
      expect(attempts[0]?.end).toBe(attemptMs);
      expect(failed).toEqual(3 * attemptMs + 300 < totalMs ? [false, 3 * attemptMs + 300] : [true, totalMs]);
    });
  });

  it('are tried again after 5xx and a timeout, not after a 400, a 401 or an answer that is no JSON, and wait a 429 out', () => {
    virtualTime(({ flush, now }) => {
      for (const [given, sent] of [
        [500, 3],
        [503, 3],
        [400, 1],
        [401, 1],
        [404, 1],
      ] as const) {
        const { caller, attempts } = calls(name, now, () => throwError(() => status(given)));
        caller.call('p0').subscribe({ error: () => undefined });
        flush();
        expect([given, attempts.length]).toEqual([given, sent]);
      }
      const refused = calls(name, now, () => throwError(() => status(429)));
      refused.caller.call('p0').subscribe({ error: () => undefined });
      flush();
      expect(refused.attempts.length).toBeGreaterThan(3);
      const { caller, attempts, records } = calls(name, now, () => of('no json'));
      caller.call('p0').subscribe({ error: () => undefined });
      flush();
      expect(attempts).toHaveLength(1);
      expect(records).toMatchObject([{ status: 'error', error_code: 'PARSE_FAILED' }]);
    });
  });

  it('are all there or none: one that fails for good ends the others, and what waits is never sent', () => {
    virtualTime(({ flush, now }) => {
      const { caller, attempts, limiter } = calls(name, now, (property) =>
        property === 'p1'
          ? timer(50).pipe(
              map(() => {
                throw status(400);
              }),
            )
          : NEVER,
      );
      let failed: unknown;
      callAll(caller, properties).subscribe({ error: (error: unknown) => (failed = [(error as Error).message, now()]) });
      flush();
      expect(failed).toEqual(['status 400', 50]);
      expect(attempts).toHaveLength(concurrency);
      expect(attempts.every(({ end }) => end === 50)).toBe(true);
      expect(limiter.executing).toBe(0);
    });
  });

  it('have so long in all, pauses and waiting included, and are not tried again then', () => {
    virtualTime(({ flush, now }) => {
      const { caller, limiter } = calls(name, now, () => NEVER);
      let failed: unknown;
      callAll(caller, properties).subscribe({ error: (error: unknown) => (failed = [isFlowError(error, 'FLOW_DEADLINE'), now()]) });
      flush();
      // With all eight at a time they have had their three attempts before.
      const endMs = concurrency < 8 ? totalMs : 3 * attemptMs + 300;
      expect(failed).toEqual([endMs === totalMs, endMs]);
      expect([now(), limiter.executing, limiter.snapshot().queued]).toEqual([endMs, 0, 0]);
    });
  });

  it('have a record of every attempt', () => {
    virtualTime(({ flush, now }) => {
      const { caller, records } = calls(name, now, (_, attempt) =>
        attempt === 1
          ? timer(5).pipe(
              map(() => {
                throw status(503);
              }),
            )
          : timer(7).pipe(map(() => '7')),
      );
      caller.call('p0', { name: 'approved_drug_count', traceId: '3f5d6c1c' }).subscribe();
      flush();
      const common = {
        trace_id: '3f5d6c1c',
        property: 'approved_drug_count',
        llm_model: 'm',
        prompt_tokens: null,
        completion_tokens: null,
      };
      expect(records).toMatchObject([
        { ...common, attempt: 1, latency_ms: 5, status: 'error', error_code: 'HTTP_503' },
        { ...common, attempt: 2, latency_ms: 7, status: 'success', error_code: null },
      ]);
    });
  });
});
