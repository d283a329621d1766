import { reserveOf } from './kernel/limits/reserve.js';
import { costLines } from './kernel/queues/cost-line.js';
import type { Fairness, FairnessRule } from './kernel/queues/discipline.js';
import type { KeyFairness, KeyFairnessRule } from './kernel/queues/keyed-line.js';
import { LanesQueue } from './kernel/queues/lanes-queue.js';
import type { QueueRule } from './kernel/queues/queue.js';
import { sharedRounds } from './kernel/queues/rounds.js';
import { strictWithFloor as strict } from './kernel/queues/strict-with-floor.js';
import { LaneUnknownError } from './options/errors.js';
import { checkedLanes, namedLanes } from './options/lanes.js';
import { callback, madeBy, needs, nonEmpty, onlyKnown, orDefault, ratio } from './options/options.js';
import type { NamedLanes } from './options/types.js';

export type { Fairness } from './kernel/queues/discipline.js';
export type { KeyFairness } from './kernel/queues/keyed-line.js';
export type { LaneOptions } from './options/types.js';

/** @stable */
export interface LanesOptions<T> {
  /** Name of an item's lane. @defaultValue none: the last lane, or the one its caller names */
  readonly by?: (item: T) => string;
  /** Key of an item: items of a lane with equal keys share one turn in it, so that a key with many items does not delay the others. @defaultValue none */
  readonly key?: (item: T) => unknown;
  /** How the keys of a lane share it: `byCost()`; needs `key`. @defaultValue they take turns, one job each */
  readonly keyFairness?: KeyFairness;
  /** How lanes share turns. @defaultValue `strictWithFloor()` */
  readonly fairness?: Fairness;
  /** What errors call it, for functions built on `lanes`. @defaultValue 'lanes' */
  readonly operator?: string;
}

const NAME = 'lanes';

/**
 * Lanes of different urgency, for the `queue` option of whatever makes things wait: batches, calls, a limiter. Inside a lane the
 * order is first in, first out, or keys take turns; between lanes it is what `fairness` says.
 *
 * Items without a lane name go to the last lane, so that a forgotten name makes nothing urgent. The value may be used for several operators.
 *
 * @stable
 * @param lanes - Most urgent first. A name stands for a lane that says nothing else.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when a lane or an option is unknown or out of range.
 * @example
 * ```ts
 * import { from, of } from 'rxjs';
 * import { batchMap, lanes } from 'sluice/operators';
 *
 * const calls: string[] = [];
 * const work = (questions: readonly string[]) => {
 *   calls.push(questions.join(' '));
 *   return of(questions);
 * };
 * const queue = lanes([{ name: 'person' }, { name: 'batch' }], { by: (text: string) => (text.endsWith('?') ? 'person' : 'batch') });
 * from(['a', 'b', 'c', 'why?']).pipe(batchMap(work, { queue, maxSize: 4, concurrency: 1 })).subscribe();
 * calls; // => ['why? a b c']
 * ```
 */
export function lanes<T = unknown>(lanes: NamedLanes, options: LanesOptions<T> = {}): QueueRule<T> {
  const operator = nonEmpty(NAME, 'operator', orDefault((Object(options) as LanesOptions<T>).operator, NAME));
  onlyKnown(operator, options, ['by', 'key', 'keyFairness', 'fairness', 'operator']);
  const laneOf = callback(operator, 'by', options.by);
  const keyOf = callback(operator, 'key', options.key);
  const keyFairness = keyFairnessOf(operator, 'keyFairness', options.keyFairness);
  if (!keyOf) needs(operator, 'keyFairness', keyFairness, '`key`');
  const fairness = fairnessOf(operator, 'fairness', options.fairness);
  const checked = checkedLanes(operator, namedLanes(operator, lanes), fairness);
  const positions = new Map(checked.map(({ name }, i) => [name, i]));
  return {
    lanes: checked,
    isDeclared: true,
    laneOf,
    keyOf,
    reserve: reserveOf(checked.map(({ reserve = 0 }) => reserve)),
    unknown: (operator, name) => new LaneUnknownError(operator, name, [...positions.keys()]),
    at: (name) => (name === undefined ? checked.length - 1 : (positions.get(name) ?? -1)),
    create: (places) => new LanesQueue(checked, fairness, places, keyOf !== undefined, keyFairness),
  };
}

/**
 * The most urgent lane first; a lower lane that keeps being passed over saves up its floor of the places, rides along in a batch with it, and leads
 * one when a whole turn is owed. The fairness of `lanes` when none is given.
 *
 * @stable
 * @param floor - Part of the places kept for each lane below the first that says nothing itself. @defaultValue 0.1, less with more than five of them
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { mergeLanes, strictWithFloor } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const two = [{ name: 'urgent', source: of('A', 'A', 'A', 'A') }, { name: 'later', source: of('b') }];
 * mergeLanes(two, { maxSize: 4, fairness: strictWithFloor(0.25) }).subscribe(({ items }) => seen.push(items.join('')));
 * seen; // => ['AAAA', 'b']
 * ```
 */
export function strictWithFloor(floor?: number): Fairness {
  return strict(floor === undefined ? undefined : ratio('strictWithFloor', 'floor', floor));
}

/**
 * Places in proportion to the lanes' `share`, exactly, in the long run: for tenants.
 *
 * @stable
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { mergeLanes, weighted } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const tenants = [{ name: 'gold', source: of('G', 'G', 'G', 'G'), share: 3, maxWaitMs: 50 }, { name: 'free', source: of('f', 'f', 'f', 'f') }];
 * mergeLanes(tenants, { maxSize: 8, fairness: weighted() }).subscribe(({ items }) => seen.push(items.join('')));
 * seen; // => ['GGGfGfff']
 * ```
 */
export function weighted(): Fairness {
  return sharedRounds(true);
}

/**
 * One place each in turn.
 *
 * @stable
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { mergeLanes, roundRobin } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const two = [{ name: 'a', source: of('a', 'a'), maxWaitMs: 50 }, { name: 'b', source: of('b', 'b') }];
 * mergeLanes(two, { maxSize: 4, fairness: roundRobin() }).subscribe(({ items }) => seen.push(items.join('')));
 * seen; // => ['abab']
 * ```
 */
export function roundRobin(): Fairness {
  return sharedRounds(false);
}

/**
 * The keys of a lane share it by what their jobs cost, for `keyFairness` of `lanes`: the next job is one of the key that has used least. A key that was idle
 * saves up no credit.
 *
 * The cost of a job is what its `cost` names in `unit`, or 1 when it has none. What its lease is settled with takes the place of that estimate, also after the
 * release. In a batch operator the cost is the weight of the item.
 *
 * @stable
 * @param unit - What is counted: a unit of a job's `cost`.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the unit is no text, or empty.
 * @example
 * ```ts
 * import type { LimiterJob } from 'sluice/operators';
 * import { byCost, createLimiter, lanes } from 'sluice/operators';
 *
 * const queue = lanes([{ name: 'all' }], { key: ({ key }: LimiterJob) => key, keyFairness: byCost() });
 * const limiter = createLimiter({ concurrency: 1, queue });
 * const order: string[] = [];
 * const ask = (key: string, tokens: number) => limiter.runAsync(() => Promise.resolve(order.push(key)), { key, cost: { tokens } });
 * await Promise.all([ask('long', 300), ask('long', 300), ask('short', 100), ask('short', 100), ask('short', 100), ask('short', 100)]);
 * order.join(' '); // => 'long short short short long short'
 * ```
 */
export function byCost(unit = 'tokens'): KeyFairness {
  return costLines(nonEmpty('byCost', 'unit', unit));
}

/** @throws FlowConfigError */
export function keyFairnessOf(operator: string, option: string, fairness: KeyFairness | undefined): KeyFairnessRule | undefined {
  return madeBy<KeyFairnessRule | undefined>('keyLines', 'byCost()', undefined)(operator, option, fairness as KeyFairnessRule | undefined);
}

/** The fairness to use. @throws FlowConfigError */
export function fairnessOf(operator: string, option: string, fairness: Fairness | undefined): FairnessRule {
  if (fairness === undefined) return strict();
  return madeBy<FairnessRule>('create', 'strictWithFloor(), weighted() or roundRobin()')(operator, option, fairness as FairnessRule);
}
