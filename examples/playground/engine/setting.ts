import type { Observable, SchedulerLike, Subscription } from 'rxjs';
import { Observable as Source, tap } from 'rxjs';
import { fakeProvider, seededRandom } from '../../../marbles/index.js';
import type { FlowSink, ResponseLike } from '../../../operators/index.js';

/** What a run is made of: numbers and words alone, so that it fits into an address. */
export interface Scenario {
  readonly seed: number;
  /** How long items come, in seconds. */
  readonly seconds: number;
  /** Items per second of each lane. */
  readonly p0: number;
  readonly p1: number;
  readonly p2: number;
  /** How many times as dense items come for a part of every 4 s; 1 is evenly. */
  readonly burst: number;
  /** Of a mean item. */
  readonly tokens: number;
  /** Longest a batch is held for company, and most items in it. */
  readonly windowMs: number;
  readonly maxSize: number;
  readonly fairness: 'strict' | 'weighted' | 'roundRobin';
  /** What the provider allows. */
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
  /** Share of the items that fail every call they are in, and of the calls that fail by chance, in percent. */
  readonly poison: number;
  readonly failures: number;
  /** Mean time of a call, and how far one is from it at most, in percent. */
  readonly latencyMs: number;
  readonly spread: number;
  /** How many times as long calls of the last lane take. */
  readonly slowdown: number;
}

export interface Item {
  /** In the order of arrival. */
  readonly index: number;
  readonly lane: string;
  readonly tokens: number;
  readonly isBad: boolean;
}

export const LANES = ['user', 'normal', 'background'] as const;
/** Most tokens that the provider takes in one call. */
export const MAX_TOKENS = 8192;
/** How often items come densely, with a `burst`. */
const BURST_EVERY_MS = 4000;

/** The same items at the same times for the same scenario, whoever asks. */
export function load(scenario: Scenario, scheduler: SchedulerLike): Observable<Item> {
  const { seed, seconds, p0, p1, p2, burst, poison } = scenario;
  return new Source((subscriber) => {
    const lanes = [p0, p1, p2].map((perSecond, i) => ({
      lane: LANES[i] as string,
      gapMs: 1000 / perSecond,
      at: perSecond === 0 ? Infinity : 0,
      random: seededRandom(seed * 8 + i),
    }));
    // Gaps are drawn in the time in which items come at all, and that is cut into bursts.
    const denseMs = BURST_EVERY_MS / burst;
    const spent = (at: number): number => Math.round(Math.floor(at / denseMs) * BURST_EVERY_MS + (at % denseMs));
    const draw = (lane: (typeof lanes)[number]): void => {
      if (lane.at < Infinity) lane.at += (-Math.log(1 - lane.random()) * lane.gapMs) / burst;
    };
    lanes.forEach(draw);
    let index = 0;
    const startedAt = scheduler.now();
    let pending: Subscription | undefined;
    subscriber.add(() => pending?.unsubscribe());
    const next = (): void => {
      const lane = lanes.reduce((first, other) => (other.at < first.at ? other : first));
      const dueMs = lane.at === Infinity ? Infinity : spent(lane.at);
      const isOver = dueMs > seconds * 1000;
      const waitMs = Math.max(0, startedAt + (isOver ? seconds * 1000 : dueMs) - scheduler.now());
      pending = scheduler.schedule(() => {
        if (isOver) {
          subscriber.complete();
          return;
        }
        const { random } = lane;
        const tokens = Math.max(1, Math.round(scenario.tokens * (0.2 + 3.2 * random() * random())));
        const item = { index: index++, lane: lane.lane, tokens, isBad: random() < poison / 100 };
        draw(lane);
        subscriber.next(item);
        next();
      }, waitMs);
    };
    next();
  });
}

/** What became of the items and what the provider saw, counted beside the pipeline and not by it. */
export class Tally {
  accepted = 0;
  answered = 0;
  /** Items whose caller got an error. */
  refused = 0;
  /** Items that nobody waited for any more. */
  left = 0;
  /** Items whose caller will never hear of them. */
  lost = 0;
  calls = 0;
  /** Calls that the provider refused for its rates, 429. */
  throttled = 0;
  /** Sent, by all calls. */
  tokens = 0;
  /** Calls that were answered when nobody wanted the answer. */
  wasted = 0;
  private readonly open = new Map<number, { readonly since: number; readonly isUrgent: boolean }>();
  /** How many waited so many ms. */
  private readonly waits = new Map<number, number>();

  /** @param newestOnly - whether an item takes the place of the one before */
  constructor(
    private readonly now: () => number,
    private readonly newestOnly: boolean,
  ) {}

  accept(item: Item): void {
    this.accepted++;
    if (this.newestOnly) {
      this.left += this.open.size;
      this.open.clear();
    }
    this.open.set(item.index, { since: this.now(), isUrgent: item.lane === LANES[0] });
  }

  /** What a caller hears: an answer or an error. */
  settle(item: Item, isAnswer: boolean): void {
    const known = this.open.get(item.index);
    if (known === undefined) return;
    this.open.delete(item.index);
    if (isAnswer) this.answered++;
    else this.refused++;
    if (known.isUrgent) countAt(this.waits, this.now() - known.since);
  }

  /** Nobody will hear of these. */
  lose(items: readonly Item[]): void {
    for (const { index } of items) if (this.open.delete(index)) this.lost++;
  }

  isWanted(item: Item): boolean {
    return this.open.has(item.index);
  }

  /** `open` are the items that nothing has become of so far; the times are those of the first lane, of open items how long they have waited. */
  get counts() {
    const { accepted, answered, refused, left, lost, open, calls, throttled, tokens, wasted } = this;
    const waits = new Map(this.waits);
    for (const { since, isUrgent } of open.values()) if (isUrgent) countAt(waits, this.now() - since);
    const sorted = [...waits].toSorted(([a], [b]) => a - b);
    const all = sorted.reduce((sum, [, count]) => sum + count, 0);
    const quantile = (share: number): number => {
      let left = share * all;
      return sorted.find(([, count]) => (left -= count) <= 0)?.[0] ?? 0;
    };
    return {
      accepted,
      answered,
      refused,
      left,
      lost,
      open: open.size,
      calls,
      throttled,
      wasted,
      tokens,
      p50Ms: quantile(0.5),
      p99Ms: quantile(0.99),
    };
  }
}

function countAt(waits: Map<number, number>, ms: number): void {
  const whole = Math.round(ms);
  waits.set(whole, (waits.get(whole) ?? 0) + 1);
}

export type Counts = Tally['counts'];

/** What a call may be told by the operator that makes it. */
export interface CallInfo {
  readonly signal: AbortSignal;
  readonly observe?: (response: ResponseLike) => void;
}

export type Call = (items: readonly Item[], info?: CallInfo) => Observable<Item[]>;

/** All that a pipeline is given. */
export interface Setting {
  readonly scenario: Scenario;
  readonly items: Observable<Item>;
  /** One call to the provider. */
  readonly call: Call;
  readonly tally: Tally;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  readonly onEvent: FlowSink;
}

/** A simulated provider with a load before it, on a clock of yours. */
export function createSetting(scenario: Scenario, scheduler: SchedulerLike, onEvent: FlowSink, newestOnly = false): Setting {
  const { seed, latencyMs, spread, slowdown, requestsPerMinute, tokensPerMinute, failures } = scenario;
  const tally = new Tally(() => scheduler.now(), newestOnly);
  const draw = seededRandom(seed * 8 + 5);
  const provider = fakeProvider<Item, Item>({
    answer: (item) => item,
    tokensOf: (item) => item.tokens,
    idOf: (item) => (item.isBad ? 'bad' : 'good'),
    poisoned: ['bad'],
    namesPoison: false,
    maxTokens: MAX_TOKENS,
    requestsPerMinute,
    tokensPerMinute,
    burstSeconds: 5,
    errorRate: { overloaded: failures / 100 },
    latencyMs: (items) => {
      const share = items.length === 0 ? 0.2 : (0.8 + 0.02 * items.length) * (items[0]?.lane === LANES[2] ? slowdown : 1);
      return Math.round(latencyMs * share * (1 + (spread / 100) * (2 * draw() - 1)));
    },
    seed,
    maxCalls: 1,
    scheduler,
  });
  const call: Call = (items, info) =>
    new Source((subscriber) => {
      tally.calls++;
      for (const { tokens } of items) tally.tokens += tokens;
      return provider.work(items, info).subscribe({
        next: (answers) => {
          if (!items.some((item) => tally.isWanted(item))) tally.wasted++;
          subscriber.next(answers);
        },
        error: (error: unknown) => {
          if ((error as { status?: number }).status === 429) tally.throttled++;
          subscriber.error(error);
        },
        complete: () => {
          subscriber.complete();
        },
      });
    });
  const items = load(scenario, scheduler).pipe(
    tap((item) => {
      tally.accept(item);
    }),
  );
  return { scenario, items, call, tally, scheduler, random: seededRandom(seed * 8 + 6), onEvent };
}
