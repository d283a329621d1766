import { Chain } from '../kernel/queues/chain.js';
import type { Discipline, LaneClaim } from '../kernel/queues/discipline.js';
import { strictWithFloor } from '../kernel/queues/strict-with-floor.js';
import type { Offer } from './offer.js';

/** Those who wait to be let in: by lane, and in a lane first come, first served. Whoever leaves is gone at once, from anywhere. */
export class OfferQueue<T> {
  readonly #lanes: readonly Chain<Offer<T>>[];
  /** How many wait in each lane. */
  readonly #counts: number[];
  readonly #order: Discipline;
  #size = 0;

  constructor(lanes: readonly LaneClaim[]) {
    this.#lanes = lanes.map(() => new Chain<Offer<T>>());
    this.#counts = lanes.map(() => 0);
    this.#order = strictWithFloor().create(lanes, 1, this.#counts);
  }

  get size(): number {
    return this.#size;
  }

  count(lane: number): number {
    return this.#counts[lane] as number;
  }

  add(offer: Offer<T>): void {
    const { lane } = offer;
    this.#size++;
    this.#lane(lane).add(offer);
    if ((this.#counts[lane] as number)++ === 0) this.#order.filled(lane);
  }

  delete(offer: Offer<T>): void {
    const { lane } = offer;
    this.#size--;
    this.#lane(lane).delete(offer);
    (this.#counts[lane] as number)--;
  }

  /** Takes out the one whose turn it is. */
  shift(): Offer<T> | undefined {
    if (this.#size === 0) return undefined;
    const lane = this.#order.lead();
    const offer = this.#lane(lane).first as Offer<T>;
    this.delete(offer);
    // A lane alone passes nobody over.
    if (this.#size > 0)
      this.#order.ended(
        this.#counts.map((_, each) => (each === lane ? 1 : 0)),
        1,
      );
    return offer;
  }

  #lane(lane: number): Chain<Offer<T>> {
    return this.#lanes[lane] as Chain<Offer<T>>;
  }
}
