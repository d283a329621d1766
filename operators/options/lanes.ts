import type { FairnessRule } from '../kernel/queues/discipline.js';
import { strictWithFloor } from '../kernel/queues/strict-with-floor.js';
import { isAmount } from './answers.js';
import { FlowConfigError } from './errors.js';
import type { Check, Checked } from './options.js';
import { check, checked, countFromZero, durationMs, finitePositive, flag, nonEmpty, oneOf, optional, ratio } from './options.js';
import type { LaneOptions } from './types.js';

/** The lane of everything when no lanes are declared. */
export const DEFAULT_LANE = 'default';

const DEFAULTS = { share: 1, piggyback: true };

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
export type CheckedLane = Checked<LaneOptions, typeof DEFAULTS>;

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
    const all = checked(operator, lane, DEFAULTS, { ...CHECKS, ...own } as unknown as LaneChecks, within);
    const { name } = all;
    if (names.has(name)) throw new FlowConfigError(operator, `${within}name`, 'unique', name);
    names.add(name);
    return all;
  });
  const reserved = lanes.reduce((sum, { reserve = 0 }) => sum + reserve, 0);
  if (reserved >= 1) throw new FlowConfigError(operator, 'lanes', 'lanes whose reserves add up to less than 1', reserved);
  fairness.check?.(lanes, (option, expected, value) => {
    throw new FlowConfigError(operator, option, expected, value);
  });
  return lanes;
}
