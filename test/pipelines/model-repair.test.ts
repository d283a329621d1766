import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { map, mergeMap, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { hedging, isFlowError } from '../../operators/index.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import type { ModelCallerOptions } from '../../src/pipelines/create-model-caller.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { sized } from '../support/deep.js';

type Options = Partial<ModelCallerOptions<string, string, string, number>>;

const after = (ms: number, answer: string): Observable<string> => timer(ms).pipe(map(() => answer));
const busy = (ms: number): Observable<never> =>
  timer(ms).pipe(mergeMap(() => throwError(() => Object.assign(new Error('busy'), { status: 503 }))));

/** A caller that wants numbers, over answers in their order: each takes 10 ms. */
function scripted(now: () => number, answers: readonly (string | Observable<string>)[], options: Options = {}) {
  const log: string[] = [];
  const records: CallRecord[] = [];
  let sent = 0;
  const models = accountedCaller<string, string, string, number>({
    call: {
      send: (request, { signal, attempt }) => {
        log.push(`${request} (${String(attempt)}) sent at ${String(now())}`);
        signal.addEventListener('abort', () => log.push(`${request} aborted at ${String(now())}`));
        const answer = answers[sent++] ?? 'nothing more';
        return typeof answer === 'string' ? after(10, answer) : answer;
      },
      stream: (request) => of(request),
    },
    parse: (answer) => {
      const n = Number(answer);
      if (Number.isNaN(n)) throw new SyntaxError(`${answer} is no number`);
      return n;
    },
    fixAnswer: { rounds: 2, ask: (request, answer, fault) => `${request} not ${answer}: ${(fault as Error).name}` },
    retry: { delayMs: 5, jitter: 'none' },
    onRecord: (record) => records.push(record),
    ...options,
  });
  const ask = (request: string, how: Parameters<typeof models.call>[1] = {}) =>
    models.call(request, how).subscribe({
      next: (answer) => log.push(`${String(answer)} at ${String(now())}`),
      error: (error: unknown) => log.push(`${isFlowError(error) ? error.code : (error as Error).message} at ${String(now())}`),
    });
  return { models, log, records, ask };
}

describe('an answer that cannot be read', () => {
  it('is asked about, with request, answer and fault, until one can be read', () => {
    virtualTime(({ flush, now }) => {
      const { ask, log, records } = scripted(now, ['one', 'two', '3']);
      ask('q', { lane: 'user', name: 'count', traceId: 't' });
      flush();
      expect(log).toEqual([
        'q (1) sent at 0',
        'q not one: SyntaxError (1) sent at 10',
        'q not one: SyntaxError not two: SyntaxError (1) sent at 20',
        '3 at 30',
      ]);
      expect(records.map(({ errorCode, lane, name, traceId }) => [errorCode, lane, name, traceId])).toEqual([
        ['PARSE_FAILED', 'user', 'count', 't'],
        ['PARSE_FAILED', 'user', 'count', 't'],
        [null, 'user', 'count', 't'],
      ]);
      expect(new Set(records.map(({ spanId }) => spanId)).size).toBe(3);
    });
  });

  it('after the last round is the error that `parse` threw at it', () => {
    virtualTime(({ flush, now }) => {
      const { ask, log } = scripted(now, ['one', 'two'], { fixAnswer: { ask: () => 'again' } });
      ask('q');
      flush();
      expect(log).toEqual(['q (1) sent at 0', 'again (1) sent at 10', 'two is no number at 20']);
    });
  });

  it.each([
    ['a refusal', throwError(() => Object.assign(new Error('refused'), { status: 400 })), 'refused at 10'],
    ['a failure that stays', busy(0), 'busy at 25'],
  ])('is not asked about once more when its round ends with %s', (_what, answer, end) => {
    virtualTime(({ flush, now }) => {
      const { ask, log } = scripted(now, ['one', answer, answer, answer]);
      ask('q');
      flush();
      expect(log.at(-1)).toBe(end);
    });
  });

  it('has a permit, attempts and a whole deadline for each round', () => {
    virtualTime(({ flush, now }) => {
      const { ask, log, models } = scripted(now, ['one', '1', 'two', '2'], {
        concurrency: 1,
        deadlineMs: 25,
        fixAnswer: { ask: (q) => `${q}!` },
      });
      ask('a');
      ask('b');
      expect(models.snapshot()).toMatchObject({ queued: 1, executing: 1 });
      flush();
      // The second of `a` waits behind the first of `b`, and ends later than a deadline after its first.
      expect(log).toEqual(['a (1) sent at 0', 'b (1) sent at 10', '1 at 20', 'a! (1) sent at 20', 'two is no number at 30']);
    });
  });

  it('continues with `maxQueued: 0`, because its permit comes back first', () => {
    virtualTime(({ flush, now }) => {
      const { ask, log } = scripted(now, ['one', '2'], { concurrency: 1, maxQueued: 0 });
      ask('q');
      flush();
      expect(log.at(-1)).toBe('2 at 20');
    });
  });

  it('fails the call when `ask` throws', () => {
    virtualTime(({ flush, now }) => {
      const ask = (): never => {
        throw new Error('no idea');
      };
      const { ask: start, log } = scripted(now, ['one'], { fixAnswer: { ask } });
      start('q');
      flush();
      expect(log).toEqual(['q (1) sent at 0', 'FLOW_CALLBACK at 10']);
    });
  });

  it('does not happen in streams', () => {
    const { models } = scripted(() => 0, []);
    const chunks: string[] = [];
    models.stream('text').subscribe((chunk) => chunks.push(chunk));
    expect(chunks).toEqual(['text']);
  });

  it('is asked about while the caller drains, and no more when it is closed', async () => {
    for (const end of ['drain', 'close'] as const) {
      const { models, ask, log } = scripted(() => 0, [after(1, 'one'), after(1, '2')], {});
      ask('q');
      const drained = models.drain();
      if (end === 'close') models.close();
      expect(await drained).toEqual(end === 'drain' ? { done: 1, aborted: 0, dropped: 0 } : { done: 0, aborted: 1, dropped: 0 });
      expect(log.slice(1)).toEqual(
        end === 'drain' ? ['q not one: SyntaxError (1) sent at 0', '2 at 0'] : ['FLOW_CLOSED at 0', 'q aborted at 0'],
      );
    }
  });
});

const round = fc.constantFrom('good', 'bad', 'busy', 'silent');
const leaves = fc.constantFrom<'never' | 'unsubscribe' | 'signal' | 'close'>('never', 'unsubscribe', 'signal', 'close');

it('whatever the answers, wherever it is left, and however often it may be asked: one end, nothing sent after it, nothing held', () => {
  fc.assert(
    fc.property(
      fc.array(round, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 3 }),
      leaves,
      fc.nat({ max: 120 }),
      fc.boolean(),
      (rounds, most, leaving, leaveMs, isHedged) => {
        virtualTime(({ advance, flush, now }) => {
          const answers = rounds.map((how) => {
            if (how === 'busy') return busy(4);
            return how === 'silent' ? after(1000, '9') : after(6, how === 'good' ? '1' : 'text');
          });
          const { models, records, log } = scripted(now, answers, {
            fixAnswer: { rounds: most, ask: (request) => `${request}!` },
            retry: { delayMs: 3, jitter: 'none', maxAttempts: 2 },
            timeoutMs: 40,
            deadlineMs: 70,
            ...(isHedged && { hedge: hedging({ delayMs: 20, maxShare: Infinity }) }),
          });
          const controller = new AbortController();
          let ends = 0;
          const call = models
            .call('q', { lane: 'user', signal: controller.signal })
            .subscribe({ error: () => ends++, complete: () => ends++ });
          advance(leaveMs);
          const isOver = ends > 0;
          if (leaving === 'unsubscribe') call.unsubscribe();
          else if (leaving === 'signal') controller.abort();
          else if (leaving === 'close') models.close();
          const sent = log.filter((line) => line.includes('sent')).length;
          flush();
          expect(ends).toBe(leaving === 'unsubscribe' && !isOver ? 0 : 1);
          if (leaving !== 'never' || isOver) expect(log.filter((line) => line.includes('sent')).length).toBe(sent);
          expect(records.length).toBe(log.filter((line) => line.includes('sent')).length);
          expect(records.filter(({ errorCode }) => errorCode === 'PARSE_FAILED').length).toBeLessThanOrEqual(
            (most + 1) * (isHedged ? 2 : 1),
          );
          expect(now()).toBeLessThanOrEqual(leaveMs + 70 * (most + 1));
          expect(models.snapshot()).toMatchObject({ queued: 0, executing: 0 });
        });
      },
    ),
    { numRuns: sized(50, 150) },
  );
});
