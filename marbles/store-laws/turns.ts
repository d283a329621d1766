import type { CreditLimit } from '../../operators/options/credit-store.js';
import type { StoreLaw } from './law.js';
import type { Asked, Trial } from './trial.js';
import { pauseOf } from './trial.js';

const AMOUNT = 1000;
/** Least part of its floor that a lane gets. */
const FLOOR_KEPT = 0.9;
/** Least part of a limit that one owner who always asks uses. */
const LEAST_USE = 0.6;
const MANY = 64;

/** One owner that asks for as much as it gets. */
interface Flooder {
  readonly owner: string;
  readonly lane: number;
  readonly least: number;
}

interface Asking extends Flooder {
  at: number;
}

/** Laws about whose turn it is. */
export const turnLaws: readonly StoreLaw[] = [
  {
    title: 'lets the more urgent lane go first',
    check: async (trial) => {
      const isSpread = trial.random() < 0.5;
      const limits = [trial.limit({ amount: AMOUNT, ...(isSpread && { burst: 20 }) })];
      await trial.warmUp(limits);
      await exhaust(trial, limits);
      // Of a window that comes back at once there is not enough for two.
      const cost = isSpread ? trial.whole(5, 20) : trial.whole(AMOUNT / 2 + 1, AMOUNT);
      const lower = Array.from({ length: trial.whole(1, 3) }, (_, i) => ({ owner: `low${String(i)}`, lane: 1, least: cost }));
      const waits: Asking[] = [];
      for (const each of [...lower, { owner: 'urgent', lane: 0, least: cost }]) {
        const said = await askAs(trial, limits, each, [0, 0]);
        if (!said.credit) waits.push({ ...each, at: trial.now() + pauseOf(said) });
      }
      if (!waits.some(({ owner }) => owner === 'urgent')) return;
      const until = trial.now() + 3 * (trial.windowMs + trial.guardMs) + 1000;
      while (trial.now() < until) {
        const next = waits.reduce((one, other) => (other.at < one.at ? other : one));
        await trial.wait(next.at - trial.now());
        const said = await askAs(trial, limits, next, [0, 0]);
        if (said.credit) {
          // Others may go first where that takes nothing from it.
          const isFirst =
            next.owner === 'urgent' || (await askAs(trial, limits, { owner: 'urgent', lane: 0, least: cost }, [0, 0])).credit !== undefined;
          trial.demand(isFirst, `${next.owner}, of a lower lane, got what the urgent owner waits for`);
          return;
        }
        next.at = trial.now() + Math.max(1, pauseOf(said));
      }
      trial.fail('the urgent owner is never granted');
    },
  },

  {
    title: 'keeps the floors of lanes',
    isOnce: true,
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT, burst: 20 })];
      const floor = trial.one([0.1, 0.2, 0.3]);
      await trial.warmUp(limits);
      const urgent = ['a', 'b', 'c'].map((owner) => ({ owner, lane: 0, least: 20 }));
      const { got, whileWaiting } = await flood(
        trial,
        limits,
        [...urgent, { owner: 'low', lane: 1, least: 20 }],
        [0, floor],
        trial.isVirtual ? 20 : 12,
      );
      const low = got.get('low') ?? 0;
      const share = low / (low + whileWaiting);
      trial.demand(
        share >= FLOOR_KEPT * floor,
        `a lane with a floor of ${String(floor)} got ${share.toFixed(3)} of what was granted while it waited`,
      );
    },
  },

  {
    title: 'lets one owner use what a limit has',
    isOnce: true,
    check: async (trial) => {
      // In real time an owner comes late now and then: what has gathered meanwhile must not be lost.
      for (const burst of [undefined, trial.isVirtual ? 20 : AMOUNT / 8]) {
        const limits = [trial.limit({ amount: AMOUNT, ...(burst !== undefined && { burst }) })];
        await trial.warmUp(limits);
        const windows = trial.isVirtual ? 8 : 4;
        const { got } = await flood(trial, limits, [{ owner: 'a', lane: 0, least: 20 }], [0], windows);
        const use = (got.get('a') ?? 0) / AMOUNT / windows;
        trial.demand(use >= LEAST_USE, `an owner that always asks uses ${use.toFixed(2)} of the amount`);
      }
    },
  },

  {
    title: 'spreads a limit that has a burst',
    isOnce: true,
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT, burst: 20 })];
      await trial.warmUp(limits);
      const from = trial.now();
      let got = 0;
      for (let i = 0; i < 40 && trial.now() - from < trial.windowMs / 10; i++) {
        const { credit } = await trial.ask({ owner: 'a', limits, least: [10], most: [AMOUNT] });
        if (credit) got += credit.amounts[0] as number;
      }
      trial.demand(got <= AMOUNT / 3, `${String(got)} of ${String(AMOUNT)} are granted at once, of a limit whose burst is 20`);
    },
  },

  {
    title: 'serves 64 owners',
    isOnce: true,
    check: async (trial) => {
      const limits = [trial.limit({ amount: AMOUNT })];
      await trial.warmUp(limits);
      const waiting = new Set(Array.from({ length: MANY }, (_, i) => `owner ${String(i)}`));
      const until = trial.now() + 12 * (trial.windowMs + trial.guardMs) + 2000;
      while (waiting.size > 0 && trial.now() < until) {
        const all = await trial.askAll([...waiting].map((owner) => ({ owner, limits, least: [AMOUNT / 20] })));
        const pauses: number[] = [];
        for (const said of all) {
          if (said.credit) waiting.delete(said.question.owner);
          else pauses.push(pauseOf(said));
        }
        if (pauses.length > 0) await trial.wait(Math.max(1, Math.min(...pauses)));
      }
      trial.demand(waiting.size === 0, `${String(waiting.size)} of ${String(MANY)} owners that ask when they are told to got nothing`);
    },
  },
];

/** Spends what there is at once. */
async function exhaust(trial: Trial, limits: readonly CreditLimit[]): Promise<void> {
  for (let i = 0; i < 200; i++) {
    const { credit } = await trial.ask({ owner: 'x', limits, lane: 0, floors: [0, 0], least: [20], most: [AMOUNT] });
    if (!credit) break;
  }
  // It no longer waits: an owner that asks for nothing is granted, or forgotten when it stays away.
  await trial.wait(1);
}

function askAs(trial: Trial, limits: readonly CreditLimit[], { lane, least, owner }: Flooder, floors: readonly number[]): Promise<Asked> {
  return trial.ask({ owner, lane, limits, floors, least: [least] });
}

/** What a flood of questions got. */
interface Flood {
  readonly got: ReadonlyMap<string, number>;
  /** What was granted to others while the last of the owners waited. */
  readonly whileWaiting: number;
}

/** Lets owners ask, each again when it is told to, for so many windows. */
async function flood(
  trial: Trial,
  limits: readonly CreditLimit[],
  flooders: readonly Flooder[],
  floors: readonly number[],
  windows: number,
): Promise<Flood> {
  const got = new Map<string, number>();
  const last = flooders.at(-1)?.owner;
  let whileWaiting = 0;
  let isWaiting = false;
  const askers = flooders.map((each): Asking => ({ ...each, at: trial.now() }));
  const until = trial.now() + windows * trial.windowMs;
  while (trial.now() < until) {
    const next = askers.reduce((one, other) => (other.at < one.at ? other : one));
    await trial.wait(next.at - trial.now());
    const said = await askAs(trial, limits, next, floors);
    const [amount = 0] = said.credit?.amounts ?? [];
    got.set(next.owner, (got.get(next.owner) ?? 0) + amount);
    if (next.owner === last) isWaiting = !said.credit;
    else if (isWaiting) whileWaiting += amount;
    next.at = trial.now() + (said.credit ? 1 : Math.max(1, pauseOf(said)));
  }
  return { got, whileWaiting };
}
