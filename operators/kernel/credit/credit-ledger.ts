import { CountedWindow, spanMs } from './counted-window.js';
import type { Credit, CreditCorrections, CreditLimit, CreditQuestion, CreditWait } from './credit.js';
import type { SavedCredit } from './saved-credit.js';
import { liveCopy, plainCopy } from './saved-credit.js';

/** An owner that waits asks again after so long at the latest. */
const ASK_AGAIN_MS = 500;

/** One that is later than this no longer keeps credit from the others. */
const LATE_MS = 100;

/** One that has not asked again for so long has lost its place, and no longer waits. */
const LAPSE_MS = 1500;

/** Answers and numbers of an owner that has not been heard of for so long are forgotten. */
const FORGET_MS = 600_000;

/** What was learned holds for so long, unless something is learned anew. */
const LESSON_MS = 300_000;

/** Windows up to this length begin evenly where what was granted before may have been lost. */
const LONGEST_LOST_MS = 600_000;

/** With so many scopes, those in which nothing is left to remember are looked for. */
const MANY_SCOPES = 64;

/** Sums of fractions round. */
const EPSILON = 1e-9;

/** One that waits. */
interface Waiting {
  readonly lane: number;
  /** When it began to wait in this lane. */
  readonly since: number;
  readonly seenAt: number;
  /** When it will ask again, by what it was told. */
  readonly dueAt: number;
  readonly limits: readonly CreditLimit[];
  readonly least: readonly number[];
}

/** What is remembered of an owner. */
interface Owner {
  seenAt: number;
  asked: number;
  answer: Credit | CreditWait | undefined;
  corrected: number;
}

/** What a store keeps of one scope. */
class CreditScope {
  readonly windows = new Map<string, CountedWindow>();
  readonly waiting = new Map<string, Waiting>();
  readonly owners = new Map<string, Owner>();
  /** By lane, the part of a limit that it is owed, and when something waited in it last. */
  readonly owed: number[] = [];
  readonly waitedAt: number[] = [];
  heldUntil = -Infinity;
  epoch = 0;
  lessons: Readonly<Record<string, number>> = {};
  lessonAt = -Infinity;
  /** Until then there is something to remember. */
  keptUntil = -Infinity;
}

/** How a ledger begins. */
export interface LedgerOptions {
  /** Whether there may have been grants before it began, by one that has been lost. */
  readonly isLost: boolean;
  /** What another one has saved. */
  readonly saved?: SavedCredit | undefined;
}

/** A copy of a scope, as it is saved. */
interface PlainScope {
  readonly windows: readonly [key: string, window: Parameters<typeof CountedWindow.restored>[0]][];
  readonly waiting: readonly [id: string, waiting: Waiting][];
  readonly owners: readonly [id: string, owner: Owner][];
}

/**
 * What a store of credit decides: which owner gets how much of which limit. A question is answered in one step for all its limits: the whole of
 * `least`, or a wait. Order: a lane that is owed its floor, then the most urgent lane, then the owner that has waited longest. A question leaves
 * what those before it need, as long as they ask again when they were told to.
 */
export class CreditLedger {
  private readonly scopes = new Map<string, CreditScope>();
  private readonly isLost: boolean;
  private sweepAt = MANY_SCOPES;
  /** Until when grants may have been made that are not known: when it was first used, of one that began after another was lost. */
  private lostAt: number | undefined;
  /** Time does not go back. */
  private now = -Infinity;

  constructor({ isLost, saved }: LedgerOptions) {
    this.isLost = isLost;
    if (!saved) return;
    this.now = saved.at;
    this.lostAt = saved.lostAt;
    for (const [name, scope] of saved.scopes) this.scopes.set(name, restoredScope(liveCopy(scope) as PlainScope));
  }

  ask(question: CreditQuestion, time: number): Credit | CreditWait {
    const now = this.at(time);
    const scope = this.scopeOf(question.scope, now);
    const owner = ownerOf(scope, question.owner, now);
    if (question.number === owner.asked && owner.answer) return owner.answer;
    const limits = this.learn(scope, question, now);
    const holdMs = Math.max(0, scope.heldUntil - now);
    // One that was overtaken by a later one on its way.
    if (question.number < owner.asked) return waitOf(scope, limits, question, 1, holdMs);
    owner.asked = question.number;
    owner.answer = this.decide(scope, { ...question, limits }, holdMs, now);
    return owner.answer;
  }

  correct({ scope: name, owner: id, number, limits, guardMs, corrections }: CreditCorrections, time: number): void {
    const now = this.at(time);
    const scope = this.scopeOf(name, now);
    const owner = ownerOf(scope, id, now);
    if (number <= owner.corrected) return;
    owner.corrected = number;
    for (const limit of learnedLimits(scope, limits)) {
      const window = this.windowOf(scope, limit, guardMs, now);
      for (const { amounts, credit, lane } of corrections) {
        const delta = amounts[limit.column] ?? 0;
        if (delta !== 0 && lane >= limit.fromLane) window.correct(limit, delta, credit);
      }
    }
  }

  /** Nothing is granted for so long. A shorter pause never ends a longer one; one of 0 ends it. */
  hold(name: string, ms: number, time: number): void {
    const now = this.at(time);
    const scope = this.scopeOf(name, now);
    scope.heldUntil = ms === 0 ? -Infinity : Math.max(scope.heldUntil, now + ms);
    scope.keptUntil = Math.max(scope.keptUntil, scope.heldUntil);
  }

  save(time: number): SavedCredit {
    const at = this.at(time);
    return { at, lostAt: this.lostAt, scopes: [...this.scopes].map(([name, scope]) => [name, plainCopy(scope)]) };
  }

  private at(time: number): number {
    this.now = Math.max(this.now, time);
    if (this.isLost) this.lostAt ??= this.now;
    return this.now;
  }

  private scopeOf(name: string, now: number): CreditScope {
    const scope = this.scopes.get(name) ?? new CreditScope();
    forget(scope, now);
    scope.keptUntil = Math.max(scope.keptUntil, now + FORGET_MS);
    this.scopes.set(name, scope);
    if (this.scopes.size >= this.sweepAt) {
      for (const [each, { keptUntil }] of this.scopes) if (keptUntil <= now) this.scopes.delete(each);
      this.sweepAt = Math.max(MANY_SCOPES, 2 * this.scopes.size);
    }
    return scope;
  }

  private windowOf(scope: CreditScope, limit: CreditLimit, guardMs: number, now: number): CountedWindow {
    const known = scope.windows.get(limit.key);
    const { lostAt = -Infinity } = this;
    const isLost = limit.windowMs <= LONGEST_LOST_MS && now < lostAt + spanMs(limit, guardMs);
    const window = known ?? new CountedWindow(limit, guardMs, now, isLost);
    if (!known) scope.windows.set(limit.key, window);
    window.advance(limit, guardMs, now, scope.waiting.size > 0);
    scope.keptUntil = Math.max(scope.keptUntil, now + 2 * (limit.windowMs + guardMs));
    return window;
  }

  /** Takes up a lesson, if the owner has heard of all others. Answers the limits as they are learned. */
  private learn(scope: CreditScope, { epoch, lessons, limits }: CreditQuestion, now: number): CreditLimit[] {
    if (now - scope.lessonAt > LESSON_MS) scope.lessons = {};
    if (lessons && epoch === scope.epoch) {
      scope.epoch++;
      // Nothing can be kept to an amount of 0.
      scope.lessons = { ...scope.lessons, ...Object.fromEntries(Object.entries(lessons).filter(([, amount]) => amount > 0)) };
      scope.lessonAt = now;
    }
    return learnedLimits(scope, limits);
  }

  private decide(scope: CreditScope, question: CreditQuestion, holdMs: number, now: number): Credit | CreditWait {
    const { guardMs, lane, least, limits, most, owner } = question;
    const windows = limits.map((limit) => this.windowOf(scope, limit, guardMs, now));
    const others = [...scope.waiting].filter(([id]) => id !== owner).map(([, other]) => other);
    const known = scope.waiting.get(owner);
    // In another lane it begins anew.
    const since = known?.lane === lane ? known.since : now;
    // What a lane has saved up long ago, it is no longer owed.
    if (now - (scope.waitedAt[lane] ?? now) > LAPSE_MS) scope.owed[lane] = 0;
    scope.waitedAt[lane] = now;
    const isOwed = isOwedTo(scope, lane, least, limits);
    const before = others.filter((other) => {
      if (now >= other.dueAt + LATE_MS) return false;
      const isOtherOwed = isOwedTo(scope, other.lane, other.least, other.limits);
      return isOtherOwed === isOwed ? other.lane < lane || (other.lane === lane && other.since < since) : isOtherOwed;
    });
    let waitMs = holdMs;
    const rooms: number[] = most.slice();
    for (const [i, limit] of limits.entries()) {
      const { amount, column, fromLane } = limit;
      if (lane < fromLane) continue;
      const window = windows[i] as CountedWindow;
      const cost = least[column] as number;
      const ahead = before.reduce((sum, other) => sum + needOf(other, limit), 0);
      waitMs = Math.max(waitMs, window.waitMs(limit, cost, ahead, now));
      // There is never enough for both: until those that are ahead are granted, or late.
      if (ahead > 0 && cost + ahead > amount) waitMs = Math.max(waitMs, Math.min(...before.map(({ dueAt }) => dueAt)) + LATE_MS - now);
      rooms[column] = Math.min(rooms[column] as number, window.room(limit, now) - ahead);
    }
    if (waitMs > 0) {
      const wholeMs = Math.max(1, Math.ceil(waitMs));
      scope.waiting.set(owner, { lane, since, seenAt: now, dueAt: now + Math.min(wholeMs, ASK_AGAIN_MS), limits, least });
      return waitOf(scope, limits, question, wholeMs, holdMs);
    }
    const amounts = rooms.map((room, column) => Math.max(least[column] as number, room));
    scope.waiting.delete(owner);
    for (const [i, limit] of limits.entries())
      if (lane >= limit.fromLane) (windows[i] as CountedWindow).grant(limit, amounts[limit.column] as number, now);
    owe(scope, question, partOf(amounts, limits), others);
    return { credit: now, amounts, ...newsOf(scope, limits, question, 0) };
  }
}

function restoredScope({ owners, waiting, windows, ...scope }: PlainScope): CreditScope {
  return Object.assign(new CreditScope(), scope, {
    windows: new Map(windows.map(([key, window]) => [key, CountedWindow.restored(window)])),
    waiting: new Map(waiting),
    owners: new Map(owners),
  });
}

function ownerOf(scope: CreditScope, id: string, now: number): Owner {
  const known = scope.owners.get(id);
  const owner = known ?? { seenAt: now, asked: -1, answer: undefined, corrected: -1 };
  owner.seenAt = now;
  // The one that was heard of last stands last.
  scope.owners.delete(id);
  scope.owners.set(id, owner);
  return owner;
}

function needOf({ lane, least, limits }: Waiting, { fromLane, key }: CreditLimit): number {
  const limit = lane < fromLane ? undefined : limits.find((each) => each.key === key);
  return limit ? (least[limit.column] as number) : 0;
}

/** The largest part of a limit that these amounts are. */
function partOf(amounts: readonly number[], limits: readonly CreditLimit[]): number {
  return limits.reduce((part, { amount, column }) => Math.max(part, (amounts[column] as number) / amount), 0);
}

function isOwedTo({ owed }: CreditScope, lane: number, least: readonly number[], limits: readonly CreditLimit[]): boolean {
  const { [lane]: part = 0 } = owed;
  return part > 0 && part >= Math.min(1, partOf(least, limits)) * (1 - EPSILON);
}

/** A lane earns its floor of what is granted while it waits, and pays for what it gets. */
function owe({ owed }: CreditScope, { floors, lane }: CreditQuestion, granted: number, others: readonly Waiting[]): void {
  for (const [other, floor] of floors.entries()) {
    if (other !== lane && !others.some((each) => each.lane === other)) continue;
    const { [other]: before = 0 } = owed;
    owed[other] = Math.max(0, Math.min(1, before + (other === lane ? floor - 1 : floor) * granted));
  }
}

/** Each limit as it was declared, or as it was learned where that is less. */
function learnedLimits({ lessons }: CreditScope, limits: readonly CreditLimit[]): CreditLimit[] {
  const learned = new Map(Object.entries(lessons));
  return limits.map((limit) => ({ ...limit, amount: Math.min(limit.amount, learned.get(limit.key) ?? Infinity) }));
}

function waitOf(scope: CreditScope, limits: readonly CreditLimit[], question: CreditQuestion, waitMs: number, holdMs: number): CreditWait {
  return { waitMs, ...newsOf(scope, limits, question, holdMs) };
}

function newsOf({ epoch, lessons, windows }: CreditScope, limits: readonly CreditLimit[], { lane, most }: CreditQuestion, holdMs: number) {
  const left = most.map(() => Infinity);
  for (const limit of limits) {
    if (lane < limit.fromLane) continue;
    left[limit.column] = Math.min(left[limit.column] as number, windows.get(limit.key)?.left(limit) ?? limit.amount);
  }
  return { left, holdMs, epoch, lessons };
}

/** Forgets those that are gone. */
function forget({ owners, waiting }: CreditScope, now: number): void {
  for (const [id, { seenAt }] of waiting) if (now - seenAt > LAPSE_MS) waiting.delete(id);
  for (const [id, { seenAt }] of owners) {
    if (now - seenAt <= FORGET_MS) break;
    owners.delete(id);
  }
}
