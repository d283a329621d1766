import type { Credit, CreditCorrection, CreditLimit, CreditQuestion } from '../../operators/options/credit-store.js';

/** Amounts that differ by less are equal: they are sums of fractions. */
export const ROUNDING = 1e-5;

/** Between two times a store has granted something: when exactly, only the store knows. */
export interface Granted {
  readonly question: CreditQuestion;
  readonly credit: Credit;
  readonly sentAt: number;
  readonly heardAt: number;
}

interface Entry extends Granted {
  /** With all corrections since. */
  readonly net: number[];
}

/**
 * What a provider may count of everything that was granted: each credit arrives at the worst moment from its grant to the end of its guard. It adds up anew for
 * each grant, without any cleverness. Of a grant in real time it takes what is certain, so that a slow machine breaks no law.
 */
export class Arrivals {
  private entries: Entry[] = [];

  /** @param guardPart - part of the guard for which credit is spent */
  constructor(private readonly guardPart: number) {}

  /** Adds a grant. Answers what is wrong with it. */
  add(granted: Granted): string[] {
    const { credit, heardAt, question } = granted;
    const { lane, least, limits, most, scope } = question;
    const faults: string[] = [];
    for (const [column, need] of least.entries()) {
      const { [column]: amount = Number.NaN } = credit.amounts;
      const wanted = Math.max(need, most[column] as number);
      if (!(amount >= need - ROUNDING && amount <= wanted + ROUNDING))
        faults.push(`granted ${String(amount)}, asked for ${String(need)} to ${String(wanted)}`);
    }
    if (faults.length > 0) return faults;
    this.entries.push({ ...granted, net: [...credit.amounts] });
    for (const limit of limits) {
      if (lane < limit.fromLane) continue;
      const since = limit.endsInMs === undefined ? heardAt - limit.windowMs : granted.sentAt + limit.endsInMs - limit.windowMs;
      const used = this.used(scope, limit, since);
      if (used > limit.amount + ROUNDING)
        faults.push(
          `a window of ${JSON.stringify(limit.key)} may get ${String(used)} of ${String(limit.amount)}, counted from each grant to grant + guardMs`,
        );
    }
    return faults;
  }

  /** Books corrections that the store books. */
  correct(scope: string, corrections: readonly CreditCorrection[]): void {
    for (const { amounts, credit, lane } of corrections) {
      const entry = this.entries.find(
        (each) => each.credit.credit === credit && each.question.lane === lane && each.question.scope === scope,
      );
      if (entry) for (const [column, amount] of amounts.entries()) entry.net[column] = (entry.net[column] as number) + amount;
    }
  }

  /** Most that arrives after a time. */
  private used(scope: string, { fromLane, key }: CreditLimit, since: number): number {
    let used = 0;
    for (const { net, question, sentAt } of this.entries) {
      if (question.scope !== scope || question.lane < fromLane || sentAt + question.guardMs * this.guardPart <= since) continue;
      const its = question.limits.find((limit) => limit.key === key);
      if (its) used += net[its.column] as number;
    }
    return used;
  }
}
