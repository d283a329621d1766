import { mergeMap, of, throwError, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter, LimiterJob, LimiterOptions } from '../../operators/index.js';
import { childOf, createLimiter, fromHeaders, isFlowError, policy, retryFailed } from '../../operators/index.js';

const refusal = (headers: Record<string, string> = {}) => ({ status: 429, headers });
const ok = { status: 200, headers: {} };
const DAY_MS = 86_400_000;

/** Learns, and without chance. */
const wide = (rules: LimiterOptions = {}): Limiter => createLimiter({ learn: fromHeaders(), random: () => 1, ...rules });

function ask(limiter: Limiter, now: () => number, job: LimiterJob = {}) {
  const seen: string[] = [];
  const leases: Lease[] = [];
  const subscription = limiter.acquire(job).subscribe({
    next: (lease) => {
      leases.push(lease);
      seen.push(`lease at ${String(now())}`);
    },
    error: (error: unknown) => seen.push(`${isFlowError(error) ? error.code : String(error)} at ${String(now())}`),
  });
  return { seen, leases, subscription };
}

/** A fixed sequence of numbers from 0 to 1. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** So many calls, five at a time, of which a share is refused without a word; each is sent again until it goes through. */
function flakyRun(share: number, calls: number, pause: 'shared' | 'own') {
  return virtualTime(({ flush, now }) => {
    const chance = dice(13);
    const limiter = wide({ concurrency: 5, maxQueued: Infinity, random: dice(7) });
    let done = 0;
    let sent = 0;
    const send = (attempt: number): void => {
      limiter
        .run(({ lease }) =>
          timer(20).pipe(
            mergeMap(() => {
              sent++;
              const isRefused = chance() < share;
              if (pause === 'shared') lease.observe(isRefused ? refusal() : ok);
              // What a client does by itself: half a second, doubled, and the permit is kept meanwhile.
              if (pause === 'own' && isRefused) return timer(Math.min(8000, 500 * 2 ** attempt)).pipe(mergeMap(() => of('again')));
              return of(isRefused ? 'again' : 'done');
            }),
          ),
        )
        .subscribe((outcome) => {
          if (outcome === 'done') done++;
          else send(attempt + 1);
        });
    };
    for (let i = 0; i < calls; i++) send(0);
    flush();
    return { done, sent, ms: now() };
  });
}

describe('refusals without a reason, and without a rate', () => {
  it.each([0.05, 0.2, 0.5])('cost no more time than a client that waits for itself (%d of all calls)', (share) => {
    const shared = flakyRun(share, 300, 'shared');
    expect(shared.done).toBe(300);
    expect(shared.ms).toBeLessThan(flakyRun(share, 300, 'own').ms);
  });

  it('make 300 calls at five a time last less than 15 s when a fifth is refused', () => {
    expect(flakyRun(0.2, 300, 'shared').ms).toBeLessThan(15_000);
  });

  it('make the pauses grow while nothing goes through, and short again when something does', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ concurrency: 10 });
      const pauses: number[] = [];
      const refused = (): void => {
        limiter.tryAcquire()?.observe(refusal());
        const { pausedForMs } = limiter.snapshot();
        pauses.push(pausedForMs);
        advance(pausedForMs);
      };
      for (let i = 0; i < 4; i++) refused();
      limiter.tryAcquire()?.observe(ok);
      refused();
      expect(pauses).toEqual([200, 400, 800, 1600, 200]);
    });
  });

  it('count once for all that was under way, so that ten at once pause no longer than one', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ concurrency: 10 });
      const pauses: number[] = [];
      for (let wave = 0; wave < 3; wave++) {
        const leases = Array.from({ length: 10 }, () => limiter.tryAcquire());
        for (const lease of leases) {
          lease?.observe(refusal());
          lease?.release();
        }
        const { pausedForMs } = limiter.snapshot();
        pauses.push(pausedForMs);
        advance(pausedForMs);
      }
      expect(pauses).toEqual([200, 400, 800]);
    });
  });

  it('do not hammer a server that lets next to nothing through', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ concurrency: 100 });
      let sent = 0;
      for (let at = 0; at < 60_000; ) {
        const leases = Array.from({ length: 100 }, () => limiter.tryAcquire());
        sent += leases.length;
        leases.forEach((lease, i) => {
          lease?.observe(i === 50 ? ok : refusal());
          lease?.release();
        });
        const { pausedForMs } = limiter.snapshot();
        at += pausedForMs;
        advance(pausedForMs);
      }
      expect(sent).toBeLessThanOrEqual(1000);
    });
  });
});

describe('a long hint', () => {
  it.each([
    ['20 days', { 'retry-after': '1728000' }],
    ['10 days in ms', { 'retry-after-ms': '864000000' }],
  ])('of %s is a pause of one day', (_what, headers) => {
    virtualTime(({ flush, now }) => {
      const limiter = wide({ concurrency: 1 });
      limiter.observe(refusal(headers));
      expect(limiter.snapshot().pausedForMs).toBe(DAY_MS);
      const job = ask(limiter, now);
      flush();
      expect(job.seen).toEqual([`lease at ${String(DAY_MS)}`]);
    });
  });

  it.each([
    ['30 days', { 'retry-after': '2592000' }],
    ['30 years', { 'retry-after': '1000000000' }],
    ['40 days in ms', { 'retry-after-ms': '3456000000' }],
  ])('of %s is a mistake, and pauses as a refusal without one', (_what, headers) => {
    virtualTime(() => {
      const limiter = wide();
      limiter.observe(refusal(headers));
      expect(limiter.snapshot().pausedForMs).toBe(200);
    });
  });

  it.each([
    ['30 days', 30 * DAY_MS],
    ['30 years', 1e12],
  ])("of one's own, of %s, is a long pause, over which no timer runs out", (_what, pauseMs) => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = wide({ concurrency: 1 });
      limiter.penalize(pauseMs);
      expect(limiter.snapshot().pausedForMs).toBe(pauseMs);
      const job = ask(limiter, now);
      advance(2 ** 31);
      expect(job.seen).toEqual([]);
      if (pauseMs > 1e11) job.subscription.unsubscribe();
      flush();
      expect(job.seen).toEqual(pauseMs > 1e11 ? [] : [`lease at ${String(pauseMs)}`]);
    });
  });

  it('is ended for one call by its own time limit or its signal', () => {
    virtualTime(({ advance, now }) => {
      const limiter = wide();
      limiter.observe(refusal({ 'retry-after': '1728000' }));
      const controller = new AbortController();
      const jobs = [ask(limiter, now, { deadlineMs: 1000 }), ask(limiter, now, { signal: controller.signal })];
      advance(1000);
      controller.abort(new Error('enough'));
      expect(jobs.map(({ seen }) => seen)).toEqual([['FLOW_DEADLINE at 1000'], ['Error: enough at 1000']]);
      expect(limiter.snapshot().queued).toBe(0);
    });
  });

  it('is not sent again for a job whose deadline is before its end, and fails at once', () => {
    virtualTime(({ flush, now }) => {
      const limiter = wide({ concurrency: 1 });
      let sent = 0;
      const seen: string[] = [];
      policy({ limiter, deadlineMs: 60_000, retry: retryFailed({ maxAttempts: 5, maxShare: 0.2 }) })(({ observe }) => {
        sent++;
        observe(refusal({ 'retry-after': '1728000' }));
        return throwError(() => Object.assign(new Error('refused'), refusal({ 'retry-after': '1728000' })));
      }).subscribe({ error: (error: unknown) => seen.push(`${isFlowError(error) ? error.code : String(error)} at ${String(now())}`) });
      flush();
      expect([sent, seen]).toEqual([1, ['FLOW_DEADLINE at 0']]);
    });
  });

  it('waits for its end when that is within `maxThrottledMs` and there is no deadline, and is sent once more', () => {
    virtualTime(({ flush, now }) => {
      const limiter = wide({ concurrency: 1 });
      const sentAt: number[] = [];
      const retry = retryFailed({ jitter: 'none', maxShare: 0.2, maxThrottledMs: 20 * DAY_MS });
      policy({ limiter, retry, random: () => 0 })(() => {
        sentAt.push(now());
        const error = Object.assign(new Error('refused'), refusal({ 'retry-after': '1728000' }));
        return sentAt.length === 1 ? throwError(() => error) : of('answer');
      }).subscribe();
      flush();
      // The account has a pause of a day, the call waits as long as it was told to.
      expect(sentAt).toEqual([0, 20 * DAY_MS]);
    });
  });
});

describe('penalize(0)', () => {
  it('ends the pause, however long it was to be', () => {
    virtualTime(({ advance, now, pending }) => {
      const pauses: number[] = [];
      const limiter = wide({ onEvent: (event) => event.type === 'throttled' && pauses.push(event.pauseMs) });
      limiter.penalize(1e9);
      const job = ask(limiter, now);
      advance(10);
      limiter.penalize(0);
      expect([job.seen, limiter.snapshot().pausedForMs, pending()]).toEqual([['lease at 10'], 0, 0]);
      limiter.penalize(0);
      expect(pauses).toEqual([1e9, 0]);
    });
  });

  it('of an account lets its children go on, and that of a child not the account', () => {
    virtualTime(({ now }) => {
      const account = wide();
      const child = childOf(account, { concurrency: 1 });
      account.penalize(1e9);
      const job = ask(child, now);
      child.penalize(0);
      expect(job.seen).toEqual([]);
      account.penalize(0);
      expect(job.seen).toEqual(['lease at 0']);
    });
  });

  it('is no hint of 0: `retry-after: 0` leaves a pause that is longer', () => {
    virtualTime(() => {
      const limiter = wide();
      limiter.penalize(5000);
      limiter.observe(refusal({ 'retry-after': '0' }));
      expect(limiter.snapshot().pausedForMs).toBe(5000);
    });
  });

  it('is not said by a call that was refused with a hint of 0', () => {
    virtualTime(({ flush }) => {
      const limiter = wide();
      let left: number | undefined;
      policy({ limiter })(({ lease }) => {
        lease?.observe(refusal({ 'retry-after': '9' }));
        return throwError(() => Object.assign(new Error('refused'), refusal({ 'retry-after': '0' })));
      }).subscribe({
        error: () => {
          left = limiter.snapshot().pausedForMs;
        },
      });
      flush();
      expect(left).toBe(9000);
    });
  });
});
