import { asyncScheduler, Subject } from 'rxjs';
import type { BatchMapOptions } from '../../operators/batch-map.js';
import type { Limiter } from '../../operators/create-limiter.js';
import type { CallContext, Verdict } from '../../operators/support/types.js';
import { Dice } from './dice.js';
import type { Operators } from './world.js';

/** How the work takes its abort: at once, a little later, not at all, not at all and for long, or (now and then) by never ending. */
const MANNERS = ['polite', 'slow', 'deaf', 'stuck', 'never'] as const;

/** What can happen in a schedule; each must in a fifth of them. */
export const EVENTS = [
  'slotKeptUntilSettled',
  'slotFreedByGrace',
  'answeredLate',
  'rejectedLate',
  'signal',
  'unsubscribe',
  'close',
] as const;
type PromiseEvent = (typeof EVENTS)[number];

/** Items of the stream, and as many loads. */
const ITEMS = 15;

class WorkFault extends Error {
  constructor(readonly kind: 'transient' | 'fatal') {
    super(kind);
  }
}

interface PromiseCall {
  readonly no: number;
  settled: boolean;
  abortedAt: number | undefined;
}

/** All times are multiples of this, so that a look at every one of them sees everything. */
export const STEP_MS = 5;

/** One schedule of real promises under a fake clock: a `batchMap` and a batcher, usually behind one limiter. */
export class PromiseWorld {
  readonly problems: string[] = [];
  readonly events = new Set<PromiseEvent>();
  readonly #seed: number;
  readonly #operators: Operators;
  readonly #dice: Dice;
  readonly #concurrency: number;
  readonly #abortGraceMs: number;
  readonly #limiter: Limiter | undefined;
  readonly #calls: PromiseCall[] = [];
  /** Items that wait for their result: the stream's, and the batcher's loads. */
  readonly #streamed = new Set<number>();
  readonly #loaded = new Set<number>();
  #items = 0;

  constructor(seed: number, operators: Operators) {
    this.#seed = seed;
    this.#operators = operators;
    this.#dice = new Dice(seed);
    this.#concurrency = this.#dice.int(1, 4);
    this.#abortGraceMs = this.#dice.pick([0, 50, 300]);
    this.#limiter = this.#dice.chance(0.8)
      ? operators.createLimiter({ concurrency: this.#concurrency, abortGraceMs: this.#abortGraceMs })
      : undefined;
  }

  start(): void {
    const options = {
      ...(this.#limiter ? { limiter: this.#limiter } : { concurrency: this.#concurrency }),
      maxSize: this.#dice.pick([1, 3, 5]),
      attemptTimeoutMs: STEP_MS * this.#dice.int(10, 40),
      retry: { maxAttempts: 2, initialMs: 20 },
      classify: (error: unknown): Verdict => ({ class: error instanceof WorkFault ? error.kind : 'timeout' }),
      random: this.#dice.next,
      ...(this.#dice.chance(0.5) && { scheduler: asyncScheduler }),
    };
    this.#startStream(options);
    this.#startBatcher(options);
  }

  /** To be called after every step, when everything that was due has run. */
  check(): void {
    if (!this.#limiter) return;
    const held = this.#held();
    if (this.#limiter.executing !== held) this.#problem(`the limiter counts ${this.#limiter.executing} slots, ${held} are held`);
  }

  finish(): void {
    const open = [...this.#streamed, ...this.#loaded];
    if (open.length > 0) this.#problem(`items ${open.join(' ')} were never settled`);
    const queued = this.#limiter?.snapshot().queued ?? 0;
    if (queued > 0) this.#problem(`the limiter still counts ${queued} waiting`);
  }

  #startStream(options: BatchMapOptions<number>): void {
    const source = new Subject<number>();
    const results = source
      .pipe(this.#operators.batchMap<number, string>((items, context) => this.#work(items, context), options))
      .subscribe({
        next: (settled) => {
          this.#settled(this.#streamed, settled.input, settled.status === 'fulfilled' ? settled.value : undefined);
        },
        error: (error: unknown) => {
          this.#problem(`the stream failed: ${String(error)}`);
        },
      });
    const lastMs = this.#arrivals(() => {
      const n = this.#items++;
      if (!results.closed) this.#streamed.add(n);
      source.next(n);
    });
    if (this.#dice.chance(0.4)) {
      this.#at(this.#dice.int(STEP_MS, lastMs + 200), () => {
        if (this.#streamed.size > 0) this.events.add('unsubscribe');
        this.#streamed.clear();
        results.unsubscribe();
      });
    }
    this.#at(lastMs + STEP_MS, () => {
      source.complete();
    });
  }

  #startBatcher(options: BatchMapOptions<number>): void {
    const batcher = this.#operators.createBatcher<number, string>((items, context) => this.#work(items, context), options);
    const lastMs = this.#arrivals(() => {
      const n = this.#items++;
      const controller = new AbortController();
      this.#loaded.add(n);
      batcher.loadAsync(n, { signal: controller.signal }).then(
        (value) => {
          this.#settled(this.#loaded, n, value);
        },
        () => {
          this.#settled(this.#loaded, n, undefined);
        },
      );
      if (this.#dice.chance(0.3)) {
        this.#at(this.#dice.int(STEP_MS, 150), () => {
          if (this.#loaded.has(n)) this.events.add('signal');
          controller.abort();
        });
      }
    });
    if (this.#dice.chance(0.4)) {
      this.#at(this.#dice.int(STEP_MS, lastMs + 200), () => {
        if (this.#loaded.size > 0) this.events.add('close');
        batcher.close();
      });
    }
  }

  /** Lets some items come; answers when the last one does. */
  #arrivals(come: () => void): number {
    let atMs = 0;
    for (let i = 0; i < ITEMS; i++) {
      if (this.#dice.chance(0.4)) atMs += this.#dice.int(STEP_MS, 50);
      this.#at(atMs, come);
    }
    return atMs;
  }

  #at(delayMs: number, act: () => void): void {
    setTimeout(act, STEP_MS * Math.round(delayMs / STEP_MS));
  }

  #settled(open: Set<number>, n: number, value: string | undefined): void {
    if (!open.delete(n)) this.#problem(`item ${n} was settled though nobody waited for it`);
    if (value === undefined) return;
    const [item, no] = value.split(' of call ');
    if (Number(item) !== n) this.#problem(`item ${n} got the result of item ${String(item)}`);
    if (this.#calls[Number(no)]?.abortedAt !== undefined) this.#problem(`item ${n} got a result of call ${String(no)}, which was aborted`);
  }

  /** Work that keeps its promise late, ignores its signal, or rejects only after it. */
  #work(items: readonly number[], { signal }: CallContext): Promise<string[]> {
    const call: PromiseCall = { no: this.#calls.length, settled: false, abortedAt: undefined };
    this.#calls.push(call);
    if (this.#limiter && this.#held() > this.#concurrency) this.#problem(`call ${call.no} started above a limit of ${this.#concurrency}`);
    const manner = this.#dice.pick(MANNERS);
    const lateMs = this.#dice.int(STEP_MS, 100);
    return new Promise((resolve, reject) => {
      const settle = (how: PromiseEvent, act: () => void): void => {
        if (call.settled) return;
        call.settled = true;
        if (call.abortedAt !== undefined) {
          this.events.add(how);
          if (Date.now() - call.abortedAt < this.#abortGraceMs) this.events.add('slotKeptUntilSettled');
        }
        act();
      };
      const refuse = (): void => {
        settle('rejectedLate', () => {
          reject(signal.reason as Error);
        });
      };
      signal.addEventListener('abort', () => {
        call.abortedAt = Date.now();
        if (manner === 'polite') refuse();
        else if (manner === 'slow') this.#at(lateMs, refuse);
        else
          this.#at(this.#abortGraceMs, () => {
            if (!call.settled) this.events.add('slotFreedByGrace');
          });
      });
      if (manner === 'never' && this.#dice.chance(0.3)) return;
      const fault = this.#dice.pick<WorkFault | undefined>([
        undefined,
        undefined,
        undefined,
        new WorkFault('transient'),
        new WorkFault('fatal'),
      ]);
      this.#at(manner === 'stuck' ? this.#dice.int(200, 1500) : this.#dice.int(STEP_MS, 150), () => {
        if (fault)
          settle('rejectedLate', () => {
            reject(fault);
          });
        else
          settle('answeredLate', () => {
            resolve(items.map((n) => `${n} of call ${call.no}`));
          });
      });
    });
  }

  /** Slots in use: a call that was given up keeps its own until its promise settles or the grace has passed. */
  #held(): number {
    const isHeld = ({ settled, abortedAt }: PromiseCall): boolean =>
      !settled && (abortedAt === undefined || Date.now() < abortedAt + this.#abortGraceMs);
    return this.#calls.filter(isHeld).length;
  }

  #problem(what: string): void {
    this.problems.push(`seed ${this.#seed} at ${Date.now()} ms: ${what}`);
  }
}
