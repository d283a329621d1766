import { BehaviorSubject, Observable, Subject, Subscriber } from 'rxjs';
import type { batchMap } from '../../operators/batch-map.js';
import type { batchMapFrom } from '../../operators/batch-map-from.js';
import type { Batcher, createBatcher } from '../../operators/create-batcher.js';
import type { createLimiter, Lease, Limiter, LimiterSnapshot } from '../../operators/create-limiter.js';
import type { GatedBatchOptions, Window } from '../../operators/support/batching/batch-options.js';
import type { Settled, Verdict } from '../../operators/support/types.js';
import { BudgetModel } from './budget-model.js';
import { Clock, WatchedScheduler } from './clock.js';
import { Dice } from './dice.js';
import type { Fault, Item, LimiterPlan, OperatorPlan, Plan, Step } from './plan.js';
import { drawItem, partsOf, wholeOf } from './plan.js';
import { Supply } from './supply.js';
import { Twins } from './twins.js';
import type { CallRecord, WorkerHost } from './worker.js';
import { unreliableWork, WorkerError } from './worker.js';

/** What is simulated: the operators themselves, or a copy with a planted bug. */
export interface Operators {
  readonly batchMap: typeof batchMap;
  readonly batchMapFrom: typeof batchMapFrom;
  readonly createBatcher: typeof createBatcher;
  readonly createLimiter: typeof createLimiter;
}

/** A moment: virtual ms, and a number that orders what happens in the same one. */
export interface Moment {
  readonly at: number;
  readonly seq: number;
}

export interface Offer extends Moment {
  readonly item: Item;
  readonly op: number;
  /** The load this one shares an item with; itself when it has its own. */
  readonly lead: number;
  readonly deadlineMs: number;
  /** What the limiter could save up at most when the item came. */
  readonly tokenCapacity: number;
  /** Where it waits, and since when: a more urgent load of the same item moves it. */
  lane: string;
  queuedSeq: number;
}

export interface Settlement extends Moment {
  readonly n: number;
  readonly op: number;
  readonly result: { readonly ok: true; readonly value: string } | { readonly ok: false; readonly reason: unknown };
  /** What the operator said of it; undefined where the form hands out bare values. */
  readonly settled: Settled<Item, string> | undefined;
}

/** How one operator's life went. */
export interface Life {
  readonly plan: OperatorPlan;
  end: (Moment & { readonly how: 'completed' | 'errored' | 'unsubscribed'; readonly error?: unknown }) | undefined;
  sourceDone: Moment | undefined;
  sourceError: (Moment & { readonly error: unknown }) | undefined;
  closed: Moment | undefined;
  drained: Moment | undefined;
  windowFailed: Moment | undefined;
}

export interface Trace {
  readonly plan: Plan;
  readonly offers: Map<number, Offer>;
  readonly calls: CallRecord[];
  readonly settlements: Settlement[];
  readonly lives: readonly Life[];
  /** Loads whose caller left. */
  readonly left: Map<number, Moment>;
  readonly strikes: Set<Fault>;
  readonly steps: (Moment & { readonly what: string })[];
  /** Where batches must end: positions in the lane of an operator, between the `queuedSeq` of its items. */
  readonly boundaries: { readonly op: number; readonly lane: string; readonly at: number }[];
  /** What was wrong while it ran. */
  readonly problems: string[];
  limiter: LimiterSnapshot | undefined;
  /** How many of the `drain()` promises have resolved; ask after a macrotask. */
  readonly drains: { asked: number; resolved: number };
}

/** Runs a plan to its end in virtual time and returns what happened. */
export function simulate(plan: Plan, operators: Operators): Trace {
  return new World(plan, operators).run();
}

/** A subscriber that can be unsubscribed while it is still being subscribed, as a consumer downstream would. */
/* eslint-disable rxjs-x/no-subclass, @typescript-eslint/no-deprecated -- nothing else can leave in the middle of a synchronous burst */
class Sink<T> extends Subscriber<T> {
  constructor(readonly on: { next(value: T): void; error(error: unknown): void; complete(): void }) {
    super();
  }

  protected override _next(value: T): void {
    this.on.next(value);
  }

  protected override _error(error: unknown): void {
    this.unsubscribe();
    this.on.error(error);
  }

  protected override _complete(): void {
    this.unsubscribe();
    this.on.complete();
  }
}

/* eslint-enable rxjs-x/no-subclass, @typescript-eslint/no-deprecated */

/** An operator in its surroundings. */
interface Actor {
  readonly op: number;
  readonly scheduler: WatchedScheduler;
  readonly life: Life;
  /** A group of the plan. */
  items(items: readonly Item[]): void;
  offer(item: Item): void;
  do(what: Exclude<Step['do'], 'items' | 'cancel' | 'limit' | 'rate' | 'outsider'>): void;
  setConcurrency(limit: number): void;
  check(): void;
}

class World implements WorkerHost {
  readonly plan: Plan;
  readonly dice: Dice;
  readonly scheduler = new Clock();
  readonly calls: CallRecord[] = [];
  readonly #operators: Operators;
  readonly #trace: Trace;
  readonly #actors: Actor[];
  readonly #gates: { running: number; limit: number }[];
  readonly #limiter: Limiter | undefined;
  readonly #limiterScheduler = new WatchedScheduler(this.scheduler);
  readonly #budget: BudgetModel | undefined;
  readonly #leavers = new Map<number, () => void>();
  /** Items accepted and not settled, per operator, without those whose caller left. */
  readonly #open: number[];
  /** Outsiders that wait for a permit. */
  #outsiders = 0;
  #seq = 0;
  #extra = 0;
  #listeners = 0;

  constructor(plan: Plan, operators: Operators) {
    this.plan = plan;
    this.dice = new Dice(plan.seed ^ 0x51ed270b);
    this.#operators = operators;
    const lives = plan.operators.map(
      (operator): Life => ({
        plan: operator,
        end: undefined,
        sourceDone: undefined,
        sourceError: undefined,
        closed: undefined,
        drained: undefined,
        windowFailed: undefined,
      }),
    );
    this.#open = lives.map(() => 0);
    this.#trace = {
      plan,
      offers: new Map(),
      calls: this.calls,
      settlements: [],
      lives,
      left: new Map(),
      strikes: new Set(),
      steps: [],
      boundaries: [],
      problems: [],
      limiter: undefined,
      drains: { asked: 0, resolved: 0 },
    };
    if (plan.limiter) {
      const { lanes, ...limits } = plan.limiter;
      this.#limiter = operators.createLimiter({ ...limits, ...(lanes && { lanes }), scheduler: this.#limiterScheduler });
      this.#budget = new BudgetModel(plan.limiter, () => this.scheduler.now());
      const shared = { running: 0, limit: plan.limiter.concurrency };
      this.#gates = lives.map(() => shared);
    } else {
      this.#gates = lives.map(({ plan: { concurrency } }) => ({ running: 0, limit: concurrency as number }));
    }
    this.#actors = lives.map((life, op) => this.#actor(life, op));
  }

  run(): Trace {
    let next = 0;
    const perform = (): void => {
      for (let step = this.plan.steps[next]; step && step.atMs <= this.scheduler.now(); step = this.plan.steps[++next]) this.#perform(step);
      const later = this.plan.steps[next];
      if (later) this.scheduler.schedule(perform, later.atMs - this.scheduler.now());
    };
    this.scheduler.schedule(perform, 0);
    this.#runOut();
    // A window may hold what is left for ever: that is what `flush` is for.
    for (const actor of this.#actors)
      if (actor.life.plan.form === 'createBatcher' && !actor.life.closed && !actor.life.drained) actor.do('flush');
    this.#runOut();
    this.#finish();
    return this.#trace;
  }

  // ---- for the worker -----------------------------------------------------------------------------------------------

  strike(fault: Fault): void {
    this.#trace.strikes.add(fault);
  }

  hasStruck(fault: Fault): boolean {
    return this.#trace.strikes.has(fault);
  }

  tick(): number {
    return this.#seq++;
  }

  gate(op: number): { running: number; readonly limit: number } {
    return this.#gates[op] as { running: number; limit: number };
  }

  started(call: CallRecord): void {
    this.#budget?.pay(1, (this.plan.operators[call.op] as OperatorPlan).weighs ? call.weight : 0);
  }

  reconciled(call: CallRecord, tokens: number): void {
    this.#budget?.pay(0, tokens - ((this.plan.operators[call.op] as OperatorPlan).weighs ? call.weight : 0));
  }

  meddle(call: CallRecord): void {
    this.strike('meddlingWork');
    const actor = this.#actors[call.op] as Actor;
    if (this.dice.chance(0.5)) for (const { n } of call.items) this.#leave(n);
    else this.#feed(actor);
  }

  // ---- steps --------------------------------------------------------------------------------------------------------

  #perform(step: Step): void {
    const actor = this.#actors[step.op] as Actor;
    this.#note(step.do === 'items' ? `${String(step.items.length)} items for operator ${String(step.op)}` : JSON.stringify(step));
    if (step.do === 'items') {
      actor.items(step.items);
    } else if (step.do === 'cancel') {
      this.#leave(step.n);
    } else if (step.do === 'limit') {
      this.strike('limitChange');
      (this.#gates[step.op] as { limit: number }).limit = step.concurrency;
      if (this.#limiter) this.#limiter.setLimits({ concurrency: step.concurrency });
      else actor.setConcurrency(step.concurrency);
    } else if (step.do === 'rate') {
      this.strike('rateChange');
      const { requestsPerMinute, tokensPerMinute } = step;
      this.#budget?.change({ requestsPerMinute, tokensPerMinute });
      this.#limiter?.setLimits({ requestsPerMinute, tokensPerMinute });
      this.#audit();
    } else if (step.do === 'outsider') {
      this.#outsider();
    } else {
      actor.do(step.do);
    }
  }

  /** Somebody else who uses the shared limiter. */
  #outsider(): void {
    const limiter = this.#limiter as Limiter;
    const gate = this.#gates[0] as { running: number; limit: number };
    const { lanes } = this.plan.limiter as LimiterPlan;
    const job = { cost: { tokens: 5 }, ...(lanes && { lane: this.dice.pick(lanes).name }) };
    const hold = (lease: Lease): void => {
      this.#outsiders--;
      this.#budget?.pay(1, 5);
      if (++gate.running > gate.limit) this.#problem('an outsider got a permit above the limit');
      this.scheduler.schedule(() => {
        gate.running--;
        lease.release();
      }, 30);
    };
    const kind = this.dice.int(0, 2);
    if (kind === 0) {
      const lease = limiter.tryAcquire(job);
      lease?.release('unused');
    } else {
      this.#outsiders++;
      const waiting = limiter.acquire(job).subscribe({
        next: hold,
        // An operator may have left the limiter too little for even this.
        error: () => this.#outsiders--,
      });
      if (kind === 2 && !waiting.closed) {
        waiting.unsubscribe();
        this.#outsiders--;
      }
    }
    this.#audit();
  }

  /** The limiter's own books against a model of them. */
  #audit(): void {
    if (this.#limiter === undefined || this.#budget === undefined) return;
    const { requests, tokens } = this.#limiter.snapshot();
    const wrong = this.#budget.compare(requests, tokens);
    if (wrong) this.#problem(wrong);
  }

  #leave(n: number): void {
    if (!this.#leavers.has(n)) return;
    this.#note(`the caller of item ${String(n)} leaves`);
    this.#leavers.get(n)?.();
  }

  #feed(actor: Actor): void {
    if (this.#extra >= 30) return;
    const { plan } = actor.life;
    actor.offer(drawItem(this.dice, this.plan.items + this.#extra++, plan, this.plan.faults, 0));
  }

  /** A result handler that uses its pipeline. */
  #react(actor: Actor): void {
    if (!this.plan.faults.has('reentrant') || !this.dice.chance(0.2)) return;
    this.strike('reentrant');
    const what = this.dice.next();
    if (what < 0.6) this.#feed(actor);
    else if (what < 0.605) actor.do(actor.life.plan.form === 'createBatcher' ? 'close' : 'unsubscribe');
    else if (what < 0.75) this.#perform({ atMs: 0, op: actor.op, do: 'limit', concurrency: this.dice.int(1, 6) });
    else if (actor.life.plan.form === 'createBatcher') {
      if (what < 0.85) actor.do('flush');
      else this.#leave(this.dice.pick([...this.#leavers.keys(), -1]));
    }
  }

  // ---- the actors ---------------------------------------------------------------------------------------------------

  #actor(life: Life, op: number): Actor {
    const { form } = life.plan;
    if (form === 'createBatcher') return this.#batcherActor(life, op);
    return this.#streamActor(life, op, form);
  }

  #options(
    op: number,
    life: Life,
    scheduler: WatchedScheduler,
    concurrency$: Observable<number> | undefined,
  ): GatedBatchOptions<Item, string> {
    const { lanes, weighs, named, retry, itemDeadlineMs, window, windowFailsAtMs } = life.plan;
    const { maxSize, maxWeight, oversize, hardMaxWeight, split, attemptTimeoutMs, maxQueued, overflow, burst, order, closes } = life.plan;
    return {
      maxSize,
      maxWeight,
      oversize,
      hardMaxWeight,
      split,
      attemptTimeoutMs,
      maxQueued,
      overflow,
      burst,
      order,
      key: (item: Item) => item.key,
      ...(oversize === 'split' && { splitItem: partsOf, joinResults: (results: readonly string[]) => results.join('+') }),
      ...(closes && { closeWhen: (item: Item) => this.#closes(item, op) }),
      window: windowFailsAtMs === Infinity ? window : this.#failingWindow(life),
      ...(this.#limiter ? { limiter: this.#limiter } : { concurrency: concurrency$ as Observable<number> }),
      ...(lanes && {
        lanes,
        lane: (item: Item) => {
          if (item.flaw === 'lane') throw this.#flaw();
          return item.flaw === 'unknownLane' ? 'nowhere' : item.lane;
        },
      }),
      ...(weighs && {
        weigh: (item: Item) => {
          if (item.flaw === 'weigh') throw this.#flaw();
          return item.flaw === 'badWeight' ? this.dice.pick([NaN, -1, Infinity]) : item.weight;
        },
      }),
      ...(named && {
        id: (item: Item) => {
          if (item.flaw === 'id') throw this.#flaw();
          return `i${String(item.n)}`;
        },
      }),
      itemDeadlineMs:
        itemDeadlineMs !== Infinity && op === 0
          ? itemDeadlineMs
          : (item: Item) => {
              if (item.flaw === 'deadline') throw this.#flaw();
              return item.flaw === 'badDeadline' ? this.dice.pick([NaN, -1]) : (item.deadlineMs ?? itemDeadlineMs);
            },
      retry: retry && { ...retry, jitter: 'full' },
      classify,
      scheduler,
      random: this.dice.next,
    };
  }

  /** A rule that fails from some time on: its operator cannot go on then. */
  #failingWindow(life: Life): Window {
    return ({ executing }) => {
      if (this.scheduler.now() < life.plan.windowFailsAtMs) return executing * 7;
      this.strike('throwingWindow');
      life.windowFailed = this.#moment();
      life.closed ??= life.windowFailed;
      if (this.dice.chance(0.5)) throw this.#flaw();
      return this.dice.pick([NaN, -1]);
    };
  }

  #closes({ n, lane, closes }: Item, op: number): Item['closes'] {
    const at = this.#trace.offers.get(n)?.queuedSeq ?? NaN;
    if (closes) this.#trace.boundaries.push({ op, lane, at: closes === 'before' ? at - 0.5 : at + 0.5 });
    return closes;
  }

  #flaw(): Error {
    return new Error('a callback of the schedule throws');
  }

  #streamActor(life: Life, op: number, form: 'batchMap' | 'batchMapFrom'): Actor {
    const scheduler = new WatchedScheduler(this.scheduler);
    const source = new Subject<Item>();
    const supply = new Supply();
    const flushes = new Subject<void>();
    const { concurrency, onSourceError, failFast } = life.plan;
    const concurrency$ = concurrency === undefined ? undefined : new BehaviorSubject(concurrency);
    const options = {
      ...this.#options(op, life, scheduler, concurrency$),
      flush: flushes,
      onSourceError,
      failure: failFast ? ('failFast' as const) : ('settle' as const),
    };
    const work = unreliableWork(this, op);
    const sink: Sink<Settled<Item, string>> = new Sink({
      next: (settled) => {
        const { input } = settled;
        if (life.end) this.#problem(`a result after the end of operator ${String(op)}`);
        this.#settlement(
          input.n,
          op,
          settled.status === 'fulfilled' ? { ok: true, value: settled.value } : { ok: false, reason: settled.reason },
          settled,
        );
        this.#react(actor);
      },
      error: (error) => {
        life.end = { ...this.#moment(), how: 'errored', error };
        this.#note(`operator ${String(op)} errors: ${String(error)}`);
      },
      complete: () => {
        life.end = { ...this.#moment(), how: 'completed' };
        this.#note(`operator ${String(op)} completes`);
      },
    });
    const offered = (item: Item): void => {
      this.#offered(item, op, item.n);
    };
    // A subject whose first value makes the consumer leave is left when its `subscribe` returns.
    let starting = false;
    const actor: Actor = {
      op,
      scheduler,
      life,
      items: (items) => {
        if (cold) start(items);
        else for (const item of items) actor.offer(item);
      },
      offer: (item) => {
        if (cold || life.end || life.sourceDone) return;
        if (form === 'batchMapFrom') {
          supply.put(item);
        } else {
          offered(item);
          source.next(item);
        }
      },
      do: (what) => {
        if (life.end) return;
        if (what === 'unsubscribe') {
          this.strike('unsubscribe');
          life.end = { ...this.#moment(), how: 'unsubscribed' };
          this.#note(`operator ${String(op)} is unsubscribed`);
          sink.unsubscribe();
          actor.check();
        } else if (what === 'flush') {
          flushes.next();
        } else if (cold || life.sourceDone) {
          return;
        } else if (what === 'complete') {
          life.sourceDone = this.#moment();
          source.complete();
          supply.end();
        } else {
          this.strike('sourceError');
          const error = new Error('the source fails');
          life.sourceDone = this.#moment();
          life.sourceError = { ...life.sourceDone, error };
          source.error(error);
          supply.end(error);
        }
      },
      setConcurrency: (limit) => {
        concurrency$?.next(limit);
      },
      check: () => {
        if (!life.end) return;
        if (scheduler.live > 0) this.#problem(`operator ${String(op)} left ${String(scheduler.live)} timer(s) after its end`);
        if (this.calls.some((call) => call.op === op && call.outcome === 'running'))
          this.#problem(`operator ${String(op)} left a call running after its end`);
        if (flushes.observed) this.#problem(`operator ${String(op)} kept its flushes after its end`);
        if (source.observed) this.#problem(`operator ${String(op)} kept its source after its end`);
        if (!starting && concurrency$?.observed) this.#problem(`operator ${String(op)} kept the concurrency after its end`);
      },
    };
    const start = (cold: readonly Item[] | undefined): void => {
      starting = true;
      if (form === 'batchMap') {
        const input = cold ? this.#coldSource(cold, life, offered) : source;
        input.pipe(this.#operators.batchMap<Item, string>(work, options)).subscribe(sink);
      } else {
        const { overflow: _overflow, ...pulled } = options;
        const pulling = (): void => {
          this.#pulling(op);
        };
        const input = cold
          ? this.#coldIterable(cold, life, offered, pulling)
          : supply.open(this.scheduler, offered, pulling, this.plan.seed % 2 === 0);
        this.#operators.batchMapFrom<Item, string>(input, work, pulled).subscribe(sink);
      }
      starting = false;
    };
    // Items that come all at once come from a source that emits while it is being subscribed.
    const cold = this.plan.steps.filter((step) => step.op === op && step.do === 'items').length === 1;
    if (!cold) start(undefined);
    return actor;
  }

  #batcherActor(life: Life, op: number): Actor {
    const scheduler = new WatchedScheduler(this.scheduler);
    const { concurrency } = life.plan;
    const concurrency$ = concurrency === undefined ? undefined : new BehaviorSubject(concurrency);
    const twins = new Twins();
    const batcher: Batcher<Item, string> = this.#operators.createBatcher<Item, string>(unreliableWork(this, op), {
      ...this.#options(op, life, scheduler, concurrency$),
      ...(life.plan.dedupes && {
        dedupe: (item: Item) => {
          if (item.flaw === 'dedupe') throw this.#flaw();
          return item.key;
        },
      }),
    });
    const actor: Actor = {
      op,
      scheduler,
      life,
      items: (items) => {
        for (const item of items) actor.offer(item);
      },
      offer: (item) => {
        this.#load(batcher, twins, actor, item);
      },
      do: (what) => {
        if (what === 'flush') {
          if (batcher.snapshot().queued > 0) this.strike('flush');
          batcher.flush();
        } else if (what === 'close') {
          if ((this.#open[op] as number) > 0) this.strike('close');
          life.closed ??= this.#moment();
          batcher.close();
        } else if (what === 'drain') {
          if ((this.#open[op] as number) > 0) this.strike('drain');
          life.drained ??= this.#moment();
          this.#trace.drains.asked++;
          void batcher.drain().then(() => this.#trace.drains.resolved++);
        }
      },
      setConcurrency: (limit) => {
        concurrency$?.next(limit);
      },
      check: () => {
        const running = this.calls.filter((call) => call.op === op && call.outcome === 'running').length;
        const { executing, queued } = batcher.snapshot();
        if (executing !== running) this.#problem(`the batcher counts ${String(executing)} calls, there are ${String(running)}`);
        if ((this.#open[op] as number) > 0) return;
        if (queued !== 0) this.#problem(`the batcher counts ${String(queued)} waiting when all is settled`);
        if (scheduler.live > 0) this.#problem(`the batcher left ${String(scheduler.live)} timer(s) when all is settled`);
      },
    };
    return actor;
  }

  #load(batcher: Batcher<Item, string>, twins: Twins, actor: Actor, item: Item): void {
    const { op, life } = actor;
    const { n, lane, deadlineMs, namesLane } = item;
    const controller = this.plan.signalled.has(n) ? this.#controller() : undefined;
    const options = {
      ...(controller && { signal: controller.signal }),
      ...(namesLane && { lane }),
      ...(deadlineMs !== undefined && { deadlineMs }),
    };
    const shares = life.plan.dedupes && !life.closed && !life.drained && item.flaw !== 'dedupe' && deadlineMs === undefined;
    const lead = shares ? twins.join(item) : n;
    if (lead !== n) this.#joined(item, lead, life.plan);
    this.#offered(item, op, lead);
    const settled = (result: Settlement['result'], given?: Settled<Item, string>): void => {
      this.#leavers.delete(n);
      twins.settled(item);
      this.#settlement(n, op, result, given);
      this.#react(actor);
    };
    const failed = (reason: unknown): void => {
      settled({ ok: false, reason });
    };
    const complete = (): void => {
      if (!this.#trace.settlements.some((settlement) => settlement.n === n)) this.#problem(`load ${String(n)} completed without a value`);
    };
    const plain = this.plan.seed % 3 !== 0;
    const sink = plain
      ? new Sink<string>({
          next: (value) => {
            settled({ ok: true, value });
          },
          error: failed,
          complete,
        })
      : new Sink<Settled<Item, string>>({
          next: (given) => {
            settled(given.status === 'fulfilled' ? { ok: true, value: given.value } : { ok: false, reason: given.reason }, given);
          },
          error: failed,
          complete,
        });
    this.#leavers.set(n, () => {
      this.#leavers.delete(n);
      this.strike(controller ? 'cancelBySignal' : 'cancelByUnsubscribe');
      this.#trace.left.set(n, this.#moment());
      twins.left(item);
      (this.#open[op] as number)--;
      if (controller) controller.abort();
      else sink.unsubscribe();
    });
    if (plain) batcher.load(item, options).subscribe(sink as Sink<string>);
    else batcher.loadSettled(item, options).subscribe(sink as Sink<Settled<Item, string>>);
  }

  /** A load shares an item that is under way, and makes it more urgent when its own lane is. */
  #joined({ lane, namesLane }: Item, lead: number, { lanes }: OperatorPlan): void {
    this.strike('dedupe');
    const offer = this.#trace.offers.get(lead) as Offer;
    const rank = (name: string): number => lanes?.findIndex((other) => other.name === name) ?? 0;
    const isSent = this.calls.some((call) => call.items.includes(offer.item));
    if (!namesLane || isSent || rank(lane) >= rank(offer.lane)) return;
    this.strike('hurry');
    offer.lane = lane;
    offer.queuedSeq = this.tick();
  }

  /** A signal whose listeners are counted. */
  #controller(): AbortController {
    const controller = new AbortController();
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    const live = new Set<unknown>();
    signal.addEventListener = (type: string, listener: EventListenerOrEventListenerObject, options?: AddEventListenerOptions | boolean) => {
      live.add(listener);
      this.#listeners++;
      add(type, listener, options);
    };
    signal.removeEventListener = (type: string, listener: EventListenerOrEventListenerObject) => {
      if (live.delete(listener)) this.#listeners--;
      remove(type, listener);
    };
    return controller;
  }

  #coldSource(items: readonly Item[], life: Life, offered: (item: Item) => void): Observable<Item> {
    return new Observable((subscriber) => {
      for (const item of items) {
        if (subscriber.closed) return;
        offered(item);
        subscriber.next(item);
      }
      life.sourceDone = this.#moment();
      subscriber.complete();
    });
  }

  *#coldIterable(items: readonly Item[], life: Life, offered: (item: Item) => void, pulling: () => void): Iterable<Item> {
    for (const item of items) {
      pulling();
      offered(item);
      yield item;
    }
    life.sourceDone = this.#moment();
  }

  /** Something is pulled: there must be room for it. */
  #pulling(op: number): void {
    const { maxQueued } = this.plan.operators[op] as OperatorPlan;
    const done = new Set([...this.calls.flatMap((call) => call.items.map(wholeOf)), ...this.#trace.settlements.map(({ n }) => n)]);
    let waiting = 0;
    for (const { item, op: owner, at, deadlineMs } of this.#trace.offers.values()) {
      if (owner === op && item.flaw === undefined && !done.has(item.n) && at + deadlineMs > this.scheduler.now()) waiting++;
    }
    if (waiting >= maxQueued) this.#problem(`an item is pulled when ${String(waiting)} of ${String(maxQueued)} are waiting`);
  }

  // ---- what is written down -----------------------------------------------------------------------------------------

  #offered(item: Item, op: number, lead: number): void {
    if (item.flaw) this.strike('throwingCallback');
    (this.#open[op] as number)++;
    const moment = this.#moment();
    this.#trace.offers.set(item.n, {
      ...moment,
      item,
      op,
      lead,
      deadlineMs: item.deadlineMs ?? (this.plan.operators[op] as OperatorPlan).itemDeadlineMs,
      tokenCapacity: this.#budget?.tokenCapacity ?? Infinity,
      lane: item.lane,
      queuedSeq: moment.seq,
    });
  }

  #settlement(n: number, op: number, result: Settlement['result'], settled: Settled<Item, string> | undefined): void {
    if (!this.#trace.left.has(n)) (this.#open[op] as number)--;
    this.#trace.settlements.push({ ...this.#moment(), n, op, result, settled });
    const code = result.ok ? undefined : (result.reason as { code?: string } | undefined)?.code;
    if (code === 'FLOW_DEADLINE') this.strike('deadline');
    if (code === 'FLOW_OVERFLOW') this.strike('overflow');
  }

  #moment(): Moment {
    return { at: this.scheduler.now(), seq: this.tick() };
  }

  #note(what: string): void {
    this.#trace.steps.push({ ...this.#moment(), what });
  }

  #problem(what: string): void {
    this.#trace.problems.push(`at ${String(this.scheduler.now())} ms: ${what}`);
  }

  #runOut(): void {
    try {
      while (this.scheduler.step()) this.#checkInstant();
    } catch (error) {
      this.#problem(`the scheduler was thrown at: ${String(error)}`);
    }
    if (this.scheduler.ranAway) this.#problem('never comes to rest');
  }

  #checkInstant(): void {
    for (const actor of this.#actors) actor.check();
    if (this.#limiter === undefined) return;
    const { running } = this.#gates[0] as { running: number };
    const places = this.#outsiders + this.#actors.filter(({ life }) => !life.end).length;
    if (this.#limiter.snapshot().queued > places)
      this.#problem(`the limiter counts ${String(this.#limiter.snapshot().queued)} waiting, ${String(places)} can be`);
    if (this.#limiter.executing !== running)
      this.#problem(`the limiter counts ${String(this.#limiter.executing)} leases, ${String(running)} are in use`);
  }

  #finish(): void {
    for (const actor of this.#actors) {
      actor.check();
      // Everything has settled by now.
      if (actor.life.plan.form === 'createBatcher') actor.do('close');
      if (actor.scheduler.live > 0) this.#problem(`operator ${String(actor.op)} left ${String(actor.scheduler.live)} timer(s) at the end`);
    }
    if (this.#limiter) {
      this.strike('sharedLimiter');
      if (this.#limiter.lanes) this.strike('limiterLanes');
      this.#audit();
      this.#trace.limiter = this.#limiter.snapshot();
      if (this.#limiterScheduler.live > 0) this.#problem(`the limiter left ${String(this.#limiterScheduler.live)} timer(s) at the end`);
    }
    if (this.#listeners !== 0) this.#problem(`${String(this.#listeners)} abort listener(s) left on callers' signals`);
  }
}

function classify(error: unknown): Verdict {
  if (error instanceof WorkerError) {
    if (error.kind === 'classifyThrow') throw new Error('classify throws');
    return error.verdict;
  }
  const { code } = error as { code?: string };
  if (code === 'FLOW_ATTEMPT_TIMEOUT') return { class: 'timeout' };
  return { class: code === 'FLOW_BATCH_SHAPE' ? 'contract' : 'itemFault' };
}
