import { Observable, Subject, takeUntil } from 'rxjs';
import type { Lease, Limiter } from '../../operators/index.js';
import {
  childOf,
  createLimiter,
  heldBy,
  keyedLimiter,
  lanes,
  perMinute,
  roundRobin,
  slidingWindow,
  strictWithFloor,
  tokenBucket,
  weighted,
} from '../../operators/index.js';
import { Budget, type PageBill, PageBudget, type RateKind, type RatePlan } from './budget.js';
import { Timers } from './clock.js';
import { lane } from './lanes.js';
import { Width } from './width.js';
import { isNamed } from './work.js';
import { type Act, type Actor, isPlanned, Planned, scramble, type World } from './world.js';

type Way = 'run' | 'runAsync' | 'acquire' | 'acquireAsync' | 'tryAcquire' | 'nested' | 'enlist';

interface Job {
  readonly n: number;
  readonly way: Way;
  readonly level: Level;
  state: 'waiting' | 'running' | 'over' | 'refused' | 'left';
  /** Gives the job up. */
  leave: () => void;
  readonly pages: PageBill;
}

/** A limiter of the tree: the one at the root, a child, or that of a key. */
interface Level {
  readonly limiter: Pick<Limiter, 'tryAcquire' | 'acquire' | 'acquireAsync' | 'run' | 'runAsync'>;
  readonly extra: object;
  readonly most: () => number;
  held: number;
}

/** A limiter with jobs of its own, which other actors may share. */
export class SharedLimiter implements Actor {
  readonly name = 'createLimiter';
  /** Others hold its permits: it ends after them. */
  readonly isLast = true;
  readonly limiter: Limiter;
  readonly timers: Timers;
  readonly acts: Partial<Record<Act, () => void>>;
  readonly index: number;
  readonly #width: Width;
  readonly #budget: Budget;
  /** A rate that `setLimits` adds. */
  readonly #pages: PageBudget;
  #pageRate = Infinity;
  readonly #hasTokens: boolean;
  /** With `false` its slots and pauses hold no job back. */
  readonly #enforces: boolean;
  /** Since when jobs have waited for nothing but a rate or a pause. */
  #heldSince: number | undefined;
  readonly #jobs: Job[] = [];
  readonly #levels: Level[];
  readonly #controller = new AbortController();
  #closed = false;
  #drains = 0;
  #drained = 0;
  #leases = 0;

  constructor(readonly world: World) {
    const { choose } = world;
    this.index = world.actors.length;
    world.actors.push(this);
    this.timers = new Timers(world.clock);
    this.#width = new Width(world, choose('slots', 1, 2, 3), true);
    const kind = choose<RateKind>('rate', 'none', 'bucket', 'strict');
    const plan: RatePlan = { kind, everyMs: 10, burst: 2, perMinute: 4 };
    this.#budget = new Budget(world, this.timers, plan);
    this.#pages = new PageBudget(world, this.timers);
    const tokens = choose<'none' | 'many' | 'few'>('tokens', 'none', 'many', 'few');
    this.#hasTokens = kind !== 'strict' && tokens !== 'none';
    this.#enforces = choose('enforce', true);
    const options = {
      enforce: this.#enforces,
      concurrency: this.#width.now,
      rates: [...ratesOf(plan, 1), ...(kind !== 'strict' ? tokenRates[tokens] : [])],
      headroom: 1,
      scheduler: this.timers,
      random: () => 0.5,
      maxQueued: choose('limiter maxQueued', 100, 1, 2),
      overflow: choose('limiter overflow', 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'),
      abortGraceMs: choose('abortGraceMs', 30, 0, 5),
      ...(choose('limiter lanes', false, true) && {
        queue: lanes([lane(world, 'urgent'), lane(world, 'later')], {
          fairness: choose('limiter fairness', strictWithFloor(), weighted(), roundRobin()),
          ...(choose('limiter sharing', false, true) && { key: ({ key }: { readonly key?: unknown }) => key }),
        }),
      }),
      onEvent: ({ type }: { readonly type: string }) => {
        world.at(`event:${type}`, this.index);
      },
    } as const;
    this.limiter = createLimiter(options);
    scramble(options);
    this.#levels = this.#makeLevels();
    this.acts = {
      send: () => {
        this.#send();
      },
      leave: () => {
        this.#jobs.findLast(({ state }) => state === 'waiting' || state === 'running')?.leave();
      },
      limits: () => {
        this.change();
      },
      pause: () => {
        if (this.#enforces) this.#budget.pause(40);
        this.limiter.penalize(40);
      },
      abort: () => {
        this.#controller.abort();
      },
      flush: () => {
        this.limiter.clear();
      },
      drain: () => {
        this.drain();
      },
      close: () => {
        this.#closed = true;
        this.limiter.close();
      },
    };
  }

  /** What an actor that shares it may do to it, besides its own. */
  get shared(): Partial<Record<Act, () => void>> {
    const { limits, pause, close, drain } = this.acts;
    return { limits: limits!, pause: pause!, close: close!, drain: drain! };
  }

  #makeLevels(): Level[] {
    const root: Level = { limiter: this.limiter, extra: {}, most: () => this.most, held: 0 };
    const shape = this.world.choose<'alone' | 'child' | 'keyed'>('levels', 'alone', 'child', 'keyed');
    if (shape === 'child') return [root, { limiter: childOf(this.limiter, { concurrency: 1 }), extra: {}, most: () => 1, held: 0 }];
    if (shape === 'keyed') {
      const keyed = keyedLimiter(this.limiter, { concurrency: 1, maxKeys: this.world.choose('maxKeys', 100, 1) });
      return [root, ...['a', 'b'].map((key): Level => ({ limiter: keyed as unknown as Limiter, extra: { key }, most: () => 1, held: 0 }))];
    }
    return [root];
  }

  get most(): number {
    return this.#enforces ? this.#width.most : Infinity;
  }

  /** Notes that the limiter has given a permit to its user. */
  granted(): void {
    this.#checkWait();
    this.#budget.grant();
  }

  /** What a timer has been running for since before a clock was set back comes when it would have come. */
  #checkWait(): void {
    if (this.#heldSince === undefined || this.#isUnheard) return;
    const { dueAt } = this.#budget;
    if (dueAt === undefined) return;
    const late = this.world.clock.passed - Math.max(dueAt, this.#heldSince) - this.timers.behind(this.#heldSince);
    // Timers run for whole milliseconds.
    if (late > 1) this.world.problem(`a job waits ${Math.round(late)} ms longer than its rate or pause asks`);
  }

  /** Leases may have been granted that are not heard of yet. */
  get #isUnheard(): boolean {
    return this.#jobs.some(({ way, state }) => way === 'acquireAsync' && state === 'waiting');
  }

  get #isSure(): boolean {
    return !this.world.isInside && !this.#isUnheard;
  }

  change(): void {
    const slots = this.#width.now === 1 ? 2 : 1;
    const scale = this.world.choose(`scale ${this.world.sprung}`, 1, 0.5, 2);
    this.#width.note(slots);
    this.#budget.scale(scale, this.#isSure);
    const pages = this.world.choose(`page rate ${this.world.sprung}`, this.#pageRate, 5, 5, 12, Infinity);
    const isNew = this.#enforces && pages !== this.#pageRate;
    if (isNew && (pages === Infinity) !== (this.#pageRate === Infinity)) this.#newTerm();
    if (isNew) this.#pages.set(pages, this.#isSure);
    if (isNew) this.#pageRate = pages;
    this.limiter.setLimits({
      concurrency: slots,
      rates: [
        ...ratesOf(this.#budget.plan, scale),
        ...(isNew ? [tokenBucket({ unit: 'pages', amount: pages, windowMs: 50, burst: Math.min(pages, 12) })] : []),
      ],
    });
    // A timer ends where a slot is in the way, though the next change may come in the same instant.
    if (this.limiter.executing >= slots) this.#heldSince = undefined;
  }

  /**
   * A promise of a lease is heard of in a turn of its own. While no job waits, the lease was granted before the change that is made now; with a queue it
   * may be from after it, and that of a child does not show here.
   */
  #newTerm(): void {
    const unheard = this.#jobs.filter(({ way, state }) => way === 'acquireAsync' && state === 'waiting');
    if (unheard.some(({ level }) => level !== this.#levels[0] || this.limiter.snapshot().queued > 0)) this.#pages.doubt();
    for (const { pages } of unheard) pages.isEarlier = true;
  }

  drain(): void {
    this.#closed = true;
    this.#drains++;
    void this.limiter.drain().then(() => {
      this.#drained++;
      this.world.at('drained', this.index);
    });
  }

  #send(): void {
    const { world } = this;
    const n = this.#jobs.length;
    const way = world.choose<Way>(
      `way ${n}`,
      'acquire',
      'run',
      'run',
      'runAsync',
      'acquireAsync',
      'tryAcquire',
      'nested',
      'enlist',
      'enlist',
    );
    const level = this.#levels[Math.floor(world.choose(`level ${n}`, 0, 0.34, 0.67, 0.99) * this.#levels.length)]!;
    // A place in the queue asks for one request, and a job for no unit that was never heard of.
    const estimate = way === 'enlist' || this.#pages.isUnknown ? 0 : world.choose(`pages ${n}`, 0, 1, 3);
    const job: Job = { n, way, level, state: 'waiting', leave: () => undefined, pages: this.#pages.bill(estimate) };
    this.#jobs.push(job);
    world.say(`job ${n} ${way}`);
    const lane = this.limiter.lanes && { lane: world.choose(`job lane ${n}`, 'later', 'urgent') };
    const deadline = world.choose(`job deadline ${n}`, Infinity, Infinity, 15);
    const signalled = world.choose(`signalled ${n}`, false, true);
    const own = new AbortController();
    const signal = signalled ? AbortSignal.any([own.signal, this.#controller.signal]) : undefined;
    const key = world.choose(`job key ${n}`, undefined, 'a', 'b');
    const given = {
      ...(key !== undefined && { key }),
      ...(estimate > 0 && { cost: { pages: estimate } }),
      ...level.extra,
      ...lane,
      ...(deadline !== Infinity && { deadlineMs: deadline }),
      ...(signal && { signal }),
    };
    try {
      this.#begin(job, given, own);
    } catch (error) {
      if (isPlanned(error)) throw error;
      // `run` and `acquire` tell of a closed limiter through the Observable, the call itself may not throw.
      world.problem(`a job (${way}) throws ${String(error)}`);
      job.state = 'refused';
    }
  }

  #begin(job: Job, given: object, own: AbortController): void {
    const { limiter } = job.level;
    const refused = (error: unknown): void => {
      this.#refused(job, error);
    };
    const leave = new Subject<void>();
    job.leave = () => {
      own.abort();
      const isObservable = job.way === 'run' || job.way === 'acquire' || job.way === 'nested';
      if (!isObservable || (job.state !== 'waiting' && job.state !== 'running')) return;
      job.state = 'left';
      leave.next();
    };
    switch (job.way) {
      case 'tryAcquire': {
        const lease = limiter.tryAcquire(given);
        if (lease === undefined) job.state = 'refused';
        else this.#hold(job, lease);
        return;
      }
      case 'acquire':
      case 'nested':
        limiter
          .acquire(given)
          .pipe(takeUntil(leave))
          .subscribe({
            next: (lease) => {
              if (job.way === 'nested') this.#nest(job, lease, given);
              else this.#hold(job, lease);
            },
            error: refused,
          });
        break;
      case 'enlist':
        this.#enlist(job, given);
        break;
      case 'acquireAsync':
        limiter.acquireAsync(given).then((lease) => {
          this.#hold(job, lease);
        }, refused);
        break;
      case 'run':
        limiter
          .run((context) => this.#work(job, context), given)
          .pipe(takeUntil(leave))
          .subscribe({
            error: refused,
            complete: () => {
              if (job.state !== 'left') this.#settled(job);
            },
          });
        break;
      case 'runAsync':
        limiter
          .runAsync((context) => this.#work(job, context), given)
          .then(() => {
            this.#settled(job);
          }, refused);
    }
  }

  /** A place in the queue, whose bidder is told nothing when it has been withdrawn. */
  #enlist(job: Job, { lane }: { readonly lane?: string }): void {
    const own: Job = { ...job, level: this.#levels[0]! };
    this.#jobs[this.#jobs.indexOf(job)] = own;
    const told = (): void => {
      if (own.state === 'left') this.world.problem('a place that was withdrawn is told something');
    };
    const place = this.limiter.enlist(
      {
        granted: (lease) => {
          told();
          this.#hold(own, lease);
        },
        refused: (error) => {
          told();
          this.#refused(own, error);
        },
      },
      lane,
    );
    own.leave = () => {
      if (own.state !== 'waiting') return;
      own.state = 'left';
      place.withdraw();
    };
  }

  /** Work under `run`: it takes a permit from its start to its end. */
  #work(job: Job, { signal }: { readonly signal: AbortSignal }): Observable<string> | PromiseLike<string> {
    const { world } = this;
    if (job.state !== 'waiting') world.problem(`a job (${job.way}) is run when it is ${job.state}`);
    if (signal.aborted) world.problem(`a job (${job.way}) is run with a signal that has fired`);
    this.#take(job);
    let isOver = false;
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      this.#giveBack(job);
    };
    signal.addEventListener('abort', () => {
      over();
      world.at('abort', this.index);
    });
    try {
      world.at('work', this.index);
    } catch (error) {
      over();
      throw error;
    }
    const ms = world.choose(`hold ${job.n}`, 5, 0, 1, 20);
    const fails = world.choose(`job fails ${job.n}`, false, false, true);
    const form = world.choose<'observable' | 'promise' | 'thenable'>(`job form ${job.n}`, 'observable', 'promise', 'thenable');
    if (form !== 'observable') {
      const answer = (resolve: (value: string) => void, reject: (error: unknown) => void): void => {
        world.clock.after(ms, () => {
          over();
          if (fails) reject(new Planned('job'));
          else resolve('done');
        });
      };
      return form === 'promise' ? new Promise(answer) : lazily(world, answer);
    }
    return new Observable((subscriber) => {
      const end = (): void => {
        over();
        if (fails) subscriber.error(new Planned('job'));
        else {
          subscriber.next('done');
          subscriber.complete();
        }
      };
      subscriber.add(() => {
        over();
        world.at('teardown', this.index);
      });
      if (ms === 0) end();
      else subscriber.add(world.clock.after(ms, end));
    });
  }

  #take(job: Job): void {
    job.state = 'running';
    this.granted();
    this.#pages.grant(job.pages, job.way !== 'acquireAsync');
    this.#leases++;
    const root = this.#levels[0]!;
    for (const level of new Set([root, job.level])) {
      if (level.held >= level.most()) this.world.problem(`a lease beside ${level.held} with a limit of ${level.most()}`);
      level.held++;
    }
  }

  #giveBack(job: Job): void {
    this.#leases--;
    for (const level of new Set([this.#levels[0]!, job.level])) level.held--;
  }

  /** A lease of one's own, given back after a while. */
  #hold(job: Job, lease: Lease): void {
    const { world } = this;
    if (job.state === 'left' && job.way === 'acquireAsync') {
      // The promise was fulfilled when the signal fired; the lease is ours all the same.
      lease.release('unused');
      return;
    }
    if (job.state !== 'waiting') world.problem(`a job (${job.way}) gets a lease when it is ${job.state}`);
    this.#take(job);
    job.leave = () => undefined;
    const { elapsed } = world.clock;
    const tell = (when: string): void => {
      const used = world.choose(`pages used ${job.n} ${when}`, undefined, 0, 2, 8);
      if (used === undefined) return;
      this.#pages.correct(job.pages, used, this.#isSure);
      lease.settle({ units: { pages: used } });
    };
    const release = (): void => {
      if (job.state !== 'running') return;
      job.state = 'over';
      this.#giveBack(job);
      const outcome = world.choose<'ok' | 'cancelled' | 'unused' | 'error'>(
        `outcome ${job.n}`,
        'ok',
        'unused',
        'cancelled',
        'unused',
        'error',
      );
      tell('at its end');
      if (outcome === 'unused') {
        this.#budget.refund(this.#isSure && world.actors.length === 1, elapsed);
        this.#pages.correct(job.pages, 0, this.#isSure);
      }
      if (world.choose(`usage ${job.n}`, false, false, true)) lease.settle({ inputTokens: 1e12 });
      lease.release(outcome);
      if (world.choose(`twice ${job.n}`, false, true)) lease.release('ok');
      tell('late');
    };
    const ms = world.choose(`hold ${job.n}`, 5, 0, 1, 20, 40, 20);
    if (ms > 0) world.clock.after(ms, release);
    if (ms > 1)
      world.clock.after(ms >> 1, () => {
        tell('meanwhile');
      });
    try {
      world.at('lease', this.index);
    } finally {
      if (ms === 0) release();
    }
  }

  /** Work that holds a permit and asks for another, and says so. */
  #nest(job: Job, lease: Lease, given: object): void {
    const { world } = this;
    this.#take(job);
    job.leave = () => undefined;
    const pages = this.#pages.bill(job.pages.estimate);
    const inner: Job = { n: this.#jobs.length, way: 'acquire', level: job.level, state: 'waiting', leave: () => undefined, pages };
    this.#jobs.push(inner);
    const over = (): void => {
      if (job.state !== 'running') return;
      job.state = 'over';
      this.#giveBack(job);
      lease.release(world.choose<'ok' | 'cancelled'>(`outcome ${job.n}`, 'ok', 'cancelled'));
    };
    world.clock.after(world.choose(`nested ${job.n}`, 2, 1, 5), () => {
      job.level.limiter.acquire({ ...given, holder: heldBy(lease) }).subscribe({
        next: (second) => {
          world.clock.after(25, over);
          this.#hold(inner, second);
        },
        error: (error: unknown) => {
          over();
          this.#refused(inner, error);
        },
      });
    });
  }

  #refused(job: Job, error: unknown): void {
    if (job.state === 'left') return;
    if (job.state !== 'waiting' && job.state !== 'running') this.world.problem(`a job (${job.way}) fails when it is ${job.state}`);
    if (!isNamed(error)) this.world.problem(`a job (${job.way}) fails with ${String(error)}`);
    job.state = 'refused';
    this.world.at('refused', this.index);
  }

  #settled(job: Job): void {
    if (job.state !== 'running') this.world.problem(`a job (${job.way}) ends when it is ${job.state}`);
    job.state = 'over';
    this.world.at('settled', this.index);
  }

  check(): void {
    const { executing, queued, heldByRate, heldBySlot, pausedForMs } = this.limiter.snapshot();
    if (Math.min(executing, queued, heldByRate, heldBySlot, pausedForMs) < 0) this.world.problem('the limiter counts below zero');
    // A timer ends with the last job that waits for it: the next job, though it may come in the same instant, has none from before.
    if (queued === 0) this.#heldSince = undefined;
  }

  rest(): void {
    const { requests, rates, heldByRate, executing, concurrency } = this.limiter.snapshot();
    if (this.#pageRate !== Infinity) this.#pages.rest(rates.find(({ unit }) => unit === 'pages')?.left ?? Infinity);
    // What a rate of tokens or pages, a child's slot or another actor keeps waiting is not in these books.
    const isAlone = this.#levels.length === 1 && this.world.actors.length === 1 && !this.#hasTokens && this.#pageRate === Infinity;
    const isHeld = isAlone && heldByRate > 0 && executing < concurrency;
    this.#heldSince = isHeld ? (this.#heldSince ?? this.world.clock.passed) : undefined;
    if (this.world.actors.length === 1 && this.#budget.differs(requests)) this.world.problem('the limiter has other than what it was paid');
    if (this.limiter.executing < this.#leases)
      this.world.problem(`the limiter counts ${this.limiter.executing} leases, ${this.#leases} are out`);
  }

  get open(): number {
    return 0;
  }

  end(): void {
    this.drain();
  }

  giveUp(): void {
    if (!this.#closed) return;
    for (const { way, state } of this.#jobs) if (state === 'waiting') this.world.problem(`a job (${way}) never ends`);
  }

  finish(): void {
    const { executing, queued } = this.limiter.snapshot();
    for (const { way, state } of this.#jobs)
      if (state === 'waiting' || state === 'running') this.world.problem(`a job (${way}) is ${state} for ever`);
    if (executing !== 0) this.world.problem(`${executing} permit(s) never come back`);
    if (queued !== 0) this.world.problem(`the limiter counts ${queued} waiting at the end`);
    if (this.timers.live > 0) this.world.problem(`the limiter leaves ${this.timers.live} timer(s)`);
    if (this.#drained !== this.#drains) this.world.problem('a drain of the limiter never resolves');
  }
}

/** Sends its request when it is asked, which must be once. */
function lazily(world: World, answer: (resolve: (value: string) => void, reject: (error: unknown) => void) => void): PromiseLike<string> {
  let asked = 0;
  return {
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then: (ok: (value: string) => void, bad: (error: unknown) => void) => {
      if (++asked > 1) world.problem('a lazy thenable is asked twice');
      answer(ok, bad);
      return new Promise<never>(() => undefined);
    },
  } as PromiseLike<string>;
}

const tokenRates = {
  none: [],
  many: [perMinute('tokens', 60_000)],
  few: [tokenBucket({ unit: 'tokens', amount: 5, windowMs: 50, burst: 5 })],
};

function ratesOf({ kind, everyMs, burst, perMinute: aMinute }: RatePlan, scale: number) {
  if (kind === 'bucket') return [perMinute('requests', (60_000 / everyMs) * scale, { burst: burst * scale })];
  if (kind === 'strict') return [slidingWindow({ unit: 'requests', amount: aMinute * scale, windowMs: 60_000 })];
  return [];
}
