// A model in virtual time of many processes on one store: what the store has to answer, how full windows get, and what waits. `tsx bench/store-model.ts`
// prints the table of bench/NOTES.md; `--quick` leaves the largest cases out.
import { parseArgs } from 'node:util';
import type { Observable, SchedulerLike } from 'rxjs';
import { defer, delay, map, mergeMap, NEVER, of, timer, VirtualTimeScheduler } from 'rxjs';
import { createLimiter } from '../operators/create-limiter.js';
import { lanes } from '../operators/lanes.js';
import { memoryStore } from '../operators/memory-store.js';
import type { CreditStore, SharedStore } from '../operators/options/credit-store.js';
import type { Limiter } from '../operators/options/limiter.js';
import { tokenBucket } from '../operators/rates.js';
import { sharedStore } from '../operators/shared.js';

export interface StoreCase {
  readonly processes: number;
  /** Windows and amounts of the limit. */
  readonly windowMs: number;
  readonly tokens: number;
  /** One way between a process and the store, in ms. */
  readonly latencyMs: number;
  /** Time that the store takes for one message, in ms. One message after the other. */
  readonly serviceMs: number;
  /** Part of the answers that never arrive. */
  readonly lost?: number;
  /** Every second the clock of the store is set forward or back by up to so many ms. */
  readonly clockStepMs?: number;
  readonly leastShare?: number;
  /** The limit is cut into so many, and each process uses one of them. */
  readonly shards?: number;
  /** Calls that wait in each process, all the time. */
  readonly depth?: number;
  readonly runMs?: number;
}

export interface StoreOutcome {
  /** Most tokens in any window that ends at an arrival, as a part of the limit. */
  readonly fullest: number;
  /** Tokens sent, as a part of what the limit allows. */
  readonly use: number;
  /** Waits of urgent calls for their permit, in ms. */
  readonly userP50: number;
  readonly userP99: number;
  readonly messagesPerSecond: number;
  readonly messagesPerCall: number;
  /** Part of the time that the store is busy. */
  readonly busy: number;
}

/** Numbers from 0 to 1, the same in each run. */
function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
}

class SlowStore {
  messages = 0;
  busyMs = 0;
  private freeAt = 0;
  private offsetMs = 0;
  readonly store: SharedStore;

  constructor(
    private readonly scheduler: VirtualTimeScheduler,
    private readonly given: StoreCase,
    private readonly draw: () => number,
  ) {
    // The clock of the store, which may be set.
    const clock: SchedulerLike = { now: () => scheduler.now() + this.offsetMs, schedule: scheduler.schedule.bind(scheduler) };
    const inner: CreditStore = memoryStore({ scheduler: clock });
    this.store = sharedStore({
      ask: (question) => this.answer(() => inner.ask(question) as never),
      correct: (corrections) => this.answer(() => inner.correct(corrections) as never),
      hold: (scope, ms) => this.answer(() => inner.hold(scope, ms) as never),
    });
  }

  setClock(): void {
    this.offsetMs += (this.draw() * 2 - 1) * (this.given.clockStepMs ?? 0);
  }

  private answer<A>(decide: () => A): Observable<A> {
    const { latencyMs, lost = 0, serviceMs } = this.given;
    const { scheduler } = this;
    return defer(() => {
      this.freeAt = Math.max(this.freeAt, scheduler.now() + latencyMs) + serviceMs;
      this.messages++;
      this.busyMs += serviceMs;
      const isLost = this.draw() < lost;
      // Decided when it is served, whether or not the answer arrives.
      return timer(this.freeAt - scheduler.now(), scheduler).pipe(
        map(decide),
        mergeMap((answer) => (isLost ? NEVER : of(answer).pipe(delay(latencyMs, scheduler)))),
      );
    });
  }
}

/** Least and most tokens of a call of the flood, and of an urgent call. */
const [LEAST, MOST, USER] = [100, 400, 300];
/** Each process asks for itself: what is sent before is not counted. */
const WARM_MS = 2000;

/** Runs a case: all processes but one flood the lane `background`, one asks for an urgent call about each second. */
export function runStoreCase(of: StoreCase): StoreOutcome {
  const { processes, shards = 1, tokens, windowMs, leastShare = 0.01, depth = 100, runMs = 3 * windowMs, clockStepMs } = of;
  const scheduler = new VirtualTimeScheduler();
  const draw = random(7);
  const slow = new SlowStore(scheduler, of, draw);
  const sent: { at: number; tokens: number }[] = [];
  const waits: number[] = [];
  let calls = 0;

  const limiterOf = (process: number): Limiter =>
    createLimiter({
      headroom: 1,
      scheduler,
      concurrency: Math.max(1, depth),
      queue: lanes([{ name: 'user', reserve: 0.02 }, { name: 'background' }]),
      rates: slow.store.share([tokenBucket({ unit: 'tokens', amount: tokens / shards, windowMs })], {
        scope: `part ${String(process % shards)}`,
        leastShare,
      }),
    });
  const call = (limiter: Limiter, lane: string, cost: number, ended: () => void): void => {
    const askedAt = scheduler.now();
    limiter.acquire({ lane, cost: { tokens: cost } }).subscribe((lease) => {
      const at = scheduler.now();
      calls++;
      sent.push({ at, tokens: cost });
      if (lane === 'user' && at >= WARM_MS) waits.push(at - askedAt);
      scheduler.schedule(
        () => {
          lease.release();
          ended();
        },
        50 + draw() * 100,
      );
    });
  };
  const flood = (limiter: Limiter): void => {
    call(limiter, 'background', LEAST + Math.floor(draw() * (MOST - LEAST)), () => {
      flood(limiter);
    });
  };
  for (let process = 1; process < processes; process++) {
    const limiter = limiterOf(process);
    for (let i = 0; i < depth; i++) flood(limiter);
  }
  const urgent = limiterOf(0);
  const ask = (): void => {
    call(urgent, 'user', USER, () => undefined);
    scheduler.schedule(ask, 700 + draw() * 600);
  };
  scheduler.schedule(ask, 500);
  if (clockStepMs !== undefined) {
    const step = (): void => {
      slow.setClock();
      scheduler.schedule(step, 1000);
    };
    scheduler.schedule(step, 1000);
  }
  scheduler.maxFrames = runMs;
  scheduler.flush();
  return outcome(of, { sent, waits, calls, runMs, messages: slow.messages, busyMs: slow.busyMs });
}

interface Seen {
  readonly sent: readonly { readonly at: number; readonly tokens: number }[];
  readonly waits: number[];
  readonly calls: number;
  readonly runMs: number;
  readonly messages: number;
  readonly busyMs: number;
}

function outcome({ tokens, windowMs }: StoreCase, { sent, waits, calls, runMs, messages, busyMs }: Seen): StoreOutcome {
  const sorted = waits.sort((one, other) => one - other);
  const total = sent.reduce((sum, { at, tokens: amount }) => (at >= WARM_MS ? sum + amount : sum), 0);
  return {
    fullest: fullestWindow(sent, windowMs) / tokens,
    use: (total / tokens) * (windowMs / (runMs - WARM_MS)),
    userP50: sorted[Math.floor(sorted.length / 2)] ?? Infinity,
    userP99: sorted[Math.floor(sorted.length * 0.99)] ?? Infinity,
    messagesPerSecond: (messages / runMs) * 1000,
    messagesPerCall: messages / calls,
    busy: busyMs / runMs,
  };
}

/** Most in any window that ends at an arrival. */
export function fullestWindow(sent: readonly { readonly at: number; readonly tokens: number }[], windowMs: number): number {
  let [first, sum, fullest] = [0, 0, 0];
  for (const { at, tokens } of sent) {
    sum += tokens;
    for (let oldest = sent[first]; oldest && oldest.at <= at - windowMs; oldest = sent[++first]) sum -= oldest.tokens;
    fullest = Math.max(fullest, sum);
  }
  return fullest;
}

const REDIS = { windowMs: 60_000, tokens: 2_000_000, latencyMs: 0.5, serviceMs: 0.1 };

const CASES: Readonly<Record<string, StoreCase>> = {
  '3 processes': { ...REDIS, processes: 3 },
  '16 processes': { ...REDIS, processes: 16 },
  '64 processes': { ...REDIS, processes: 64 },
  '250 processes': { ...REDIS, processes: 250, depth: 20 },
  '1,000 processes': { ...REDIS, processes: 1000, depth: 5 },
  '1,000 processes, 0.2 % at a time': { ...REDIS, processes: 1000, depth: 5, leastShare: 0.002 },
  '64 processes, 0.2 % at a time': { ...REDIS, processes: 64, leastShare: 0.002 },
  '64 processes, 3 % at a time': { ...REDIS, processes: 64, leastShare: 0.03 },
  '1,000 processes, 8 shards': { ...REDIS, processes: 1000, depth: 5, shards: 8 },
  '64 processes, store 20 ms away': { ...REDIS, processes: 64, latencyMs: 20 },
  '64 processes, 5 % of answers lost': { ...REDIS, processes: 64, lost: 0.05 },
  '16 processes, clock steps of 200 ms': { ...REDIS, processes: 16, clockStepMs: 200 },
};

if (process.argv[1]?.includes('store-model')) {
  const { values } = parseArgs({ options: { quick: { type: 'boolean' } } });
  const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;
  console.log('| case | fullest window | use | urgent p50 / p99, ms | messages / s | messages per call | store busy |');
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const [name, of] of Object.entries(CASES)) {
    if (values.quick && of.processes > 100) continue;
    const { busy, fullest, messagesPerCall, messagesPerSecond, use, userP50, userP99 } = runStoreCase(of);
    const waits = `${userP50.toFixed(1)} / ${userP99.toFixed(1)}`;
    console.log(
      `| ${[name, percent(fullest), percent(use), waits, messagesPerSecond.toFixed(0), messagesPerCall.toFixed(2), percent(busy)].join(' | ')} |`,
    );
  }
}
