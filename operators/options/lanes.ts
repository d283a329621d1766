import { FlowConfigError, LaneUnknownError } from './errors.js';
import { count, durationMs, flag, known, oneOf, orDefault, positive, ratio } from './options.js';
import type { LaneOptions, Overflow } from './types.js';

const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'] as const satisfies readonly Overflow[];
const FIELDS = ['name', 'maxWaitMs', 'maxQueued', 'overflow', 'share', 'floor', 'piggyback'] as const;

/** Share of the turns kept for a lower lane. */
const FLOOR = 0.1;

/** The lane of everything when no lanes are declared. */
export const DEFAULT_LANE = 'default';

/** A lane with its defaults filled in. */
export interface Lane {
  readonly name: string;
  readonly maxWaitMs: number | undefined;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly floor: number;
  readonly piggyback: boolean;
}

export function overflow(operator: string, option: string, value: unknown, words: readonly Overflow[] = OVERFLOWS): Overflow {
  return oneOf(operator, option, value, words);
}

/** What the operator says of all its lanes. */
export interface LaneDefaults {
  readonly maxQueued: number;
  readonly overflow: Overflow;
  /** Smallest `maxQueued` of a lane. @defaultValue 0 */
  readonly leastQueued?: number;
  /** Overflow policies a lane may have. @defaultValue all */
  readonly overflows?: readonly Overflow[];
  /** What the operator has in its lanes beside the common options. @defaultValue none */
  readonly extra?: readonly string[];
}

/** The declared lanes, checked: names unique, floors leaving room for the first lane. One lane named `default` when none are. */
export class LaneTable {
  readonly lanes: readonly Lane[];
  readonly #operator: string;
  readonly #index = new Map<string, number>();
  /** False when there is only the one lane nobody asked for. */
  readonly isDeclared: boolean;

  constructor(operator: string, lanes: readonly LaneOptions[] | undefined, defaults: LaneDefaults) {
    this.#operator = operator;
    this.isDeclared = lanes !== undefined;
    if (lanes !== undefined && (!Array.isArray(lanes) || lanes.length === 0))
      throw new FlowConfigError(operator, 'lanes', 'a list of at least one lane', lanes);
    const declared: readonly LaneOptions[] = lanes ?? [{ name: DEFAULT_LANE }];
    // With many lanes a tenth each would be more than there is.
    const floor = Math.min(FLOOR, 0.5 / Math.max(1, declared.length - 1));
    // Not `map`, which passes over holes.
    this.lanes = Array.from(declared, (lane, i) => {
      const at = `lanes[${String(i)}]`;
      if (typeof lane !== 'object' || (lane as unknown) === null) throw new FlowConfigError(operator, at, 'an object', lane);
      known(operator, lane, defaults.extra ? [...FIELDS, ...defaults.extra] : FIELDS, at, `${at}.`);
      if (typeof lane.name !== 'string' || lane.name === '')
        throw new FlowConfigError(operator, `${at}.name`, 'a non-empty string', lane.name);
      if (this.#index.has(lane.name)) throw new FlowConfigError(operator, `${at}.name`, 'unique', lane.name);
      this.#index.set(lane.name, i);
      checkedShare(operator, `${at}.share`, lane.share);
      return {
        name: lane.name,
        maxWaitMs: lane.maxWaitMs === undefined ? undefined : durationMs(operator, `${at}.maxWaitMs`, lane.maxWaitMs),
        maxQueued: count(operator, `${at}.maxQueued`, orDefault(lane.maxQueued, defaults.maxQueued), defaults.leastQueued ?? 0),
        overflow: overflow(operator, `${at}.overflow`, orDefault(lane.overflow, defaults.overflow), defaults.overflows),
        floor: ratio(operator, `${at}.floor`, orDefault(lane.floor, i === 0 ? 0 : floor)),
        piggyback: flag(operator, `${at}.piggyback`, orDefault(lane.piggyback, true)),
      };
    });
    const floors = this.lanes.reduce((sum, lane) => sum + lane.floor, 0);
    if (floors >= 1) throw new FlowConfigError(operator, 'lanes', 'lanes whose floors add up to less than 1', floors);
  }

  get names(): readonly string[] {
    return this.lanes.map((lane) => lane.name);
  }

  /**
   * The position of a lane by name; no name means the last, least urgent one, so that nothing becomes urgent by being forgotten.
   * Without declared lanes every name is the one lane.
   *
   * @throws LaneUnknownError
   */
  at(name: string | undefined): number {
    if (name === undefined) return this.lanes.length - 1;
    const at = this.#index.get(name);
    if (at !== undefined) return at;
    if (!this.isDeclared) return 0;
    throw new LaneUnknownError(this.#operator, name, this.names);
  }
}

function checkedShare(operator: string, option: string, share: unknown): void {
  if (positive(operator, option, orDefault(share, 1)) === Infinity)
    throw new FlowConfigError(operator, option, 'a finite number > 0', share);
}
