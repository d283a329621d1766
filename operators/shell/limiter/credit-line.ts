import type { Credit, CreditLimit, CreditQuestion, CreditWait } from '../../kernel/credit/credit.js';
import { isCredit } from '../../kernel/credit/credit.js';
import { CreditBook } from '../../kernel/credit/credit-book.js';
import type { SharedRate } from '../../kernel/credit/credit-limits.js';
import { RecentCount } from '../../kernel/credit/recent-count.js';
import type { Gate } from '../../kernel/limiter/gate.js';
import type { CreditDemand, Paid } from '../../kernel/limiter/rates.js';
import { leastOf } from '../../kernel/limiter/tree.js';
import type { Charge, Meter } from '../../kernel/limits/limit.js';
import { SLOTS } from '../../kernel/limits/limit.js';
import { strictFloorsOf } from '../../kernel/queues/strict-with-floor.js';
import type { CreditStore } from '../../options/credit-store.js';
import type { Note } from '../../options/events.js';
import { Alarm } from '../time/alarm.js';
import { AskedJob, mayPass, sumsOf } from './asked-job.js';
import { CountedMeters } from './counted-meters.js';
import type { MeteredCredit } from './credit-meter.js';
import { CreditMeter } from './credit-meter.js';
import { HeldSlots } from './held-slots.js';
import type { LimiterSettings } from './settings.js';
import { StoreCorrections } from './store-corrections.js';
import { StoreHolds } from './store-holds.js';
import type { OpenQuestion } from './store-messages.js';
import { isAnswer, Message, ownerId } from './store-messages.js';
import type { Lease, Ticket } from './ticket.js';

/** While jobs wait, the limiter asks again after so long at the latest: a store forgets limiters that are silent. */
const ASK_AGAIN_MS = 500;
/** The same while a shared slot is missing: the store cannot predict when a job ends. */
const SLOT_AGAIN_MS = 50;
/** A message without an answer after so long counts as lost. */
const ANSWER_MS = 2000;
/** The same for corrections where slots are shared: a held slot must be renewed before the store frees it, although some messages are lost. */
const SLOT_ANSWER_MS = 500;
/** Pauses before the next try while a store is down. */
const FIRST_BACKOFF_MS = 50;
const MOST_BACKOFF_MS = 500;
/** When the limiter ends, it waits so long for the store to take back unspent credit. */
const END_MS = 1000;
/** A question without an answer may have been granted. It is repeated for so long although no job waits any more, so that the credit goes back. */
const RECOVER_MS = 10_000;
/** After so many answers in a row whose credit had already ended, the store counts as down. */
const MANY_LATE = 3;
/** A job of a child limiter leaves this queue while it waits for credit there. For so long other jobs are not asked for, as the store keeps its turn. */
const ABSENT_MS = 100;
/** A pause that another process has asked for is ignored when less of it is left. */
const LEAST_HOLD_MS = 100;
/** Times are sums of fractions: a timer that rings so much too early is on time. */
const EARLY_MS = 0.01;
/** Most waiting jobs that are asked for at a time. */
const MOST_JOBS = 64;
/** This part of `guardMs` is for the way of a request to the provider; credit is spent in the rest of it. */
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

/**
 * The credit of one limiter at a store: asks for what waits, one question at a time, and gives back what ends unspent. It never decides who is granted: a
 * credit that comes is for whatever job is first by then.
 */
export class CreditLine implements CreditDemand, MeteredCredit {
  private readonly settings: CreditSettings;
  private readonly limiter: CreditedLimiter;
  private readonly book: CreditBook;
  private readonly slots: HeldSlots;
  private readonly units: readonly string[];
  private readonly meters: CountedMeters;
  private readonly alarm: Alarm;
  private readonly owner = ownerId();
  private readonly floors: readonly number[];
  private number = 0;
  /** The question that has no answer yet, and when it was asked first. */
  private open: OpenQuestion | undefined = undefined;
  private asking: Message<Credit | CreditWait> | undefined = undefined;
  private readonly corrections: StoreCorrections;
  /** When the question is taken for lost. */
  private answerBy = Infinity;
  /** Nothing is asked before, but what is more urgent or costs less. */
  private askAgainAt = -Infinity;
  /** When the store may have some, as it says. */
  private waitsUntil = -Infinity;
  private readonly asked = new AskedJob();
  /** How long its turn is kept while another one leads. */
  private absentMs = 0;
  /** Whether the timer is set for the next question. */
  private isArmed = false;
  private granted = 0;
  private failures = 0;
  /** How long the last answer took. */
  private roundTripMs = 0;
  private lateAnswers = 0;
  private left: readonly number[] = [];
  private epoch = 0;
  private lessons: Record<string, number> | undefined = undefined;
  /** Jobs that were paid for. */
  private readonly recent: RecentCount;
  private readonly holds: StoreHolds;
  private hearsHold = false;
  /** Set when the limiter has ended: what is left goes back until then. */
  private endBy = Infinity;
  private isOver = false;
  private whenEnded: (() => void) | undefined = undefined;

  constructor(settings: CreditSettings, limiter: CreditedLimiter) {
    this.settings = settings;
    this.units = settings.units;
    this.slots = new HeldSlots(settings.units.indexOf(SLOTS));
    this.book = new CreditBook(this.slots.column);
    this.recent = new RecentCount(settings.guardMs);
    this.limiter = limiter;
    this.meters = new CountedMeters(settings.units, limiter);
    this.floors = strictFloorsOf(limiter.settings.queue.lanes);
    this.holds = new StoreHolds(settings, limiter, this);
    this.corrections = new StoreCorrections(settings, this.owner, this.book, this);
    this.alarm = new Alarm(limiter.settings.scheduler, () => {
      this.rang();
    });
  }

  /** The meter of a rate; called once for each. */
  meter(rate: SharedRate, perMinute: number, capacity: number): Meter {
    const column = this.units.indexOf(rate.unit);
    const meter = new CreditMeter(this, rate, column);
    meter.resize(perMinute, capacity, 0);
    this.meters.add(meter);
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

  /** When it can be paid. Without credit that is a guess: when the store says, when its answer is due, or when it is asked again. */
  payableAt({ column }: CreditMeter, cost: number, now: number, lane?: number): number {
    if (this.book.covers(column, this.meters.bounded(column, cost), now, lane)) return now;
    if (this.waitsUntil > now) return this.waitsUntil;
    const at = this.asking ? this.answerBy : this.askAgainAt;
    return at > now ? at : now + 1;
  }

  isFirst(meter: CreditMeter): boolean {
    return this.meters.isFirst(meter);
  }

  pay(column: number, cost: number, now: number, lane?: number): void {
    this.book.pay(column, cost, now, lane);
    if (column === this.slots.column) this.slots.paid(now);
    if (column === 0) this.recent.add(now);
    this.correctLater();
  }

  correct(column: number, delta: number, paidAt: number, now: number, lane?: number): void {
    const mayBeBack = this.book.correct(column, delta, paidAt, now, lane);
    this.correctLater();
    // What came back to a credit ends with it.
    if (mayBeBack) this.arm();
  }

  /** What was told to wait may go under another amount. */
  resized(): void {
    if (this.failures === 0) this.askAgainAt = this.waitsUntil = -Infinity;
  }

  learned(meter: CreditMeter): void {
    this.lessons = { ...this.lessons };
    for (const { amount, key } of this.meters.limitsOf(meter)) this.lessons[key] = amount;
  }

  // ---- what the limiter says -------------------------------------------------------------------------------------------

  want(): boolean {
    const { gate } = this.limiter;
    const { first } = gate;
    if (first === undefined) {
      if (this.isArmed) this.arm();
      return false;
    }
    const { granted } = this;
    const candidate = gate.candidate(first);
    // Credit for one that may not pass the one whose turn it is would end unspent, again and again.
    const { charge, isPlace, lane } = candidate === first || mayPass(gate, candidate) ? candidate : first;
    this.askFor(charge, lane, isPlace === true, () => {
      const free = leastOf(gate, ({ slots, executing }) => slots - executing);
      const most = Math.min(MOST_JOBS, Math.max(1, free, this.recent.most));
      return sumsOf(gate.queue, lane, most, this.units);
    });
    return this.granted > granted;
  }

  wanted(charge: Charge, lane: number): boolean {
    const { gate } = this.limiter;
    const { first, queue, rules } = gate;
    // It would not go with credit either: credit for it would only end unspent, and be missing for the one whose turn it is.
    const isBehind = first !== undefined && rules.enforce && !queue.goesFirst(lane);
    if (isBehind && !(gate.passes(lane) && gate.candidate(first).lane > lane && mayPass(gate, { charge, lane }))) return false;
    const { granted } = this;
    this.askFor(charge, lane, false, () => this.units.map(() => 0));
    return this.granted > granted;
  }

  freed({ charge, grantedAt = this.limiter.now(), lane }: Paid): void {
    const { column } = this.slots;
    if (column < 0) return;
    this.book.correct(column, -charge.slots, grantedAt, this.limiter.now(), lane);
    // Other processes may wait for it.
    const { leases, queue } = this.limiter.gate;
    if (leases === 0) this.book.forgetHeld();
    if (queue.size === 0) this.book.giveBackHeld();
    this.correctLater(true);
    // What was asked for may have waited for it alone.
    this.resized();
    this.arm();
  }

  hold(ms: number): void {
    if (!this.hearsHold) this.holds.tell(ms);
  }

  end(ended: () => void): boolean {
    if (this.endBy === Infinity) {
      const now = this.limiter.now();
      this.endBy = now + END_MS;
      this.corrections.at = Infinity;
      this.book.drop();
      // A question whose answer was lost may have been answered with credit.
      if (this.open && !this.asking) this.ask(this.open, now);
      this.finish();
    }
    if (!this.isOver) this.whenEnded = ended;
    return !this.isOver;
  }

  /** Gives back what has come; over when the store has heard of everything. */
  private finish(): void {
    const { corrections } = this;
    if (this.asking || corrections.isSending || this.isOver) return;
    if ((corrections.hasUnheard || this.book.hasCorrections) && this.limiter.now() < this.endBy) {
      if (corrections.at === Infinity) corrections.send();
    } else this.over();
  }

  private over(): void {
    this.isOver = true;
    this.asking?.stop();
    this.asking = this.open = undefined;
    this.answerBy = Infinity;
    this.corrections.drop();
    // A lease that is held on keeps its slot.
    this.arm();
    this.whenEnded?.();
  }

  // ---- questions -------------------------------------------------------------------------------------------------------

  private askFor(charge: Charge, lane: number, isPlace: boolean, behind: () => readonly number[]): void {
    const { gate } = this.limiter;
    const now = gate.time;
    if (this.asking || this.endBy < Infinity || !gate.hasSlots(charge) || gate.pausedForMs > 0) return;
    const costs = this.meters.costsOf(charge);
    const isAbsent = this.asked.isPlace && !this.asked.isLike(costs, lane);
    const absentMs = isAbsent ? ABSENT_MS : 0;
    const isLater = lane >= this.asked.lane && !this.meters.haveChanged && (isAbsent || !this.asked.costsMoreThan(costs));
    if (now + EARLY_MS < this.askAgainAt + absentMs && (this.failures > 0 || isLater)) {
      const isArmed = this.isArmed && absentMs === this.absentMs;
      this.absentMs = absentMs;
      if (!isArmed) this.arm();
      return;
    }
    for (const rate of gate.rates?.all ?? []) {
      // Credit would end while it waits for a rate of its own.
      if (rate.isStopped || (rate.meter?.isShared !== true && rate.payableAt(charge, now, lane) > now)) return;
    }
    if (costs.every((cost, column) => !this.meters.isCounted(column) || this.book.covers(column, cost, now, lane))) return;
    if (!this.open) this.asked.isPlace = isPlace;
    this.open ??= { question: this.question(charge, lane, behind()), costs, askedAt: now };
    this.ask(this.open, now);
  }

  private question(charge: Charge, lane: number, behind: readonly number[]): CreditQuestion {
    const { guardMs, leastShare, scope } = this.settings;
    const limits = this.limits();
    // What is in hand, and lasts until the answer comes, is not asked for again: it would be missing where the job needs nearly all of a limit.
    const until = this.limiter.gate.time + 2 * this.roundTripMs;
    const held = this.units.map((_, column) => this.book.left(column, until, lane));
    const least = this.meters.costsOf(charge).map((cost, column) => Math.max(0, cost - (held[column] as number)));
    const most = least.map((cost, column) => {
      return this.meters.isCounted(column) ? Math.max(cost, (behind[column] as number) - (held[column] as number)) : 0;
    });
    if (this.isBulk(lane)) {
      for (const column of this.units.keys()) {
        if (column === this.slots.column) continue;
        const lowest = Math.min(...limits.filter((limit) => limit.column === column && limit.fromLane <= lane).map(({ amount }) => amount));
        least[column] = Math.max(least[column] as number, lowest === Infinity ? 0 : Math.min(most[column] as number, leastShare * lowest));
      }
    }
    const { epoch, floors, lessons, owner } = this;
    return { scope, owner, number: ++this.number, limits, guardMs, lane, floors, least, most, epoch, lessons };
  }

  /** Whether a lane asks for more than a job at a time. One that is urgent is not to wait for others, and what a limiter above keeps back would be lost. */
  private isBulk(lane: number): boolean {
    return (lane > 0 || this.floors.length === 1) && leastOf(this.limiter.gate, ({ slots, executing }) => slots - executing) > 0;
  }

  limits(): CreditLimit[] {
    // What was granted under other limits is not given back: the store would give it back to limits that it was not charged to.
    if (this.meters.haveChanged) this.book.freeze();
    return this.meters.limits();
  }

  private ask(open: OpenQuestion, now: number): void {
    const { question, costs } = open;
    this.asked.lane = question.lane;
    this.asked.costs = costs;
    this.absentMs = 0;
    this.answerBy = Math.min(now + ANSWER_MS, this.endBy);
    this.asking = new Message(
      () => this.settings.store.ask(question),
      (answer) => {
        this.asking = undefined;
        this.answerBy = Infinity;
        if (isAnswer(answer, question)) this.answered(answer, open, now);
        else this.unanswered();
      },
      () => {
        this.asking = undefined;
        this.answerBy = Infinity;
        this.unanswered();
      },
    );
    this.arm();
    this.asking.begin();
  }

  private unanswered(): void {
    this.lost();
    if (this.endBy < Infinity) this.finish();
  }

  private answered(answer: Credit | CreditWait, { askedAt, question }: OpenQuestion, sentAt: number): void {
    const { lane, lessons } = question;
    const now = this.limiter.now();
    const goodMs = this.settings.guardMs * (1 - FLIGHT);
    this.open = undefined;
    this.roundTripMs = now - sentAt;
    this.left = answer.left;
    if (lessons === this.lessons || answer.epoch > this.epoch) this.lessons = undefined;
    this.epoch = answer.epoch;
    if (isCredit(answer)) {
      this.granted++;
      // An answer that was lost and is given again is an old one: it says nothing of the clocks.
      if (now < askedAt + goodMs) this.slots.heard(answer.credit, now);
      this.askAgainAt = this.waitsUntil = -Infinity;
      this.book.add(answer, lane, now, askedAt + goodMs);
      this.book.expire(now);
    } else {
      this.waitsUntil = now + answer.waitMs;
      this.askAgainAt = now + Math.min(answer.waitMs, this.slots.isShort(answer, question) ? SLOT_AGAIN_MS : ASK_AGAIN_MS);
    }
    // One that always answers too late is as good as none.
    this.lateAnswers = now - sentAt < goodMs ? 0 : this.lateAnswers + 1;
    if (this.lateAnswers < MANY_LATE) this.found();
    else this.lost();
    if (this.endBy < Infinity) {
      this.book.drop();
      this.finish();
      return;
    }
    if (answer.holdMs > LEAST_HOLD_MS) this.hear(answer.holdMs);
    this.correctLater();
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

  /** What meters and jobs have given back, after a while or at once. */
  private correctLater(isUrgent = false): void {
    if (this.endBy === Infinity || this.isOver) this.corrections.collect(isUrgent);
  }

  heard(): void {
    this.correctLater();
    if (this.endBy < Infinity) this.finish();
    this.arm();
  }

  // ---- the store is there, or not --------------------------------------------------------------------------------------

  found(): void {
    if (this.failures === 0) return;
    this.failures = 0;
    this.limiter.tell?.({ type: 'storeUp' });
    this.holds.tellAgain();
  }

  /** Answers how long to wait before the next try. */
  lost(): number {
    if (this.failures === 0) this.limiter.tell?.({ type: 'storeDown' });
    const pauseMs = Math.min(MOST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.failures);
    this.failures++;
    this.askAgainAt = this.limiter.now() + pauseMs;
    this.waitsUntil = -Infinity;
    this.arm();
    return this.isOver ? Infinity : pauseMs;
  }

  lostAt(now: number): number {
    const lostAt = now + (this.slots.column < 0 ? ANSWER_MS : Math.min(ANSWER_MS, Math.max(SLOT_ANSWER_MS, 2 * this.settings.guardMs)));
    return this.isOver ? lostAt : Math.min(lostAt, this.endBy);
  }

  now(): number {
    return this.limiter.now();
  }

  // ---- time ------------------------------------------------------------------------------------------------------------

  arm(): void {
    const now = this.limiter.now();
    // Without a job that waits, the next one asks.
    const isAwaited = this.limiter.gate.queue.size > 0;
    const isWanted = isAwaited || (this.open !== undefined && now < this.open.askedAt + RECOVER_MS);
    this.isArmed = !this.asking && this.askAgainAt + this.absentMs > now + EARLY_MS && isWanted && this.endBy === Infinity;
    const askAt = this.isArmed ? this.askAgainAt + this.absentMs : Infinity;
    const endBy = this.isOver ? Infinity : this.endBy;
    const { corrections } = this;
    const creditEndsAt = this.book.endsAt(isAwaited);
    const at = Math.min(askAt, this.answerBy, corrections.at, corrections.lostAt, creditEndsAt, this.slots.renewAt, endBy);
    this.alarm.set(at === Infinity ? Infinity : this.alarm.now() + Math.max(0, at - now));
  }

  private rang(): void {
    const { asking, book, corrections } = this;
    const now = this.limiter.now() + EARLY_MS;
    if (now >= this.endBy && !this.isOver) {
      this.over();
      return;
    }
    if (asking && now >= this.answerBy) {
      asking.stop();
      asking.failed();
    }
    if (now >= corrections.lostAt) corrections.giveUp();
    book.expire(now);
    this.slots.renew(book, now, corrections.hasUnheard);
    // What has ended is missing elsewhere.
    if (now >= corrections.at || (book.hasCorrections && !corrections.hasUnheard)) corrections.send();
    this.arm();
    if (now < this.askAgainAt || this.asking) return;
    this.limiter.loop();
    // What may have been answered with credit is asked again, also in a pause: all that waits may leave in it.
    const { open } = this;
    if (open && this.answerBy === Infinity && this.endBy === Infinity) this.ask(open, now);
  }
}
