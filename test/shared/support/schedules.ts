import type { Subscription } from 'rxjs';
import { delay, NEVER, Observable, of, throwError, VirtualTimeScheduler } from 'rxjs';
import { seededRandom } from '../../../marbles/index.js';
import type {
  CreditCorrections,
  CreditQuestion,
  KeyedLimiter,
  Lease,
  Limiter,
  LimiterJob,
  MemoryStore,
  RateRule,
  SharedStore,
  WorkResult,
} from '../../../operators/index.js';
import {
  childOf,
  createLimiter,
  keyedLimiter,
  lanes,
  memoryStore,
  sharedStore,
  slidingWindow,
  tokenBucket,
} from '../../../operators/index.js';
import { isGranted } from '../../support/credit.js';

const LANES = ['user', 'batch', 'background'] as const;
const UNITS = ['requests', 'tokens'] as const;
/** When faults end, and when the limits are as at first, in ms. */
const CALM_AT = 4000;
/** When everything is drained. */
const DRAIN_AT = CALM_AT + 200_000;
/** When nothing may be left. */
const END_AT = DRAIN_AT + 5000;
/** More messages than any schedule needs: the limiter asks without end. */
const MOST_MESSAGES = 20_000;
/** A store frees slots that it has not heard of for a while: so long it may be out of reach. */
const MOST_SILENT_MS = 3000;
const EARLY_MS = 0.02;
const ROUNDING = 1e-4;

/** What of a unit is shared. */
interface Plan {
  readonly unit: (typeof UNITS)[number];
  readonly column: number;
  readonly amount: number;
  readonly windowMs: number;
  readonly isStrict: boolean;
}

/** What happens in a schedule, drawn once for it. */
interface Traits {
  readonly hasFaults: boolean;
  readonly changesLimits: boolean;
  readonly lifts: boolean;
  readonly settles: boolean;
  readonly closes: boolean;
  readonly reserve: number;
  readonly guardMs: number;
  readonly latencyMs: number;
}

interface Spent {
  readonly at: number;
  readonly lane: number;
  readonly net: number[];
}

/** All that was granted in one scope, whatever the limiter. */
interface Scope {
  readonly name: string;
  readonly plans: readonly Plan[];
  readonly units: readonly string[];
  readonly spent: Spent[];
  /** By column, what the store has granted and was told. */
  readonly charged: number[];
  readonly booked: Set<string>;
  /** Nothing was counted by one of the limiters for a while. */
  isUncounted: boolean;
}

/** The credit of one limiter, as its answers say. */
interface Line {
  readonly scope: Scope;
  readonly credits: { readonly endsAt: number; readonly lane: number; readonly left: number[] }[];
  /** By limit, the most it was held to lately. */
  readonly amounts: { at: number; readonly of: readonly number[] }[];
  /** Since when the store has not answered what it was told; undefined while it does. */
  silentSince: number | undefined;
}

interface Job {
  readonly id: string;
  /** What its slot counts in. */
  readonly counters: readonly Counter[];
  readonly cost: Cost;
  /** One that moved is in another lane. */
  lane: number;
  readonly lines: readonly Line[];
  readonly lease?: Lease;
  readonly spent: readonly Spent[];
}

type Cost = readonly [requests: number, tokens: number, slots: number];

/** Slots, of which so many may be in use at a time. */
interface Counter {
  readonly name: string;
  readonly most: number;
  now: number;
}

/** One process: a limiter with its way to the store, and limiters below it. */
interface Process {
  readonly limiter: Limiter;
  readonly line: Line;
  readonly slots: Counter;
  readonly below: readonly { readonly limiter: Limiter; readonly lines: readonly Line[]; readonly slots: Counter }[];
  readonly keyed: KeyedLimiter;
  readonly keys: readonly Counter[];
  isEnding: boolean;
  drained: number;
  isDown: boolean;
}

/** One random schedule of several limiters on one store, in virtual time. `faults` says what is wrong. */
export class LimiterSchedule {
  readonly faults: string[] = [];
  readonly log: string[] = [];
  private readonly scheduler = new VirtualTimeScheduler();
  private readonly inner: MemoryStore = memoryStore({ scheduler: this.scheduler });
  private readonly random: () => number;
  /** The slots that all processes share; undefined without. */
  private readonly sharedSlots: Counter | undefined;
  /** Some may have been freed: the store was out of reach for too long. */
  private areSlotsLost = false;
  private readonly traits: Traits;
  private readonly account: Scope;
  private readonly model: Scope;
  private readonly processes: Process[];
  private readonly running: Job[] = [];
  private readonly waiting = new Set<{ readonly id: string; readonly process: Process; subscription: Subscription | undefined }>();
  private accepted = 0;
  private settled = 0;
  private lastAt = 0;
  private messages = 0;
  private outageUntil = 0;

  /** @param mostSlots - most that a job takes of the slots that the processes share; 0 where they share none */
  constructor(
    private readonly seed: number,
    private readonly mostSlots = 0,
  ) {
    this.random = seededRandom(seed);
    if (mostSlots > 0) this.sharedSlots = { name: 'the shared slots', most: this.one([1, 2, 3, 6]), now: 0 };
    this.traits = {
      hasFaults: this.chance(0.5),
      changesLimits: this.chance(0.3),
      lifts: this.chance(0.3),
      settles: this.chance(0.5),
      closes: this.chance(0.3),
      reserve: this.one([0, 0, 0.1, 0.25]),
      guardMs: this.one([50, 200, 200]),
      latencyMs: this.one([0, 0, 1, 10]),
    };
    this.account = this.scope('account', 1, mostSlots > 0 ? ['slots'] : []);
    // Two limits of which both are scarce are no schedule for this: credit of one ends while the job waits for the other.
    this.model = this.scope('model', 20);
    this.processes = Array.from({ length: this.whole(1, 3) }, () => this.process());
  }

  run(): this {
    const { scheduler } = this;
    try {
      for (let i = this.whole(3, 20); i > 0; i--) {
        const at = this.chance(0.3) ? this.whole(0, 30) : this.whole(0, CALM_AT - 1);
        scheduler.schedule(() => {
          this.step();
        }, at);
      }
      scheduler.schedule(() => {
        this.calm();
      }, CALM_AT);
      scheduler.schedule(() => {
        this.drain();
      }, DRAIN_AT);
      scheduler.maxFrames = END_AT;
      scheduler.flush();
      this.end();
    } catch (error) {
      this.faults.push(`threw ${String((error as Error).stack)}`);
    }
    return this;
  }

  // ---- what is there ---------------------------------------------------------------------------------------------------

  private scope(name: string, times = 1, others: readonly string[] = []): Scope {
    const count = this.one([1, 1, 2, 3]);
    const plans: Plan[] = [];
    const units: string[] = [];
    for (let i = 0; i < count; i++) {
      const unit = this.one(UNITS);
      const windowMs = this.one([500, 1000, 3000]);
      const isStrict = this.chance(0.5);
      if (plans.some((other) => other.unit === unit && other.windowMs === windowMs && other.isStrict === isStrict)) continue;
      if (!units.includes(unit)) units.push(unit);
      const amount = times * (unit === 'requests' ? this.whole(5, 20) : this.whole(200, 1000));
      plans.push({ unit, column: units.indexOf(unit), amount, windowMs, isStrict });
    }
    units.push(...others);
    return { name, plans, units, spent: [], charged: units.map(() => 0), booked: new Set(), isUncounted: false };
  }

  private rate({ amount: of, isStrict, unit, windowMs }: Plan, part = 1): RateRule {
    const amount = of * part;
    return isStrict ? slidingWindow({ unit, amount, windowMs }) : tokenBucket({ unit, amount, windowMs });
  }

  private line(scope: Scope): Line {
    return { scope, credits: [], amounts: [{ at: 0, of: scope.plans.map(({ amount }) => amount) }], silentSince: undefined };
  }

  private process(): Process {
    const { scheduler } = this;
    const { guardMs, reserve } = this.traits;
    const line = this.line(this.account);
    const store = this.storeOf(line);
    const queue = lanes(LANES.map((name, i) => ({ name, ...(i === 0 && reserve > 0 && { reserve }) })));
    const process = { isEnding: false, drained: 0, isDown: false } as Partial<Process> as {
      -readonly [key in keyof Process]: Process[key];
    };
    const concurrency = this.one([1, 2, 5, Infinity]);
    const limiter = createLimiter({
      headroom: 1,
      scheduler,
      refunds: true,
      concurrency,
      queue,
      rates: store.share(
        this.account.plans.map((plan) => this.rate(plan)),
        { guardMs, leastShare: this.one([0, 0.01, 0.1]), concurrency: this.sharedSlots?.most ?? Infinity },
      ),
      onEvent: (event) => {
        this.heard(process, event);
      },
    });
    const modelLine = this.line(this.model);
    const modelStore = this.storeOf(modelLine);
    const withShared = childOf(limiter, {
      refunds: true,
      headroom: 1,
      rates: modelStore.share(
        this.model.plans.map((plan) => this.rate(plan)),
        { guardMs, scope: 'model' },
      ),
    });
    const counter = (name: string, most: number): Counter => ({ name: `the slots of ${name}`, most, now: 0 });
    const below = this.whole(1, 3);
    Object.assign(process, {
      limiter,
      line,
      slots: counter('a limiter', concurrency),
      below: [
        { limiter: childOf(limiter, { concurrency: below }), lines: [line], slots: counter('a limiter below', below) },
        { limiter: withShared, lines: [line, modelLine], slots: counter('a model', Infinity) },
      ],
      keyed: keyedLimiter(limiter, { concurrency: 1 }),
      keys: [0, 1, 2].map((key) => counter(`key ${String(key)}`, 1)),
    });
    return process;
  }

  private heard(process: Process, { type }: { readonly type: string }): void {
    if (type === 'drained') process.drained++;
    if (type !== 'storeDown' && type !== 'storeUp') return;
    if (process.isDown === (type === 'storeDown')) this.fault(`${type} twice`);
    process.isDown = type === 'storeDown';
  }

  // ---- the store -------------------------------------------------------------------------------------------------------

  private storeOf(line: Line): SharedStore {
    const askedAt = new Map<number, number>();
    return sharedStore({
      ask: (question) => {
        if (!askedAt.has(question.number)) askedAt.set(question.number, this.scheduler.now());
        const at = askedAt.get(question.number) as number;
        return this.answer(
          () => this.inner.ask(this.asked(question, line)),
          (answer) => {
            if (!isGranted(answer)) return;
            const endsAt = at + 0.8 * question.guardMs;
            line.credits.push({ endsAt, lane: question.lane, left: [...answer.amounts] });
          },
          line,
          question,
        );
      },
      correct: (corrections): WorkResult<void> => {
        line.silentSince ??= this.scheduler.now();
        return this.answer<WorkResult<void>>(
          () => {
            this.corrected(corrections, line.scope);
            this.inner.correct(corrections);
          },
          () => {
            this.lookAtSilence(line);
            line.silentSince = undefined;
          },
        );
      },
      hold: (scope, ms): WorkResult<void> =>
        this.answer<WorkResult<void>>(
          () => {
            this.inner.hold(scope, ms);
          },
          () => undefined,
        ),
    });
  }

  private asked(question: CreditQuestion, { scope }: Line): CreditQuestion {
    if (question.scope !== scope.name) this.fault(`asked in ${question.scope}`);
    return question;
  }

  private corrected({ corrections, number, owner }: CreditCorrections, { booked, charged }: Scope): void {
    const key = `${owner} ${String(number)}`;
    if (booked.has(key)) return;
    booked.add(key);
    for (const { amounts } of corrections)
      for (const [column, amount] of amounts.entries()) charged[column] = (charged[column] as number) + amount;
  }

  /** An answer at once, later, never, or a failure. The store has decided in some of the cases in which the answer is lost. */
  private answer<A>(decide: () => A, told: (answer: A) => void, line?: Line, question?: CreditQuestion): A {
    const { scheduler } = this;
    const { hasFaults, latencyMs } = this.traits;
    if (++this.messages > MOST_MESSAGES) throw new Error('the limiters ask without end');
    const isFaulty = hasFaults && scheduler.now() < CALM_AT;
    if (isFaulty && (scheduler.now() < this.outageUntil || this.chance(0.05)))
      return (this.chance(0.5) ? throwError(() => new Error('down')) : NEVER) as A;
    const fate = isFaulty ? this.random() : 1;
    const decideNow = (): A => {
      const answer = decide();
      if (line && question && isGranted(answer as never)) {
        const key = `ask ${question.owner} ${String(question.number)}`;
        const { booked, charged } = line.scope;
        if (!booked.has(key))
          for (const [column, amount] of (answer as { amounts: number[] }).amounts.entries())
            charged[column] = (charged[column] as number) + amount;
        booked.add(key);
      }
      return answer;
    };
    const hear = (answer: A): A => {
      told(answer);
      return answer;
    };
    if (fate < 0.1) {
      decideNow();
      return NEVER as A;
    }
    const waitMs = fate < 0.3 ? this.whole(1, 400) : latencyMs;
    if (waitMs === 0) return hear(decideNow());
    return new Observable<A>((subscriber) => {
      const later = of(decideNow())
        .pipe(delay(waitMs, scheduler))
        .subscribe((answer) => {
          subscriber.next(hear(answer));
          subscriber.complete();
        });
      // The store may not answer: the limiter has left.
      subscriber.add(later);
    }) as A;
  }

  private lookAtSilence({ silentSince = Infinity }: Line): void {
    if (this.scheduler.now() - silentSince > MOST_SILENT_MS) this.areSlotsLost = true;
  }

  // ---- steps -----------------------------------------------------------------------------------------------------------

  private step(): void {
    const process = this.one(this.processes);
    const { changesLimits, closes, hasFaults, lifts } = this.traits;
    const kind = this.random();
    const { limiter } = process;
    if (kind < 0.55) for (let i = this.whole(1, 4); i > 0; i--) this.ask(process);
    else if (kind < 0.63) this.tryIt(process);
    else if (kind < 0.7) {
      const [one] = [...this.waiting].filter((each) => each.process === process);
      if (one) this.note(`leaves ${one.id}`, () => one.subscription?.unsubscribe());
      if (one && this.waiting.delete(one)) this.settled++;
    } else if (kind < 0.78) {
      const [one] = [...this.waiting].filter((each) => each.process === process);
      const lane = this.whole(0, 2);
      if (one)
        this.note(`moves ${one.id} to ${String(lane)}`, () => {
          this.lanesOf.set(one.id, lane);
          if (![limiter, ...process.below.map((each) => each.limiter)].some((each) => each.move(one.id, LANES[lane] as string)))
            this.lanesOf.delete(one.id);
        });
    } else if (kind < 0.83) {
      const ms = this.one([0, 20, 300, 1500]);
      this.note(`penalize ${String(ms)}`, () => {
        limiter.penalize(ms);
      });
    } else if (kind < 0.9) {
      if (!changesLimits) return;
      const part = this.one([0, 0.3, 0.6, 1, 1.5, ...(lifts ? [Infinity] : [])]);
      this.setLimits(process, part);
    } else if (kind < 0.94) {
      if (hasFaults) this.note('outage', () => (this.outageUntil = this.scheduler.now() + this.whole(50, 2500)));
    } else if (kind < 0.97) {
      this.note('pause', () => {
        limiter.pause();
      });
      this.scheduler.schedule(
        () => {
          limiter.resume();
        },
        this.whole(0, 500),
      );
    } else if (closes && !process.isEnding) {
      process.isEnding = true;
      const isClose = this.chance(0.5);
      this.note(isClose ? 'close' : 'drain', () => {
        if (isClose) limiter.close();
        else void limiter.drain();
      });
    }
  }

  private setLimits({ limiter, line }: Process, part: number): void {
    const plan = this.one(this.account.plans);
    const index = this.account.plans.indexOf(plan);
    const before = (line.amounts.at(-1) as Line['amounts'][0]).of;
    if (part === Infinity) this.account.isUncounted = true;
    this.note(`limit ${String(index)} times ${String(part)}`, () => {
      line.amounts.push({ at: this.scheduler.now(), of: before.map((amount, i) => (i === index ? plan.amount * part : amount)) });
      limiter.setLimits({ concurrency: limiter.concurrency, rates: [this.rate(plan, part)] });
    });
  }

  private readonly lanesOf = new Map<string, number>();

  private job(): { readonly cost: Cost; readonly lane: number; readonly job: LimiterJob } {
    const lane = this.whole(0, 2);
    const most = Math.min(
      ...[...this.account.plans, ...this.model.plans].filter(({ unit }) => unit === 'tokens').map(({ amount }) => amount),
      1000,
    );
    const { reserve } = this.traits;
    const tokens = Math.floor(most * (1 - reserve) * this.one([0, 0.01, 0.1, 0.3, 1]) * this.random());
    const slots = this.mostSlots > 1 && this.chance(0.2) ? Math.min(this.mostSlots, this.sharedSlots?.most ?? 1) : 1;
    return { cost: [1, tokens, slots], lane, job: { lane: LANES[lane] as string, cost: { tokens, slots } } };
  }

  private ask(process: Process): void {
    const { cost, job, lane } = this.job();
    const id = `job ${String(++this.accepted)}`;
    const target = this.one([0, 0, 1, 2, 3]);
    const deadlineMs = this.one([Infinity, Infinity, this.whole(0, 800)]);
    const below = target === 1 || target === 2 ? process.below[target - 1] : undefined;
    const key = this.keyOf(target);
    const counters = this.countersOf(process, target, key);
    const one = { id, process, subscription: undefined as Subscription | undefined };
    let ends = 0;
    const isOver = (): void => {
      if (++ends > 1) this.fault(`${id} settles twice`);
      if (this.waiting.delete(one)) this.settled++;
      this.lastAt = this.scheduler.now();
    };
    this.waiting.add(one);
    this.note(`${id} asks ${String(target)}, lane ${String(lane)}, ${JSON.stringify(cost)}, deadline ${String(deadlineMs)}`, () => {
      const given = { ...job, id, ...(deadlineMs < Infinity && { deadlineMs }) };
      const stream = target === 3 ? process.keyed.acquire({ ...given, key }) : (below?.limiter ?? process.limiter).acquire(given);
      const subscription = stream.subscribe({
        next: (lease) => {
          this.log.push(`${this.time()} ${id} granted`);
          isOver();
          const lines = below?.lines ?? [process.line];
          this.granted({ id, counters, cost, lane: this.lanesOf.get(id) ?? lane, lines, lease, spent: [] });
        },
        error: (error: unknown) => {
          this.log.push(`${this.time()} ${id} ${(error as Error).name}`);
          isOver();
        },
      });
      one.subscription = subscription;
    });
  }

  private tryIt(process: Process): void {
    const { cost, job, lane } = this.job();
    const target = this.one([0, 1, 2, 3]);
    const below = target === 1 || target === 2 ? process.below[target - 1] : undefined;
    const key = this.keyOf(target);
    const counters = this.countersOf(process, target, key);
    this.note(`tries ${String(target)}, lane ${String(lane)}, ${JSON.stringify(cost)}`, () => {
      const lease = target === 3 ? process.keyed.tryAcquire({ ...job, key }) : (below?.limiter ?? process.limiter).tryAcquire(job);
      if (lease) this.granted({ id: 'one', counters, cost, lane, lines: below?.lines ?? [process.line], lease, spent: [] });
    });
  }

  private keyOf(target: number): number {
    return target === 3 ? this.whole(0, 2) : -1;
  }

  /** Whose slots a job takes. */
  private countersOf({ below, keys, slots }: Process, target: number, key: number): readonly Counter[] {
    return [this.sharedSlots, slots, below[target - 1]?.slots, keys[key]].filter((each) => each !== undefined);
  }

  /** Looks at the windows, at the slots in use, and at the credit that pays; holds the lease a while. */
  private granted(job: Job & { readonly lease: Lease }): void {
    const { cost, counters, lane, lines } = job;
    const now = this.scheduler.now();
    // One that takes more slots than a limiter has takes all of them.
    const slots = Math.min(cost[2], ...counters.map(({ most }) => most));
    this.take(counters, slots);
    const spent = lines.map((line): Spent => {
      const { scope } = line;
      const net = scope.units.map((unit) => (unit === 'tokens' ? cost[1] : unit === 'slots' ? slots : cost[0]));
      const one = { at: now, lane, net };
      scope.spent.push(one);
      this.lookAtWindows(line, lane, now);
      if (!this.traits.changesLimits) this.lookAtCredit(line, lane, now, net);
      return one;
    });
    const tokens = cost[1];
    const ends = this.traits.settles ? this.random() : 1;
    this.scheduler.schedule(
      () => {
        const part = ends < 0.3 ? this.random() : 1;
        if (ends < 0.3) {
          const used = Math.floor(tokens * part);
          this.note(`${job.id} settles ${String(used)} of ${String(tokens)}`, () => {
            this.change(lines, spent, 'tokens', used);
            job.lease.settle({ units: { tokens: used } });
          });
        }
        const isUnused = ends >= 0.3 && ends < 0.45;
        if (isUnused) for (const unit of UNITS) this.change(lines, spent, unit, 0);
        this.change(lines, spent, 'slots', 0);
        for (const counter of counters) counter.now -= slots;
        this.note(`${job.id} ${isUnused ? 'gives back' : 'releases'}`, () => {
          job.lease.release(isUnused ? 'unused' : 'ok');
        });
      },
      this.one([0, 1, 30, 300, 1200, ...(this.sharedSlots ? [9000] : [])]) * this.random(),
    );
  }

  private take(counters: readonly Counter[], slots: number): void {
    for (const { line } of this.processes) this.lookAtSilence(line);
    for (const counter of counters) {
      const { most, name } = counter;
      const now = (counter.now += slots);
      if (now > most && !(counter === this.sharedSlots && this.areSlotsLost))
        this.fault(`${String(now)} of ${String(most)} of ${name} are in use`);
    }
  }

  private change(lines: readonly Line[], spent: readonly Spent[], unit: string, amount: number): void {
    for (const [i, { scope }] of lines.entries()) {
      const column = scope.units.indexOf(unit);
      if (column >= 0) (spent[i] as Spent).net[column] = amount;
    }
  }

  // ---- verdicts --------------------------------------------------------------------------------------------------------

  /** No window has more than the limiter is held to. */
  private lookAtWindows({ amounts, scope }: Line, lane: number, now: number): void {
    if (scope.isUncounted) return;
    const { reserve } = this.traits;
    for (const [i, { column, windowMs }] of scope.plans.entries()) {
      // What was asked for under a higher amount may still be spent.
      const most = Math.max(
        ...[amounts, ...(scope === this.account ? this.processes.map(({ line }) => line.amounts) : [])].flatMap((of) =>
          of.filter((_, j) => (of[j + 1]?.at ?? Infinity) > now - 3000).map((each) => each.of[i] as number),
        ),
      );
      for (const fromLane of reserve > 0 ? [0, 1] : [0]) {
        if (lane < fromLane) continue;
        // A job that costs more than a limit that was lowered goes alone.
        let allowed = most * (fromLane > 0 ? 1 - reserve : 1);
        let sum = 0;
        for (let j = scope.spent.length - 1; j >= 0; j--) {
          const one = scope.spent[j] as Spent;
          if (one.at <= now - windowMs) break;
          if (one.lane < fromLane) continue;
          sum += one.net[column] as number;
          allowed = Math.max(allowed, one.net[column] as number);
        }
        if (sum > allowed + ROUNDING)
          this.fault(`${String(sum)} of ${String(allowed)} ${scope.name} ${String(i)} from lane ${String(fromLane)}`);
      }
    }
  }

  /** There is credit that has not ended. What is given back may be spent again, so only schedules without are looked at. */
  private lookAtCredit({ credits, scope }: Line, lane: number, now: number, net: readonly number[]): void {
    if (this.traits.settles) return;
    for (const [column, cost] of net.entries()) {
      // What came back of a slot is given again.
      if (scope.units[column] === 'slots') continue;
      let due = cost;
      for (const { endsAt, lane: asked, left } of credits) {
        if (endsAt <= now - EARLY_MS || asked < lane) continue;
        const paid = Math.min(due, left[column] as number);
        left[column] = (left[column] as number) - paid;
        due -= paid;
      }
      if (due > ROUNDING)
        this.fault(`${String(due)} of ${String(cost)} ${scope.units[column] as string} were spent without credit in ${scope.name}`);
    }
  }

  private calm(): void {
    this.note('calm', () => undefined);
    for (const { limiter, line } of this.processes) {
      limiter.resume();
      line.amounts.push({ at: this.scheduler.now(), of: this.account.plans.map(({ amount }) => amount) });
      limiter.setLimits({ concurrency: limiter.concurrency, rates: this.account.plans.map((plan) => this.rate(plan)) });
      limiter.penalize(0);
    }
  }

  private drain(): void {
    if (this.waiting.size > 0) this.fault(`${[...this.waiting].map(({ id }) => id).join(', ')} waits for ever`);
    if (this.scheduler.actions.length > 0) this.fault(`${String(this.scheduler.actions.length)} timers are left before the end`);
    this.lookAtStore('before the end');
    for (const each of this.processes) {
      if (each.isEnding) continue;
      each.isEnding = true;
      void each.limiter.drain();
    }
  }

  private end(): void {
    if (this.settled !== this.accepted) this.fault(`${String(this.settled)} of ${String(this.accepted)} jobs have settled`);
    if (this.scheduler.actions.length > 0) this.fault(`${String(this.scheduler.actions.length)} timers are left`);
    for (const { drained } of this.processes) if (drained !== 1) this.fault(`drained ${String(drained)} times`);
    this.lookAtStore('at the end');
  }

  /** The store has booked what was spent, and nothing else. */
  private lookAtStore(when: string): void {
    for (const { charged, isUncounted, name, spent, units } of [this.account, this.model]) {
      if (isUncounted) continue;
      for (const [column, unit] of units.entries()) {
        const used = spent.reduce((sum, { net }) => sum + (net[column] as number), 0);
        const is = charged[column] as number;
        // What ended while the store was down may not have been told.
        const isExact = !(this.traits.closes && this.traits.hasFaults);
        if (is < used - ROUNDING || (isExact && is > used + ROUNDING))
          this.fault(`${when} the store has booked ${String(is)} ${unit} of ${name}, and ${String(used)} were spent`);
      }
    }
  }

  // ---- draws -----------------------------------------------------------------------------------------------------------

  private note(text: string, act: () => void): void {
    this.log.push(`${this.time()} ${text}`);
    act();
  }

  private time(): string {
    return String(Math.round(this.scheduler.now() * 100) / 100);
  }

  private fault(text: string): void {
    this.log.push(`${this.time()} FAULT ${text}`);
    this.faults.push(`seed ${String(this.seed)}, at ${this.time()} ms: ${text}`);
  }

  private chance(of: number): boolean {
    return this.random() < of;
  }

  private whole(least: number, most: number): number {
    return least + Math.floor(this.random() * (most - least + 1));
  }

  private one<V>(values: readonly V[]): V {
    return values[this.whole(0, values.length - 1)] as V;
  }
}
