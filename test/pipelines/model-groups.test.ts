import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { finalize, map, mergeMap, NEVER, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { isFlowError } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import type { ModelCallAllOptions } from '../../src/pipelines/create-model-caller.js';
import { callAll, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { presets } from '../../src/pipelines/presets.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { sized } from '../support/deep.js';

type Outcome = 'good' | 'bad' | 'silent';
const answer = (outcome: Outcome): Observable<string> => {
  if (outcome === 'silent') return NEVER;
  return timer(10).pipe(outcome === 'good' ? map(() => 'value') : mergeMap(() => throwError(() => new Error('fault'))));
};

/** What came of a group, as text: errors by their code or message. */
function groupOf(requests: Record<string, Outcome>, options: ModelCallAllOptions): unknown {
  return virtualTime(({ flush, now }) => {
    const models = createModelCaller({ call: answer, concurrency: 2, retry: false });
    const seen: unknown[] = [];
    callAll(models, requests, options as { errors: 'collect' }).subscribe({
      next: (value) => seen.push(value, now()),
      error: (error: Error) => seen.push(error.message, now()),
    });
    flush();
    expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    const text = JSON.stringify(seen, (_key, value: unknown) =>
      value instanceof Error ? (isFlowError(value) ? value.code : value.message) : value,
    );
    return JSON.parse(text) as unknown;
  });
}

describe("callAll with errors: 'collect'", () => {
  it('gives the values of those that succeeded, and the errors of the others, by their names', () => {
    expect(groupOf({ one: 'good', two: 'bad', three: 'good' }, { errors: 'collect' })).toEqual([
      { values: { one: 'value', three: 'value' }, errors: { two: 'fault' } },
      20,
    ]);
    expect(groupOf({}, { errors: 'collect' })).toEqual([{ values: {}, errors: {} }, 0]);
  });

  it('keeps what there is when the time is up', () => {
    expect(groupOf({ one: 'good', two: 'silent', three: 'good', four: 'silent' }, { errors: 'collect', deadlineMs: 50 })).toEqual([
      { values: { one: 'value', three: 'value' }, errors: { two: 'FLOW_DEADLINE', four: 'FLOW_DEADLINE' } },
      50,
    ]);
  });

  it.each(['propagate', 'settle', 'collect'] as const)('names the caller in the error, and not what it is made of (%s)', (errors) => {
    virtualTime(({ flush }) => {
      const heard: unknown[] = [];
      const caller = createModelCaller({ call: () => NEVER });
      callAll(caller, { one: 'a' }, { errors: errors as 'collect', deadlineMs: 50 }).subscribe({
        next: (all) => heard.push(all),
        error: (error) => heard.push(error),
      });
      flush();
      const late = { name: 'DeadlineError', operator: 'createModelCaller', deadlineMs: 50 };
      const shapes = {
        propagate: late,
        settle: { one: { status: 'rejected', reason: late } },
        collect: { values: {}, errors: { one: late } },
      };
      expect(heard).toMatchObject([shapes[errors]]);
    });
  });

  it('takes any names', () => {
    const requests = JSON.parse('{"__proto__":"good","":"bad","constructor":"good"}') as Record<string, Outcome>;
    const [{ values, errors }] = groupOf(requests, { errors: 'collect' }) as [{ values: object; errors: object }];
    expect(Object.entries(values)).toEqual([
      ['__proto__', 'value'],
      ['constructor', 'value'],
    ]);
    expect(Object.entries(errors)).toEqual([['', 'fault']]);
  });

  it("says the same as errors: 'settle', in another shape, and never fails", () => {
    const names = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const outcome = fc.constantFrom<Outcome>('good', 'bad', 'silent');
    fc.assert(
      fc.property(fc.dictionary(names, outcome), (requests) => {
        const [settled, at] = groupOf(requests, { errors: 'settle', deadlineMs: 100 }) as [Record<string, Record<string, unknown>>, number];
        const by = (status: string, field: string) =>
          Object.fromEntries(Object.entries(settled).flatMap(([name, one]) => (one['status'] === status ? [[name, one[field]]] : [])));
        expect(groupOf(requests, { errors: 'collect', deadlineMs: 100 })).toEqual([
          { values: by('fulfilled', 'value'), errors: by('rejected', 'reason') },
          at,
        ]);
        expect(Object.keys(settled)).toEqual(Object.keys(requests));
      }),
      { numRuns: sized(30, 100) },
    );
  });
});

// ---- presets ----------------------------------------------------------------------------------------------------------

/** What happens with a preset, moment by moment: good, slow, busy and silent answers of two callers. */
function told(preset: object, shared: boolean): readonly string[] {
  return virtualTime(({ flush, now, scheduler }) => {
    const log: string[] = [];
    let running = 0;
    const limiter = createAccount({ concurrency: 5, scheduler });
    const caller = (name: string) =>
      accountedCaller({
        ...preset,
        ...(shared && { limiter }),
        call: (request: string, { attempt, signal }) => {
          log.push(`${name} ${request} ${String(attempt)} at ${String(now())}, ${String(++running)} at a time`);
          signal.addEventListener('abort', () => log.push(`${name} ${request} aborted at ${String(now())}`));
          const ms = request === 'slow' ? 4000 : 100;
          return (request === 'silent' ? NEVER : timer(ms)).pipe(
            map(() => {
              if (request === 'busy') throw Object.assign(new Error('busy'), { status: 503 });
              return request;
            }),
            finalize(() => running--),
          );
        },
        random: () => 0.5,
      });
    for (const [name, models] of [['one', caller('one')] as const, ['two', caller('two')] as const]) {
      for (const request of ['good', 'slow', 'busy', 'silent', 'good', 'slow', 'silent', 'silent', 'good', 'busy', 'slow', 'slow']) {
        models.call(request).subscribe({
          next: () => log.push(`${name} ${request} answered at ${String(now())}`),
          error: (error: Error) => log.push(`${name} ${error.name} at ${String(now())}`),
        });
      }
    }
    flush();
    return log;
  });
}

describe.each(Object.entries(presets.modelCaller))('the preset %s', (_name, preset) => {
  it.each([false, true])('does the same after a way through JSON (with a shared limiter: %s)', (shared) => {
    const before = told(preset, shared);
    expect(before.length).toBeGreaterThan(40);
    expect(told(JSON.parse(JSON.stringify(preset)) as object, shared)).toEqual(before);
  });

  it('takes so many slots of a shared limiter as it says', () => {
    const most = Math.max(...told(preset, true).map((line) => Number(/(\d+) at a time$/.exec(line)?.[1] ?? 0)));
    expect(most).toBe(Math.min(5, 2 * preset.concurrency));
  });
});
