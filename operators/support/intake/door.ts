import { Chain } from '../../kernel/queues/chain.js';
import type { Waiting } from '../../kernel/queues/fairness.js';
import { LaneSet } from '../../kernel/queues/lane-set.js';
import { StrictFloor } from '../../kernel/queues/strict-floor.js';
import type { Offer } from './offer.js';

/** Those who wait to be let in: by lane, and in a lane first come, first served. Whoever leaves is gone at once, from anywhere. */
export class Door<T> implements Waiting {
  readonly nonEmpty: LaneSet;
  readonly #lanes: readonly Chain<Offer<T>>[];
  readonly #order: StrictFloor;
  #size = 0;

  constructor(floors: readonly number[]) {
    this.nonEmpty = new LaneSet(floors.length);
    this.#lanes = floors.map(() => new Chain<Offer<T>>());
    this.#order = new StrictFloor(floors, 1, this);
  }

  get size(): number {
    return this.#size;
  }

  count(lane: number): number {
    return this.#lane(lane).length;
  }

  add(offer: Offer<T>): void {
    const { lane } = offer;
    this.#size++;
    this.#lane(lane).add(offer);
    if (this.count(lane) > 1) return;
    this.nonEmpty.add(lane);
    this.#order.filled(lane);
  }

  delete(offer: Offer<T>): void {
    const { lane } = offer;
    this.#size--;
    this.#lane(lane).delete(offer);
    if (this.count(lane) > 0) return;
    this.nonEmpty.delete(lane);
    this.#order.emptied(lane);
  }

  /** Takes out the one whose turn it is. */
  shift(): Offer<T> | undefined {
    if (this.#size === 0) return undefined;
    const lane = this.#order.lead();
    const offer = this.#lane(lane).first as Offer<T>;
    this.delete(offer);
    // A lane alone passes nobody over.
    if (this.#size > 0) {
      this.#order.debit(lane, 1, 1);
      this.#order.turn();
    }
    return offer;
  }

  #lane(lane: number): Chain<Offer<T>> {
    return this.#lanes[lane] as Chain<Offer<T>>;
  }
}
