import { Subscription } from 'rxjs';
import { createLimiter, heldBy, keyedLimiter } from '../../operators/index.js';
import type { Scenario } from '../support/steps.js';

const FEW = 1000;
const MANY = 50_000;
export const ITEMS = { few: FEW, many: MANY } as const;

/** A clock with room for the one timer of a limiter. */
function clock() {
  let time = 0;
  let due: { readonly at: number; readonly ring: () => void } | undefined;
  return {
    scheduler: {
      now: () => time,
      schedule: (ring: () => void, delayMs: number) => {
        const timer = { at: time + delayMs, ring };
        due = timer;
        return new Subscription(() => {
          if (due === timer) due = undefined;
        });
      },
    },
    run: () => {
      while (due) {
        const { at, ring } = due;
        [time, due] = [at, undefined];
        ring();
      }
    },
  };
}

/** All wait for one slot that never comes free, and each gives up at a time of its own. */
const expired =
  (jobs: number): Scenario =>
  () => {
    const { scheduler, run } = clock();
    const limiter = createLimiter({ concurrency: 1, scheduler: scheduler as never });
    limiter.tryAcquire();
    for (let n = 0; n < jobs; n++) limiter.acquire({ deadlineMs: 1 + ((n * 7919) % jobs) }).subscribe({ error: () => undefined });
    return run;
  };

/** Each is granted before its deadline has come, one after the other. */
const granted =
  (jobs: number): Scenario =>
  () => {
    const limiter = createLimiter({ concurrency: 1, scheduler: clock().scheduler as never });
    const slot = limiter.tryAcquire();
    for (let n = 0; n < jobs; n++)
      limiter.acquire({ deadlineMs: 1 + ((n * 7919) % jobs) }).subscribe((lease) => {
        lease.release();
      });
    return () => {
      slot?.release();
    };
  };

/** Each is given up while its work runs, and keeps its slot for a while. */
const abandoned =
  (jobs: number): Scenario =>
  () => {
    const { scheduler, run } = clock();
    const limiter = createLimiter({ abortGraceMs: 1000, scheduler: scheduler as never });
    const leases = Array.from({ length: jobs }, () => limiter.tryAcquire());
    const never = { then: () => undefined } as never;
    return () => {
      for (const lease of leases) lease?.releaseAfter(never);
      run();
    };
  };

/** Each is of a key of its own, and waits there while it holds a lease of another limiter. */
const nested =
  (jobs: number): Scenario =>
  () => {
    const outer = createLimiter().tryAcquire();
    const keys = keyedLimiter({ concurrency: 1, scheduler: clock().scheduler as never });
    return () => {
      for (let key = 0; key < jobs; key++) {
        const lease = keys.tryAcquire({ key });
        keys.acquire({ key, holder: heldBy(outer as never) }).subscribe((inner) => {
          inner.release();
        });
        keys.acquire({ key, holder: heldBy(lease as never) }).subscribe({ error: () => undefined });
        lease?.release();
      }
    };
  };

export const scenarios: Readonly<Record<string, Scenario>> = Object.fromEntries(
  Object.entries({ expired, granted, abandoned, nested }).flatMap(([name, of]) => [
    [`${name}, few`, of(FEW)],
    [`${name}, many`, of(MANY)],
  ]),
);
