import type { Planted } from '../world/bundle.js';

interface WaitingBug extends Pick<Planted, 'file' | 'was'> {
  readonly name: string;
  /** The cases in which it is found. */
  readonly foundBy: readonly string[];
}

const BOUNDS = 'kernel/waiting/bounds.ts';
const DEADLINES = 'kernel/waiting/deadlines.ts';

/** Those whose queues do not ask the kernel yet: a bug that they find as well is one more that their entry can go for. */
export const NOT_YET: readonly string[] = [];

const ALL_LIMITED = ['batchMap', 'createBatcher', 'createLimiter'];
const PLAIN = ['backpressure', 'rateLimit', 'toAsyncIterable'];
const BY_NUMBER = ['bulkheadMap', 'bulkheadMap by key', ...PLAIN, 'mergeLanes', ...ALL_LIMITED];
const EVICTING = [...BY_NUMBER, 'backpressure by weight', 'conflateWhileBusy'];

const bug = (name: string, file: string, right: string, wrong: string, foundBy: readonly string[]): WaitingBug => ({
  ...{ name, file, foundBy },
  was: [right, wrong],
});

/** Mistakes in the one place that decides about waiting: every operator that lets items wait has to notice. */
export const BUGS: readonly WaitingBug[] = [
  bug('a bound that lets one more in', BOUNDS, 'queued < maxQueued && inLane < most', 'queued <= maxQueued && inLane <= most', [
    ...BY_NUMBER,
    'createIntake',
  ]),
  bug(
    'a bound that is reached one too early',
    BOUNDS,
    'queued < maxQueued && inLane < most',
    'queued + 1 < maxQueued && inLane + 1 < most',
    [...BY_NUMBER, 'createIntake'],
  ),
  bug('a weight above the bound', BOUNDS, 'weight > maxWeight ?', 'weight > maxWeight + 1 ?', [
    'backpressure by weight',
    'conflateWhileBusy',
  ]),
  bug('room for one item too many', BOUNDS, 'return now(maxQueued) - queued;', 'return now(maxQueued) - queued + 1;', ['createIntake']),
  bug('the newest evicted instead of the oldest', BOUNDS, "policy === 'dropOldest' ? Math.min(length, most) : 0", '0', EVICTING),
  bug(
    'the oldest evicted instead of the newest',
    BOUNDS,
    "policy === 'dropOldest' ?",
    "policy === 'dropOldest' || policy === 'dropNewest' ?",
    EVICTING,
  ),
  // An aggregate is one entry, and other keys give one for one.
  bug("one evicted under 'latest'", BOUNDS, "if (policy === 'latest') return length;", "if (policy === 'latest') return 1;", [
    ...EVICTING.filter((name) => name !== 'conflateWhileBusy' && name !== 'bulkheadMap by key'),
  ]),
  bug("the newcomer refused under 'dropLowest'", BOUNDS, "policy === 'dropLowest' &&", "policy === 'dropOldest' &&", ALL_LIMITED),
  bug('an error that names another bound', BOUNDS, 'limit: isLaneFull ? most : maxQueued,', 'limit: isLaneFull ? maxQueued : most,', [
    ...BY_NUMBER,
    'createIntake',
  ]),
  bug('a deadline that is never over', DEADLINES, 'return deadlineAt <= now;', 'return false;', [
    ...['bulkheadMap', 'bulkheadMap by key', 'settleAll'],
    ...ALL_LIMITED,
  ]),
  bug('a deadline that is not over at its time', DEADLINES, 'return deadlineAt <= now;', 'return deadlineAt < now;', [
    ...['bulkheadMap', 'bulkheadMap by key', 'settleAll'],
    ...ALL_LIMITED,
  ]),
];
