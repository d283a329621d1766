import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lease, Limiter, LimiterOptions } from '../../operators/index.js';
import { childOf, createLimiter, isFlowError, keyedLimiter, lanes, perMinute } from '../../operators/index.js';
import type { Place } from '../../operators/options/permits.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const LANES = ['urgent', 'other'] as const;
const SLOTS = 4;

const lane = fc.constantFrom(...LANES);
const which = fc.nat({ max: 7 });
const slots = fc.constantFrom(0, 1, 1, 1, 2, 4, 9);
const tokens = fc.constantFrom(0, 0, 1, 20, 60);
const action = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      lane,
      slots,
      tokens,
      key: fc.constantFrom(undefined, 'a', 'b'),
      deadlineMs: fc.constantFrom(undefined, undefined, 5, 500),
      by: fc.constantFrom('acquire' as const, 'signal' as const, 'promise' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('bid' as const), lane, tokens }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('poke' as const), which, tokens }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('withdraw' as const), which }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('leave' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('move' as const), which, lane }) },
  {
    weight: 8,
    arbitrary: fc.record({ do: fc.constant('release' as const), which, outcome: fc.constantFrom(undefined, undefined, 'unused' as const) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('try' as const), lane, slots, tokens }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('settle' as const), which, tokens }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('penalize' as const), ms: fc.constantFrom(0, 50, 3000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const, 'clear' as const) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 1, 10, 1000, 10_000) }) },
);
type Action = (typeof action extends fc.Arbitrary<infer A> ? A : never) | { readonly do: 'leap'; readonly ms: number };

interface Setup {
  readonly isKeyed: boolean;
  /** Of the less urgent lane. */
  readonly bound: number | undefined;
  readonly overflow: NonNullable<LimiterOptions['overflow']>;
  readonly maxQueued: number;
  readonly actions: readonly Action[];
}

/** Slots and rates of an account, and where they stand. */
type Kind = (account: LimiterOptions, bounds: LimiterOptions) => Limiter | readonly [Limiter, ...Limiter[]];
const slotsOf = ({ concurrency = Infinity }: LimiterOptions): LimiterOptions => ({ concurrency });
const ratesOf = ({ concurrency: _, ...others }: LimiterOptions): LimiterOptions => others;
const flat: Kind = (account, bounds) => createLimiter({ ...account, ...bounds });
const below: Readonly<Record<string, Kind>> = {
  'a child': (account, bounds) => childOf(createLimiter(account), bounds),
  'a child of a child': (account, bounds) => childOf(childOf(createLimiter(account)), bounds),
  'a child with the slots': (account, bounds) => childOf(createLimiter(ratesOf(account)), { ...slotsOf(account), ...bounds }),
  'one of a keyed limiter': (account, bounds) => keyedLimiter(createLimiter(account), bounds).of('key'),
};

/** Every other job is of the other child; without what is done to one child after the other, and without deadlines, which end in one moment for both. */
const twoChildren: Kind = (account) => {
  const above = createLimiter(account);
  return [childOf(above), childOf(above)];
};
const together = ({ isKeyed, actions }: Setup): Setup => ({
  isKeyed,
  bound: undefined,
  overflow: 'error',
  maxQueued: Infinity,
  actions: actions
    .filter((each) => !['clear', 'pause', 'resume', 'penalize'].includes(each.do))
    .map((each) => (each.do === 'ask' ? { ...each, deadlineMs: undefined } : each)),
});

/** Time passes in which no timer fires; without deadlines and pauses, which end when a timer fires. */
const withLateTimers = ({ actions, ...setup }: Setup): Setup => ({
  ...setup,
  actions: actions.flatMap((each) => {
    if (each.do === 'ask') return { ...each, deadlineMs: undefined };
    if (each.do === 'penalize') return [];
    return each.do === 'advance' && each.ms < 10_000 ? { do: 'leap' as const, ms: each.ms } : each;
  }),
});

/** What is granted and refused, when, in limiters without other users. */
function logOf(kind: Kind, { isKeyed, bound, overflow, maxQueued, actions }: Setup): string[] {
  const scheduler = new CountingScheduler();
  // What a lane is owed is counted at each level, by its own turns.
  const queue = lanes(
    LANES.map((name) => ({ name, floor: 0, ...(name === 'other' && bound !== undefined && { maxQueued: bound }) })),
    isKeyed ? { key: ({ key }: { readonly key?: unknown }) => key } : {},
  );
  const rates = [perMinute('tokens', 600, { burst: 100 })];
  const limiters = [
    kind({ concurrency: SLOTS, rates, headroom: 1, queue, scheduler }, { overflow, maxQueued }),
  ].flat() as readonly Limiter[];
  const limiterOf = (id: number): Limiter => limiters[id % limiters.length] as Limiter;
  const executing = (): number => limiters.reduce((sum, each) => sum + each.executing, 0);
  const log: string[] = [];
  const leases: Lease[] = [];
  const asked: { readonly id: number; leave(): void }[] = [];
  const bids: { wants: number; readonly place: Place }[] = [];
  let ids = 0;
  const tell = (id: number, what: string): void => {
    log.push(`${String(scheduler.frame)} ms: ${String(id)} ${what}`);
  };
  const granted = (id: number) => (lease: Lease) => {
    tell(id, `granted, ${String(executing())} slots in use`);
    leases.push(lease);
  };
  const refused = (id: number) => (error: unknown) => {
    tell(id, isFlowError(error) ? error.code : String(error));
  };
  const advance = (ms: number): void => {
    scheduler.maxFrames = scheduler.frame + ms;
    scheduler.flush();
    scheduler.frame = scheduler.maxFrames;
  };
  const act = (each: Action): void => {
    switch (each.do) {
      case 'ask': {
        const id = ids++;
        const end = new AbortController();
        const { deadlineMs, by } = each;
        const job = {
          id,
          lane: each.lane,
          ...(each.key !== undefined && { key: each.key }),
          cost: { slots: each.slots, tokens: each.tokens },
          ...(deadlineMs !== undefined && { deadlineMs }),
          ...(by === 'signal' && { signal: end.signal }),
        };
        const subscription = limiterOf(id)
          .acquire(job)
          .subscribe({ next: granted(id), error: refused(id) });
        asked.push({
          id,
          leave: () => {
            if (by === 'signal') end.abort('aborted');
            else subscription.unsubscribe();
          },
        });
        return;
      }
      case 'bid': {
        const id = ids++;
        const bid = { wants: each.tokens, place: undefined as unknown as Place };
        const bidder = { bid: () => bid.wants, granted: granted(id), refused: refused(id) };
        bid.place = limiterOf(id).enlist(bidder, each.lane);
        bids.push(bid);
        return;
      }
      case 'poke': {
        const bid = bids[each.which % bids.length];
        if (!bid) return;
        bid.wants = each.tokens;
        bid.place.poke();
        return;
      }
      case 'withdraw':
        bids[each.which % bids.length]?.place.withdraw();
        return;
      case 'leave':
        asked[each.which % asked.length]?.leave();
        return;
      case 'remove':
        limiterOf(each.which).remove(each.which);
        return;
      case 'move':
        log.push(`moved: ${String(limiterOf(each.which).move(each.which, each.lane))}`);
        return;
      case 'release':
        leases[each.which % leases.length]?.release(each.outcome);
        return;
      case 'try': {
        const id = ids++;
        const lease = limiterOf(id).tryAcquire({ lane: each.lane, cost: { slots: each.slots, tokens: each.tokens } });
        if (lease) granted(id)(lease);
        else tell(id, 'not now');
        return;
      }
      case 'settle':
        leases[each.which % leases.length]?.settle({ inputTokens: each.tokens });
        return;
      case 'penalize':
        for (const limiter of limiters) limiter.penalize(each.ms);
        return;
      case 'leap':
        scheduler.offset += each.ms;
        return;
      case 'advance':
        advance(each.ms);
        return;
      default:
        for (const limiter of limiters) limiter[each.do]();
    }
  };
  for (const each of actions) act(each);
  // Whatever is left comes through, or is refused.
  for (const limiter of limiters) limiter.resume();
  advance(0);
  for (let i = 0; i < leases.length || i < 40; i++) {
    leases[i]?.release();
    advance(10_000);
  }
  log.push(`in the end ${String(executing())} and ${limiters.map((limiter) => limiter.snapshot().queued).join()}`.replace(',0', ''));
  return log;
}

const setups = fc.record({
  isKeyed: fc.boolean(),
  bound: fc.constantFrom(undefined, undefined, 1, 3),
  overflow: fc.constantFrom('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'),
  maxQueued: fc.constantFrom(2, 4, Infinity),
  actions: fc.array(action, { maxLength: 40 }),
});

function expectSame(kind: Kind, prepared: (setup: Setup) => Setup, shown = (line: string): string => line): void {
  fc.assert(
    fc.property(setups.map(prepared), (setup) => {
      expect(logOf(kind, setup).map(shown)).toEqual(logOf(flat, setup).map(shown));
    }),
    { numRuns: sized(100, 5000) },
  );
}

describe('with the limits of one account, whatever is asked, left, removed, moved and given back', () => {
  it.each(Object.entries(below))('%s grants what the account alone would', (_, kind) => {
    expectSame(kind, (setup) => setup);
    // A timer that was set before the leap may still be the next one, or not.
    expectSame(kind, withLateTimers, (line) => line.replace(/^\d+ ms/, ''));
  });

  it('two children take turns as their jobs came', () => {
    // Who goes at once through one child lets those of the other in at the end of the frame, when slots may have been given back.
    expectSame(twoChildren, together, (line) => line.replace(/, \d+ slots in use/, ''));
  });
});
