import fc from 'fast-check';
import { describe, it } from 'vitest';
import type { Discipline, Filler, GrantQueue, LaneClaim, Queue } from '../../operators/kernel/index.js';
import { FIFO, LanesQueue, ONE_LINE, sharedRounds, strictWithFloor } from '../../operators/kernel/index.js';
import { same } from './same.js';

class Entry {
  previous: Entry | undefined = undefined;
  next: Entry | undefined = undefined;

  constructor(
    readonly index: number,
    readonly lane: number,
    readonly weight: number,
    readonly key: unknown,
  ) {}
}

const EPSILON = 1e-9;

/** Deficit round robin under a strict order, with each lane's credit counted up at every turn. */
class Floors implements Discipline {
  private readonly floors: readonly number[];
  private readonly credit: number[];
  private readonly most: number;

  constructor(
    claims: readonly LaneClaim[],
    private readonly places: number,
    private readonly counts: () => readonly number[],
  ) {
    const lower = Math.min(0.1, 0.5 / Math.max(1, claims.length - 1));
    this.floors = claims.map(({ floor }, lane) => floor ?? (lane === 0 ? 0 : lower));
    this.credit = claims.map(() => 0);
    this.most = places * (1 + this.floors.filter((floor) => floor > 0).length);
  }

  lead(): number {
    const counts = this.counts();
    const owed = counts.findIndex((count, lane) => count > 0 && this.credit[lane]! >= this.places - EPSILON);
    return owed === -1 ? counts.findIndex((count) => count > 0) : owed;
  }

  goesFirst(lane: number): boolean {
    return this.counts().every((count, other) => other > lane || count === 0) && this.claim(this.lead()) === 0;
  }

  fill(places: number, batch: Filler): void {
    const lead = this.lead();
    const lanes = [...this.counts().keys()];
    let left = places;
    for (const lane of [lead, ...lanes.filter((other) => other !== lead)]) {
      const below = lanes.filter((other) => other > lead && other > (lane === lead ? -1 : lane));
      const kept = below.reduce((sum, other) => sum + this.claim(other), 0);
      left -= Math.max(0, batch.fill(lane, left - kept));
    }
  }

  ended(given: readonly number[], total: number): void {
    for (const [lane, floor] of this.floors.entries()) {
      const earned = (floor - given[lane]! / total) * this.places;
      this.credit[lane] = Math.max(0, Math.min(this.most, this.credit[lane]! + earned));
    }
  }

  filled(lane: number): void {
    this.credit[lane] = 0;
  }

  private claim(lane: number): number {
    return Math.min(this.counts()[lane]!, this.places, Math.floor(this.credit[lane]! + EPSILON));
  }
}

/** Deficit round robin in rounds. */
class Rounds implements Discipline {
  private readonly quantum: readonly number[];
  private readonly deficit: number[];
  private at: number;

  constructor(
    shares: readonly number[],
    private readonly counts: () => readonly number[],
  ) {
    this.quantum = shares.map((share) => share / Math.min(...shares));
    this.deficit = shares.map(() => 0);
    this.at = shares.length - 1;
  }

  lead(): number {
    const counts = this.counts();
    while (counts[this.at] === 0 || this.deficit[this.at]! < 1 - EPSILON) {
      this.at = (this.at + 1) % counts.length;
      // A round pays the debts of empty lanes, and nothing more.
      if (this.at === 0)
        for (const [lane, count] of counts.entries())
          if (count === 0) this.deficit[lane] = Math.min(0, this.deficit[lane]! + this.quantum[lane]!);
      if (counts[this.at] === 0) continue;
      if (!this.othersWait(this.at)) this.deficit[this.at] = Math.max(0, this.deficit[this.at]!);
      this.deficit[this.at]! += this.quantum[this.at]!;
    }
    return this.at;
  }

  goesFirst(): boolean {
    return false;
  }

  fill(places: number, batch: Filler): void {
    const lead = this.lead();
    const lanes = [...this.counts().keys()];
    const order = [...lanes.slice(lead), ...lanes.slice(0, lead)];
    let left = places;
    for (let round = 0; left > 0 && order.some((lane) => batch.isOpen(lane)); round++) {
      for (const lane of order) {
        const paid = this.deficit[lane]! + (lane === lead ? round : round + 1) * this.quantum[lane]!;
        left -= batch.fill(lane, Math.min(left, Math.floor(paid + EPSILON) - batch.given(lane)));
      }
    }
  }

  ended(given: readonly number[]): void {
    for (const [lane, taken] of given.entries()) if (this.othersWait(lane)) this.deficit[lane]! -= taken;
  }

  filled(lane: number): void {
    if (lane !== this.at) this.deficit[lane] = Math.min(0, this.deficit[lane]!);
  }

  private othersWait(lane: number): boolean {
    return this.counts().some((count, other) => other !== lane && count > 0);
  }
}

/** What a queue does, by hand: one list of all that wait, searched. */
class Model {
  fresh: Entry[] = [];
  returned: Entry[] = [];
  readonly discipline: Discipline;
  /** The keys of each lane, in the order of their turns. */
  private readonly turns: unknown[][];
  private readonly keys: unknown[][];
  private planned: Entry[] = [];

  constructor(
    readonly claims: readonly LaneClaim[],
    readonly isKeyed: boolean,
    discipline: (counts: () => readonly number[]) => Discipline,
  ) {
    this.turns = claims.map(() => []);
    this.keys = claims.map(() => []);
    this.discipline = discipline(() => this.counts);
  }

  get all(): Entry[] {
    return [...this.returned, ...this.fresh];
  }

  get counts(): number[] {
    return this.claims.map((_, lane) => this.all.filter((entry) => entry.lane === lane).length);
  }

  push(entry: Entry, isBack: boolean): void {
    const { lane, key } = entry;
    (isBack ? this.returned : this.fresh).push(entry);
    if (!isBack && !this.keys[lane]!.includes(key)) for (const keys of [this.turns, this.keys]) keys[lane]!.push(key);
    if (this.counts[lane] === 1) this.discipline.filled(lane);
  }

  remove(entry: Entry): void {
    const { lane, key } = entry;
    this.fresh = this.fresh.filter((other) => other !== entry);
    this.returned = this.returned.filter((other) => other !== entry);
    if (this.ofKey(lane, key).length > 0) return;
    for (const keys of [this.turns, this.keys]) keys[lane] = keys[lane]!.filter((other) => other !== key);
  }

  take(entry: Entry): void {
    const { lane, key } = entry;
    const isBack = this.returned.includes(entry);
    this.remove(entry);
    const turns = this.turns[lane]!;
    if (!isBack && turns.includes(key)) this.turns[lane] = [...turns.filter((other) => other !== key), key];
  }

  turn(lane: number, taken: number): void {
    if (this.all.length === 0) return;
    this.discipline.ended(
      this.claims.map((_, other) => (other === lane ? taken : 0)),
      taken,
    );
  }

  ofLane(lane: number): Entry[] {
    return this.fresh.filter((entry) => entry.lane === lane);
  }

  ofKey(lane: number, key: unknown): Entry[] {
    return this.ofLane(lane).filter((entry) => !this.isKeyed || entry.key === key);
  }

  keyTurns(lane: number): { key: unknown; size: number }[] {
    return this.turns[lane]!.map((key) => ({ key, size: this.ofKey(lane, key).length }));
  }

  backOf(lane: number): Entry[] {
    return this.returned.filter((entry) => entry.lane === lane);
  }

  head(lane: number): Entry | undefined {
    return this.backOf(lane)[0] ?? this.inTurn(lane)[0];
  }

  /** In the order in which they are served. */
  inTurn(lane: number): Entry[] {
    if (!this.isKeyed) return this.ofLane(lane);
    const lines = this.turns[lane]!.map((key) => this.ofKey(lane, key));
    const rounds = Math.max(0, ...lines.map(({ length }) => length));
    return Array.from({ length: rounds }, (_, round) => lines.flatMap((line) => line.slice(round, round + 1))).flat();
  }

  plan(lead: number, places: number, budget: number): Entry[] {
    const lines = this.claims.map((_, lane) => (this.backOf(lane).length > 0 ? [] : this.inTurn(lane)));
    const closed = new Set<number>();
    const planned: Entry[] = [];
    const weight = (): number => planned.reduce((sum, entry) => sum + entry.weight, 0);
    const batch: Filler = {
      isOpen: (lane) => lines[lane]!.length > 0 && !closed.has(lane),
      given: (lane) => planned.filter((entry) => entry.lane === lane).length,
      fill: (lane, most) => {
        let got = 0;
        for (let entry = lines[lane]![0]; entry && got < most && !closed.has(lane); entry = lines[lane]![0]) {
          if (planned.length > 0 && weight() + entry.weight > budget) closed.add(lane);
          else got += planned.push(lines[lane]!.shift()!) && 1;
        }
        return got;
      },
    };
    const isAlone = this.counts[lead] === this.all.length || this.claims[lead]!.piggyback === false;
    const got = batch.fill(lead, isAlone ? places : 1);
    if (!isAlone && places > got) this.discipline.fill(places - got, batch);
    this.planned = planned;
    return planned;
  }

  takePlanned(): void {
    const given = this.claims.map((_, lane) => this.planned.filter((entry) => entry.lane === lane).length);
    for (const entry of this.planned) this.take(entry);
    this.discipline.ended(given, this.planned.length);
  }
}

const claim = fc.record({
  share: fc.constantFrom(1, 2, 3, 0.1, 0.25),
  floor: fc.constantFrom(undefined, 0, 0.1, 0.125, 0.25),
  piggyback: fc.constantFrom(undefined, true, false),
});
const given = fc.record({
  kind: fc.constantFrom('strict' as const, 'weighted' as const, 'equal' as const),
  claims: fc.array(claim, { minLength: 1, maxLength: 4 }),
  isKeyed: fc.boolean(),
  places: fc.constantFrom(1, 2, 5, 10, Infinity),
});

const command = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom('push' as const, 'push' as const, 'return' as const),
      lane: fc.nat(),
      key: fc.nat({ max: 3 }),
      weight: fc.integer({ min: 1, max: 4 }),
      times: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), pick: fc.nat() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('grant' as const),
      taken: fc.constantFrom(undefined, 1, 3),
      key: fc.option(fc.nat({ max: 3 }), { nil: undefined }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('batch' as const),
      places: fc.constantFrom(1, 2, 5, 10, Infinity),
      budget: fc.constantFrom(3, 8, Infinity),
      lane: fc.option(fc.nat(), { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('turn' as const), lane: fc.nat(), taken: fc.integer({ min: 1, max: 4 }) }) },
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

/** Both side by side; of a queue for single turns only those. */
function play(queue: Queue<Entry> | GrantQueue<Entry>, model: Model, commands: readonly Command[]): void {
  const { claims, isKeyed } = model;
  let index = 0;
  for (const each of commands) {
    switch (each.do) {
      case 'push':
      case 'return': {
        const isBack = each.do === 'return' && 'pushReturned' in queue;
        for (let n = 0; n < (isBack ? 1 : each.times); n++) {
          const entry = new Entry(index++, each.lane % claims.length, each.weight, each.key);
          if (isBack) queue.pushReturned(entry);
          else queue.push(entry);
          model.push(entry, isBack);
        }
        break;
      }
      case 'remove': {
        const entry = model.all[each.pick % Math.max(1, model.all.length)];
        if (entry === undefined) break;
        queue.remove(entry);
        model.remove(entry);
        break;
      }
      case 'grant': {
        const lane = queue.lead();
        if (lane === -1) break;
        const first = isKeyed && each.key !== undefined && model.backOf(lane).length === 0 ? model.ofKey(lane, each.key)[0] : undefined;
        const wanted = first ?? model.head(lane)!;
        same(queue.takeHead(lane, each.taken, first), wanted);
        model.take(wanted);
        model.turn(lane, each.taken ?? 1);
        break;
      }
      case 'batch': {
        if (!('plan' in queue) || queue.lead() === -1) break;
        const lane = each.lane === undefined ? queue.lead() : each.lane % claims.length;
        // In one line what came back is taken before anything is planned.
        if (claims.length === 1 && queue.isReturned(lane)) break;
        const { entries, weight } = queue.plan(lane, each.places, each.budget);
        same(entries, model.plan(lane, each.places, each.budget));
        same(
          weight,
          entries.reduce((sum, entry) => sum + entry.weight, 0),
        );
        if (entries.length === 0) break;
        queue.takePlanned();
        model.takePlanned();
        break;
      }
      case 'turn':
        queue.turn(each.lane % claims.length, each.taken);
        model.turn(each.lane % claims.length, each.taken);
        break;
    }
    compare(queue, model);
  }
}

function compare(queue: Queue<Entry> | GrantQueue<Entry>, model: Model): void {
  const { all, counts, claims, isKeyed } = model;
  const isEmpty = all.length === 0;
  same([queue.size, queue.lead()], [all.length, isEmpty ? -1 : model.discipline.lead()]);
  for (const lane of claims.keys()) {
    same([queue.count(lane), queue.head(lane), queue.newest(lane)], [counts[lane], model.head(lane), model.ofLane(lane).at(-1)]);
    same(queue.goesFirst(lane), isEmpty || model.discipline.goesFirst(lane));
    const fresh = model.ofLane(lane);
    for (const most of [Infinity, 1, 2]) {
      const seen: Entry[] = [];
      queue.each(lane, (entry) => seen.push(entry) < most);
      same(seen, fresh.slice(0, most));
    }
    if ('plan' in queue) {
      same([queue.oldest(lane), queue.isReturned(lane)], [model.ofLane(lane)[0], model.backOf(lane).length > 0]);
      const after = claims.findIndex((_, other) => other >= lane && model.ofLane(other).length > 0);
      same(queue.after(lane - 1), after);
    }
    if (!isKeyed) continue;
    for (let key = 0; key < 4; key++) same(queue.headOf?.(lane, key), model.ofKey(lane, key)[0]);
    for (const most of [0, 1, 9]) same(queue.turns?.(lane, most), model.keyTurns(lane).slice(0, most));
  }
}

const numRuns = 120;

describe('a queue', () => {
  it('of lanes does what searched lists do', () => {
    fc.assert(
      fc.property(given, fc.array(command, { maxLength: 50, size: 'max' }), ({ kind, claims, isKeyed, places }, commands) => {
        const fairness = kind === 'strict' ? strictWithFloor() : sharedRounds(kind === 'weighted');
        const queue = new LanesQueue<Entry>(claims, fairness, places, isKeyed);
        const shares = claims.map(({ share }) => (kind === 'weighted' ? share : 1));
        const model = new Model(claims, isKeyed, (counts) =>
          kind === 'strict' ? new Floors(claims, places === Infinity ? 1 : places, counts) : new Rounds(shares, counts),
        );
        play(queue, model, commands);
      }),
      { numRuns },
    );
  });

  const first: (counts: () => readonly number[]) => Discipline = (counts) => new Floors([{ share: 1, floor: 0 }], 1, counts);

  it.each([
    ['of one line', FIFO],
    ['of one line, for single turns,', ONE_LINE],
  ])('%s does what a list does', (_title, rule) => {
    same([rule.lanes, rule.isDeclared, rule.at(undefined)], [[{ name: 'default' }], false, 0]);
    fc.assert(
      fc.property(fc.array(command, { maxLength: 50, size: 'max' }), (commands) => {
        play(rule.create<Entry>(1), new Model([{ share: 1, floor: 0 }], false, first), commands);
      }),
      { numRuns: 50 },
    );
  });
});
