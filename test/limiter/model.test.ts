import fc from 'fast-check';
import type { SchedulerAction, Subscription } from 'rxjs';
import { Subject, takeUntil } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Lease, Limiter, RateRule } from '../../operators/index.js';
import { createLimiter, fromHeaders, isFlowError, lanes, perMinute, RateLimitError } from '../../operators/index.js';
import type { Place } from '../../operators/options/permits.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { refusing } from '../support/refusing.js';
import type { Action, Setup } from './reference.js';
import { ReferenceLimiter } from './reference.js';

/** Virtual time that ends: a timer that renews itself in the same frame would otherwise take all memory. */
class EndingScheduler extends CountingScheduler {
  override schedule<T>(work: (this: SchedulerAction<T>, state?: T) => void, delay = 0, state?: T): Subscription {
    if (this.delays.length > 3000) throw new Error('timers without end');
    return super.schedule(work, delay, state);
  }
}

/** The limiter under test, done to exactly as the reference is, with checks of its own that need no reference. */
class Driver {
  readonly log: string[] = [];
  readonly scheduler = new EndingScheduler();
  readonly limiter: Limiter;
  readonly #setup: Setup;
  readonly #floored: boolean;
  readonly #waiting = new Map<number, { readonly lane: number; readonly key: number | undefined }>();
  readonly #leaving = new Map<number, Subject<void>>();
  readonly #signals = new Map<number, AbortController>();
  readonly #places = new Map<number, Place>();
  readonly #wants = new Map<number, number | undefined>();
  readonly #leases = new Map<number, Lease>();
  readonly #works = new Map<number, (() => void)[]>();
  readonly #released = new Set<number>();
  /** What a consumer throws is swallowed by rxjs, so faults are kept here. */
  readonly faults: string[] = [];
  #refusing = 0;
  hasJumped = false;
  ids = 0;
  drained: Promise<unknown> | undefined;

  constructor(setup: Setup) {
    const { concurrency, requestsPerMinute, tokensPerMinute, maxQueued, abortGraceMs } = setup;
    this.#setup = setup;
    this.#floored = setup.lanes.some(({ floor }) => floor > 0);
    this.limiter = createLimiter({
      concurrency,
      maxQueued,
      abortGraceMs,
      rates: [this.#rate('requests', requestsPerMinute), this.#rate('tokens', tokensPerMinute)],
      headroom: 1,
      learn: fromHeaders(),
      queue: lanes(
        setup.lanes.map((lane, i) => ({ ...lane, name: `l${String(i)}` })),
        setup.keyed ? { key: ({ key }: { readonly key?: unknown }) => key } : {},
      ),
      scheduler: this.scheduler,
    });
  }

  get granted(): number {
    return this.#leases.size;
  }

  get released(): number {
    return this.#released.size;
  }

  advance(ms: number): void {
    const until = this.scheduler.frame + ms;
    this.scheduler.maxFrames = until;
    this.scheduler.flush();
    this.scheduler.frame = until;
  }

  jumpBack(ms: number): void {
    this.hasJumped = true;
    this.limiter.snapshot();
    this.scheduler.offset -= ms;
    this.limiter.snapshot();
  }

  do(action: Action): void {
    const { limiter } = this;
    switch (action.do) {
      case 'acquire': {
        const id = this.ids++;
        const leaving = new Subject<void>();
        const controller = new AbortController();
        this.#leaving.set(id, leaving);
        if (action.signal) this.#signals.set(id, controller);
        const { lane, key, requests, tokens, deadlineMs } = action;
        this.#waiting.set(id, { lane, key: this.#setup.keyed ? key : undefined });
        const job = {
          lane: `l${String(lane)}`,
          key,
          cost: { requests, tokens },
          ...(deadlineMs !== Infinity && { deadlineMs }),
          ...(action.signal && { signal: controller.signal }),
        };
        limiter
          .acquire(job)
          .pipe(takeUntil(leaving))
          .subscribe({
            next: (lease) => {
              this.#granted(id, lane, lease, action.then, key);
            },
            error: (error: unknown) => {
              this.#refused(id, error, action.otherwise);
            },
            complete: () => {
              this.#waiting.delete(id);
            },
          });
        return;
      }
      case 'try': {
        const id = this.ids++;
        const { lane, requests, tokens } = action;
        const lease = limiter.tryAcquire({ lane: `l${String(lane)}`, cost: { requests, tokens } });
        this.log.push(lease ? `${String(id)} tried and got it` : `${String(id)} tried in vain`);
        if (!lease) return;
        this.#leases.set(id, lease);
        this.#noBarging(id, action.lane);
        return;
      }
      case 'enlist': {
        const id = this.ids++;
        this.#waiting.set(id, { lane: action.lane, key: undefined });
        this.#wants.set(id, action.wants);
        const bidder = {
          bid: () => {
            const wants = this.#wants.get(id);
            if (wants === undefined) this.#waiting.delete(id);
            return wants;
          },
          granted: (lease: Lease) => {
            this.#granted(id, action.lane, lease, action.then);
          },
          refused: (error: unknown) => {
            this.#refused(id, error, []);
          },
        };
        this.#places.set(id, limiter.enlist(bidder, `l${String(action.lane)}`));
        return;
      }
      case 'want': {
        const id = this.#idOf(action.id);
        if (!this.#places.has(id) || !this.#waiting.has(id)) return;
        this.#wants.set(id, action.wants);
        this.#places.get(id)?.poke();
        return;
      }
      case 'leave': {
        const id = this.#idOf(action.id);
        this.#leaving.get(id)?.next();
        this.#places.get(id)?.withdraw();
        if (this.#leaving.has(id) || this.#places.has(id)) this.#waiting.delete(id);
        return;
      }
      case 'abort': {
        const signal = this.#signals.get(this.#idOf(action.id));
        if (signal) this.#waiting.delete(this.#idOf(action.id));
        signal?.abort();
        return;
      }
      case 'release': {
        const id = this.#idOf(action.id);
        const lease = this.#leases.get(id);
        if (!lease) return;
        this.#released.add(id);
        lease.release(action.outcome);
        return;
      }
      case 'settle':
        this.#leases.get(this.#idOf(action.id))?.settle({ inputTokens: action.tokens });
        return;
      case 'linger': {
        const id = this.#idOf(action.id);
        const works: (() => void)[] = this.#works.get(id) ?? [];
        this.#works.set(id, works);
        this.#leases.get(id)?.releaseAfter({
          then: (done) => {
            works.push(() => {
              void done?.(undefined);
            });
            return undefined as never;
          },
        });
        return;
      }
      case 'workEnds':
        for (const end of this.#works.get(this.#idOf(action.id)) ?? []) end();
        return;
      case 'penalize':
        limiter.penalize(action.ms);
        return;
      case 'observe':
        limiter.observe({ status: 429, headers: { 'Retry-After': String(action.ms / 1000) } });
        return;
      case 'setLimits': {
        const { concurrency, requestsPerMinute, tokensPerMinute } = action;
        limiter.setLimits({
          ...(concurrency !== undefined && { concurrency }),
          rates: [
            ...(requestsPerMinute === undefined ? [] : [this.#rate('requests', requestsPerMinute)]),
            ...(tokensPerMinute === undefined ? [] : [this.#rate('tokens', tokensPerMinute)]),
          ],
        });
        return;
      }
      case 'drain':
        this.drained = limiter.drain();
        return;
      case 'close':
        limiter.close();
    }
  }

  #rate(unit: string, amount: number): RateRule {
    const { burstSeconds, borrow } = this.#setup;
    const rate = perMinute(unit, amount, amount < Infinity ? { burst: (amount / 60) * burstSeconds } : {});
    return borrow ? rate : refusing(rate);
  }

  #idOf(n: number): number {
    return this.ids === 0 ? -1 : this.ids - 1 - (n % this.ids);
  }

  #granted(id: number, lane: number, lease: Lease, then: readonly Action[], key?: number): void {
    this.log.push(`${String(id)} granted at ${String(this.scheduler.frame)}`);
    this.#leases.set(id, lease);
    this.#waiting.delete(id);
    this.#noBarging(id, lane, this.#setup.keyed ? key : undefined);
    if (this.limiter.executing > this.limiter.concurrency)
      this.faults.push(`${String(this.limiter.executing)} execute, allowed are ${String(this.limiter.concurrency)}`);
    for (const action of then) this.do(action);
  }

  #refused(id: number, error: unknown, otherwise: readonly Action[]): void {
    this.#waiting.delete(id);
    const reason = isFlowError(error, 'FLOW_DEADLINE') ? error.cause : error;
    const why = reason instanceof RateLimitError ? ` ${reason.limit} ${reason.retryAfterMs.toFixed(2)}` : '';
    this.log.push(
      `${String(id)} refused at ${String(this.scheduler.frame)}: ${isFlowError(error) ? error.code : (error as Error).name}${why}`,
    );
    this.#refusing++;
    for (const action of otherwise) this.do(action);
    this.#refusing--;
  }

  /** A grant overtakes no earlier job of the same lane and key, and without floors no job of a more urgent lane. */
  #noBarging(id: number, lane: number, key?: number): void {
    // While a callback of a refused job runs, other jobs may have been refused without knowing yet.
    if (this.#refusing > 0) return;
    for (const [other, its] of this.#waiting) {
      if ((its.lane === lane && its.key === key && other < id) || (!this.#floored && its.lane < lane))
        this.faults.push(`${String(id)} (lane ${String(lane)}) went past ${String(other)} (lane ${String(its.lane)})`);
    }
  }
}

interface Pair {
  readonly reference: ReferenceLimiter;
}

/** Throws when the two differ, or when either contradicts itself. Plain comparisons: an `expect` each would take minutes. */
function compare(reference: ReferenceLimiter, driver: Driver): void {
  const same = (what: string, actual: unknown, expected: unknown): void => {
    if (actual !== expected) throw new Error(`${what}: the limiter says ${String(actual)}, the reference ${String(expected)}`);
  };
  const near = (what: string, actual: number, expected: number): void => {
    if (!(actual === expected || Math.abs(actual - expected) < 1e-6)) same(what, actual, expected);
  };
  if (driver.faults.length > 0) throw new Error(driver.faults.join('\n'));
  for (let i = Math.max(driver.log.length, reference.log.length) - 1; i >= 0; i--)
    same(`line ${String(i)}`, driver.log[i], reference.log[i]);
  const seen = driver.limiter.snapshot();
  const full = reference.executing >= reference.limits.concurrency;
  const waiting = reference.waiting.length;
  same('executing', seen.executing, reference.executing);
  same('queued', seen.queued, waiting);
  const heldBySlot = full ? reference.payable : 0;
  same('held by slot', seen.heldBySlot, heldBySlot);
  same('held by rate', seen.heldByRate, waiting - heldBySlot);
  same('concurrency', seen.concurrency, reference.limits.concurrency);
  near('requests', seen.requests, (reference.requests?.level ?? Infinity) / 60_000);
  near('tokens', seen.tokens, (reference.tokens?.level ?? Infinity) / 60_000);
  near('paused', seen.pausedForMs, Math.max(0, reference.pausedUntil - reference.now));
  // A timer from before the clock was set back goes on running, so that no time is lost.
  const timers = driver.scheduler.actions.length;
  if (!reference.needsTimer || timers !== 2 || !driver.hasJumped) same('timers', timers, reference.needsTimer ? 1 : 0);
}

type Step = Action | { readonly do: 'advance'; readonly ms: number } | { readonly do: 'jumpBack'; readonly ms: number };

class Command implements fc.Command<Pair, Driver> {
  readonly #action: Step;
  constructor(action: Step) {
    this.#action = action;
  }

  check(): boolean {
    return true;
  }

  run({ reference }: Pair, driver: Driver): void {
    const action = this.#action;
    if (action.do === 'jumpBack') {
      // Time goes on as if nothing had happened.
      driver.jumpBack(action.ms);
    } else if (action.do === 'advance') {
      driver.advance(action.ms);
      reference.advance(action.ms);
    } else {
      driver.do(action);
      reference.do(action);
    }
    compare(reference, driver);
  }

  toString(): string {
    return JSON.stringify(this.#action, (_key, value: unknown) => (value === Infinity ? 'Infinity' : value));
  }
}

const rate = fc.constantFrom(Infinity, 600, 1200, 3000, 6000, 12_000, 30_000, 60_000);
const concurrency = fc.constantFrom(1, 1, 2, 3, Infinity);
const bound = fc.constantFrom(Infinity, Infinity, 0, 1, 2, 4);

const setups = (floors: readonly number[]): fc.Arbitrary<Setup> =>
  fc.record({
    concurrency,
    requestsPerMinute: rate,
    tokensPerMinute: rate,
    burstSeconds: fc.constantFrom(0.1, 0.5, 2),
    lanes: fc.integer({ min: 1, max: 3 }).chain((count) =>
      fc.tuple(
        ...Array.from({ length: count }, (_, i) =>
          fc.record({
            floor: i === 0 ? fc.constant(0) : fc.constantFrom(...floors),
            maxQueued: bound,
            overflow: fc.constantFrom(
              'error' as const,
              'dropOldest' as const,
              'dropNewest' as const,
              'dropLowest' as const,
              'latest' as const,
            ),
          }),
        ),
      ),
    ),
    maxQueued: bound,
    keyed: fc.boolean(),
    borrow: fc.boolean(),
    abortGraceMs: fc.constantFrom(0, 40, Infinity),
  });

const requests = fc.constantFrom(1, 1, 1, 0, 2);
const tokens = fc.constantFrom(0, 0, 1, 5, 20, 100, 3000);
const id = fc.nat({ max: 6 });
const outcome = fc.constantFrom('ok' as const, 'error' as const, 'cancelled' as const, 'unused' as const);

/** Actions in lanes 0 to 2, folded onto those there are; `depth` says how far actions may start actions. */
function actions(lanes: number, depth: number): fc.Arbitrary<Action> {
  const lane = fc.nat({ max: lanes - 1 });
  const nested =
    depth === 0
      ? fc.constant([])
      : fc.oneof(
          { weight: 2, arbitrary: fc.constant([]) },
          { weight: 1, arbitrary: fc.array(actions(lanes, depth - 1), { maxLength: 3 }) },
        );
  const deadlineMs = fc.constantFrom(Infinity, Infinity, 0, 1, 30, 50, 200);
  return fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        do: fc.constant('acquire' as const),
        lane,
        key: fc.nat({ max: 2 }),
        requests,
        tokens,
        deadlineMs,
        signal: fc.boolean(),
        then: nested,
        otherwise: nested,
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('try' as const), lane, requests, tokens }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('enlist' as const), lane, wants: tokens, then: nested }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('want' as const), id, wants: fc.option(tokens, { nil: undefined }) }) },
    { weight: 5, arbitrary: fc.record({ do: fc.constant('release' as const), id, outcome }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constantFrom('leave' as const, 'abort' as const, 'linger' as const, 'workEnds' as const), id }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('settle' as const), id, tokens }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('penalize' as const, 'observe' as const), ms: fc.nat({ max: 120 }) }) },
    {
      weight: 1,
      arbitrary: fc.record(
        { do: fc.constant('setLimits' as const), concurrency, requestsPerMinute: rate, tokensPerMinute: rate },
        { requiredKeys: ['do'] },
      ),
    },
  );
}

const commandsFor = (lanes: number): fc.Arbitrary<Iterable<fc.Command<Pair, Driver>>> => {
  const action = actions(lanes, 2).map((each) => new Command(each));
  return fc.commands(
    [
      action,
      action,
      action,
      action,
      action,
      action,
      fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 150 }) }).map((each) => new Command(each)),
      fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 5 }) }).map((each) => new Command(each)),
      fc.record({ do: fc.constant('jumpBack' as const), ms: fc.integer({ min: 1, max: 1_000_000 }) }).map((each) => new Command(each)),
      fc
        .constantFrom(...Array<'advance'>(12).fill('advance'), 'close' as const, 'drain' as const)
        .map((what) => new Command(what === 'advance' ? { do: what, ms: 1 } : { do: what })),
    ],
    { maxCommands: 30, size: 'max' },
  );
};

const runs = (floors: readonly number[]) =>
  setups(floors).chain((setup) => fc.record({ setup: fc.constant(setup), commands: commandsFor(setup.lanes.length) }));

/** Of each property; both take about half a minute on a slow machine. */
const RUNS = sized(200, 8000);

const drains: Promise<unknown>[] = [];

function runModel({ setup, commands }: { setup: Setup; commands: Iterable<fc.Command<Pair, Driver>> }): void {
  const driver = new Driver(setup);
  const reference = new ReferenceLimiter(setup);
  fc.modelRun(() => ({ model: { reference }, real: driver }), commands);
  // Whatever happened: when every caller leaves, every permit is back and no timer is left.
  for (let n = 0; n < driver.ids || n < reference.ids; n++) {
    for (const action of [
      { do: 'leave', id: n },
      { do: 'release', id: n, outcome: 'ok' },
    ] as const) {
      const before = reference.ids;
      driver.do(action);
      reference.do(action);
      // Scripts that ran may have asked for more.
      if (reference.ids > before) n = -1;
    }
    if (reference.ids > 2000) break;
  }
  compare(reference, driver);
  const { executing, queued } = driver.limiter.snapshot();
  if (executing + queued > 0) throw new Error(`${String(executing)} permits are not back, ${String(queued)} wait`);
  if (driver.scheduler.actions.length > 0) throw new Error('a timer is left');
  if (driver.granted !== driver.released) throw new Error('a permit was lost');
  if (driver.drained) drains.push(driver.drained);
}

describe('the limiter does what a naive one does', () => {
  it('under strict priority', () => {
    fc.assert(fc.property(runs([0]), runModel), { numRuns: RUNS });
  }, 60_000);

  it('with floors', () => {
    fc.assert(
      fc.property(
        runs([0.25, 0.5, 0.125]).filter(({ setup }) => setup.lanes.reduce((sum, { floor }) => sum + floor, 0) < 1),
        runModel,
      ),
      { numRuns: RUNS },
    );
  }, 60_000);

  it('and drains when everything is over', async () => {
    expect(drains.length).toBeGreaterThan(RUNS / 10);
    await Promise.all(drains);
  });
});
