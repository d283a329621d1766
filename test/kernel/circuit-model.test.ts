import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BreakerState, CircuitOptions, CircuitState } from '../../operators/kernel/index.js';
import { Circuit } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

/** A call that was let through: in which state, and when. */
interface Call {
  readonly spell: number;
  readonly since: number;
}

interface Result {
  readonly tenth: number;
  readonly hasFailed: boolean;
}

/** The same rules, naively: it keeps every result and reads them all at each question. Its clock never goes back. */
class ByHand {
  state: CircuitState = 'closed';
  private until = 0;
  private openMs: number;
  private spell = 0;
  private probes = new Set<Call>();
  private ends: boolean[] = [];
  private results: Result[] = [];
  /** The tenth of the window that it is, and when that began. */
  private tenth = 0;
  private since = 0;

  constructor(private readonly options: CircuitOptions) {
    this.openMs = options.openMs;
  }

  enter(now: number): Call | undefined {
    if (this.retryAfterMs(now) > 0) return undefined;
    if (this.state === 'open') this.become('halfOpen');
    const call = { spell: this.spell, since: now };
    if (this.state === 'halfOpen') this.probes.add(call);
    return call;
  }

  left(call: Call): void {
    this.probes.delete(call);
  }

  answered(call: Call, now: number): void {
    if (this.state === 'halfOpen') this.ended(call, false, now);
  }

  ended(call: Call, hasFailed: boolean, now: number): void {
    if (call.spell !== this.spell) return;
    const { share, minCalls, inARow, probes, probeShare, maxOpenMs } = this.options;
    if (this.state === 'closed') {
      this.goOn(now);
      this.results.push({ tenth: this.tenth, hasFailed });
      const { calls, failures } = this.counts(now);
      const sinceGood = this.results.length - 1 - this.results.findLastIndex((result) => !result.hasFailed);
      if (hasFailed && (sinceGood >= inARow || (calls >= minCalls && failures / calls >= share))) this.open(now);
      return;
    }
    this.probes.delete(call);
    this.ends.push(hasFailed);
    const needed = Math.max(1, Math.ceil(probes * probeShare));
    const failed = this.ends.filter(Boolean).length;
    if (this.ends.length - failed >= needed) this.reset();
    else if (probes - failed < needed) {
      this.openMs = Math.min(2 * this.openMs, maxOpenMs);
      this.open(now);
    }
  }

  trip(): void {
    this.open(Infinity);
  }

  reset(): void {
    this.openMs = this.options.openMs;
    this.results = [];
    this.become('closed');
  }

  /** Saved and restored: calls under way are forgotten, and probes are made anew. */
  moved(now: number): void {
    if (this.state !== 'open') this.until = now;
    this.become(this.state === 'closed' ? 'closed' : 'open');
  }

  stateAt(now: number): CircuitState {
    return this.state === 'open' && now >= this.until ? 'halfOpen' : this.state;
  }

  retryAfterMs(now: number): number {
    if (this.state === 'closed') return 0;
    if (this.state === 'open') return Math.max(0, this.until - now);
    const ends = this.waitedFor(now).map(({ since }) => since + this.openMs - now);
    return ends.length < this.options.probes ? 0 : Math.min(...ends);
  }

  counts(now: number): { readonly calls: number; readonly failures: number } {
    this.goOn(now);
    const counted = this.results.filter(({ tenth }) => tenth > this.tenth - 10);
    return { calls: counted.length, failures: counted.filter(({ hasFailed }) => hasFailed).length };
  }

  /** The visible state. */
  look(now: number): unknown {
    const openForMs = this.state !== 'open' ? 0 : this.until === Infinity ? Infinity : this.openMs;
    return [this.state, this.stateAt(now), openForMs, this.waitedFor(now).length, this.retryAfterMs(now), this.counts(now)];
  }

  private open(at: number): void {
    this.until = at + this.openMs;
    this.become('open');
  }

  private become(state: CircuitState): void {
    this.state = state;
    this.spell++;
    this.probes.clear();
    this.ends = [];
  }

  /** Each for as long as it was open. */
  private waitedFor(now: number): Call[] {
    return [...this.probes].filter(({ since }) => since + this.openMs > now);
  }

  /** Tenth by tenth; after ten of them without anything the next one begins when it is looked for. */
  private goOn(now: number): void {
    const tenthMs = this.options.windowMs / 10;
    let went = 0;
    for (; this.since + tenthMs <= now && went < 10; went++) this.since += tenthMs;
    this.tenth += went;
    if (went === 10) this.since = now;
  }
}

const look = (circuit: Circuit, now: number): unknown => {
  const { state, openForMs } = circuit;
  const { state: found, probing, retryAfterMs, calls, failures } = circuit.snapshot(now);
  return [state, found, openForMs, probing, retryAfterMs, { calls, failures }];
};

const options: fc.Arbitrary<CircuitOptions> = fc.record({
  share: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0.5, 2)),
  minCalls: fc.integer({ min: 1, max: 8 }),
  windowMs: fc.constantFrom(100, 1000, 30_000, Infinity),
  inARow: fc.constantFrom(1, 2, 3, 5, Infinity),
  probes: fc.integer({ min: 1, max: 4 }),
  probeShare: fc.constantFrom(0, 0.3, 0.5, 0.6, 1),
  openMs: fc.constantFrom(1, 100, 1000, Infinity),
  maxOpenMs: fc.constantFrom(1000, 5000),
});

const step = fc.oneof(
  { weight: 7, arbitrary: fc.record({ do: fc.constant('enter' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(fc.nat(50), fc.nat(3000), fc.constantFrom(10, 100, 1000), fc.nat(100_000), fc.integer({ min: -2000, max: -1 })),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('succeeded' as const, 'failed' as const, 'failed' as const, 'answered' as const, 'left' as const),
      which: fc.nat(99),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('trip' as const, 'reset' as const, 'reset' as const, 'move' as const) }) },
);

describe('a circuit', () => {
  it('agrees with a model that keeps every result', () => {
    fc.assert(
      fc.property(options, fc.array(step, { maxLength: 200, size: 'max' }), (settings, steps) => {
        let circuit = new Circuit(settings);
        const byHand = new ByHand(settings);
        let calls: { readonly ticket: number; readonly call: Call }[] = [];
        let clock = 1000;
        let now = 1000;
        const seen: unknown[] = [];
        const expected: unknown[] = [];
        // From here on both know when it is: a clock that goes back is told from one that has not begun.
        expect(look(circuit, clock)).toEqual(byHand.look(now));
        for (const each of steps) {
          switch (each.do) {
            case 'wait':
              clock += each.ms;
              now += Math.max(0, each.ms);
              break;
            case 'enter': {
              const ticket = circuit.enter(clock);
              const call = byHand.enter(now);
              seen.push(ticket !== undefined);
              expected.push(call !== undefined);
              if (ticket !== undefined && call) calls.push({ ticket, call });
              break;
            }
            case 'trip':
            case 'reset':
              circuit[each.do]();
              byHand[each.do]();
              break;
            case 'move': {
              const saved = JSON.parse(JSON.stringify(circuit.save(clock))) as BreakerState;
              seen.push([saved.openMs, saved.leftMs, ...saved.counted].every(Number.isFinite));
              expected.push(true);
              circuit = new Circuit(settings);
              circuit.restore(saved, clock);
              byHand.moved(now);
              calls = [];
              break;
            }
            default: {
              const [ended] = calls.splice(each.which % Math.max(1, calls.length), 1);
              if (!ended) break;
              if (each.do === 'left') {
                circuit.left(ended.ticket);
                byHand.left(ended.call);
              } else {
                circuit[each.do](ended.ticket, clock);
                if (each.do === 'answered') byHand.answered(ended.call, now);
                else byHand.ended(ended.call, each.do === 'failed', now);
              }
            }
          }
          seen.push(look(circuit, clock));
          expected.push(byHand.look(now));
        }
        expect(seen).toEqual(expected);
      }),
      { numRuns: draws(40, 100) },
    );
  });
});
