import type { FlowLane } from './flow-parts.js';
import { newLane, sortLanes } from './flow-parts.js';

const MOST_LANES = 50;

/** Lanes by name, as events name them; from the 51st on, they are one lane `other`. */
export class FlowLanes {
  readonly #lanes = new Map<string, FlowLane>();

  /** @param order - names, most urgent first */
  constructor(private readonly order: readonly string[]) {}

  of(name: string): FlowLane {
    let lane = this.#lanes.get(name);
    if (lane) return lane;
    if (this.#lanes.size >= MOST_LANES && name !== 'other') return this.of('other');
    lane = newLane(name);
    this.#lanes.set(name, lane);
    return lane;
  }

  /** Most urgent first. */
  get sorted(): readonly FlowLane[] {
    return sortLanes(this.#lanes.values(), this.order);
  }
}
