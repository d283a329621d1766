import type { Credit, CreditCorrection, CreditLimit, CreditQuestion, CreditWait } from '../../kernel/credit/credit.js';
import { isCredit } from '../../kernel/credit/credit.js';
import { CreditBook } from '../../kernel/credit/credit-book.js';
import type { SharedRate } from '../../kernel/credit/credit-limits.js';
import { creditLimits } from '../../kernel/credit/credit-limits.js';
import type { Gate } from '../../kernel/limiter/gate.js';
import type { CreditDemand } from '../../kernel/limiter/rates.js';
import type { Charge, Meter } from '../../kernel/limits/limit.js';
import { amountOf } from '../../kernel/limits/limit.js';
import { strictFloorsOf } from '../../kernel/queues/strict-with-floor.js';
import type { CreditStore } from '../../options/credit-store.js';
import type { Note } from '../../options/events.js';
import type { WorkResult } from '../../options/types.js';
import { Call } from '../calls/call.js';
import { Alarm } from '../time/alarm.js';
import type { MeteredCredit } from './credit-meter.js';
import { CreditMeter } from './credit-meter.js';
import type { LimiterSettings } from './settings.js';
import type { Lease, Ticket } from './ticket.js';

/** One that waits asks again after so long at the latest: a store forgets who is silent. */
const ASK_AGAIN_MS = 500;
/** Corrections are collected for so long. */
const CORRECT_AFTER_MS = 100;
/** A store that has not answered after so long does not answer. */
const ANSWER_MS = 2000;
/** Pauses before the next try while a store is down. */
const FIRST_BACKOFF_MS = 50;
const MOST_BACKOFF_MS = 500;
/** Longest wait for a store to take back what is left, when the limiter ends. */
const END_MS = 1000;
/** Times are sums of fractions, and a timer that would be earlier than that rings now: so much earlier is on time. */
const EARLY_MS = 0.01;
/** Most waiting jobs that are asked for at a time. */
const MOST_JOBS = 64;
/** Part of the time for which credit is good that a request may take on its way to the provider. */
const FLIGHT = 0.2;

/** A limiter, as its credit sees it. */
export interface CreditedLimiter {
  readonly settings: LimiterSettings;
  readonly gate: Gate<Ticket, Lease>;
  readonly tell: ((note: Note) => void) | undefined;
  now(): number;
  loop(): void;
  penalize(pauseMs: number): void;
}

export interface CreditSettings {
  readonly store: CreditStore;
  readonly scope: string;
  /** Those of all rates, each once. */
  readonly units: readonly string[];
  readonly leastShare: number;
  readonly guardMs: number;
}

/** One question, or another message, until it is answered. */
class Message<R> extends Call<R> {
  constructor(
    private readonly send: () => WorkResult<R>,
    private readonly answeredWith: (answer: R) => void,
    private readonly lost: () => void,
  ) {
    super();
  }

  work(): WorkResult<R> {
    return this.send();
  }

  done(answer: R): void {
    this.answeredWith(answer);
  }

  failed(): void {
    this.lost();
  }
}

/**
 * The credit of one limiter at a store: asks for what waits, one question at a time, and gives back what ends unspent. It never decides who is granted: a
 * credit that comes is for whatever job is first by then.
 */
export class CreditLine implements CreditDemand, MeteredCredit {
  private readonly settings: CreditSettings;
  private readonly limiter: CreditedLimiter;
  private readonly book = new CreditBook();
  private readonly units: readonly string[];
  private readonly meters: CreditMeter[] = [];
  private readonly alarm: Alarm;
  private readonly owner = ownerId();
  private readonly floors: readonly number[];
  private number = 0;
  /** The question that has no answer yet, and when it was asked first. */
  private open: { readonly question: CreditQuestion; readonly askedAt: number } | undefined = undefined;
  private asking: Message<Credit | CreditWait> | undefined = undefined;
  private correcting: { readonly message: Message<void>; readonly corrections: readonly CreditCorrection[] } | undefined = undefined;
  private corrected = 0;
  /** When a message is taken for lost. */
  private answerBy = Infinity;
  private correctedBy = Infinity;
  private correctAt = Infinity;
  /** Nothing less urgent is asked before. */
  private askAgainAt = -Infinity;
  /** When the store may have some, as it says. */
  private waitsUntil = -Infinity;
  private askedLane = -1;
  private granted = 0;
  private failures = 0;
  private left: readonly number[] = [];
  private epoch = 0;
  private lessons: Record<string, number> | undefined = undefined;
  /** Jobs that were paid for in this span of `guardMs`, and in the one before. */
  private spanAt = -Infinity;
  private paidNow = 0;
  private paidBefore = 0;
  private heldUntil = -Infinity;
  private hearsHold = false;
  private whenEnded: (() => void) | undefined = undefined;

  constructor(settings: CreditSettings, limiter: CreditedLimiter) {
    this.settings = settings;
    this.units = settings.units;
    this.limiter = limiter;
    this.floors = strictFloorsOf(limiter.settings.queue.lanes);
    this.alarm = new Alarm(limiter.settings.scheduler, () => {
      this.rang();
    });
  }

  /** The meter of a rate; called once for each. */
  meter(rate: SharedRate, perMinute: number, capacity: number): Meter {
    const column = this.units.indexOf(rate.unit);
    const meter = new CreditMeter(this, rate, column, !this.meters.some((other) => other.column === column));
    meter.resize(perMinute, capacity);
    this.meters.push(meter);
    return meter;
  }

  // ---- what meters ask -------------------------------------------------------------------------------------------------

  /** What one question would bring at once. */
  level({ capacity, column, rate }: CreditMeter, now: number, lane?: number): number {
    const { [column]: left = Infinity } = this.left;
    const atOnce = rate.isStrict || rate.endOf ? left : Math.min(left, capacity);
    return Math.max(this.book.left(column, now, lane), Math.min(atOnce, capacity));
  }

  leftOf({ amount, column }: CreditMeter): number {
    return Math.min(amount, this.left[column] ?? amount);
  }

  payableAt({ column }: CreditMeter, cost: number, now: number, lane?: number): number {
    if (this.book.covers(column, cost, now, lane)) return now;
    return this.waitsUntil > now ? this.waitsUntil : Infinity;
  }

  pay(column: number, cost: number, now: number, lane?: number): void {
    this.book.pay(column, cost, now, lane);
    if (column > 0) return;
    if (now - this.spanAt >= this.settings.guardMs) {
      this.paidBefore = now - this.spanAt < 2 * this.settings.guardMs ? this.paidNow : 0;
      this.paidNow = 0;
      this.spanAt = now;
    }
    this.paidNow++;
  }

  correct(column: number, delta: number, paidAt: number, now: number): void {
    this.book.correct(column, delta, paidAt, now);
    this.corrections();
  }

  learned(meter: CreditMeter): void {
    this.lessons = { ...this.lessons };
    for (const { amount, key } of this.limitsOf(meter)) this.lessons[key] = amount;
  }

  // ---- what the limiter says -------------------------------------------------------------------------------------------

  want(): void {
    const { gate } = this.limiter;
    const { first } = gate;
    if (first === undefined) return;
    const { charge, lane } = gate.candidate(first);
    this.askFor(charge, lane, () => {
      const most = Math.min(MOST_JOBS, Math.max(1, gate.slots - gate.executing, this.paidBefore, this.paidNow));
      const sums = this.units.map(() => 0);
      let jobs = 0;
      gate.queue.each(lane, (job) => {
        for (const [column, unit] of this.units.entries()) sums[column] = (sums[column] as number) + amountOf(job.charge, unit);
        return ++jobs < most;
      });
      return sums;
    });
  }

  wanted(charge: Charge, lane: number): boolean {
    const { granted } = this;
    this.askFor(charge, lane, () => this.units.map(() => 0));
    return this.granted > granted;
  }

  hold(ms: number): void {
    if (this.hearsHold) return;
    this.heldUntil = this.limiter.now() + ms;
    this.sendHold();
  }

  end(ended: () => void): boolean {
    const { book } = this;
    this.asking?.stop();
    this.asking = this.open = undefined;
    this.answerBy = Infinity;
    book.drop();
    if (!this.correcting && !book.hasCorrections) {
      this.alarm.clear();
      return false;
    }
    if (!this.whenEnded) {
      this.correctAt = -Infinity;
      this.whenEnded = ended;
      this.sendCorrections();
    }
    return this.whenEnded !== undefined;
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  private askFor(charge: Charge, lane: number, behind: () => readonly number[]): void {
    const { gate } = this.limiter;
    const now = gate.time;
    if (this.asking || this.whenEnded || !gate.hasSlots(charge) || gate.pausedForMs > 0) return;
    if (now + EARLY_MS < this.askAgainAt && (this.failures > 0 || lane >= this.askedLane)) return;
    for (const rate of gate.rates?.all ?? []) {
      // Credit would end while it waits for a rate of its own.
      if ((rate.meter as Partial<CreditMeter> | undefined)?.line !== this && rate.payableAt(charge, now, lane) > now) return;
    }
    const missing = this.meters.some(({ amount, column }) => !this.book.covers(column, this.costOf(charge, column, amount), now, lane));
    if (!missing) return;
    this.open ??= { question: this.question(charge, lane, behind(), now), askedAt: now };
    this.askedLane = lane;
    this.ask(this.open, now);
  }

  private question(charge: Charge, lane: number, behind: readonly number[], now: number): CreditQuestion {
    const { guardMs, leastShare, scope } = this.settings;
    const limits = this.limits();
    // Whoever is urgent is not to wait for others.
    const isBulk = lane > 0 || this.floors.length === 1;
    const least = this.units.map((_, column) => this.costOf(charge, column));
    const most = least.map((cost, column) => Math.max(cost, behind[column] as number));
    for (const { amount, column } of isBulk ? limits : [])
      least[column] = Math.max(least[column] as number, Math.min(most[column] as number, leastShare * amount));
    const { epoch, floors, lessons, owner } = this;
    return { scope, owner, number: ++this.number, limits, guardMs, lane, floors, least, most, epoch, lessons };
  }

  /** What a job costs of a unit, as far as there is a limit of it. */
  private costOf(charge: Charge, column: number, most = this.mostOf(column)): number {
    return Math.min(most, amountOf(charge, this.units[column] as string));
  }

  private mostOf(column: number): number {
    return this.meters.reduce((most, meter) => (meter.column === column ? Math.min(most, meter.amount) : most), Infinity);
  }

  /** The limits of all rates. */
  private limits(): CreditLimit[] {
    return this.meters.flatMap((meter) => this.limitsOf(meter));
  }

  private limitsOf({ amount, capacity, column, rate }: CreditMeter): CreditLimit[] {
    const { queue, scheduler } = this.limiter.settings;
    return creditLimits(rate, { amount, burst: capacity, column, reserve: queue.reserve, now: scheduler.now() });
  }

  private ask(open: { readonly question: CreditQuestion; readonly askedAt: number }, now: number): void {
    const { question, askedAt } = open;
    this.answerBy = now + ANSWER_MS;
    this.asking = new Message(
      () => this.settings.store.ask(question),
      (answer) => {
        this.open = this.asking = undefined;
        this.answerBy = Infinity;
        this.answered(answer, question, askedAt);
      },
      () => {
        this.asking = undefined;
        this.answerBy = Infinity;
        this.lost();
      },
    );
    this.arm();
    this.asking.begin();
  }

  private answered(answer: Credit | CreditWait, { lane, lessons }: CreditQuestion, askedAt: number): void {
    const { guardMs } = this.settings;
    const now = this.limiter.now();
    this.found();
    this.left = answer.left;
    if (lessons === this.lessons || answer.epoch > this.epoch) this.lessons = undefined;
    this.epoch = answer.epoch;
    if (isCredit(answer)) {
      this.granted++;
      this.askAgainAt = this.waitsUntil = -Infinity;
      this.book.add(answer, lane, askedAt + guardMs * (1 - FLIGHT));
    } else {
      this.waitsUntil = now + answer.waitMs;
      this.askAgainAt = now + Math.min(answer.waitMs, ASK_AGAIN_MS);
      if (answer.holdMs > 0) this.hear(answer.holdMs);
    }
    this.arm();
    this.limiter.loop();
  }

  /** Another process has asked for a pause. */
  private hear(holdMs: number): void {
    this.hearsHold = true;
    this.limiter.penalize(holdMs);
    this.hearsHold = false;
  }

  // ---- corrections and holds -------------------------------------------------------------------------------------------

  private corrections(): void {
    if (!this.book.hasCorrections || this.correctAt < Infinity) return;
    this.correctAt = this.limiter.now() + CORRECT_AFTER_MS;
    this.arm();
  }

  private sendCorrections(): void {
    const { book, owner } = this;
    this.correctAt = Infinity;
    if (this.correcting || !book.hasCorrections) return;
    const { guardMs, scope, store } = this.settings;
    const now = this.limiter.now();
    const limits = this.limits();
    const corrections = book.takeCorrections();
    const message = new Message<void>(
      () => store.correct({ scope, owner, number: ++this.corrected, limits, guardMs, corrections }),
      () => {
        this.found();
        this.toldCorrections();
      },
      () => {
        book.untold(corrections);
        this.lost();
        this.toldCorrections();
      },
    );
    this.correcting = { message, corrections };
    this.correctedBy = now + (this.whenEnded ? END_MS : ANSWER_MS);
    this.arm();
    message.begin();
  }

  private toldCorrections(): void {
    const { whenEnded } = this;
    this.correcting = undefined;
    this.correctedBy = Infinity;
    if (whenEnded) {
      this.alarm.clear();
      this.book.takeCorrections();
      whenEnded();
    } else this.corrections();
  }

  private sendHold(): void {
    const { scope, store } = this.settings;
    const ms = Math.max(0, this.heldUntil - this.limiter.now());
    const message = new Message<void>(
      () => store.hold(scope, ms),
      () => {
        this.heldUntil = -Infinity;
        this.found();
      },
      () => {
        this.lost();
      },
    );
    message.begin();
  }

  // ---- the store is there, or not --------------------------------------------------------------------------------------

  private found(): void {
    if (this.failures === 0) return;
    this.failures = 0;
    this.limiter.tell?.({ type: 'storeUp' });
    // What it has not heard of.
    if (this.heldUntil > this.limiter.now()) this.sendHold();
  }

  private lost(): void {
    if (this.failures === 0) this.limiter.tell?.({ type: 'storeDown' });
    const pauseMs = Math.min(MOST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.failures);
    this.failures++;
    this.askAgainAt = this.limiter.now() + pauseMs;
    this.waitsUntil = -Infinity;
    this.arm();
  }

  // ---- time ------------------------------------------------------------------------------------------------------------

  private arm(): void {
    const now = this.limiter.now();
    const askAt = this.asking || this.askAgainAt <= now + EARLY_MS ? Infinity : this.askAgainAt;
    const at = Math.min(askAt, this.answerBy, this.correctAt, this.correctedBy, this.book.endsAt);
    this.alarm.set(at === Infinity ? Infinity : this.alarm.now() + Math.max(0, at - now));
  }

  private rang(): void {
    const { asking, book, correcting } = this;
    const now = this.limiter.now() + EARLY_MS;
    if (asking && now >= this.answerBy) {
      asking.stop();
      asking.failed();
    }
    if (correcting && now >= this.correctedBy) {
      correcting.message.stop();
      correcting.message.failed();
    }
    book.expire(now);
    if (now >= this.correctAt || (book.hasCorrections && !this.correcting)) this.sendCorrections();
    this.arm();
    if (now >= this.askAgainAt && !this.asking) this.limiter.loop();
  }
}

let owners = 0;

/** Tells it from all others, in whatever process. */
function ownerId(): string {
  const part = (): string => Math.random().toString(36).slice(2, 12);
  return `${part()}${part()}-${String(++owners)}`;
}
