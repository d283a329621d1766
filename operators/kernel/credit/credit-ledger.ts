import { CountedWindow } from './counted-window.js';
import type { Credit, CreditCorrections, CreditLimit, CreditQuestion, CreditWait } from './credit.js';

/** Who has not asked again for so long no longer waits. */
const LAPSE_MS = 1500;

/** Answers and numbers of an owner that has not been heard of for so long are forgotten. */
const FORGET_MS = 600_000;

/** What was learned holds for so long, unless something is learned anew. */
const LESSON_MS = 300_000;

/** Windows up to this length begin evenly where what was granted before may have been lost. */
const LONGEST_LOST_MS = 600_000;

/** One that waits. */
interface Waiting {
  readonly lane: number;
  /** When it began to wait in this lane. */
  readonly since: number;
  readonly seenAt: number;
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
  /** By lane, the part of a limit that it is owed. */
  readonly owed: number[] = [];
  heldUntil = -Infinity;
  epoch = 0;
  lessons: Record<string, number> = {};
  lessonAt = -Infinity;
}

/** How a ledger begins. */
export interface LedgerOptions {
  /** Whether there may have been grants before it began, by one that has been lost. */
  readonly isLost: boolean;
}

/**
 * What a store of credit decides: who gets how much of which limit. A question is answered in one step for all its limits: the whole of `least`, or a
 * wait. Whose turn it is: a lane that is owed its floor, then the most urgent lane, then who has waited longest. Less urgent questions leave what those
 * before them need.
 */
export class CreditLedger {
  private readonly scopes = new Map<string, CreditScope>();
  private readonly isLost: boolean;
  /** Time does not go back. */
  private now = -Infinity;

  constructor({ isLost }: LedgerOptions) {
    this.isLost = isLost;
  }

  ask(question: CreditQuestion, time: number): Credit | CreditWait {
    const now = this.at(time);
    const scope = this.scopeOf(question.scope);
    const owner = ownerOf(scope, question.owner, now);
    if (question.number === owner.asked && owner.answer) return owner.answer;
    const { holdMs, limits } = this.learn(scope, question, now);
    // One that was overtaken by a later one on its way.
    if (question.number < owner.asked) return waitOf(scope, limits, question, 1, holdMs);
    owner.asked = question.number;
    owner.answer = this.decide(scope, { ...question, limits }, holdMs, now);
    return owner.answer;
  }

  correct({ scope: name, owner: id, number, limits, guardMs, corrections }: CreditCorrections, time: number): void {
    const now = this.at(time);
    const scope = this.scopeOf(name);
    const owner = ownerOf(scope, id, now);
    if (number <= owner.corrected) return;
    owner.corrected = number;
    for (const limit of limits) {
      const window = this.windowOf(scope, limit, guardMs, now);
      for (const { amounts, credit, lane } of corrections) {
        const delta = amounts[limit.column] ?? 0;
        if (delta !== 0 && lane >= limit.fromLane) window.correct(limit, guardMs, delta, credit, now);
      }
    }
  }

  /** Nothing is granted for so long. A shorter pause never ends a longer one; one of 0 ends it. */
  hold(name: string, ms: number, time: number): void {
    const now = this.at(time);
    const scope = this.scopeOf(name);
    scope.heldUntil = ms === 0 ? -Infinity : Math.max(scope.heldUntil, now + ms);
  }

  private at(time: number): number {
    return (this.now = Math.max(this.now, time));
  }

  private scopeOf(name: string): CreditScope {
    const known = this.scopes.get(name);
    if (known) return known;
    const scope = new CreditScope();
    this.scopes.set(name, scope);
    return scope;
  }

  private windowOf(scope: CreditScope, limit: CreditLimit, guardMs: number, now: number): CountedWindow {
    const known = scope.windows.get(limit.key);
    const window = known ?? new CountedWindow(limit, guardMs, now, this.isLost && limit.windowMs <= LONGEST_LOST_MS);
    if (!known) scope.windows.set(limit.key, window);
    window.advance(limit, guardMs, now);
    return window;
  }

  /** Takes up a lesson, if the owner has heard of all others. Answers the limits as they are learned. */
  private learn(scope: CreditScope, { epoch, lessons, limits }: CreditQuestion, now: number): { limits: CreditLimit[]; holdMs: number } {
    if (now - scope.lessonAt > LESSON_MS) scope.lessons = {};
    if (lessons && epoch === scope.epoch) {
      scope.epoch++;
      scope.lessons = { ...scope.lessons, ...lessons };
      scope.lessonAt = now;
    }
    const learned = new Map(Object.entries(scope.lessons));
    return {
      limits: limits.map((limit) => ({ ...limit, amount: Math.min(limit.amount, learned.get(limit.key) ?? Infinity) })),
      holdMs: Math.max(0, scope.heldUntil - now),
    };
  }

  private decide(scope: CreditScope, question: CreditQuestion, holdMs: number, now: number): Credit | CreditWait {
    const { guardMs, lane, least, limits, most, owner } = question;
    const windows = limits.map((limit) => this.windowOf(scope, limit, guardMs, now));
    const others = [...scope.waiting].filter(([id, { seenAt }]) => id !== owner && now - seenAt <= LAPSE_MS).map(([, other]) => other);
    const since = sinceOf(scope.waiting.get(owner), lane, now);
    const isOwed = isOwedTo(scope, lane, least, limits);
    const before = others.filter((other) => {
      const isOtherOwed = isOwedTo(scope, other.lane, other.least, other.limits);
      return isOtherOwed === isOwed ? other.lane < lane || (other.lane === lane && other.since < since) : isOtherOwed;
    });
    let waitMs = holdMs;
    const rooms: number[] = most.slice();
    for (const [i, limit] of limits.entries()) {
      const { column, fromLane } = limit;
      if (lane < fromLane) continue;
      const window = windows[i] as CountedWindow;
      const cost = least[column] as number;
      const ahead = before.reduce((sum, other) => sum + needOf(other, limit), 0);
      waitMs = Math.max(waitMs, window.waitMs(limit, guardMs, cost, ahead, now));
      rooms[column] = Math.min(rooms[column] as number, window.room(limit, now) - ahead);
    }
    forget(scope, now);
    if (waitMs > 0) {
      scope.waiting.set(owner, { lane, since, seenAt: now, limits, least });
      return waitOf(scope, limits, question, Math.max(1, Math.ceil(waitMs)), holdMs);
    }
    const amounts = rooms.map((room, column) => Math.max(least[column] as number, room));
    scope.waiting.delete(owner);
    for (const [i, limit] of limits.entries())
      if (lane >= limit.fromLane) (windows[i] as CountedWindow).grant(amounts[limit.column] as number);
    owe(scope, question, partOf(amounts, limits), others);
    return { credit: now, amounts, ...newsOf(scope, limits, question, 0) };
  }
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

/** In the order in which they waited; one that waits in another lane now begins anew. */
function sinceOf(known: Waiting | undefined, lane: number, now: number): number {
  return known?.lane === lane && now - known.seenAt <= LAPSE_MS ? known.since : now;
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
  return part > 0 && part >= Math.min(1, partOf(least, limits));
}

/** Lanes below that wait save up their floor of what was granted; a lane in which nothing waits saves up nothing. */
function owe({ owed }: CreditScope, { floors, lane }: CreditQuestion, granted: number, others: readonly Waiting[]): void {
  for (const [other, floor] of floors.entries()) {
    const { [other]: before = 0 } = owed;
    if (other === lane) owed[other] = Math.max(0, before - granted);
    else if (!others.some((each) => each.lane === other)) owed[other] = 0;
    else if (other > lane) owed[other] = Math.min(1, before + floor * granted);
  }
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

/** Forgets who is gone. */
function forget({ owners, waiting }: CreditScope, now: number): void {
  for (const [id, { seenAt }] of waiting) if (now - seenAt > LAPSE_MS) waiting.delete(id);
  for (const [id, { seenAt }] of owners) {
    if (now - seenAt <= FORGET_MS) break;
    owners.delete(id);
  }
}
