import fc from 'fast-check';
import type { Credit, CreditCorrections, CreditLimit, CreditQuestion, CreditStore, CreditWait } from '../../../operators/index.js';
import { CreditLedger } from '../../../operators/kernel/index.js';

const EPOCH = 1_790_000_000_000;
const DAY_MS = 10_000;
const KINDS = ['bucket', 'fraction', 'window', 'calendar', 'second', 'reserved', 'other unit', 'minute', 'hour'] as const;
type Kind = (typeof KINDS)[number];

/** The same as a store takes it, and when. */
export type Said = { readonly time: number } & (
  | { readonly ask: CreditQuestion }
  | { readonly correct: CreditCorrections }
  | { readonly hold: { readonly scope: string; readonly ms: number } }
);

const SCOPES = ['account', 'account', 'account', '__proto__', 'a {model}\n\ud800'];

/** @param earlyMs - how much the clock of the owner, which says when a calendar window ends, is ahead */
function limitsOf(kinds: readonly Kind[], share: number, now: number, earlyMs: number): CreditLimit[] {
  const endsInMs = (windowMs: number): number => windowMs - ((now + earlyMs) % windowMs);
  return kinds.flatMap((kind): CreditLimit[] => {
    const key = `${kind} "\ud800"`;
    switch (kind) {
      case 'bucket':
        return [{ key, column: 0, amount: 1000 * share, windowMs: 2000, burst: 30 * share, fromLane: 0 }];
      case 'fraction':
        return [{ key, column: 0, amount: (1000 / 3) * share, windowMs: 700.5, burst: 2.1, fromLane: 0 }];
      case 'window':
        return [{ key, column: 0, amount: 700 * share, windowMs: 1500, fromLane: 0 }];
      case 'calendar':
        return [{ key, column: 0, amount: 2000 * share, windowMs: DAY_MS, endsInMs: endsInMs(DAY_MS), fromLane: 0 }];
      case 'second':
        return [{ key, column: 0, amount: 300 * share, windowMs: 1000, endsInMs: endsInMs(1000), fromLane: 0 }];
      case 'reserved':
        return [
          { key, column: 0, amount: 800 * share, windowMs: 3000, burst: 180 * share, fromLane: 0 },
          { key: `${key} below`, column: 0, amount: 640 * share, windowMs: 3000, burst: 20 * share, fromLane: 1 },
        ];
      case 'other unit':
        return [
          { key, column: 1, amount: 40 * share, windowMs: 1000, burst: 4, fromLane: 0 },
          { key: `${key} strict`, column: 1, amount: 100 * share, windowMs: 4000, fromLane: 0 },
        ];
      case 'minute':
        return [{ key, column: 0, amount: 12_000 * share, windowMs: 60_000, burst: 240 * share, fromLane: 0 }];
      case 'hour':
        return [{ key, column: 0, amount: 5000 * share, windowMs: 3_600_000, burst: 500 * share, fromLane: 0 }];
    }
  });
}

const step: fc.Arbitrary<Step> = fc.record({
  what: fc.constantFrom(
    ...(['ask', 'ask', 'ask', 'ask', 'ask', 'ask', 'ask', 'correct', 'correct', 'unknown'] as const),
    ...(['repeat', 'overtaken', 'again', 'lesson', 'lesson', 'hold', 'die'] as const),
  ),
  afterMs: fc.constantFrom(0, 0, 1, 3, 7, 20, 20, 33, 60, 150, 400, 1200, 1500, 2500, 9000, 70_000, 700_000, -5, -300, -50_000),
  who: fc.nat({ max: 3 }),
  scope: fc.constantFrom(...SCOPES),
  size: fc.nat({ max: 1000 }),
  more: fc.nat({ max: 200 }),
});

interface Step {
  readonly what: 'ask' | 'correct' | 'unknown' | 'repeat' | 'overtaken' | 'again' | 'lesson' | 'hold' | 'die';
  readonly afterMs: number;
  readonly who: number;
  readonly scope: string;
  readonly size: number;
  readonly more: number;
}

interface Player {
  owner: string;
  number: number;
  corrected: number;
  epoch: number;
  credit: Credit | undefined;
  question: CreditQuestion | undefined;
}

/** A series of messages of several owners, with what a ledger answers to each. */
export interface Sequence {
  readonly isLost: boolean;
  readonly said: readonly Said[];
  readonly answers: readonly (Credit | CreditWait | undefined)[];
}

/** Messages as several limiters send them over one or more scopes, on a clock that is sometimes set back. */
export const sequence: fc.Arbitrary<Sequence> = fc
  .record({
    kinds: fc.uniqueArray(fc.constantFrom(...KINDS), { minLength: 1, maxLength: 4 }),
    guards: fc.constantFrom([200, 200, 200, 200], [200, 200, 200, 200], [50, 50, 400, 50]),
    shares: fc.constantFrom([1, 1, 1, 1], [1, 1, 1, 1], [1, 0.5, 1, 2]),
    isLost: fc.boolean(),
    // Limits are only full where little time passes.
    isDense: fc.boolean(),
    floors: fc.constantFrom([0, 0.1], [0, 0.1, 0.3], [0]),
    steps: fc.array(step, { minLength: 1, maxLength: 60, size: 'max' }),
  })
  .map(({ isDense, isLost, steps, ...of }) => {
    const conversation = new Conversation(isLost, of);
    for (const each of steps) conversation.do(isDense ? { ...each, afterMs: each.afterMs % 40 } : each);
    return { isLost, said: conversation.said, answers: conversation.answers };
  });

class Conversation {
  readonly said: Said[] = [];
  readonly answers: (Credit | CreditWait | undefined)[] = [];
  private readonly ledger: CreditLedger;
  private readonly players: Player[] = [];
  private owners = 0;
  private clock = EPOCH;
  private now = -Infinity;
  private behindMs = 0;

  constructor(
    isLost: boolean,
    private readonly of: {
      readonly kinds: readonly Kind[];
      readonly guards: readonly number[];
      readonly shares: readonly number[];
      readonly floors: readonly number[];
    },
  ) {
    this.ledger = new CreditLedger({ isLost });
    for (let i = 0; i < 4; i++) this.players.push(this.newPlayer());
  }

  do({ afterMs, more, scope, size, what, who }: Step): void {
    this.clock += afterMs;
    // What the store takes for the time, if it is told something now.
    const now = this.clock + Math.max(this.behindMs, this.now - this.clock);
    const player = this.players[who] as Player;
    const { owner } = player;
    const { floors, kinds } = this.of;
    const [guardMs, share] = [this.of.guards[who] as number, this.of.shares[who] as number];
    const limits = limitsOf(kinds, share, now, who === 3 ? 35 : 0);
    // Sometimes a limiter asks for another lane.
    const lane = (size % 5 === 0 ? who + 1 : who) % floors.length;
    switch (what) {
      case 'ask':
      case 'lesson': {
        const cost = ((size % 10 === 0 ? size : size % 100) * share * 3) / 4;
        const least = [cost, kinds.includes('other unit') ? size % 7 : 0];
        const most = least.map((amount, column) => (size % 3 === 0 ? amount : amount + (column === 0 ? more : more % 5)));
        const [first] = limits as [CreditLimit];
        const lessons = what === 'lesson' ? { lessons: { [first.key]: first.amount * (0.3 + size / 1000), other: size % 2 } } : {};
        const number = ++player.number;
        this.ask(player, { scope, owner, number, limits, guardMs, lane, floors, least, most, epoch: player.epoch, ...lessons });
        return;
      }
      case 'repeat':
        if (player.question) this.ask(player, { ...player.question, least: [1, 1], most: [9, 9], limits });
        return;
      case 'overtaken':
        if (player.question && player.number > 1) this.ask(player, { ...player.question, number: player.number - 1 });
        return;
      case 'correct':
      case 'again':
      case 'unknown': {
        const credit = what === 'unknown' ? now - 20 * size : (player.credit?.credit ?? 0);
        const number = what === 'again' ? player.corrected : ++player.corrected;
        const amounts = [(size % 150) - 100, (size % 5) - 2];
        this.say({
          time: this.clock,
          correct: { scope, owner, number, limits, guardMs, corrections: [{ credit, lane, amounts }] },
        });
        return;
      }
      case 'hold':
        this.say({ time: this.clock, hold: { scope, ms: size % 5 === 0 ? 0 : size % 7 === 0 ? Infinity : size / 2 } });
        return;
      case 'die':
        this.players[who] = this.newPlayer();
    }
  }

  private ask(player: Player, question: CreditQuestion): void {
    const answer = this.say({ time: this.clock, ask: question });
    player.question = question;
    if (!answer) return;
    player.epoch = answer.epoch;
    if ('credit' in answer) player.credit = answer;
  }

  private say(said: Said): Credit | CreditWait | undefined {
    let answer: Credit | CreditWait | undefined;
    this.behindMs = Math.max(this.behindMs, this.now - this.clock);
    this.now = this.clock + this.behindMs;
    if ('ask' in said) answer = this.ledger.ask(said.ask, this.now);
    else if ('correct' in said) this.ledger.correct(said.correct, this.now);
    else this.ledger.hold(said.hold.scope, said.hold.ms, this.now);
    this.said.push(said);
    this.answers.push(answer && { ...answer });
    return answer;
  }

  private newPlayer(): Player {
    const owner = `owner ${String(++this.owners)} "\udc00"`;
    return { owner, number: 0, corrected: 0, epoch: 0, credit: undefined, question: undefined };
  }
}

/** Says it to a store. */
export function sayTo(store: CreditStore, said: Said): unknown {
  if ('ask' in said) return store.ask(said.ask);
  return 'correct' in said ? store.correct(said.correct) : store.hold(said.hold.scope, said.hold.ms);
}
