import { adaptiveLimit } from '../../operators/adaptive-limit.js';
import type { Limiter } from '../../operators/create-limiter.js';
import { createLimiter } from '../../operators/create-limiter.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

/** Takes and gives back permits, one after the other. */
function permits(what: string, limiter: Limiter, n: number): void {
  let granted = 0;
  for (let i = 0; i < n; i++) {
    const lease = limiter.tryAcquire();
    if (lease) granted++;
    lease?.release();
  }
  assertCount(what, granted, n);
}

function listening(n: number): Case {
  return {
    name: `permits of a limiter that is listened to, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand (a count up, a count down, a limit that follows)': () => {
        let limit = 4;
        let good = 0;
        let inFlight = 0;
        let granted = 0;
        for (let i = 0; i < n; i++) {
          if (inFlight >= limit) continue;
          inFlight++;
          granted++;
          const startedAt = Date.now();
          if (Date.now() > startedAt && 2 * inFlight >= limit && ++good >= limit) {
            good = 0;
            limit++;
          }
          inFlight--;
        }
        assertCount('by hand', granted, n);
      },
      'sluice adaptiveLimit': () => {
        const limiter = createLimiter();
        const adapting = adaptiveLimit(limiter);
        permits('adaptiveLimit', limiter, n);
        adapting.unsubscribe();
      },
      'sluice createLimiter alone': () => {
        permits('createLimiter', createLimiter({ concurrency: 4 }), n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => listening(1e6)];
