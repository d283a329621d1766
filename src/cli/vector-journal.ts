import { checkJson } from '../edge/check.js';
import { journalLineSchema } from '../edge/index-lines.js';
import { Journal, type JournalContent, readJournal } from './journal.js';
import { decodeVector, encodeVector } from './vectors.js';

/** Vectors that are known already, by {@link vectorKey}. */
export type VectorCache = Map<string, Float32Array>;

/** A vector belongs to a text and to the model that made it. */
export function vectorKey(model: string, sha256: string): string {
  return `${sha256} ${model}`;
}

/**
 * Reads the vectors that earlier, unfinished runs have got.
 *
 * @param shown what the user knows the path as.
 * @throws CliError: exit code 2 when the file holds no line of a journal, 4 when it cannot be read.
 */
export async function readVectorJournal(path: string, shown = path): Promise<JournalContent & { readonly vectors: VectorCache }> {
  const vectors: VectorCache = new Map();
  const content = await readJournal(path, shown, 'give another index, or remove it first', (json) => {
    const checked = checkJson(journalLineSchema, json);
    const vector = 'problem' in checked ? undefined : decodeVector(checked.value.vector);
    if ('problem' in checked || vector === undefined) return false;
    vectors.set(vectorKey(checked.value.model, checked.value.sha256), vector);
    return true;
  });
  return { vectors, ...content };
}

/** Keeps vectors as they arrive. */
export class VectorJournal {
  readonly #journal: Journal;

  private constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** @throws CliError (exit code 4) when the file cannot be written. */
  static async open(path: string, length: number): Promise<VectorJournal> {
    return new VectorJournal(await Journal.open(path, length));
  }

  /** @throws CliError (exit code 4) when an earlier write has failed. */
  add(model: string, sha256: string, vector: Float32Array): void {
    void this.#journal.add({ model, sha256, vector: encodeVector(vector) });
  }

  /** @throws CliError (exit code 4) when something could not be written. */
  close(): Promise<void> {
    return this.#journal.close();
  }
}
