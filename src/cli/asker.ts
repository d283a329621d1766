import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { checkJson } from '../edge/check.js';
import { type Questions, questionsSchema } from '../edge/questions.js';
import type { Embedder } from '../pipelines/create-embedder.js';
import { CliError, EXIT } from './exit.js';
import { readTextFile } from './text-file.js';

/**
 * Pauses between questions are spread evenly over this span, by steps of the golden section: people do not ask in step with the
 * calls, and a fixed pause would measure always the same moment of a call.
 */
const LEAST_PAUSE_MS = 100;
const PAUSE_SPAN_MS = 1000;
const GOLDEN_SECTION = (Math.sqrt(5) - 1) / 2;
/** Fewer measurements say little about an idle server. */
const MIN_IDLE_QUESTIONS = 10;

/** @throws CliError (exit code 2) when the file cannot be read or does not hold questions. */
export async function readQuestions(path: string, cwd: string): Promise<Questions> {
  const checked = checkJson(questionsSchema, await readTextFile(resolve(cwd, path), `the questions \`${path}\``));
  if ('problem' in checked) {
    throw new CliError(EXIT.usage, `\`${path}\` does not hold questions (a JSON list of { question, expected }): ${checked.problem}`);
  }
  return checked.value;
}

/** Somebody who asks questions, one at a time and round robin, through the embedder the indexing runs through. */
export class Asker {
  readonly idleMs: number[] = [];
  readonly whileIndexingMs: number[] = [];
  /** The newest vector of each question. */
  readonly vectors = new Map<string, Float32Array>();
  asked = 0;
  answered = 0;
  failed = 0;
  readonly #embedder: Embedder;
  readonly #questions: readonly string[];
  readonly #signal: AbortSignal;
  readonly #onFailure: (error: unknown) => void;
  #next = 0;

  /** @param signal leaves the question unanswered. @param onFailure told every error a question met. */
  constructor(embedder: Embedder, questions: readonly string[], signal: AbortSignal, onFailure: (error: unknown) => void) {
    this.#embedder = embedder;
    this.#questions = questions;
    this.#signal = signal;
    this.#onFailure = onFailure;
  }

  /** Asks every question at least once, and ten or more in all, while nothing else is under way. Ends early when `stop` aborts. */
  async askIdle(stop: AbortSignal): Promise<void> {
    const count = this.#questions.length === 0 ? 0 : Math.max(this.#questions.length, MIN_IDLE_QUESTIONS);
    for (let i = 0; i < count && !stop.aborted; i += 1) await this.#ask(this.idleMs);
  }

  /** Asks on and on. Ends when `stop` aborts, after the question under way. */
  async askWhile(stop: AbortSignal): Promise<void> {
    while (this.#questions.length > 0 && !stop.aborted) {
      await this.#ask(this.whileIndexingMs);
      const pauseMs = LEAST_PAUSE_MS + PAUSE_SPAN_MS * ((this.#next * GOLDEN_SECTION) % 1);
      await pause(pauseMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }

  async #ask(latenciesMs: number[]): Promise<void> {
    const question = this.#questions[this.#next % this.#questions.length] as string;
    this.#next += 1;
    this.asked += 1;
    const startedAtMs = performance.now();
    try {
      this.vectors.set(question, await this.#embedder.embedAsync(question, { lane: 'P0', signal: this.#signal }));
      latenciesMs.push(performance.now() - startedAtMs);
      this.answered += 1;
    } catch (error) {
      this.failed += 1;
      if (!this.#signal.aborted) this.#onFailure(error);
    }
  }
}
