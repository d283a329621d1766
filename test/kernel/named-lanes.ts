import type { KeyLane, Lost, Turns } from '../../operators/kernel/index.js';
import { KeyedLanes, MostUrgentFirst, OldestFirst, Rotation } from '../../operators/kernel/index.js';

export type TurnsName = 'roundRobin' | 'fifo' | 'priority';

export function turnsOf<T>(name: TurnsName, dropsLowest = false): Turns<T> {
  if (name === 'roundRobin') return new Rotation();
  return name === 'fifo' ? new OldestFirst() : new MostUrgentFirst(dropsLowest);
}

/** Lanes under turns by name, which answer with what they dropped. */
export class NamedLanes<T> extends KeyedLanes<T> {
  constructor(name: TurnsName, dropsLowest = false) {
    super(turnsOf(name, dropsLowest));
  }

  dropFirst(lane: KeyLane<T>): T {
    const lost: Lost<T>[] = [];
    this.drop(lane, lost);
    return (lost[0] as Lost<T>).item;
  }

  takeLowest(level: number): (Lost<T> & { readonly lane: KeyLane<T> }) | undefined {
    const lost: Lost<T>[] = [];
    const lane = this.dropLowest(level, lost);
    return lane && { ...(lost[0] as Lost<T>), lane };
  }
}
