import { Subscription } from 'rxjs';
import { vi } from 'vitest';
import type { PatientClock } from './patient-clock.js';

/** Puts the clock behind the timers of the host, for clients that know no other, until the work has settled. */
export async function withTimersOf<R>(clock: PatientClock, work: () => Promise<R>): Promise<R> {
  const { clearTimeout: clearHost } = globalThis;
  vi.stubGlobal('setTimeout', (callback: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    const timer = clock.schedule(() => {
      callback(...args);
    }, ms);
    return Object.assign(timer, { ref: () => timer, unref: () => timer, hasRef: () => true });
  });
  vi.stubGlobal('clearTimeout', (timer: unknown) => {
    if (timer instanceof Subscription) timer.unsubscribe();
    else clearHost(timer as never);
  });
  try {
    return await work();
  } finally {
    vi.unstubAllGlobals();
  }
}
