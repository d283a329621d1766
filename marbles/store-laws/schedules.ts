import type { CreditLimit } from '../../operators/options/credit-store.js';
import type { Trial } from './trial.js';

const OWNERS = ['a', 'b', 'c', 'd'];

/** One thing that is said to a store. Numbers from 0 to 1 are parts of what there is. */
type Step =
  | { readonly does: 'ask'; readonly who: number; readonly cost: number; readonly more: number; readonly unit: number }
  | { readonly does: 'correct'; readonly which: number; readonly part: number; readonly isAgain: boolean }
  | { readonly does: 'wait'; readonly ms: number }
  | { readonly does: 'hold'; readonly part: number }
  | { readonly does: 'restart' };

/** A schedule as data, so that steps can be left out of it. */
export interface Schedule {
  readonly limits: readonly LimitPlan[];
  /** By owner, the part of the amounts that it keeps to: processes with another configuration. */
  readonly shares: readonly number[];
  readonly steps: readonly Step[];
}

interface LimitPlan {
  readonly amount: number;
  readonly windows: number;
  readonly burst?: number;
  readonly column?: number;
  readonly fromLane?: number;
  readonly isCalendar?: true;
}

/** The limits that a schedule may have. */
const LIMITS: readonly (readonly LimitPlan[])[] = [
  [{ amount: 1000, windows: 1 }],
  [{ amount: 1000, windows: 1, burst: 30 }],
  [
    { amount: 1000, windows: 1, burst: 30 },
    { amount: 1500, windows: 3 },
  ],
  [
    { amount: 1000, windows: 1 },
    { amount: 20, windows: 1, burst: 4, column: 1 },
  ],
  [
    { amount: 1000, windows: 1, burst: 220 },
    { amount: 800, windows: 1, burst: 20, fromLane: 1 },
  ],
  [
    { amount: 1000, windows: 1 },
    { amount: 700, windows: 1, fromLane: 1 },
  ],
  [
    { amount: 1000, windows: 4, isCalendar: true },
    { amount: 600, windows: 1 },
  ],
];

/** Draws a schedule. Waits are those at the edges of windows and guards, and others. */
export function drawSchedule(trial: Trial, count: number): Schedule {
  const { canRestart, guardMs, isVirtual, windowMs } = trial;
  const edges = [windowMs, windowMs + guardMs, windowMs - guardMs];
  const wait = (): number => {
    const edge = trial.one(edges);
    return Math.max(
      1,
      trial.one([1, trial.whole(1, guardMs), trial.whole(1, windowMs / 4), edge, edge - 1, edge - trial.whole(0, guardMs), edge / 2]),
    );
  };
  const step = (): Step => {
    const kind = trial.random();
    if (kind < 0.5)
      return {
        does: 'ask',
        who: trial.whole(0, 3),
        cost: trial.one([0.001, 0.01, 0.05, 0.1, 0.3, 1]) * trial.random(),
        more: trial.random(),
        unit: trial.random(),
      };
    if (kind < 0.78) return { does: 'wait', ms: isVirtual ? wait() : wait() / 2 };
    if (kind < 0.94)
      return {
        does: 'correct',
        which: trial.whole(0, 2),
        part: trial.one([-1, -0.5, -trial.random(), 0.1, 0.3]),
        isAgain: trial.random() < 0.3,
      };
    if (kind < 0.98 || !canRestart) return { does: 'hold', part: trial.one([0, trial.random() / 3]) };
    return { does: 'restart' };
  };
  return {
    limits: trial.one(LIMITS),
    shares: trial.one([
      [1, 1, 1, 1],
      [1, 1, 1, 1],
      [1, 0.5, 1, 0.7],
    ]),
    steps: Array.from({ length: count }, step),
  };
}

/** Plays a schedule. The trial fails when a window gets too much. */
export async function play(trial: Trial, { limits: plans, shares, steps }: Schedule): Promise<void> {
  const columns = 1 + Math.max(...plans.map(({ column = 0 }) => column));
  const limitsOf = (share: number): CreditLimit[] =>
    plans.map(({ amount, burst, column = 0, fromLane = 0, isCalendar, windows }) => {
      const windowMs = windows * trial.windowMs;
      const endsInMs = isCalendar && windowMs - (trial.now() % windowMs);
      return trial.limit({
        ...{ amount: amount * share, windowMs, column, fromLane },
        ...(burst !== undefined && { burst: burst * share }),
        ...(endsInMs !== undefined && { endsInMs }),
      });
    });
  const held: { readonly owner: string; readonly lane: number; readonly credit: number; readonly left: number[]; number: number }[] = [];
  for (const step of steps) {
    if (step.does === 'wait') await trial.wait(step.ms);
    else if (step.does === 'hold') await trial.hold(step.part * trial.windowMs);
    else if (step.does === 'restart') await trial.restart();
    else if (step.does === 'ask') {
      const owner = OWNERS[step.who] as string;
      const limits = limitsOf(shares[step.who] as number);
      const most = (column: number): number => Math.min(...limits.filter((limit) => limit.column === column).map(({ amount }) => amount));
      const least = [step.cost * most(0), ...(columns > 1 ? [Math.floor(step.unit * step.unit * most(1))] : [])];
      const lane = step.who % 2;
      const { credit } = await trial.ask({
        owner,
        limits,
        lane,
        floors: [0, 0.1],
        least,
        most: least.map((need) => need * (1 + step.more)),
      });
      if (credit) held.push({ owner, lane, credit: credit.credit, left: [...credit.amounts], number: 0 });
    } else {
      const one = held[held.length - 1 - step.which];
      if (!one) continue;
      const { credit, lane, left, owner } = one;
      const limits = limitsOf(shares[OWNERS.indexOf(owner)] as number);
      const amounts = left.map((amount) => amount * step.part);
      const number = await trial.correct({ owner, limits, corrections: [{ credit, lane, amounts }] });
      if (step.isAgain) await trial.correct({ owner, limits, number, corrections: [{ credit, lane, amounts }] });
      for (const [column, amount] of amounts.entries()) left[column] = (left[column] as number) + amount;
    }
  }
}

/** The shortest schedule that fails as well, as far as a few tries find it. */
export async function shortest(schedule: Schedule, fails: (schedule: Schedule) => Promise<unknown>, first: unknown): Promise<unknown> {
  let [best, failure] = [schedule, first];
  for (let size = Math.ceil(best.steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < best.steps.length; ) {
      const fewer = { ...best, steps: [...best.steps.slice(0, from), ...best.steps.slice(from + size)] };
      const found = await fails(fewer);
      if (found === undefined) from += size;
      else [best, failure] = [fewer, found];
    }
  }
  return failure;
}
