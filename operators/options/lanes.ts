import type { FairnessRule } from '../kernel/queues/discipline.js';
import { strictWithFloor } from '../kernel/queues/strict-with-floor.js';
import { FlowConfigError } from './errors.js';
import { type count, countFromZero, durationMs, flag, known, orDefault, ratio, words } from './options.js';
import type { LaneOptions, Overflow } from './types.js';

/** The lane of everything when no lanes are declared. */
export const DEFAULT_LANE = 'default';

const FIELDS = [
  'name',
  'maxWaitMs',
  'maxQueued',
  'overflow',
  'share',
  'floor',
  'piggyback',
] as const satisfies readonly (keyof LaneOptions)[];
const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'] as const satisfies readonly Overflow[];

/** A lane, checked. */
export interface CheckedLane {
  readonly name: string;
  readonly maxWaitMs: number | undefined;
  readonly maxQueued: number | undefined;
  readonly overflow: Overflow | undefined;
  readonly share: number;
  readonly floor: number | undefined;
  readonly piggyback: boolean;
}

/** @throws FlowConfigError */
export function checkedLanes(
  operator: string,
  list: readonly LaneOptions[],
  fairness: FairnessRule = strictWithFloor(),
  extra: readonly string[] = [],
  overflows: readonly Overflow[] = OVERFLOWS,
  bound: typeof count = countFromZero,
): readonly CheckedLane[] {
  if (!Array.isArray(list) || list.length === 0) throw new FlowConfigError(operator, 'lanes', 'a list of at least one lane', list);
  const names = new Set<string>();
  // Not `map`, which passes over holes.
  const checked = Array.from(list as readonly LaneOptions[], (lane, i) => {
    const at = `lanes[${String(i)}]`;
    if (typeof lane !== 'object' || (lane as unknown) === null) throw new FlowConfigError(operator, at, 'an object', lane);
    known(operator, lane, [...FIELDS, ...extra], at, `${at}.`);
    const { name, maxWaitMs, maxQueued, overflow, floor } = lane;
    if (typeof name !== 'string' || name === '') throw new FlowConfigError(operator, `${at}.name`, 'a non-empty string', name);
    if (names.has(name)) throw new FlowConfigError(operator, `${at}.name`, 'unique', name);
    names.add(name);
    const share = orDefault(lane.share, 1);
    if (!(typeof share === 'number' && share > 0 && share < Infinity))
      throw new FlowConfigError(operator, `${at}.share`, 'a finite number > 0', share);
    return {
      name,
      maxWaitMs: maxWaitMs === undefined ? undefined : durationMs(operator, `${at}.maxWaitMs`, maxWaitMs),
      maxQueued: maxQueued === undefined ? undefined : bound(operator, `${at}.maxQueued`, maxQueued),
      overflow: overflow === undefined ? undefined : words(...overflows)(operator, `${at}.overflow`, overflow),
      share,
      floor: floor === undefined ? undefined : ratio(operator, `${at}.floor`, floor),
      piggyback: flag(operator, `${at}.piggyback`, orDefault(lane.piggyback, true)),
    };
  });
  fairness.check?.(checked, (option, expected, value) => {
    throw new FlowConfigError(operator, option, expected, value);
  });
  return checked;
}
