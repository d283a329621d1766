import { expect, it } from 'vitest';
import { sized } from '../support/deep.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { liveOnce } from './turn-world.js';

expectNoUnhandledRejections();

// `SLUICE_SEED=123` runs one seed.
const { SLUICE_SEED } = process.env;
const first = Number(SLUICE_SEED ?? 1);
const count = SLUICE_SEED === undefined ? sized(100, 5000) : 1;

it('ends every turn once, with a history that models take, and leaves nothing behind, whatever happens', { timeout: 300_000 }, () => {
  const faults: string[] = [];
  const totals: Record<string, number> = {};
  for (let seed = first; seed < first + count && faults.length < 20; seed++) {
    const life = liveOnce(seed);
    faults.push(...life.faults);
    for (const [what, times] of Object.entries(life.counts)) totals[what] = (totals[what] ?? 0) + times;
  }
  expect(faults.slice(0, 3)).toEqual([]);
  if (SLUICE_SEED !== undefined) return;
  // What never happens is not tested.
  const happened = [
    ...['started', 'delta', 'toolCall', 'pending', 'answered', 'toolResult', 'step', 'finished', 'failed', 'in the middle'],
    ...['superseded', 'stopped', 'left', 'aborted', 'closed'].map((reason) => `cancelled: ${reason}`),
    ...['guesses run', 'guesses confirmed', 'guesses rejected'],
  ];
  expect(happened.filter((what) => (totals[what] ?? 0) < sized(1, count / 50))).toEqual([]);
});
