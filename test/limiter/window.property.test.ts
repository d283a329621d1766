import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { childOf, createLimiter, slidingWindow } from '../../operators/index.js';
import { sized } from '../support/deep.js';

const MINUTE_MS = 60_000;
const requests = (amount: number) => slidingWindow({ unit: 'requests', amount, windowMs: MINUTE_MS });

const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('ask' as const), calls: fc.integer({ min: 1, max: 60 }), tokens: fc.nat({ max: 40 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.oneof(fc.nat({ max: 3000 }), fc.nat({ max: 90_000 })) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pause' as const), ms: fc.nat({ max: 70_000 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stop' as const), ms: fc.nat({ max: 70_000 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const) }) },
);

describe('the strict window', () => {
  it('never lets more than the amount into any 60 s, bursts, pauses, rates of 0 and children included', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.boolean(), fc.constantFrom(1, 3, Infinity), (steps, below, concurrency) => {
        virtualTime(({ advance, flush, now }) => {
          const account = createLimiter({
            concurrency,
            rates: [requests(50), slidingWindow({ unit: 'tokens', amount: 400, windowMs: MINUTE_MS })],
            headroom: 1,
          });
          const limiters = below ? [account, childOf(account), childOf(account, { concurrency: 2 })] : [account];
          const grants: { at: number; tokens: number }[] = [];
          let waiting = { unsubscribe: (): void => undefined };
          let asked = 0;
          let left = 0;
          for (const each of steps) {
            if (each.do === 'wait') advance(each.ms);
            if (each.do === 'pause') account.penalize(each.ms);
            if (each.do === 'leave') waiting.unsubscribe();
            if (each.do === 'stop') {
              account.setLimits({ rates: [requests(0)] });
              advance(each.ms);
              account.setLimits({ rates: [requests(50)] });
            }
            if (each.do !== 'ask') continue;
            for (let i = 0; i < each.calls; i++) {
              const { tokens } = each;
              const limiter = limiters[i % limiters.length] ?? account;
              asked++;
              let granted = false;
              const subscription = limiter.acquire({ cost: { tokens } }).subscribe((lease) => {
                granted = true;
                grants.push({ at: now(), tokens });
                lease.release();
              });
              waiting = {
                unsubscribe: () => {
                  if (!granted && !subscription.closed) left++;
                  subscription.unsubscribe();
                },
              };
            }
          }
          flush();
          expect(grants.length).toBe(asked - left);
          expect(account.executing).toBe(0);
          for (let first = 0, last = 0, tokens = 0; last < grants.length; last++) {
            const newest = grants[last] as (typeof grants)[number];
            tokens += newest.tokens;
            for (let oldest = grants[first]; oldest && oldest.at <= newest.at - MINUTE_MS; oldest = grants[++first])
              tokens -= oldest.tokens;
            expect(last - first + 1).toBeLessThanOrEqual(50);
            expect(tokens).toBeLessThanOrEqual(400);
          }
        });
      }),
      { numRuns: sized(50, 150) },
    );
  });
});
