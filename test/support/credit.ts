import type { Credit, CreditCorrections, CreditLimit, CreditQuestion, CreditWait } from '../../operators/index.js';

/** What `isCredit` of the kernel says, from outside. */
export function isGranted(answer: Credit | CreditWait): answer is Credit {
  return 'credit' in answer;
}

/** One limit of a unit, by default the first of the question. */
export function limit(of: Partial<CreditLimit> & Pick<CreditLimit, 'amount' | 'windowMs'>): CreditLimit {
  const column = of.column ?? 0;
  const fromLane = of.fromLane ?? 0;
  const kind = of.endsInMs === undefined ? (of.burst === undefined ? 'window' : 'bucket') : 'calendar';
  return { key: `${String(column)}/${String(of.windowMs)}/${kind}/${String(fromLane)}`, column, fromLane, ...of };
}

/** A question with what most of them have. */
export function question(of: Partial<CreditQuestion> & Pick<CreditQuestion, 'limits' | 'least'>): CreditQuestion {
  return { scope: 's', owner: 'a', number: 1, guardMs: 200, lane: 0, floors: [0], most: of.least, epoch: 0, ...of };
}

/** Corrections with what most of them have. */
export function corrections(of: Partial<CreditCorrections> & Pick<CreditCorrections, 'limits' | 'corrections'>): CreditCorrections {
  return { scope: 's', owner: 'a', number: 1, guardMs: 200, ...of };
}

export interface LoggedGrant {
  readonly at: number;
  readonly guardMs: number;
  readonly owner: string;
  readonly lane: number;
  readonly credit: number;
  readonly limits: readonly CreditLimit[];
  /** As granted. */
  readonly amounts: readonly number[];
  /** With all corrections since. */
  readonly net: number[];
}

/** Everything that one scope of a store was asked and has answered, added up anew for each question: what it may grant, without any cleverness. */
export class CreditLog {
  readonly grants: LoggedGrant[] = [];
  private readonly numbers = new Map<string, number>();
  /** When a calendar window began that contains a time. */
  private readonly beginOf: (limit: CreditLimit, now: number) => number;

  constructor(beginOf: (limit: CreditLimit, now: number) => number = ({ endsInMs = 0, windowMs }, now) => now + endsInMs - windowMs) {
    this.beginOf = beginOf;
  }

  /** Most that can arrive in a window that contains `now`: each credit is spent at the worst moment, at the latest when its guard is over. */
  used(limit: CreditLimit, now: number): number {
    const since = limit.endsInMs === undefined ? now - limit.windowMs : this.beginOf(limit, now);
    let used = 0;
    for (let i = this.grants.length - 1; i >= 0; i--) {
      const { at, guardMs, lane, limits, net } = this.grants[i]!;
      if (at + guardMs <= since || lane < limit.fromLane) continue;
      const its = limits.find(({ key }) => key === limit.key);
      if (its) used += net[its.column]!;
    }
    return used;
  }

  /** Adds a grant. Answers what is wrong with it. */
  granted({ guardMs, lane, least, limits, most, owner }: CreditQuestion, { amounts, credit }: Credit, now: number): string[] {
    this.grants.push({ at: now, guardMs, owner, lane, credit, limits, amounts, net: [...amounts] });
    const faults: string[] = [];
    for (const [column, amount] of amounts.entries())
      if (!(amount >= least[column]!) || amount > Math.max(least[column]!, most[column]!) + 1e-6)
        faults.push(`granted ${String(amount)} of ${String(least[column])} to ${String(most[column])}`);
    for (const each of limits) {
      const used = this.used(each, now);
      // A job that costs more than the amount goes when nothing else was granted.
      const allowed = Math.max(each.amount, least[each.column]!);
      if (lane >= each.fromLane && used > allowed + 1e-5)
        faults.push(`at ${String(now)} ${String(used)} are out in a window of ${each.key}, ${String(allowed)} are allowed`);
    }
    return faults;
  }

  /** Books corrections that the store has not booked. */
  corrected({ corrections: all, number, owner }: CreditCorrections): void {
    if (number <= (this.numbers.get(owner) ?? -1)) return;
    this.numbers.set(owner, number);
    for (const { amounts, credit, lane } of all) {
      const grant = this.grants.find((each) => each.credit === credit && each.lane === lane && each.owner === owner);
      for (const [column, amount] of amounts.entries()) if (grant) grant.net[column]! += amount;
    }
  }

  /** Forgets what no window contains any more. */
  forget(before: number): void {
    const first = this.grants.findIndex(({ at }) => at >= before);
    if (first > 0) this.grants.splice(0, first);
  }
}

/** An owner that asks for as much as it gets. */
export interface Flooder {
  readonly owner: string;
  readonly lane?: number;
  readonly least: readonly number[];
  readonly most?: readonly number[];
  /** How long it takes from a grant to its next question. */
  readonly thinkMs?: number;
  /** How late it asks again when it was told to wait. */
  readonly lateMs?: number;
  /** It asks every ms, whatever it was told. */
  readonly isRude?: boolean;
  readonly from?: number;
  readonly until?: number;
  readonly guardMs?: number;
  readonly limits?: readonly CreditLimit[];
}

interface Asker extends Flooder {
  at: number;
  number: number;
  since: number;
}

export interface Flood {
  /** By owner, what was granted of each unit. */
  readonly got: ReadonlyMap<string, readonly number[]>;
  /** By owner, the longest time from a question to its grant. */
  readonly waited: ReadonlyMap<string, number>;
  readonly asked: number;
  readonly faults: readonly string[];
}

/** Lets owners ask from one time to another. Of those that ask at the same time the first in the list comes first. */
export function flood(
  ask: (question: CreditQuestion, now: number) => Credit | CreditWait,
  flooders: readonly Flooder[],
  of: {
    readonly limits: readonly CreditLimit[];
    readonly from: number;
    readonly until: number;
    readonly floors?: readonly number[];
    readonly log?: CreditLog;
  },
): Flood {
  const askers = flooders.map((each): Asker => ({ ...each, at: each.from ?? of.from, number: 0, since: each.from ?? of.from }));
  const got = new Map(flooders.map(({ owner, least }) => [owner, least.map(() => 0)]));
  const waited = new Map(flooders.map(({ owner }) => [owner, 0]));
  const faults: string[] = [];
  let asked = 0;
  for (;;) {
    let next: Asker | undefined;
    for (const each of askers)
      if (each.at < Math.min(of.until, each.until ?? Infinity) && (next === undefined || each.at < next.at)) next = each;
    if (next === undefined) break;
    const { at: now, owner, lane = 0, least, most = least, guardMs = 200, limits = of.limits } = next;
    const floors = of.floors ?? [0, 0, 0, 0];
    const asks = question({ owner, number: ++next.number, lane, least, most, guardMs, limits, floors });
    const answer = ask(asks, now);
    asked++;
    waited.set(owner, Math.max(waited.get(owner)!, now - next.since));
    if (isGranted(answer)) {
      if (of.log) faults.push(...of.log.granted(asks, answer, now));
      for (const [column, amount] of answer.amounts.entries()) got.get(owner)![column]! += amount;
      next.at = next.since = now + (next.thinkMs ?? 1);
    } else next.at = now + (next.isRude ? 1 : Math.min(answer.waitMs, 500) + (next.lateMs ?? 0));
  }
  return { got, waited, asked, faults };
}
