import { classifyError } from '../../../operators/index.js';
import { evidence } from '../provider.js';
import type { FinishedDocument } from './run-output.js';

/** They are about the key, the account, the address or the model, whatever was asked. */
const OF_ALL: ReadonlySet<number> = new Set([401, 402, 404, 407]);

/** Whether a refusal may be about what was asked, as filters refuse with 403 or 451, though nothing in it says so. */
export function mayBeOfRow(error: unknown): boolean {
  const { status } = evidence(error);
  if (status === undefined || status >= 500 || OF_ALL.has(status)) return false;
  // By the status alone: a word beside it that says more is about the account.
  return classifyError({ status }, { size: 1, attempt: 1, aborted: false }).class === 'fatal';
}

/**
 * Calls that were given up before their model had answered any: whether that is the fault of what they asked nobody knows. What became of their
 * documents is not written down until it is known.
 */
export class Doubts {
  readonly #write: (outcome: FinishedDocument) => void;
  readonly #answered = new Set<string>();
  /** By model, the document of each such call. */
  readonly #unanswered = new Map<string, string[]>();
  #held: FinishedDocument[] = [];

  constructor(write: (outcome: FinishedDocument) => void) {
    this.#write = write;
  }

  /** Whether there was an answer to anything. */
  get hasAnswer(): boolean {
    return this.#answered.size > 0;
  }

  answered(model: string): void {
    this.#answered.add(model);
    if (this.#unanswered.delete(model)) this.#look();
  }

  /** @returns how many calls of the model were given up without an answer to any; 0 when there is one */
  gaveUp(model: string, documentId: string): number {
    if (this.#answered.has(model)) return 0;
    const documents = this.#unanswered.get(model) ?? [];
    this.#unanswered.set(model, documents);
    return documents.push(documentId);
  }

  /** Writes down what became of a document, now or when it is known whose fault it was. */
  finished(outcome: FinishedDocument): void {
    this.#held.push(outcome);
    this.#look();
  }

  /** Nothing more will be asked: what has failed has failed. */
  end(): void {
    this.#unanswered.clear();
    this.#look();
  }

  #look(): void {
    const held = this.#held;
    this.#held = held.filter(({ documentId }) => [...this.#unanswered.values()].some((documents) => documents.includes(documentId)));
    for (const outcome of held) if (!this.#held.includes(outcome)) this.#write(outcome);
  }
}
