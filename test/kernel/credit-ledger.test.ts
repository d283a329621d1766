import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CreditLedger, partMs, partsOf } from '../../operators/kernel/index.js';
import type { Credit, CreditLimit, CreditQuestion, CreditWait } from '../../operators/options/credit-store.js';
import { CreditLog, corrections, flood, isGranted, limit, question } from '../support/credit.js';
import { draws } from '../support/deep.js';

const EPOCH = 1_790_000_000_000;
const DAY_MS = 10_000;

type Kind = 'bucket' | 'borrowing' | 'window' | 'calendar' | 'reserved' | 'other unit';

/** Limits of two units; those of the second lane leave a fifth to the first. */
function limitsOf(kinds: readonly Kind[], share: number, now: number): CreditLimit[] {
  return kinds.flatMap((kind): CreditLimit[] => {
    switch (kind) {
      case 'bucket':
        return [limit({ amount: 1000 * share, windowMs: 2000, burst: 30 * share })];
      case 'borrowing':
        return [limit({ amount: 600 * share, windowMs: 1100, burst: 2 })];
      case 'window':
        return [limit({ amount: 700 * share, windowMs: 1500 })];
      case 'calendar':
        return [limit({ amount: 2000 * share, windowMs: DAY_MS, endsInMs: DAY_MS - (now % DAY_MS) })];
      case 'reserved':
        return [
          limit({ amount: 800 * share, windowMs: 3000, burst: 180 * share }),
          limit({ amount: 640 * share, windowMs: 3000, burst: 20 * share, fromLane: 1 }),
        ];
      case 'other unit':
        return [
          limit({ amount: 40 * share, windowMs: 1000, burst: 4, column: 1 }),
          limit({ amount: 100 * share, windowMs: 4000, column: 1 }),
        ];
    }
  });
}

interface Step {
  readonly do: 'ask' | 'repeat' | 'overtaken' | 'correct' | 'unknown' | 'again' | 'hold' | 'wait' | 'back' | 'die';
  readonly who: number;
  readonly size: number;
  readonly ms: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom(
    ...(['ask', 'ask', 'ask', 'ask', 'ask', 'ask', 'wait', 'wait', 'wait', 'correct', 'correct', 'repeat'] as const),
    ...(['overtaken', 'unknown', 'again', 'hold', 'back', 'die'] as const),
  ),
  who: fc.nat({ max: 3 }),
  size: fc.nat({ max: 1000 }),
  ms: fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 400 }), fc.nat({ max: 2500 }), fc.constant(20)),
});

interface Player {
  owner: string;
  readonly lane: number;
  readonly guardMs: number;
  readonly share: number;
  asked: { readonly question: CreditQuestion; readonly answer: Credit | CreditWait } | undefined;
  number: number;
  corrected: number;
  readonly credits: { readonly credit: Credit; readonly left: number[] }[];
}

const setup = fc.record({
  kinds: fc.uniqueArray(fc.constantFrom<Kind>('bucket', 'borrowing', 'window', 'calendar', 'reserved', 'other unit'), {
    minLength: 1,
    maxLength: 4,
  }),
  guards: fc.constantFrom([200, 200, 200, 200], [200, 200, 200, 200], [50, 50, 400, 50]),
  shares: fc.constantFrom([1, 1, 1, 1], [1, 1, 1, 1], [1, 0.5, 1, 2]),
  isLost: fc.boolean(),
});

/** A ledger under test, with everything that it was asked written down. */
class World {
  readonly ledger: CreditLedger;
  readonly log = new CreditLog((_, now) => Math.floor(now / DAY_MS) * DAY_MS);
  readonly players: Player[];
  readonly faults: string[] = [];
  /** What the clock of the store shows, and the latest that it has shown the ledger. */
  clock = EPOCH;
  now = -Infinity;
  private owners = 0;
  private readonly hasOneGuard: boolean;

  constructor(
    private readonly kinds: readonly Kind[],
    guards: readonly number[],
    shares: readonly number[],
    isLost: boolean,
  ) {
    this.ledger = new CreditLedger({ isLost });
    this.hasOneGuard = new Set(guards).size === 1;
    this.players = guards.map((guardMs, i) => ({
      owner: this.newOwner(),
      lane: i % 2,
      guardMs,
      share: shares[i]!,
      asked: undefined,
      number: 0,
      corrected: 0,
      credits: [],
    }));
  }

  private newOwner(): string {
    return `owner ${String(++this.owners)}`;
  }

  /** The time that the ledger is told. It knows of no others. */
  private time(): number {
    this.now = Math.max(this.now, this.clock);
    return this.clock;
  }

  do({ do: what, who, size, ms }: Step): void {
    const player = this.players[who]!;
    const { guardMs, lane, owner, share } = player;
    const limits = limitsOf(this.kinds, share, Math.max(this.now, this.clock));
    switch (what) {
      case 'ask': {
        const isTwo = this.kinds.includes('other unit');
        // Up to more than a limit has, now and then.
        const cost = ((size % 10 === 0 ? size : size % 100) * share * 3) / 4;
        const least = isTwo ? [cost, size % 7] : [cost];
        const most = least.map((amount, column) => (size % 3 === 0 ? amount : amount + (column === 0 ? ms % 200 : ms % 5)));
        this.ask(player, question({ owner, number: ++player.number, guardMs, lane, floors: [0, 0.1], limits, least, most }));
        return;
      }
      case 'repeat': {
        if (!player.asked) return;
        const answer = this.ledger.ask({ ...player.asked.question, least: [1], most: [1e6], limits }, this.time());
        if (answer !== player.asked.answer) this.faults.push(`another answer to the same number: ${JSON.stringify(answer)}`);
        return;
      }
      case 'overtaken': {
        if (player.number < 2) return;
        const answer = this.ledger.ask(
          question({ owner, number: player.number - 1, guardMs, lane, limits, least: limits.map(() => 0) }),
          this.time(),
        );
        if (isGranted(answer)) this.faults.push('granted to a question that was overtaken');
        return;
      }
      case 'correct': {
        const held = player.credits[player.credits.length - 1 - (size % 3)];
        if (!held) return;
        // Mostly less, by as much as was not given back, now and then more.
        const amounts = held.left.map((left) => (size % 8 === 0 ? size / 20 : -Math.min(left, (left * (size % 100)) / 80)));
        for (const [column, amount] of amounts.entries()) held.left[column]! += amount;
        this.correct(player, held.credit.credit, amounts, limits);
        return;
      }
      case 'unknown':
        // Long ago: nothing is left of its window.
        this.correct(
          player,
          this.now - 60_000 - ms,
          limits.map(() => (size % 2 === 0 ? -size : size)),
          limits,
        );
        return;
      case 'again':
        if (player.corrected === 0) return;
        this.ledger.correct(
          corrections({
            owner,
            number: player.corrected,
            guardMs,
            limits,
            corrections: [{ credit: this.now, lane, amounts: limits.map(() => -size) }],
          }),
          this.time(),
        );
        return;
      case 'hold':
        if (size % 4 === 0) this.ledger.hold('s', size % 8 === 0 ? ms : 0, this.time());
        return;
      case 'wait':
        this.clock += ms;
        return;
      case 'back':
        this.clock -= ms;
        return;
      case 'die':
        player.owner = this.newOwner();
        player.asked = undefined;
        player.credits.length = 0;
        player.number = player.corrected = 0;
    }
  }

  private ask(player: Player, asked: CreditQuestion): void {
    const answer = this.ledger.ask(asked, this.time());
    player.asked = { question: asked, answer };
    if (isGranted(answer)) {
      this.faults.push(...this.log.granted(asked, answer, this.now));
      player.credits.push({ credit: answer, left: [...answer.amounts] });
    } else if (!(answer.waitMs > 0) || !Number.isInteger(answer.waitMs)) this.faults.push(`a wait of ${String(answer.waitMs)} ms`);
    if (!this.hasOneGuard) return;
    const left = asked.least.map((_, column) =>
      Math.min(...asked.limits.filter((each) => each.column === column && asked.lane >= each.fromLane).map((each) => this.left(each))),
    );
    for (const [column, each] of answer.left.entries())
      if (!Number.isNaN(left[column]) && Math.abs(each - left[column]!) > 1e-6)
        this.faults.push(`left ${String(each)}, and ${String(left[column])} by hand`);
  }

  private correct(player: Player, credit: number, amounts: readonly number[], limits: readonly CreditLimit[]): void {
    const { guardMs, lane, owner } = player;
    const told = corrections({ owner, number: ++player.corrected, guardMs, limits, corrections: [{ credit, lane, amounts }] });
    this.ledger.correct(told, this.time());
    this.log.corrected(told);
  }

  /** What a limit has left, added up by hand. NaN for a calendar window: it also has what was granted at the end of the last. */
  private left(each: CreditLimit): number {
    if (each.endsInMs !== undefined) return Number.NaN;
    const [length, parts] = [partMs(each.windowMs), partsOf(each, 200)];
    const oldest = Math.floor(this.now / length) - parts + 1;
    const used = new Map<number, number>();
    for (const { at, lane, limits, net } of this.log.grants) {
      const its = limits.find(({ key }) => key === each.key);
      const part = Math.floor(at / length);
      if (its && lane >= each.fromLane && part >= oldest) used.set(part, (used.get(part) ?? 0) + net[its.column]!);
    }
    return [...used.values()].reduce((left, amount) => left - amount, each.amount);
  }
}

describe('CreditLedger', () => {
  it('grants no window more than the amount, however members ask, correct, repeat, die or set their clocks', () => {
    fc.assert(
      fc.property(setup, fc.array(step, { minLength: 1, maxLength: 120, size: 'max' }), ({ kinds, guards, shares, isLost }, steps) => {
        const world = new World(kinds, guards, shares, isLost);
        for (const each of steps) {
          world.do(each);
          if (world.faults.length > 0) throw new Error(world.faults.join('\n'));
        }
      }),
      { numRuns: draws(300, 3000) },
    );
  });
});

describe('floors', () => {
  const share = (part: { readonly floors: number[]; readonly limits: CreditLimit[]; readonly least: number; readonly urgent: number }) => {
    const { floors, least, limits, urgent } = part;
    const ledger = new CreditLedger({ isLost: false });
    const lower = floors.map((_, lane) => ({ owner: `lane ${String(lane)}`, lane, least: [least], most: [3 * least] })).slice(1);
    const others = ['one', 'two', 'three'].map((owner) => ({ owner, lane: 0, least: [urgent], most: [3 * urgent] }));
    const { got, faults } = flood((asked, now) => ledger.ask(asked, now), [...others, ...lower], {
      limits,
      floors,
      from: EPOCH,
      until: EPOCH + 60_000,
      log: new CreditLog(),
    });
    expect(faults).toEqual([]);
    const all = [...got.values()].reduce((sum, [amount = 0]) => sum + amount, 0);
    return { shares: lower.map(({ owner }) => (got.get(owner)?.[0] ?? 0) / all), all };
  };

  it.each([
    ['a tenth, by pace', [0, 0.1], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 10, 2],
    ['a tenth, of small jobs', [0, 0.1], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 1, 3],
    ['a tenth, of jobs above the burst', [0, 0.1], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 40, 10],
    ['a third', [0, 0.3], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 10, 10],
    ['half', [0, 0.5], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 5, 10],
    ['a tenth, of a window', [0, 0.1], limit({ amount: 1000, windowMs: 5000 }), 10, 10],
    ['two lanes', [0, 0.1, 0.2], limit({ amount: 1000, windowMs: 10_000, burst: 10 }), 10, 5],
    ['many lanes', [0, 0.05, 0.1, 0.15, 0.05], limit({ amount: 5000, windowMs: 10_000, burst: 50 }), 20, 20],
  ] as const)('%s', (_, floors, each, least, urgent) => {
    const { shares } = share({ floors: [...floors], limits: [each], least, urgent });
    for (const [i, got] of shares.entries()) {
      expect(got).toBeGreaterThanOrEqual(0.9 * floors[i + 1]!);
      // A whole window is there for a moment: some of it is left when all urgent owners think.
      if (each.burst !== undefined) expect(got).toBeLessThanOrEqual(1.3 * floors[i + 1]! + 0.01);
    }
  });
});

/** The ask of a ledger, for a flood. */
const asking = (ledger: CreditLedger) => (asked: CreditQuestion, now: number) => ledger.ask(asked, now);

describe('turns', () => {
  const limits = [limit({ amount: 1000, windowMs: 10_000, burst: 10 })];

  it('lets a heavy job through although others of its lane ask for little, and first, and all the time', () => {
    for (const each of [limits, [limit({ amount: 100, windowMs: 2000 })]]) {
      const small = ['b', 'c'].map((owner) => ({ owner, least: [1], thinkMs: 1, isRude: true }));
      const { got, waited } = flood(asking(new CreditLedger({ isLost: false })), [...small, { owner: 'heavy', least: [60], lateMs: 2 }], {
        limits: each,
        from: EPOCH,
        until: EPOCH + 30_000,
      });
      // Its own cost, and what the other two have waited for before.
      const rate = each[0]!.amount / (partsOf(each[0]!, 200) * partMs(each[0]!.windowMs));
      expect(waited.get('heavy')).toBeLessThanOrEqual(1.2 * (62 / rate) + (each[0]!.burst === undefined ? each[0]!.windowMs : 100));
      expect(got.get('heavy')![0]).toBeGreaterThan(0.25 * 30_000 * rate);
    }
  });

  it('serves equal owners of a lane alike, however many there are', () => {
    const many = Array.from({ length: 64 }, (_, i) => ({ owner: `o${String(i)}`, least: [5], most: [20], lateMs: i % 3 }));
    const { got } = flood(asking(new CreditLedger({ isLost: false })), many, { limits, from: EPOCH, until: EPOCH + 60_000 });
    const all = [...got.values()].map(([amount = 0]) => amount);
    expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(45);
  });

  it('lets a lane go before those below it, and these wait no longer than for what it needs', () => {
    const lower = ['b', 'c', 'd'].map((owner) => ({ owner, lane: 1, least: [10], isRude: true }));
    const urgent = { owner: 'a', lane: 0, least: [2], thinkMs: 150 };
    const { got, waited } = flood(asking(new CreditLedger({ isLost: false })), [...lower, urgent], {
      limits,
      from: EPOCH,
      until: EPOCH + 30_000,
      floors: [0, 0.1],
    });
    // What was granted just before has left a debt of 10 at most, and the lower lane is owed a turn now and then.
    expect(waited.get('a')).toBeLessThanOrEqual(250);
    const [mine = 0, all] = [got.get('a')?.[0], [...got.values()].reduce((sum, [amount = 0]) => sum + amount, 0)];
    expect(mine).toBeGreaterThan(250);
    expect(all).toBeGreaterThan(0.96 * 3000);
  });

  it('goes on without one that does not come back', () => {
    const ledger = new CreditLedger({ isLost: false });
    const ask = (owner: string, lane: number, least: number, now: number) =>
      ledger.ask(question({ owner, number: now, limits, lane, floors: [0, 0.1], least: [least], most: [least] }), EPOCH + now);
    expect(isGranted(ask('x', 0, 10, 0))).toBe(true);
    // In 5 ms and a half, in front of the other.
    expect(ask('gone', 0, 10, 0)).toMatchObject({ waitMs: 103 });
    expect(ask('b', 1, 10, 1)).toMatchObject({ waitMs: 204 });
    // So much longer than it was told, nothing of it is lost.
    expect(ask('b', 1, 10, 202)).toMatchObject({ waitMs: 63 });
    expect(isGranted(ask('b', 1, 10, 203))).toBe(true);
  });

  it('keeps the place of one that is a little late, and gives it to the next when it has lapsed', () => {
    for (const [seenAt, isFirst] of [
      [1600, true],
      [1601, false],
    ] as const) {
      const ledger = new CreditLedger({ isLost: false });
      const ask = (owner: string, now: number) =>
        ledger.ask(question({ owner, number: now, limits: [limit({ amount: 10, windowMs: 1500 })], least: [10] }), EPOCH + now);
      expect(isGranted(ask('x', 0))).toBe(true);
      ask('a', 100);
      ask('b', 101);
      ask('a', seenAt);
      ask('b', seenAt);
      // The window has room for one.
      expect([isGranted(ask('b', 1720)), isGranted(ask('a', 1720))]).toEqual(isFirst ? [false, true] : [true, false]);
    }
  });

  it('begins anew in another lane', () => {
    const ledger = new CreditLedger({ isLost: false });
    const window = [limit({ amount: 10, windowMs: 1000 })];
    const ask = (owner: string, lane: number, now: number) =>
      ledger.ask(question({ owner, number: now, limits: window, lane, floors: [0, 0], least: [10] }), EPOCH + now);
    expect(isGranted(ask('x', 1, 0))).toBe(true);
    ask('a', 0, 1);
    ask('b', 1, 2);
    ask('a', 1, 3);
    ask('a', 1, 1200);
    ask('b', 1, 1200);
    const at = 1240;
    expect([isGranted(ask('a', 1, at)), isGranted(ask('b', 1, at))]).toEqual([false, true]);
  });
});

describe('a reserve', () => {
  it('is there for the urgent lane at any moment, whatever the lanes below ask for', () => {
    const limits = [limit({ amount: 1000, windowMs: 10_000, burst: 210 }), limit({ amount: 800, windowMs: 10_000, burst: 8, fromLane: 1 })];
    fc.assert(
      fc.property(
        fc.integer({ min: 12_000, max: 40_000 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 200 }),
        (afterMs, least, wanted) => {
          const ledger = new CreditLedger({ isLost: false });
          const log = new CreditLog();
          const lower = ['b', 'c', 'd'].map((owner, i) => ({ owner, lane: 1 + (i % 2), least: [least], most: [1000] }));
          const { faults } = flood(asking(ledger), lower, { limits, from: EPOCH, until: EPOCH + afterMs, log });
          expect(faults).toEqual([]);
          const at = EPOCH + afterMs;
          const asked = question({ owner: 'urgent', lane: 0, limits, least: [wanted] });
          expect(isGranted(ledger.ask(asked, at))).toBe(true);
          // What is left of it.
          const rest = question({ owner: 'urgent', number: 2, lane: 0, limits, least: [200 - wanted] });
          expect(isGranted(ledger.ask(rest, at))).toBe(true);
          expect(isGranted(ledger.ask(question({ owner: 'urgent', number: 3, lane: 0, limits, least: [50] }), at))).toBe(false);
        },
      ),
      { numRuns: draws(30, 100) },
    );
  });

  it('of a window is there as well, and what the lanes above take is not counted below', () => {
    const limits = [limit({ amount: 100, windowMs: 1000 }), limit({ amount: 70, windowMs: 1000, fromLane: 1 })];
    const ledger = new CreditLedger({ isLost: false });
    const ask = (number: number, lane: number, least: number) =>
      ledger.ask(question({ number, lane, limits, floors: [0, 0], least: [least] }), EPOCH);
    expect(isGranted(ask(1, 1, 60))).toBe(true);
    expect(ask(2, 1, 11)).toMatchObject({ left: [10] });
    expect(ask(3, 0, 25)).toMatchObject({ amounts: [25], left: [15] });
    expect(ask(4, 1, 10)).toMatchObject({ amounts: [10], left: [0] });
    expect(ask(5, 0, 5)).toMatchObject({ amounts: [5], left: [0] });
    // What the urgent lane gives back is no lower lane's: its own limit is full.
    ledger.correct(corrections({ limits, corrections: [{ credit: EPOCH, lane: 0, amounts: [-25] }] }), EPOCH);
    expect(ask(6, 1, 1)).toMatchObject({ left: [0] });
    expect(ask(7, 0, 25)).toMatchObject({ amounts: [25] });
    ledger.correct(corrections({ number: 2, limits, corrections: [{ credit: EPOCH, lane: 1, amounts: [-25] }] }), EPOCH);
    expect(ask(8, 1, 25)).toMatchObject({ amounts: [25], left: [0] });
  });
});

describe('use', () => {
  it.each([
    ['of a bucket of 10 s', limit({ amount: 200_000, windowMs: 10_000, burst: 2000 }), 2000, 0.97],
    ['of a bucket of 10 s, by small jobs', limit({ amount: 20_000, windowMs: 10_000, burst: 200 }), 30, 0.97],
    ['of a bucket of a minute', limit({ amount: 1_200_000, windowMs: 60_000, burst: 12_000 }), 12_000, 0.985],
    ['of a window of 10 s', limit({ amount: 2000, windowMs: 10_000 }), 20, 0.96],
    ['of a window of a minute', limit({ amount: 6000, windowMs: 60_000 }), 60, 0.985],
  ] as const)('%s', (_, each, least, use) => {
    const ledger = new CreditLedger({ isLost: false });
    const log = new CreditLog();
    const owners = Array.from({ length: 7 }, (_each, i) => ({
      owner: `o${String(i)}`,
      lane: 1,
      least: [least],
      most: [least + (least * i) / 2],
    }));
    const warm = EPOCH + 2 * each.windowMs;
    const { faults } = flood(asking(ledger), owners, {
      limits: [each],
      floors: [0, 0.1],
      log,
      from: EPOCH,
      until: warm + 3 * each.windowMs,
    });
    expect(faults).toEqual([]);
    const granted = log.grants.reduce((sum, { amounts, at }) => (at >= warm ? sum + amounts[0]! : sum), 0);
    expect(granted / (3 * each.amount)).toBeGreaterThan(use);
    expect(granted / (3 * each.amount)).toBeLessThanOrEqual(1);
  });

  it('of what was paid too much for and is given back', () => {
    const limits = [limit({ amount: 2000, windowMs: 10_000, burst: 20 })];
    const ledger = new CreditLedger({ isLost: false });
    const log = new CreditLog();
    let number = 0;
    let used = 0;
    const back: { readonly at: number; readonly credit: number }[] = [];
    const ask = (asked: CreditQuestion, now: number) => {
      // A fifth of each credit comes back after 300 ms.
      while (back[0] && back[0].at <= now) {
        const { credit } = back.shift()!;
        const told = corrections({ owner: 'x', number: ++number, limits, corrections: [{ credit, lane: 0, amounts: [-4] }] });
        ledger.correct(told, now);
        for (const grant of log.grants) if (grant.credit === credit) grant.net[0]! -= 4;
      }
      const answer = ledger.ask(asked, now);
      if (isGranted(answer)) {
        back.push({ at: now + 300, credit: answer.credit });
        if (now >= EPOCH + 20_000) used += 16;
      }
      return answer;
    };
    const { faults } = flood(
      ask,
      [
        { owner: 'x', least: [20] },
        { owner: 'y', least: [20] },
      ],
      { limits, from: EPOCH, until: EPOCH + 50_000, log },
    );
    expect(faults).toEqual([]);
    expect(used / 6000).toBeGreaterThan(0.96);
  });
});

describe('a loss of the state', () => {
  it('grants no window that spans it more than the amount of a paced limit', () => {
    const each = fc.record({
      burst: fc.integer({ min: 1, max: 400 }),
      least: fc.integer({ min: 1, max: 50 }),
      lossesMs: fc.array(fc.integer({ min: 1, max: 12_000 }), { minLength: 1, maxLength: 4 }),
      warmMs: fc.integer({ min: 0, max: 12_000 }),
      idleMs: fc.oneof(fc.constant(0), fc.nat({ max: 3000 })),
    });
    fc.assert(
      fc.property(each, ({ burst, least, lossesMs, warmMs, idleMs }) => {
        const limits = [
          limit({ amount: 1000, windowMs: 4000, burst }),
          limit({ amount: 500, windowMs: 3000, burst: Math.max(50, burst), column: 1 }),
        ];
        const log = new CreditLog();
        const faults: string[] = [];
        let from = EPOCH + idleMs;
        let isLost = false;
        for (const ms of [warmMs, ...lossesMs]) {
          const owners = ['a', 'b'].map((owner) => ({ owner, least: [Math.min(least, burst), least], most: [burst, 500] }));
          faults.push(...flood(asking(new CreditLedger({ isLost })), owners, { limits, from, until: from + ms, log }).faults);
          from += ms;
          isLost = true;
        }
        expect(faults).toEqual([]);
      }),
      { numRuns: draws(60, 300) },
    );
  });

  it('lets a window that may be spent at once come in evenly until what was granted before has left it', () => {
    const limits = [limit({ amount: 1000, windowMs: 10_000 })];
    const ask = (ledger: CreditLedger, number: number, now: number) => {
      const answer = ledger.ask(question({ number, limits, least: [0], most: [1000] }), EPOCH + now);
      return isGranted(answer) ? answer.amounts[0]! : -1;
    };
    const ledger = new CreditLedger({ isLost: true });
    // 10,220 ms bring 1000. It begins with a debt.
    expect(ask(ledger, 1, 0)).toBe(-1);
    expect(ask(ledger, 2, 122)).toBe(-1);
    expect(ask(ledger, 3, 123)).toBeCloseTo(0.078, 3);
    expect(ask(ledger, 4, 200)).toBeCloseTo(7.534, 3);
    expect(ask(ledger, 5, 5000)).toBeCloseTo(10, 6);
    expect(ask(ledger, 6, 10_219)).toBeCloseTo(10, 6);
    expect(ask(ledger, 7, 10_220)).toBeCloseTo(1000 - 27.613, 3);
    // One that is longer than ten minutes would have to wait for hours.
    const long = [limit({ amount: 1000, windowMs: 600_001 })];
    expect(new CreditLedger({ isLost: true }).ask(question({ limits: long, least: [1000] }), EPOCH)).toMatchObject({ amounts: [1000] });
    const longest = [limit({ amount: 1000, windowMs: 600_000 })];
    expect(isGranted(new CreditLedger({ isLost: true }).ask(question({ limits: longest, least: [1000] }), EPOCH))).toBe(false);
  });

  it('gives nothing back of what was granted before it', () => {
    const limits = [limit({ amount: 1000, windowMs: 10_000, burst: 10 })];
    const ledger = new CreditLedger({ isLost: true });
    const told = corrections({ limits, corrections: [{ credit: EPOCH - 10, lane: 0, amounts: [-500] }] });
    ledger.correct(told, EPOCH);
    expect(ledger.ask(question({ limits, least: [10] }), EPOCH)).toMatchObject({ waitMs: 225, left: [1000] });
  });
});

describe('the wait it tells', () => {
  it('is honest: asked again after it, alone, it grants, and not a ms earlier', () => {
    const grant = fc.record({ least: fc.nat({ max: 60 }), waitMs: fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 3000 })) });
    const kinds = fc.uniqueArray(fc.constantFrom<Kind>('bucket', 'borrowing', 'window', 'calendar', 'reserved', 'other unit'), {
      minLength: 1,
      maxLength: 3,
    });
    fc.assert(
      fc.property(
        kinds,
        fc.array(grant, { maxLength: 40, size: 'max' }),
        fc.integer({ min: 1, max: 1500 }),
        fc.nat({ max: 1 }),
        fc.boolean(),
        (all, grants, least, lane, isLost) => {
          const ledger = new CreditLedger({ isLost });
          let now = EPOCH;
          let number = 0;
          const ask = (cost: number, at: number) => {
            const limits = limitsOf(all, 1, at);
            const each = all.includes('other unit') ? [cost, cost % 50] : [cost];
            return ledger.ask(question({ number: ++number, lane, floors: [0, 0.1], limits, least: each }), at);
          };
          for (const { least: cost, waitMs } of grants) {
            ask(cost, now);
            now += waitMs;
          }
          const answer = ask(least, now);
          if (isGranted(answer)) return;
          const { waitMs } = answer;
          // Sums of fractions round.
          if (waitMs > 1) expect(isGranted(ask(least, now + waitMs - 1.001))).toBe(false);
          expect(isGranted(ask(least, now + waitMs))).toBe(true);
        },
      ),
      { numRuns: draws(200, 1500) },
    );
  });

  it('lasts until the part of the window is over in which enough was granted', () => {
    // Parts of 20 ms: 50 of the window, 10 of the guard, and the present one.
    const limits = [limit({ amount: 10, windowMs: 1000 })];
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (least: number, at: number) => ledger.ask(question({ number: ++number, limits, least: [least] }), EPOCH + at);
    for (const at of [0, 19, 20, 59]) expect(isGranted(ask(2, at))).toBe(true);
    expect(ask(2, 60)).toMatchObject({ amounts: [2], left: [0] });
    expect(ask(1, 61)).toMatchObject({ waitMs: 1220 - 61, left: [0], holdMs: 0 });
    expect(ask(4, 61)).toMatchObject({ waitMs: 1220 - 61 });
    expect(ask(5, 61)).toMatchObject({ waitMs: 1240 - 61 });
    expect(ask(10, 61)).toMatchObject({ waitMs: 1280 - 61 });
    // More than there ever is, as soon as there is nothing else.
    expect(ask(11, 61)).toMatchObject({ waitMs: 1280 - 61 });
    expect(ask(4, 1219)).toMatchObject({ waitMs: 1 });
    expect(ask(4, 1220)).toMatchObject({ amounts: [4] });
    expect(ask(11, 2499)).toMatchObject({ amounts: [11], left: [-1] });
  });

  it('of a bucket is as long as it takes for what is missing to come in', () => {
    // 1000 in 10,220 ms.
    const limits = [limit({ amount: 1000, windowMs: 10_000, burst: 20 })];
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (least: number, at: number) => ledger.ask(question({ number: ++number, limits, least: [least] }), EPOCH + at);
    expect(ask(20, 0)).toMatchObject({ amounts: [20] });
    expect(ask(10, 0)).toMatchObject({ waitMs: 103 });
    expect(ask(10, 102)).toMatchObject({ waitMs: 1 });
    expect(ask(10, 103)).toMatchObject({ amounts: [10] });
    // A job of more than the burst goes when all of that is there, and leaves a debt.
    expect(ask(50, 103)).toMatchObject({ waitMs: 204 });
    expect(ask(50, 307)).toMatchObject({ amounts: [50] });
    expect(ask(1, 307)).toMatchObject({ waitMs: 317 });
    // Idle, it saves up no more than the burst, and what one waits for, a little more.
    const all = (at: number) => ledger.ask(question({ number: ++number, limits, least: [1], most: [100] }), EPOCH + at);
    expect(all(9000)).toMatchObject({ amounts: [20] });
    expect(ask(20, 9000)).toMatchObject({ waitMs: 205 });
    expect((all(9400) as Credit).amounts[0]).toBeCloseTo(20 + 2000 / 511, 6);
  });
});

describe('several limits', () => {
  const limits = [
    limit({ amount: 10, windowMs: 1000 }),
    limit({ amount: 15, windowMs: 3000 }),
    limit({ amount: 3, windowMs: 1000, column: 1 }),
  ];

  it('are charged in one step, all or none', () => {
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (least: number[], at: number, most = least) => ledger.ask(question({ number: ++number, limits, least, most }), EPOCH + at);
    expect(ask([8, 1], 0)).toMatchObject({ amounts: [8, 1], left: [2, 2] });
    expect(ask([1, 3], 0)).toMatchObject({ waitMs: 1220, left: [2, 2] });
    expect(ask([2, 1], 0, [9, 9])).toMatchObject({ amounts: [2, 2], left: [0, 0] });
    // The longer window has 5.
    expect(ask([6, 1], 2000)).toMatchObject({ waitMs: 3220 - 2000, left: [5, 3] });
    expect(ask([1, 1], 2000, [9, 9])).toMatchObject({ amounts: [5, 3], left: [0, 0] });
  });

  it('gives what has no limit as it is asked for', () => {
    const ledger = new CreditLedger({ isLost: false });
    const answer = ledger.ask(question({ limits: [limits[0]!], least: [1, 5, 0], most: [2, 9, 0] }), EPOCH);
    expect(answer).toMatchObject({ amounts: [2, 9, 0], left: [8, Infinity, Infinity] });
  });

  it('are those of a scope', () => {
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (scope: string, least: number) =>
      ledger.ask(question({ scope, number: ++number, limits: [limits[0]!], least: [least] }), EPOCH);
    expect(isGranted(ask('one', 9))).toBe(true);
    expect(isGranted(ask('other', 9))).toBe(true);
    ledger.hold('one', 1000, EPOCH);
    expect(ask('one', 1)).toMatchObject({ waitMs: 1000, holdMs: 1000 });
    expect(ask('other', 1)).toMatchObject({ amounts: [1], holdMs: 0 });
  });
});

describe('limits that differ between processes', () => {
  it('hold each to its own number', () => {
    const [high, low] = [limit({ amount: 1000, windowMs: 10_000, burst: 100 }), limit({ amount: 100, windowMs: 10_000, burst: 1 })];
    const log = new CreditLog();
    const { faults, got, waited } = flood(
      asking(new CreditLedger({ isLost: false })),
      [
        { owner: 'low', limits: [low], least: [1], isRude: true },
        { owner: 'high', limits: [high], least: [50], most: [100] },
      ],
      { limits: [high], from: EPOCH, until: EPOCH + 40_000, log },
    );
    expect(faults).toEqual([]);
    // The lower one has nothing left while the higher one uses more than that.
    expect(got.get('high')![0]).toBeGreaterThan(3000);
    expect(waited.get('high')).toBeLessThan(1200);
  });

  it('counts credit as long as the process with the longest guard may spend it', () => {
    const limits = [limit({ amount: 10, windowMs: 1000 })];
    const ledger = new CreditLedger({ isLost: false });
    const ask = (owner: string, guardMs: number, number: number, at: number) =>
      ledger.ask(question({ owner, number, guardMs, limits, least: [10] }), EPOCH + at);
    expect(isGranted(ask('long', 1000, 1, 0))).toBe(true);
    expect(ask('short', 100, 1, 1120)).toMatchObject({ waitMs: 2020 - 1120 });
    expect(isGranted(ask('short', 100, 2, 2020))).toBe(true);
    // No member has a long guard any more.
    expect(ask('short', 100, 3, 2040)).toMatchObject({ waitMs: 2020 + 1120 - 2040 });
  });
});

describe('a calendar window', () => {
  const at = (ms: number) => EPOCH + ms;
  const ask = (
    ledger: CreditLedger,
    of: { owner?: string; number: number; least: number; at: number; behindMs?: number; lengthMs?: number },
  ) => {
    const { owner = 'a', number, least, behindMs = 0, lengthMs = DAY_MS } = of;
    const clock = of.at - behindMs;
    const limits = [limit({ amount: 100, windowMs: DAY_MS, endsInMs: lengthMs - (((clock % lengthMs) + lengthMs) % lengthMs) })];
    return ledger.ask(question({ owner, number, limits, least: [least] }), at(of.at));
  };

  it('has all of its amount again when it ends, but for what may be spent later', () => {
    const ledger = new CreditLedger({ isLost: false });
    expect(ask(ledger, { number: 1, least: 60, at: 3 })).toMatchObject({ amounts: [60], left: [40] });
    expect(ask(ledger, { number: 2, least: 50, at: 5000 })).toMatchObject({ waitMs: 5000, left: [40] });
    expect(ask(ledger, { number: 3, least: 10, at: 9799 })).toMatchObject({ amounts: [10] });
    expect(ask(ledger, { number: 4, least: 20, at: 9800 })).toMatchObject({ amounts: [20] });
    expect(ask(ledger, { number: 5, least: 11, at: 9999 })).toMatchObject({ waitMs: 1, left: [10] });
    expect(ask(ledger, { number: 6, least: 81, at: 10_000 })).toMatchObject({ waitMs: 10_000, left: [80] });
    expect(ask(ledger, { number: 7, least: 80, at: 10_001 })).toMatchObject({ amounts: [80] });
    // Not what was granted at the end of the last but one.
    expect(ask(ledger, { number: 8, least: 100, at: 20_000 })).toMatchObject({ amounts: [100] });
  });

  it('begins once, although clocks differ and questions take their time', () => {
    const ledger = new CreditLedger({ isLost: false });
    expect(ask(ledger, { number: 1, least: 100, at: 9000 })).toMatchObject({ amounts: [100] });
    // A clock that is a little behind: the old window is not over there, and is no new one.
    expect(ask(ledger, { owner: 'b', number: 1, least: 1, at: 10_050, behindMs: 100 })).toMatchObject({ waitMs: 50 });
    expect(ask(ledger, { number: 2, least: 60, at: 10_060 })).toMatchObject({ amounts: [60] });
    expect(ask(ledger, { owner: 'b', number: 2, least: 41, at: 10_070, behindMs: 100 })).toMatchObject({ waitMs: 30, left: [40] });
    expect(ask(ledger, { owner: 'b', number: 3, least: 41, at: 10_101, behindMs: 100 })).toMatchObject({ left: [40] });
    expect(ask(ledger, { owner: 'b', number: 4, least: 40, at: 19_000, behindMs: 100 })).toMatchObject({ left: [0] });
    // Nor does one that is ahead make the other begin one: what it takes counts in the window that it has begun.
    expect(ask(ledger, { number: 3, least: 70, at: 20_000 })).toMatchObject({ left: [30] });
  });

  it('may be shorter or longer than usual, as a day in spring and autumn', () => {
    for (const lengthMs of [9600, 10_400]) {
      const ledger = new CreditLedger({ isLost: false });
      const start = -(EPOCH % lengthMs) + lengthMs;
      const asked = (number: number, least: number, ms: number) => ask(ledger, { number, least, at: ms, lengthMs, behindMs: -EPOCH });
      expect(asked(1, 100, start + 5000)).toMatchObject({ amounts: [100] });
      expect(asked(2, 1, start + lengthMs - 1)).toMatchObject({ waitMs: 1 });
      expect(asked(3, 100, start + lengthMs)).toMatchObject({ amounts: [100] });
    }
  });

  it('takes back what was granted in it, and nothing that was granted before', () => {
    const ledger = new CreditLedger({ isLost: false });
    const limits = (now: number) => [limit({ amount: 100, windowMs: DAY_MS, endsInMs: DAY_MS - (now % DAY_MS) })];
    let number = 0;
    const correct = (credit: number, amount: number, now: number) => {
      const told = { number: ++number, limits: limits(now), corrections: [{ credit: at(credit), lane: 0, amounts: [amount] }] };
      ledger.correct(corrections(told), at(now));
    };
    ask(ledger, { number: 1, least: 50, at: 100 });
    ask(ledger, { number: 2, least: 50, at: 9900 });
    // Of what may be spent in the next window.
    correct(9900, -10, 9950);
    expect(ask(ledger, { number: 3, least: 90, at: 10_010 })).toMatchObject({ left: [60] });
    correct(100, -50, 10_020);
    correct(9899, -50, 10_020);
    expect(ask(ledger, { number: 4, least: 90, at: 10_030 })).toMatchObject({ left: [60] });
    correct(9900, -30, 10_040);
    expect(ask(ledger, { number: 5, least: 90, at: 10_050 })).toMatchObject({ amounts: [90], left: [0] });
    correct(10_050, -90, 10_060);
    expect(ask(ledger, { number: 6, least: 90, at: 10_070 })).toMatchObject({ amounts: [90], left: [0] });
    correct(10_050, 20, 10_080);
    expect(ask(ledger, { number: 7, least: 1, at: 10_090 })).toMatchObject({ left: [-20] });
    // A day later nothing of it is left.
    correct(10_050, -50, 30_000);
    expect(ask(ledger, { number: 8, least: 100, at: 30_000 })).toMatchObject({ amounts: [100] });
  });
});

describe('corrections', () => {
  const limits = [limit({ amount: 100, windowMs: 1000 })];
  const grants = () => {
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (least: number, now: number) => ledger.ask(question({ owner: 'x', number: ++number, limits, least: [least] }), EPOCH + now);
    const correct = (of: number, credit: number, amount: number, now: number, owner = 'a') => {
      ledger.correct(
        corrections({ owner, number: of, limits, corrections: [{ credit: EPOCH + credit, lane: 0, amounts: [amount] }] }),
        EPOCH + now,
      );
    };
    return { ask, correct };
  };

  it('of one number are booked once, and so are those that were overtaken', () => {
    const { ask, correct } = grants();
    ask(80, 0);
    correct(2, 0, -10, 10);
    correct(2, 0, -10, 10);
    correct(1, 0, -10, 10);
    expect(ask(100, 20)).toMatchObject({ left: [30] });
    correct(3, 0, -10, 30);
    correct(1, 0, -10, 30, 'b');
    correct(0, 0, -1, 30, 'c');
    expect(ask(100, 40)).toMatchObject({ left: [51] });
  });

  it('give back no more than was granted at that time', () => {
    const { ask, correct } = grants();
    ask(30, 0);
    ask(30, 25);
    correct(1, 7, -50, 30);
    correct(2, 60, -50, 70);
    correct(3, 45, -5, 80);
    expect(ask(100, 90)).toMatchObject({ left: [70] });
    correct(4, 25, -30, 95);
    expect(ask(100, 95)).toMatchObject({ amounts: [100], left: [0] });
  });

  it('charge more in the window in which it was granted, in its place among the others', () => {
    const { ask, correct } = grants();
    ask(10, 0);
    ask(10, 100);
    correct(1, 50, 30, 120);
    correct(2, 0, 60, 120);
    expect(ask(1, 130)).toMatchObject({ left: [-10], waitMs: 1220 - 130 });
    expect(ask(100, 130)).toMatchObject({ waitMs: 1320 - 130 });
    expect(ask(61, 1230)).toMatchObject({ waitMs: 1260 - 1230, left: [60] });
    expect(ask(90, 1260)).toMatchObject({ amounts: [90] });
  });

  it('of a window that is over change nothing', () => {
    const { ask, correct } = grants();
    ask(50, 0);
    ask(50, 20);
    correct(1, 0, 500, 1220);
    correct(2, 19, -50, 1220);
    expect(ask(51, 1220)).toMatchObject({ left: [50], waitMs: 20 });
    correct(3, 20, -50, 1239);
    expect(ask(100, 1239)).toMatchObject({ amounts: [100] });
  });

  it('of a time that has not come are those of now', () => {
    const { ask, correct } = grants();
    ask(50, 0);
    correct(1, 5000, 10, 100);
    expect(ask(100, 110)).toMatchObject({ left: [40] });
    expect(ask(100, 1319)).toMatchObject({ left: [90] });
    expect(ask(100, 1320)).toMatchObject({ amounts: [100] });
  });

  it('leave units alone that they do not name, and limits of lanes below', () => {
    const two = [
      limit({ amount: 100, windowMs: 1000 }),
      limit({ amount: 100, windowMs: 1000, column: 1 }),
      limit({ amount: 50, windowMs: 1000, fromLane: 2 }),
    ];
    const ledger = new CreditLedger({ isLost: false });
    const ask = (number: number, lane: number, least: number[]) =>
      ledger.ask(question({ number, lane, limits: two, least, floors: [0, 0, 0] }), EPOCH);
    ask(1, 2, [40, 40]);
    const correct = (number: number, lane: number, amounts: number[]) => {
      ledger.correct(corrections({ number, limits: two, corrections: [{ credit: EPOCH, lane, amounts }] }), EPOCH);
    };
    correct(1, 1, [-10]);
    expect(ask(2, 2, [100, 100])).toMatchObject({ left: [10, 60] });
    correct(2, 2, [-10, -30]);
    expect(ask(3, 2, [100, 100])).toMatchObject({ left: [20, 90] });
    expect(ask(4, 0, [100, 100])).toMatchObject({ left: [80, 90] });
  });

  it('of a bucket let it fill as if so much less had been taken', () => {
    const bucket = [limit({ amount: 1000, windowMs: 10_000, burst: 20 })];
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (least: number, now: number) =>
      ledger.ask(question({ owner: 'x', number: ++number, limits: bucket, least: [least] }), EPOCH + now);
    const correct = (of: number, credit: number, amount: number, now: number) => {
      ledger.correct(
        corrections({ number: of, limits: bucket, corrections: [{ credit: EPOCH + credit, lane: 0, amounts: [amount] }] }),
        EPOCH + now,
      );
    };
    ask(20, 0);
    correct(1, 0, -15, 0);
    expect(ask(15, 0)).toMatchObject({ amounts: [15] });
    correct(2, 0, 5, 0);
    expect(ask(1, 0)).toMatchObject({ waitMs: 62 });
    // It was given back already: nothing is left of it.
    correct(3, 5000, -15, 5000);
    expect(ask(20, 5000)).toMatchObject({ amounts: [20] });
    expect(ask(1, 5000)).toMatchObject({ waitMs: 11 });
  });
});

describe('a hold', () => {
  const limits = [limit({ amount: 10, windowMs: 1000 })];
  const held = () => {
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const ask = (at: number) => ledger.ask(question({ number: ++number, limits, least: [1] }), EPOCH + at);
    return { ledger, ask };
  };

  it('lets nothing be granted until it is over', () => {
    const { ledger, ask } = held();
    ledger.hold('s', 500, EPOCH);
    expect(ask(100)).toMatchObject({ waitMs: 400, holdMs: 400, left: [10] });
    expect(ask(499.5)).toMatchObject({ waitMs: 1, holdMs: 0.5 });
    expect(ask(500)).toMatchObject({ amounts: [1], holdMs: 0 });
  });

  it('is not ended by a shorter one, and by one of 0', () => {
    const { ledger, ask } = held();
    ledger.hold('s', 500, EPOCH);
    ledger.hold('s', 100, EPOCH + 10);
    expect(ask(200)).toMatchObject({ holdMs: 300 });
    ledger.hold('s', 400, EPOCH + 200);
    expect(ask(300)).toMatchObject({ holdMs: 300 });
    ledger.hold('s', 0, EPOCH + 310);
    expect(isGranted(ask(310))).toBe(true);
  });

  it('is not shortened by a clock that is set', () => {
    const { ledger, ask } = held();
    ask(1000);
    ledger.hold('s', 500, EPOCH);
    expect(ask(0)).toMatchObject({ holdMs: 500 });
    expect(ask(1499)).toMatchObject({ holdMs: 1 });
    expect(isGranted(ask(1500))).toBe(true);
  });
});

describe('lessons', () => {
  const [of, other] = [limit({ amount: 10, windowMs: 1000 }), limit({ amount: 100, windowMs: 1000, column: 1 })];
  const learning = () => {
    const ledger = new CreditLedger({ isLost: false });
    const numbers: Record<string, number> = {};
    const ask = (owner: string, epoch: number, lessons?: Record<string, number>, at = 0, limits: readonly CreditLimit[] = [of, other]) => {
      const number = (numbers[owner] = (numbers[owner] ?? 0) + 1);
      return ledger.ask(question({ owner, number, limits, least: [0, 0], epoch, lessons }), EPOCH + at);
    };
    return { ledger, ask };
  };

  it('bind all processes at once, and each limit by itself', () => {
    const { ask } = learning();
    expect(ask('a', 0)).toMatchObject({ epoch: 0, lessons: {}, left: [10, 100] });
    expect(ask('a', 0, { [of.key]: 4 })).toMatchObject({ epoch: 1, lessons: { [of.key]: 4 }, left: [4, 100] });
    expect(ask('b', 0)).toMatchObject({ epoch: 1, lessons: { [of.key]: 4 }, left: [4, 100] });
    expect(ask('b', 1, { [other.key]: 50 })).toMatchObject({ epoch: 2, left: [4, 50] });
    expect(ask('a', 2, { [of.key]: 6 })).toMatchObject({ epoch: 3, lessons: { [of.key]: 6, [other.key]: 50 }, left: [6, 50] });
    // No member is granted more than it has declared.
    expect(ask('a', 3, { [of.key]: 60 })).toMatchObject({ epoch: 4, left: [10, 50] });
  });

  it('that are old never undo newer ones', () => {
    const { ask } = learning();
    ask('a', 0, { [of.key]: 4 });
    expect(ask('b', 0, { [of.key]: 9, [other.key]: 1 })).toMatchObject({ epoch: 1, left: [4, 100] });
    expect(ask('b', 2, { [of.key]: 9 })).toMatchObject({ epoch: 1, left: [4, 100] });
    expect(ask('b', 1, { [of.key]: 9 })).toMatchObject({ epoch: 2, left: [9, 100] });
  });

  it('hold for five minutes, and longer when something is learned anew', () => {
    const { ask } = learning();
    ask('a', 0, { [of.key]: 4 });
    expect(ask('b', 1, undefined, 300_000)).toMatchObject({ left: [4, 100] });
    expect(ask('b', 1, { [other.key]: 50 }, 300_000)).toMatchObject({ left: [4, 50] });
    expect(ask('b', 2, undefined, 600_000)).toMatchObject({ left: [4, 50] });
    expect(ask('b', 2, undefined, 600_001)).toMatchObject({ left: [10, 100], lessons: {}, epoch: 2 });
  });

  it('of a question that was asked again are taken up once', () => {
    const ledger = new CreditLedger({ isLost: false });
    const asked = question({ limits: [of], least: [0], lessons: { [of.key]: 4 } });
    expect(ledger.ask(asked, EPOCH)).toMatchObject({ epoch: 1 });
    expect(ledger.ask(asked, EPOCH)).toMatchObject({ epoch: 1 });
  });

  it('reach corrections, and know no names of what every object has', () => {
    const { ask, ledger } = learning();
    ask('a', 0, { [of.key]: 4 });
    const named = [limit({ amount: 10, windowMs: 1000 }), { ...other, key: 'constructor' }];
    expect(ask('a', 1, undefined, 0, named)).toMatchObject({ left: [4, 100] });
    ledger.correct(corrections({ limits: named, corrections: [{ credit: EPOCH, lane: 0, amounts: [3, 7] }] }), EPOCH);
    expect(ask('a', 1, undefined, 0, named)).toMatchObject({ left: [1, 93] });
  });

  it('say only what can be kept to', () => {
    const { ask } = learning();
    expect(ask('a', 0, { [of.key]: 0, [other.key]: Number.NaN })).toMatchObject({ epoch: 1, lessons: {}, left: [10, 100] });
  });
});

describe('memory', () => {
  const limits = [limit({ amount: 10, windowMs: 1000 })];
  const inside = (ledger: CreditLedger) =>
    (ledger as unknown as { scopes: Map<string, { owners: Map<string, unknown>; waiting: Map<string, unknown> }> }).scopes;

  it('keeps no owner that has not been heard of for ten minutes, and none that waits no more', () => {
    const ledger = new CreditLedger({ isLost: false });
    const ask = (owner: string, now: number) => ledger.ask(question({ owner, limits, least: [10] }), EPOCH + now);
    for (let i = 0; i < 100; i++) ask(`o${String(i)}`, i);
    const { owners, waiting } = inside(ledger).get('s')!;
    expect([owners.size, waiting.size]).toEqual([100, 99]);
    ledger.correct(corrections({ owner: 'o7', limits, corrections: [] }), EPOCH + 5000);
    ask('late', 600_050);
    // One that is heard of only in corrections is known as well.
    expect([owners.size, waiting.size]).toEqual([52, 0]);
    expect(owners.has('o7')).toBe(true);
    // A question of the same number after that is a new one.
    expect(isGranted(ask('o0', 700_000))).toBe(true);
  });

  it('keeps no scope in which nothing is left to remember', () => {
    const ledger = new CreditLedger({ isLost: false });
    const ask = (scope: string, now: number, each = limits) => ledger.ask(question({ scope, limits: each, least: [1] }), EPOCH + now);
    ask('day', 0, [limit({ amount: 1, windowMs: 86_400_000 })]);
    ledger.hold('held', 3_600_000, EPOCH);
    for (let i = 0; i < 10_000; i++) ask(`s${String(i)}`, i * 1000);
    // Ten minutes of them, and as many that have not been looked for.
    expect(inside(ledger).size).toBeLessThan(2000);
    expect(inside(ledger).has('day')).toBe(true);
    ask('more', 3_500_000);
    expect(inside(ledger).has('held')).toBe(false);
    expect(ask('day', 10_000_000, [limit({ amount: 1, windowMs: 86_400_000 })])).toMatchObject({ left: [0] });
  });
});
