import { describe, expect, it } from 'vitest';
import { DeficitRoundRobin } from '../../operators/kernel/index.js';
import type { Given } from './discipline-pair.js';
import { EPSILON, expectAlike, Pair, Plain } from './discipline-pair.js';

/** Goes from lane to lane, one visit at a time, and pays the debts of empty ones at the end of each round. */
class PlainRounds extends Plain {
  readonly #quanta: number[];
  readonly #left: number[];
  #at: number;

  constructor(weights: readonly number[]) {
    super(weights.length);
    this.#quanta = weights.map((weight) => weight / Math.min(...weights));
    this.#left = weights.map(() => 0);
    this.#at = weights.length - 1;
  }

  override lead(): number {
    const { waiting } = this;
    if (waiting.length === 0) return -1;
    while (!waiting.includes(this.#at) || this.#left[this.#at]! < 1 - EPSILON) {
      const next = waiting.find((lane) => lane > this.#at) ?? waiting[0]!;
      if (next <= this.#at) this.#endRound();
      this.#at = next;
      if (waiting.length === 1) this.#left[next] = Math.max(0, this.#left[next]!);
      this.#left[next]! += this.#quanta[next]!;
    }
    return this.#at;
  }

  override goesFirst(): boolean {
    return this.waiting.length === 0;
  }

  override fill(places: number, gives: readonly number[], taken: readonly number[]): Given {
    const { waiting } = this;
    const first = waiting.indexOf(this.lead());
    const has = [...gives];
    const pays = this.#left.map((left, lane) => left - taken[lane]!);
    const given: (readonly [number, number])[] = [];
    let left = places;
    for (let visit = 0; left > 0 && waiting.some((lane) => has[lane]! > 0); visit++) {
      const lane = waiting[(first + visit) % waiting.length]!;
      if (visit > 0) pays[lane]! += this.#quanta[lane]!;
      const got = Math.min(left, has[lane]!, Math.floor(pays[lane]! + EPSILON));
      if (got <= 0) continue;
      given.push([lane, got]);
      has[lane]! -= got;
      pays[lane]! -= got;
      left -= got;
    }
    return given;
  }

  override turn(taken: ReadonlyMap<number, number>): void {
    for (const [lane, places] of taken) if (this.waiting.some((other) => other !== lane)) this.#left[lane]! -= places;
  }

  override filled(lane: number): void {
    if (lane !== this.#at) this.#left[lane] = Math.min(0, this.#left[lane]!);
  }

  #endRound(): void {
    for (const [lane, left] of this.#left.entries())
      if (this.counts[lane] === 0) this.#left[lane] = Math.min(0, left + this.#quanta[lane]!);
  }
}

const pairOf = (weights: readonly number[]): Pair =>
  new Pair(new PlainRounds(weights), (waiting) => new DeficitRoundRobin(weights, waiting));

describe('DeficitRoundRobin', () => {
  it.each([[[1, 1, 1, 1, 1]], [[8, 3, 1, 2, 1]], [[0.3, 0.1, 0.25, 0.1, 0.7]]])(
    'leads, lets past and shares out as its rule says, whatever comes, goes and is served: weights %j',
    (weights) => {
      expectAlike(() => pairOf(weights));
    },
  );

  it('keeps what is left of a visit to a lane that is empty for a moment, and takes it away once the round has moved on', () => {
    const pair = pairOf([3, 1]);
    const leadOf = (): number => {
      pair.same();
      return pair.discipline.lead();
    };
    pair.set(0, 9);
    pair.set(1, 9);
    pair.turn(new Map([[leadOf(), 1]]));
    pair.set(0, 0);
    pair.set(0, 9);
    expect(leadOf()).toBe(0);
    pair.set(0, 0);
    expect(leadOf()).toBe(1);
    pair.set(0, 9);
    expect(leadOf()).toBe(1);
  });

  it('counts the round of a lane that is alone and in debt, so that the others pay theirs as well', () => {
    const pair = pairOf([1, 1]);
    pair.set(0, 9);
    pair.set(1, 9);
    pair.same();
    pair.turn(
      new Map([
        [0, 3],
        [1, 5],
      ]),
    );
    pair.set(1, 0);
    pair.same();
    pair.set(1, 9);
    const leads = Array.from({ length: 8 }, () => {
      const lead = pair.discipline.lead();
      pair.turn(new Map([[lead, 1]]));
      pair.same();
      return lead;
    });
    // Five places are owed, one of them is paid by then: it leads when four more rounds have passed and one is worth a place.
    expect(leads).toEqual([0, 0, 0, 0, 0, 1, 0, 1]);
  });
});
