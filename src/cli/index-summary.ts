import type { SkippedFile } from './documents.js';
import type { ExitCode } from './exit.js';
import type { LatencySummary } from './latency.js';

/** A passage left out of the index. */
export interface LostPassage {
  readonly file: string;
  readonly startLine: number;
  readonly endLine: number;
  /** In the provider's words. */
  readonly reason: string;
}

export interface QuestionResult {
  readonly question: string;
  readonly expected: string;
  /** File of the best passage; undefined when the question got no vector. */
  readonly found: string | undefined;
  readonly score: number | undefined;
  readonly hit: boolean;
}

/** What one run did; `--json` prints it as it is. */
export interface IndexSummary {
  readonly exitCode: ExitCode;
  readonly interrupted: boolean;
  readonly index: string;
  readonly journal: string;
  readonly model: string;
  readonly documents: number;
  /** Passages the documents were cut into, and those of them in the index. */
  readonly chunks: number;
  readonly indexed: number;
  /** Passages that got their vector in this run, from the old index or a journal, and from an equal text. */
  readonly embedded: number;
  readonly reused: number;
  readonly duplicates: number;
  readonly calls: number;
  /** Calls the same texts and questions would have taken one by one. */
  readonly callsWithoutBatching: number;
  /** Mean size of the background batches, as a share of `maxBatch`. */
  readonly meanFill: number;
  readonly throttled: number;
  readonly retries: number;
  readonly splits: number;
  /** Calls of background texts: how long a question may have to wait for a slot. */
  readonly backgroundCalls: LatencySummary;
  readonly poisoned: readonly LostPassage[];
  readonly failed: readonly LostPassage[];
  readonly skipped: readonly SkippedFile[];
  readonly p0Idle: LatencySummary;
  readonly p0WhileIndexing: LatencySummary;
  readonly questionsFailed: number;
  readonly questions: readonly QuestionResult[];
  /** Texts and questions handed to the embedder, those that came back, and the difference. */
  readonly accepted: number;
  readonly settled: number;
  readonly lost: number;
  /** What could not be reused and why. */
  readonly notes: readonly string[];
  readonly durationMs: number;
}
