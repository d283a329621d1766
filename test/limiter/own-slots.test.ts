import fc from 'fast-check';
import { asyncScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { GateLimiter } from '../../operators/support/batching/own-slots.js';
import { OwnSlots } from '../../operators/support/batching/own-slots.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import type { Lease, Place } from '../today.js';
import { createLimiter } from '../today.js';

type Step =
  | { readonly do: 'enlist' | 'wantNothing' | 'withdraw' | 'poke' }
  | { readonly do: 'release'; readonly at: number; readonly outcome: 'ok' | 'error' | 'cancelled' | 'unused' }
  | { readonly do: 'linger' | 'workEnds' | 'workFails'; readonly at: number }
  | { readonly do: 'observe'; readonly at: number; readonly status: number; readonly seconds: number }
  | { readonly do: 'penalize' | 'advance'; readonly ms: number }
  | { readonly do: 'setLimits'; readonly concurrency: number };

/** One bidder, as an engine is, which enlists again from inside a grant as often as it is told. */
class Owner {
  readonly log: string[] = [];
  readonly scheduler = new CountingScheduler();
  readonly #limiter: GateLimiter;
  readonly #leases: Lease[] = [];
  readonly #ends = new Map<number, [() => void, () => void]>();
  #place: Place | undefined;
  #wants = true;
  #encores: number;

  constructor(limiterOf: (scheduler: CountingScheduler) => GateLimiter, encores: number) {
    this.#limiter = limiterOf(this.scheduler);
    this.#encores = encores;
  }

  do(step: Step): void {
    switch (step.do) {
      case 'enlist':
        this.#wants = true;
        this.#enlist();
        break;
      case 'wantNothing':
        // As an engine does: whoever has nothing to send any more leaves.
        this.#wants = false;
        this.#leave();
        break;
      case 'withdraw':
        this.#leave();
        break;
      case 'poke':
        this.#place?.poke();
        break;
      case 'release':
        this.#leases[step.at]?.release(step.outcome);
        break;
      case 'linger':
        this.#leases[step.at]?.releaseAfter({
          then: (done, failed) => {
            this.#ends.set(step.at, [() => void done?.(undefined), () => void failed?.(new Error('cut'))]);
            return undefined as never;
          },
        });
        break;
      case 'workEnds':
      case 'workFails':
        this.#ends.get(step.at)?.[step.do === 'workEnds' ? 0 : 1]();
        break;
      case 'observe':
        this.#leases[step.at]?.observe({ status: step.status, headers: { 'retry-after': String(step.seconds) } });
        break;
      case 'penalize':
        this.#limiter.penalize(step.ms);
        break;
      case 'advance':
        this.scheduler.maxFrames = this.scheduler.frame + step.ms;
        this.scheduler.flush();
        this.scheduler.frame = this.scheduler.maxFrames;
        break;
      case 'setLimits':
        this.#limiter.setLimits({ concurrency: step.concurrency });
    }
    const { executing, concurrency, load } = this.#limiter;
    this.log.push(`${step.do}: ${String(executing)} of ${String(concurrency)}, load ${String(load)}, ${String(this.#place !== undefined)}`);
    this.log.push(`${String(this.scheduler.actions.length)} timers`);
  }

  close(): void {
    this.#leave();
    this.#limiter.close();
    this.log.push(`closed: ${String(this.scheduler.actions.length)} timers`);
    for (const lease of this.#leases) lease.release();
    this.log.push(`${String(this.#limiter.executing)} execute`);
  }

  #leave(): void {
    const place = this.#place;
    this.#place = undefined;
    place?.withdraw();
  }

  #enlist(): void {
    if (this.#place !== undefined) return;
    const seen = this.#leases.length;
    const place = this.#limiter.enlist({
      bid: () => (this.#wants ? 0 : undefined),
      granted: (lease) => {
        this.#place = undefined;
        this.log.push(`granted at ${String(this.scheduler.frame)}`);
        this.#leases.push(lease);
        if (this.#encores-- > 0) this.#enlist();
      },
      refused: () => this.log.push('refused'),
    });
    if (this.#leases.length === seen) this.#place = place;
  }
}

const at = fc.nat(6);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant<Step>({ do: 'enlist' }),
  fc.constantFrom<Step>({ do: 'enlist' }, { do: 'withdraw' }, { do: 'poke' }, { do: 'wantNothing' }),
  fc.record({ do: fc.constant('release' as const), at, outcome: fc.constantFrom('ok', 'error', 'cancelled', 'unused') }),
  fc.record({ do: fc.constantFrom('linger', 'workEnds', 'workFails'), at }),
  fc.record({ do: fc.constant('observe' as const), at, status: fc.constantFrom(200, 400, 429, 503, 529), seconds: fc.nat(3) }),
  fc.record({ do: fc.constant('penalize' as const), ms: fc.integer({ min: 1, max: 2000 }) }),
  fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 0, max: 1500 }) }),
  fc.record({ do: fc.constant('setLimits' as const), concurrency: fc.constantFrom(1, 2, 3, Infinity) }),
);
const steps = fc.array(step, { maxLength: 40, size: 'max' });

describe('the slots of one engine', () => {
  it('do what a limiter does for one bidder', () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(1, 2, Infinity), fc.nat(3), (script, concurrency, encores) => {
        const own = new Owner((scheduler) => new OwnSlots(concurrency, scheduler), encores);
        const whole = new Owner((scheduler) => createLimiter({ concurrency, scheduler }), encores);
        for (const step of script) {
          own.do(step);
          whole.do(step);
          expect(own.log).toEqual(whole.log);
        }
        own.close();
        whole.close();
        expect(own.log).toEqual(whole.log);
        expect(own.scheduler.actions).toHaveLength(0);
      }),
      {
        numRuns: 3000,
        examples: [
          [
            [
              { do: 'setLimits', concurrency: 3 },
              ...Array.from({ length: 3 }, (): Step => ({ do: 'enlist' })),
              { do: 'release', at: 1, outcome: 'cancelled' },
              { do: 'linger', at: 0 },
            ],
            1,
            1,
          ],
        ],
      },
    );
  }, 60_000);

  it('let a million calls that end at once go by without going deeper', () => {
    const slots = new OwnSlots(1, asyncScheduler);
    let calls = 0;
    const bidder = {
      bid: () => 0,
      granted: (lease: Lease) => {
        if (++calls < 1_000_000) slots.enlist(bidder);
        lease.release();
      },
      refused: () => undefined,
    };
    slots.enlist(bidder);
    expect([calls, slots.executing]).toEqual([1_000_000, 0]);
  });
});
