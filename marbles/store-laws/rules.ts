import { isCredit } from '../../operators/kernel/credit/credit.js';
import type { CreditLimit } from '../../operators/options/credit-store.js';
import type { StoreLaw } from './law.js';
import { drawSchedule } from './schedules.js';
import type { Trial } from './trial.js';
import { nameOf } from './trial.js';
import { turnLaws } from './turns.js';

const AMOUNT = 1000;
const SCOPE_NAMES = [
  ...['account', 'Account', ' account', 'account ', '__proto__', 'constructor', 'toString', 'hasOwnProperty', 'a:b', 'a', 'b', 'a b'],
  ...[
    'a\nb',
    'a\u0000b',
    '{"a":1}',
    '[]',
    '*',
    '?',
    '../..',
    '%00',
    "'; drop table credit; --",
    '${a}',
    '🧮',
    'é',
    'e\u0301',
    'x'.repeat(600),
  ],
];

/** Steps of one drawn schedule. */
const STEPS = 80;

/** Every law, in the order in which a reader wants them to fail. */
export const storeLaws: readonly StoreLaw[] = [
  {
    title: 'gives all of `least`, or lets the owner wait',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT }), trial.limit({ amount: 50, column: 1 })];
      await trial.warmUp(limits);
      for (let i = 0; i < 12; i++) {
        // The arrivals of the trial look at what was granted.
        const least = [trial.whole(0, AMOUNT / 4), trial.whole(0, 12)];
        await trial.ask({ owner: trial.one(['a', 'b']), limits, least, most: least.map((need) => need + trial.whole(0, need)) });
      }
      const least = [AMOUNT / 2, 20];
      trial.demand(
        (await trial.askUntil({ owner: 'c', limits, least }, 6 * (trial.windowMs + trial.guardMs) + 500)) !== undefined,
        'an owner that asks when it is told to gets nothing',
      );
    },
  },

  {
    title: 'gives no window of any limit more than its amount',
    draw: (trial) => drawSchedule(trial, trial.isVirtual ? STEPS : STEPS / 2),
  },

  {
    title: 'gives a window no more at its edge',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      await whole(trial, limits, 'a');
      const cost = AMOUNT / trial.whole(1, 10);
      const early = trial.isVirtual ? trial.whole(1, trial.guardMs) : trial.guardMs * (0.3 + 0.5 * trial.random());
      await trial.wait(trial.windowMs + trial.guardMs - early);
      // Credit that was granted first may arrive as late as its guard: until then it counts.
      for (const owner of ['b', 'c']) await trial.ask({ owner, limits, least: [cost] });
      trial.demand(
        (await trial.askUntil({ owner: 'b', limits, least: [cost] }, 2 * (trial.windowMs + trial.guardMs) + 500)) !== undefined,
        'nothing is granted after the window',
      );
    },
  },

  {
    title: 'gives the same number of an owner the same answer',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      const cost = trial.whole(10, AMOUNT / 2);
      const first = await trial.ask({ owner: 'a', limits, least: [cost], most: [cost + trial.whole(0, 100)] });
      const paid = first.credit?.amounts[0];
      if (paid === undefined) return trial.fail('nothing is granted although nothing was spent');
      const other = await trial.ask({ owner: 'b', limits, least: [1] });
      const isSame = async (one: typeof first, over: object = {}): Promise<void> => {
        const again = await trial.ask({ ...one.question, ...over });
        trial.demand(
          JSON.stringify(again.answer) === JSON.stringify(one.answer),
          `number ${String(one.question.number)} of ${JSON.stringify(one.question.owner)} got ${JSON.stringify(one.answer)} before, and ${JSON.stringify(again.answer)} now`,
        );
      };
      await isSame(first);
      if (trial.canRestart && trial.random() < 0.5) await trial.restart();
      await trial.wait(trial.windowMs * 0.2 * trial.random());
      await isSame(first, { least: [cost / 2], most: [cost * 2] });
      await isSame(other);
      // It was charged once.
      const rest = AMOUNT - paid - (other.credit?.amounts[0] ?? 0);
      await demandGranted(trial, limits, 'c', rest, 'a repeated question is charged again');
      const waits = await trial.ask({ owner: 'd', limits, least: [10] });
      await isSame(waits);
    },
  },

  {
    title: 'grants nothing to a question that a later one has overtaken',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      const number = trial.whole(5, 50);
      await trial.ask({ owner: 'a', limits, least: [10], number });
      const late = await trial.ask({ owner: 'a', limits, least: [10], number: number - trial.whole(1, 4) });
      trial.demand(!late.credit, 'the owner no longer waits for the answer: the credit would be lost');
    },
  },

  {
    title: 'books what credits have cost, and the same number once',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT }), trial.limit({ amount: AMOUNT * 2, column: 1 })];
      await trial.warmUp(limits);
      const { credit } = await trial.ask({ owner: 'a', limits, least: [AMOUNT, AMOUNT] });
      if (!credit) return trial.fail('a window of which nothing was spent is not granted at once');
      const back = trial.whole(100, AMOUNT / 3);
      const corrections = [{ credit: credit.credit, lane: 0, amounts: [-back, 0] }];
      const number = await trial.correct({ owner: 'a', limits, corrections });
      await trial.correct({ owner: 'a', limits, corrections, number });
      await demandGranted(trial, limits, 'b', back, 'what came back is not there', 0);
      await demandWait(trial, limits, 'c', 1, 'a correction was booked twice', 0);
      await trial.correct({ owner: 'a', limits, corrections: [{ credit: credit.credit, lane: 0, amounts: [-back, 50] }] });
      await trial.correct({ owner: 'a', limits, corrections, number });
      await demandGranted(trial, limits, 'b', back, 'the second correction of an owner is not booked', 0);
      await demandWait(trial, limits, 'c', 1, 'a correction was booked twice after another one', 0);
      // An owner of its own numbers: the same number is another correction.
      const second = await trial.ask({ owner: 'd', limits, least: [0, AMOUNT - 50], lane: 0 });
      if (!second.credit) return trial.fail('the second unit of a correction was not booked as it was told');
      await trial.correct({ owner: 'd', limits, number, corrections: [{ credit: second.credit.credit, lane: 0, amounts: [0, -100] }] });
      await demandGranted(trial, limits, 'e', 100, 'a correction of another owner with the same number is not booked', 1);
    },
  },

  {
    title: 'ignores corrections of a credit that it does not know',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      const old = await trial.ask({ owner: 'a', limits, least: [300] });
      await trial.wait(3 * (trial.windowMs + trial.guardMs) + 100);
      const before = await trial.askUntil({ owner: 'b', limits, least: [AMOUNT - 100] }, 2 * trial.windowMs);
      if (!old.credit || !before) return trial.fail('a window of which nothing was spent is not granted at once');
      const unknown = [old.credit.credit, old.credit.credit - 1e6, -1e6];
      for (const credit of unknown) {
        const amounts = [trial.one([-300, -50])];
        await trial.correct({ owner: 'a', limits, corrections: [{ credit, lane: 0, amounts }] });
      }
      await demandWait(trial, limits, 'c', 101, 'something came back of a credit whose window is over');
      await trial.correct({ owner: 'a', limits, corrections: unknown.map((credit) => ({ credit, lane: 0, amounts: [90] })) });
      await demandGranted(trial, limits, 'c', 100, 'something was charged to a credit whose window is over');
    },
  },

  {
    title: 'charges several limits in one step, or none',
    check: async (trial) => {
      const limits = [
        trial.limit({ amount: AMOUNT }),
        trial.limit({ amount: 3 * AMOUNT, windowMs: 3 * trial.windowMs }),
        trial.limit({ amount: 10, column: 1 }),
      ];
      await trial.warmUp(limits);
      await trial.wait(6 * trial.windowMs);
      const part = trial.whole(50, AMOUNT / 2);
      await demandBoth(trial, limits, 'a', [part, 8], 'a window of which nothing was spent is not granted at once');
      // One has enough, the other has not.
      for (let i = trial.whole(1, 3); i > 0; i--) {
        const { credit } = await trial.ask({ owner: 'b', limits, lane: 1, floors: [0, 0], least: [part / 2, 3] });
        trial.demand(!credit, 'a question is granted although one of its limits has too little');
      }
      await demandBoth(trial, limits, 'c', [AMOUNT - part, 2], 'a question that has to wait is charged for the limit that had enough');
      const { credit } = await trial.ask({ owner: 'd', limits, least: [1, 0] });
      trial.demand(!credit, 'a grant is not charged to all its limits');
    },
  },

  {
    title: 'grants nothing during a hold, and keeps the longest',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      const { windowMs } = trial;
      await trial.warmUp(limits);
      const ms = windowMs * (1 + trial.random());
      const { heardAt, sentAt } = await trial.hold(ms);
      const isHeld = async (problem: string): Promise<void> => {
        const { answer, heardAt: at } = await trial.ask({
          owner: trial.one(['a', 'b']),
          lane: trial.whole(0, 1),
          floors: [0, 0.1],
          limits,
          least: [1],
        });
        if (at >= sentAt + ms - 1) return;
        trial.demand(!isCredit(answer), problem);
        trial.demand(answer.holdMs > 0 && answer.holdMs <= heardAt + ms - sentAt, `the answer says a hold of ${String(answer.holdMs)} ms`);
      };
      await isHeld('credit is granted during a hold');
      await trial.hold(ms * 0.2 * trial.random());
      await trial.wait(windowMs * 0.3);
      await isHeld('a shorter hold ends a longer one');
      if (trial.canRestart) await trial.restart();
      await isHeld('a restart ends a hold');
      await demandGranted(trial, limits, 'a', 1, 'a hold of another scope stops this one', 0, 'another');
      await trial.wait(Math.max(0, heardAt + ms - trial.now()) + 1);
      const after = await trial.askUntil({ owner: 'a', limits, least: [1] }, windowMs);
      trial.demand(after !== undefined, 'nothing is granted after a hold');
      await trial.hold(50 * windowMs);
      await trial.hold(0);
      await demandGranted(trial, limits, 'b', 1, 'a hold of 0 does not end a hold');
    },
  },

  {
    title: 'keeps the newest lesson',
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      const key = (limits[0] as CreditLimit).key;
      await trial.warmUp(limits);
      await whole(trial, limits, 'a');
      const knows = new Map<string, number>();
      let [epoch, amount] = [0, AMOUNT];
      for (let i = 0; i < 10; i++) {
        const owner = trial.one(['a', 'b', 'c']);
        const learned = trial.random() < 0.7 ? trial.whole(AMOUNT / 4, AMOUNT / 2) : undefined;
        const heard = knows.get(owner) ?? 0;
        const isNewest = heard === epoch;
        const { answer } = await trial.ask({
          ...{ owner, limits, epoch: heard, least: [AMOUNT], most: [AMOUNT] },
          ...(learned !== undefined && { lessons: { [key]: learned } }),
        });
        if (learned !== undefined && isNewest) [epoch, amount] = [epoch + 1, learned];
        trial.demand(
          answer.epoch === epoch,
          `the store is at epoch ${String(answer.epoch)}; ${String(epoch)} lessons came from owners that had heard of all others`,
        );
        const { [key]: said = AMOUNT } = answer.lessons;
        trial.demand(said === amount, `the store says that ${String(said)} was learned, and the newest lesson is ${String(amount)}`);
        knows.set(owner, answer.epoch);
      }
      const other = await trial.ask({ owner: 'a', scope: 'another', limits, least: [0] });
      trial.demand(other.answer.epoch === 0, 'a lesson of one scope is told in another');
      if (amount === AMOUNT) return;
      // All are held to it.
      await trial.wait(2 * (trial.windowMs + trial.guardMs) + 100);
      const { credit } = await trial.ask({ owner: 'd', limits, epoch, least: [amount + 1], most: [AMOUNT] });
      trial.demand((credit?.amounts[0] ?? 0) <= amount + 1, `more is granted than ${String(amount)}, the amount that was learned`);
      await demandWait(trial, limits, 'e', credit ? 1 : amount + 1, 'a limit that was learned is not kept');
    },
  },

  {
    title: 'keeps scopes and owners apart, whatever their names',
    isOnce: true,
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      for (const scope of SCOPE_NAMES) await trial.ask({ owner: 'first', scope, limits, least: [0] });
      await trial.wait(3 * (trial.windowMs + trial.guardMs) + 100);
      for (const [i, scope] of SCOPE_NAMES.entries()) {
        const { credit } = await trial.ask({ owner: `owner ${String(i)}`, scope, limits, least: [AMOUNT - i] });
        trial.demand(credit !== undefined, `what was granted in another scope is missing in ${nameOf(scope)}`);
      }
      for (const [i, scope] of SCOPE_NAMES.entries()) {
        const { credit } = await trial.ask({ owner: 'b', scope, limits, least: [i] });
        trial.demand(credit !== undefined, `what is left of the scope ${nameOf(scope)} is missing`);
      }
      await trial.wait(2 * (trial.windowMs + trial.guardMs) + 100);
      const scope = trial.one(SCOPE_NAMES);
      for (const [i, owner] of SCOPE_NAMES.entries()) {
        const { credit } = await trial.ask({ owner, scope, number: 7, limits, least: [i + 1] });
        trial.demand(credit?.amounts[0] === i + 1, `${nameOf(owner)} got the answer of another owner`);
      }
    },
  },

  {
    title: 'continues after a restart',
    appliesTo: ({ canRestart }) => canRestart,
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      const part = trial.whole(1, AMOUNT - 2);
      const { answer } = await trial.ask({ owner: 'a', limits, least: [part] });
      await trial.restart();
      await demandWait(trial, limits, 'b', AMOUNT - part + 1, 'what was granted before a restart is forgotten');
      if (isCredit(answer)) {
        const number = await trial.correct({ owner: 'a', limits, corrections: [{ credit: answer.credit, lane: 0, amounts: [-part / 2] }] });
        await trial.restart();
        await trial.correct({ owner: 'a', limits, number, corrections: [{ credit: answer.credit, lane: 0, amounts: [-part / 2] }] });
      }
      await demandGranted(trial, limits, 'c', AMOUNT - part / 2, 'a correction from before a restart is forgotten');
      await demandWait(trial, limits, 'd', 1, 'a correction was booked again after a restart');
    },
  },

  ...turnLaws,
];

/** Takes everything that a window has. */
async function whole(trial: Trial, limits: readonly CreditLimit[], owner: string): Promise<void> {
  await demandGranted(trial, limits, owner, AMOUNT, 'a window of which nothing was spent is not granted at once');
}

/** The amount in one unit, nothing of the others. */
function amountsOf(limits: readonly CreditLimit[], amount: number, column: number): number[] {
  return Array.from({ length: 1 + Math.max(...limits.map((limit) => limit.column)) }, (_, i) => (i === column ? amount : 0));
}

async function demandGranted(
  trial: Trial,
  limits: readonly CreditLimit[],
  owner: string,
  amount: number,
  problem: string,
  column = 0,
  scope = 'account',
): Promise<void> {
  // Others of the schedule that wait are behind it; one that is ahead is late soon.
  const { credit } = await trial.ask({ owner, scope, limits, least: amountsOf(limits, amount, column) });
  trial.demand(credit !== undefined, problem);
}

async function demandWait(
  trial: Trial,
  limits: readonly CreditLimit[],
  owner: string,
  amount: number,
  problem: string,
  column = 0,
): Promise<void> {
  // In the last lane, so that it does not stand before those that ask next.
  const { credit } = await trial.ask({ owner, limits, lane: 3, floors: [0, 0, 0, 0], least: amountsOf(limits, amount, column) }, problem);
  trial.demand(credit === undefined, problem);
}

async function demandBoth(
  trial: Trial,
  limits: readonly CreditLimit[],
  owner: string,
  least: readonly number[],
  problem: string,
): Promise<void> {
  const { credit } = await trial.ask({ owner, limits, floors: [0, 0], least });
  trial.demand(credit !== undefined, problem);
}
