import type { SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';
import { Alarm, report } from '../../operators/build.js';
import type { ToolRunner } from '../pipelines/tools/runner-types.js';
import type { ToolCall, ToolResult } from '../pipelines/tools/tool-types.js';
import { sameCall } from './turn-machine.js';

export interface GuessRules {
  readonly tools: readonly string[];
  readonly ttlMs: number;
  readonly maxQueued: number;
}

/** One call on a guess. Nobody sees anything of it before it is taken. */
interface Guess {
  readonly same: string;
  readonly context: unknown;
  /** When it was made, among turns and guesses. */
  readonly turn: number;
  endsAt: number;
  readonly running: Subscription;
  result: ToolResult | undefined;
  isOver: boolean;
  whenOver: (() => void) | undefined;
}

/** A guess that has come true: whoever takes it hears of its result once, undefined when it has failed, and may leave before. */
export interface TakenGuess {
  readonly running: Subscription;
  whenOver(listener: (result: ToolResult | undefined) => void): void;
}

/** Calls on a guess, by conversation, each held until it is taken, dropped or too old. */
export class HeldGuesses {
  readonly #rules: GuessRules;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context is handed on as it is
  readonly #runner: ToolRunner<any>;
  readonly #held = new Map<string, Guess[]>();
  readonly #alarm: Alarm;
  #ids = 0;

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the context is handed on as it is
  constructor(rules: GuessRules, runner: ToolRunner<any>, scheduler: SchedulerLike) {
    this.#rules = rules;
    this.#runner = runner;
    this.#alarm = new Alarm(scheduler, () => {
      this.#expire();
    });
  }

  get size(): number {
    let size = 0;
    for (const guesses of this.#held.values()) size += guesses.length;
    return size;
  }

  /** @param turn - the newest turn of the conversation */
  make(call: Pick<ToolCall, 'name' | 'input'>, key: string, context: unknown, turn: number): boolean {
    // A guess may be none.
    const { name, input } = Object(call) as typeof call;
    const { tools, ttlMs, maxQueued } = this.#rules;
    const same = sameCall({ name, input });
    const tool = this.#runner.tools.find((known) => known.name === name);
    if (same === undefined || tool?.readOnly !== true || !tools.includes(name)) return false;
    const endsAt = this.#alarm.now() + ttlMs;
    const guesses = this.#held.get(key) ?? [];
    const equal = guesses.find((guess) => guess.same === same && guess.context === context);
    if (equal !== undefined) {
      equal.endsAt = endsAt;
      return true;
    }
    const guess: Guess = {
      same,
      context,
      turn,
      endsAt,
      running: new Subscription(),
      result: undefined,
      isOver: false,
      whenOver: undefined,
    };
    this.#held.set(key, [...guesses, guess]);
    if (guesses.length >= maxQueued) this.#drop(key, (held) => held === guesses[0]);
    this.#alarm.setBy(endsAt);
    const id = `guess_${String(++this.#ids)}`;
    const run = this.#runner.run([{ id, name, input }], { context }).subscribe({
      error: report,
      next: (result) => {
        guess.result = result.is_error ? undefined : result;
      },
      complete: () => {
        guess.isOver = true;
        guess.whenOver?.();
        // A failure is no answer to hold; whoever asks makes the call itself.
        if (guess.result === undefined) this.#drop(key, (held) => held === guess);
      },
    });
    // A guard may have had it dropped already.
    guess.running.add(run);
    return true;
  }

  /** The guess that this call comes true with, which is then no longer held. */
  take(call: ToolCall, key: string, context: unknown): TakenGuess | undefined {
    const same = sameCall(call);
    const guess = this.#held.get(key)?.find((held) => held.same === same && held.context === context);
    if (guess === undefined) return undefined;
    this.#keep(key, (held) => held !== guess);
    return {
      running: guess.running,
      whenOver: (listener) => {
        const told = (): void => {
          listener(guess.result);
        };
        if (guess.isOver) told();
        else guess.whenOver = told;
      },
    };
  }

  /** Drops what was guessed for this turn of a conversation, or before. */
  dropUpTo(key: string, turn: number): void {
    this.#drop(key, (guess) => guess.turn < turn);
  }

  dropAll(key?: string): void {
    for (const held of key === undefined ? [...this.#held.keys()] : [key]) this.#drop(held, () => true);
  }

  #drop(key: string, isDropped: (guess: Guess) => boolean): void {
    const dropped = this.#keep(key, (guess) => !isDropped(guess));
    for (const { running } of dropped) running.unsubscribe();
  }

  /** Answers those it does not keep. */
  #keep(key: string, isKept: (guess: Guess) => boolean): readonly Guess[] {
    const guesses = this.#held.get(key) ?? [];
    const kept = guesses.filter(isKept);
    if (kept.length > 0) this.#held.set(key, kept);
    else this.#held.delete(key);
    if (this.#held.size === 0) this.#alarm.clear();
    return guesses.filter((guess) => !kept.includes(guess));
  }

  #expire(): void {
    const now = this.#alarm.now();
    for (const key of [...this.#held.keys()]) this.#drop(key, ({ endsAt }) => endsAt <= now);
    let next = Infinity;
    for (const guesses of this.#held.values()) for (const { endsAt } of guesses) next = Math.min(next, endsAt);
    this.#alarm.set(next);
  }
}
