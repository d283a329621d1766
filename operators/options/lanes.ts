import type { FairnessRule } from '../kernel/queues/discipline.js';
import { strictWithFloor } from '../kernel/queues/strict-with-floor.js';
import { isAmount } from './answers.js';
import { LANE } from './defaults.js';
import { FlowConfigError } from './errors.js';
import type { Check, Checked } from './options.js';
import { check, checked, countFromZero, durationMs, finitePositive, flag, misused, nonEmpty, oneOf, optional, ratio } from './options.js';
import type { LaneOptions, NamedLanes } from './types.js';

/** The lane of everything when no lanes are declared. */
export const DEFAULT_LANE = 'default';

/** How each field is checked that all kinds of lanes have. */
const CHECKS = /* @__PURE__ */ (() => ({
  name: nonEmpty,
  maxWaitMs: optional(durationMs),
  maxQueued: optional(countFromZero),
  overflow: optional(oneOf('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest')),
  share: finitePositive,
  floor: optional<number>(ratio),
  piggyback: flag,
}))();

/** What a lane of a `queue` has besides: its limiter may keep a share of the rates for it. */
const QUEUE_LANE = /* @__PURE__ */ (() => ({
  reserve: optional(check<number>('a number from 0 to less than 1', (reserve: number) => isAmount(reserve) && reserve < 1)),
}))();

type LaneChecks = { readonly [K in keyof LaneOptions]-?: Check };

/** A lane, checked. */
export type CheckedLane = Checked<LaneOptions, typeof LANE>;

/** The lanes that names and lanes stand for. @throws FlowConfigError */
export function namedLanes(operator: string, list: NamedLanes): readonly LaneOptions[] {
  if (!Array.isArray(list) || list.length === 0) throw new FlowConfigError(operator, 'lanes', 'a list of at least one lane or name', list);
  return Array.from(list as NamedLanes, (lane) => (typeof lane === 'string' ? { name: lane } : lane));
}

/** @throws FlowConfigError */
export function checkedLanes(
  operator: string,
  list: readonly LaneOptions[],
  fairness: FairnessRule = strictWithFloor(),
  own: Readonly<Record<string, Check>> = QUEUE_LANE,
): readonly CheckedLane[] {
  if (!Array.isArray(list) || list.length === 0) throw new FlowConfigError(operator, 'lanes', 'a list of at least one lane', list);
  const names = new Set<string>();
  // Not `map`, which passes over holes.
  const lanes = Array.from(list as readonly LaneOptions[], (lane, i) => {
    const within = `lanes[${i}].`;
    const all = checked(operator, lane, LANE, { ...CHECKS, ...own } as unknown as LaneChecks, within);
    const { name } = all;
    if (names.has(name)) throw misused(operator, `${within}name`, `two lanes are called \`${name}\``, 'Rename one of them.');
    names.add(name);
    return all;
  });
  const reserved = lanes.reduce((sum, { reserve = 0 }) => sum + reserve, 0);
  if (reserved >= 1)
    throw misused(operator, 'lanes', `the reserves of all lanes add up to ${reserved}`, 'Lower them to less than 1 in total.');
  fairness.check?.(lanes, (option, expected, value) => {
    throw new FlowConfigError(operator, option, expected, value);
  });
  return lanes;
}
