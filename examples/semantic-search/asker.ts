import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { checkJson } from '../../src/edge/check.js';
import type { Embedder } from '../../src/index.js';
import { endsRun, QUESTIONS } from './embedder.js';

const questionsSchema = z.array(z.strictObject({ question: z.string().min(1), expected: z.string().min(1) })).min(1);

/** Questions, each with the document that answers it. */
export type Questions = z.infer<typeof questionsSchema>;

export async function readQuestions(path: string): Promise<Questions> {
  const questions = checkJson(questionsSchema, await readFile(path, 'utf8'));
  if ('problem' in questions)
    throw new Error(`\`${path}\` does not hold questions (a JSON list of { question, expected }): ${questions.problem}`);
  return questions.value;
}

/** Pauses differ by steps of the golden section: with equal pauses, all questions might meet the calls at the same moment. */
const PAUSE_MS = { least: 100, span: 1000, step: 0.618 };

/** A user with one question after the other, sent through the same embedder as the passages. */
export class Asker {
  readonly idleMs: number[] = [];
  readonly busyMs: number[] = [];
  /** The vector of each question that was answered. */
  readonly vectors = new Map<string, Float32Array>();
  failed = 0;
  readonly #embedder: Embedder;
  readonly #questions: readonly string[];
  #asked = 0;

  constructor(embedder: Embedder, questions: Questions) {
    this.#embedder = embedder;
    this.#questions = questions.map(({ question }) => question);
  }

  get asked(): number {
    return this.#asked;
  }

  /** Asks each question once, with nothing else under way. */
  async askAll(stop: AbortSignal): Promise<void> {
    for (let i = 0; i < this.#questions.length && !stop.aborted; i++) await this.#ask(this.idleMs);
  }

  /** Asks until `stop` aborts. */
  async keepAsking(stop: AbortSignal): Promise<void> {
    while (this.#questions.length > 0 && !stop.aborted) {
      await this.#ask(this.busyMs);
      const pauseMs = PAUSE_MS.least + PAUSE_MS.span * ((this.#asked * PAUSE_MS.step) % 1);
      await sleep(pauseMs, undefined, { signal: stop }).catch(() => undefined);
    }
  }

  async #ask(latenciesMs: number[]): Promise<void> {
    const question = this.#questions[this.#asked++ % this.#questions.length] ?? '';
    const startedAt = performance.now();
    try {
      this.vectors.set(question, await this.#embedder.embedAsync(question, { lane: QUESTIONS }));
      latenciesMs.push(performance.now() - startedAt);
    } catch (error) {
      this.failed++;
      if (endsRun(error)) throw error;
    }
  }
}
