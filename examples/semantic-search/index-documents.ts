import type { Embedder } from '../../src/index.js';
import type { Asker } from './asker.js';
import type { Corpus } from './documents.js';
import { endsRun, PASSAGES, reasonOf } from './embedder.js';
import { appendToJournal, type IndexedPassage, readVectors, writeIndex } from './index-file.js';
import type { Passage } from './passages.js';

export interface IndexOptions {
  readonly corpus: Corpus;
  /** Path of the index. */
  readonly output: string;
  readonly model: string;
  readonly embedder: Embedder;
  readonly asker: Asker;
  /** Nothing more is read once it aborts: texts that were accepted settle, and the next run continues. */
  readonly stop: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

export interface IndexResult {
  /** What is in the index; empty when the run was stopped. */
  readonly indexed: readonly IndexedPassage[];
  /** Different texts that were handed to the embedder, and those it has settled. */
  readonly accepted: number;
  readonly settled: number;
  /** Passages whose vector was there already. */
  readonly reused: number;
  /** Passages that the provider refused, or that failed in spite of retries. */
  readonly failed: readonly { readonly passage: Passage; readonly reason: string }[];
}

/**
 * Embeds what has no vector yet while the asker asks, and writes the index.
 *
 * @throws the error of a call after which all others would fail, too. What was embedded until then is kept.
 */
export async function indexDocuments(options: IndexOptions): Promise<IndexResult> {
  const { corpus, output, model, embedder, asker, stop, onProgress } = options;
  const vectors = await readVectors(output, model);
  const isNew = ({ sha256 }: Passage): boolean => !vectors.has(sha256);
  const reused = corpus.passages.filter((passage) => !isNew(passage)).length;
  const texts = [...new Map(corpus.passages.filter(isNew).map((passage) => [passage.sha256, passage])).values()];
  const reasons = new Map<string, string>();
  let accepted = 0;
  let settled = 0;

  function* send(): Generator<string> {
    for (const { text } of texts) {
      if (stop.aborted) return;
      accepted++;
      yield text;
    }
  }

  await asker.askAll(stop);
  const done = new AbortController();
  // A question that fails for good is followed by passages that fail for the same reason.
  const asking = asker.keepAsking(AbortSignal.any([stop, done.signal])).catch(() => undefined);
  try {
    // Read only as fast as texts are embedded.
    await embedder.embedFrom(send(), { lane: PASSAGES }).forEach((result) => {
      const { sha256 } = texts[result.index] as Passage;
      settled++;
      if (result.status === 'fulfilled') {
        vectors.set(sha256, result.value);
        appendToJournal(output, model, sha256, result.value);
      } else if (endsRun(result.reason)) throw result.reason;
      else reasons.set(sha256, reasonOf(result.reason));
      onProgress?.(settled, texts.length);
    });
  } finally {
    done.abort();
    await asking;
  }

  const failed = corpus.passages.flatMap((passage) => {
    const reason = reasons.get(passage.sha256);
    return reason === undefined ? [] : [{ passage, reason }];
  });
  if (stop.aborted) return { indexed: [], accepted, settled, reused, failed };
  const indexed = corpus.passages.flatMap((passage) => {
    const vector = vectors.get(passage.sha256);
    return vector === undefined ? [] : [{ ...passage, vector }];
  });
  if (indexed.length === 0) throw new Error(`no passage was embedded: ${failed[0]?.reason ?? ''}`);
  await writeIndex(output, { model, passages: indexed });
  return { indexed, accepted, settled, reused, failed };
}
