import { concat, NEVER, of, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BreakerOpenError,
  createBreaker,
  createLimiter,
  DeadlineError,
  hedging,
  lanes,
  policy,
  retryFailed,
} from '../../operators/index.js';

const slots = (count: number, events: FlowEvent[] = []) =>
  createLimiter({ concurrency: count, queue: lanes([{ name: 'user' }, { name: 'bulk' }]), onEvent: (event) => events.push(event) });

describe('a policy with `hedge`', () => {
  it('asks again after the silence, under a permit of its own, and takes the first answer', () => {
    virtualTime(({ flush, now }) => {
      const limiter = slots(4);
      const events: FlowEvent[] = [];
      const run = policy({ hedge: hedging({ delayMs: 50 }), limiter, job: { lane: 'user' }, onEvent: (event) => events.push(event) });
      const executing: number[] = [];
      let calls = 0;
      const answers: unknown[] = [];
      const aborted: number[] = [];
      run(
        (context) => {
          const number = ++calls;
          context.whenAborted = () => aborted.push(number);
          executing.push(limiter.executing);
          return number === 1 ? NEVER : timer(10);
        },
        { id: 'mine' },
      ).subscribe(() => answers.push(now()));
      flush();
      expect([answers, executing, aborted, limiter.executing]).toEqual([[60], [1, 2], [1], 0]);
      expect(events.filter(({ type }) => type === 'hedged')).toMatchObject([{ lane: 'user', batchId: 'mine', attempt: 1, afterMs: 50 }]);
    });
  });

  it('hedges the lanes that it names, and those of the limiter alone', () => {
    virtualTime(({ flush }) => {
      const limiter = slots(4);
      const callsIn = (lane: string, named?: readonly string[]): number => {
        let calls = 0;
        const hedge = hedging({ delayMs: 1, ...(named && { lanes: named }) });
        policy({ hedge, limiter, timeoutMs: 100 })(() => (calls++, NEVER), { job: { lane } }).subscribe({ error: () => undefined });
        flush();
        return calls;
      };
      expect([callsIn('user'), callsIn('bulk'), callsIn('bulk', ['bulk'])]).toEqual([2, 1, 2]);
      expect(() => policy({ hedge: hedging({ lanes: ['other'] }), limiter })).toThrow(
        '`hedge.lanes` to be a list of known lanes (user, bulk)',
      );
    });
  });

  it('times out each attempt for itself, retries behind its pause, and keeps to the deadline of the call', () => {
    virtualTime(({ flush, now }) => {
      const limiter = slots(4);
      const run = policy({
        hedge: hedging({ delayMs: 50 }),
        ...{ limiter, job: { lane: 'user' }, timeoutMs: 100, retry: retryFailed({ maxAttempts: 2, delayMs: 10, jitter: 'none' }) },
      });
      const sent: number[] = [];
      const errors: unknown[] = [];
      run(() => (sent.push(now()), NEVER)).subscribe({ error: (error: unknown) => errors.push([now(), error]) });
      run(() => NEVER, { deadlineMs: 70 }).subscribe({ error: (error: unknown) => errors.push([now(), error]) });
      flush();
      expect(sent).toEqual([0, 50, 160, 210]);
      expect(errors).toEqual([
        [70, expect.any(DeadlineError)],
        [310, expect.any(AttemptTimeoutError)],
      ]);
      expect(limiter.executing).toBe(0);
    });
  });

  it('asks the breaker before each attempt, and never retries what it refuses', () => {
    virtualTime(({ flush }) => {
      const breaker = createBreaker({ opens: { inARow: 1 }, openMs: 1000 });
      const run = policy({ hedge: hedging({ delayMs: 50 }), limiter: slots(4), job: { lane: 'user' }, breaker, retry: retryFailed() });
      breaker.trip();
      const errors: unknown[] = [];
      run(() => of(1)).subscribe({ error: (error: unknown) => errors.push(error) });
      flush();
      expect(errors).toEqual([expect.any(BreakerOpenError)]);
      expect(() => policy({ hedge: hedging(), breaker })).toThrow('`breaker` needs `limiter` beside `hedge`');
    });
  });
});

describe('a policy with `silenceMs`', () => {
  it('aborts an attempt that says nothing for so long, before its first value and after one', () => {
    virtualTime(({ flush, now }) => {
      const run = policy({ silenceMs: 30, timeoutMs: Infinity, operator: 'mine' });
      const ends: unknown[] = [];
      const error = (fault: unknown): void => void ends.push([now(), String(fault)]);
      run(() => NEVER).subscribe({ error });
      run(() => concat(timer(20), timer(20), NEVER)).subscribe({ error });
      run(() => concat(timer(29), timer(29), timer(29))).subscribe({ error, complete: () => ends.push(now()) });
      flush();
      expect(ends).toEqual([[30, expect.stringContaining('mine')], [70, expect.stringContaining('30')], 87]);
    });
  });
});
