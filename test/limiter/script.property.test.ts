import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lease, Limiter, RateRule } from '../../operators/index.js';
import { childOf, createLimiter, fromHeaders, heldBy, keyedLimiter, lanes, perMinute, slidingWindow } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

/** Virtual time whose timers may be late, and whose clock may be set. */
class Clock extends CountingScheduler {
  advance(ms: number): void {
    const until = this.frame + ms;
    this.maxFrames = until;
    this.flush();
    this.frame = until;
  }

  /** Time passes, and nothing that is due happens yet. */
  freeze(ms: number): void {
    this.offset += ms;
  }
}

const who = fc.nat({ max: 4 });
const small = fc.nat({ max: 9 });
const ms = fc.oneof(fc.nat({ max: 50 }), fc.nat({ max: 5000 }));
const action = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      who,
      lane: fc.nat({ max: 1 }),
      tokens: fc.nat({ max: 900 }),
      waitMs: fc.option(ms, { nil: Infinity }),
      isNested: fc.boolean(),
      by: fc.constantFrom('acquire' as const, 'signal' as const, 'run' as const),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('release' as const),
      which: small,
      how: fc.constantFrom('ok' as const, 'error' as const, 'cancelled' as const, 'unused' as const, 'linger' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), which: small }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('advance' as const), ms }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('late' as const, 'back' as const), ms }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('settle' as const), which: small, tokens: fc.constantFrom(0, 50, 2000, 1e12) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('penalize' as const),
      who,
      ms: fc.constantFrom(0, 20, 3000, 3e9),
      lane: fc.option(fc.nat({ max: 1 }), { nil: undefined }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('observe' as const),
      which: small,
      status: fc.constantFrom(200, 429),
      hint: fc.constantFrom(undefined, '0', '2'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('limits' as const),
      who,
      concurrency: fc.constantFrom(1, 2, 4),
      rate: fc.constantFrom(0, 600, 6000, Infinity),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const, 'clear' as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('close' as const, 'drain' as const), who: fc.integer({ min: 1, max: 4 }) }) },
);
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

interface Asked {
  settled: number;
  left: boolean;
  leave(): void;
}
interface Held {
  readonly limiter: number;
  readonly lease: Lease;
  isOver: boolean;
}

const inWindow = (unit: string, amount: number): RateRule => slidingWindow({ unit, amount, windowMs: 60_000 });

const LANES = ['chat', 'batch'] as const;

/** An account with a child in a bucket, one below it, and two keys in a window. */
class Script {
  readonly clock = new Clock();
  readonly limiters: readonly Limiter[];
  readonly #parents = [undefined, 0, 1, 0, 0] as const;
  readonly #concurrency = [4, 2, 2, 2, 2];
  /** RxJS swallows what a consumer throws. */
  readonly #faults: string[] = [];
  readonly asked: Asked[] = [];
  readonly held: Held[] = [];

  constructor() {
    const all = { concurrency: 2, headroom: 1, abortGraceMs: 40 };
    const learning = { ...all, learn: fromHeaders(), random: () => 1 };
    const queue = lanes([{ name: LANES[0] }, { name: LANES[1] }]);
    const account = createLimiter({ ...learning, concurrency: 4, scheduler: this.clock, queue });
    const child = childOf(account, { ...learning, rates: [perMinute('tokens', 60_000)] });
    const keyed = keyedLimiter(account, { ...all, rates: [inWindow('requests', 600)], learn: fromHeaders({ learn: false }) });
    this.limiters = [account, child, childOf(child, all), keyed.of('a'), keyed.of('b')];
  }

  do(action: Action): void {
    const limiter = this.limiters['who' in action ? action.who : 0] as Limiter;
    switch (action.do) {
      case 'ask':
        this.#ask(limiter, action.who, action);
        break;
      case 'release':
        this.#release(this.#open[action.which], action.how);
        break;
      case 'leave':
        this.asked.filter(({ settled, left }) => settled === 0 && !left)[action.which]?.leave();
        break;
      case 'advance':
        this.clock.advance(action.ms);
        break;
      case 'late':
        this.clock.freeze(action.ms);
        break;
      case 'back':
        this.clock.freeze(-action.ms);
        break;
      case 'settle':
        this.#open[action.which]?.lease.settle({ inputTokens: action.tokens });
        break;
      case 'penalize':
        limiter.penalize(action.ms);
        break;
      case 'observe':
        this.#open[action.which]?.lease.observe({
          status: action.status,
          headers: action.hint === undefined ? {} : { 'retry-after': action.hint },
        });
        break;
      case 'limits':
        this.#concurrency[action.who] = action.concurrency;
        limiter.setLimits({ concurrency: action.concurrency, rates: [this.#rate(action.who)('requests', action.rate)] });
        break;
      case 'drain':
        void limiter.drain();
        break;
      default:
        limiter[action.do]();
    }
    this.check();
  }

  /** All that holds at any time. */
  check(): void {
    expect(this.#faults).toEqual([]);
    for (const { settled, left } of this.asked) expect(settled).toBeLessThanOrEqual(left ? 0 : 1);
    this.limiters.forEach((limiter, at) => {
      expect(limiter.executing).toBe(this.#open.filter((held) => this.#isUnder(held.limiter, at)).length);
    });
  }

  /** Lifts every limit and returns all permits: then no job waits, and no permit is held. */
  end(): void {
    this.#concurrency.fill(4);
    this.limiters.forEach((limiter, who) => {
      const rate = this.#rate(who);
      limiter.resume();
      limiter.penalize(0);
      limiter.setLimits({ concurrency: 4, rates: [rate('requests', 60_000), rate('tokens', 6e6)] });
    });
    for (let round = 0; round < 400; round++) {
      for (const held of this.#open) this.#release(held, 'ok');
      this.clock.advance(2000);
    }
    this.check();
    expect(this.asked.filter(({ settled, left }) => settled === 0 && !left)).toEqual([]);
    for (const limiter of this.limiters) expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    this.limiters[0]?.close();
    this.clock.advance(1e5);
    expect(this.clock.actions).toEqual([]);
  }

  #rate(who: number): (unit: string, amount: number) => RateRule {
    return who < 3 ? perMinute : inWindow;
  }

  get #open(): Held[] {
    return this.held.filter(({ isOver }) => !isOver);
  }

  #isUnder(limiter: number | undefined, above: number): boolean {
    return limiter !== undefined && (limiter === above || this.#isUnder(this.#parents[limiter], above));
  }

  #ask(limiter: Limiter, at: number, { lane, tokens, waitMs, isNested, by }: Extract<Action, { do: 'ask' }>): void {
    const holder = isNested ? this.#open[0]?.lease : undefined;
    const controller = new AbortController();
    const wish = {
      lane: LANES[lane] as string,
      cost: { tokens },
      ...(waitMs !== Infinity && { deadlineMs: waitMs }),
      ...(holder && { holder: heldBy(holder) }),
      ...(by === 'signal' && { signal: controller.signal }),
    };
    const asked: Asked = {
      settled: 0,
      left: false,
      leave: () => {
        if (by === 'signal') {
          controller.abort();
          return;
        }
        asked.left = true;
        subscription.unsubscribe();
      },
    };
    this.asked.push(asked);
    const took = (lease: Lease): void => {
      asked.settled++;
      // Grants stay within the limit. A limit lowered meanwhile grants nothing until enough permits are back.
      for (let above: number | undefined = at; above !== undefined; above = this.#parents[above]) {
        const others = this.#open.filter((held) => this.#isUnder(held.limiter, above)).length;
        if (others >= (this.#concurrency[above] as number)) this.#faults.push(`${String(others)} others at ${String(above)}`);
      }
      const held: Held = { limiter: at, lease, isOver: false };
      this.held.push(held);
    };
    const failed = (): void => {
      asked.settled++;
    };
    const subscription =
      by === 'run'
        ? limiter
            .run(({ lease }) => {
              took(lease);
              return 'over at once';
            }, wish)
            .subscribe({
              next: () => {
                (this.held.at(-1) as Held).isOver = true;
              },
              error: failed,
            })
        : limiter.acquire(wish).subscribe({ next: took, error: failed });
  }

  #release(held: Held | undefined, how: 'ok' | 'error' | 'cancelled' | 'unused' | 'linger'): void {
    if (held === undefined) return;
    if (how !== 'linger') {
      held.isOver = true;
      held.lease.release(how);
      return;
    }
    const { lease } = held;
    // Given up, and over when it says so or when its grace has run out: here at once.
    held.isOver = true;
    lease.releaseAfter({
      then: ((done: () => void) => {
        done();
      }) as PromiseLike<unknown>['then'],
    });
  }
}

describe('any script of asking, leaving, releasing, pausing, changing limits, clocks and closing', () => {
  it('keeps the limits, gives every permit back and settles every job once', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
        const script = new Script();
        for (const each of actions) script.do(each);
        script.end();
      }),
      { numRuns: sized(80, 200) },
    );
  }, 60_000);
});
