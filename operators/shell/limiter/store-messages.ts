import type { Credit, CreditQuestion, CreditWait } from '../../kernel/credit/credit.js';
import type { WorkResult } from '../../options/types.js';
import { Call } from '../calls/call.js';

/** Amounts that differ by less are equal: they are sums of fractions. */
const ROUNDING = 1e-6;

/** One question, or another message, until it is answered. */
export class Message<R> extends Call<R> {
  constructor(
    private readonly send: () => WorkResult<R>,
    private readonly answeredWith: (answer: R, isEmpty: boolean) => void,
    private readonly lost: () => void,
  ) {
    super();
  }

  work(): WorkResult<R> {
    return this.send();
  }

  done(answer: R, isEmpty: boolean): void {
    this.answeredWith(answer, isEmpty);
  }

  failed(): void {
    this.lost();
  }
}

/** A question until it is answered. */
export interface OpenQuestion {
  readonly question: CreditQuestion;
  /** What the job costs that it was asked for. */
  readonly costs: readonly number[];
  readonly askedAt: number;
}

/** Whether it is one: a store may be written by others, and its answers come from outside. */
export function isAnswer(answer: unknown, { least }: CreditQuestion): answer is Credit | CreditWait {
  const { amounts, left, waitMs } = Object(answer) as Partial<Credit & CreditWait>;
  if (!Array.isArray(left)) return false;
  return Array.isArray(amounts) ? least.every((cost, column) => (amounts[column] as number) >= cost - ROUNDING) : (waitMs as number) > 0;
}

/** Tells it from all others, in whatever process. */
export function ownerId(): string {
  const part = (): string => Math.random().toString(36).slice(2, 12);
  return part() + part() + part();
}
