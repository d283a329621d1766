// Random calls through switchLatest, hedge, speculate, policy and a breaker, with random acts in every callback.

import type { Subscriber } from 'rxjs';
import { config, EMPTY, NEVER, Observable, of, Subject, takeUntil, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { HedgeStats, hedgeWith } from '../../operators/hedge.js';
import type { FlowEvent, Limiter } from '../../operators/index.js';
import { createBreaker, createLimiter, policy, retryFailed, speculate, switchLatest } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { Dice } from '../world/dice.js';

interface Told {
  readonly signal: AbortSignal;
}

/** A subscriber that may leave at any moment. */
interface Consumer {
  readonly leave: () => void;
}

const END = 200;
const failing = (status: number): Error => Object.assign(new Error(`status ${String(status)}`), { status });

class World {
  readonly clock = new CountingScheduler();
  readonly wrong = new Set<string>();
  readonly stats = new HedgeStats();
  readonly limiter: Limiter;
  readonly breaker: ReturnType<typeof createBreaker>;
  readonly consumers: Consumer[] = [];
  readonly #items = new Subject<number>();
  readonly #predict = new Subject<number>();
  readonly #confirm = new Subject<number>();
  readonly #dice: Dice;
  readonly #careful: ReturnType<typeof policy<string>>;
  /** How often policies were called, and what they said of it. */
  readonly #told = { accepted: 0, ended: 0, started: 0, stopped: 0 };
  /** Acts left, so that a seed ends. */
  #acts = 40;
  #calls = 0;
  #sent = 0;
  /** Work that is open. */
  readonly #open = new Set<string>();
  readonly #speakers = new Set<Subscriber<string>>();
  readonly #newest = new Map<number, number>();

  constructor(seed: number) {
    const dice = new Dice(seed);
    this.#dice = dice;
    const scheduler = this.clock;
    this.limiter = createLimiter({ concurrency: dice.int(1, 3), scheduler, abortGraceMs: 20, onEvent: this.listener('limiter') });
    this.breaker = createBreaker({
      opens: { minCalls: dice.int(1, 5) },
      openMs: dice.int(1, 20),
      closes: { probes: dice.int(1, 2) },
      scheduler,
      onEvent: this.listener('breaker'),
    });
    this.#careful = policy<string>({
      scheduler,
      random: () => dice.next(),
      timeoutMs: dice.int(1, 20),
      onEvent: this.listener('policy'),
      classify: (error) => {
        this.act('classify');
        return { class: error === busy ? 'transient' : 'itemFault' };
      },
      ...(dice.chance(0.7) && { limiter: this.limiter }),
      ...(dice.chance(0.5) && { breaker: this.breaker }),
      ...(dice.chance(0.5) && { deadlineMs: dice.int(1, 40) }),
      ...(dice.chance(0.7) && { retry: retryFailed({ delayMs: dice.int(0, 5), maxAttempts: 3, maxShare: Infinity }) }),
      ...(dice.chance(0.5) && { fallback: (_error: unknown, told: Told) => this.work('fallback', told) }),
    });
  }

  listener(who: string): (event: FlowEvent) => void {
    return (event) => {
      if (who === 'policy') this.#count(event.type);
      this.act(`${who} ${event.type}`, true);
    };
  }

  /** A random act, in any callback. */
  act(_where: string, mayThrow = false): void {
    const dice = this.#dice;
    if (this.#acts <= 0 || dice.chance(0.5)) return;
    this.#acts--;
    const kind = dice.int(0, 14);
    if (kind <= 3) this.consumers[dice.int(0, this.consumers.length)]?.leave();
    else if (kind === 4) this.send();
    else if (kind === 5) this.guess(dice.int(0, 2));
    else if (kind === 6) this.ask(dice.int(0, 2));
    else if (kind === 7) this.limiter.setLimits({ concurrency: dice.int(1, 3) });
    else if (kind === 8) this.call();
    else if (kind === 9) this.breaker.trip();
    else if (kind === 10) this.breaker.reset();
    else if (kind === 11 && dice.chance(0.2)) this.limiter.close();
    else if (kind === 12) this.#speak(dice.int(0, 4));
    else if (mayThrow) throw new Error('listener');
  }

  /** Some work says something of its own. */
  #speak(what: number): void {
    const speaker = [...this.#speakers][this.#dice.int(0, 3)];
    if (what < 3) speaker?.next('spoken');
    else if (what === 3) speaker?.complete();
    else speaker?.error(busy);
  }

  send(): void {
    this.#items.next(this.#sent++);
  }

  guess(call: number): void {
    this.#predict.next(call);
  }

  ask(call: number): void {
    this.#confirm.next(call);
  }

  complete(): void {
    for (const source of [this.#items, this.#predict, this.#confirm]) source.complete();
  }

  /** The work of every operator. */
  work(who: string, { signal }: Told): Observable<string> | PromiseLike<string> | string {
    const dice = this.#dice;
    const id = `${who} ${String(this.#calls++)}`;
    const isOver = (): boolean => !this.#open.has(id);
    this.#open.add(id);
    const ended = (): void => {
      this.#open.delete(id);
    };
    let isWhole = false;
    signal.addEventListener('abort', () => {
      if (isWhole) this.wrong.add(`${who}: aborted after its answer`);
      // Promises are abandoned, and their results are ignored.
      ended();
      this.act('abort');
    });
    const acts = this.#acts;
    this.act('work');
    const kind = dice.int(0, 9);
    const ms = dice.int(0, 15);
    if (kind === 0) {
      ended();
      // `switchLatest` gets a stream of it, and a subscriber that left meanwhile got nothing.
      isWhole = who !== 'switchLatest' && acts === this.#acts;
      return id;
    }
    if (kind === 1) {
      ended();
      throw dice.chance(0.5) ? busy : missing;
    }
    if (kind === 2 || kind === 3) {
      let sent = 0;
      return {
        then: (fulfilled: (value: string) => void, rejected: (error: unknown) => void) => {
          if (++sent > 1) this.wrong.add(`${who}: a thenable was sent twice`);
          const settle = (): void => {
            if (kind === 2) fulfilled(id);
            else rejected(busy);
            if (isOver()) return;
            ended();
            // It is heard of some turns later.
            this.clock.schedule(() => {
              isWhole = !signal.aborted;
            }, 1);
          };
          if (dice.chance(0.1)) {
            ended();
            throw busy;
          }
          if (ms > 12) return;
          if (ms === 0) settle();
          else this.clock.schedule(settle, ms);
        },
      } as unknown as PromiseLike<string>;
    }
    const result = [of(id), EMPTY, NEVER, throwError(() => busy), throwError(() => missing)][dice.int(0, 4)] as Observable<string>;
    return new Observable<string>((subscriber) => {
      this.#speakers.add(subscriber);
      if (ms < 5) result.subscribe(subscriber);
      else {
        subscriber.next(id);
        subscriber.add(this.clock.schedule(() => result.subscribe(subscriber), ms));
      }
      return () => {
        this.#speakers.delete(subscriber);
        ended();
        this.act('teardown');
        if (dice.chance(0.2)) throw new Error('teardown');
      };
    });
  }

  call(): void {
    if (this.consumers.length > 12) return;
    const dice = this.#dice;
    const scheduler = this.clock;
    const ways: (() => Observable<unknown>)[] = [
      () => this.#careful((told) => this.work('policy', told)),
      () => this.#careful((told) => this.work('policy', told), { idempotent: false }),
      () => this.breaker.run((told) => this.work('breaker', told)),
      () =>
        hedgeWith(this.stats, (_index, told) => this.work('hedge', told), {
          delayMs: () => {
            this.act('delayMs');
            return dice.int(0, 5);
          },
          maxAttempts: dice.int(1, 4),
          scheduler,
          onEvent: this.listener('hedge'),
          ...(dice.chance(0.5) && { limiter: this.limiter }),
        }),
    ];
    this.listen(dice.pick(ways)());
  }

  /** The newest item of each key wins. */
  switching(): void {
    const began = new Map<number, number>();
    const result = this.#items.pipe(
      switchLatest(
        (item, told) => {
          const key = item % 2;
          if ((began.get(key) ?? -1) > item) this.wrong.add('switchLatest: an older item was called after a newer one');
          began.set(key, item);
          const answer = this.work('switchLatest', told);
          // A text would be read letter by letter.
          return typeof answer === 'string' ? of(`${answer} of ${String(item)}`) : answer;
        },
        {
          key: (item) => {
            this.#newest.set(item % 2, Math.max(item, this.#newest.get(item % 2) ?? -1));
            this.act('key');
            return item % 2;
          },
          onSourceError: 'drain',
          scheduler: this.clock,
          onEvent: this.listener('switchLatest'),
        },
      ),
    );
    this.listen(result, (how) => {
      if (how !== 'completed') return;
      for (const [key, newest] of this.#newest) {
        if (began.get(key) !== newest) this.wrong.add('switchLatest: completed without having called the newest item');
      }
    });
  }

  speculating(): void {
    this.listen(
      speculate((_call, told) => this.work('speculate', told), {
        predict: this.#predict,
        confirm: this.#confirm,
        match: (predicted, confirmed) => {
          this.act('match');
          return predicted === confirmed;
        },
        concurrency: 2,
        maxQueued: 1,
        ttlMs: 10,
        scheduler: this.clock,
        onEvent: this.listener('speculate'),
      }),
    );
  }

  listen(source: Observable<unknown>, over: (how: 'completed' | 'failed') => void = () => undefined): void {
    let ends = 0;
    let hasLeft = false;
    const end = (how: 'completed' | 'failed'): void => {
      if (hasLeft || ++ends > 1) this.wrong.add('a call ended twice, or after its consumer had left');
      over(how);
      this.act(how);
    };
    const left = new Subject<void>();
    this.consumers.push({
      leave: () => {
        if (ends === 0) hasLeft = true;
        left.next();
      },
    });
    source.pipe(takeUntil(left)).subscribe({
      next: () => {
        if (hasLeft || ends > 0) this.wrong.add('a value after the end');
        this.act('next');
      },
      error: () => {
        end('failed');
      },
      complete: () => {
        if (!hasLeft) end('completed');
      },
    });
  }

  /** What is left when every subscriber has gone. */
  leftOvers(): Record<string, unknown> {
    const { accepted, ended, started, stopped } = this.#told;
    return {
      wrong: [...this.wrong],
      open: [...this.#open],
      permits: [this.limiter.executing, this.limiter.snapshot().queued],
      hedges: [this.stats.hedging, this.stats.calling],
      probing: this.breaker.snapshot().probing,
      calls: accepted - ended,
      attempts: started - stopped,
      timers: this.clock.actions.length,
    };
  }

  #count(type: FlowEvent['type']): void {
    if (type === 'accepted') this.#told.accepted++;
    else if (type === 'settled' || type === 'cancelled') this.#told.ended++;
    else if (type === 'attemptStarted') this.#told.started++;
    else if (type === 'attemptEnded') this.#told.stopped++;
  }
}

const busy = failing(503);
const missing = failing(404);
const NOTHING = {
  wrong: [],
  open: [],
  permits: [0, 0],
  hedges: [0, 0],
  probing: 0,
  calls: 0,
  attempts: 0,
  timers: 0,
};

async function turns(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
}

async function run(seed: number): Promise<Record<string, unknown>> {
  const world = new World(seed);
  const dice = new Dice(seed, 'driver');
  world.switching();
  world.speculating();
  for (let at = 0; at < END; at++) {
    world.clock.maxFrames = at;
    world.clock.flush();
    world.clock.frame = at;
    if (at < 40 && dice.chance(0.3)) world.call();
    if (at < 40 && dice.chance(0.3)) world.send();
    if (at < 40 && dice.chance(0.2)) world.guess(dice.int(0, 2));
    if (at < 40 && dice.chance(0.2)) world.ask(dice.int(0, 2));
    if (at === 40) world.complete();
    // What never ends is left.
    if (at === 120) for (const { leave } of world.consumers) leave();
    await turns();
    // What is due now is done before the time goes on.
    while ((world.clock.actions[0]?.delay ?? Infinity) <= at) {
      world.clock.flush();
      await turns();
    }
  }
  return world.leftOvers();
}

describe('anything may be done in every callback', () => {
  it('the newest wins, every call ends once, and nothing is left behind', { timeout: 600_000 }, async () => {
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push(String(error));
    try {
      const first = Number(process.env['SLUICE_SEED'] ?? 1);
      for (let seed = first; seed < first + (process.env['SLUICE_SEED'] === undefined ? sized(80, 50_000) : 1); seed++) {
        expect(await run(seed), `seed ${String(seed)}`).toEqual(NOTHING);
      }
    } finally {
      await new Promise((resolve) => setTimeout(resolve, 10));
      config.onUnhandledError = null;
    }
  });
});
